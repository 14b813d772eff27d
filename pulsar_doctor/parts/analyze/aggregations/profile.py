"""One pass over all commands: what each consumer did in each step of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pulsar_doctor.wire.columns import OURS
from pulsar_doctor.wire.commands import CODES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CONSUMER = ("trace_id", "incarnation")
LABELS = ("topic", "subscription", "subscription_type", "consumer_name", "client_version")
REDELIVER = "REDELIVER_UNACKNOWLEDGED_MESSAGES"
ENDING = ("CLOSE_CONSUMER", "UNSUBSCRIBE")
WORK = ("MESSAGE", "ACK", REDELIVER, "TAKEN")


def profile(rows: DataFrame, bucket_us: int) -> DataFrame:
    """One row for each consumer incarnation and step of time in which it had a command.

    Commands of no consumer make up an incarnation null. Keys: trace_id, incarnation, bucket (ts div
    bucket_us); the other columns are those of `figures`.
    """
    bucket = F.expr(f"unix_micros(ts) div {bucket_us}")
    return rows.groupBy(*CONSUMER, bucket.alias("bucket")).agg(*figures())


def figures() -> list[Column]:
    """What is counted of the rows of a group, whichever it is.

    Counts: subscribed, flow_count, granted, messages (as the broker debits them), entries, bytes,
    batched (messages of the entries as they were published), redeliveries, acks_individual,
    acks_cumulative (commands), acknowledged_least (messages, by the ACKs that report them).
    Commands that do not report: untold_acks (how many messages), untold_delays (ACKs: since when
    they were held), untold_gaps (FLOWs: since the one before; the first has none). Extremes:
    batch_most, unacked_most, available_lowest, first_flow (where the first FLOW is in the trace),
    flow_most, first_us, last_us, first_seq. As of the last row that reports them: told_seq,
    available_permits, unacked_messages. seen_seq: the last row that says whether it is starved,
    which an ERROR does not. ended_untold_seq: the last end of a time without permits that does not
    say since when it lasted (older programs). ending_seq: the last command that ends a consumer;
    spoke_seq: the last that neither ends it nor says that this is done.
    """
    flow, message, ack = is_a("FLOW"), is_a("MESSAGE"), is_a("ACK")
    reported_seq = F.when(F.col("available_permits").isNotNull(), F.col("seq"))
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
        **acknowledged_by(ack),
        "untold_delays": count_of(ack & F.col("ack_delay_us").isNull()),
        "untold_gaps": count_of(granted & F.col("flow_gap_us").isNull()),
        "batch_most": F.max(F.when(message, F.col("messages"))),
        "unacked_most": F.max("unacked_messages"),
        "available_lowest": F.min("available_permits"),
        "first_flow": F.max(F.when(first_flow, F.col("permits"))),
        "flow_most": F.max(F.when(flow, F.col("permits"))),
        "first_us": F.min(at_us),
        "last_us": F.max(at_us),
        "first_seq": F.min("seq"),
        "subscribed": count_of(is_a("SUBSCRIBE")),
        "told_seq": F.max(reported_seq),
        "available_permits": F.max_by("available_permits", reported_seq),
        "unacked_messages": F.max_by("unacked_messages", reported_seq),
        "seen_seq": F.max(F.when(~is_a("ERROR"), F.col("seq"))),
        "ended_untold_seq": F.max(F.when(ended_untold, F.col("seq"))),
        "ending_seq": F.max(F.when(is_a(*ENDING), F.col("seq"))),
        "spoke_seq": F.max(F.when(~is_a(*ENDING, "SUCCESS"), F.col("seq"))),
    }
    return [column.alias(name) for name, column in columns.items()]


def acknowledged_by(ack: Column) -> dict[str, Column]:
    """What the ACKs of a group acknowledged: messages at least, and how many ACKs do not tell.

    An older program's segments do not tell it, nor does what comes behind missing commands.
    """
    return {
        "acknowledged_least": sum_of(ack, "acknowledged_messages"),
        "untold_acks": count_of(ack & F.col("acknowledged_messages").isNull()),
    }


def acknowledged() -> Column:
    """Messages, of the columns of `acknowledged_by`: null where not every ACK tells."""
    return F.when(F.col("untold_acks") == 0, F.col("acknowledged_least"))


def ends_here() -> Column:
    """Whether a row ends a time without permits of its own incarnation.

    A SUBSCRIBE ends that of another one, a CLOSE those of all on its connection. Older programs do
    not write `starved_from`.
    """
    own = F.col("starved_us").isNotNull() & ~is_a("SUBSCRIBE", "CLOSE")
    return F.col("starved_from").isNotNull() | own


def flow_that_counts() -> Column:
    """Whether a row is a FLOW that the broker takes: it drops one before SUBSCRIBE has succeeded.

    Only then a consumer has no permits and is not starved.
    """
    untold = F.col("starved_since").isNull() & F.col("starved_us").isNull()
    dropped = untold & F.coalesce(F.col("available_permits") <= 0, F.lit(False))
    return is_a("FLOW") & ~dropped


def is_a(*commands: str) -> Column:
    """Whether a row is one of these commands: by its number, which takes less than its name."""
    code = F.col("command_code")
    ours = [name for name in commands if name not in CODES]
    found = code.isin(*(CODES[name] for name in commands if name in CODES))
    return found | ((code == OURS) & F.col("command").isin(*ours)) if ours else found


def count_of(which: Column) -> Column:
    """How many rows of a group are so."""
    return F.count(F.when(which, F.lit(1)))


def sum_of(which: Column, name: str) -> Column:
    """The sum of a column over the rows of a group that are so; null is 0."""
    return F.sum(F.when(which, F.coalesce(F.col(name), F.lit(0))).otherwise(F.lit(0)))
