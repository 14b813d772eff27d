"""How followed traces stand: what the steps of `following` have kept, as an Analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pulsar_doctor.spark import kept
from pulsar_doctor.spark.aggregations import growing
from pulsar_doctor.spark.aggregations.told import told
from pulsar_doctor.spark.analysis import Analysis, moment
from pulsar_doctor.spark.arriving import Arrived
from pulsar_doctor.spark.checkpoint import Terms
from pulsar_doctor.spark.kept import SoFar
from pulsar_doctor.wording.durations import duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

CONSUMERS_MOST = 1000  # that are shown; the worst
STEPS_MOST = 240  # of the timeline, likewise; the newest
WHO = ("trace_id", "incarnation", "topic", "subscription", "consumer_name")
# Of growing.standing, beside what it has of aggregations.consumers.
BESIDE = ("first_seen_us", "last_seen_us", "since_us", "until_us", "goes_on", "code", "severity")

Values = dict[str, Any]


def nothing(terms: Terms, seen: Arrived | None) -> Analysis:
    """Before a row was read. seen: None where nobody has looked yet."""
    notes = list(_notes_of(terms, seen)) or ["nothing has been read yet, so nothing is known"]
    return Analysis(
        events=0,
        traces=0,
        first=None,
        last=None,
        bucket_seconds=terms.bucket_us / 1e6,
        gaps=None,
        timeline=None,
        subscriptions=None,
        holes=None,
        notes=notes,
        left_out=seen.left_out if seen else [],
    )


def found(
    spark: SparkSession, place: str, terms: Terms, standing: SoFar, seen: Arrived | None
) -> Analysis:
    """How things stand. place: the checkpoint."""
    traces = standing.traces
    values = [{"trace_id": name, "trace_us": trace.last_us} for name, trace in traces.items()]
    known = kept.consumers(spark, place, standing)
    moments = told(spark, values, "trace_id: string, trace_us: bigint")
    rows = [row.asDict() for row in _worst(growing.standing(known, moments)).collect()]
    there = known.where(F.col("ended_step").isNull() | growing.ended_in(standing.step)).count()
    steps = kept.timeline(spark, place, standing).collect()
    late = sum(row["events"] for row in steps if row["start_us"] is None)
    newest = sorted((row for row in steps if row["start_us"] is not None), key=_start_us)
    return Analysis(
        events=sum(trace.events for trace in traces.values()),
        traces=len(traces),
        first=moment(min(trace.first_us for trace in traces.values())),
        last=moment(standing.last_us),
        bucket_seconds=terms.bucket_us / 1e6,
        consumers=[_consumer(row) for row in rows],
        gaps=None,
        stalls=[_stall(row) for row in rows if row["goes_on"]],
        timeline=[_step(row.asDict()) for row in newest[-STEPS_MOST:]],
        subscriptions=None,
        holes=None,
        totals={"consumers": standing.ended + there},
        notes=[*_notes_of(terms, seen), *_notes_of_rows(terms, standing, late)],
        left_out=seen.left_out if seen else [],
    )


def _start_us(row: Row) -> int:
    start_us: int = row["start_us"]
    return start_us


def _notes_of(terms: Terms, seen: Arrived | None) -> Iterator[str]:
    if seen is None:
        return
    if seen.waits_for:
        yield f"waits for {', '.join(seen.waits_for)}, which is not there yet"
    elif seen.empty:
        yield f"waits for the first sealed segment of {', '.join(terms.paths)}"
    if seen.left:
        yield f"{seen.left:,} rows are there and still to be read"


def _notes_of_rows(terms: Terms, standing: SoFar, late: int) -> Iterator[str]:
    """late: rows that came when their step of the timeline was over."""
    missing = sum(trace.missing for trace in standing.traces.values())
    if late:
        after = duration(terms.late_us / 1e6)
        yield f"{late:,} rows came later than {after} and are not in the timeline"
    if missing:
        yield f"{missing:,} rows between others were not there to be read: dropped by a ring?"


def _worst(consumers: DataFrame) -> DataFrame:
    stalled, warned = (F.col("severity") == each for each in ("stalled", "warning"))
    rank = F.when(stalled, F.lit(0)).when(warned, F.lit(1)).otherwise(F.lit(2))
    order = (rank, F.desc("goes_on"), F.desc("starved_us"), "trace_id", "incarnation")
    return consumers.orderBy(*order).limit(CONSUMERS_MOST)


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
        "acknowledged": None if row["untold_acks"] else row["acknowledged_least"],
        "flows": row["flows"],
        "lowest_available": row["lowest_available"],
        "starved_consumers": None,
        "acknowledged_least": row["acknowledged_least"],
        "certain": None,
    }
