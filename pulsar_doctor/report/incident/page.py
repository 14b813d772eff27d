"""Writes the page of an incident: verdicts in the words of the terminal, and timelines.

Every text from outside is escaped by the template. No payload, key or credential is in what comes
here, nor the time of the call: the same input makes the same page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from pulsar_doctor import __version__
from pulsar_doctor.checkup.holes.account import Account
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.checkup.timelines.timeline import ConsumerTimeline, Timelines
from pulsar_doctor.diagnosis.short_form import culprit
from pulsar_doctor.errors import needing
from pulsar_doctor.report.charts import UNICODE
from pulsar_doctor.report.holes.axis import axis
from pulsar_doctor.report.holes.table import hole_lines
from pulsar_doctor.report.incident.charts import drawing, without_permits
from pulsar_doctor.report.paper import PIPE
from pulsar_doctor.report.stall_check.block import block_rows, headline
from pulsar_doctor.report.stall_check.details import PASTED, detail_rows, heading, healthy_line
from pulsar_doctor.report.stall_check.folding import Alike, Folded, fold
from pulsar_doctor.report.stall_check.header import header
from pulsar_doctor.report.stall_check.pen import Pen
from pulsar_doctor.report.stall_check.unread import sentences
from pulsar_doctor.report.stall_check.verdict import counts_line
from pulsar_doctor.report.suspicion import suspect_rows
from pulsar_doctor.wording.durations import moment_of
from pulsar_doctor.wording.printable import many, printable

if TYPE_CHECKING:
    from pulsar_doctor.checkup.incident import Incident

TEMPLATE = Path(__file__).with_name("page.html")
VERDICTS_MOST = 50  # subscriptions; more are only counted
HOLES_WIDTH = 72  # characters
COLUMNS = (
    "", "consumer", "subscription", "from (UTC)", "to (UTC)", "delivered", "acknowledged",
    "without permits",
)  # fmt: skip
BY_BROKER = "Backlog (solid) and unacknowledged messages (dashed), as the broker reported them."


@dataclass(frozen=True, slots=True)
class PageRow:
    """A name and its text. pasted: a line for a shell."""

    name: str
    text: str
    pasted: bool = False


@dataclass(frozen=True, slots=True)
class PageVerdict:
    """One subscription: as the terminal has it, and with -v."""

    headline: str
    rows: tuple[PageRow, ...]
    heading: str = ""
    details: tuple[PageRow, ...] = ()


@dataclass(frozen=True, slots=True)
class PageChart:
    """A heading, a text that says what is drawn, and the parts by their places."""

    title: str
    caption: str
    parts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PageHoles:
    """One subscription as `holes` draws it; drawing: lines of text, none where it has no scale."""

    title: str
    drawing: str
    legend: str
    rows: tuple[PageRow, ...]


def page(incident: Incident, case: str | None = None) -> str:
    """The whole file. case: what the verdicts are made of, in Base64, which stays in it.

    Raises MissingExtra.
    """
    checkup, timelines = incident.checkup, incident.timelines
    with needing("report", "an incident page"):
        import jinja2
        from markupsafe import Markup
    fleet = fold(checkup.examined())
    pen = Pen(PIPE, verbose=True, tells_backlog=checkup.source != "trace")
    verdicts = [*_unwell(pen, fleet.unwell[:VERDICTS_MOST]), *_healthy(pen, fleet.healthy)]
    charts = list(_charts(timelines))
    parts = {place: part for chart in charts for place, part in chart.parts.items()}
    drawn = drawing(timelines, parts) if charts else None
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return str(
        template.render(
            title=_title(checkup, fleet.unwell, fleet.healthy),
            header=header(checkup),
            counts=counts_line(fleet, checkup.tally.subscriptions),
            verdicts=verdicts,
            missing=[*_missing(checkup, timelines)],
            charts=charts,
            holes=[*map(_holes, incident.holes)],
            columns=COLUMNS,
            consumers=[_cells(*each) for each in enumerate(timelines.consumers, start=1)],
            version=__version__,
            case=case and Markup(case),
            library=drawn and Markup(drawn.library),
            document=drawn and Markup(drawn.document),
        )
    ).lstrip()


def _title(checkup: Checkup, unwell: Sequence[Folded], healthy: Sequence[Folded]) -> str:
    """`STALLED: billing on public/default/orders`; of several the worst."""
    if not unwell:
        what = many(checkup.tally.subscriptions, "subscription")
        return f"HEALTHY: {what}" if healthy else "Nothing was judged"
    first = unwell[0].alike()[0]
    more = f" and {len(unwell) - 1} more" if len(unwell) > 1 else ""
    return f"{first.status.upper()}: {first.where}{more}"


def _unwell(pen: Pen, unwell: Sequence[Folded]) -> Iterator[PageVerdict]:
    for alike in (alike for folded in unwell for alike in folded.alike()):
        yield PageVerdict(
            headline(pen, alike, " certain").plain,
            tuple(_in_short(replace(pen, explained=set()), alike)),
            heading(pen, alike).plain,
            tuple(_row(name, text) for name, text in detail_rows(pen, alike)),
        )


def _in_short(pen: Pen, alike: Alike) -> Iterator[PageRow]:
    """What the terminal prints without -v, but for what it says of -v."""
    for row in block_rows(pen, alike):
        if row.name == "more":
            continue
        yield PageRow(row.name, row.text, row.to_paste)
        if row.comment:
            yield PageRow("", row.comment)


def _healthy(pen: Pen, healthy: Sequence[Folded]) -> Iterator[PageVerdict]:
    for folded in healthy:
        rows = [] if folded.doubt is None else [*suspect_rows(folded.doubt, in_short=True)]
        if folded.info is not None:
            info = f"{culprit(folded.info)}: {printable(folded.info.summary)}"
            rows.insert(0, ("info", info))
        shown = tuple(_row(name, Text(text)) for name, text in rows)
        yield PageVerdict(healthy_line(pen, folded).plain, shown)


def _row(name: str, text: Text) -> PageRow:
    return PageRow(name, text.plain, name in PASTED)


def _missing(checkup: Checkup, timelines: Timelines) -> Iterator[str]:
    """What was not read, recorded or drawn, and why."""
    yield from map(printable, checkup.trace_notes)
    yield from (printable(note) for _, note in checkup.notes)
    yield from sentences(checkup.unreachable)
    yield from (f"{printable(topic)} is not loaded by any broker" for topic in checkup.not_loaded)
    yield from map(printable, timelines.notes)
    if timelines.left_out:
        yield f"{many(timelines.left_out, 'more consumer')} not drawn: the first are the worst"


def _charts(timelines: Timelines) -> Iterator[PageChart]:
    for number, each in enumerate(timelines.subscriptions, start=1):
        if each.backlog or each.unacked:
            title = f"{each.subscription} on {each.topic}"
            yield PageChart(printable(title), BY_BROKER, {f"subscription-{number}": each})
    if timelines.compares:
        caption = "Each row is a consumer, by its number in the table below. A bar: no permits."
        yield PageChart("Times without permits", caption, {"starved": timelines.consumers})
    for number, consumer in enumerate(timelines.consumers, start=1):
        if not consumer.has_lines:
            break
        title = f"{consumer.name} of {consumer.subscription} on {consumer.topic}"
        parts = {f"consumer-{number}": consumer}
        parts |= {f"moved-{number}": consumer} if consumer.moved else {}
        yield PageChart(printable(title), _caption(consumer), parts)


def _holes(account: Account) -> PageHoles:
    *drawing, legend = [line.plain for line in axis(account, HOLES_WIDTH, UNICODE)] or [""]
    title = printable(f"{account.subscription} on {account.full_topic}")
    rows = tuple(PageRow(name, printable(text)) for name, text in hole_lines(account))
    return PageHoles(title, "\n".join(drawing), legend, rows)


def _caption(of: ConsumerTimeline) -> str:
    """What the lines and marks are, and what is not known."""
    bound = " (at most)" if of.permits_at_most else ""
    unsent = ", unsent permits, at least (dotted)" if of.unsent else ""
    lines = f"Available permits{bound} (solid), messages held (dashed){unsent}."
    starved = without_permits(of.starved_in_all)
    acks = "down: acknowledged (hatched); triangles: FLOW"
    if of.sampled:
        acks = "acknowledgements and FLOWs are not reported by the broker's statistics"
    below = f"Below, up: messages delivered; {acks}." if of.moved else "Nothing was delivered."
    hatched = f"Hatched: without permits, {starved}." if of.starved else "Never without permits."
    return f"{lines} {hatched} {below}"


def _cells(number: int, of: ConsumerTimeline) -> tuple[str, ...]:
    """One consumer in the table, under COLUMNS."""
    name = f"{of.name} ({of.address})" if of.address else of.name
    since, until = (moment_of(us // 1000) or "" for us in (of.since_us, of.until_us))
    counts = ("not reported" if n is None else f"{n:,}" for n in (of.delivered, of.acknowledged))
    return (
        str(number),
        printable(name),
        printable(f"{of.subscription} on {of.topic}"),
        since[:19].replace("T", " "),
        until[:19].replace("T", " "),
        *counts,
        without_permits(of.starved_in_all),
    )
