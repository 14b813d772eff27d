"""A part of traces is analyzed as if there were no more: on this machine and where Spark looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pulsar_doctor.errors import InputError, TraceError
from pulsar_doctor.parts.analyze.aggregations.subscriptions import subscriptions as subscriptions_by
from pulsar_doctor.parts.analyze.reading import Looked, look, read_traces
from pulsar_doctor.parts.analyze.running import aggregated
from pulsar_doctor.parts.analyze.selection import EVERYTHING, Selection, TimeSpan
from pulsar_doctor.parts.analyze.source import TraceSource
from pulsar_doctor.trace.index import read_index, write_index
from pulsar_doctor.trace.reading import Trace
from tests.made.wire import START_US, TOPIC, Wire, slow_consumer
from tests.parts.analyze import made_traces, twin
from tests.parts.analyze.made_traces import sealed
from tests.parts.analyze.test_aggregations import (
    BUCKET_US,
    IN_TRACE,
    TWINS,
    Values,
    assert_same,
    collected,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)  # a busy machine
TABLES = (*TWINS, "brief_stalls")


def here(spark: SparkSession, paths: Sequence[Path], selection: Selection) -> TraceSource:
    return read_traces(spark, [*map(str, paths)], selection=selection)


def by_spark_alone(spark: SparkSession, paths: Sequence[Path], selection: Selection) -> TraceSource:
    given = [*map(str, paths)]
    return read_traces(spark, given, Looked([], given), selection=selection)


Read = Callable[..., TraceSource]
everywhere = pytest.mark.parametrize("read", [here, by_spark_alone])


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(START_US / 1e6, UTC) + timedelta(seconds=seconds)


def tables_of(source: TraceSource, *names: str) -> dict[str, list[Values]]:
    """All of them, or those that a test looks at: each is planned for a second."""
    with aggregated(source, BUCKET_US) as tables:
        found = {name: collected(getattr(tables, name)) for name in names or TABLES}
        if not names:
            found["by trace"] = collected(subscriptions_by(tables.consumers, IN_TRACE))
    return found


# --- a time ---

SPANS = {
    "since": Selection(since=at(1.6)),
    "until": Selection(until=at(2.7)),
    "both": Selection(since=at(1.1), until=at(4.3)),
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("selected")
    return [path for maker in made_traces.MAKERS for path in maker(folder / maker.__name__)]


@pytest.fixture(
    scope="module",
    params=[
        ("until", by_spark_alone),
        ("both", here),
        pytest.param(("since", here), marks=pytest.mark.slow),
    ],
)
def part(
    spark: SparkSession, paths: list[Path], request: pytest.FixtureRequest
) -> tuple[list[Values], dict[str, list[Values]], TimeSpan]:
    """The rows of this time, what Spark says of them, and the time."""
    span, read = request.param
    source = read(spark, paths, SPANS[span])
    since_us, until_us = source.span.since_us or 0, source.span.until_us or 1 << 62
    rows = [row for row in twin.of_traces(paths) if since_us <= row["ts"] <= until_us]
    assert source.events == len(rows) < len(twin.of_traces(paths))
    assert (source.first_us, source.last_us) == (
        min(row["ts"] for row in rows),
        max(row["ts"] for row in rows),
    )
    return rows, tables_of(source), source.span


@pytest.mark.parametrize("table", TWINS)
def test_a_time_is_told_as_by_its_rows_alone(
    part: tuple[list[Values], dict[str, list[Values]], TimeSpan], table: str
) -> None:
    rows, found, span = part
    told = found["by trace" if table == "subscriptions" else table]
    expected = TWINS[table](rows)
    since_us = span.since_us or 0
    if table == "timeline":
        expected = [row for row in expected if row["start"] >= since_us // BUCKET_US * BUCKET_US]
    spoke = {(row["trace_id"], row["incarnation"]) for row in rows}
    if "incarnation" in told[0]:
        told = [row for row in told if (row["trace_id"], row["incarnation"]) in spoke]
    elif span.since_us is not None:
        return  # who said nothing is in these, too; see below
    assert_same(told, expected)


def test_of_a_clock_that_was_set_back_no_row_is_lost_or_doubted_too_little(
    spark: SparkSession, tmp_path: Path
) -> None:
    said = Wire().open().attached(1, "slow").flow(10).pushed(range(4)).wait(4).acked([0])
    said.ahead_us = -3_000_000
    said.wait(1).acked([1]).wait(2).acked([2]).wait(2).flow(2).wait(2)
    (path,) = sealed(tmp_path / "back.ptrace", said, "back")
    source = here(spark, [path], Selection(since=at(0), until=at(2.5)))
    rows = [row for row in twin.of_traces([path]) if row["ts"] <= START_US + 2_500_000]
    seqs = [row["seq"] for row in rows]
    assert seqs != [*range(len(seqs))]  # some in between are later
    assert source.events == len(rows)
    assert len(source.breaks) == 1
    (consumer,) = tables_of(source, "consumers")["consumers"]
    assert not consumer["certain"]


def waiting() -> Wire:
    """One consumer has no permits from early on and says nothing any more; the other goes on."""
    said = Wire().open().attached(1, "hangs").flow(2).pushed([1, 2])
    said.attached(2, "works", subscription="other").flow(100, 2)
    for entry in range(60):
        said.wait(10).pushed([entry], 2).acked([entry], 2)
    return said


@pytest.fixture(scope="module")
def hanging(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Values]]:
    """That story, of which nobody may change a file, and all of its stalls."""
    (path,) = sealed(tmp_path_factory.mktemp("w") / "w.ptrace", waiting(), "waiting", parts=6)
    return path, tables_of(here(spark, [path], EVERYTHING), "stalls")["stalls"]


@pytest.mark.parametrize(
    ("read", "until"),
    [
        (here, None),
        (by_spark_alone, 200.0),
        pytest.param(here, 200.0, marks=pytest.mark.slow),
        pytest.param(by_spark_alone, None, marks=pytest.mark.slow),
    ],
)
def test_who_said_nothing_in_all_of_that_time_is_told_with_the_true_start(
    spark: SparkSession, hanging: tuple[Path, list[Values]], read: Read, until: float | None
) -> None:
    path, stalls = hanging
    source = read(spark, [path], Selection(since=300.0, until=until))
    found = tables_of(source, "consumers", "stalls", "timeline")
    (stall,) = (row for row in found["stalls"] if row["consumer_name"] == "hangs")
    hung = (row for row in stalls if row["consumer_name"] == "hangs")
    expected = max(hung, key=lambda row: row["duration_us"])
    assert stall["start"] == expected["start"] < (source.span.since_us or 0)
    assert stall["ended_by"] == "end_of_trace"
    by_name = {row["consumer_name"]: row for row in found["consumers"]}
    assert by_name.keys() == {"hangs", "works"}
    assert not any(row["certain"] for row in by_name.values())
    assert by_name["hangs"]["messages"] == 0 < by_name["works"]["messages"] < 60
    assert {
        row["start"] >= (source.span.since_us or 0) - BUCKET_US for row in found["timeline"]
    } == {True}
    if until is None:
        assert stall["end"] == expected["end"]
        assert (stall["code"], stall["severity"]) == ("permits-exhausted", "stalled")
        assert by_name["hangs"]["available_permits"] == 0
        assert by_name["hangs"]["unacked_messages"] == 2
    else:
        assert stall["end"] <= (source.span.until_us or 0) < expected["end"]
        assert stall["code"] is None  # what the rules say is of the end
        assert by_name["hangs"]["unacked_messages"] is None


def test_who_said_nothing_until_its_connection_was_closed_is_told_as_of_the_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    """And who was replaced, or left, before that time is not told at all."""
    said = Wire().open().open(1).attached(1, "left").flow(1).pushed([1]).close(0)
    said.attached(1, "again", conn_id=1).flow(1, conn_id=1).pushed([2], conn_id=1).wait(1)
    said.attached(1, "again", conn_id=1).flow(1, conn_id=1).pushed([3], conn_id=1).wait(300)
    said.open(2).wait(10).close(1).wait(10).close(2)
    (path,) = sealed(tmp_path / "c.ptrace", said, "closed")
    whole = tables_of(here(spark, [path], EVERYTHING), "stalls")["stalls"]
    (expected,) = (row for row in whole if row["duration_us"] > 300_000_000)
    (stall,) = tables_of(here(spark, [path], Selection(since=at(200))), "stalls")["stalls"]
    untold = ("acknowledged", "unacked_at_start", "code", "severity")
    assert {k: v for k, v in stall.items() if k not in untold} == {
        k: v for k, v in expected.items() if k not in untold
    }
    assert stall["ended_by"] == "close"


# --- what is opened ---


@everywhere
def test_verdicts_are_of_what_was_asked_for_and_of_the_end_only(
    spark: SparkSession, tmp_path: Path, read: Read
) -> None:
    said = Wire().open().attached(1, subscription="early").flow(4).pushed([1]).acked([1]).closed(1)
    said.wait(2).attached(2, subscription="late").flow(4, 2).pushed([1], 2).acked([1], 2).wait(2)
    paths = sealed(tmp_path / "t", said.produced(), "t")

    def judged(selection: Selection) -> set[str]:
        source = read(spark, paths, selection)
        assert source.notes == [*source.not_judged]
        assert bool(source.notes) == (selection.until is not None)
        return {each.diagnosis.subscription for each in source.verdicts}

    assert judged(EVERYTHING) == {"early", "late"}
    assert judged(Selection(topic=TOPIC.rpartition("/")[2])) == {"early", "late"}
    assert judged(Selection(subscription="late")) == {"late"}
    assert judged(Selection(since=at(1))) == {"late"}
    assert judged(Selection(until=at(1))) == set()


def test_segments_of_another_time_are_not_opened(spark: SparkSession, tmp_path: Path) -> None:
    (path,) = sealed(tmp_path / "w.ptrace", waiting(), "waiting", parts=6)
    asked = Selection(since=100.0)
    names = ("consumers", "stalls", "timeline")
    expected = tables_of(here(spark, [path], asked), *names)
    for old in Trace(path).parts()[:4]:
        (path / (old.name or "")).write_bytes(b"none of it is read")
    for read in (here, by_spark_alone):
        assert tables_of(read(spark, [path], asked), *names) == expected


@everywhere
def test_an_older_list_that_tells_no_times_is_read_as_well(
    spark: SparkSession, tmp_path: Path, read: Read
) -> None:
    (path,) = sealed(tmp_path / "w.ptrace", waiting(), "waiting", parts=6)
    asked = Selection(since=100.0, until=50.0)
    new = read(spark, [path], asked)
    index = read_index(path)
    times = [part.times for part in index.parts]
    older = [replace(part, first_us=None, last_us=None) for part in index.parts]
    write_index(path, replace(index, parts=older))
    old = read(spark, [path], asked)
    assert old.segments == new.segments
    assert [*Trace(path).times(older)] == times


def test_a_segment_that_is_missing_is_told_whatever_time_is_asked_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    (path,) = sealed(tmp_path / "w.ptrace", waiting(), "waiting", parts=6)
    (path / "seg-000001.parquet").unlink()
    for read in (here, by_spark_alone):
        with pytest.raises(TraceError, match=r"seg-000001.parquet is missing"):
            read(spark, [path], Selection(since=100.0))


@everywhere
def test_a_time_in_which_nothing_was_recorded_is_named(
    spark: SparkSession, tmp_path: Path, read: Read
) -> None:
    (path,) = sealed(tmp_path / "s.ptrace", slow_consumer(), "s", parts=3)
    with pytest.raises(InputError, match="no command was recorded there from 2001-01-01T00:00"):
        read(
            spark,
            [path],
            Selection(datetime(2001, 1, 1, tzinfo=UTC), datetime(2001, 1, 2, tzinfo=UTC)),
        )


@everywhere
def test_durations_are_counted_back_from_the_end_of_the_newest(
    spark: SparkSession, tmp_path: Path, read: Read
) -> None:
    paths = sealed(tmp_path / "s.ptrace", slow_consumer(), "s")
    paths += sealed(tmp_path / "w.ptrace", waiting(), "waiting")
    end_us = Trace(paths[1]).parts()[-1].until_us
    assert end_us > Trace(paths[0]).parts()[-1].until_us
    source = read(spark, paths, Selection(since=30.0, until=2.5))
    assert source.span == TimeSpan(end_us - 30_000_000, end_us - 2_500_000)
    assert source.traces == 1


# --- names ---


def topics() -> Wire:
    """Three subscriptions on two topics; what happens on one is nothing to the others."""
    said = Wire().open().open(1).attached(1, "a")
    said.attached(2, "b", subscription="second")
    said.attached(3, "c", topic=TOPIC.replace("orders", "bills"), conn_id=1)
    said.flow(4).flow(5, 2).flow(6, 3, conn_id=1)
    for entry in range(4):
        said.wait(1).pushed([entry]).pushed([entry], 2).pushed([entry], 3, conn_id=1)
        said.acked([entry], 2).acked([entry], 3, conn_id=1)
    said.wait(1).attached(1, "successor", topic=TOPIC.replace("orders", "bills"))
    return said.wait(1).close(1).wait(30).pushed([9], 2).wait(1)


SLOW = pytest.mark.slow
NAMES = {
    "orders": (Selection(topic="orders"), lambda row: row["topic"] == TOPIC),
    "bills": (Selection(topic=TOPIC.replace("orders", "bills")), lambda row: row["topic"] != TOPIC),
    "second": (Selection(subscription="second"), lambda row: row["subscription"] == "second"),
    "both": (
        Selection(topic="orders", subscription="billing"),
        lambda row: row["consumer_name"] == "a",
    ),
}


@pytest.fixture(scope="module")
def whole(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, list[Values]]]:
    (path,) = sealed(tmp_path_factory.mktemp("names") / "n.ptrace", topics(), "names", parts=2)
    return path, tables_of(here(spark, [path], EVERYTHING))


@pytest.mark.parametrize(
    "name", ["orders", "both", *(pytest.param(each, marks=SLOW) for each in ("bills", "second"))]
)
def test_what_is_told_of_a_name_is_what_is_told_of_it_among_all(
    spark: SparkSession, whole: tuple[Path, dict[str, list[Values]]], name: str
) -> None:
    path, among_all = whole
    selection, is_its = NAMES[name]
    source = here(spark, [path], selection)
    found = tables_of(source)
    for table in ("consumers", "gaps", "stalls", "holes", "brief_stalls", "by trace"):
        expected = [row for row in among_all[table] if name == "both" or is_its(row)]
        if name == "both":
            expected = [
                row
                for row in among_all[table]
                if (row["topic"], row["subscription"]) == (TOPIC, "billing")
            ]
        assert_same(found[table], expected)
    if selection.topic and not selection.subscription:
        steps = [row for row in among_all["timeline"] if is_its(row)]
        assert_same(found["timeline"], steps)
    rows = [row for row in twin.of_traces([path]) if of_name(row, selection)]
    assert source.events == len(rows)
    assert source.first_us == min(row["ts"] for row in rows)


def of_name(row: Values, selection: Selection) -> bool:
    topic = selection.topic
    fits = topic is None or bool(row["topic"] and f"/{row['topic']}".endswith(f"/{topic}"))
    return fits and selection.subscription in (None, row["subscription"])


def test_a_consumer_is_not_told_to_wait_less_because_others_went_on(
    whole: tuple[Path, dict[str, list[Values]]],
) -> None:
    """The story has what the test before is for."""
    _, among_all = whole
    ends = {(row["consumer_name"], row["ended_by"]) for row in among_all["stalls"]}
    assert ("a", "close") in ends  # by its successor, on another topic
    assert "end_of_trace" in {how for _, how in ends}


@pytest.mark.parametrize(
    ("selection", "says"),
    [
        (Selection(topic="ordres"), "there is no topic 'ordres'; did you mean orders"),
        (Selection(subscription="thrid"), "there is no subscription 'thrid'"),
        (Selection(topic="bills", subscription="second"), "has no subscription 'second'"),
    ],
)
def test_a_name_that_is_not_there_is_named_with_those_that_are(
    spark: SparkSession,
    whole: tuple[Path, dict[str, list[Values]]],
    selection: Selection,
    says: str,
) -> None:
    with pytest.raises(InputError, match=says):
        here(spark, [whole[0]], selection)


def test_row_groups_are_left_out_by_what_they_hold(
    spark: SparkSession, whole: tuple[Path, Any]
) -> None:
    source = here(spark, [whole[0]], Selection(since=20.0, subscription="second"))
    plan = str(source.rows._jdf.queryExecution().executedPlan().toString())  # type: ignore[operator]
    pushed = plan.partition("PushedFilters: [")[2].partition("]")[0]
    assert "GreaterThanOrEqual(ts" in pushed
    assert "Or(EqualTo(subscription,sec" in pushed  # the plan is cut there


def test_looking_on_a_cluster_waits_until_all_ends_are_known(tmp_path: Path) -> None:
    (path,) = sealed(tmp_path / "s.ptrace", slow_consumer(), "s")
    looked = look([str(path), "hdfs:///x"], here=False, selection=Selection(since=1.0))
    assert (list(looked.segments), len(looked.opened)) == ([], 1)
    looked = look([str(path), "hdfs:///x"], here=False, selection=Selection(since=at(0)))
    assert (len(looked.segments), looked.opened) == (1, ())
