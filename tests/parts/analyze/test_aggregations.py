"""What Spark says of traces is what a plain loop over their rows says."""

from __future__ import annotations

import io
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulsar
import pytest

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.analyze.aggregations import aggregate
from pulsar_doctor.parts.analyze.aggregations.histogram import histogram
from pulsar_doctor.parts.analyze.aggregations.stalls import brief, long_or_found
from pulsar_doctor.parts.analyze.aggregations.subscriptions import ranked
from pulsar_doctor.parts.analyze.aggregations.subscriptions import subscriptions as subscriptions_by
from pulsar_doctor.parts.analyze.analysis import TABLES, Analysis
from pulsar_doctor.parts.analyze.reading import read_traces
from pulsar_doctor.parts.analyze.report.analysis import Growing, report
from pulsar_doctor.parts.analyze.running import aggregated, analyzed
from pulsar_doctor.parts.analyze.source import TraceSource
from pulsar_doctor.parts.consume import attach
from pulsar_doctor.parts.tap.relaying import relaying
from pulsar_doctor.report.paper import console_on
from pulsar_doctor.trace.sealing import open_trace
from tests.parts.analyze import made_traces, twin
from tests.parts.analyze.plans import moved_unreduced

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Values = dict[str, Any]

BUCKET_US = 1_000_000

pytestmark = pytest.mark.timeout(300)  # a busy machine
IN_TRACE = ("trace_id", "topic", "subscription")
QUIET = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")

COLUMNS = {
    "consumers": "trace_id string, incarnation int, topic string, subscription string,"
    " subscription_type string, consumer_name string, client_version string,"
    " receiver_queue_size int, flow_count bigint, flow_p50 int, flow_p99 int,"
    " permits_granted bigint, permits_spent bigint, messages bigint, entries bigint, bytes bigint,"
    " batch_mean double, batch_most int, redeliveries bigint, acks_individual bigint,"
    " acks_cumulative bigint, acknowledged bigint, starvations bigint, starved_us bigint,"
    " longest_starved_us bigint, available_permits int, unacked_messages int, unacked_most int,"
    " first_seen timestamp, last_seen timestamp, acknowledged_least bigint, untold_acks bigint,"
    " certain boolean",
    "gaps": "trace_id string, incarnation int, topic string, subscription string,"
    " consumer_name string, measure string, count bigint, p50_us bigint, p90_us bigint,"
    " p99_us bigint, max_us bigint, error double, untold bigint",
    "stalls": "trace_id string, incarnation int, topic string, subscription string,"
    " consumer_name string, start timestamp, end timestamp, duration_us bigint, ended_by string,"
    " unacked_at_start int, available_lowest int, acknowledged bigint, code string,"
    " severity string, acknowledged_least bigint",
    "timeline": "trace_id string, topic string, start timestamp, bucket_us bigint,"
    " delivered bigint, acknowledged bigint, flows bigint, lowest_available int,"
    " starved_consumers bigint, acknowledged_least bigint, certain boolean",
    "subscriptions": "topic string, subscription string, consumers bigint,"
    " starved_consumers bigint, starved_share double, starved_us bigint, stalls bigint,"
    " messages bigint, acknowledged bigint, redeliveries bigint, unacked_messages bigint,"
    " hoarder string, hoarder_share double, skew double, acknowledged_least bigint,"
    " unacked_least bigint, certain boolean",
    "holes": "trace_id string, topic string, subscription string, entries bigint,"
    " acknowledged_entries bigint, holes bigint, partly_acknowledged bigint, oldest_hole string,"
    " highest_acknowledged string, certain boolean",
}
PER_TRACE = ("consumers", "gaps", "stalls", "timeline", "subscriptions", "holes")
MADE = [maker.__name__ for maker in made_traces.MAKERS]


@dataclass(frozen=True)
class Both:
    """The same traces seen by both: table -> rows, times as microseconds since 1970."""

    rows: list[Values]
    spark: dict[str, list[Values]]
    types: dict[str, list[tuple[str, str]]]
    plans: dict[str, str]

    def of(self, table: str, trace: str) -> tuple[list[Values], list[Values]]:
        """What both say of the traces of one maker."""
        rows = [row for row in self.rows if _made_by(row, trace)]
        said = [row for row in self.spark[table] if _made_by(row, trace)]
        return said, TWINS[table](rows)


