"""Runs an analysis: traces in, tables out, as values or as Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pulsar_doctor.checkup.result import STATUSES
from pulsar_doctor.parts.analyze.aggregations import Tables, aggregate
from pulsar_doctor.parts.analyze.aggregations.histogram import ERROR
from pulsar_doctor.parts.analyze.aggregations.passes import PLANNED_ONLY, Keeping
from pulsar_doctor.parts.analyze.aggregations.profile import CONSUMER
from pulsar_doctor.parts.analyze.aggregations.subscriptions import (
    SUBSCRIPTION,
    ranked,
    subscriptions,
)
from pulsar_doctor.parts.analyze.aggregations.timeline import in_all
from pulsar_doctor.parts.analyze.analysis import Analysis, moment
from pulsar_doctor.parts.analyze.configuration import APP, FEW_ROWS, INTERPRETED_ROWS, SOME_ROWS
from pulsar_doctor.parts.analyze.failures import failures_in_one_sentence
from pulsar_doctor.parts.analyze.masters import is_connect, is_local
from pulsar_doctor.parts.analyze.selected import of_the_span
from pulsar_doctor.parts.analyze.session import having
from pulsar_doctor.parts.analyze.source import TraceSource

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EXACT_EVENTS_MOST = 2_000_000  # up to here percentiles are of every single value
STEPS = 120  # of a timeline that chooses its own step, at most
NICE_SECONDS = (1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 6 * 3600, 86400)
WHAT = "analyzing the traces"
ROWS_MOST = 10_000  # of a table that are shown; the worst

Phase = Callable[[str], AbstractContextManager[None]]


def bucket_of(source: TraceSource) -> int:
    """The step of a timeline that shows these traces in at most 120, in microseconds."""
    span = ((source.last_us or 0) - (source.first_us or 0)) / 1e6
    nice = (seconds for seconds in NICE_SECONDS if span / seconds <= STEPS)
    return next(nice, int(span / STEPS / 86400 + 1) * 86400) * 1_000_000


@contextmanager
def aggregated(source: TraceSource, bucket_us: int, stall_floor_us: int = 0) -> Iterator[Tables]:
    """The aggregates of these traces; Spark forgets them afterwards.

    Few rows are counted by one task after the other, in one partition, and what tables share is
    kept without its plan where that is safe: planning takes longer than counting there.
    """
    spark = source.rows.sparkSession
    here, few = is_in_this_process(spark), source.events <= FEW_ROWS
    cut = here and few
    with (
        failures_in_one_sentence(WHAT),
        _described(source.rows, "what the tables share"),
        having(spark, PLANNED_ONLY) if cut else nullcontext(),
    ):
        tables = aggregate(
            source.rows,
            bucket_us=bucket_us,
            exact=source.events <= EXACT_EVENTS_MOST,
            breaks=source.breaks,
            stall_floor_us=stall_floor_us,
            ends=source.at_the_end,
            keeping=Keeping(
                few=few or (here and source.events <= SOME_ROWS),
                cut=cut,
                once=cut and source.events <= INTERPRETED_ROWS,
            ),
        )
    try:
        yield of_the_span(tables, source.span, source.selection, bucket_us)
    finally:
        tables.forget()


def is_in_this_process(spark: SparkSession) -> bool:
    """Whether its executor is this process' own Java: on a cluster one may be lost."""
    return not is_connect(spark) and is_local(spark.conf.get("spark.master") or "")


def analyzed(
    source: TraceSource,
    tables: Tables,
    bucket_us: int,
    progress: Phase,
    ready: Callable[[Analysis], object] = lambda _: None,
) -> Analysis:
    """Computes the aggregates, and brings the worst rows of each here.

    progress: hears what runs, and is left when it is done. ready: hears after each table what is
    there by then; `totals` names these tables. Raises DoctorError where Spark fails.
    """
    found = _without_tables(source, bucket_us)
    with failures_in_one_sentence(WHAT):
        for name, (table, worst) in _worst_first(tables).items():
            with _described(source.rows, name), progress(name):
                rows: Any = _collected(worst.limit(ROWS_MOST))
                total = len(rows) if len(rows) < ROWS_MOST else table.count()
                found = replace(found, totals={**found.totals, name: total}, **{name: rows})
                if name == "stalls":
                    found = _with_what_is_summed(found, tables)
            ready(found)
    return found


def _without_tables(source: TraceSource, bucket_us: int) -> Analysis:
    exact = source.events <= EXACT_EVENTS_MOST
    return Analysis(
        events=source.events,
        traces=source.traces,
        first=moment(source.first_us),
        last=moment(source.last_us),
        bucket_seconds=bucket_us / 1e6,
        percentile_error=0.0 if exact else ERROR,
        notes=source.notes,
        left_out=source.left_out,
        verdicts=sorted(source.verdicts, key=lambda each: STATUSES.index(each.diagnosis.status)),
        all_judged=not any(source.not_judged),
        since=moment(source.span.since_us),
        until=moment(source.span.until_us),
        topic=source.selection.topic,
        subscription=source.selection.subscription,
    )


