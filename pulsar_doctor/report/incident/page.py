"""Writes the page of an incident: verdicts in the words of the terminal, and timelines.

Every text from outside is escaped by the template. No payload, key or credential is in what comes
here, nor the time of the call: the same input makes the same page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from pulsar_doctor import __version__
from pulsar_doctor.checkup.holes.account import CursorAccount
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.checkup.timelines.timeline import ConsumerTimeline, Timelines
from pulsar_doctor.report.account import AccountTable
from pulsar_doctor.report.charts import UNICODE
from pulsar_doctor.report.holes.axis import axis
from pulsar_doctor.report.holes.table import hole_lines
from pulsar_doctor.report.incident.charts import drawing, without_permits
from pulsar_doctor.report.paper import PIPE
from pulsar_doctor.report.stall_check.block import block_rows, headline
from pulsar_doctor.report.stall_check.details import (
    account_of,
    detail_rows,
    heading,
    healthy_line,
    healthy_rows,
    paced_rows,
)
from pulsar_doctor.report.stall_check.header import header
from pulsar_doctor.report.stall_check.pen import Pen, ScreenRow
from pulsar_doctor.report.stall_check.tree import JudgedFleet, tree_of
from pulsar_doctor.report.stall_check.unread import sentences
from pulsar_doctor.report.stall_check.verdict import counts_line
from pulsar_doctor.wording.durations import moment_of
from pulsar_doctor.wording.printable import many, printable

if TYPE_CHECKING:
    from pulsar_doctor.checkup.incident import Incident

TEMPLATE = Path(__file__).with_name("page.html")
VERDICTS_MOST = 50  # subscriptions; more are only counted
HOLES_WIDTH = 72  # characters
BY_BROKER = "Backlog (solid) and unacknowledged messages (dashed), as the broker reported them."

# In short, where the messages are, and with -v.
PageVerdict = tuple[str, Sequence[ScreenRow], AccountTable | None, str, Sequence[ScreenRow]]
PageChart = tuple[str, str, Mapping[str, Any]]  # title, caption, what is drawn by its place


def page(incident: Incident, case: str | None = None) -> str:
    """The whole file. case: what the verdicts are made of, in Base64, which stays in it."""
    checkup, timelines = incident.checkup, incident.timelines
    fleet, charts = tree_of(checkup.examined()), list(_charts(timelines))
    parts = {place: part for _, _, those in charts for place, part in those.items()}
    library, document = drawing(timelines, parts) if charts else ("", "")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        title=_title(checkup, fleet),
        header=header(checkup),
        counts=counts_line(fleet, checkup.tally.subscriptions),
        verdicts=_verdicts(Pen(PIPE, verbose=True, tells_backlog=checkup.source != "trace"), fleet),
        missing=[*map(printable, _missing(checkup, timelines))],
        charts=charts,
        holes=[*map(_holes, incident.holes)],
        consumers=[_cells(*each) for each in enumerate(timelines.consumers, start=1)],
        version=__version__,
        case=case,
        library=library,
        document=document,
    ).lstrip()


def _title(checkup: Checkup, fleet: JudgedFleet) -> str:
    """`STALLED: billing on public/default/orders`; of several the worst."""
    if not fleet.unwell:
        what = many(checkup.tally.subscriptions, "subscription")
        return f"HEALTHY: {what}" if fleet.healthy else "Nothing was judged"
    first, others = fleet.unwell[0].alike()[0], len(fleet.unwell) - 1
    return f"{first.status.upper()}: {first.where}{f' and {others} more' if others else ''}"


def _verdicts(pen: Pen, fleet: JudgedFleet) -> Iterator[PageVerdict]:
    """As the terminal has them, without its hints at -v, and all that it prints with -v."""
    for alike in (each for those in fleet.unwell[:VERDICTS_MOST] for each in those.alike()):
        in_short = block_rows(replace(pen, explained=set()), alike)
        rows = [row for row in in_short if row.name != "more"]
        title = headline(pen, alike, " certain").plain
        details = [ScreenRow.named(*row) for row in detail_rows(pen, alike)]
        yield title, rows, account_of(alike), heading(pen, alike).plain, details
    for folded in fleet.healthy:
        named = (*healthy_rows(folded), *paced_rows(folded))
        rows = [ScreenRow.named(*row) for row in named]
        title = healthy_line(pen, folded).plain
        yield title, rows, account_of(folded), "", ()


def _missing(checkup: Checkup, timelines: Timelines) -> Iterator[str]:
    """What was not read, recorded or drawn, and why."""
    yield from checkup.trace_notes
    yield from (note for _, note in checkup.notes)
    yield from sentences(checkup.unreachable)
    yield from (f"{topic} is not loaded by any broker" for topic in checkup.not_loaded)
    yield from timelines.notes
    if timelines.left_out:
        yield f"{many(timelines.left_out, 'more consumer')} not drawn: the first are the worst"


def _charts(timelines: Timelines) -> Iterator[PageChart]:
    for number, each in enumerate(timelines.subscriptions, start=1):
        if each.backlog or each.unacked:
            title = printable(f"{each.subscription} on {each.topic}")
            yield title, BY_BROKER, {f"subscription-{number}": each}
    if len(timelines.consumers) > 1 and any(each.starved for each in timelines.consumers):
        caption = "Each row is a consumer, by its number in the table below. A bar: no permits."
        yield "Times without permits", caption, {"starved": timelines.consumers}
    for number, of in enumerate(timelines.consumers, start=1):
        if of.has_lines:
            places = (f"consumer-{number}", f"moved-{number}")[: 2 if of.moved else 1]
            title = printable(f"{of.name} of {of.subscription} on {of.topic}")
            yield title, _caption(of), dict.fromkeys(places, of)


def _holes(account: CursorAccount) -> tuple[str, str, str, list[ScreenRow]]:
    """Title, lines of text, which are empty where there is no scale, their legend, and numbers."""
    *drawn, legend = [line.plain for line in axis(account, HOLES_WIDTH, UNICODE)] or [""]
    title = printable(f"{account.subscription} on {account.full_topic}")
    rows = [ScreenRow(name, printable(text)) for name, text in hole_lines(account)]
    return title, "\n".join(drawn), legend, rows


def _caption(of: ConsumerTimeline) -> str:
    """What the lines and marks are, and what is not known."""
    bound = " (at most)" if of.permits_at_most else ""
    unsent = ", unsent permits, at least (dotted)" if of.unsent else ""
    lines = f"Available permits{bound} (solid), messages held (dashed){unsent}."
    acks = "down: acknowledged (hatched); triangles: FLOW"
    if of.sampled:
        acks = "acknowledgements and FLOWs are not reported by the broker's statistics"
    below = f"Below, up: messages delivered; {acks}." if of.moved else "Nothing was delivered."
    starved = f"Hatched: without permits, {without_permits(of.starved_in_all)}."
    return f"{lines} {starved if of.starved else 'Never without permits.'} {below}"


def _cells(number: int, of: ConsumerTimeline) -> tuple[str, ...]:
    """One consumer in the table, under the headings of the template."""
    name = f"{of.name} ({of.address})" if of.address else of.name
    times = ((moment_of(us // 1000) or "")[:19] for us in (of.since_us, of.until_us))
    counts = ("not reported" if n is None else f"{n:,}" for n in (of.delivered, of.acknowledged))
    names = map(printable, (name, f"{of.subscription} on {of.topic}"))
    starved = without_permits(of.starved_in_all)
    return (str(number), *names, *(each.replace("T", " ") for each in times), *counts, starved)
