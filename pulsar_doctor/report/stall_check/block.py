"""One verdict in about ten lines: what is wrong, where, who waits, what to do first.

Every screen uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from rich.text import Text

from pulsar_doctor.diagnosis.actions.commands import stall_check
from pulsar_doctor.diagnosis.answers import (
    HEALTHY,
    LIKELY,
    Finding,
    ReaderRests,
    Suspect,
    Unreliable,
)
from pulsar_doctor.diagnosis.short_form import culprit
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.report.pace import pace_rows
from pulsar_doctor.report.paper import STYLES
from pulsar_doctor.report.stall_check.pen import Pen, ScreenRow, row_lines
from pulsar_doctor.report.stall_check.tree import Alike, parts_of
from pulsar_doctor.report.suspicion import probe_text, sentence_of, undecided
from pulsar_doctor.report.words import (
    NO_RULE,
    READS_AT_WILL,
    RESTING,
    accused,
    cause,
    doubt,
    short_topic,
    whereabouts,
)
from pulsar_doctor.wording.addresses import at
from pulsar_doctor.wording.consoles import wrapped
from pulsar_doctor.wording.printable import listed, many, printable

DEFAULT_TOPIC = re.compile(  # one word of a shell that is neither an option nor a path
    r"(?<= )persistent://public/default/(?=[A-Za-z0-9_][A-Za-z0-9_.:=@%+-]*(?: |$))"
)
NAME_WIDTH = 6
SEEN = "seen"
BY_ONE = {"ack-hole", "redelivery-storm", "consumers-come-and-go"}  # causes that name no consumer
ATTENDING_MOST = 3
TELLS_NAMES = "exclusive-zombie"  # the cause that says itself that a name repeats
EACH_MOST = 5  # consumers with one cause
NAMESAKES_MOST = 3


def block(pen: Pen, alike: Alike, *, before: str = "", beside: str = "") -> list[Text]:
    """The lines of a verdict, no longer than the console. before, beside: in the headline."""
    rows = () if alike.status == "healthy" else (*block_rows(pen, alike), *slow_rows(alike))
    lines = [
        line for row in rows for line in row_lines(pen, row, 0 if row.name == SEEN else NAME_WIDTH)
    ]
    return [*_heading(pen, alike, before, beside), *lines]


def slow_rows(alike: Alike) -> Iterator[ScreenRow]:
    """What sets the pace and what helps, where messages move too slowly."""
    pace = alike.shown.pace
    if alike.status == "warning" and pace is not None and pace.levers:
        yield from (ScreenRow(*row) for row in pace_rows(pace))


def block_rows(pen: Pen, alike: Alike) -> Iterator[ScreenRow]:
    """What was seen, where, who waits, what to do first, how to check it, and where to read on."""
    shown = alike.shown
    which = f"{parts_of(shown.whole)} {shown.part}: " if len(alike.diagnoses) > 1 else ""
    if shown.suppressed is not None:
        yield ScreenRow("quiet", f"suppressed {shown.suppressed}")
    usual = [ScreenRow("usual", str(shown.usual))] if shown.usual else []
    first = _first(shown)
    if first is None:
        yield from usual
        yield from _asking(pen, shown)
        if others := len(undecided(shown)[1:]):  # the headline has the first reason
            yield ScreenRow("more", f"-v ({many(others, 'more reason')})")
        return
    text = first.summary if isinstance(first, Finding) else _speaks(shown, first)
    if text:
        yield ScreenRow(SEEN, f"{which}{text}")
    wrong = doubt(shown, Unreliable) if shown.status == "unknown" else ""
    if wrong and wrong != cause(shown):
        yield ScreenRow("but", wrong)
    if where := _of_each(shown) or (
        whereabouts(first.where) if first.where else _attending(shown, first)
    ):
        yield ScreenRow("where", where)
    if first.code != TELLS_NAMES and (names := _namesakes(shown)):
        yield ScreenRow("names", names)
    if waits := _waits(pen, alike, first):
        yield ScreenRow("waits", waits)
    yield from usual
    each = len(_same_cause(shown))
    yield from (
        _first_action(pen, first, each) if isinstance(first, Finding) else _deciding(pen, first)
    )
    if isinstance(first, Suspect) and first.remedy and "process" in shown.sources:
        yield ScreenRow("if so", first.remedy)  # what decides was done already
    yield _more(pen, shown, first)


def _asking(pen: Pen, shown: Diagnosis) -> Iterator[ScreenRow]:
    """Where packets or a trace show too little, the broker's own numbers; how to judge a reader."""
    for reader in shown.resting_readers:
        yield from _deciding(pen, reader)
        yield ScreenRow("else", READS_AT_WILL)
    line = stall_check(*shown.key)
    if line and shown.sources and not {"stats", "process"} & {*shown.sources}:
        yield ScreenRow("decide", "Ask the broker, if it can be reached:")
        yield ScreenRow("run", pasted(pen.reaching(line)), to_paste=True)


