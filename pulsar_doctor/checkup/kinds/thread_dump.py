"""Thread dumps: HotSpot's, Go's, py-spy's and faulthandler's, alone or within a log."""

from __future__ import annotations

from pulsar_doctor.broker.samples.files import called
from pulsar_doctor.checkup.kinds import Brought
from pulsar_doctor.errors import InputError
from pulsar_doctor.evidence.dumps.thread_dump import CHARACTERS_MOST, ThreadDump, dumps, has_any
from pulsar_doctor.wording.printable import many

WHAT = "thread dumps (jstack, jcmd, goroutines, py-spy, faulthandler)"
CUT = "has a thread dump that is cut off, or too long: there may be more threads"


def is_mine(text: str) -> bool:
    """Whether it has lines as only a dump has."""
    return has_any(text)


def read(text: str, name: str) -> Brought:
    """The dumps in it. Raises InputError where no thread can be read."""
    found = dumps(text)
    if not found:
        raise InputError(f"{called(name)} begins as a thread dump, and holds no thread")
    is_cut = len(text) > CHARACTERS_MOST or not all(each.whole for each in found)
    cut = (f"{called(name)} {CUT}",) if is_cut else ()
    return Brought(name, _words(found), dumps=tuple(found), incomplete=cut)


def _words(found: list[ThreadDump]) -> str:
    threads = many(len(found[-1].threads), "thread")
    if len(found) == 1:
        return f"a thread dump of {found[0].of} with {threads}"
    return f"{len(found)} thread dumps of {found[-1].of}, the last with {threads}"