TWINS = {
    "consumers": twin.consumers,
    "gaps": twin.gaps,
    "stalls": twin.stalls,
    "timeline": lambda rows: twin.timeline(rows, BUCKET_US),
    "subscriptions": lambda rows: twin.subscriptions(rows, IN_TRACE),
    "holes": twin.holes,
}


def _made_by(row: Values, trace: str) -> bool:
    return bool(row["trace_id"].partition("-")[0] == trace)


def both(spark: SparkSession, paths: Sequence[Path]) -> Both:
    source = read_traces(spark, [str(path) for path in paths])
    with aggregated(source, BUCKET_US) as tables:  # as `analyze` does it
        named = {name: getattr(tables, name) for name in COLUMNS}
        return Both(
            rows=twin.of_traces(paths),
            spark={
                **{name: collected(frame) for name, frame in named.items()},
                "subscriptions": collected(subscriptions_by(tables.consumers, IN_TRACE)),
                "over all traces": collected(ranked(tables.subscriptions)),
                "long or found": collected(long_or_found(tables.stalls, BUCKET_US)),
                "brief": collected(brief(tables.stalls, BUCKET_US)),
                "none is brief": collected(tables.brief_stalls),
            },
            types={name: frame.dtypes for name, frame in named.items()},
            plans=dict(_plans(source)),
        )


def _plans(source: TraceSource) -> Iterator[tuple[str, str]]:
    """Of each table and pass, whole: what is kept without its plan would not show it."""
    tables = aggregate(source.rows, bucket_us=BUCKET_US, exact=True, breaks=source.breaks)
    for name in COLUMNS:
        yield name, plan(getattr(tables, name))
    for name, each in tables.passes.items():
        yield f"pass {name}", plan(each.made)
    yield "pass histogram", plan(histogram(source.rows, exact=True))
    tables.forget()


def collected(frame: DataFrame) -> list[Values]:
    from pyspark.sql import functions as F

    times = [name for name, kind in frame.dtypes if kind == "timestamp"]
    plain = frame.withColumns({name: F.unix_micros(name) for name in times}) if times else frame
    return [row.asDict() for row in plain.collect()]


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def assert_same(said: list[Values], expected: list[Values]) -> None:
    """The same rows, in whatever order; a column at a time, so that a difference can be read."""

    def key(row: Values) -> str:
        names = ("trace_id", "incarnation", "topic", "subscription", "measure", "start", "end")
        return repr([row.get(name) for name in names])

    said, expected = sorted(said, key=key), sorted(expected, key=key)
    assert [key(row) for row in said] == [key(row) for row in expected]
    for ours, theirs in zip(said, expected, strict=True):
        for name, value in theirs.items():
            where = f"{name} of {key(theirs)}"
            if isinstance(value, float) and ours[name] is not None:
                assert math.isclose(ours[name], value, rel_tol=1e-9), where
            else:
                assert ours[name] == value, where


# --- traces that were made ---


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("made")
    return [path for maker in made_traces.MAKERS for path in maker(folder / maker.__name__)]


@pytest.fixture(scope="module")
def made(spark: SparkSession, paths: list[Path]) -> Both:
    return both(spark, paths)


@pytest.mark.parametrize("trace", MADE)
@pytest.mark.parametrize("table", PER_TRACE)
def test_spark_says_what_the_rows_say(made: Both, table: str, trace: str) -> None:
    said, expected = made.of(table, trace)
    assert_same(said, expected)


def test_nothing_is_said_of_other_traces(made: Both) -> None:
    for table in PER_TRACE:
        assert {row["trace_id"].partition("-")[0] for row in made.spark[table]} <= set(MADE)


def test_subscriptions_are_over_all_traces_and_the_worst_come_first(made: Both) -> None:
    said = made.spark["over all traces"]
    assert_same(said, twin.subscriptions(made.rows, ("topic", "subscription")))
    worst = [(row["starved_us"], row["starved_share"], row["redeliveries"]) for row in said]
    assert worst == sorted(worst, reverse=True)


