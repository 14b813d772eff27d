"""The table of a tap: a row for each consumer.

Made of what an observer tells; nothing is drawn here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from pulsar_doctor.checkup.result import STATUSES
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.ledger.topics import PERSISTENT
from pulsar_doctor.parts.tap.events import Event
from pulsar_doctor.parts.tap.observer.events import LivingConsumer, Snapshot
from pulsar_doctor.report.paper import PLAIN_SYMBOLS, STYLES, SYMBOLS
from pulsar_doctor.report.words import counted, short_topic
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import many, printable

GAUGE_WIDTH = 16
GAP = "  "
VERDICT_WIDTH_LEAST = 19  # of what is seen most
NAME_WIDTH_LEAST = 8


@dataclass(frozen=True, slots=True)
class Signs:
    """The characters of the view."""

    gauge: tuple[str, str, str]  # available, queued or not known, unsent
    status: Mapping[str, str]
    at_most: str
    more: str


UNICODE = Signs(("█", "·", "▒"), SYMBOLS, "≤", "…")
ASCII = Signs(("=", ".", "#"), PLAIN_SYMBOLS, "<=", "~")
GAUGE_STYLES = ("green", "dim", "cyan")


class ViewColumn(NamedTuple):
    """One column of the view."""

    title: str
    width: int
    rank: int  # the lowest get room first; 0: always, cut if need be
    cell: Callable[[LivingConsumer, Signs], str | Text]
    right: bool = False


def _number(title: str, width: int, rank: int, field: str) -> ViewColumn:
    def cell(consumer: LivingConsumer, signs: Signs) -> str:
        value = getattr(consumer, field)
        return "?" if value is None else str(value)

    return ViewColumn(title, width, rank, cell, right=True)


def _who(consumer: LivingConsumer, signs: Signs) -> str:
    return printable(consumer.name or f"#{consumer.incarnation}")


def _where(consumer: LivingConsumer, signs: Signs) -> str:
    """A subscription and its topic, in the short form that Pulsar's own tools take as well."""
    topic = short_topic(consumer.full_topic.removeprefix(PERSISTENT))
    return printable(f"{consumer.subscription} on {topic}")


def _available(consumer: LivingConsumer, signs: Signs) -> Text:
    value = consumer.available_permits
    if value is None:
        return Text("?")
    bound = signs.at_most if consumer.parked_permits is None else ""
    return Text(f"{bound}{value}", style="bold red" if value <= 0 else "")


def _last_flow(consumer: LivingConsumer, signs: Signs) -> str:
    seconds = consumer.since_last_flow
    return "-" if seconds is None else duration(seconds)


def _next_flow(consumer: LivingConsumer, signs: Signs) -> str:
    ahead = consumer.next_flow
    if ahead is None:
        return "-"
    bound = signs.at_most if ahead.at_most else ""
    when = "" if ahead.seconds is None else f" in {duration(ahead.seconds)}"
    return f"{bound}{ahead.messages} more{when}"


def _verdict(consumer: LivingConsumer, signs: Signs) -> Text:
    status = consumer.status
    if status is None:
        return Text("not judged yet", style="dim")
    what = consumer.code if consumer.code and status != "healthy" else status
    return Text(f"{signs.status[status]} {what}", style=STYLES[status])


def gauge(consumer: LivingConsumer, signs: Signs) -> Text:
    """The receiver queue as a bar: permits at the broker, what is on its way, queued or not known,
    and unsent permits. Nothing where the size of the queue is not known.
    """
    size, available = consumer.receiver_queue_size, consumer.available_permits
    if not size or available is None:
        return Text("")
    available = min(max(0, available), size)
    unsent = min(consumer.unsent_permits_min or 0, size - available)
    shown = (_share(available, size), 0, _share(unsent, size))
    between = max(0, GAUGE_WIDTH - sum(shown))
    bar = Text()
    for sign, cells, style in zip(
        signs.gauge, (shown[0], between, shown[2]), GAUGE_STYLES, strict=True
    ):
        bar.append(sign * cells, style=style)
    return bar


def _share(part: int, whole: int) -> int:
    """Cells of a bar; of what is there, and not all, neither none nor all."""
    if part in (0, whole):
        return GAUGE_WIDTH * part // whole
    return min(GAUGE_WIDTH - 1, max(1, round(GAUGE_WIDTH * part / whole)))


