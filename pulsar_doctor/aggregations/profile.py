"""The one pass over all commands of consumers: what each did in each step of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CONSUMER = ("trace_id", "incarnation")
LABELS = ("topic", "subscription", "subscription_type", "consumer_name", "client_version")
REDELIVER = "REDELIVER_UNACKNOWLEDGED_MESSAGES"
WORK = ("MESSAGE", "ACK", REDELIVER, "TAKEN")


def profile(rows: DataFrame, bucket_us: int) -> DataFrame:
    """One row for each consumer incarnation, step of time and time without permits in it, or none.

    Commands of no consumer make up an incarnation null. Keys: trace_id, incarnation, bucket (ts div
    bucket_us), since_us: when the time without permits began that the rows belong to, the one that
    ends it included; null with permits. The other columns are those of `figures`, and of a time
    without permits: last_seq; worked_us: the last sign of work; ended_us, ending: the row that ends
    it and its kind, see ENDINGS; starved_us: its length, as that row says; unacked_at_start.
    """
    bucket = F.expr(f"unix_micros(ts) div {bucket_us}")
    at_us, starved, ended = F.unix_micros("ts"), F.col("starved_since").isNotNull(), ends_here()
    since_us = F.when(starved, F.unix_micros("starved_since")).when(
        ended, F.coalesce(F.unix_micros("starved_from"), at_us - F.col("starved_us"))
    )
    begins = starved & (F.col("starved_since") == F.col("ts"))
    episode = {
        "last_seq": F.max("seq"),
        "worked_us": F.max(F.when(starved & F.col("command").isin(*WORK), at_us)),
        "ended_us": F.max(F.when(ended, at_us)),
        "ending": F.max(F.when(ended, _ending())),
        "starved_us": F.max("starved_us"),
        "unacked_at_start": F.min_by("unacked_messages", F.when(begins, F.col("seq"))),
    }
    return rows.groupBy(*CONSUMER, bucket.alias("bucket"), since_us.alias("since_us")).agg(
        *figures(), *(column.alias(name) for name, column in episode.items())
    )


# What ends a time without permits, as numbers, for which Spark need not sort.
ENDINGS = {0: None, 1: "flow", 2: "redelivery", 3: "ack"}


def _ending() -> Column:
    """0: the consumer goes. A command of no kind shows that another one's ack had ended it."""
    return (
        F.when(F.coalesce(F.col("available_permits"), F.lit(0)) <= 0, 0)
        .when(is_a("FLOW"), 1)
        .when(is_a(REDELIVER), 2)
        .otherwise(3)
    )


def figures() -> list[Column]:
    """What is counted of the rows of a group, whichever it is.

    Counts: subscribed, flow_count, granted, messages (as the broker debits them), entries, bytes,
    batched (messages of the entries as they were published), redeliveries, acks_individual,
    acks_cumulative (commands), acknowledged (null where no ACK tells). Extremes: batch_most,
    unacked_most, available_lowest, first_flow (where the first FLOW is in the trace), flow_most,
    first_us, last_us, first_seq. As of the last row that tells: told_seq, available_permits,
    unacked_messages. seen_seq: the last row that says whether it is starved, which an ERROR does
    not. ended_untold_seq: the last end of a time without permits that does not say since when it
    lasted (older programs).
    """
    flow, message, ack = is_a("FLOW"), is_a("MESSAGE"), is_a("ACK")
    told_seq = F.when(F.col("available_permits").isNotNull(), F.col("seq"))
    granted = flow_that_counts()
    first_flow = granted & F.col("flow_gap_us").isNull() & F.col("available_permits").isNotNull()
    ended_untold = ends_here() & F.col("starved_from").isNull()
    at_us = F.unix_micros("ts")
    columns = {
        "flow_count": count_of(granted),
        "granted": sum_of(granted, "permits"),
        "messages": sum_of(message, "permits"),
        "entries": count_of(message),
        "bytes": sum_of(message, "payload_bytes"),
        "batched": sum_of(message, "messages"),
        "redeliveries": sum_of(message & (F.col("redelivery_count") > 0), "permits"),
        "acks_individual": count_of(ack & (F.col("ack_type") == "individual")),
        "acks_cumulative": count_of(ack & (F.col("ack_type") == "cumulative")),
        "acknowledged": F.sum(F.when(ack, F.col("acknowledged_messages"))),
        "batch_most": F.max(F.when(message, F.col("messages"))),
        "unacked_most": F.max("unacked_messages"),
        "available_lowest": F.min("available_permits"),
        "first_flow": F.max(F.when(first_flow, F.col("permits"))),
        "flow_most": F.max(F.when(flow, F.col("permits"))),
        "first_us": F.min(at_us),
        "last_us": F.max(at_us),
        "first_seq": F.min("seq"),
        "subscribed": count_of(is_a("SUBSCRIBE")),
        "told_seq": F.max(told_seq),
        "available_permits": F.max_by("available_permits", told_seq),
        "unacked_messages": F.max_by("unacked_messages", told_seq),
        "seen_seq": F.max(F.when(~is_a("ERROR"), F.col("seq"))),
        "ended_untold_seq": F.max(F.when(ended_untold, F.col("seq"))),
    }
    return [column.alias(name) for name, column in columns.items()]


def ends_here() -> Column:
    """Whether a row ends a time without permits of its own incarnation.

    A SUBSCRIBE ends that of another one, a CLOSE those of all on its connection. Older programs do
    not write `starved_from`.
    """
    own = F.col("starved_us").isNotNull() & ~F.col("command").isin("SUBSCRIBE", "CLOSE")
    return F.col("starved_from").isNotNull() | own


def flow_that_counts() -> Column:
    """Whether a row is a FLOW that the broker takes: it drops one before SUBSCRIBE has succeeded.

    Only then a consumer has no permits and is not starved.
    """
    untold = F.col("starved_since").isNull() & F.col("starved_us").isNull()
    dropped = untold & F.coalesce(F.col("available_permits") <= 0, F.lit(False))
    return is_a("FLOW") & ~dropped


def is_a(command: str) -> Column:
    """Whether a row is of that command."""
    return F.col("command") == command


def count_of(which: Column) -> Column:
    """How many rows of a group are so."""
    return F.sum(F.when(which, F.lit(1)).otherwise(F.lit(0)))


def sum_of(which: Column, name: str) -> Column:
    """The sum of a column over the rows of a group that are so; null is 0."""
    return F.sum(F.when(which, F.coalesce(F.col(name), F.lit(0))).otherwise(F.lit(0)))
