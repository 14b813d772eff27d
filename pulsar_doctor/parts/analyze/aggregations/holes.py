"""Entries that were delivered and never acknowledged, while later ones were.

The one aggregate that must look at every entry. So that few rows are grouped and moved, 32 entries
that follow each other are one row with a bit for each, and a subscription is a number, a hash
of 64 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pulsar_doctor.parts.analyze.aggregations.profile import is_a

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SUBSCRIPTION = ("trace_id", "topic", "subscription")
SHIFT = 5
ENTRIES = 1 << SHIFT  # of a block: so few that no arithmetic on their bits leaves 64
ALL = (1 << ENTRIES) - 1
SINGLE_ACTIVE = ("Exclusive", "Failover")  # elsewhere the broker drops cumulative acks


def blocks(rows: DataFrame) -> DataFrame:
    """One row for each run of 32 entries of which one was sent or acknowledged: a bit for each.

    Columns: number (of the subscription), ledger_id, block (entry_id div 32); delivered, whole and
    part (acknowledged; the whole entry, some indexes of it): bits; cumulative, any: the highest
    entry that a cumulative ack, or any, in this block reaches.
    """
    bit = F.expr(f"shiftleft(1L, cast(entry_id & {ENTRIES - 1} as int))")
    bits = {
        name: F.bit_or(F.when(F.col(name), bit).otherwise(F.lit(0)))
        for name in ("delivered", "whole", "part")
    }
    # A cumulative ack of a part of a batch reaches to the entry before.
    reached = F.when(F.col("cumulative"), F.col("entry_id") - F.col("part").cast("int"))
    singly = F.when(F.col("whole"), F.col("entry_id"))
    return (
        _touched(rows)
        .groupBy("number", "ledger_id", F.expr(f"shiftright(entry_id, {SHIFT})").alias("block"))
        .agg(
            *(each.alias(name) for name, each in bits.items()),
            F.max(reached).alias("cumulative"),
            F.max(F.coalesce(reached, singly)).alias("any"),
        )
    )


def holes(blocks: DataFrame, lives: DataFrame) -> DataFrame:
    """One row for each trace and subscription that was sent something.

    Columns: trace_id, topic, subscription; entries (delivered), acknowledged_entries (of these),
    holes (delivered, not acknowledged in this trace, with a later position that is),
    partly_acknowledged (only some indexes of the batch are: not judged); oldest_hole and
    highest_acknowledged as "ledger:entry", null where there is none; certain: nothing is missing of
    any consumer of it; otherwise an entry that seems to be a hole may be acknowledged.
    """
    up_to, reach = ("cumulative_ledger", "cumulative_entry"), ("ledger", "entry")
    whole = F.col("whole").bitwiseOR(_not_after(*up_to))
    hole = F.expr("delivered & ~part").bitwiseAND(F.bitwise_not(whole))
    judged = blocks.where("delivered <> 0").join(_highest(blocks), ["number"], "left")
    judged = judged.withColumns(
        {
            "whole": whole,
            "part": F.col("part").bitwiseAND(F.bitwise_not(whole)),
            "hole": hole.bitwiseAND(_not_after(*reach)),
        }
    )
    by_ledger = judged.groupBy("number", "ledger_id", *reach).agg(
        F.expr("sum(bit_count(delivered))").alias("entries"),
        F.expr("sum(bit_count(delivered & whole))").alias("done"),
        F.expr("sum(bit_count(delivered & part))").alias("part"),
        F.expr("sum(bit_count(hole))").alias("hole"),
        F.expr(f"min(if(hole = 0, null, block * {ENTRIES} + bit_count((hole & -hole) - 1)))").alias(
            "oldest"
        ),
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
    """Every entry that a MESSAGE brings or an ACK names, and what that says of it.

    Columns: number, ledger_id, entry_id, ack_set; delivered; whole or part: it is acknowledged;
    cumulative: and all before it too.
    """
    takes = F.col("subscription_type").isin(*SINGLE_ACTIVE)
    individual = F.col("ack_type") == "individual"
    cumulative = (F.col("ack_type") == "cumulative") & takes
    named = is_a("MESSAGE") | (is_a("ACK") & (individual | cumulative))
    # A transaction may not be committed.
    counts = F.col("incarnation").isNotNull() & F.col("transaction").isNull() & named
    one = F.array(F.struct("ledger_id", "entry_id", "ack_set"))
    several = F.when(individual, F.col("message_ids")).otherwise(F.slice("message_ids", -1, 1))
    left = F.length(F.translate(F.hex("ack_set"), "0", "")) > 0
    part = ~F.col("delivered") & F.coalesce(left, F.lit(False))
    return (
        rows.where(counts)
        .select(
            _number().alias("number"),
            is_a("MESSAGE").alias("delivered"),
            F.coalesce(cumulative, F.lit(False)).alias("cumulative"),
            F.inline(F.when(F.col("message_ids").isNull(), one).otherwise(several)),
        )
        .where(F.col("entry_id").isNotNull())
        .withColumns({"part": part, "whole": ~F.col("delivered") & ~part})
    )


def _highest(blocks: DataFrame) -> DataFrame:
    """By number: the highest position that a cumulative ack reaches, and that any ack does."""
    by_ledger = blocks.groupBy("number", "ledger_id").agg(
        F.max("cumulative").alias("cumulative"), F.max("any").alias("any")
    )
    columns = []
    for name, prefix in (("cumulative", "cumulative_"), ("any", "")):
        ledger = F.when(F.col(name).isNotNull(), F.col("ledger_id"))
        columns.append(F.max(ledger).alias(f"{prefix}ledger"))
        columns.append(F.max_by(name, ledger).alias(f"{prefix}entry"))
    return by_ledger.groupBy("number").agg(*columns)


def _not_after(ledger: str, entry: str) -> Column:
    """The bits of those entries of a block that lie at or before a position; none without one."""
    return F.expr(f"""
        case
            when ledger_id < {ledger} then {ALL}
            when ledger_id > {ledger} then 0L
            when block < shiftright({entry}, {SHIFT}) then {ALL}
            when block = shiftright({entry}, {SHIFT})
                then shiftleft(2L, cast({entry} & {ENTRIES - 1} as int)) - 1
            else 0L
        end""")


def _position(ledger: str, entry: str) -> Column:
    both = F.concat(F.col(ledger).cast("string"), F.lit(":"), F.col(entry).cast("string"))
    return F.when(F.col(ledger).isNotNull(), both)