COLUMNS = (
    ViewColumn("consumer", NAME_WIDTH_LEAST, 0, _who),
    ViewColumn("subscription on topic", 24, 6, _where),
    _number("queue", 5, 5, "receiver_queue_size"),
    ViewColumn("permits", GAUGE_WIDTH, 4, gauge),
    ViewColumn("available", 9, 1, _available, right=True),
    _number("unsent", 6, 2, "unsent_permits_min"),
    _number("FLOWs", 6, 7, "flows"),
    ViewColumn("last FLOW", 9, 3, _last_flow, right=True),
    _number("delivered", 9, 8, "msg_out_counter"),
    _number("acked", 9, 9, "acknowledged"),
    ViewColumn("next FLOW after", 18, 4, _next_flow),
)
BY_RANK = sorted(COLUMNS, key=lambda column: column.rank)


def lines(
    consumers: Sequence[LivingConsumer], signs: Signs, width: int, height: int
) -> Iterator[Text]:
    """A heading, as many consumers as there is room for, the worst first, and how many more."""
    room = max(1, height - 1)
    shown = sorted(consumers, key=_worst_first)
    if len(shown) > room:
        shown = shown[: room - 1]
    rows = [[Text("").append(each.cell(one, signs)) for each in COLUMNS] for one in shown]
    verdicts = [_verdict(consumer, signs) for consumer in shown]
    widths, rest = fitting(width, rows, verdicts)
    heading = [Text(column.title) for column in COLUMNS]
    yield Text(GAP, style="bold").join([*_fitted(heading, widths, signs), Text("verdict")])
    for cells, verdict in zip(rows, verdicts, strict=True):
        yield Text(GAP).join([*_fitted(cells, widths, signs), _cut(verdict, rest, signs)])
    if len(shown) < len(consumers):
        left_out = sorted(consumers, key=_worst_first)[len(shown) :]
        yield Text(f"and {len(left_out)} more: {_counts(left_out)}", style="dim")


def fitting(
    width: int, rows: Sequence[Sequence[Text]], verdicts: Sequence[Text]
) -> tuple[dict[str, int], int]:
    """How wide each column is that has room, by its title, and the room of the verdict.

    A name or a topic is whole, or its column is left out: the verdict has what it needs first,
    then the name of the consumer, then the columns by their ranks. rows: cells of all COLUMNS.
    """
    verdict = max([VERDICT_WIDTH_LEAST, *(text.cell_len for text in verdicts)])
    name, second, *_ = BY_RANK
    spare = width - verdict - len(GAP)
    whole = max(NAME_WIDTH_LEAST, min(_needs(name, rows), spare - second.width - len(GAP)))
    widths, spare = {name.title: whole}, spare - whole
    for column in BY_RANK[1:]:
        needs = max(column.width, _needs(column, rows)) + len(GAP)
        if needs <= spare:
            spare -= needs
            widths[column.title] = needs - len(GAP)
    return widths, max(1, verdict + spare)


def _needs(column: ViewColumn, rows: Sequence[Sequence[Text]]) -> int:
    at = COLUMNS.index(column)
    return max([cell_len(column.title), *(row[at].cell_len for row in rows)])


def _fitted(cells: Sequence[Text], widths: Mapping[str, int], signs: Signs) -> Iterator[Text]:
    for column, text in zip(COLUMNS, cells, strict=True):
        if (width := widths.get(column.title)) is not None:
            cut = _cut(text, width, signs)
            cut.align("right" if column.right else "left", width)
            yield cut


def _cut(text: Text, width: int, signs: Signs) -> Text:
    if cell_len(text.plain) <= width:
        return text
    return Text(set_cell_size(text.plain, width - 1) + signs.more, style=text.style)


def _worst_first(consumer: LivingConsumer) -> tuple[int, str, int]:
    rank = STATUSES.index(consumer.status) if consumer.status else len(STATUSES)
    return rank, consumer.name or "", consumer.incarnation


def _counts(consumers: Sequence[LivingConsumer]) -> str:
    counts: Counter[Status] = Counter(c.status for c in consumers if c.status)
    not_yet = sum(not consumer.status for consumer in consumers)
    parts = [counted(counts)] if counts else []
    return ", ".join([*parts, f"{not_yet} not judged yet"] if not_yet else parts)


def title(snapshot: Snapshot, signs: Signs) -> Text:
    """How many there are, and what the signs of the gauge mean."""
    consumers = snapshot.consumers
    words = many(len(consumers), "consumer")
    if consumers:
        words += f": {_counts(consumers)}"
    text = Text(f"{words}   ")
    for sign, style, name in zip(
        signs.gauge, GAUGE_STYLES, ("available", "queued", "unsent"), strict=True
    ):
        text.append(sign, style=style).append(f" {name}  ")
    return text


def clock(event: Event) -> str:
    """The local time of an event."""
    return datetime.fromtimestamp(event.at_us // 1_000_000).strftime("%H:%M:%S")
