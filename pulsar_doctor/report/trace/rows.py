"""The rows of a trace, as JSON and as lines that fit the terminal.

Lines are made one by one, so that a trace of any length can be read through a pipe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pulsar_doctor.wire.columns import COLUMNS, MISTAKEN, RETRACTED, STATS, TIME, TO_BROKER, Row
from pulsar_doctor.wording.printable import json_text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Rows = Iterator[Row]
RowTest = Callable[[Row], bool]


def iso(ts: int) -> str:
    """Microseconds since 1970 as ISO 8601 in UTC, always with six digits of a second.

    What lies outside of the years 1 to 9999, in a trace that somebody made, is shown as it is.
    """
    try:
        moment = EPOCH + timedelta(microseconds=ts)
    except OverflowError:
        return f"{ts} us since 1970"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def row_json(row: Row) -> dict[str, Any]:
    """A row as JSON values: null columns left out, bytes in hexadecimal, times in ISO 8601."""
    found = {}
    for column in COLUMNS:
        value = getattr(row, column.name)
        if value is not None:
            found[column.name] = iso(value) if column.type == TIME else _plain(value)
    return found


def row_line(row: Row) -> str:
    """A row as one line of JSON, with its end."""
    return f"{json_text(row_json(row))}\n"


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [{k: _plain(v) for k, v in i._asdict().items() if v is not None} for i in value]
    return value


class ShownColumn(NamedTuple):
    """A column on the terminal."""

    title: str
    width: int
    rank: int  # the highest is dropped first if there is no room
    text: Callable[[Row], str]


def _clock(row: Row) -> str:
    return iso(row.ts)[11:-1]


def _who(row: Row) -> str:
    if row.consumer_name:
        return row.consumer_name
    if row.incarnation is not None:
        return f"#{row.incarnation}"
    return "" if row.producer_id is None else f"producer {row.producer_id}"


def _way(row: Row) -> str:
    return "" if row.direction is None else "→" if row.direction == TO_BROKER else "←"


def _message(row: Row) -> str:
    if row.message_ids:
        first = row.message_ids[0]
        return f"{first.ledger_id}:{first.entry_id} +{len(row.message_ids) - 1}"
    return "" if row.entry_id is None else f"{row.ledger_id}:{row.entry_id}"


def _permits(row: Row) -> str:
    if row.permits is None:
        return ""
    if row.command == STATS:  # neither granted nor spent, but what there was
        return f"={row.permits}"
    return f"{row.permits:+d}" if row.command == "FLOW" else f"{-row.permits:+d}"


def _note(row: Row) -> str:
    notes = []
    if row.error_code:
        notes.append(f"{row.error_code} {row.error_message or ''}".rstrip())
    if row.command == "GAP":
        lost = "an unknown number of" if row.dropped is None else str(row.dropped)
        notes.append(f"{lost} commands are missing")
    if row.grade is not None:
        notes.append(row.grade)
    if row.command == RETRACTED:
        notes.append(f"the rows of join {row.join} were not commands: {row.error_message}")
    if row.known_by == MISTAKEN:
        notes.append("taken back: this number belongs to another consumer")
    if row.starved_us is not None:
        notes.append(f"after {seconds(row.starved_us)} without permits")
    elif row.starved_since is not None:
        notes.append(f"no permits for {seconds(row.ts - row.starved_since)}")
    if row.ack_delay_us is not None:
        notes.append(f"{seconds(row.ack_delay_us)} after delivery")
    if row.redelivery_count:
        notes.append(f"redelivery {row.redelivery_count}")
    return ", ".join(notes)


def _number(name: str) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        value = getattr(row, name)
        return "" if value is None else str(value)

    return text


SHOWN: Sequence[ShownColumn] = (
    ShownColumn("seq", 8, 7, _number("seq")),
    ShownColumn("time (UTC)", 15, 0, _clock),
    ShownColumn("conn", 4, 8, _number("conn_id")),
    ShownColumn("consumer", 16, 0, _who),
    ShownColumn("", 1, 1, _way),
    ShownColumn("command", 16, 0, lambda row: row.command),
    ShownColumn("message", 14, 4, _message),
    ShownColumn("permits", 7, 0, _permits),
    ShownColumn("available", 9, 2, _number("available_permits")),
    ShownColumn("unsent≥", 7, 5, _number("unsent_permits_min")),
    ShownColumn("unacked", 7, 3, _number("unacked_messages")),
    ShownColumn("note", 30, 6, _note),
)
RIGHT = frozenset({"seq", "conn", "permits", "available", "unsent≥", "unacked"})


def table_lines(rows: Iterable[Row], width: int) -> Iterator[str]:
    """A heading and a line for each row, in as many columns as `width` characters hold."""
    shown = fitting(width)
    yield _line([column.title for column in shown], shown)
    for row in rows:
        yield _line([column.text(row) for column in shown], shown)


def fitting(width: int) -> list[ShownColumn]:
    """The columns that have room, in order; those with rank 0 always."""
    shown = list(SHOWN)
    while sum(column.width + 2 for column in shown) - 2 > width:
        least = max(shown, key=lambda column: column.rank)
        if least.rank == 0:
            break
        shown.remove(least)
    return shown


def _line(texts: list[str], shown: list[ShownColumn]) -> str:
    cells = []
    for text, column in zip(texts, shown, strict=True):
        whole = text if len(text) <= column.width or column.title == "note" else _cut(text, column)
        right = column.title in RIGHT
        cells.append(whole.rjust(column.width) if right else whole.ljust(column.width))
    return "  ".join(cells).rstrip()


def _cut(text: str, column: ShownColumn) -> str:
    return f"{text[: column.width - 3]}..."


def seconds(us: int) -> str:
    """Microseconds in words that can be read at a glance: 850 µs, 12 ms, 3.2 s, 5m 20s, 2h 5m."""
    if us < 1000:
        return f"{us} µs"
    if us < 1_000_000:
        return f"{us // 1000} ms"
    if us < 59_950_000:
        return f"{us // 100_000 / 10:.1f} s"
    minutes, rest = divmod(round(us / 1e6), 60)
    return f"{minutes}m {rest}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60}m"
