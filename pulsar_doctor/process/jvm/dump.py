"""Reads a HotSpot thread dump: what each thread that matters to a Pulsar consumer is doing.

A thread *listens* where the client calls its listener, *receives* where it stands in one of the
client's receive calls, and *acknowledges* likewise. A thread of the application is one with a frame
that is neither the JDK's nor Netty's nor the client's. Virtual threads are not in such a dump.

The process may have made the dump up. So it is read once, line by line, by what stands at fixed
places in a line: the time that it takes grows with its size only. Whatever is beyond the limits is
left out, and the dump says so.

Source: HotSpot's JavaThread::print_on, javaVFrame::print_lock_info_on and
DeadlockCycle::print_on_with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pulsar_doctor.process.told import Role, Sitting, method

DEADLOCK, STACKS = "Found one Java-level deadlock:", "Java stack information"
STATE, FRAME = "java.lang.Thread.State: ", "at "
CLIENT_CLASS = re.compile(r"\w*(?:Consumer\w*|AcknowledgmentsGroupingTracker)")
LISTENS = re.compile(
    r"callMessageListener|lambda\$(?:callMessageListener|trigger|schedule|execute)"
)
RECEIVES = re.compile(r"(?:internalReceive|receive|batchReceive|internalBatchReceive|fetch\w+)$")
ACKNOWLEDGES = re.compile(r"(?:acknowledge|addAcknowledg|addIndividual|addCumulative|doAck)\w*$")
PLATFORM = re.compile(
    r"(?:java|javax|jdk|sun|com\.sun|kotlin|scala|org\.slf4j|org\.apache\.logging|ch\.qos\.logback"
    r"|io\.opentelemetry)\.|.*\bnetty\.|.*\bpulsar\.(?:client|common|shade|functions)\.|pulsardoctor\."
)
FRAMES_KEPT = 12
LINES, THREADS, FRAMES, DEADLOCKS = 600_000, 20_000, 500_000, 1000
LINE_CHARACTERS = 2000
DIGITS = 18  # of a thread's number


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
    """All threads of one moment, and the deadlocks that the JVM itself found: names of threads.

    whole: whether it was within the limits.
    """

    threads: tuple[JavaThread, ...]
    deadlocks: tuple[tuple[str, ...], ...]
    whole: bool = True

    def stayed(self, earlier: Dump) -> frozenset[int]:
        """Ids of threads that sit where they sat in an earlier dump, as far as frames tell."""
        then = {each.id: each.frames for each in earlier.threads}
        return frozenset(each.id for each in self.threads if then.get(each.id) == each.frames)


def dump(text: str) -> Dump:
    """A dump from the JVM's own text."""
    reading = _Reading()
    for line in _lines(text):
        if not reading.takes(line):
            reading.is_cut = True
            break
    return reading.dump()


def _lines(text: str) -> Iterator[str]:
    """One after the other, so that there is never a list of all."""
    at = 0
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        yield text[at : min(end, at + LINE_CHARACTERS)]
        at = end + 1


@dataclass(slots=True)
class _Reading:
    """What was read up to now. head: of the thread whose lines come now; it changes in place."""

    threads: list[JavaThread] = field(default_factory=list)
    cycles: list[dict[str, None]] = field(default_factory=list)
    head: tuple[str, int, int] | None = None
    state: str = ""
    frames: list[str] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)
    lines: int = 0
    kept: int = 0
    in_cycle: bool = False
    is_cut: bool = False

    def takes(self, line: str) -> bool:
        """Reads one line; whether there is room for another."""
        self.lines += 1
        if len(line) == LINE_CHARACTERS:
            self.is_cut = True
        elif line.startswith(DEADLOCK):
            self._end_thread()
            self.cycles.append({})
            self.in_cycle = True
        elif self.cycles:  # what follows the deadlocks repeats stacks
            self._take_of_cycle(line)
        else:
            self._take_of_thread(line)
        return not (
            self.lines >= LINES or self.kept >= FRAMES or len(self.threads) >= THREADS
            or len(self.cycles) >= DEADLOCKS
        )  # fmt: skip

    def _take_of_cycle(self, line: str) -> None:
        if line.startswith(STACKS):
            self.in_cycle = False
        elif self.in_cycle and line.startswith('"') and line.endswith('":'):
            self.cycles[-1][line[1:-2]] = None

    def _take_of_thread(self, line: str) -> None:
        if not line.strip():
            self._end_thread()
        elif line.startswith('"'):
            self._end_thread()
            self.head = _head(line)
        elif self.head is not None:
            line = line.strip()
            if line.startswith(STATE):
                self.state = self.state or line.removeprefix(STATE).partition(" ")[0]
            elif line.startswith(FRAME) and (frame := _frame(line.removeprefix(FRAME))):
                self.frames.append(self.known.setdefault(frame, frame))
                self.kept += 1

    def _end_thread(self) -> None:
        if self.head is not None:
            self.threads.append(JavaThread(*self.head, self.state, tuple(self.frames)))
        self.head, self.state, self.frames = None, "", []

    def dump(self) -> Dump:
        """All of it. A deadlock that is not told to its end is none."""
        self._end_thread()
        cycles = self.cycles[: len(self.cycles) - self.in_cycle]
        return Dump(tuple(self.threads), tuple(map(tuple, cycles)), not self.is_cut)


def _head(line: str) -> tuple[str, int, int] | None:
    """A thread's name, Java's number of it and the kernel's; a name may hold what follows it."""
    name, _, rest = line[1:].rpartition('" #')
    words = rest.split()
    nid = next((word[4:] for word in words if word.startswith("nid=")), "")
    if not words or not re.fullmatch(rf"[0-9]{{1,{DIGITS}}}", words[0]):
        return None
    if not re.fullmatch(rf"0x[0-9a-f]{{1,{DIGITS}}}|[0-9]{{1,{DIGITS}}}", nid):
        return None
    return name, int(words[0]), int(nid, 16) if nid.startswith("0x") else int(nid)


def _frame(text: str) -> str | None:
    """`loader//module@version/a.B.c(module@version/B.java:12)` -> `a.B.c (B.java:12)`."""
    head, bracket, at = text.partition("(")
    name = head.rpartition("/")[2]
    if not (bracket and at.endswith(")") and name):
        return None
    module, slash, place = at[:-1].partition("/")
    return f"{name} ({place if slash and '(' not in module else at[:-1]})"


def _client_call(called: str) -> str | None:
    """The method's own name, where it is one of a consumer's in the client, shaded or not."""
    owner, _, call = called.rpartition(".")
    package, _, kind = owner.rpartition(".")
    is_consumers = "Consumer" in kind or kind.endswith("AcknowledgmentsGroupingTracker")
    is_clients = package.endswith("pulsar.client.impl") and re.fullmatch(r"\w+", kind)
    return call if is_consumers and is_clients else None