def _speaks(shown: Diagnosis, suspect: Suspect) -> str:
    """What speaks for it; of a cause that the headline does not name, its name as well.

    Of one that is unlikely, what forbids to call it healthy, if the headline does not.
    """
    text, headed = sentence_of(suspect), doubt(shown) == cause(shown)
    if shown.suspected:
        return text
    if _probably_well(shown):
        other = "" if suspect.code in NO_RULE else f"; otherwise it is likely {accused(suspect)}"
        return f"probably nothing is wrong ({shown.suspects[0].share}){other}"
    if suspect.code in NO_RULE:
        return "" if headed else text
    if shown.unknown and suspect.likelihood == "unlikely":
        return "" if headed else undecided(shown)[0]
    named = f"{suspect.likelihood} {accused(suspect)} ({suspect.share})"
    return f"{named}: {text}" if text else named


def _first(shown: Diagnosis) -> Finding | Suspect | None:
    """What the headline names."""
    if shown.findings and shown.status != "unknown":
        return shown.findings[0]
    return shown.likeliest or next(iter(shown.suspects), None)


def _heading(pen: Pen, alike: Alike, before: str, beside: str) -> list[Text]:
    """The headline; without the word `cause` where that saves a line."""
    width = pen.console.width
    texts = (headline(pen, alike), headline(pen, alike, means=": "))
    both = [[*wrapped(Text.assemble(before, text, beside), width)] for text in texts]
    return min(both, key=len)


def headline(pen: Pen, alike: Alike, means: str = "; cause: ") -> Text:
    """`✖ STALLED  billing on orders; cause: prefetch-hogging of worker-3 (94%)`.

    The status is certain; the share is that of the cause. An unlikely one is called the likeliest,
    and the next one is named as well. means: between the subscription and its cause.
    """
    shown, status = alike.shown, alike.status
    of = f"  {printable(alike.of.subscription)} on {short_topic(alike.place)}"
    if status == "healthy":
        return Text.assemble(pen.badge(status), of)
    what, findings = cause(shown), shown.findings
    if status == "unknown" or not findings:
        means = ": "
    elif (sure := findings[0].confidence) < LIKELY:
        means, what = "; likeliest cause: ", f"{what} ({sure:.0%}){_next_cause(shown)}"
    else:
        what = f"{what} ({sure:.0%})"
    badge = pen.badge("suspected" if status == "unknown" and shown.suspected else status)
    return Text.assemble(badge, f"{of}{means}", (what, STYLES[status]))


def _waits(pen: Pen, alike: Alike, first: Finding | Suspect) -> str:
    """Who or what waits; where nothing tells, the backlog."""
    if isinstance(first, Finding) and first.impact:
        return first.impact
    waits = pen.tells_backlog and (alike.of.backlog or 0) > 0
    words = alike.backlog_words if waits else ""
    return words and f"the backlog: {words}"


def _attending(shown: Diagnosis, first: Finding | Suspect) -> str:
    """The few consumers of which one does what a cause says that names none."""
    those = shown.consumers or ()
    found = isinstance(first, Finding) or first.likelihood != "unlikely"
    if not found or first.code not in BY_ONE or not all(each.address for each in those):
        return ""
    if not 0 < len(those) <= ATTENDING_MOST:
        return ""
    known = [f"{each.label} ({(each.address or '').lstrip('/')})" for each in those]
    which = "the only consumer" if len(those) == 1 else "one of"
    return f"{which}: {listed(known, ATTENDING_MOST)}"


