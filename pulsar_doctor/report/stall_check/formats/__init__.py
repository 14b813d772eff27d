"""The formats of -o, one file each. A file is registered by its presence.

A format's file has `write(checkup, out, wanted)`, and declares whatever is special about it:

    ENCODING     where its definition knows one encoding only
    FOR_PEOPLE   True: people read it, so it is drawn as a whole and names what could not be read
    CARRIES      what it has a place for, of Carried
    require      (): raises MissingExtra where it needs what is not installed
    exit_code    (tally, wanted): exit codes of its own
    failure      (why): what stdout carries where nothing could be checked, with exit code 3

It is imported when it is used: for its --help the command line reads only FORMATS.
"""

from __future__ import annotations

import importlib
import io
import pkgutil
from types import ModuleType
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from pulsar_doctor.checkup.result import Checkup, Tally
    from pulsar_doctor.report.stall_check.wanted import Wanted

# A comparison with an earlier reading; notes on topics, and that the run was stopped; in a watch,
# the verdict of the round itself beside the steady one; only the worst few.
Carried = Literal["after", "notes", "steady", "worst"]

FIRST = ("table", "json", "jsonl", "junit")  # what most people want, the default before all


def _place(name: str) -> tuple[int, str]:
    """Among the choices: those that most want, then by name."""
    return FIRST.index(name) if name in FIRST else len(FIRST), name


FORMATS = tuple(sorted((module.name for module in pkgutil.iter_modules(__path__)), key=_place))


def module_of(name: str) -> ModuleType:
    """The file of one of FORMATS."""
    return importlib.import_module(f"{__name__}.{name}")


def require(name: str) -> None:
    """Raises MissingExtra where the format needs what is not installed."""
    getattr(module_of(name), "require", lambda: None)()


def is_for_people(name: str) -> bool:
    """Whether people read it, and no program."""
    return getattr(module_of(name), "FOR_PEOPLE", False)


def carries(name: str, what: Carried) -> bool:
    """Whether it has a place for this."""
    return what in getattr(module_of(name), "CARRIES", ())


def exit_code(name: str, tally: Tally, wanted: Wanted) -> int:
    """Our exit codes (0, 1, 3), unless the format has some of its own."""
    own = getattr(module_of(name), "exit_code", None)
    if own is not None:
        return int(own(tally, wanted))
    return tally.exit_code(wanted.fail_on, wanted.accept_unknown)


def failure(name: str, why: str) -> str | None:
    """What stdout carries where nothing could be checked; None: nothing, and stderr says why."""
    own = getattr(module_of(name), "failure", None)
    return None if own is None else str(own(why))


def write(name: str, checkup: Checkup, out: TextIO, *, wanted: Wanted | None = None) -> Tally:
    """Writes the checkup in this format, and counts what went by; `name` is one of FORMATS."""
    from pulsar_doctor.report.stall_check.wanted import Wanted
    from pulsar_doctor.wording.gate import behind, gated

    module = module_of(name)
    out = behind(out)
    encoding: str | None = getattr(module, "ENCODING", None)
    if encoding is not None and isinstance(out, io.TextIOWrapper):
        out.reconfigure(encoding=encoding)
    module.write(checkup, gated(out), wanted or Wanted())
    out.flush()
    return checkup.tally