def test_what_is_too_short_for_a_stall_is_counted(made: Both) -> None:
    every = made.spark["stalls"]
    short = [row for row in every if row["duration_us"] < BUCKET_US and not row["code"]]
    assert_same(made.spark["long or found"], [row for row in every if row not in short])
    expected: Counter[tuple[Any, ...]] = Counter()
    total_us: Counter[tuple[Any, ...]] = Counter()
    for row in short:
        below_us = next(10**n for n in range(3, 7) if row["duration_us"] < 10**n)
        expected[row["trace_id"], row["incarnation"], below_us] += 1
        total_us[row["trace_id"], row["incarnation"], below_us] += row["duration_us"]
    said = {
        (row["trace_id"], row["incarnation"], row["below_us"]): (row["count"], row["total_us"])
        for row in made.spark["brief"]
    }
    assert said == {key: (expected[key], total_us[key]) for key in expected}
    assert len({below_us for _, _, below_us in said}) >= 3
    assert made.spark["none is brief"] == []


@pytest.mark.parametrize("table", list(COLUMNS))
def test_the_columns_are_as_promised(made: Both, table: str) -> None:
    expected = [tuple(column.split()) for column in COLUMNS[table].split(",")]
    assert made.types[table] == expected


def test_the_traces_have_what_they_are_made_for(made: Both) -> None:
    """Otherwise there would be nothing to compare."""
    stalls = twin.stalls(made.rows)
    assert {stall["ended_by"] for stall in stalls} == {
        "flow", "ack", "redelivery", "reconnect", "close", "not_known", "end_of_trace",
    }  # fmt: skip
    assert any(stall["unacked_at_start"] is None for stall in stalls)
    assert any(each["acknowledged"] is None and each["acknowledged_least"] for each in stalls)
    consumers = twin.consumers(made.rows)
    assert {consumer["acknowledged"] is None for consumer in consumers} == {True, False}
    assert any(c["acknowledged"] is None and c["acknowledged_least"] for c in consumers)
    assert {consumer["certain"] for consumer in consumers} == {True, False}
    assert any(row["incarnation"] and row["available_permits"] is None for row in made.rows)
    holes = twin.holes(made.rows)
    assert sum(row["holes"] for row in holes) > 100
    assert sum(row["partly_acknowledged"] for row in holes) > 10


# --- percentiles of buckets ---


@pytest.mark.slow
def test_a_percentile_of_buckets_is_as_near_as_it_says(
    spark: SparkSession, paths: list[Path], made: Both
) -> None:
    source = read_traces(spark, [str(path) for path in paths])
    tables = aggregate(source.rows, bucket_us=BUCKET_US, exact=False, breaks=source.breaks)
    said = {(*_consumer(row), row["measure"]): row for row in collected(tables.gaps)}
    tables.forget()
    exact = {(*_consumer(row), row["measure"]): row for row in twin.gaps(made.rows)}
    assert said.keys() == exact.keys()
    inexact = 0
    for key, row in said.items():
        assert row["error"] == twin.ERROR_OF_BUCKETS
        assert (row["count"], row["max_us"]) == (exact[key]["count"], exact[key]["max_us"])
        for name in ("p50_us", "p90_us", "p99_us"):
            least = exact[key][name]
            assert least <= row[name] <= twin.bucketed(least), (key, name)
            assert row[name] <= least * (1 + row["error"]), (key, name)
            inexact += row[name] != least
    assert inexact, "all of them are exact: nothing was put into buckets"


def _consumer(row: Values) -> tuple[str, int]:
    return row["trace_id"], row["incarnation"]


def test_the_largest_value_of_a_bucket_is_at_most_so_much_above() -> None:
    for value in [*range(70_000), *(3**n for n in range(39))]:
        assert value <= twin.bucketed(value) <= value * (1 + twin.ERROR_OF_BUCKETS)
        assert twin.bucketed(twin.bucketed(value)) == twin.bucketed(value)


# --- the twin against the ledgers ---


def test_the_twin_agrees_with_the_ledgers(paths: list[Path]) -> None:
    """Of consumers whose every command is there, the timeline has counted for itself."""
    compared = 0
    for path in paths:
        rows = twin.of_traces([path])
        if not rows or rows[0]["seq"]:
            continue
        said = {row["incarnation"]: row for row in twin.consumers(rows)}
        for consumer in open_trace(path).timeline().consumers:
            ledger, row = consumer.ledger, said[consumer.incarnation]
            if ledger.uncertain:
                assert not row["certain"]
                continue
            if not row["certain"]:
                assert not row["flow_count"]  # one that was refused before commands were lost
                continue
            compared += 1
            assert row["permits_granted"] == ledger.granted
            assert (row["permits_spent"], row["entries"]) == (ledger.spent, ledger.entries)
            # Acks of another consumer may change these after its last row.
            assert row["available_permits"] <= ledger.available_permits
            assert row["unacked_messages"] >= ledger.unacked
    assert compared > 100


