"""Examines a process from outside, and from inside on request; twice, to see what moves.

From outside is what /proc and the kernel's socket table show: nothing is written, signalled or read
out of the process. What cannot be had is one sentence, and the rest is reported all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pulsar_doctor.evidence.dumps import goroutines
from pulsar_doctor.evidence.dumps.goroutines import Goroutine
from pulsar_doctor.evidence.dumps.hotspot import Dump, dump
from pulsar_doctor.evidence.dumps.java import JavaThread
from pulsar_doctor.evidence.dumps.python import PythonThread, pools_of
from pulsar_doctor.evidence.dumps.sittings import sittings
from pulsar_doctor.evidence.process_report import Inspection, ProcessReport, Sitting
from pulsar_doctor.parts.examine import pprof
from pulsar_doctor.parts.examine.child import CannotAttach
from pulsar_doctor.parts.examine.identity import Process, process
from pulsar_doctor.parts.examine.jvm import agent
from pulsar_doctor.parts.examine.jvm.attach import Jvm
from pulsar_doctor.parts.examine.py_spy import threads_of
from pulsar_doctor.parts.examine.resting import kernel_threads, resting_seconds
from pulsar_doctor.parts.examine.sockets import connections

T = TypeVar("T")

NO_RIGHT = "its connections may not be seen from here; run this as its user, or as root"
DUMP_IS_CUT = "its thread dump was read in part only, for its size: there may be more threads"
IS = {"native-image": ", a native image of GraalVM without a JVM,"}
THREADS = (
    "where its threads are: gdb -p PID -batch -ex 'thread apply all bt', which stops it for that "
    "moment"
)
WILL = {  # what reading inside a process does to it
    "jvm": "loads an agent of 19 KB into JVM {pid}: it reads fields of the Pulsar client for half "
    "a second of processor time at most, and takes two thread dumps, each of which stops the JVM "
    "for some milliseconds. The JVM keeps a thread 'Attach Listener' and its socket in /tmp, as "
    "after any jcmd; from Java 21 on it warns on its stderr that an agent was loaded.",
    "python": "reads the stacks of process {pid} with py-spy, without stopping it.",
}
HINTS = {
    "jvm": "its clients' own numbers and where its threads are: --attach reads them",
    "native-image": f"{THREADS}; kill -QUIT prints them if it was built with "
    "--enable-monitoring=threaddump, and ends it if not",
    "python": "where its threads are: --attach reads it by py-spy",
    "go": "where its goroutines are, which no debugger shows: --goroutines http://HOST:PORT reads "
    "them from its pprof page, if it has one; kill -QUIT prints them to its stderr, and ends it",
    "other": THREADS,
}


def will_do(of: Process) -> str:
    """What reading inside this process does to it; empty where nobody can."""
    return WILL.get(of.kind, "").format(pid=of.pid)


@dataclass(slots=True)
class Looking:
    """One process, sampled from now on."""

    process: Process
    inside: bool  # it may be queried itself
    _jvm: Jvm | None = None
    _dumps: list[tuple[float, Dump]] = field(default_factory=list)
    _inspections: list[tuple[float, Inspection]] = field(default_factory=list)
    _python: tuple[PythonThread, ...] = ()
    goroutines: str | None = None  # the URL or file of a dump
    _dumped: list[tuple[float, dict[int, Goroutine]]] = field(default_factory=list)
    _unknowns: list[str] = field(default_factory=list)

    @classmethod
    def at(cls, pid: int, *, inside: bool, goroutines: str | None = None) -> Looking:
        """The first look. InputError where there is no such process."""
        looking = cls(process(pid), inside, goroutines=goroutines)
        looking._sample()
        return looking

    def report(self) -> ProcessReport:
        """What is known up to now."""
        seen = connections(self.process.pid)
        report = ProcessReport(
            pid=self.process.pid,
            name=self.process.name,
            kind=self.process.kind,
            connections=None if seen is None else tuple(seen),
            inspections=tuple(look for _, look in self._inspections),
            unknowns=(*(() if seen is not None else (NO_RIGHT,)), *self._unknowns),
        )
        if self._inspections:
            last = self._inspections[-1][
                1
            ]  # an earlier look may have been cut short, on a busy machine
            report = replace(
                report,
                runtime=last.runtime,
                pools=last.pools,
                seconds=self._between(self._inspections),
                unknowns=(*report.unknowns, *last.unknowns),
            )
        if self._dumped:
            return self._with_goroutines(report)
        if not self.inside:
            hint = HINTS[self.process.kind].replace("PID", str(self.process.pid))
            return replace(report, unknowns=(*report.unknowns, hint))
        return self._with_threads(report)

    def again(self) -> ProcessReport:
        """Inspects a second time; returns the whole report."""
        self._sample()
        return self.report()

    def _sample(self) -> None:
        if self.goroutines is not None:
            source = self.goroutines
            self._try(lambda: self._dumped.append(_now(pprof.read(source))))
            return
        if not self.inside:
            return
        kind = self.process.kind
        if kind == "python":
            self._try(self._read_python)
        elif kind == "jvm":
            self._try(self._look_into_jvm)
        else:
            hint = HINTS[kind].replace("PID", str(self.process.pid))
            who = f"process {self.process.pid} ({self.process.name}){IS.get(kind, '')}"
            self._say(f"{who} cannot be asked; {hint}")

    def _read_python(self) -> None:
        self._python = threads_of(self.process)

    def _look_into_jvm(self) -> None:
        if self._jvm is None:
            self._jvm = Jvm(self.process)
        jvm = self._jvm
        self._try(lambda: self._dumps.append(_now(dump(jvm.ask("threaddump")))))
        self._try(lambda: self._inspections.append(_now(agent.consumers(jvm))))

    def _try(self, look: Callable[[], None]) -> None:
        try:
            look()
        except CannotAttach as error:
            self._say(str(error))

    def _say(self, sentence: str) -> None:
        if sentence not in self._unknowns:
            self._unknowns.append(sentence)

    @staticmethod
    def _between(moments: list[tuple[float, Inspection]] | list[tuple[float, Dump]]) -> float:
        return round(moments[-1][0] - moments[0][0], 1)

    def _with_threads(self, report: ProcessReport) -> ProcessReport:
        if self._dumps:
            last = self._dumps[-1][1]
            return replace(
                report,
                threads=self._java(),
                has_threads=True,
                deadlocks=last.deadlocks,
                unknowns=(*report.unknowns, *(() if last.whole else (DUMP_IS_CUT,))),
            )
        if self._python:
            threads = tuple(each.sitting for each in self._python)
            return replace(report, threads=threads, has_threads=True, pools=pools_of(self._python))
        return report

    def _with_goroutines(self, report: ProcessReport) -> ProcessReport:
        (first, then), (last, now) = self._dumped[0], self._dumped[-1]
        moved = round(last - first, 1) if "://" in (self.goroutines or "") else 0.0
        threads = goroutines.sittings(then, now, moved)
        pools = goroutines.pools_of(now.values())
        return replace(report, threads=threads, has_threads=True, pools=pools)

    def _java(self) -> tuple[Sitting, ...]:
        """Where its threads are now, for how long, at least, and for whom they wait."""
        by_thread = {each.id: each for _, look in self._inspections[-1:] for each in look.threads}
        return sittings(self._dumps[-1][1], by_thread, self._times)

    def _times(self, waiting: Iterable[JavaThread]) -> Mapping[JavaThread, tuple[float, bool]]:
        """For how long each of these is there, and whether only two inspections show it."""
        (first, then), (last, now) = self._dumps[0], self._dumps[-1]
        outer = kernel_threads(self.process)
        ids = {each: outer.get(each.nid) for each in waiting}
        rests = resting_seconds(self.process.pid, [tid for tid in ids.values() if tid is not None])
        stayed = now.stayed(then) if len(self._dumps) > 1 else frozenset()
        same, since, times = self._same_wait() & stayed, time.monotonic() - last, {}
        for each, tid in ids.items():
            rested = rests.get(tid or 0)
            looked = self._between(self._inspections) if each.id in same else 0.0
            if rested is None and each.id in stayed:  # nobody tells whether it ran: by its frames
                looked = max(looked, round(last - first, 1))
            if rested is None or rested <= since:  # it may have left the place since its dump
                rested = 0.0
            times[each] = max(rested, looked), looked > rested
        return times

    def _same_wait(self) -> frozenset[int]:
        """Java's numbers of threads that are in the same wait in both inspections, by the JVM's
        counts.

        The kernel does not show that: up to Java 23 the first thread that waits for a monitor
        wakes once a second to see whether it is free.
        """
        if len(self._inspections) < 2:
            return frozenset()
        then, now = (set(look.threads) for _, look in (self._inspections[0], self._inspections[-1]))
        return frozenset(each.id for each in then & now if None not in (each.blocked, each.waited))


def _now(value: T) -> tuple[float, T]:
    return time.monotonic(), value
