"""The columns of an analysis, table by table."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from pulsar_doctor.ledger.topics import PERSISTENT
from pulsar_doctor.report.charts import bar, stretch
from pulsar_doctor.report.paper import PLAIN_SYMBOLS, STYLES, SYMBOLS
from pulsar_doctor.report.tables import (
    NOT_REPORTED,
    TableColumn,
    TableRow,
    View,
    count,
    name,
    percent,
)
from pulsar_doctor.report.words import short_topic

BAR_WIDTH = 10
STRETCH_WIDTH = 16
# How such a time without permits ended was not seen, so it lasted at least as long as is shown.
OPEN_ENDS = frozenset({"not_known", "end_of_trace"})
ENDS = {"flow": "FLOW", "ack": "acks", "not known": "?"}  # words for an end


def _number(title: str, column: str, rank: int) -> TableColumn:
    return TableColumn(title, rank, lambda row, view: count(row[column]), right=True)


def _least(title: str, column: str, rank: int) -> TableColumn:
    """A number that is a bound where commands are missing, or not all tell."""

    def cell(row: TableRow, view: View) -> str:
        value, least = row[column], row.get(f"{column}_least")
        if value is None and not least:
            return NOT_REPORTED
        bound = value is None or row.get("certain") is False
        return f"{view.signs.at_least if bound else ''}{count(least if value is None else value)}"

    return TableColumn(title, rank, cell, right=True)


def _time(title: str, column: str, rank: int) -> TableColumn:
    return TableColumn(title, rank, lambda row, view: view.lasting(row[column]), right=True)


def _who(row: TableRow, view: View) -> str:
    """Name and number, since whoever connects again is another incarnation, and where."""
    number = f"#{row['incarnation']}"
    label = f"{name(row['consumer_name'])} {number}" if row["consumer_name"] else number
    return f"{label}\n{_where(row, view)}"


def _where(row: TableRow, view: View) -> str:
    topic = short_topic((row["topic"] or "").removeprefix(PERSISTENT))
    return f"{name(row['subscription'])} on {name(topic)}"


def _cause(row: TableRow, view: View) -> str:
    symbol = (SYMBOLS if view.utf else PLAIN_SYMBOLS).get(row["severity"] or "", "")
    return f"{symbol} {name(row['code'])}".strip() if row["code"] else "-"


def _lasted(row: TableRow, view: View) -> str:
    bound = view.signs.at_least if row["ended_by"] in OPEN_ENDS else ""
    ended_by = name(row["ended_by"]).replace("_", " ")
    return f"{bound}{view.lasting(row['duration_us'])}\n{ENDS.get(ended_by, ended_by)}"


def _when(row: TableRow, view: View) -> str:
    """The part of the whole time in which it was."""
    if view.first is None or view.last is None or view.last <= view.first:
        return ""
    whole = view.last - view.first
    begins, ends = (row["start"] - view.first) / whole, (row["end"] - view.first) / whole
    return stretch(begins, ends, STRETCH_WIDTH, view.signs)


def _starved(row: TableRow, view: View) -> str:
    return view.lasting(row["starved_us"]) if row["starved_us"] else "-"


def _longest(row: TableRow, view: View) -> str:
    return view.lasting(row["longest_starved_us"]) if row["starvations"] else "-"


def _of_its_life(row: TableRow, view: View) -> str:
    life = (row["last_seen"] - row["first_seen"]).total_seconds() * 1e6
    return bar(row["starved_us"] / life, BAR_WIDTH, view.signs) if life > 0 else ""


def _flow_sizes(row: TableRow, view: View) -> str:
    if row["flow_p50"] is None:
        return NOT_REPORTED if row["flow_count"] else "-"
    return f"{count(row['flow_p50'])} / {count(row['flow_p99'])}"


def _acks(row: TableRow, view: View) -> str:
    return f"{count(row['acks_individual'])} + {count(row['acks_cumulative'])}"


def _starved_of(row: TableRow, view: View) -> str:
    return f"{count(row['starved_consumers'])} of {count(row['consumers'])}"


def _hoarder(row: TableRow, view: View) -> str:
    if not row["hoarder"]:
        return "-"
    return f"{name(row['hoarder'])} {percent(row['hoarder_share'])}"


def _skew(row: TableRow, view: View) -> str:
    return NOT_REPORTED if row["skew"] is None else f"{row['skew']:.1f}"


def _error(row: TableRow, view: View) -> str:
    return within(row["error"])


def within(error: float) -> str:
    """How far above the exact one a percentile may be; error: as a share of it, is rounded up."""
    return f"within {ceil(error * 1000) / 10} %" if error else "exact"


def severity_style(row: TableRow) -> str:
    """The style of a finding."""
    return STYLES.get(row["severity"] or "", "")


def _text(column: str) -> Callable[[TableRow, View], str]:
    def cell(row: TableRow, view: View) -> str:
        return name(row[column])

    return cell


TRACE = TableColumn("trace", 8, _text("trace_id"), least=12)
WHO = TableColumn("consumer,\nsubscription on topic", 0, _who, least=24)
WHERE = TableColumn("subscription on topic", 0, _where, least=24)

STALLS = (
    TableColumn("cause", 0, _cause, least=22, style=severity_style),
    WHO,
    TableColumn("from", 1, lambda row, view: view.clock(row["start"])),
    TableColumn("lasted,\nended by", 0, _lasted, right=True),
    TableColumn("when", 4, _when),
    _number("unacked\nat start", "unacked_at_start", 5),
    _least("acked\nmeanwhile", "acknowledged", 6),
    _number("lowest\npermits", "available_lowest", 7),
    TRACE,
)
SUBSCRIPTIONS = (
    WHERE,
    TableColumn("without\npermits", 0, _starved, right=True),
    TableColumn("consumers\nstarved", 1, _starved_of, right=True),
    TableColumn("", 4, lambda row, view: bar(row["starved_share"], BAR_WIDTH, view.signs)),
    _number("times", "stalls", 5),
    _least("messages", "messages", 6),
    _least("acked", "acknowledged", 7),
    _least("redelivered", "redeliveries", 2),
    _number("unacked", "unacked_messages", 3),
    TableColumn("who holds most", 3, _hoarder, least=16),
    TableColumn("skew", 8, _skew, right=True),
)
CONSUMERS = (
    WHO,
    TableColumn("without\npermits", 0, _starved, right=True),
    TableColumn("of its time", 2, _of_its_life),
    _number("times", "starvations", 3),
    TableColumn("longest", 4, _longest, right=True),
    _number("permits\nnow", "available_permits", 1),
    _number("unacked\nnow", "unacked_messages", 3),
    _number("queue", "receiver_queue_size", 5),
    _least("FLOWs", "flow_count", 6),
    TableColumn("FLOW size\np50 / p99", 7, _flow_sizes, right=True),
    _least("messages", "messages", 4),
    _least("acked", "acknowledged", 6),
    _least("redelivered", "redeliveries", 7),
    TableColumn("ACKs single\n+ cumulative", 9, _acks, right=True),
    _least("entries", "entries", 10),
    _least("bytes", "bytes", 10),
    TRACE,
)
GAPS = (
    WHO,
    _number("count", "count", 2),
    _time("p50", "p50_us", 1),
    _time("p90", "p90_us", 4),
    _time("p99", "p99_us", 0),
    _time("max", "max_us", 0),
    TableColumn("error", 5, _error),
    TRACE,
)
HOLES = (
    WHERE,
    _number("holes", "holes", 0),
    TableColumn("oldest hole", 1, _text("oldest_hole")),
    TableColumn("highest acked", 2, _text("highest_acknowledged")),
    _number("entries\ndelivered", "entries", 3),
    _number("entries\nacked", "acknowledged_entries", 4),
    _number("acked in\npart", "partly_acknowledged", 5),
    TRACE,
)
