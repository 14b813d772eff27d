"""Writes the page of an incident: verdicts in the words of the terminal, and timelines.

No text from outside can become a tag. No payload, key or credential is in what comes here, nor the
time of the call: the same input makes the same page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pulsar_doctor.checkup.holes.account import CursorAccount
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.checkup.timelines.timeline import (
    ConsumerTimeline,
    Point,
    SubscriptionTimeline,
    Timelines,
    without_permits,
)
from pulsar_doctor.diagnosis.causes import named
from pulsar_doctor.errors import MissingExtra, needing
from pulsar_doctor.ledger.topics import PERSISTENT
from pulsar_doctor.report.charts import UNICODE
from pulsar_doctor.report.holes.axis import axis
from pulsar_doctor.report.holes.table import hole_lines
from pulsar_doctor.report.incident import body
from pulsar_doctor.report.incident.body import PageVerdict
from pulsar_doctor.report.known_issues import NAMED_MOST
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
from pulsar_doctor.report.words import NO_RULE, short_topic
from pulsar_doctor.wording.durations import moment_of
from pulsar_doctor.wording.printable import many, printable

if TYPE_CHECKING:
    from pulsar_doctor.checkup.incident import Incident

SCRIPT = Path(__file__).with_name("charts.js")
VERDICTS_MOST = 50  # subscriptions; more are only counted
HOLES_WIDTH = 72  # characters
BY_BROKER = "Backlog (solid) and unacknowledged messages (dashed), as the broker reported them."
Drawn = Mapping[str, Any]  # what is drawn, by its place


def page(incident: Incident, case: str | None = None) -> str:
    """The whole file. case: what the verdicts are made of, in Base64, which stays in it."""
    checkup, timelines = incident.checkup, incident.timelines
    fleet, charts = tree_of(checkup.examined()), [*_charts(timelines)]
    parts = {place: part for *_, those in charts for place, part in those.items()}
    library, lacks = [], [*map(printable, _missing(checkup, timelines))]
    try:
        library = _drawing(timelines, parts) if parts else []
    except MissingExtra as error:
        lacks.append(f"{error}; the table of consumers has the numbers")
        charts = [(title, caption, {}) for title, caption, _ in charts]
    pen = Pen(PIPE, verbose=True, tells_backlog=checkup.source != "trace")
    verdicts = [*_verdicts(pen, fleet)]
    found = dict.fromkeys(code for each in verdicts for code in each.codes)
    main = chain(
        body.verdicts(verdicts),
        body.missing(lacks),
        body.charts(charts),
        body.holes([*map(_holes, incident.holes)]),
        body.consumers([*_rows(timelines.consumers)]),
        body.causes(named([*found])),
    )
    title, counts = _title(checkup, fleet), counts_line(fleet, checkup.tally)
    worst = fleet.unwell[0].status if fleet.unwell else "healthy" if fleet.healthy else None
    head = [body.e("h1", title), body.e("p", header(checkup), class_="soft")]
    single = fleet.counts.total() == 1
    head += [] if single and not checkup.tally.suppressed else [body.e("p", counts)]
    kept = f'<script type="application/gzip" id="pulsar-doctor-case">{case}</script>'
    header_class = f"{worst or 'empty'}{' single' if single else ''}"
    parts_of_page = [body.e("header", *head, class_=header_class), body.e("main", *main)]
    return body.framed(title, parts_of_page, [*([kept] if case else ()), *library])


def _drawing(timelines: Timelines, parts: Drawn) -> list[str]:
    """Scripts that draw the charts. Raises MissingExtra."""
    with needing("report", "the charts"):
        from pulsar_doctor.report.incident.charts import drawing
    library, document = drawing(timelines, parts)
    charts = f'<script type="application/json" id="charts">{document}</script>'
    return [charts, *(f"<script>{each}</script>" for each in (library, SCRIPT.read_text("utf-8")))]


def _title(checkup: Checkup, fleet: JudgedFleet) -> str:
    """`STALLED: billing on public/default/orders`; of several the worst."""
    if not fleet.unwell:
        what = many(checkup.tally.subscriptions, "subscription")
        return f"HEALTHY: {what}" if fleet.healthy else "Nothing was judged"
    first, others = fleet.unwell[0].alike()[0], len(fleet.unwell) - 1
    return f"{first.status.upper()}: {first.where}{f' and {others} more' if others else ''}"


def _verdicts(pen: Pen, fleet: JudgedFleet) -> Iterator[PageVerdict]:
    """The verdicts as the terminal shows them with -v, without its hints at -v."""
    for alike in (each for those in fleet.unwell[:VERDICTS_MOST] for each in those.alike()):
        named_codes = [each.code for each in alike.shown.findings]
        named_codes += [each.code for each in alike.shown.suspects[:1]]
        in_short = block_rows(replace(pen, explained=set()), alike)
        badge, _, line = headline(pen, alike).plain.partition("  ")
        yield PageVerdict(
            status=alike.status,
            badge=badge,
            headline=line,
            rows=[row for row in in_short if row.name != "more"],
            codes=[each for each in dict.fromkeys(named_codes) if each not in NO_RULE],
            issues=alike.shown.known_issues[:NAMED_MOST],
            account=account_of(alike),
            heading=heading(pen, alike).plain,
            details=[ScreenRow.named(*row) for row in detail_rows(pen, alike)],
        )
    for folded in fleet.healthy:
        rows = [ScreenRow.named(*row) for row in (*healthy_rows(folded), *paced_rows(folded))]
        badge, _, line = healthy_line(pen, folded).plain.partition("  ")
        codes = [folded.info.code] if folded.info else []
        yield PageVerdict("healthy", badge, line, rows, codes, account=account_of(folded))


def _missing(checkup: Checkup, timelines: Timelines) -> Iterator[str]:
    """What was not read, recorded or drawn, and why."""
    yield from checkup.trace_notes
    yield from (note for _, note in checkup.notes)
    yield from sentences(checkup.unreachable)
    yield from (f"{topic} is not loaded by any broker" for topic in checkup.not_loaded)
    yield from timelines.notes
    if timelines.left_out:
        yield f"{many(timelines.left_out, 'more consumer')} not drawn: the first are the worst"


def _charts(timelines: Timelines) -> Iterator[tuple[str, str, Drawn]]:
    """Title and caption of each chart, and what is drawn; a sentence where nothing changed."""
    for number, each in enumerate(timelines.subscriptions, start=1):
        if each.backlog or each.unacked:
            caption, flat = BY_BROKER, _flat_subscription(each)
            title = printable(f"{each.subscription} on {_short(each.topic)}")
            yield title, flat or caption, {} if flat else {f"subscription-{number}": each}
    if len(timelines.consumers) > 1 and any(each.starved for each in timelines.consumers):
        caption = "Each row is a consumer, by its number in the table below. A bar: no permits."
        yield "Times without permits", caption, {"starved": timelines.consumers}
    for number, of in enumerate(timelines.consumers, start=1):
        if of.has_lines:
            places = (f"consumer-{number}", f"moved-{number}")[: 2 if of.moved else 1]
            title = printable(f"{of.name} of {of.subscription} on {_short(of.topic)}")
            drawn = {} if _is_flat(of) else dict.fromkeys(places, of)
            yield title, _caption(of), drawn


def _flat_subscription(of: SubscriptionTimeline) -> str:
    """What it was all the time; nothing where that changed."""
    if _varies(of.backlog) or _varies(of.unacked):
        return ""
    known = {"backlog": of.backlog, "unacknowledged messages": of.unacked}
    return f"All the time: {', '.join(f'{what} {v[0][1]:,}' for what, v in known.items() if v)}."


def _is_flat(of: ConsumerTimeline) -> bool:
    return not of.moved and not any(map(_varies, (of.permits, of.held, of.unsent)))


def _short(topic: str) -> str:
    return short_topic(topic.removeprefix(PERSISTENT))


def _varies(line: Sequence[Point]) -> bool:
    values = {value for _, value in line}
    return len(values) > 1 or None in values


def _holes(account: CursorAccount) -> tuple[str, str, str, list[ScreenRow]]:
    """Title, lines of text, which are empty where there is no scale, their legend, and numbers."""
    *drawn, legend = [line.plain for line in axis(account, HOLES_WIDTH, UNICODE)] or [""]
    title = printable(f"{account.subscription} on {account.full_topic}")
    rows = [ScreenRow(name, text) for name, text in hole_lines(account)]
    return title, "\n".join(drawn), legend, rows


def _caption(of: ConsumerTimeline) -> str:
    """What the lines and marks are, and what is not known."""
    bound = " (at most)" if of.permits_at_most else ""
    unsent = ", unsent permits, at least (dotted)" if of.unsent else ""
    lines = f"Available permits{bound} (solid), messages held (dashed){unsent}."
    if _is_flat(of):
        known = {f"available permits{bound}": of.permits, "messages held": of.held}
        known |= {"unsent permits, at least": of.unsent}
        lines = (
            f"All the time: {', '.join(f'{v[0][1]:,} {what}' for what, v in known.items() if v)}."
        )
    acks = "down: acknowledged (hatched); triangles: FLOW"
    if of.sampled:
        acks = "acknowledgements and FLOWs are not reported by the broker's statistics"
    below = f"Below, up: messages delivered; {acks}." if of.moved else "Nothing was delivered."
    hatched = "Without" if _is_flat(of) else "Hatched: without"
    starved = f"{hatched} permits, {without_permits(of.starved_in_all)}."
    return f"{lines} {starved if of.starved else 'Never without permits.'} {below}"


def _rows(those: Sequence[ConsumerTimeline]) -> Iterator[tuple[str, ...]]:
    """The table of consumers, under body's headings; of one day without the date."""
    moments = [
        [(moment_of(us // 1000) or "")[:19] for us in (of.since_us, of.until_us)] for of in those
    ]
    one_day = len({moment[:10] for pair in moments for moment in pair}) == 1
    for number, (of, pair) in enumerate(zip(those, moments, strict=True), start=1):
        name = f"{of.name} ({of.address})" if of.address else of.name
        counts = (
            "not reported" if n is None else f"{n:,}" for n in (of.delivered, of.acknowledged)
        )
        names = map(printable, (name, f"{of.subscription} on {_short(of.topic)}"))
        times = (each[11:] if one_day else each.replace("T", " ") for each in pair)
        yield (str(number), *names, *times, *counts, without_permits(of.starved_in_all))
