"""Which rows of captures count, without those that were taken back.

The columns of a ledger were written as the rows came. Between a JOINED that was only likely and the
RETRACTED that takes it back they are of commands that were none, and null here. How long a consumer
had no permits is null from a likely JOINED on, since a payload could have contained it: no stall is
found by that alone. Where only proven commands are wanted, likely ones are left out, their JOINED
is an UNPARSED, and the ledger is not known from there on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pulsar_doctor.trace.graded import taken_back_note
from pulsar_doctor.wire.columns import JOINED, NAMES, RETRACTED, UNPARSED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STARVED = ("starved_us", "starved_since", "starved_from")
LEDGER = (
    *STARVED, "available_permits", "available_permits_min", "parked_permits", "unsent_permits_min",
    "unacked_messages", "unacked_messages_min", "flow_gap_us", "ack_delay_us",
    "acknowledged_messages",
)  # fmt: skip
OF_JOIN = ("trace_id", "join")
OF_CONNECTION = ("trace_id", "conn_id")


def of_what_counts(rows: DataFrame, *, proven_only: bool) -> DataFrame:
    """The rows of captures that count, in the columns of a trace."""
    joins = rows.where(F.col("join").isNotNull() & F.col("command").isin(JOINED, RETRACTED))
    until = F.max(F.when(F.col("command") == RETRACTED, F.col("seq"))).alias("until_seq")
    spans = joins.groupBy(*OF_CONNECTION, "join").agg(until)
    by_connection = spans.groupBy(*OF_CONNECTION).agg(
        F.collect_list(F.struct(F.col("join").alias("from_seq"), "until_seq")).alias("spans")
    )
    kept = rows.join(F.broadcast(_taken_back(rows)), [*OF_JOIN], "left_anti")
    marked = kept.join(F.broadcast(by_connection), [*OF_CONNECTION], "left")
    return _without_doubtful(marked, proven_only=proven_only).select(*NAMES)


def notes_on(rows: DataFrame) -> Iterator[str]:
    """Notes on rows of captures that do not count."""
    of_joins = rows.join(F.broadcast(_taken_back(rows)), [*OF_JOIN], "left_semi")
    is_one = (~F.col("command").isin(JOINED, RETRACTED)).cast("long")
    count = of_joins.agg(F.countDistinct(*OF_JOIN), F.coalesce(F.sum(is_one), F.lit(0)))
    ((joins, gone),) = count.collect()
    if joins:
        yield taken_back_note(joins, gone)


def _taken_back(rows: DataFrame) -> DataFrame:
    return rows.where(F.col("command") == RETRACTED).select(*OF_JOIN).distinct()


def _without_doubtful(rows: DataFrame, *, proven_only: bool) -> DataFrame:
    likely = _any("seq >= each.from_seq")
    taken_back = _any("seq between each.from_seq and each.until_seq")
    unknown = likely if proven_only else taken_back
    values = {name: F.when(~unknown, F.col(name)) for name in LEDGER}
    values |= {name: F.when(~likely, F.col(name)) for name in STARVED}
    if proven_only:
        is_join = (F.col("command") == JOINED) & F.col("join").isNotNull()
        rows = rows.where(F.col("grade").isNull())
        values["command"] = F.when(is_join, F.lit(UNPARSED)).otherwise(F.col("command"))
        values["join"] = F.when(~is_join, F.col("join"))
    return rows.withColumns(values)


def _any(condition: str) -> Column:
    """Whether this is so of any likely join of the row's connection."""
    return F.coalesce(F.expr(f"exists(spans, each -> {condition})"), F.lit(False))
