"""Everything that is known of one verdict, for -v: every finding, action, number and suspect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rich.text import Text

from pulsar_doctor.diagnosis.answers import HEALTHY, Finding, Suspect
from pulsar_doctor.diagnosis.short_form import culprit, topic_words
from pulsar_doctor.report.account import AccountTable, account_table
from pulsar_doctor.report.figures import numbers
from pulsar_doctor.report.known_issues import issue_rows
from pulsar_doctor.report.pace import pace_rows
from pulsar_doctor.report.paper import STYLES
from pulsar_doctor.report.stall_check.pen import NamedText, Pen, print_named
from pulsar_doctor.report.stall_check.tree import Alike, JudgedSubscription, partitions, parts_of
from pulsar_doctor.report.suspicion import suspect_rows
from pulsar_doctor.report.words import NO_RULE, accused, beside, what_to_do, would_decide
from pulsar_doctor.wording.printable import listed, many, printable


def print_details(pen: Pen, alike: Alike) -> None:
    """Draws all that is known of partitions that stand still for the same causes."""
    pen.console.print(heading(pen, alike))
    print_named(pen, [*detail_rows(pen, alike), *_account_rows(alike)])
    pen.console.print()


def print_healthy(pen: Pen, folded: JudgedSubscription) -> None:
    """One line, and a second where there is something to know."""
    pen.console.print(healthy_line(pen, folded))
    more = [*paced_rows(folded), *_account_rows(folded)] if pen.verbose else ()
    print_named(pen, [*healthy_rows(folded), *more])


def paced_rows(folded: JudgedSubscription) -> Iterator[NamedText]:
    """What sets its pace, and what would help; of partitions that with the largest backlog."""
    pace = folded.fullest.pace if folded.fullest else None
    if pace is not None and pace.work is not None:  # a limit, not the producers
        yield from pace_rows(pace)


def healthy_rows(folded: JudgedSubscription) -> Iterator[NamedText]:
    """What there is to know of it."""
    if folded.info is not None:
        yield "info", f"{culprit(folded.info)}: {folded.info.summary}"
    if folded.doubt is not None:
        yield from suspect_rows(folded.doubt, in_short=True)


def healthy_line(pen: Pen, folded: JudgedSubscription) -> Text:
    """The status, of which subscription, and what it lives by."""
    every = f", {many(folded.partitions, parts_of(folded.topic))}" if folded.partitions > 1 else ""
    summary = folded.info.summary if folded.info else ""
    line = f"{_where(folded, every)}{folded.vitals.words(folded.backlog, summary)}"
    return Text.assemble(pen.badge("healthy"), "  ", line)


def heading(pen: Pen, alike: Alike) -> Text:
    """The status, and of which subscription."""
    where = _where(alike.of, partitions(alike.diagnoses, alike.of.partitions))
    if alike.status != "unknown":
        return Text.assemble(pen.badge(alike.status), "  ", where)
    first = alike.shown.suspected
    if first is None:
        reader = next(iter(alike.shown.resting_readers), None)
        decides = printable(reader.reason) if reader else would_decide(alike.shown)
        return Text.assemble(pen.badge("unknown"), "  ", where, f": {decides}" if decides else "")
    named = f" {accused(first)} ({first.share})"
    return Text.assemble(pen.badge("suspected"), (named, STYLES["unknown"]), "  ", where)


def _where(folded: JudgedSubscription, which: str) -> str:
    kind = folded.type or "type not reported"
    return printable(f"{folded.subscription} ({kind}) on {topic_words(folded.topic)}{which}")


def detail_rows(pen: Pen, alike: Alike) -> Iterator[NamedText]:
    """Names and texts of all that is known."""
    shown = alike.shown
    if shown.suppressed is not None:
        yield "quiet", f"suppressed {shown.suppressed}"
    if shown.usual is not None:
        yield "usual", str(shown.usual)
    if len(alike.diagnoses) > 1:
        why = ", the largest backlog of them" if shown.backlog else ""
        yield "shown", f"{parts_of(shown.whole)} {shown.part}{why}"
    advised: dict[str, Finding] = {}
    for finding in shown.findings:
        yield from _finding_lines(pen, finding, advised.setdefault(_advice(finding), finding))
        yield from _more(pen, finding)
    yield from pace_rows(shown.pace)
    yield from issue_rows(shown)
    for name, text in suspect_rows(shown, whole=True):
        yield name, Text(printable(text), style=STYLES["unknown"]) if name == "likely" else text
    if shown.suspects and shown.suspects[0].code not in NO_RULE:
        yield from _more(pen, shown.suspects[0])
    if pen.tells_backlog and (backlog := alike.backlog_words):
        yield "backlog", backlog
    open_ = len(shown.unknown) if shown.status == "unknown" else 0
    yield from _reasons("undecided", shown.unknowns[:open_])
    yield from _reasons("no data", shown.unknowns[open_:])


def account_of(found: Alike | JudgedSubscription) -> AccountTable | None:
    """Where its messages are, of partitions the largest backlog; None: nobody made an account."""
    shown = found.shown if isinstance(found, Alike) else found.fullest
    if shown is None or shown.account is None:
        return None
    table = account_table(shown.account, shown.balance)
    which = "" if shown.part is None else f"{parts_of(shown.whole)} {shown.part}: "
    return replace(table, title=f"{which}{table.title}")


def _account_rows(found: Alike | JudgedSubscription) -> Iterator[NamedText]:
    table = account_of(found)
    lines = () if table is None else table.lines
    yield from (("" if at else "account", line) for at, line in enumerate(lines))


def _reasons(name: str, reasons: Iterable[str]) -> Iterator[NamedText]:
    """Each reason once, behind the codes of all checks that have it."""
    codes: dict[str, list[str]] = {}
    for reason in (each.removeprefix(f"{HEALTHY}: ") for each in reasons):
        code, named, why = reason.partition(": ")
        whole = not named or " " in code
        codes.setdefault(reason if whole else why, []).extend([] if whole else [code])
    for why, those in codes.items():
        head = f"{listed(those, len(those))}: " if those else ""
        yield name, f"{head}{why}"


def _advice(finding: Finding) -> str:
    """What it advises, whoever its consumer is: of several with one cause it is the same."""
    text = "".join((finding.code, finding.remedy, *(each.text for each in finding.actions)))
    address = ((finding.where and finding.where.address) or "").lstrip("/")
    for name in filter(None, (address, finding.consumer)):
        text = text.replace(name, "")
    return text


def _finding_lines(pen: Pen, finding: Finding, like: Finding) -> Iterator[NamedText]:
    """like: the first one with the same advice, which is printed once."""
    who = f" of {printable(finding.consumer)}" if finding.consumer else ""
    sure = f", {finding.confidence:.0%} sure"
    cause = Text.assemble((finding.code, STYLES[finding.severity]), f"{who} ({finding.severity}")
    yield "cause", cause.append(f"{sure})")
    yield "seen", finding.summary
    yield from beside(finding)
    if like is not finding:
        yield "to do", printable(f"the same as for {like.consumer}")
    elif finding.actions:
        named = what_to_do(finding)
        ours = {"check": pen.compared, "run": pen.reaching}
        yield from ((n, ours[n](str(text)) if n in ours else text) for n, text in named)
    else:
        yield "remedy", finding.remedy
    if found := numbers(finding):
        yield "numbers", found


def _more(pen: Pen, found: Finding | Suspect) -> Iterator[NamedText]:
    """Where more is shown, once for each code."""
    if found.code not in pen.explained:
        pen.explained.add(found.code)
        yield "more", found.explain
