"""The formats of stall-check's report, by the names that -o takes."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import TextIO

from pulsar_doctor.report import document, github, junit, nagios, prometheus, verdict
from pulsar_doctor.report.checkup import Checkup, Tally, Wanted
from pulsar_doctor.report.words import survive

Write = Callable[[Checkup, TextIO, Wanted], None]
FORMATS: Mapping[str, Write] = {
    "table": verdict.write,
    "json": document.write,
    "junit": junit.write,
    "github": github.write,
    "nagios": nagios.write,
    "prometheus": prometheus.write,
}
ALWAYS_UTF8 = frozenset({"prometheus"})  # by its definition


def write(name: str, checkup: Checkup, out: TextIO, *, wanted: Wanted | None = None) -> Tally:
    """Writes the checkup in this format, and counts what went by; `name` is one of FORMATS."""
    survive(out)
    if name in ALWAYS_UTF8 and isinstance(out, io.TextIOWrapper):
        out.reconfigure(encoding="utf-8")
    FORMATS[name](checkup, out, wanted or Wanted())
    out.flush()
    return checkup.tally
