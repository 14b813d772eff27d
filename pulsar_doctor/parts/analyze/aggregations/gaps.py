"""Percentiles of waiting times: between FLOWs, to the ack, without permits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pulsar_doctor.parts.analyze.aggregations.histogram import ERROR, bucketed, percentiles
from pulsar_doctor.parts.analyze.aggregations.profile import CONSUMER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PERCENT = (50, 90, 99)
UNSEEN = ("not_known", "end_of_trace")  # ends of times without permits


def gaps(counted: DataFrame, stalls: DataFrame, lives: DataFrame, *, exact: bool) -> DataFrame:
    """One row for each consumer and measure that it has values of.

    measure: between_flows, delivery_to_ack (one value an ACK: of its ids the longest),
    without_permits. Columns: trace_id, incarnation, topic, subscription, consumer_name, measure,
    count, p50_us, p90_us, p99_us, max_us, error, untold. error: of a percentile, relative; 0.0:
    exact. untold: FLOWs and ACKs without a value, which are in no percentile; times
    without permits with an
    end that was not seen, which are, with what was seen of them.
    """
    measured = F.when(F.col("is_flow"), "between_flows").otherwise("delivery_to_ack")
    between = counted.where(F.col("value").isNotNull()).select(
        *CONSUMER, measured.alias("measure"), "value", "count"
    )
    without = (
        stalls.groupBy(*CONSUMER, bucketed("duration_us", exact=exact).alias("bucket"))
        .agg(F.max("duration_us").alias("value"), F.count(F.lit(1)).alias("count"))
        .select(*CONSUMER, F.lit("without_permits").alias("measure"), "value", "count")
    )
    ranked = percentiles(between.unionByName(without), (*CONSUMER, "measure"), PERCENT)
    flows = F.greatest(F.lit(0), F.col("untold_gaps") - (F.col("subscribed") > 0).cast("int"))
    labels = lives.select(
        *CONSUMER, "topic", "subscription", "consumer_name", "untold_delays", flows.alias("flows")
    )
    unseen = stalls.where(F.col("ended_by").isin(*UNSEEN))
    unseen = unseen.groupBy(*CONSUMER).agg(F.count(F.lit(1)).alias("unseen"))
    untold = (
        F.when(F.col("measure") == "between_flows", F.col("flows"))
        .when(F.col("measure") == "delivery_to_ack", F.col("untold_delays"))
        .otherwise(F.coalesce("unseen", F.lit(0)))
    )
    return (
        ranked.join(labels, [*CONSUMER])
        .join(unseen, [*CONSUMER], "left")
        .select(
            *CONSUMER,
            "topic",
            "subscription",
            "consumer_name",
            "measure",
            "count",
            *(F.col(f"p{p}").alias(f"p{p}_us") for p in PERCENT),
            F.col("max").alias("max_us"),
            F.lit(0.0 if exact else ERROR).alias("error"),
            untold.cast("long").alias("untold"),
        )
    )
