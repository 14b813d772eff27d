"""The formats of stall-check's report, by the names that -o takes: the one list of them.

Each is a module with `write(checkup, out, wanted)`, and is imported when it is asked for: the
command line reads this list for its --help, which is instant.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pulsar_doctor.report.checkup import Checkup, Tally, Wanted

FORMATS: Mapping[str, str] = {  # the first is the default
    "table": "verdict",
    "json": "document",
    "jsonl": "document_lines",
    "junit": "junit",
    "github": "github",
    "nagios": "nagios",
    "prometheus": "prometheus",
}
ALWAYS_UTF8 = frozenset({"prometheus"})  # by its definition


def write(name: str, checkup: Checkup, out: TextIO, *, wanted: Wanted | None = None) -> Tally:
    """Writes the checkup in this format, and counts what went by; `name` is one of FORMATS."""
    from pulsar_doctor.report.checkup import Wanted
    from pulsar_doctor.report.words import survive

    survive(out)
    if name in ALWAYS_UTF8 and isinstance(out, io.TextIOWrapper):
        out.reconfigure(encoding="utf-8")
    module = importlib.import_module(f"pulsar_doctor.report.{FORMATS[name]}")
    module.write(checkup, out, wanted or Wanted())
    out.flush()
    return checkup.tally
