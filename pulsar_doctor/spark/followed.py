"""How followed traces stand: what the two queries of `following` have kept, as an Analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pulsar_doctor.spark.aggregations import growing
from pulsar_doctor.spark.analysis import EPOCH, Analysis, moment
from pulsar_doctor.spark.checkpoint import Terms
from pulsar_doctor.wording.durations import duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONSUMERS_MOST = 1000  # that are shown; the worst
STEPS_MOST = 240  # of the timeline, likewise; the newest
WHO = ("trace_id", "incarnation", "topic", "subscription", "consumer_name")
# Of growing.standing, beside what it has of aggregations.consumers.
BESIDE = ("first_seen_us", "last_seen_us", "since_us", "until_us", "goes_on", "code", "severity")

Values = dict[str, Any]


def standing(
    spark: SparkSession, table: str | None, place: str, terms: Terms, notes: Sequence[str]
) -> Analysis:
    """How things stand, without the timeline. table: of growing.totals, None before there is one.

    place: the checkpoint.
    """
    traces: list[Values] = []
    consumers: list[Values] = []
    if table is not None:
        counted = spark.table(table)
        traces = [row.asDict() for row in growing.traces(counted).collect()]
        consumers = [row.asDict() for row in _worst(growing.standing(counted)).collect()]
        notes = [*notes, *_notes_of_traces(traces, terms)]
    last_us = max((trace["last_us"] for trace in traces), default=None)
    return Analysis(
        events=sum(trace["events"] for trace in traces),
        traces=len(traces),
        first=moment(min((trace["first_us"] for trace in traces), default=None)),
        last=moment(last_us),
        bucket_seconds=terms.bucket_us / 1e6,
        consumers=[_consumer(row) for row in consumers],
        gaps=None,
        stalls=[_stall(row) for row in consumers if row["goes_on"]],
        timeline=None,
        subscriptions=None,
        holes=None,
        totals={"consumers": sum(trace["consumers"] for trace in traces)},
        notes=notes,
    )


def timeline_of(spark: SparkSession, place: str, terms: Terms, found: Analysis) -> list[Values]:
    """The newest steps of what was found, once the query that makes them has begun."""
    if found.last is None:
        return []
    last_us = round((found.last - EPOCH).total_seconds() * 1e6)
    return [_step(row) for row in _timeline(spark, place, terms, last_us)]


def notes_of(spark: SparkSession, terms: Terms, late: int) -> Iterator[str]:
    """What is to be said of the timeline. late: rows, at least, that came when a step was over."""
    after = duration(terms.late_us / 1e6)
    if late:
        yield f"{late} rows or more came later than {after} and are not in the timeline"
    if not _reads_state(spark):
        yield f"the timeline ends {after} ago: Spark {spark.version} cannot show what is not over"


def _notes_of_traces(traces: Sequence[Values], terms: Terms) -> Iterator[str]:
    if not traces:
        yield f"waits for the first sealed segment of {', '.join(terms.paths)}"
    missing = sum(max(0, trace["missing"]) for trace in traces)
    twice = sum(max(0, -trace["missing"]) for trace in traces)
    if missing:
        yield f"{missing} rows between others were not there to be read: dropped by a ring?"
    if twice:
        yield f"{twice} rows were counted twice: copies of a trace are among what is followed"


def _worst(consumers: DataFrame) -> DataFrame:
    stalled, warned = (F.col("severity") == each for each in ("stalled", "warning"))
    rank = F.when(stalled, F.lit(0)).when(warned, F.lit(1)).otherwise(F.lit(2))
    order = (rank, F.desc("goes_on"), F.desc("starved_us"), "trace_id", "incarnation")
    return consumers.orderBy(*order).limit(CONSUMERS_MOST)


def _timeline(spark: SparkSession, place: str, terms: Terms, last_us: int) -> list[Values]:
    """The newest steps. Those that are not over are read first, so that none is in neither."""
    first_hour = (last_us - STEPS_MOST * terms.bucket_us) // growing.HOUR_US
    steps = {row["start_us"]: row for row in _not_over(spark, place)}
    over = spark.read.schema(growing.STEP).parquet(f"{place}/timeline")
    over = over.where(F.col("hour") >= first_hour)
    steps |= {row["start_us"]: row.asDict() for row in over.collect()}
    return [steps[start_us] for start_us in sorted(steps)[-STEPS_MOST:]]


def _not_over(spark: SparkSession, place: str) -> list[Values]:
    """The steps that late rows may still reach, from the state of their query."""
    if not _reads_state(spark):
        return []
    state = spark.read.format("statestore").load(f"{place}/steps")
    kept = state.select("key.window", F.col("value").cast(growing.KEPT).alias("value"))
    return [row.asDict() for row in growing.timed(kept.select("window", "value.*")).collect()]


def _reads_state(spark: SparkSession) -> bool:
    return int(spark.version.partition(".")[0]) >= 4


def _consumer(row: Mapping[str, Any]) -> Values:
    """With starved_since: since when it has no permits; None where it has, or is not known."""
    return {
        **{name: value for name, value in row.items() if name not in BESIDE},
        "first_seen": moment(row["first_seen_us"]),
        "last_seen": moment(row["last_seen_us"]),
        "starved_since": moment(row["since_us"]) if row["goes_on"] else None,
    }


def _stall(row: Mapping[str, Any]) -> Values:
    """A time without permits that goes on."""
    return {
        **{name: row[name] for name in WHO},
        "start": moment(row["since_us"]),
        "end": moment(row["until_us"]),
        "duration_us": row["until_us"] - row["since_us"],
        "ended_by": "end_of_trace",
        "unacked_at_start": None,
        "available_lowest": None,
        "acknowledged": None,
        "code": row["code"],
        "severity": row["severity"],
        "acknowledged_least": None,
    }


def _step(row: Mapping[str, Any]) -> Values:
    return {
        "start": moment(row["start_us"]),
        "delivered": row["delivered"],
        "acknowledged": row["acknowledged"],
        "flows": row["flows"],
        "lowest_available": row["lowest_available"],
        "starved_consumers": None,
        "acknowledged_least": row["acknowledged_least"],
        "certain": None,
    }
