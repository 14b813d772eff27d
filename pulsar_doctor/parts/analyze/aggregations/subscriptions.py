"""Which subscriptions are in trouble, and who hoards in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUBSCRIPTION = ("topic", "subscription")
SUMS = ("starved_us", "messages", "redeliveries")
LEAST = ("acknowledged_least", "unacked_least")
COUNTS = ("consumers", "told", "held", "starved_consumers", "stalls")
STARVED_US = 1_000_000  # without permits at a stretch, before a consumer counts as starved


def subscriptions(consumers: DataFrame, keys: tuple[str, ...] = SUBSCRIPTION) -> DataFrame:
    """One row for each subscription, over all traces unless `keys` begin with trace_id.

    Columns: the keys, consumers, starved_consumers (incarnations; starved: for a second at a
    stretch), starved_share (of 1), starved_us, stalls (times without permits), messages,
    acknowledged (null where it is not known for each consumer), redeliveries, unacked_messages (at
    the end of each, together; null for the same reason); hoarder: the consumer that held most
    unacknowledged messages at its peak, hoarder_share: of the peaks of all (of 1), skew: its peak
    by their mean; null where nobody held any, and where it is not known for one that was sent
    something. acknowledged_least, unacked_least: what is reported of these two; certain: nothing is
    missing of any consumer; otherwise all that is counted is at least so much.
    """
    starved = F.coalesce(F.col("longest_starved_us"), F.lit(0)) >= STARVED_US
    # Whoever was sent nothing, and of whom nothing is missing, holds nothing.
    nothing = F.col("certain") & (F.col("messages") == 0)
    unacked = F.coalesce("unacked_messages", F.when(nothing, F.lit(0)))
    unknown_peak = F.col("unacked_most").isNull() & (F.col("messages") > 0)
    consumers = consumers.withColumn("unacked_least", unacked)
    label = F.coalesce("consumer_name", F.concat(F.lit("#"), F.col("incarnation").cast("string")))
    by_label = consumers.groupBy(*keys, label.alias("label")).agg(
        F.count(F.lit(1)).alias("consumers"),
        F.count("acknowledged").alias("told"),
        F.count("unacked_least").alias("held"),
        F.max(unknown_peak).alias("unknown"),
        F.min("certain").alias("certain"),
        F.sum(starved.cast("long")).alias("starved_consumers"),
        F.sum("starvations").alias("stalls"),
        *(F.sum(name).alias(name) for name in (*SUMS, *LEAST)),
        F.max("unacked_most").alias("peak"),
    )
    in_all = by_label.groupBy(*keys).agg(
        *(F.sum(name).alias(name) for name in COUNTS),
        *(F.sum(name).alias(name) for name in (*SUMS, *LEAST)),
        F.max("unknown").alias("unknown"),
        F.min("certain").alias("certain"),
        F.max("peak").alias("most"),
        F.sum("peak").alias("peaks"),
        F.avg("peak").alias("mean"),
        F.max_by("label", F.struct("peak", "label")).alias("hoarder"),
    )
    somebody = (F.col("most") > 0) & ~F.col("unknown")
    all_told, held = (F.col(name) == F.col("consumers") for name in ("told", "held"))
    return in_all.select(
        *keys,
        "consumers",
        "starved_consumers",
        (F.col("starved_consumers") / F.col("consumers")).alias("starved_share"),
        "starved_us",
        "stalls",
        "messages",
        F.when(all_told, F.col("acknowledged_least")).alias("acknowledged"),
        "redeliveries",
        F.when(held, F.col("unacked_least")).alias("unacked_messages"),
        F.when(somebody, F.col("hoarder")).alias("hoarder"),
        F.when(somebody, F.try_divide("most", "peaks")).alias("hoarder_share"),
        F.when(somebody, F.try_divide("most", "mean")).alias("skew"),
        "acknowledged_least",
        F.coalesce("unacked_least", F.lit(0)).alias("unacked_least"),
        "certain",
    )


def ranked(subscriptions: DataFrame) -> DataFrame:
    """The worst first."""
    return subscriptions.orderBy(
        F.desc("starved_us"), F.desc("starved_share"), F.desc("redeliveries"), *SUBSCRIPTION
    )
