"""Verdicts on the terminal: blocks for a few, rows for many, then what was not read."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from pulsar_doctor.checkup.result import STATUSES, Checkup, Tally
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.report.paper import console_on
from pulsar_doctor.report.stall_check.at_a_glance import print_group, print_many
from pulsar_doctor.report.stall_check.block import block
from pulsar_doctor.report.stall_check.details import print_details, print_healthy
from pulsar_doctor.report.stall_check.pen import Pen
from pulsar_doctor.report.stall_check.processes import print_processes
from pulsar_doctor.report.stall_check.tree import HEALTHY_SHOWN_MOST, Alike, JudgedFleet, tree_of
from pulsar_doctor.report.stall_check.unread import is_topic
from pulsar_doctor.report.stall_check.wanted import Wanted
from pulsar_doctor.report.words import counted, suppressed
from pulsar_doctor.wording.consoles import GatedConsole
from pulsar_doctor.wording.gate import stdout
from pulsar_doctor.wording.printable import listed, many, printable

DETAILED_MOST = 5  # subscriptions, or many of one cause; more are a row each
TOPICS_NAMED_MOST = 5
SAVE = "to compare after a remedy: --save before.gz now, --after before.gz then"


def print_fleet(
    console: GatedConsole, fleet: JudgedFleet, checkup: Checkup, wanted: Wanted
) -> None:
    """The worst first, then what is healthy; what was not read is that of a whole checkup."""
    tells = checkup.source != "trace"
    pen = Pen(console, wanted.verbose, tells_backlog=tells, saved=wanted.saved, reach=wanted.reach)
    _print_unwell(pen, fleet)
    for folded in fleet.healthy if fleet.counts["healthy"] <= HEALTHY_SHOWN_MOST else ():
        print_healthy(pen, folded)
    total, suppresses = fleet.counts.total(), bool(checkup.tally.suppressed)
    if checkup.left_out:
        console.print(Text(left_out_line(checkup)))
    # What has notes is shown by them.
    elif total > 1 or suppresses or not (total or checkup.notes):
        console.print(Text(counts_line(fleet, checkup.tally)))
    if fleet.unwell and wanted.saves and wanted.saved is None:
        console.print(Text(SAVE, style="dim"))
    for _, note in checkup.notes:
        console.print(Text(printable(note)))
    _print_not_loaded(console, checkup.not_loaded)
    _print_unreachable(console, checkup.unreachable)


def print_diagnoses(diagnoses: Sequence[Diagnosis], *, verbose: bool = False) -> None:
    """Draws verdicts from the wire on stdout, the worst first; several are counted at the end."""
    checkup, wanted = Checkup("trace", diagnoses), Wanted(verbose=verbose)
    print_fleet(console_on(stdout()), tree_of(checkup.examined()), checkup, wanted)


def _print_unwell(pen: Pen, fleet: JudgedFleet) -> None:
    groups = fleet.grouped(apart=pen.verbose)
    if len(groups) > DETAILED_MOST:
        print_many(pen, groups)
    else:
        _print_few(pen, groups)
    rows = len(groups) > DETAILED_MOST or any(group.count > 1 for group in groups)
    print_processes(pen, fleet.unwell, folded=rows)


def _print_few(pen: Pen, groups: Sequence[Alike]) -> None:
    for group in groups:
        if group.count > 1:
            print_group(pen, group)
            continue
        for alike in group.of.alike():
            if pen.verbose:
                print_details(pen, alike)
                continue
            for line in block(pen, alike):
                pen.console.print(line, soft_wrap=True)
            pen.console.print()


def left_out_line(checkup: Checkup) -> str:
    """`2 subscriptions left out: not stalled or unknown (--only)`."""
    only = " or ".join(status for status in STATUSES if status in checkup.only)
    return f"{many(checkup.left_out, 'subscription')} left out: not {only} (--only)"


def counts_line(fleet: JudgedFleet, tally: Tally) -> str:
    """`3 subscriptions: 1 stalled, 2 healthy`. tally: with each partition counted."""
    total, apart = fleet.counts.total(), tally.subscriptions
    each = f" ({apart} with each partition and segment apart)" if apart != total else ""
    counts = f": {counted(fleet.counts)}" if total else ": nothing was judged"
    return f"{many(total, 'subscription')}{each}{counts}{suppressed(tally)}"


def _print_not_loaded(console: GatedConsole, topics: Sequence[str]) -> None:
    if topics:
        names = listed([printable(topic) for topic in topics], TOPICS_NAMED_MOST)
        why = "not loaded by any broker, so not read (--load-topics reads them)"
        console.print(Text(f"{many(len(topics), 'topic')} {why}: {names}"))


def _print_unreachable(console: GatedConsole, unreachable: Sequence[tuple[str, str]]) -> None:
    if not unreachable:
        return
    topics = sum(is_topic(name) for name, _ in unreachable)
    head = f"{many(topics, 'topic')} could not be read:" if topics else "Not everything was read:"
    console.print(Text(head, style="bold"))
    for topic, reason in unreachable[:TOPICS_NAMED_MOST]:
        console.print(Text(f"  {printable(topic)}: {printable(reason)}"))
    if len(unreachable) > TOPICS_NAMED_MOST:
        left_out = len(unreachable) - TOPICS_NAMED_MOST
        console.print(Text(f"  and {left_out} more: -o json lists them all"))
