"""The requested rows of traces: a time, a topic, a subscription.

Which segments have any is known before (see reading.py); here those that have others, too, are cut
to measure, and what carries over from before is brought in: a consumer that had no permits all the
time and sent nothing is in no row of it, and is the one to find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.analyze.aggregations.profile import CONSUMER, is_a
from pulsar_doctor.parts.analyze.aggregations.small_table import small_table
from pulsar_doctor.parts.analyze.segments import Segment
from pulsar_doctor.parts.analyze.selection import Selection, TimeSpan
from pulsar_doctor.wire.columns import CLOSE, GAP, OURS, UNPARSED
from pulsar_doctor.wording.printable import printable
from pulsar_doctor.wording.spelling import near

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pulsar_doctor.parts.analyze.aggregations import Tables
    from pulsar_doctor.parts.analyze.at_the_end import AtTheEnd

NAMED_MOST = 50
TABLES = (
    "consumers", "gaps", "stalls", "timeline", "subscriptions", "holes", "brief_stalls",
)  # fmt: skip
MARKS = (CLOSE, GAP, UNPARSED)
SILENT = "SILENT"  # the command of a row for a consumer that sent nothing
CARRIED = (
    "trace_id: string, incarnation: int, conn_id: int, consumer_id: bigint, topic: string, "
    "subscription: string, subscription_type: string, consumer_name: string, "
    "client_version: string, available_permits: int, unacked_messages: int, "
    "seq: bigint, ts_us: bigint, since_us: bigint"
)


@dataclass(frozen=True, slots=True)
class OfTheNames:
    """What there is of a topic or a subscription."""

    events: int
    traces: int
    first_us: int | None
    last_us: int | None


def cut_to(
    segments: Sequence[Segment], span: TimeSpan, rows_in: Callable[[Sequence[Segment]], DataFrame]
) -> list[Segment]:
    """The segments as if they had no other rows than those of this time.

    One in which the clock was set back may be several pieces. rows_in: the rows of some.
    """
    ends = {each for each in segments if not span.has_all((each.first_us, each.last_us))}
    pieces = _pieces([*ends], span, rows_in) if ends else {}
    cut = []
    for each in segments:
        cut += pieces.get((each.trace_id, each.first_seq), []) if each in ends else [each]
    return cut


def _pieces(
    ends: Sequence[Segment], span: TimeSpan, rows_in: Callable[[Sequence[Segment]], DataFrame]
) -> dict[tuple[str, int], list[Segment]]:
    places = [
        {"of": each.trace_id, "first": each.first_seq, "last": each.last_seq} for each in ends
    ]
    rows = within(rows_in(ends), span)
    place = small_table(rows.sparkSession, places, "of: string, first: bigint, last: bigint")
    inside = (F.col("trace_id") == F.col("of")) & F.col("seq").between(
        F.col("first"), F.col("last")
    )
    found = rows.select("trace_id", "seq", "ts").join(F.broadcast(place), inside)
    nth = F.row_number().over(Window.partitionBy("of", "first").orderBy("seq"))
    at_us = F.unix_micros("ts")
    runs = found.withColumn("run", F.col("seq") - nth).groupBy("of", "first", "run")
    pieces = runs.agg(
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
        F.min(at_us).alias("first_us"),
        F.max(at_us).alias("last_us"),
    ).orderBy("of", "first_seq")
    by_place = {(each.trace_id, each.first_seq): each for each in ends}
    cut: dict[tuple[str, int], list[Segment]] = {key: [] for key in by_place}
    for row in pieces.collect():
        key = row["of"], row["first"]
        times = {name: row[name] for name in ("first_seq", "last_seq", "first_us", "last_us")}
        cut[key].append(replace(by_place[key], **times))
    return cut


def within(rows: DataFrame, span: TimeSpan) -> DataFrame:
    """The rows of this time."""
    if span.since_us is not None:
        rows = rows.where(F.col("ts") >= F.timestamp_micros(F.lit(span.since_us)))
    if span.until_us is not None:
        rows = rows.where(F.col("ts") <= F.timestamp_micros(F.lit(span.until_us)))
    return rows


def of_names(selection: Selection) -> Column:
    """Whether a row is of this topic and subscription."""
    wanted = F.lit(True)
    if selection.topic is not None:
        topic = F.col("topic")
        wanted = wanted & ((topic == selection.topic) | topic.endswith(f"/{selection.topic}"))
    if selection.subscription is not None:
        wanted = wanted & (F.col("subscription") == selection.subscription)
    return wanted


def named(rows: DataFrame, segments: Sequence[Segment], selection: Selection) -> DataFrame:
    """The rows of this topic and subscription, and those of others that say something of them.

    That is: a connection's end, missing commands, who took the place of a consumer without permits,
    and how late it was in the end. Of others these say neither which consumer nor which topic.
    """
    last_us = {segment.trace_id: segment.last_us for segment in segments}
    for segment in segments:
        last_us[segment.trace_id] = max(last_us[segment.trace_id], segment.last_us)
    ends = [F.timestamp_micros(F.lit(us)) for us in sorted(set(last_us.values()))]
    wanted, successor = of_names(selection), is_a("SUBSCRIBE") & F.col("starved_us").isNotNull()
    some = rows.where(wanted | is_a(*MARKS) | successor | F.col("ts").isin(*ends))
    ours = F.coalesce(wanted, F.lit(False))
    blank = {name: F.when(ours, F.col(name)) for name in ("topic", "subscription", "consumer_name")}
    blank["incarnation"] = F.when(ours | successor, F.col("incarnation"))
    return some.withColumns(blank)


def counted(rows: DataFrame, selection: Selection, where: str) -> OfTheNames:
    """How much there is of this topic and subscription; InputError where there is nothing."""
    at_us = F.unix_micros("ts")
    (found,) = (
        rows.where(of_names(selection))
        .agg(
            F.count(F.lit(1)).alias("events"),
            F.countDistinct("trace_id").alias("traces"),
            F.min(at_us).alias("first_us"),
            F.max(at_us).alias("last_us"),
        )
        .collect()
    )
    if not found["events"]:
        raise InputError(f"{where}: {'; '.join(_absent(rows, selection))}")
    return OfTheNames(*found)


def _absent(rows: DataFrame, selection: Selection) -> Iterator[str]:
    for what, name in (("topic", selection.topic), ("subscription", selection.subscription)):
        if name is None:
            continue
        alone = Selection(topic=name) if what == "topic" else Selection(subscription=name)
        if rows.where(of_names(alone)).limit(1).collect():
            continue
        there = [
            row[0] for row in rows.select(what).where(f"{what} is not null").distinct().collect()
        ]
        if what == "topic" and "/" not in name:
            there = [topic.rpartition("/")[2] for topic in there]
        instead = near(name, map(printable, there), most=NAMED_MOST) or "there is none"
        yield f"there is no {what} {name!r}; {instead}"
        return
    yield f"topic {selection.topic!r} has no subscription {selection.subscription!r}"


def carried(
    rows: DataFrame, segments: Sequence[Segment], ends: Sequence[AtTheEnd], span: TimeSpan
) -> DataFrame | None:
    """A row for each consumer that had no permits in all of this time and sent nothing in it.

    ends: the consumers that had none where their trace, or they themselves, end. None where there
    is no such consumer. For one that ended in this time the row is the first of all, so that the
    end of its connection follows; of others it is the last, since whatever is missing in between,
    at the end it had none.
    """
    since_us = span.since_us
    if since_us is None:
        return None
    first = {each.trace_id: each for each in reversed(segments)}
    last = {each.trace_id: each for each in segments}
    waiting = {
        (each.trace_id, each.incarnation): each
        for each in ends
        if each.trace_id in last
        and each.since_us is not None
        and each.since_us < since_us
        and (each.closed_us is None or each.closed_us >= since_us)
    }
    if not waiting:
        return None
    spark = rows.sparkSession
    wanted = [{"trace_id": name, "incarnation": number} for name, number in waiting]
    who = small_table(spark, wanted, "trace_id: string, incarnation: int")
    spoke = rows.select(*CONSUMER).join(F.broadcast(who), [*CONSUMER], "left_semi").distinct()
    for row in spoke.collect():
        del waiting[row["trace_id"], row["incarnation"]]
    if not waiting:
        return None
    values = [
        {
            "trace_id": each.trace_id,
            "incarnation": each.incarnation,
            **each.identity,
            **(each.numbers if span.has_end(each.until_us) else {}),
            "seq": (
                first[each.trace_id].first_seq
                if each.closed_us is not None and span.has_some((each.closed_us, each.closed_us))
                else last[each.trace_id].last_seq
            ),
            "ts_us": first[each.trace_id].first_us,
            "since_us": each.since_us,
        }
        for each in waiting.values()
    ]
    silent = small_table(spark, values, CARRIED)
    return silent.select(
        "*",
        F.lit(SILENT).alias("command"),
        F.lit(OURS).cast("smallint").alias("command_code"),
        F.timestamp_micros("ts_us").alias("ts"),
        F.timestamp_micros("since_us").alias("starved_since"),
    ).drop("ts_us", "since_us")


def of_the_span(tables: Tables, span: TimeSpan, selection: Selection, bucket_us: int) -> Tables:
    """The tables without what belongs to others, or of before, and is only a part of it there."""
    if selection.by_name:
        ours = {name: getattr(tables, name).where("topic is not null") for name in TABLES}
        tables = replace(tables, **ours)
    if span.since_us is None:
        return tables
    first = F.timestamp_micros(F.lit(span.since_us // bucket_us * bucket_us))
    return replace(tables, timeline=tables.timeline.where(F.col("start") >= first))