def _with_what_is_summed(found: Analysis, tables: Tables) -> Analysis:
    """With what the first lines of a report say beside the two tables that are there."""
    notes = [*found.notes, *_what_is_missing(tables.consumers)]
    brief = _collected(_by_length(tables.brief_stalls).orderBy("below_us"))
    return replace(found, notes=notes, brief_stalls=brief)


@contextmanager
def _described(rows: DataFrame, what: str) -> Iterator[None]:
    """Names the jobs for whoever reads the cluster's web pages; Spark Connect cannot."""
    spark = rows.sparkSession
    if is_connect(spark):
        yield
        return
    spark.sparkContext.setJobDescription(f"{APP}: {what}")
    try:
        yield
    finally:
        spark.sparkContext.setJobDescription(None)  # type: ignore[arg-type]


def _by_length(brief: DataFrame) -> DataFrame:
    """Sorts by the length, of all consumers together."""
    return brief.groupBy("below_us").agg(
        F.sum("count").alias("count"), F.sum("total_us").alias("total_us")
    )


def _what_is_missing(consumers: DataFrame) -> Iterator[str]:
    """Where numbers are those of a part only."""
    silent, partial = F.col("untold_acks") > 0, ~F.col("certain")
    (counts,) = consumers.agg(
        F.count(F.lit(1)).alias("consumers"),
        F.sum("untold_acks").alias("acks"),
        F.sum(silent.cast("int")).alias("silent"),
        F.sum(partial.cast("int")).alias("partial"),
    ).collect()
    in_all = f"of {counts['consumers']:,} consumers"
    if counts["silent"]:
        yield (
            f"of {counts['silent']:,} {in_all} not every ACK says how many messages it "
            f"acknowledged ({counts['acks']:,} do not: an older program's, or after missing "
            "commands): there acknowledged is null, and acknowledged_least what the others say"
        )
    if counts["partial"]:
        yield (
            f"of {counts['partial']:,} {in_all} commands are missing, or came before what is read "
            "begins: what is counted of them is at least so much, and certain is false"
        )


def dated(tables: Tables) -> dict[str, DataFrame]:
    """The aggregates as they are saved: each with its trace and a date (UTC)."""
    started = tables.consumers.select("trace_id", "incarnation", day("first_seen"))
    first = started.groupBy("trace_id").agg(F.min("date").alias("date"))
    by_trace = subscriptions(tables.consumers, ("trace_id", *SUBSCRIPTION))
    return {
        "consumers": tables.consumers.withColumn("date", day("first_seen")),
        "gaps": tables.gaps.join(started, ["trace_id", "incarnation"]),
        "stalls": tables.stalls.withColumn("date", day("start")),
        "timeline": tables.timeline.withColumn("date", day("start")),
        "subscriptions": by_trace.join(first, ["trace_id"]),
        "holes": tables.holes.join(first, ["trace_id"]),
        "brief_stalls": tables.brief_stalls.join(started, ["trace_id", "incarnation"]),
    }


def day(name: str) -> Column:
    """The date of a moment; the session's zone is UTC."""
    return F.to_date(name).alias("date")


def _worst_first(tables: Tables) -> dict[str, tuple[DataFrame, DataFrame]]:
    """Each table that is shown, as it is and with the worst first, in the order of the report."""
    severity = F.when(F.col("severity") == "stalled", 0).when(F.col("severity") == "warning", 1)
    steps, gaps = in_all(tables.timeline), tables.gaps
    return {
        "consumers": (
            tables.consumers,
            tables.consumers.orderBy(F.desc("starved_us"), "first_seen", *CONSUMER),
        ),
        "stalls": (
            tables.stalls,
            tables.stalls.orderBy(
                F.asc_nulls_last(severity), F.desc("duration_us"), "start", *CONSUMER
            ),
        ),
        "timeline": (steps, steps.orderBy("start")),
        "subscriptions": (tables.subscriptions, ranked(tables.subscriptions)),
        "gaps": (gaps, _of_each_measure(gaps).orderBy(F.desc("p99_us"), "measure", *CONSUMER)),
        "holes": (
            tables.holes,
            tables.holes.orderBy(F.desc("holes"), "topic", "subscription", "trace_id"),
        ),
    }


def _of_each_measure(gaps: DataFrame) -> DataFrame:
    """The worst of each measure, so that none keeps the others out."""
    from pyspark.sql import Window

    rank = F.row_number().over(Window.partitionBy("measure").orderBy(F.desc("p99_us"), *CONSUMER))
    return gaps.withColumn("rank", rank).where(F.col("rank") <= ROWS_MOST // 3).drop("rank")


def _collected(table: DataFrame) -> list[dict[str, Any]]:
    """Rows as Python values; moments in UTC, which collect() alone would not give."""
    times = [name for name, kind in table.dtypes if kind == "timestamp"]
    plain = table.withColumns({name: F.unix_micros(name) for name in times}) if times else table
    rows = [row.asDict() for row in plain.collect()]
    for row in rows:
        row.update({name: moment(row[name]) for name in times})
    return rows
