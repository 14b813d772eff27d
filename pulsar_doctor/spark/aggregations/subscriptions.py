"""Which subscriptions are in trouble, and who hoards in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUBSCRIPTION = ("topic", "subscription")
SUMS = ("starved_us", "messages", "acknowledged", "redeliveries", "unacked_messages")
STARVED_US = 1_000_000  # without permits at a stretch, before a consumer counts as starved


def subscriptions(consumers: DataFrame, keys: tuple[str, ...] = SUBSCRIPTION) -> DataFrame:
    """One row for each subscription, over all traces unless `keys` begin with trace_id.

    Columns: the keys, consumers, starved_consumers (incarnations; starved: for a second at a
    stretch), starved_share (of 1), starved_us, stalls, messages, acknowledged (null where not
    told), redeliveries, unacked_messages (at the end of each; null where none is known); hoarder:
    the consumer that held most unacknowledged messages at its peak, hoarder_share: of the peaks of
    all (of 1), skew: its peak by their mean; null where nobody held any.
    """
    starved = F.coalesce(F.col("longest_starved_us"), F.lit(0)) >= STARVED_US
    label = F.coalesce("consumer_name", F.concat(F.lit("#"), F.col("incarnation").cast("string")))
    by_label = consumers.groupBy(*keys, label.alias("label")).agg(
        F.count(F.lit(1)).alias("consumers"),
        F.count("acknowledged").alias("told"),
        F.sum(starved.cast("long")).alias("starved_consumers"),
        F.sum("starvations").alias("stalls"),
        *(F.sum(name).alias(name) for name in SUMS),
        F.max("unacked_most").alias("peak"),
    )
    in_all = by_label.groupBy(*keys).agg(
        *(F.sum(name).alias(name) for name in ("consumers", "told", "starved_consumers", "stalls")),
        *(F.sum(name).alias(name) for name in SUMS),
        F.max("peak").alias("most"),
        F.sum("peak").alias("peaks"),
        F.avg("peak").alias("mean"),
        F.max_by("label", F.struct("peak", "label")).alias("hoarder"),
    )
    somebody = F.col("most") > 0
    return in_all.select(
        *keys,
        "consumers",
        "starved_consumers",
        (F.col("starved_consumers") / F.col("consumers")).alias("starved_share"),
        "starved_us",
        "stalls",
        "messages",
        F.when(F.col("told") == F.col("consumers"), F.col("acknowledged")).alias("acknowledged"),
        "redeliveries",
        "unacked_messages",
        F.when(somebody, F.col("hoarder")).alias("hoarder"),
        F.when(somebody, F.try_divide("most", "peaks")).alias("hoarder_share"),
        F.when(somebody, F.try_divide("most", "mean")).alias("skew"),
    )


def ranked(subscriptions: DataFrame) -> DataFrame:
    """The worst first."""
    return subscriptions.orderBy(
        F.desc("starved_us"), F.desc("starved_share"), F.desc("redeliveries"), *SUBSCRIPTION
    )
