"""One thread of a JVM's dump: its role for a Pulsar consumer, and what it waits for.

A thread *listens* where the client calls its listener, *receives* where it is in one of the
client's receive calls, and *acknowledges* where it is in one of its acknowledge calls. A thread of
the application is one with a frame that is neither the JDK's nor Netty's nor the client's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pulsar_doctor.evidence.dumps.frames import call_from, innermost_line, is_librarys
from pulsar_doctor.evidence.process_report import Role, Sitting, method

LISTENS = re.compile(
    r"callMessageListener|lambda\$(?:callMessageListener|trigger|schedule|execute)"
)
RECEIVES = re.compile(r"(?:internalReceive|receive|batchReceive|internalBatchReceive|fetch\w+)$")
ACKNOWLEDGES = re.compile(r"(?:acknowledge|addAcknowledg|addIndividual|addCumulative|doAck)\w*$")
RESTS = re.compile(r"(?:jdk\.internal\.misc|sun\.misc)\.Unsafe\.park|java\.lang\.Object\.wait")
NATIVE_SLEEP = re.compile(r"^java\.lang\.Thread\.sleep(?:Nanos)?0$")
FRAMES_KEPT = 12


@dataclass(frozen=True, slots=True)
class Awaited:
    """The object that a thread waits for."""

    address: str | None  # in the heap, if the dump has it
    of: str
    enters: bool = False  # it waits to enter this object's monitor, which another thread holds
    parks: bool = False  # as all waits of java.util.concurrent are
    initializes: bool = False  # it waits until another thread has initialized this class


@dataclass(frozen=True, slots=True)
class JavaThread:
    """One thread of a dump."""

    name: str
    id: int
    nid: int  # of the kernel, in the JVM's namespace
    state: str
    frames: tuple[str, ...]  # innermost first
    # addresses of monitors that it has entered, also while it waits on one; and of locks that it
    # holds, where the dump lists them
    held: tuple[str, ...] = ()
    awaited: Awaited | None = None
    cpu_ms: float | None = None  # of a processor, used up to now; None: Java 8 does not report it
    elapsed: float | None = None  # seconds since it began; None: as above
    tid: str = ""  # where it is in memory, which differs between processes

    @property
    def role(self) -> Role | None:
        """What it does for a consumer; None for threads that are nobody's we know."""
        calls = [call for each in self.frames if (call := _client_call(method(each)))]
        if any(map(LISTENS.match, calls)):
            return "listens" if self.line is not None else None
        if any(map(ACKNOWLEDGES.match, calls)):
            return "acknowledges"
        if any(map(RECEIVES.match, calls)):
            return "receives"
        if self.line is not None:
            return "application"
        return "client" if any(".pulsar.client." in f".{method(e)}" for e in self.frames) else None

    @property
    def joins(self) -> bool:
        """Whether it waits for the end of another thread."""
        calls = (call for each in self.frames if not RESTS.match(call := method(each)))
        return next(calls, "") == "java.lang.Thread.join"

    @property
    def line(self) -> str | None:
        """The innermost frame of the application; None where there is none."""
        return innermost_line(self.frames)

    @property
    def inside(self) -> tuple[str, ...]:
        """The calls in which it is below that line: the innermost, and the library's own."""
        line = self.line
        call, top = call_from(line, self.frames), self.frames[0] if self.frames else None
        if call is None or top is None or call == top:
            return () if top is None or top == line else (_public(top),)
        if RESTS.match(top):
            return (method(call),)
        return (_public(top), method(call)) if is_librarys(call) else (_public(top),)

    def sitting(self, role: Role, seconds: float | None = None) -> Sitting:
        """Where it sits. seconds: for how long, at least."""
        top = self.frames[0] if self.frames else None
        kept = self.frames[:FRAMES_KEPT]
        return Sitting(
            self.name, role, self.state, top, self.line, kept, self.id, seconds, self.inside
        )


def _public(frame: str) -> str:
    """`java.lang.Thread.sleepNanos0`, as Java 21 and later have it, is the application's sleep."""
    return NATIVE_SLEEP.sub("java.lang.Thread.sleep", method(frame))


def _client_call(called: str) -> str | None:
    """The method's own name, where it is one of a consumer's in the client, shaded or not."""
    owner, _, call = called.rpartition(".")
    package, _, kind = owner.rpartition(".")
    is_consumers = "Consumer" in kind or kind.endswith("AcknowledgmentsGroupingTracker")
    is_clients = package.endswith("pulsar.client.impl") and re.fullmatch(r"\w+", kind)
    return call if is_consumers and is_clients else None
