"""Percentiles of waiting times: between FLOWs, to the ack, without permits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from pulsar_doctor.parts.analyze.aggregations.histogram import ERROR, bucketed
from pulsar_doctor.parts.analyze.aggregations.profile import CONSUMER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PERCENT = (50, 90, 99)
MEASURED = ("incarnation", "measure", "trace_id")  # in this order Spark sorts them fast
FLOW_SIZES = "flow_sizes"  # a measure of `waits` that `consumers` shows
UNSEEN = ("not_known", "end_of_trace")  # ends of times without permits
UNTOLD = ("between_flows", "delivery_to_ack", "without_permits")  # measures; of `consumers` too


def waits(counted: DataFrame, stalls: DataFrame, *, exact: bool) -> DataFrame:
    """Percentiles of all that is measured of a consumer: what `gaps` shows, and FLOW_SIZES.

    counted: `histogram`. Columns: those of MEASURED, count, p50, p90, p99 and max. By nearest rank:
    the p-th percentile is the value at rank ⌈count·p/100⌉.
    """
    measured = F.when(F.col("is_flow"), "between_flows").otherwise("delivery_to_ack")
    values = (
        F.struct(measured.alias("measure"), "value"),
        F.struct(F.lit(FLOW_SIZES).alias("measure"), F.col("permits").cast("long").alias("value")),
    )
    of_both = counted.select(*CONSUMER, "count", F.inline(F.array(*values)))
    without = (
        stalls.groupBy(*CONSUMER, bucketed("duration_us", exact=exact).alias("bucket"))
        .agg(F.max("duration_us").alias("value"), F.count(F.lit(1)).alias("count"))
        .select(*CONSUMER, F.lit("without_permits").alias("measure"), "value", "count")
    )
    by_value = Window.partitionBy(*MEASURED).orderBy("value")
    everything = by_value.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    every = of_both.where(F.col("value").isNotNull()).unionByName(without)
    ranked = every.select(
        *MEASURED,
        "value",
        F.sum("count").over(by_value).alias("up_to"),
        F.sum("count").over(everything).alias("in_all"),
    )
    least = (f"min(if(up_to * 100 >= in_all * {p}, value, null)) as p{p}" for p in PERCENT)
    return ranked.groupBy(*MEASURED).agg(
        *map(F.expr, ("max(in_all) as count", *least, "max(value) as max"))
    )


def gaps(waits: DataFrame, consumers: DataFrame, *, exact: bool) -> DataFrame:
    """One row for each consumer and measure that it has values of.

    measure: between_flows, delivery_to_ack (one value an ACK: of its ids the longest),
    without_permits. Columns: trace_id, incarnation, topic, subscription, consumer_name, measure,
    count, p50_us, p90_us, p99_us, max_us, error, untold. error: of a percentile, relative; 0.0:
    exact. untold: FLOWs and ACKs without a value, which are in no percentile; times without permits
    with an end that was not seen, which are, with what was seen of them.
    consumers: in the columns of UNTOLD it has what is untold of each measure.
    """
    untold = F.coalesce(*(F.when(F.col("measure") == name, F.col(name)) for name in UNTOLD))
    return (
        waits.where(F.col("measure") != FLOW_SIZES)
        .join(consumers, [*CONSUMER])
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
