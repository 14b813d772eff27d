"""Aggregates of traces that still grow: what is kept of their consumers, and what is let go.

Rows come in steps, those of a trace in order. One row for each consumer incarnation is kept, and
each step merges what it saw of it into that row. Once nothing more can come of an incarnation it
has ended:

    its connection closes (CLOSE), or the next relay begins, which the connection did not survive
    another one subscribes under its number on its connection
    the broker closes it (CLOSE_CONSUMER), or answers its own CLOSE_CONSUMER or UNSUBSCRIBE
    the broker refuses its SUBSCRIBE

The row of one that has ended leaves with the step after; of those only the worst stay, a fixed
number. So what is kept grows with the consumers that are there at one time and not with those that
ever were. An event that ends something, or behind which something is not known (CLOSE, GAP,
UNPARSED, missing rows), is looked at in its own step only: what it means is in the rows then.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from pulsar_doctor.spark.aggregations.findings import judged
from pulsar_doctor.spark.aggregations.lives import MOST, SUMS
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
from pulsar_doctor.wire.columns import CLOSE, GAP, GENERATION_BITS, OPEN, TO_CLIENT, UNPARSED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FOREVER = (1 << 63) - 1  # a seq that no row has
DOUBTS = (GAP, UNPARSED)

# Of a step and of all steps before: how two rows of an incarnation become one.
ADDED = (*SUMS, "events", "ended_starvations", "ended_us")
HIGHEST = (
    *MOST, "last_seq", "conn_id", "consumer_id", "longest_us", "ended_seq", "starved_seq",
    "worked_us", "acked_us", "answered_seq", "refused_seq", "taken_seq", "lost_seq", "doubt_seq",
    "end_seq", "end_us", "ended_step",
)  # fmt: skip
LOWEST = ("first_us", "first_seq", "available_lowest")
AS_OF = {
    "available_permits": "told_seq",
    "unacked_messages": "told_seq",
    "since_us": "starved_seq",
    "starved_until_us": "starved_seq",
}
KEPT = ", ".join(
    (
        "trace_id string, incarnation int",
        *(f"{name} string" for name in LABELS),
        *(f"{name} bigint" for name in (*ADDED, *HIGHEST, *LOWEST, *AS_OF)),
    )
)


def seen(rows: DataFrame) -> DataFrame:
    """One row for each incarnation in the rows of a step: `figures`, and what KEPT has of it.

    ended_*: times without permits that a row of its own has ended; starved_seq, since_us,
    starved_until_us: the last row that shows it without permits; worked_us, acked_us: signs of work
    meanwhile; answered_seq, refused_seq, taken_seq: the last SUCCESS and ERROR that answer it, the
    broker's CLOSE_CONSUMER.
    """
    starved = F.col("starved_since").isNotNull()
    starved_seq = F.when(starved, F.col("seq"))
    # A SUBSCRIBE that replaces a consumer ends the starvation of the one before.
    own_us = F.when(~is_a("SUBSCRIBE"), F.col("starved_us"))
    at_us = F.unix_micros("ts")
    # One that does not tell may have acknowledged any number.
    acked = is_a("ACK") & (F.coalesce("acknowledged_messages", F.lit(1)) > 0)
    taken = is_a("CLOSE_CONSUMER") & (F.col("direction") == TO_CLIENT)
    known = rows.where(F.col("incarnation").isNotNull())
    return known.groupBy(*CONSUMER, *LABELS).agg(
        *figures(),
        F.count(F.lit(1)).alias("events"),
        F.max("seq").alias("last_seq"),
        F.max("conn_id").alias("conn_id"),
        F.max("consumer_id").alias("consumer_id"),
        F.count(own_us).alias("ended_starvations"),
        F.coalesce(F.sum(own_us), F.lit(0)).alias("ended_us"),
        F.max(own_us).alias("longest_us"),
        F.max(F.when(own_us.isNotNull(), F.col("seq"))).alias("ended_seq"),
        F.max(starved_seq).alias("starved_seq"),
        F.max_by(F.unix_micros("starved_since"), starved_seq).alias("since_us"),
        F.max_by(at_us, starved_seq).alias("starved_until_us"),
        F.max(F.when(starved & F.col("command").isin(*WORK), at_us)).alias("worked_us"),
        F.max(F.when(starved & acked, at_us)).alias("acked_us"),
        F.max(F.when(is_a("SUCCESS"), F.col("seq"))).alias("answered_seq"),
        F.max(F.when(is_a("ERROR"), F.col("seq"))).alias("refused_seq"),
        F.max(F.when(taken, F.col("seq"))).alias("taken_seq"),
    )


def events(rows: DataFrame) -> DataFrame:
    """Rows of no consumer that concern several: trace_id, conn_id, seq, at_us, command.

    Of OPEN only those of a relay that is not the first of its trace.
    """
    later = (F.col("command") == OPEN) & (F.shiftright("conn_id", GENERATION_BITS) > 0)
    which = F.col("command").isin(CLOSE, *DOUBTS) | later
    return rows.where(which).select(
        "trace_id", "conn_id", "seq", F.unix_micros("ts").alias("at_us"), "command"
    )


def merged(kept: DataFrame, new: DataFrame) -> DataFrame:
    """The rows of KEPT with those that a step has `seen`: one for each incarnation."""
    both = kept.unionByName(new, allowMissingColumns=True)
    return both.groupBy(*CONSUMER, *LABELS).agg(
        *(F.sum(name).alias(name) for name in ADDED),
        *(F.max(name).alias(name) for name in HIGHEST),
        *(F.min(name).alias(name) for name in LOWEST),
        *(F.max_by(name, seq).alias(name) for name, seq in AS_OF.items()),
    )


def as_kept(new: DataFrame) -> DataFrame:
    """What a step has `seen`, where nothing was kept before: with all columns of KEPT."""
    wanted = [column.split(" ") for column in KEPT.split(", ")]
    return new.select(
        *(
            F.col(name) if name in new.columns else F.lit(None).cast(kind).alias(name)
            for name, kind in wanted
        )
    )


def with_ends(
    consumers: DataFrame, events: DataFrame, kinds: AbstractSet[str], step: int
) -> DataFrame:
    """The columns of KEPT: with what these events ended, which is noted as ended in this step.

    kinds: the commands among the events.
    """
    again = Window.partitionBy("trace_id", "conn_id", "consumer_id").orderBy("incarnation")
    found = consumers.withColumns(
        {"again_seq": F.lead("first_seq").over(again), "again_us": F.lead("first_us").over(again)}
    )
    ends = ["again"]
    if CLOSE in kinds:
        found = found.join(_closes(events), ["trace_id", "conn_id"], "left")
        ends.append("close")
    if OPEN in kinds:
        found = found.join(_relays(consumers, events), [*CONSUMER], "left")
        ends.append("relay")
    names = [f"{end}_seq" for end in ends]
    first_seq = F.least(*names) if len(names) > 1 else F.col(names[0])
    at_us = (F.when(first_seq == F.col(f"{end}_seq"), F.col(f"{end}_us")) for end in ends)
    end_us = F.when(F.col("end_seq").isNull(), F.coalesce(*at_us)).otherwise(F.col("end_us"))
    found = found.withColumns({"end_us": end_us, "end_seq": F.coalesce("end_seq", first_seq)})
    ended = F.col("end_seq").isNotNull() | F.coalesce(_answered(), F.lit(False))
    ended_step = F.coalesce("ended_step", F.when(ended, F.lit(step)))
    return found.withColumn("ended_step", ended_step).select(*consumers.columns)


def _closes(events: DataFrame) -> DataFrame:
    closes = events.where(is_a(CLOSE)).groupBy("trace_id", "conn_id")
    return closes.agg(F.min("seq").alias("close_seq"), F.min("at_us").alias("close_us"))


def _relays(consumers: DataFrame, events: DataFrame) -> DataFrame:
    """By consumer: the beginning of the next relay, which its connection did not survive."""
    generation = F.shiftright("conn_id", GENERATION_BITS)
    began = events.where(is_a(OPEN)).select(
        F.col("trace_id").alias("in_trace"), generation.alias("generation"), "seq", "at_us"
    )
    begun = began.groupBy("in_trace", "generation").agg(
        F.min("seq").alias("seq"), F.min("at_us").alias("at_us")
    )
    older = (F.col("trace_id") == F.col("in_trace")) & (generation < F.col("generation"))
    who = consumers.select(*CONSUMER, "conn_id").join(F.broadcast(begun), older)
    ended = who.groupBy(*CONSUMER)
    return ended.agg(F.min("seq").alias("relay_seq"), F.min("at_us").alias("relay_us"))


def _answered() -> Column:
    """Whether the broker has closed it, has refused it, or has answered its own close."""
    asked_only = F.col("answered_seq").isNull() & F.col("ending_seq").isNull()
    return (
        F.col("taken_seq").isNotNull()
        | (F.col("answered_seq") > F.col("ending_seq"))
        | (F.col("refused_seq").isNotNull() & asked_only)
    )


def with_doubts(consumers: DataFrame, doubts: DataFrame) -> DataFrame:
    """The columns of KEPT: with the last event of these behind which something is not known.

    doubts: as `events`, conn_id null where they concern all of a trace. lost_seq: before the
    consumer ended, or was ended; doubt_seq: before it began to close itself, which may not stand.
    """
    own_end = _own_end()
    at = doubts.select("trace_id", F.col("conn_id").alias("on_conn"), F.col("seq").alias("at_seq"))
    who = consumers.select(
        *CONSUMER,
        "conn_id",
        "first_seq",
        F.coalesce("end_seq", F.lit(FOREVER)).alias("end_seq"),
        F.coalesce(own_end, F.lit(FOREVER)).alias("own_end"),
    )
    here = who.withColumn("on_conn", F.col("conn_id")).join(at, ["trace_id", "on_conn"])
    everywhere = who.join(F.broadcast(at.where("on_conn is null")), ["trace_id"])
    behind = here.unionByName(everywhere.select(*here.columns))
    behind = behind.where(
        (F.col("at_seq") > F.col("first_seq")) & (F.col("at_seq") < F.col("end_seq"))
    )
    found = behind.groupBy(*CONSUMER).agg(
        F.max("at_seq").alias("new_lost_seq"),
        F.max(F.when(F.col("at_seq") < F.col("own_end"), F.col("at_seq"))).alias("new_doubt_seq"),
    )
    joined = consumers.join(found, [*CONSUMER], "left")
    joined = joined.withColumn("doubt_seq", F.greatest(_doubt_seq(), "new_doubt_seq"))
    joined = joined.withColumn("lost_seq", F.greatest("lost_seq", "new_lost_seq"))
    return joined.select(*consumers.columns)


def _doubt_seq() -> Column:
    """The last of its doubts before it began to close itself, which may not have been so before."""
    before = F.col("lost_seq") < F.coalesce(_own_end(), F.lit(FOREVER))
    return F.greatest("doubt_seq", F.when(before, F.col("lost_seq")))


def _own_end() -> Column:
    return F.when(F.col("ending_seq") > F.col("spoke_seq"), F.col("ending_seq"))


def without_most_ended(kept: DataFrame, most: int) -> DataFrame:
    """Of the rows of KEPT, those that have not ended, and so many of the others: the worst."""
    over = F.col("ended_step").isNotNull()
    since_us, until_us = _waits()
    starved_us = F.col("ended_us") + F.coalesce(until_us - since_us, F.lit(0))
    worst = kept.where(over).orderBy(starved_us.desc(), *CONSUMER).limit(most)
    return kept.where(~over).unionByName(worst)


def ended_in(step: int) -> Column:
    """Whether a row of KEPT is of one that ended in that step."""
    return F.col("ended_step") == step


def _lost() -> Column:
    """Whether it is not known how its last time without permits went on."""
    return F.coalesce(F.greatest("lost_seq", "seen_seq") > F.col("starved_seq"), F.lit(False))


def _waits() -> tuple[Column, Column]:
    """Since when and until when it was without permits, where no row of its own has ended that.

    until: null where nothing has.
    """
    waits = F.col("starved_seq") > F.coalesce("ended_seq", F.lit(-1))
    until_us = F.when(_lost(), F.col("starved_until_us")).otherwise(F.col("end_us"))
    return F.when(waits, F.col("since_us")), F.when(waits, until_us)


def standing(kept: DataFrame, traces: DataFrame) -> DataFrame:
    """Of rows of KEPT, the columns of `consumers` as they stand now, moments as *_us, and more.

    traces: trace_id and trace_us, its last moment: so far goes a time without permits that nothing
    has ended. flow_p50 and flow_p99 are null: they are not kept. since_us, until_us: of the last
    time without permits, where no row of the consumer has ended it; goes_on: whether anything else
    has; code, severity: of that.
    """
    since_us, until_us = _waits()
    goes_on = since_us.isNotNull() & ~_lost() & F.col("end_seq").isNull()
    joined = _as_far_as_known(kept).join(F.broadcast(traces), ["trace_id"])
    waiting = joined.withColumn("goes_on", F.coalesce(goes_on, F.lit(False)))
    until_us = F.when(since_us.isNotNull(), F.coalesce(until_us, F.col("trace_us")))
    waiting = waiting.withColumn("until_us", until_us).withColumn("since_us", since_us)
    return _judged(waiting.withColumn("open_us", F.col("until_us") - F.col("since_us")))


def _as_far_as_known(kept: DataFrame) -> DataFrame:
    """With `certain`, and without what was told before commands went missing: as in `lives`."""
    doubt_seq = _doubt_seq()
    since = F.coalesce(doubt_seq > F.coalesce("told_seq", F.lit(-1)), F.lit(False))
    return kept.withColumns(
        {
            "certain": (F.col("subscribed") > 0) & doubt_seq.isNull(),
            **{
                name: F.when(~since, F.col(name))
                for name in ("available_permits", "unacked_messages")
            },
        }
    )


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


STEP = (
    "start_us bigint, delivered bigint, acknowledged_least bigint, untold_acks bigint,"
    " flows bigint, lowest_available int, events bigint"
)


def steps(rows: DataFrame, bucket_us: int, over_us: int | None) -> DataFrame:
    """One row of STEP for each step of time, of all traces together.

    over_us: steps that end until then are over: their rows are one whose start_us is null.
    """
    start_us = F.expr(f"unix_micros(ts) - pmod(unix_micros(ts), {bucket_us}L)")
    if over_us is not None:
        start_us = F.when(start_us + bucket_us > over_us, start_us)
    ack = is_a("ACK")
    return rows.groupBy(start_us.alias("start_us")).agg(
        sum_of(is_a("MESSAGE"), "permits").alias("delivered"),
        *(column.alias(name) for name, column in acknowledged_by(ack).items()),
        count_of(flow_that_counts()).alias("flows"),
        F.min("available_permits").alias("lowest_available"),
        F.count(F.lit(1)).alias("events"),
    )


def merged_steps(kept: DataFrame, new: DataFrame, from_us: int) -> DataFrame:
    """The rows of STEP of both; those that end before from_us are let go."""
    both = kept.unionByName(new)
    young = F.col("start_us").isNull() | (F.col("start_us") >= from_us)
    added = ("delivered", "acknowledged_least", "untold_acks", "flows", "events")
    return (
        both.where(young)
        .groupBy("start_us")
        .agg(
            *(F.sum(name).alias(name) for name in added),
            F.min("lowest_available").alias("lowest_available"),
        )
    )