def test_the_twin_counts_the_times_without_permits_that_the_ledgers_count(
    paths: list[Path],
) -> None:
    """Also those that nothing has ended, and those whose end is missing: as far as is known."""
    seen: Counter[str] = Counter()
    for path in paths:
        rows = twin.of_traces([path])
        if not rows or rows[0]["seq"]:
            continue
        said = {row["incarnation"]: row for row in twin.consumers(rows)}
        timeline = open_trace(path).timeline()
        end_ns = max(row["mono_ns"] for row in rows)
        for consumer in timeline.consumers:
            row, closed_ns = said[consumer.incarnation], consumer.closed_ns
            counted = consumer.ledger.starvation(end_ns if closed_ns is None else closed_ns)
            where = (str(path), consumer.incarnation)
            assert row["starved_us"] == counted.total_ns // 1000, where
            assert (row["longest_starved_us"] or 0) == counted.longest_ns // 1000, where
            kinds = {
                "goes on": consumer.ledger.starved_since_ns is not None,
                "uncertain": consumer.ledger.uncertain and counted.total_ns > 0,
                "several": counted.total_ns > counted.longest_ns,
            }
            seen.update(kind for kind, holds in kinds.items() if holds)
    assert {kind for kind, times in seen.items() if times > 5} >= {"goes on", "several"}, seen
    assert seen["uncertain"], seen


# --- plans ---


def test_each_job_says_which_table_it_makes(spark: SparkSession, paths: list[Path]) -> None:
    said: dict[str, str | None] = {}

    @contextmanager
    def looking(what: str) -> Iterator[None]:
        yield
        said[what] = spark.sparkContext.getLocalProperty("spark.job.description")

    source = read_traces(spark, [str(path) for path in paths])
    with aggregated(source, 1_000_000) as tables:
        analyzed(source, tables, 1_000_000, looking)
    assert said == {table: f"pulsar-doctor analyze: {table}" for table in TABLES}
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None


def test_where_a_table_fails_those_before_it_are_printed(
    spark: SparkSession, paths: list[Path]
) -> None:
    from pyspark.sql import functions as F

    source = read_traces(spark, [str(paths[0])])
    printed, whole, there = io.StringIO(), io.StringIO(), list[Analysis]()
    growing = Growing(console_on(printed), top=10)

    def ready(found: Analysis) -> None:
        growing.show(found)
        there.append(found)

    with aggregated(source, 1_000_000) as tables:
        failing = F.raise_error(F.lit("no such luck")).cast("bigint")
        broken = replace(tables, holes=tables.holes.withColumn("holes", failing))
        with pytest.raises(DoctorError, match=r"^analyzing the traces: no such luck"):
            analyzed(source, broken, 1_000_000, lambda _: nullcontext(), ready)
    assert len(there) == len(TABLES) - 1
    console_on(whole).print(report(there[-1]))
    assert printed.getvalue() == whole.getvalue().partition("\nHoles")[0]
    assert "\nGaps" in printed.getvalue()


@pytest.mark.parametrize("table", ["consumers", "gaps", "stalls", "timeline", "subscriptions"])
def test_rows_are_neither_sorted_nor_moved_before_they_are_grouped(made: Both, table: str) -> None:
    assert moved_unreduced(made.plans[table]) == []


def test_nor_in_what_the_aggregates_share(made: Both) -> None:
    passes = [name for name in made.plans if name.startswith("pass")]
    assert passes
    assert [name for name in passes if moved_unreduced(made.plans[name])] == []


def test_each_pass_reads_the_rows_once(made: Both) -> None:
    passes = ("profile", "moments", "histogram", "blocks")
    # A plan that has run is shown twice: as it ran, and as it was made.
    plans = [made.plans[f"pass {name}"].rpartition("== Initial Plan ==")[2] for name in passes]
    assert [each.count("FileScan") for each in plans] == [1] * len(passes)


def test_no_executor_needs_python_for_what_the_driver_knows(made: Both) -> None:
    """What createDataFrame makes of rows is pickled, and read by a Python of the executor's."""
    assert [name for name, plan in made.plans.items() if "ExistingRDD" in plan] == []


