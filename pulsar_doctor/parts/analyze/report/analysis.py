"""An analysis on the terminal and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from pulsar_doctor.parts.analyze.analysis import TABLES, Analysis, moment
from pulsar_doctor.parts.analyze.report.over_time import rows_of_blocks
from pulsar_doctor.parts.analyze.report.tables import (
    CONSUMERS,
    GAPS,
    HOLES,
    STALLS,
    SUBSCRIPTIONS,
    TRACE,
    within,
)
from pulsar_doctor.parts.analyze.report.verdicts import (
    COLUMNS,
    STALLED_BEFORE,
    badge,
    in_words,
    statuses,
    unwell,
)
from pulsar_doctor.parts.analyze.verdicts import TraceVerdict
from pulsar_doctor.report.paper import STYLES
from pulsar_doctor.report.stall_check.document import DIAGNOSIS
from pulsar_doctor.report.tables import TableColumn, View, counted, drawn, indented
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import printable

SCHEMA = "pulsar-doctor/analyze/2"
TOP = 10
VERDICTS_MOST = 10_000  # of a document; the worst


def analysis_json(analysis: Analysis) -> dict[str, Any]:
    """The document of `-o json`. Moments are ISO 8601 in UTC, what is not known is null."""
    return {
        "schema": SCHEMA,
        "events": analysis.events,
        "traces": analysis.traces,
        "first": _plain(analysis.first),
        "last": _plain(analysis.last),
        "bucket_seconds": analysis.bucket_seconds,
        "percentile_error": analysis.percentile_error,
        "totals": {table: analysis.total(table) for table in TABLES},
        **{table: _rows_json(analysis, table) for table in TABLES},
        "stall_floor_seconds": analysis.stall_floor_seconds,
        "brief_stalls": [dict(row) for row in analysis.brief_stalls],
        "notes": list(analysis.notes),
        "left_out": [asdict(each) for each in analysis.left_out],
        "since": _plain(analysis.since),
        "until": _plain(analysis.until),
        "topic": analysis.topic,
        "subscription": analysis.subscription,
        "status": analysis.status,
        "statuses": statuses(analysis),
        "verdicts": [_verdict_json(each) for each in analysis.verdicts[:VERDICTS_MOST]],
    }


def _verdict_json(verdict: TraceVerdict) -> dict[str, Any]:
    """The verdict as a subscription of stall-check's document; at: the moment that was judged."""
    of_trace = {"trace_id": verdict.trace_id, "at": _plain(moment(verdict.at_us))}
    return of_trace | DIAGNOSIS(verdict.diagnosis)


