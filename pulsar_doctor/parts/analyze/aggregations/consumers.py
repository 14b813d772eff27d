"""A table of consumers: what each one did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pulsar_doctor.parts.analyze.aggregations.gaps import FLOW_SIZES, UNSEEN
from pulsar_doctor.parts.analyze.aggregations.profile import CONSUMER, LABELS, acknowledged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def consumers(lives: DataFrame, waits: DataFrame, stalls: DataFrame) -> DataFrame:
    """One row for each trace_id and incarnation, that is from SUBSCRIBE to close.

    Columns: trace_id, incarnation, topic, subscription, subscription_type, consumer_name,
    client_version; receiver_queue_size: its first FLOW, null where that is not in the trace or may
    mean 0 or 1; flow_count, flow_p50, flow_p99 (permits of a FLOW); permits_granted, permits_spent;
    messages, entries, bytes (headers and payload), batch_mean, batch_most (messages of an entry),
    redeliveries (messages that came again, as the broker counts); acks_individual, acks_cumulative
    (commands), acknowledged (messages, by its ACKs; null where not all of these tell);
    starvations, starved_us, longest_starved_us; available_permits and unacked_messages at its end
    (null where commands are missing before it), unacked_most; first_seen, last_seen;
    acknowledged_least (by the ACKs that tell), untold_acks (that do not); certain: nothing of it is
    missing; otherwise all that is counted is at least so much. And those of gaps.UNTOLD.
    """
    sizes = waits.where(F.col("measure") == FLOW_SIZES)
    starved = stalls.groupBy(*CONSUMER).agg(
        F.count(F.lit(1)).alias("starvations"),
        F.sum("duration_us").alias("starved_us"),
        F.max("duration_us").alias("longest_starved_us"),
        F.count(F.when(F.col("ended_by").isin(*UNSEEN), 1)).alias("without_permits"),
    )
    gaps = F.col("untold_gaps") - (F.col("subscribed") > 0).cast("int")  # a first FLOW has none
    one_by_one = (F.col("first_flow") == 1) & (F.col("flow_most") == 1)
    whole = lives.join(sizes, [*CONSUMER], "left").join(starved, [*CONSUMER], "left")
    return whole.select(
        *CONSUMER,
        *LABELS,
        F.when(~one_by_one, F.col("first_flow")).alias("receiver_queue_size"),
        "flow_count",
        F.col("p50").cast("int").alias("flow_p50"),
        F.col("p99").cast("int").alias("flow_p99"),
        F.col("granted").alias("permits_granted"),
        F.col("messages").alias("permits_spent"),
        "messages",
        "entries",
        "bytes",
        F.try_divide("batched", "entries").alias("batch_mean"),
        "batch_most",
        "redeliveries",
        "acks_individual",
        "acks_cumulative",
        acknowledged().alias("acknowledged"),
        F.coalesce("starvations", F.lit(0)).alias("starvations"),
        F.coalesce("starved_us", F.lit(0)).alias("starved_us"),
        "longest_starved_us",
        "available_permits",
        "unacked_messages",
        "unacked_most",
        F.timestamp_micros("opened_us").alias("first_seen"),
        F.timestamp_micros("last_us").alias("last_seen"),
        "acknowledged_least",
        "untold_acks",
        "certain",
        F.greatest(F.lit(0), gaps).alias("between_flows"),
        F.col("untold_delays").alias("delivery_to_ack"),
        "without_permits",
    )
