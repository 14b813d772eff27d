"""A table of every time without permits, with its causes.

While a consumer has no permits each of its rows has the start (`starved_since`), and the row that
ends this has its length (`starved_us`, `starved_from`). A connection that closes ends
what its consumers went through without a row of theirs, so that such an episode ends with the
connection; and one that nothing has ended lasts to the end of the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pulsar_doctor.parts.analyze.aggregations.findings import judged
from pulsar_doctor.parts.analyze.aggregations.lives import landmark
from pulsar_doctor.parts.analyze.aggregations.profile import (
    CONSUMER,
    REDELIVER,
    WORK,
    acknowledged,
    acknowledged_by,
    ends_here,
    is_a,
)
from pulsar_doctor.parts.analyze.aggregations.small_table import small_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pulsar_doctor.parts.analyze.at_the_end import AtTheEnd

SHADOWED = ("acknowledged_least", "untold_acks")  # of a whole life: an episode has its own


def stalls(moments: DataFrame, lives: DataFrame) -> DataFrame:
    """One row for each time that a consumer spent without permits, however short.

    Two that begin in the same microsecond are one.

    Columns: trace_id, incarnation, topic, subscription, consumer_name, start, end, duration_us,
    ended_by, unacked_at_start (null where the start is not in the trace), available_lowest,
    acknowledged (messages, by its ACKs meanwhile; null where not all of these tell, or it began
    before the first row of its consumer that there is), code and severity of the finding, null
    where there is none; acknowledged_least (by the ACKs that tell).
    ended_by: flow; ack or redelivery (FLOWs that the unacked limit had set aside count again);
    close; reconnect: closed, and a consumer of that topic, subscription and name came later;
    not_known: commands are missing, `end` is the last moment that is known; end_of_trace.
    """
    episodes = moments.where("landmark is null").join(lives.drop(*SHADOWED), [*CONSUMER])
    ended = F.col("ended_us").isNotNull()
    superseded = ~ended & (F.col("last_seq") < F.col("ended_untold_seq"))
    gone_seq = F.when(ended, F.col("last_seq")).otherwise(F.col("closed_seq"))
    closed = F.when(F.col("back_seq") >= gone_seq, "reconnect").otherwise("close")
    lost = F.col("last_seq") < F.greatest("lost_seq", "seen_seq")
    lost = lost & F.col("to_the_end_us").isNull()
    ended_by = (
        F.when(ended, F.coalesce(_ending_name(), closed))
        .when(lost, "not_known")
        .when(F.col("closed_us").isNotNull(), closed)
        .otherwise("end_of_trace")
    )
    end_us = (
        F.when(ended, F.col("ended_us"))
        .when(lost, F.col("known_us"))
        .otherwise(F.coalesce("closed_us", "trace_us"))
    )
    open_us = end_us - F.col("since_us")
    found = episodes.where(~F.coalesce(superseded, F.lit(False))).withColumns(
        {
            "ended_by": ended_by,
            "end_us": end_us,
            "duration_us": F.coalesce("starved_us", "to_the_end_us", open_us),
            "quiet_us": end_us - F.coalesce("worked_us", "since_us"),
        }
    )
    code, severity = judged()
    return found.select(
        *CONSUMER,
        "topic",
        "subscription",
        "consumer_name",
        F.timestamp_micros("since_us").alias("start"),
        F.timestamp_micros("end_us").alias("end"),
        "duration_us",
        "ended_by",
        "unacked_at_start",
        "available_lowest",
        F.when(F.col("since_us") >= F.col("opened_us"), acknowledged()).alias("acknowledged"),
        code.alias("code"),
        severity.alias("severity"),
        "acknowledged_least",
    )


def as_the_rules_say(stalls: DataFrame, ends: Sequence[AtTheEnd]) -> DataFrame:
    """With the code and severity of the causes where they judged a consumer in that episode.

    That is where the trace ends before the episode does, or the last consumers were closed in it.
    """
    if not ends:
        return stalls
    columns = "trace_id: string, incarnation: int, since_us: bigint, code: string, severity: string"
    names = (*CONSUMER, "since_us", "code", "severity")
    values = [{name: getattr(each, name) for name in names} for each in ends]
    verdicts = small_table(stalls.sparkSession, values, columns)
    verdicts = verdicts.toDF(*CONSUMER, "end_since_us", "end_code", "end_severity")
    joined = stalls.join(F.broadcast(verdicts), [*CONSUMER], "left")
    closed = (F.col("ended_by") == "close") & (F.unix_micros("start") == F.col("end_since_us"))
    continues = (F.col("ended_by") == "end_of_trace") & F.col("end_since_us").isNotNull()
    is_judged = F.coalesce(continues | closed, F.lit(False))
    judged = {
        name: F.when(is_judged, F.col(f"end_{name}")).otherwise(F.col(name)).alias(name)
        for name in ("code", "severity")
    }
    return joined.select(*(judged.get(name, F.col(name)) for name in stalls.columns))


def long_or_found(stalls: DataFrame, floor_us: int) -> DataFrame:
    """The times without permits that matter: from a length on, or with a finding."""
    return stalls.where((F.col("duration_us") >= floor_us) | F.col("code").isNotNull())


def brief(stalls: DataFrame, floor_us: int) -> DataFrame:
    """The others, counted: a queue of 1 has one after each message, for microseconds.

    Columns: trace_id, incarnation, topic, subscription, consumer_name, below_us (a power of ten
    from a millisecond on, at most the floor: so long they were not), count, total_us (of these).
    """
    duration_us = F.col("duration_us")
    below_us = F.lit(floor_us)
    for power in reversed([10**n for n in range(3, 13) if 10**n < floor_us]):
        below_us = F.when(duration_us < power, F.lit(power)).otherwise(below_us)
    short = stalls.where((duration_us < floor_us) & F.col("code").isNull())
    who = (*CONSUMER, "topic", "subscription", "consumer_name")
    return short.groupBy(*who, below_us.cast("long").alias("below_us")).agg(
        F.count(F.lit(1)).alias("count"), F.sum("duration_us").alias("total_us")
    )


def moments(rows: DataFrame) -> DataFrame:
    """By trace_id, incarnation and start: what the rows of a time without permits say of it.

    Each `landmark` is one row more: no row of such a time is a landmark.
    """
    starved = F.col("starved_since").isNotNull()
    ended = ends_here()
    at_us, since_us = F.unix_micros("ts"), F.unix_micros("starved_since")
    from_us = F.coalesce(F.unix_micros("starved_from"), at_us - F.col("starved_us"))
    work, ack = is_a(*WORK), is_a("ACK")
    wanted = F.col("landmark").isNotNull() | (F.col("incarnation").isNotNull() & (starved | ended))
    return (
        rows.withColumn("landmark", landmark())
        .where(wanted)
        .groupBy(*CONSUMER, F.coalesce(since_us, from_us).alias("since_us"), "landmark")
        .agg(
            F.max("seq").alias("last_seq"),
            F.max(at_us).alias("known_us"),
            F.max(F.when(work & starved, at_us)).alias("worked_us"),
            F.max(F.when(ended, at_us)).alias("ended_us"),
            F.max(F.when(ended, _ending_number())).alias("ending_number"),
            F.max("starved_us").alias("starved_us"),
            F.min_by("unacked_messages", F.when(at_us == since_us, F.col("seq"))).alias(
                "unacked_at_start"
            ),
            F.max_by("unacked_messages", F.when(starved, F.col("seq"))).alias("unacked_at_end"),
            F.min(F.when(starved, F.col("available_permits"))).alias("available_lowest"),
            *(column.alias(name) for name, column in acknowledged_by(ack).items()),
        )
    )


def _ending_number() -> Column:
    """What ends an episode as a number, for which Spark need not sort; 0: the end of a consumer.

    A command of another kind shows only that the ack of another consumer had ended it before.
    """
    return (
        F.when(F.coalesce(F.col("available_permits"), F.lit(0)) <= 0, 0)
        .when(is_a("FLOW"), 1)
        .when(is_a(REDELIVER), 2)
        .otherwise(3)
    )


def _ending_name() -> Column:
    """The other way round; null where the consumer was closed."""
    number = F.col("ending_number")
    return F.when(number == 1, "flow").when(number == 2, "redelivery").when(number == 3, "ack")
