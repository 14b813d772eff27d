"""Counts the sizes of FLOWs and ACKs and the times between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pulsar_doctor.parts.analyze.aggregations.profile import CONSUMER, flow_that_counts, is_a

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ERROR = 1 / 128  # of a value: buckets keep its first 8 bits


def histogram(rows: DataFrame, *, exact: bool) -> DataFrame:
    """How often a consumer sent a FLOW of that size after that time, or an ACK after that delay.

    Columns: trace_id, incarnation, is_flow (or else an ACK), permits (null for ACK), value (the
    greatest time in its bucket, µs; null for a first FLOW and an ACK of what is not known), count.
    exact: every value is a bucket; otherwise those of the same first 8 bits are, so that the
    greatest of them is at most 1/128 above any other.
    """
    flow = is_a("FLOW")
    us = F.when(flow, F.col("flow_gap_us")).otherwise(F.col("ack_delay_us"))
    return (
        rows.where(F.col("incarnation").isNotNull() & (flow_that_counts() | is_a("ACK")))
        .select(
            *CONSUMER,
            flow.alias("is_flow"),
            F.when(flow, F.col("permits")).alias("permits"),
            us.alias("us"),
        )
        .groupBy(*CONSUMER, "is_flow", "permits", bucketed("us", exact=exact).alias("bucket"))
        .agg(F.max("us").alias("value"), F.count(F.lit(1)).alias("count"))
        .drop("bucket")
    )


def bucketed(name: str, *, exact: bool) -> Column:
    """The least value of the bucket that a value of this column belongs to."""
    if exact:
        return F.col(name)
    dropped = f"greatest(0, cast(floor(log2(cast({name} as double))) as int) - 7)"
    return F.expr(f"if({name} < 256, {name}, shiftleft(shiftright({name}, {dropped}), {dropped}))")
