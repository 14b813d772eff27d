"""The verdicts for a person, who reads the first line first: the worst in detail, many in rows."""

from __future__ import annotations

from typing import TextIO

from pulsar_doctor.diagnosis.checkup import Checkup
from pulsar_doctor.report.paper import console_on
from pulsar_doctor.report.stall_check.folding import fold
from pulsar_doctor.report.stall_check.verdict import print_fleet
from pulsar_doctor.report.stall_check.wanted import Wanted


def write(checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    """The worst first, then what is healthy, how many there are, and what was not read."""
    print_fleet(console_on(out), fold(checkup.examined()), checkup, wanted)
