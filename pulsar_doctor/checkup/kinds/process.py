"""What a process prints: thread dumps, alone or within a log, and logs of clients and brokers."""

from __future__ import annotations

import re

from pulsar_doctor.broker.samples.files import called
from pulsar_doctor.checkup.kinds import Brought, TextKind
from pulsar_doctor.diagnosis.known.log_lines import known_lines
from pulsar_doctor.errors import InputError
from pulsar_doctor.evidence.dumps.thread_dump import CHARACTERS_MOST, ThreadDump, dumps, has_any
from pulsar_doctor.wording.printable import many

CUT = "has a thread dump that is cut off, or too long: there may be more threads"
LINE = re.compile(  # of Java, of C++ and Python, of Go
    r"\b(?:TRACE|DEBUG|INFO|WARN|ERROR)[\]:]{0,1}\s{1,3}"
    r"(?:org\.apache\.pulsar\.|o\.a\.p\.|\[[0-9]{1,20}\] \w{1,60}:[0-9]{1,6} \|)"
    r"|\blevel=(?:debug|info|warning|error) msg=\""
)


def _dumps(text: str, name: str) -> Brought:
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


def _log(text: str, name: str) -> Brought:
    known = known_lines(text)
    lines = many(sum(each.count for each in known), "known line")
    return Brought(name, f"a log of {many(text.count(chr(10)) or 1, 'line')}, {lines}", known=known)


KINDS = (
    TextKind("logs of clients and brokers", LINE.search, _log),
    TextKind("thread dumps (jstack, jcmd, goroutines, py-spy, faulthandler)", has_any, _dumps),
)
