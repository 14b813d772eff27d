"""What happened in each step of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pulsar_doctor.parts.analyze.aggregations.profile import CONSUMER, acknowledged

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STEP = ("trace_id", "topic", "bucket")


def timeline(profiled: DataFrame, lives: DataFrame, stalls: DataFrame, bucket_us: int) -> DataFrame:
    """One row for each trace, topic and step of time in which something happened or stood still.

    Columns: trace_id, topic, start, bucket_us, delivered, acknowledged (messages; null where not
    all ACKs tell), flows, lowest_available (permits of the consumer that had least, as its commands
    show; null where there were none), starved_consumers (without permits at any moment of the
    step), acknowledged_least (by the ACKs that tell), certain: nothing is missing of any consumer
    that spoke or was starved in it; otherwise what is counted is at least so much.
    """
    first = F.expr(f"unix_micros(start) div {bucket_us}")
    last = F.expr(f"greatest(unix_micros(start), unix_micros(end) - 1) div {bucket_us}")
    starved = stalls.select(*CONSUMER, "topic", F.explode(F.sequence(first, last)).alias("bucket"))
    starved = starved.distinct().select(*STEP, F.lit(1).alias("starved"))
    sums = ("messages", "flow_count", "acknowledged_least", "untold_acks")
    done = profiled.join(lives.select(*CONSUMER, "topic", "certain"), [*CONSUMER]).select(
        *STEP, *sums, "available_lowest", "certain"
    )
    return (
        done.unionByName(starved, allowMissingColumns=True)
        .groupBy(*STEP)
        .agg(
            *(_sum(name) for name in (*sums, "starved")),
            F.min("available_lowest").alias("lowest_available"),
            F.coalesce(F.min("certain"), F.lit(True)).alias("certain"),
        )
        .select(
            "trace_id",
            "topic",
            F.timestamp_micros(F.col("bucket") * bucket_us).alias("start"),
            F.lit(bucket_us).cast("long").alias("bucket_us"),
            F.col("messages").alias("delivered"),
            acknowledged().alias("acknowledged"),
            F.col("flow_count").alias("flows"),
            "lowest_available",
            F.col("starved").alias("starved_consumers"),
            "acknowledged_least",
            "certain",
        )
    )


def _sum(name: str) -> Column:
    return F.coalesce(F.sum(name), F.lit(0)).alias(name)


def in_all(steps: DataFrame) -> DataFrame:
    """The same over all traces and topics: start, bucket_us and the seven figures."""
    all_known = F.count("acknowledged") == F.count(F.lit(1))
    return steps.groupBy("start", "bucket_us").agg(
        F.sum("delivered").alias("delivered"),
        F.when(all_known, F.sum("acknowledged")).alias("acknowledged"),
        F.sum("flows").alias("flows"),
        F.min("lowest_available").alias("lowest_available"),
        F.sum("starved_consumers").alias("starved_consumers"),
        F.sum("acknowledged_least").alias("acknowledged_least"),
        F.min("certain").alias("certain"),
    )