def _of_each(shown: Diagnosis) -> str:
    """`worker-1 at 10.0.3.7:51494, …`: where they are, of several with one cause."""
    those = _same_cause(shown)
    each = [at(f.consumer or "", f.where.address if f.where else None) for f in those]
    return listed(each, EACH_MOST) if len(those) > 1 else ""


def _first_action(pen: Pen, finding: Finding, each: int) -> Iterator[ScreenRow]:
    """each: consumers that have the same cause, and need the same."""
    if not finding.actions:
        yield ScreenRow("fix", finding.remedy)
        return
    action = finding.actions[0]
    text = action.brief or action.text
    if each > 1:
        text = f"each of these {each}: {text[:1].lower()}{text[1:]}"
    if action.command is None:  # where no row says which process it is, the whole text does
        yield ScreenRow("fix", text if finding.where else action.text)
    else:
        yield ScreenRow("fix", pasted(pen.reaching(action.command)), to_paste=True, comment=text)
    if check := next((each.check for each in finding.actions if each.check), None):
        row = ScreenRow.named("check", pen.compared(check))
        yield replace(row, text=pasted(str(row.text)))


def pasted(line: str) -> str:
    """A line for a shell with the short name of a topic, where that means the same."""
    return line if "'" in line else DEFAULT_TOPIC.sub("", line)


def _deciding(pen: Pen, suspect: Suspect | ReaderRests) -> Iterator[ScreenRow]:
    """The one number or command that would decide."""
    if suspect.decide is not None:
        yield ScreenRow("decide", probe_text(suspect.decide))
        if suspect.decide.command:
            yield ScreenRow("run", pasted(pen.reaching(suspect.decide.command)), to_paste=True)


def _more(pen: Pen, shown: Diagnosis, first: Finding | Suspect) -> ScreenRow:
    """What -v adds, and the command that explains the cause, once for each code."""
    fits = [each.issue.id for each in shown.known_issues if each.grade == "matches"]
    adds = [f"fits {each}" for each in fits[:1]]
    same = (first, *_same_cause(shown))
    if others := [each for each in shown.findings if each not in same]:
        named = f": {culprit(others[0])}" if isinstance(first, Suspect) else ""
        adds.append(f"{many(len(others), 'more cause')}{named}")
    explain = "" if first.code in {*NO_RULE, *pen.explained} else f"{first.explain}; "
    pen.explained.add(first.code)
    details = f"({', '.join(adds)})" if adds else "for details"
    return ScreenRow("more", f"{explain}-v {details}")


def _next_cause(diagnosis: Diagnosis) -> str:
    """`, then paused of worker-3`: what is likeliest after the first cause; "" if nothing is."""
    found = [each for each in diagnosis.findings if each.severity != "info"]
    after: list[Finding | Suspect] = [each for each in found if each.code != found[0].code]
    after += [each for each in diagnosis.suspects if each.code not in NO_RULE]
    return f", then {printable(culprit(after[0]))}" if after else ""


def _probably_well(diagnosis: Diagnosis) -> bool:
    """Whether nothing rests for too long, and that nothing is wrong is likely."""
    first = next(iter(diagnosis.suspects), None)
    well = first is not None and first.code == HEALTHY and first.likelihood == "likely"
    return well and not any(doubt(diagnosis, kind) for kind in RESTING)


def _same_cause(diagnosis: Diagnosis) -> list[Finding]:
    """Findings of the first cause of a decided verdict, each of another consumer."""
    found = diagnosis.findings if diagnosis.status in ("stalled", "warning") else ()
    return [each for each in found if each.code == found[0].code and each.consumer]


def _namesakes(diagnosis: Diagnosis) -> str:
    """`2 consumers are called a (10.0.3.7:36912, :55078): …`, of the first name that repeats.

    On one connection they are one process, and many with one name are so by design.
    """
    those: dict[str, dict[str, None]] = {}
    for each in diagnosis.consumers or ():
        if each.name and each.address:
            those.setdefault(each.name, {})[each.address.lstrip("/")] = None
    name, found = next((e for e in those.items() if 1 < len(e[1]) <= NAMESAKES_MOST), ("", {}))
    first, *more = found or ("",)
    host = first.rpartition(":")[0]
    shown = ", ".join((first, *(each.removeprefix(host) for each in more)))
    why = "does an old process still run?"
    return printable(f"{len(found)} consumers are called {name} ({shown}): {why}") if found else ""