def _rows_json(analysis: Analysis, table: str) -> list[dict[str, Any]]:
    rows = analysis.rows(table)
    return [{column: _plain(value) for column, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise ValueError(f"{value} says no zone, so it is no moment")
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True)
class Drawing:
    """Something for rich to draw, made when it is known how wide the terminal is."""

    analysis: Analysis
    top: int
    parts: Sequence[ReportPart]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        view = _view(self.analysis, options)
        for part in self.parts:
            if self.analysis.events or part is OPENING:
                yield from part.draw(self.analysis, self.top, view)


def report(analysis: Analysis, top: int = TOP) -> Drawing:
    """Reports the whole analysis, the worst first. top: rows of each table at most."""
    return Drawing(analysis, top, PARTS)


class Growing:
    """Prints a report part by part, each as soon as its tables are there."""

    def __init__(self, console: Console, top: int) -> None:
        self._console = console
        self._top = top
        self._left = list(PARTS)

    def show(self, analysis: Analysis) -> None:
        """Prints what is not printed yet. A table is there when `totals` names it."""
        while self._left and self._left[0].needs <= analysis.totals.keys():
            self._console.print(Drawing(analysis, self._top, [self._left.pop(0)]))


def _view(analysis: Analysis, options: ConsoleOptions) -> View:
    utf = options.encoding.startswith("utf")
    return View(options.max_width, utf, analysis.first, analysis.last)


def _opening(analysis: Analysis, top: int, view: View) -> Iterator[RenderableType]:
    yield from _headline(analysis, view)
    if analysis.events:
        yield from _verdicts(analysis, top, view)


def _selection(analysis: Analysis) -> str:
    """What of the traces was requested; nothing where that is all."""
    words = {
        "since": analysis.since and _plain(analysis.since),
        "until": analysis.until and _plain(analysis.until),
        "topic": analysis.topic and printable(analysis.topic),
        "subscription": analysis.subscription and printable(analysis.subscription),
    }
    return ", ".join(f"{name} {value}" for name, value in words.items() if value)


def _headline(analysis: Analysis, view: View) -> Iterator[Text]:
    events = counted(analysis.events, "event")
    consumers = counted(analysis.total("consumers"), "consumer incarnation")
    when = _from_to(analysis.first, analysis.last)
    yield Text(f"{events} of {counted(analysis.traces, 'trace')}{when}, {consumers}")
    if selection := _selection(analysis):
        yield Text(f"selected: {selection}")
    if analysis.events:
        yield _verdict(analysis, view)
    else:
        yield Text("nothing was recorded, so nothing can be said")
    if analysis.status == "unknown" and analysis.stalled_before:
        yield Text(STALLED_BEFORE, style="magenta")
    for each in analysis.left_out:
        yield Text(f"left out: {printable(each.why)}", style="red")
    for note in analysis.notes:
        yield Text(f"note: {printable(note)}", style="yellow")


def _from_to(first: datetime | None, last: datetime | None) -> str:
    if first is None or last is None:
        return ""
    begins, ends = first.astimezone(UTC), last.astimezone(UTC)
    until = "%H:%M:%S" if begins.date() == ends.date() else "%Y-%m-%d %H:%M:%S"
    return f", from {begins:%Y-%m-%d %H:%M:%S} to {ends.strftime(until)} UTC"


def _verdict(analysis: Analysis, view: View) -> Text:
    """The status, of how many subscriptions, and how many times without permits there were."""
    shown = badge(analysis.status, view), STYLES[analysis.status]
    return Text.assemble(shown, f"  {in_words(analysis)}; {_stalls_in_words(analysis)}")


def _stalls_in_words(analysis: Analysis) -> str:
    total, rows = analysis.total("stalls"), analysis.rows("stalls")
    if not total:
        return _no_stall(analysis)
    counts = Counter(row["severity"] or "without a finding" for row in rows)
    kinds = ("stalled", "warning", "info", "without a finding")
    parts = ", ".join(f"{counts[kind]:,} {kind}" for kind in kinds if counts[kind])
    which = "" if len(rows) == total else f" (of the worst {len(rows):,})"
    return f"{counted(total, 'time')} without permits: {parts}{which}{_brief(analysis, ', and ')}"


def _no_stall(analysis: Analysis) -> str:
    return _brief(analysis, "") or NO_STALL


def _brief(analysis: Analysis, before: str) -> str:
    """How many there were that are no rows, and how long they were."""
    rows = analysis.brief_stalls
    if not rows:
        return ""
    floor = duration(analysis.stall_floor_seconds or 0)
    kinds = (f"{row['count']:,} below {duration(row['below_us'] / 1e6)}" for row in rows)
    in_all = counted(sum(row["count"] for row in rows), "time")
    return f"{before}{in_all} shorter than {floor} without a finding ({', '.join(kinds)})"


class Section(NamedTuple):
    """A table of the report."""

    table: str
    title: str
    means: str  # what a row is, in one line
    empty: str  # what it means that there is no row
    columns: Sequence[TableColumn]


NO_STALL = "no consumer was ever without permits"
STALLS_SECTION = Section(
    "stalls",
    "Stalls",
    "each time a consumer had no permits: the broker could send it nothing",
    NO_STALL,
    STALLS,
)
SUBSCRIPTIONS_SECTION = Section(
    "subscriptions",
    "Subscriptions",
    "time without permits, summed over the consumers of each",
    "no consumer of a subscription was seen",
    SUBSCRIPTIONS,
)
CONSUMERS_SECTION = Section(
    "consumers",
    "Consumers",
    "each incarnation: its time without permits, and what it was given",
    "no consumer was seen",
    CONSUMERS,
)
HOLES_SECTION = Section(
    "holes",
    "Holes",
    "entries delivered and never acknowledged, although later ones were",
    "no entry was left behind: none is unacknowledged before an acknowledged one",
    HOLES,
)
MEASURES = {  # of gaps, in the order in which they are shown
    "without_permits": "time without permits",
    "delivery_to_ack": "from delivery to ack",
    "between_flows": "between FLOWs",
}


def _section(
    section: Section, analysis: Analysis, top: int, view: View
) -> Iterator[RenderableType]:
    rows, total = analysis.rows(section.table)[:top], analysis.total(section.table)
    empty = _no_stall(analysis) if section is STALLS_SECTION else section.empty
    yield from _title(section.title, section.means if total else empty)
    if rows:
        yield from drawn(rows, _columns(section.columns, analysis), view)
    yield from _more(total - len(rows), view)


def _columns(columns: Sequence[TableColumn], analysis: Analysis) -> list[TableColumn]:
    """Which trace, where there are several."""
    return [column for column in columns if column != TRACE or analysis.traces > 1]


def _gaps(analysis: Analysis, top: int, view: View) -> Iterator[RenderableType]:
    """A table for each measure, since times of different kinds cannot be compared."""
    total = analysis.total("gaps")
    if not total:
        yield from _title("Gaps", "no time between two events is known")
        return
    error = (
        "exact"
        if not analysis.percentile_error
        else f"exact or {within(analysis.percentile_error)}"
    )
    yield from _title("Gaps", f"how long things took, per consumer; percentiles are {error}")
    gaps, shown = analysis.rows("gaps"), 0
    for measure in dict.fromkeys([*MEASURES, *(row["measure"] for row in gaps)]):
        rows = [row for row in gaps if row["measure"] == measure][:top]
        if rows:
            yield indented(Text(MEASURES.get(measure, printable(measure)), style="italic"))
            yield from drawn(rows, _columns(GAPS, analysis), view)
        shown += len(rows)
    yield from _more(total - shown, view)


def _verdicts(analysis: Analysis, top: int, view: View) -> Iterator[RenderableType]:
    rows = unwell(analysis)
    if not rows:
        return
    yield from _title(
        "Verdicts", "who is not healthy where its trace ends, as `stall-check --trace` says"
    )
    if shown := rows[:top]:
        yield from drawn(shown, _columns(COLUMNS, analysis), view)
    yield from _more(len(rows) - top, view)


def _timeline(analysis: Analysis, top: int, view: View) -> Iterator[RenderableType]:
    shown = analysis.rows("timeline")
    if not shown:
        yield from _title("Timeline", "nothing happened that is counted over time")
        return
    assert analysis.bucket_seconds  # a timeline has buckets
    yield from _title("Timeline", "what happened when, over all topics")
    yield from map(indented, rows_of_blocks(shown, analysis.bucket_seconds, view))
    yield from _more(analysis.total("timeline") - len(shown), view)


def _title(title: str, means: str) -> Iterator[Text]:
    yield Text("")
    yield Text.assemble((title, "bold"), "  ", (means, "dim"))


def _more(left_out: int, view: View) -> Iterator[RenderableType]:
    if left_out > 0:
        yield indented(Text(f"{view.signs.more} and {left_out:,} more: -o json or --save"))


class ReportPart(NamedTuple):
    """What is printed in one go."""

    needs: frozenset[str]  # the tables that it shows
    draw: Callable[[Analysis, int, View], Iterator[RenderableType]]


def _part(section: Section) -> ReportPart:
    return ReportPart(frozenset({section.table}), partial(_section, section))


OPENING = ReportPart(frozenset({"consumers", "stalls"}), _opening)
PARTS = (
    OPENING,
    ReportPart(frozenset({"timeline"}), _timeline),
    *map(_part, (STALLS_SECTION, SUBSCRIPTIONS_SECTION, CONSUMERS_SECTION)),
    ReportPart(frozenset({"gaps"}), _gaps),
    _part(HOLES_SECTION),
)
