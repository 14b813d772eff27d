"""One row for each consumer: what it was, what it did, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from pulsar_doctor.parts.analyze.aggregations.profile import CONSUMER, LABELS, is_a
from pulsar_doctor.parts.analyze.aggregations.small_table import small_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql._typing import ColumnOrName

MISSING = ("GAP", "UNPARSED")
Breaks = Sequence[tuple[str, int]]  # trace_id and seq of rows before which others are missing
NAME = ("trace_id", "topic", "subscription", "consumer_name")
SUMS = (
    "subscribed", "flow_count", "granted", "messages", "entries", "bytes", "batched",
    "redeliveries", "acks_individual", "acks_cumulative", "acknowledged_least", "untold_acks",
    "untold_delays", "untold_gaps",
)  # fmt: skip
MOST = (
    "batch_most", "unacked_most", "first_flow", "flow_most", "last_us", "told_seq", "seen_seq",
    "ended_untold_seq", "ending_seq", "spoke_seq",
)  # fmt: skip


def landmark() -> Column:
    """What a row says that tells what a consumer is, how a connection ended, or what is missing.

    A struct, null for most rows: LABELS, conn_id, consumer_id, command, command_code, seq, at_us;
    starved_us (of a SUBSCRIBE: of the consumer that had its number before).
    """
    what = ("conn_id", "consumer_id", "command", "command_code", "seq", "starved_us")
    columns = F.struct(*LABELS, *what, F.unix_micros("ts").alias("at_us"))
    return F.when(is_a("SUBSCRIBE", "CLOSE", *MISSING), columns)


def lives(
    rows: DataFrame, moments: DataFrame, profiled: DataFrame, breaks: Breaks | None = None
) -> DataFrame:
    """One row for each trace_id and incarnation.

    Columns: those of LABELS, conn_id, consumer_id; the figures of `profile` over all steps of time;
    opened_seq, opened_us (its first row); trace_us: the last moment of its trace. Of an end without
    a row of its own: closed_seq, closed_us (its connection was closed, or a successor has its
    number there) and to_the_end_us (how long it had no permits by then, if known); lost_seq: the
    last row before that, before which rows of the trace are missing. back_seq: where the last
    consumer of its topic, subscription and name begins. certain: its SUBSCRIBE is in the trace and
    nothing is missing since then; otherwise what is counted of it is at least so much.
    available_permits and unacked_messages: null where rows are missing since the last that tells.
    moments: with a row for each `landmark`. breaks: as in `aggregate`.
    """
    marks = moments.where("landmark is not null").select(*CONSUMER, "landmark.*")
    whole = (
        profiled.where(F.col("incarnation").isNotNull())
        .groupBy(*CONSUMER)
        .agg(
            *(F.sum(name).alias(name) for name in SUMS),
            *(F.max(name).alias(name) for name in MOST),
            F.max_by("available_permits", "told_seq").alias("available_permits"),
            F.max_by("unacked_messages", "told_seq").alias("unacked_messages"),
            F.min("first_seq").alias("opened_seq"),
            F.min("first_us").alias("opened_us"),
        )
    )
    closes = (
        marks.where(is_a("CLOSE"))
        .groupBy("trace_id", "conn_id")
        .agg(F.min("at_us").alias("conn_us"), F.min("seq").alias("conn_seq"))
    )
    # What is sorted and moved has few columns; the many of `whole` stay where they are.
    known = _labels(rows, marks, whole, breaks)
    ended = known.join(closes, ["trace_id", "conn_id"], "left").withColumns(_end())
    named = whole.join(ended, [*CONSUMER])
    doubted = named.join(F.broadcast(_of_traces(marks, profiled, breaks)), ["trace_id"])
    own_end = F.when(F.col("ending_seq") > F.col("spoke_seq"), F.col("ending_seq"))
    end_seq = F.least("closed_seq", own_end)
    found = doubted.withColumns(
        {"lost_seq": _last_doubt("closed_seq"), "missing_seq": _last_doubt(end_seq)}
    )
    found = found.withColumns(_as_far_as_known())
    ours = ("doubts", "conn_us", "conn_seq", "missing_seq", "begun_seq", "begun_us", "replaced_us")
    return found.drop(*ours)


def _as_far_as_known() -> dict[str, Column]:
    since = F.coalesce(F.col("missing_seq") > F.col("told_seq"), F.lit(False))
    return {
        "certain": (F.col("subscribed") > 0) & F.col("missing_seq").isNull(),
        **{name: F.when(~since, F.col(name)) for name in ("available_permits", "unacked_messages")},
    }


def _labels(
    rows: DataFrame, marks: DataFrame, whole: DataFrame, breaks: Breaks | None
) -> DataFrame:
    """What each incarnation is, and where it begins. Its SUBSCRIBE says all of it.

    Where rows are missing it may have none, and is known by the first row that it has; so may one
    that subscribed before the time that is analyzed, and then the earlier of both counts.
    """
    begun = marks.where(is_a("SUBSCRIBE") & F.col("incarnation").isNotNull())
    replaced = F.when(is_a("SUBSCRIBE"), F.col("starved_us")).alias("replaced_us")
    named = (*LABELS, "conn_id", "consumer_id")
    columns = (*CONSUMER, F.col("seq").alias("begun_seq"), *named, replaced)
    known = begun.select(*columns, F.col("at_us").alias("begun_us"))
    if breaks is None or breaks:
        older = whole.where(F.col("subscribed") == 0)
        older = older.select(F.col("trace_id").alias("of_trace"), F.col("opened_seq").alias("at"))
        here = (F.col("seq") == F.col("at")) & (F.col("trace_id") == F.col("of_trace"))
        first = rows.join(F.broadcast(older), here)
        known = known.unionByName(first.select(*columns, F.unix_micros("ts").alias("begun_us")))
        names = (name for name in known.columns if name not in CONSUMER)  # begun_seq is the first
        earliest = known.groupBy(*CONSUMER).agg(F.min(F.struct(*names)).alias("earliest"))
        known = earliest.select(*CONSUMER, "earliest.*")
    return known


def _end() -> dict[str, Column]:
    # Numbers first, which sorts compare at once.
    numbered = Window.partitionBy("conn_id", "consumer_id", "trace_id").orderBy("begun_seq")
    last = F.max("begun_seq").over(Window.partitionBy(F.xxhash64(*NAME)))
    return {
        "to_the_end_us": F.lead("replaced_us").over(numbered),
        "closed_us": F.coalesce(F.lead("begun_us").over(numbered), "conn_us"),
        "closed_seq": F.coalesce(F.lead("begun_seq").over(numbered), "conn_seq"),
        "back_seq": F.when(F.col("consumer_name").isNotNull(), last),
    }


def _of_traces(marks: DataFrame, profiled: DataFrame, breaks: Breaks | None) -> DataFrame:
    """By trace_id: its last moment, and rows before which others are missing (with conn_id)."""
    missing = marks.where(is_a(*MISSING)).select("trace_id", "conn_id", "seq")
    if breaks:
        values = [{"trace_id": trace_id, "seq": seq} for trace_id, seq in breaks]
        columns = "trace_id: string, conn_id: int, seq: bigint"
        missing = missing.unionByName(small_table(marks.sparkSession, values, columns))
    doubts = missing.select("trace_id", F.struct("conn_id", "seq").alias("doubt"))
    both = profiled.select("trace_id", "last_us").unionByName(doubts, allowMissingColumns=True)
    return both.groupBy("trace_id").agg(
        F.max("last_us").alias("trace_us"), F.collect_list("doubt").alias("doubts")
    )


def _last_doubt(end_seq: ColumnOrName) -> Column:
    """The last of its doubts that concerns an incarnation, before that row."""

    def concerns(doubt: Column) -> Column:
        seq, conn_id = doubt["seq"], doubt["conn_id"]
        here = conn_id.isNull() | (conn_id == F.col("conn_id"))
        return here & (seq > F.col("opened_seq")) & (seq < F.coalesce(end_seq, seq + 1))

    return F.array_max(F.filter("doubts", concerns)["seq"])
