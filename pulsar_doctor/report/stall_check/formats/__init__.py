"""The formats of stall-check's report: each file is one of those that -o takes, by being here.

A format's file has `write(checkup, out, wanted)`, and ENCODING where its definition knows one
encoding only. It is imported when it is asked for: the command line reads FORMATS for its --help,
which is instant.
"""

from __future__ import annotations

import importlib
import io
import pkgutil
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pulsar_doctor.checkup.result import Checkup, Tally
    from pulsar_doctor.report.stall_check.wanted import Wanted

FIRST = ("table", "json", "jsonl", "junit")  # what most people want, the default before all


def _place(name: str) -> tuple[int, str]:
    """Among the choices: those that most want, then by name."""
    return FIRST.index(name) if name in FIRST else len(FIRST), name


FORMATS = tuple(sorted((module.name for module in pkgutil.iter_modules(__path__)), key=_place))


def write(name: str, checkup: Checkup, out: TextIO, *, wanted: Wanted | None = None) -> Tally:
    """Writes the checkup in this format, and counts what went by; `name` is one of FORMATS."""
    from pulsar_doctor.printing.gate import behind, gated
    from pulsar_doctor.report.stall_check.wanted import Wanted

    module = importlib.import_module(f"{__name__}.{name}")
    out = behind(out)
    encoding: str | None = getattr(module, "ENCODING", None)
    if encoding is not None and isinstance(out, io.TextIOWrapper):
        out.reconfigure(encoding=encoding)
    module.write(checkup, gated(out), wanted or Wanted())
    out.flush()
    return checkup.tally