def test_the_check_of_plans_sees_what_it_is_for(spark: SparkSession, paths: list[Path]) -> None:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    rows = read_traces(spark, [str(paths[0])]).rows
    before = F.lag("ts").over(Window.partitionBy("trace_id").orderBy("seq"))
    in_order = rows.sortWithinPartitions("seq")
    in_order = in_order.withColumn("number", F.monotonically_increasing_id())
    wrong = {
        "sorted": in_order.groupBy("trace_id").agg(F.max("number")),
        "moved": rows.repartition("incarnation").groupBy("trace_id").count(),
        "in a window": rows.withColumn("before", before).groupBy("trace_id").agg(F.max("before")),
        "joined": rows.hint("merge").join(rows.select("seq"), ["seq"]).groupBy("trace_id").count(),
        "all brought together": rows.join(F.broadcast(rows.select("seq")), ["seq"]),
        "grouped by sorting": rows.groupBy("trace_id").agg(F.max("command")),
    }
    assert {name for name, frame in wrong.items() if not moved_unreduced(plan(frame))} == set()
    assert moved_unreduced(plan(rows.groupBy("trace_id", "command").count().orderBy("count"))) == []


# --- traces of real clients ---


@pytest.fixture(scope="module")
def real(spark: SparkSession, broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Through a tap: a slow consumer, one without a queue, and one that came back."""
    path = tmp_path_factory.mktemp("real") / "t.ptrace"
    topic = f"persistent://public/default/aggregated-{time.time_ns()}"
    direct = pulsar.Client(broker.service_url, logger=QUIET)
    for subscription in ("large", "none", "again"):
        direct.subscribe(topic, subscription, pulsar.ConsumerType.Shared).close()
    attach.produce(direct, topic, 120)
    with relaying(broker.service_url, path) as relay:
        _consume(relay.service_url, topic, "large", queue=100, messages=8, pause=0.02)
        _consume(relay.service_url, topic, "none", queue=0, messages=10)
        for _ in range(2):
            _consume(relay.service_url, topic, "again", queue=10, messages=17)
        relay.flush()
    direct.close()
    open_trace(path)
    return both(spark, [path])


def _consume(
    url: str, topic: str, subscription: str, *, queue: int, messages: int, pause: float = 0.0
) -> None:
    client = pulsar.Client(url, logger=QUIET)
    consumer = client.subscribe(
        topic, subscription, pulsar.ConsumerType.Shared,
        receiver_queue_size=queue, consumer_name=f"{subscription}-1",
    )  # fmt: skip
    for number in range(messages):
        message = consumer.receive() if queue == 0 else consumer.receive(timeout_millis=10_000)
        time.sleep(pause)
        if number % 5 != 3:
            consumer.acknowledge(message)
    time.sleep(0.3)
    client.close()


@pytest.mark.slow
@pytest.mark.parametrize("table", PER_TRACE)
def test_spark_says_what_the_rows_of_real_clients_say(real: Both, table: str) -> None:
    assert_same(real.spark[table], TWINS[table](real.rows))


@pytest.mark.slow
def test_real_clients_are_seen_as_they_are(real: Both) -> None:
    """Not only the same twice, but right: what is known of them beside their trace."""
    consumers = {(row["subscription"], row["incarnation"]): row for row in real.spark["consumers"]}
    large, none, *again = (consumers[key] for key in sorted(consumers, key=lambda key: key[1]))
    assert (large["receiver_queue_size"], large["flow_count"]) == (100, 1)
    assert (none["receiver_queue_size"], none["flow_count"]) == (None, 10)
    assert [row["receiver_queue_size"] for row in again] == [10, 10]
    assert (large["messages"], large["available_permits"]) == (100, 0)
    assert [row["acknowledged"] for row in (large, none, *again)] == [7, 8, 14, 14]
    assert all(row["bytes"] > 0 and row["starvations"] for row in consumers.values())
    last = {  # the time without permits in which each was closed, 0.3 s after its last message
        stall["incarnation"]: stall
        for stall in sorted(real.spark["stalls"], key=lambda stall: stall["start"])
    }
    assert all(stall["duration_us"] > 200_000 for stall in last.values())
    assert [last[each]["ended_by"] for _, each in sorted(consumers, key=lambda key: key[1])] == [
        "close", "close", "reconnect", "close",
    ]  # fmt: skip
    holes = {row["subscription"]: row for row in real.spark["holes"]}
    assert holes["none"]["holes"] == 2
