"""Entries that were delivered and never acknowledged, while later ones were.

The one aggregate that must look at every entry: it groups them, which moves rows between executors.
So that little is moved, a subscription goes by a number there, a hash of 64 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pulsar_doctor.spark.aggregations.profile import is_a

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SUBSCRIPTION = ("trace_id", "topic", "subscription")
ENTRY = ("number", "ledger_id", "entry_id")
SINGLE_ACTIVE = ("Exclusive", "Failover")  # elsewhere the broker drops cumulative acks


def holes(rows: DataFrame, lives: DataFrame) -> DataFrame:
    """One row for each trace and subscription that was sent something.

    Columns: trace_id, topic, subscription; entries (delivered), acknowledged_entries (of these),
    holes (delivered, not acknowledged in this trace, with a later position that is),
    partly_acknowledged (only some indexes of the batch are: not judged); oldest_hole and
    highest_acknowledged as "ledger:entry", null where there is none; certain: nothing is missing of
    any consumer of it; otherwise an entry that seems to be a hole may be acknowledged.
    """
    touched = _touched(rows)
    highest = _highest(touched)
    up_to, reach = ("cumulative_ledger", "cumulative_entry"), ("ledger", "entry")
    judged = (
        touched.groupBy(*ENTRY)
        .agg(*(F.max(name).alias(name) for name in ("delivered", "whole", "part")))
        .where("delivered = 1")
        .join(F.broadcast(highest), ["number"], "left")
        .withColumn("done", (F.col("whole") == 1) | _not_after(*up_to))
        .withColumn("part", ~F.col("done") & (F.col("part") == 1))
        .withColumn("hole", ~F.col("done") & ~F.col("part") & _not_after(*reach))
    )
    by_ledger = judged.groupBy("number", "ledger_id", *reach).agg(
        F.count(F.lit(1)).alias("entries"),
        *(F.sum(F.col(name).cast("long")).alias(name) for name in ("done", "hole", "part")),
        F.min(F.when(F.col("hole"), F.col("entry_id"))).alias("oldest"),
    )
    holed = F.when(F.col("oldest").isNotNull(), F.col("ledger_id"))
    names = lives.groupBy(*SUBSCRIPTION).agg(F.min("certain").alias("certain"))
    names = names.withColumn("number", _number())
    return (
        by_ledger.groupBy("number", *reach)
        .agg(
            F.sum("entries").alias("entries"),
            F.sum("done").alias("acknowledged_entries"),
            F.sum("hole").alias("holes"),
            F.sum("part").alias("partly_acknowledged"),
            F.min(holed).alias("oldest_ledger"),
            F.min_by("oldest", holed).alias("oldest"),
        )
        .join(names, ["number"])
        .select(
            *SUBSCRIPTION,
            "entries",
            "acknowledged_entries",
            "holes",
            "partly_acknowledged",
            _position("oldest_ledger", "oldest").alias("oldest_hole"),
            _position(*reach).alias("highest_acknowledged"),
            "certain",
        )
    )


def _number() -> Column:
    return F.xxhash64(*SUBSCRIPTION)


def _touched(rows: DataFrame) -> DataFrame:
    """Every entry that a MESSAGE brings or an ACK names: ENTRY, and what that says of it, 0 or 1.

    delivered; whole or part: it is acknowledged; cumulative: and all before it too.
    """
    takes = F.col("subscription_type").isin(*SINGLE_ACTIVE)
    individual = F.col("ack_type") == "individual"
    cumulative = (F.col("ack_type") == "cumulative") & takes
    consumed = rows.where(F.col("incarnation").isNotNull() & F.col("transaction").isNull())
    consumed = consumed.withColumn("number", _number())  # a transaction may not be committed
    one = consumed.where(
        (is_a("MESSAGE") | (is_a("ACK") & (individual | cumulative)))
        & F.col("message_ids").isNull()
        & F.col("entry_id").isNotNull()
    ).select(*ENTRY, "ack_set", is_a("MESSAGE").alias("delivered"), cumulative.alias("cumulative"))
    ids = F.when(individual, F.col("message_ids")).otherwise(F.slice("message_ids", -1, 1))
    several = (
        consumed.where(is_a("ACK") & (individual | cumulative) & F.col("message_ids").isNotNull())
        .select("number", F.explode(ids).alias("id"), cumulative.alias("cumulative"))
        .select("number", "id.*", F.lit(False).alias("delivered"), "cumulative")
    )
    left = F.length(F.translate(F.hex("ack_set"), "0", "")) > 0
    part = ~F.col("delivered") & F.coalesce(left, F.lit(False))
    flags = {
        "delivered": F.col("delivered"),
        "whole": ~F.col("delivered") & ~part,
        "part": part,
        "cumulative": F.coalesce("cumulative", F.lit(False)),
    }
    return one.unionByName(several).select(
        *ENTRY, *(flag.cast("int").alias(name) for name, flag in flags.items())
    )


def _highest(touched: DataFrame) -> DataFrame:
    """By number: the highest position that a cumulative ack reaches, and that any ack does.

    A cumulative ack of a part of a batch reaches to the entry before.
    """
    reached = F.when(F.col("cumulative") == 1, F.col("entry_id") - F.col("part"))
    singly = F.when((F.col("whole") == 1) & (F.col("cumulative") == 0), F.col("entry_id"))
    by_ledger = touched.groupBy("number", "ledger_id").agg(
        F.max(reached).alias("cumulative"), F.max(F.coalesce(reached, singly)).alias("any")
    )
    columns = []
    for name, prefix in (("cumulative", "cumulative_"), ("any", "")):
        ledger = F.when(F.col(name).isNotNull(), F.col("ledger_id"))
        columns.append(F.max(ledger).alias(f"{prefix}ledger"))
        columns.append(F.max_by(name, ledger).alias(f"{prefix}entry"))
    return by_ledger.groupBy("number").agg(*columns)


def _not_after(ledger: str, entry: str) -> Column:
    """Whether an entry lies at or before that position; not where there is none."""
    same = F.col("ledger_id") == F.col(ledger)
    before = (F.col("ledger_id") < F.col(ledger)) | (same & (F.col("entry_id") <= F.col(entry)))
    return F.coalesce(before, F.lit(False))


def _position(ledger: str, entry: str) -> Column:
    both = F.concat(F.col(ledger).cast("string"), F.lit(":"), F.col(entry).cast("string"))
    return F.when(F.col(ledger).isNotNull(), both)
