"""One dump of the threads of one process, whichever program has printed it.

Two dumps of one process show what has not moved in between: the threads that have the same frames
in both. A JVM reports the age of each thread, so it is known how far two of its dumps are apart;
of other dumps somebody has to say that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pulsar_doctor.evidence.dumps import goroutines, hotspot, python, to_file
from pulsar_doctor.evidence.dumps.answers import Unreadable, documents_in
from pulsar_doctor.evidence.dumps.goroutines import Goroutine
from pulsar_doctor.evidence.dumps.hotspot import Dump
from pulsar_doctor.evidence.dumps.java import JavaThread
from pulsar_doctor.evidence.dumps.python import PythonThread
from pulsar_doctor.evidence.dumps.sittings import sittings
from pulsar_doctor.evidence.process_report import Pool, ProcessKind, ProcessReport, Sitting, method

# What is put in front of each line by `docker compose logs`, by CRI, kubectl and mails.
PREFIX = re.compile(
    r"^(?:[\w.-]{1,80} {0,40}\| ?|\S{20,40} (?:stdout|stderr) [FP] |\[pod/[^\]\n]{1,300}\] |> ?"
    r"|\d{4}-\d\d-\d\dT[\d:.]{8,20}Z )",
    re.MULTILINE,
)
PY_SPY = re.compile(r'\[\s{0,20}\{\s{0,20}"pid"\s{0,20}:')
# One of these is in every dump; to look for them takes no time.
WORDS = (
    "Full thread dump ", "java.lang.Thread.State: ", '"threadDump"', "java.base/java.lang.",
    "goroutine ", "(most recent call first):", " (idle", " (active", '"os_thread_id"',
)  # fmt: skip
CHARACTERS_MOST = 32 << 20
END = re.compile(
    r"\bL:(/[\d.]{7,15}:\d{1,5})\b"
)  # as the Java client logs its side of a connection
WORKER = "java.util.concurrent.ThreadPoolExecutor$Worker.run"
OF_LIBRARIES = re.compile(r"pulsar-|.*netty|OkHttp|HikariPool")  # names of threads
SHARED_LEAST = 0.5  # of the threads of two dumps of one process; some end, others begin


@dataclass(frozen=True, slots=True)
class ThreadDump:
    """The threads of one moment."""

    kind: ProcessKind
    of: str  # `Java`
    threads: frozenset[tuple[object, ...]]  # what tells each thread from all others
    read: Any  # as the function of PROCESS_OF for this kind takes it
    whole: bool = True  # the text has its end, and was within the limits
    # Addresses of connections that the log around it names, as a broker writes them.
    ends: frozenset[str] = frozenset()

    def is_of(self, other: ThreadDump) -> bool:
        """Whether both are of one process."""
        few = min(len(self.threads), len(other.threads))
        shared = len(self.threads & other.threads)
        return self.kind == other.kind and shared >= SHARED_LEAST * few


def dumps(text: str) -> list[ThreadDump]:
    """The dumps in a text, the first one first; none where it has none."""
    ends = frozenset(END.findall(text))
    text = _bare(text)
    readers = (reader for reader, marks in READERS.items() if _has(text, marks))
    return [replace(each, ends=ends) for reader in readers for each in reader(text)]


def has_any(text: str) -> bool:
    """Whether a text may be one with a dump in it."""
    return any(each in text for each in WORDS) and _is_bare(_bare(text))


def _bare(text: str) -> str:
    """With plain ends of lines, and without what other programs put in front of each line."""
    text = text[:CHARACTERS_MOST].replace("\r\n", "\n")
    return text if _is_bare(text) else PREFIX.sub("", text)


def _is_bare(text: str) -> bool:
    return any(_has(text, marks) for marks in READERS.values())


def _has(text: str, marks: Sequence[re.Pattern[str]]) -> bool:
    return any(mark.search(text) for mark in marks)


def process_of(these: Sequence[ThreadDump], apart_seconds: float | None = None) -> ProcessReport:
    """What dumps of one process show, the oldest first. apart_seconds: from each to the next."""
    first, last = these[0], these[-1]
    apart = None if apart_seconds is None else apart_seconds * (len(these) - 1)
    found = ProcessReport(pid=0, name=last.of, kind=last.kind, has_threads=True)
    return PROCESS_OF[last.kind](found, first.read, last.read, apart if len(these) > 1 else None)


def in_order(these: Sequence[ThreadDump]) -> list[ThreadDump]:
    """Dumps of one process, the oldest first, as far as the ages of their threads show that."""
    if these[0].kind != "jvm":
        return list(these)
    return sorted(these, key=lambda each: each.read.seconds_since(these[0].read) or 0.0)


def _hotspot(text: str) -> list[ThreadDump]:
    return [_of_java(each) for each in (*hotspot.dumps(text), *to_file.dumps(text))]


def _of_java(dump: Dump) -> ThreadDump:
    threads = frozenset((each.id, each.name, each.tid) for each in dump.threads)
    return ThreadDump("jvm", "Java", threads, dump, dump.whole)


def _goroutines(text: str) -> list[ThreadDump]:
    return [
        ThreadDump("go", "Go", frozenset((each.id, each.frames[-1:]) for each in one.values()), one)
        for one in goroutines.dumps(text)
    ]


def _python(text: str) -> list[ThreadDump]:
    read = python.dumps(line for line in text.splitlines() if line)
    return [
        ThreadDump("python", "Python", frozenset((each["key"],) for each in one),
                   tuple(map(python.thread, one)), python.is_whole(one, text))
        for one in read
    ]  # fmt: skip


def _py_spy(text: str) -> list[ThreadDump]:
    """Reads `py-spy dump --json`, each process by itself."""
    documents, cut = documents_in(text, PY_SPY)
    processes: dict[tuple[int, int | None], list[dict[str, Any]]] = {}
    for at, document in enumerate(documents):
        try:
            for each in python.checked_threads(document):
                processes.setdefault((at, each.get("pid")), []).append(each)
        except Unreadable:
            cut = True
    return [
        ThreadDump("python", "Python", frozenset((each.get("os_thread_id"),) for each in threads),
                   tuple(map(python.thread, threads)), not cut)
        for threads in processes.values()
    ]  # fmt: skip


def _java_process(
    process: ProcessReport, then: Dump, now: Dump, apart: float | None
) -> ProcessReport:
    seconds = now.seconds_since(then) if now is not then else None
    seconds = apart if seconds is None else seconds
    stayed = now.stayed(then) if seconds else frozenset()
    long, short = (round(seconds or 0.0, 1), True), (0.0, True)
    threads = sittings(now, {}, lambda them: {e: long if e.id in stayed else short for e in them})
    pools, deadlocks = _java_pools(now.threads), now.deadlocks
    return replace(
        process, threads=threads, pools=pools, deadlocks=deadlocks, seconds=seconds or 0.0
    )


def _java_pools(threads: Sequence[JavaThread]) -> tuple[Pool, ...]:
    """Pools of the application in which no thread waits for a task."""
    pools: dict[str, list[JavaThread]] = {}
    for each in threads:
        if WORKER in map(method, each.frames[-3:]) and not OF_LIBRARIES.match(each.name):
            pools.setdefault(each.name.rpartition("-")[0], []).append(each)
    full = (each for each in pools.values() if all(one.line is not None for one in each))
    return tuple(Pool(tuple(one.id for one in each)) for each in full)


def _go_process(
    process: ProcessReport,
    then: dict[int, Goroutine],
    now: dict[int, Goroutine],
    apart: float | None,
) -> ProcessReport:
    threads = goroutines.sittings(then, now, apart or 0.0)
    return replace(process, threads=threads, pools=goroutines.pools_of(now.values()))


def _python_process(
    process: ProcessReport,
    then: Sequence[PythonThread],
    now: Sequence[PythonThread],
    apart: float | None,
) -> ProcessReport:
    before = {each.sitting.id: each.sitting.frames for each in then} if apart else {}
    threads = tuple(_stayed(each.sitting, before, apart) for each in now)
    return replace(process, threads=threads, pools=python.pools_of(now))


def _stayed(
    now: Sitting, before: Mapping[int | None, tuple[str, ...]], apart: float | None
) -> Sitting:
    same = now.state != "active" and before.get(now.id) == now.frames
    return replace(now, seconds=apart, since_look=True) if same else now


READERS: Mapping[Callable[[str], list[ThreadDump]], tuple[re.Pattern[str], ...]] = {
    _hotspot: (hotspot.MARK, to_file.MARK),
    _goroutines: (goroutines.MARK,),
    _python: (python.MARK,),
    _py_spy: (PY_SPY,),
}
PROCESS_OF: Mapping[str, Callable[[ProcessReport, Any, Any, float | None], ProcessReport]] = {
    "jvm": _java_process, "go": _go_process, "python": _python_process,
}  # fmt: skip
