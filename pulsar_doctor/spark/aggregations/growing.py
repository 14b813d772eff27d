"""Aggregates of a trace that still grows: what a stream can keep without keeping rows.

`totals` keeps one row for each consumer incarnation, and `steps` one for each step of time that
late rows may still reach. Neither needs rows in any order: what is asked of the last row is taken
from the one with the highest `seq`. `standing` makes the columns of `consumers` of the totals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from pulsar_doctor.spark.aggregations.findings import judged
from pulsar_doctor.spark.aggregations.profile import (
    CONSUMER,
    LABELS,
    WORK,
    acknowledged,
    acknowledged_by,
    count_of,
    figures,
    flow_that_counts,
    is_a,
    sum_of,
)
from pulsar_doctor.wire.columns import CLOSE, GAP, UNPARSED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOUR_US = 3_600_000_000
FOREVER = (1 << 63) - 1  # a seq that no row has


def totals(rows: DataFrame) -> DataFrame:
    """One row for each consumer incarnation, each event that ends what it knows, and each trace.

    Each row of a trace is counted in exactly one of them: by incarnation with its labels; one that
    ends times without permits, or the knowledge of them, without a row of the consumer (CLOSE,
    GAP, UNPARSED) by its event_seq; all others by trace_id alone.
    """
    known = F.col("incarnation").isNotNull()
    event = ~known & F.col("command").isin(CLOSE, GAP, UNPARSED)
    keys = [F.when(known, F.col(name)).alias(name) for name in LABELS]
    starved = F.col("starved_since").isNotNull()
    starved_seq = F.when(starved, F.col("seq"))
    # A SUBSCRIBE that replaces a consumer ends the starvation of the one before.
    own_us = F.when(known & ~is_a("SUBSCRIBE"), F.col("starved_us"))
    at_us = F.unix_micros("ts")
    # One that does not tell may have acknowledged any number.
    acked = is_a("ACK") & (F.coalesce("acknowledged_messages", F.lit(1)) > 0)
    return rows.groupBy(*CONSUMER, *keys, F.when(event, F.col("seq")).alias("event_seq")).agg(
        *figures(),
        F.count(F.lit(1)).alias("events"),
        F.max("seq").alias("last_seq"),
        F.max("conn_id").alias("conn_id"),
        F.max("consumer_id").alias("consumer_id"),
        F.max(is_a(CLOSE)).alias("is_close"),
        F.count(own_us).alias("ended_starvations"),
        F.coalesce(F.sum(own_us), F.lit(0)).alias("ended_us"),
        F.max(own_us).alias("longest_us"),
        F.max(F.when(own_us.isNotNull(), F.col("seq"))).alias("ended_seq"),
        F.max(starved_seq).alias("starved_seq"),
        F.max_by(F.unix_micros("starved_since"), starved_seq).alias("since_us"),
        F.max_by(at_us, starved_seq).alias("starved_until_us"),
        F.max(F.when(starved & F.col("command").isin(*WORK), at_us)).alias("worked_us"),
        F.max(F.when(starved & acked, at_us)).alias("acked_us"),
    )


def traces(counted: DataFrame) -> DataFrame:
    """Of `totals`, one row for each trace: events, consumers, first_us, last_us, missing.

    missing: rows between its first and its last that were not read; negative: some were read twice.
    """
    span = F.max("last_seq") - F.min("first_seq") + 1
    return counted.groupBy("trace_id").agg(
        F.sum("events").alias("events"),
        F.count("incarnation").alias("consumers"),
        F.min("first_us").alias("first_us"),
        F.max("last_us").alias("last_us"),
        (span - F.sum("events")).alias("missing"),
    )


def standing(counted: DataFrame) -> DataFrame:
    """Of `totals`, the columns of `consumers` as they stand now, moments as *_us, and more.

    A time without permits that goes on counts as far as the trace goes. flow_p50 and flow_p99 are
    null: they are not kept. since_us, until_us: of the last time without permits, where no row of
    the consumer has ended it; goes_on: whether anything else has; code, severity: of that.
    """
    trace = counted.groupBy(F.col("trace_id").alias("of_trace")).agg(
        F.max("last_us").alias("trace_us")
    )
    of_trace = F.col("trace_id") == F.col("of_trace")
    consumers = counted.where(F.col("incarnation").isNotNull()).join(trace, of_trace)
    again = Window.partitionBy("trace_id", "conn_id", "consumer_id").orderBy("incarnation")
    consumers = consumers.withColumn("again_seq", F.lead("first_seq").over(again))
    consumers = consumers.withColumn("again_us", F.lead("first_us").over(again))
    joined = consumers.join(_ends(consumers, counted), [*CONSUMER], "left")
    waits = F.col("starved_seq") > F.coalesce("ended_seq", F.lit(-1))
    end_seq = F.least("close_seq", "again_seq")
    after = F.coalesce(end_seq, F.lit(FOREVER))
    lost = (F.col("lost_seq") < after) | (F.col("seen_seq") > F.col("starved_seq"))
    until_us = (
        F.when(lost, F.col("starved_until_us"))
        .when(F.col("close_seq") == end_seq, F.col("close_us"))
        .when(F.col("again_seq") == end_seq, F.col("again_us"))
        .otherwise(F.col("trace_us"))
    )
    waits, lost = (F.coalesce(each, F.lit(False)) for each in (waits, lost))
    waiting = _as_far_as_known(joined).withColumn("until_us", F.when(waits, until_us))
    waiting = waiting.withColumn("since_us", F.when(waits, F.col("since_us")))
    waiting = waiting.withColumn("goes_on", waits & ~lost & end_seq.isNull())
    return _judged(waiting.withColumn("open_us", F.col("until_us") - F.col("since_us")))


def _as_far_as_known(joined: DataFrame) -> DataFrame:
    """With `certain`, and without what was told before commands went missing: as in `lives`."""
    own_end = F.when(F.col("ending_seq") > F.col("spoke_seq"), F.col("ending_seq"))
    end_seq = F.coalesce(F.least("again_seq", "conn_seq", own_end), F.lit(FOREVER))
    missing, since = (
        F.coalesce(F.col(name) < end_seq, F.lit(False)) for name in ("doubt_seq", "since_seq")
    )
    return joined.withColumns(
        {
            "certain": (F.col("subscribed") > 0) & ~missing,
            **{
                name: F.when(~since, F.col(name))
                for name in ("available_permits", "unacked_messages")
            },
        }
    )


def _ends(consumers: DataFrame, counted: DataFrame) -> DataFrame:
    """By consumer, behind the last row that shows it starved: the first close, the first loss.

    Behind its first row: conn_seq, doubt_seq likewise; since_seq: behind the last row that tells.
    """
    # Spark cannot join its table in memory with itself, unless its columns have other names there.
    events = counted.where(F.col("event_seq").isNotNull()).select(
        F.col("trace_id").alias("in_trace"),
        F.col("conn_id").alias("on_conn"),
        F.col("event_seq").alias("at_seq"),
        F.col("first_us").alias("at_us"),
        F.col("is_close").alias("closes"),
    )
    concerns = (
        (F.col("trace_id") == F.col("in_trace"))
        & (F.col("at_seq") > F.col("first_seq"))
        & (F.col("on_conn").isNull() | (F.col("on_conn") == F.col("conn_id")))
    )
    at_seq, doubts = F.col("at_seq"), ~F.col("closes")
    starved = at_seq > F.col("starved_seq")
    close_seq = F.when(F.col("closes") & starved, at_seq)
    ends = consumers.join(events, concerns).groupBy(*CONSUMER)
    found = {
        "close_seq": F.min(close_seq),
        "close_us": F.min_by("at_us", close_seq),
        "lost_seq": F.min(F.when(doubts & starved, at_seq)),
        "conn_seq": F.min(F.when(F.col("closes"), at_seq)),
        "doubt_seq": F.min(F.when(doubts, at_seq)),
        "since_seq": F.min(F.when(doubts & (at_seq > F.coalesce("told_seq", F.lit(-1))), at_seq)),
    }
    first = ends.agg(*(column.alias(name) for name, column in found.items()))
    return first.select(*(F.col(name).alias(name) for name in (*CONSUMER, *found)))


def _judged(waiting: DataFrame) -> DataFrame:
    """The columns of `standing`; what went on longer than the rules allow has a code."""
    acked = F.col("acked_us") >= F.col("since_us")
    worked_us = F.greatest("worked_us", "since_us")
    episodes = waiting.withColumns(
        {
            "all_acknowledged": acknowledged(),
            "in_all_least": F.col("acknowledged_least"),
            "in_all_untold": F.col("untold_acks"),
            "duration_us": F.col("open_us"),
            "quiet_us": F.col("until_us") - worked_us,
            "ended_by": F.lit("end_of_trace"),
            "unacked_at_end": F.col("unacked_messages"),
            "available_lowest": F.col("available_permits"),
            "acknowledged_least": F.when(acked, F.lit(1)).otherwise(F.lit(0)),
            "untold_acks": F.lit(0),
        }
    )
    code, severity = (F.when(F.col("goes_on"), each) for each in judged())
    one_by_one = (F.col("first_flow") == 1) & (F.col("flow_most") == 1)
    open_us = F.coalesce("open_us", F.lit(0))
    return episodes.select(
        *CONSUMER,
        *LABELS,
        F.when(~one_by_one, F.col("first_flow")).alias("receiver_queue_size"),
        "flow_count",
        F.lit(None).cast("int").alias("flow_p50"),
        F.lit(None).cast("int").alias("flow_p99"),
        F.col("granted").alias("permits_granted"),
        F.col("messages").alias("permits_spent"),
        "messages",
        "entries",
        "bytes",
        F.when(F.col("entries") > 0, F.col("batched") / F.col("entries")).alias("batch_mean"),
        "batch_most",
        "redeliveries",
        "acks_individual",
        "acks_cumulative",
        F.col("all_acknowledged").alias("acknowledged"),
        (F.col("ended_starvations") + F.col("since_us").isNotNull().cast("int")).alias(
            "starvations"
        ),
        (F.col("ended_us") + open_us).alias("starved_us"),
        F.greatest("longest_us", "open_us").alias("longest_starved_us"),
        "available_permits",
        "unacked_messages",
        "unacked_most",
        F.col("first_us").alias("first_seen_us"),
        F.col("last_us").alias("last_seen_us"),
        F.col("in_all_least").alias("acknowledged_least"),
        F.col("in_all_untold").alias("untold_acks"),
        "certain",
        "since_us",
        "until_us",
        "goes_on",
        code.alias("code"),
        severity.alias("severity"),
    )


def steps(rows: DataFrame, bucket_us: int, late_us: int) -> DataFrame:
    """One row for each step of time, of all traces together; a stream gives it once it is over.

    Columns: the key `window`; delivered, acknowledged_least, untold_acks, flows,
    lowest_available, events. A step is over when a row comes that is younger than its end by
    late_us; what comes of it after that is dropped.
    """
    ack = is_a("ACK")
    return (
        rows.withWatermark("ts", f"{late_us} microseconds")
        .groupBy(F.window("ts", f"{bucket_us} microseconds"))
        .agg(
            sum_of(is_a("MESSAGE"), "permits").alias("delivered"),
            *(column.alias(name) for name, column in acknowledged_by(ack).items()),
            count_of(flow_that_counts()).alias("flows"),
            F.min("available_permits").alias("lowest_available"),
            F.count(F.lit(1)).alias("events"),
        )
    )


# What a stream keeps of `steps` while they are not over, in its order, and their columns.
KEPT = (
    "struct<delivered: bigint, acknowledged_least: bigint, untold_acks: bigint, flows: bigint,"
    " lowest_available: int, events: bigint>"
)
STEP = (
    "start_us bigint, delivered bigint, acknowledged bigint, acknowledged_least bigint,"
    " flows bigint, lowest_available int, events bigint, hour bigint"
)


def timed(stepped: DataFrame) -> DataFrame:
    """Of `steps`: the columns of STEP; acknowledged: null where not all tell; hour: since 1970."""
    start_us = F.unix_micros("window.start")
    return stepped.select(
        start_us.alias("start_us"),
        "delivered",
        acknowledged().alias("acknowledged"),
        "acknowledged_least",
        "flows",
        "lowest_available",
        "events",
        F.floor(start_us / HOUR_US).alias("hour"),
    )
