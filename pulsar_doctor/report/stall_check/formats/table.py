"""Verdicts on the terminal: few as blocks, many as rows."""

from __future__ import annotations

from typing import TextIO

from rich.text import Text

from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.report.paper import console_on
from pulsar_doctor.report.stall_check.after_lines import AfterLines
from pulsar_doctor.report.stall_check.attached import ConsumerTables
from pulsar_doctor.report.stall_check.header import header
from pulsar_doctor.report.stall_check.tree import tree_of
from pulsar_doctor.report.stall_check.verdict import print_fleet
from pulsar_doctor.report.stall_check.wanted import Wanted

FOR_PEOPLE = True
CARRIES = {"after", "notes", "worst"}


def write(checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    """Where and when, the worst, what is healthy, how many there are, and what was not read."""
    console, attached, since = console_on(out), ConsumerTables(), AfterLines()
    diagnoses = since.through(checkup.examined())
    fleet = tree_of(attached.through(diagnoses) if wanted.consumers else diagnoses, wanted.worst)
    if wanted.header and (head := header(checkup, console.text_width)):
        console.print(Text(head, style="dim"))
    print_fleet(console, fleet, checkup, wanted)
    since.print_on(console)
    attached.print_on(console)
