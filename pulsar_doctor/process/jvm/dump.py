"""Reads a HotSpot thread dump: what each thread that matters to a Pulsar consumer is doing.

A thread *listens* where the client calls its listener, *receives* where it stands in one of the
client's receive calls, and *acknowledges* likewise. A thread of the application is one with a frame
that is neither the JDK's nor Netty's nor the client's. Virtual threads are not in such a dump.

Source: HotSpot's JavaThread::print_on, javaVFrame::print_lock_info_on and
DeadlockCycle::print_on_with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pulsar_doctor.process.told import Role, Sitting, method

HEAD = re.compile(r'"(?P<name>.*)" #(?P<id>\d+) .*?\bnid=(?P<nid>0x[0-9a-f]+|\d+) ')
STATE = re.compile(r"\s+java\.lang\.Thread\.State: (\S+)(?: \((.*)\))?")
FRAME = re.compile(
    r"\s+at (?:\S+//?)?(?P<method>[\w.$/<>]+)\((?:[\w.]+@[^/]*/|[^/()]*/)?(?P<at>.*)\)$"
)
CYCLE = re.compile(r"Found one Java-level deadlock:(.*?)(?=^Java stack information)", re.S | re.M)
CLIENT = r"pulsar\.client\.impl\.\w*(?:Consumer\w*|AcknowledgmentsGroupingTracker)\."
LISTENS = re.compile(rf"{CLIENT}(?:callMessageListener|lambda\$callMessageListener)")
LISTENED = re.compile(rf"{CLIENT}(?:lambda\$(?:trigger|schedule|execute)\w*)")
RECEIVES = re.compile(
    rf"{CLIENT}(?:internalReceive|receive|batchReceive|internalBatchReceive|fetch\w+)$"
)
ACKNOWLEDGES = re.compile(
    rf"{CLIENT}(?:acknowledge|addAcknowledg|addIndividual|addCumulative|doAck)\w*$"
)
PLATFORM = re.compile(
    r"(?:java|javax|jdk|sun|com\.sun|kotlin|scala|org\.slf4j|org\.apache\.logging|ch\.qos\.logback"
    r"|io\.opentelemetry)\.|.*\bnetty\.|.*\bpulsar\.(?:client|common|shade|functions)\.|pulsardoctor\."
)
FRAMES_KEPT = 12


@dataclass(frozen=True, slots=True)
class JavaThread:
    """One thread of a dump. frames: innermost first. nid: of the kernel, in the JVM's namespace."""

    name: str
    id: int
    nid: int
    state: str
    frames: tuple[str, ...]

    @property
    def role(self) -> Role | None:
        """What it does for a consumer; None for threads that are nobody's we know."""
        methods = [method(frame) for frame in self.frames]
        if any(LISTENS.search(each) or LISTENED.search(each) for each in methods):
            return "listens" if self.line is not None else None
        if any(ACKNOWLEDGES.search(each) for each in methods):
            return "acknowledges"
        if any(RECEIVES.search(each) for each in methods):
            return "receives"
        if self.line is not None:
            return "application"
        return "client" if any(".pulsar.client." in f".{each}" for each in methods) else None

    @property
    def line(self) -> str | None:
        """The innermost frame of the application; None where there is none."""
        return next((each for each in self.frames if not PLATFORM.match(each)), None)

    def sitting(self, role: Role, seconds: float | None = None) -> Sitting:
        """Where it sits. seconds: for how long, at least."""
        top = self.frames[0] if self.frames else None
        kept = self.frames[:FRAMES_KEPT]
        return Sitting(self.name, role, self.state, top, self.line, kept, self.id, seconds)


@dataclass(frozen=True, slots=True)
class Dump:
    """All threads of one moment, and the deadlocks that the JVM itself found: names of threads."""

    threads: tuple[JavaThread, ...]
    deadlocks: tuple[tuple[str, ...], ...]

    def stayed(self, earlier: Dump) -> frozenset[int]:
        """Ids of threads that sit where they sat in an earlier dump, as far as frames tell."""
        then = {each.id: each.frames for each in earlier.threads}
        return frozenset(each.id for each in self.threads if then.get(each.id) == each.frames)


def dump(text: str) -> Dump:
    """A dump from the JVM's own text."""
    return Dump(tuple(_threads(text)), tuple(_cycles(text)))


def _threads(text: str) -> Iterator[JavaThread]:
    # What follows the deadlocks repeats stacks.
    for block in text.partition("\nFound one Java-level deadlock")[0].split("\n\n"):
        lines = block.strip("\n").splitlines()
        head = next((m for line in lines[:1] if (m := HEAD.match(line))), None)
        if head is None:
            continue
        state = next((m[1] for line in lines if (m := STATE.match(line))), "")
        frames = tuple(
            f"{m['method'].rpartition('/')[2]} ({m['at']})"
            for line in lines
            if (m := FRAME.match(line))
        )
        yield JavaThread(head["name"], int(head["id"]), int(head["nid"], 0), state, frames)


def _cycles(text: str) -> Iterator[tuple[str, ...]]:
    for found in CYCLE.finditer(text):
        names = re.findall(r'^"(.*)":$', found[1], re.M)
        yield tuple(dict.fromkeys(names))
