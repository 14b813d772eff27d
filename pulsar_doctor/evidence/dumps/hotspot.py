"""Reads a HotSpot thread dump for the threads that matter to a Pulsar consumer.

Virtual threads are not in such a dump.

Below its frames are the monitors that a thread holds and the object that it waits for. Which locks
of java.util.concurrent it holds is there only if somebody requested that (`Thread.print -l`, which
walks the whole heap); the agent reads their owners instead.

The process may have made the dump up. So it is read once, line by line, by what is at fixed
places in a line: the time that it takes grows with its size only. Whatever is beyond the limits is
left out, and the dump is marked so.

Source: HotSpot's JavaThread::print_on, javaVFrame::print_lock_info_on and
DeadlockCycle::print_on_with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pulsar_doctor.evidence.dumps.java import Awaited, JavaThread
from pulsar_doctor.wire.redaction import redact_version

DEADLOCK, STACKS = "Found one Java-level deadlock:", "Java stack information"
STATE, FRAME = "java.lang.Thread.State: ", "at "
WAITS = ("waiting to lock ", "waiting to re-lock in wait() ", "waiting on ", "parking to wait for ")
REENTERS = WAITS[:2]  # only these wait until a monitor is free
INITIALIZES = "the Class initialization monitor for "
LOCKED = "locked "
HIDDEN = re.compile(r"/0x[0-9a-f]+(?=\.)")
CLASS_CHARACTERS = 200
LINES, THREADS, FRAMES, DEADLOCKS = 600_000, 20_000, 500_000, 1000
LINE_CHARACTERS = 2000
DIGITS = 18  # of a thread's number
BEGINS = re.compile(r"(?:(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\n)?Full thread dump ")
MARK = re.compile(
    r'^(?:Full thread dump |"[^"\n]{0,500}" #\d|   java\.lang\.Thread\.State: )', re.M
)
ENDS = re.compile(r"^JNI global ref", re.MULTILINE)  # what HotSpot prints behind all threads
AGES = re.compile(r"\b(cpu|elapsed|tid)=([\w.]{1,30}?)(?:m?s)?(?=\s|$)")
NUMBER, TIMES = re.compile(r"\d{1,15}(?:\.\d{1,6})?$"), ("cpu", "elapsed")
SYNCHRONIZERS = "   Locked ownable synchronizers:"
# A thread that waits for a monitor wakes once a second to see whether it is free (up to Java 23).
RESTS_MS, RESTS_MS_EACH_SECOND = 0.2, 0.05


@dataclass(frozen=True, slots=True)
class Dump:
    """Every thread at one moment."""

    threads: tuple[JavaThread, ...]
    deadlocks: tuple[tuple[str, ...], ...]  # that the JVM itself found: names of threads
    whole: bool = True  # it was within the limits

    def stayed(self, earlier: Dump) -> frozenset[int]:
        """Ids of threads that have the same frames in an earlier dump, and have not run since then
        as far as the JVM reports that."""
        then = {each.id: each for each in earlier.threads}
        return frozenset(
            each.id
            for each in self.threads
            if (before := then.get(each.id)) is not None
            and before.frames == each.frames
            and not _has_run(before, each)
        )

    def seconds_since(self, earlier: Dump) -> float | None:
        """From an earlier dump to this one, by the age of a thread in both; None: not reported."""
        then = {(each.id, each.name): each.elapsed for each in earlier.threads}
        ages = ((then.get((each.id, each.name)), each.elapsed) for each in self.threads)
        found = (now - before for before, now in ages if before is not None and now is not None)
        return next(found, None)


def _has_run(before: JavaThread, now: JavaThread) -> bool:
    if before.cpu_ms is None or now.cpu_ms is None or before.elapsed is None or now.elapsed is None:
        return False
    rests_ms = RESTS_MS + RESTS_MS_EACH_SECOND * abs(now.elapsed - before.elapsed)
    return abs(now.cpu_ms - before.cpu_ms) > rests_ms


def dumps(text: str) -> list[Dump]:
    """Each dump of a text that may hold other lines, such as a log into which a JVM has printed.

    One that the text does not show up to its end is not whole.
    """
    begins = [match.start() for match in BEGINS.finditer(text)] or [0]
    parts = [text[at:end] for at, end in zip(begins, [*begins[1:], len(text)], strict=True)]
    return [
        replace(found, whole=found.whole and bool(ENDS.search(part)))
        for part in parts
        if (found := dump(part)).threads
    ]


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
    """What was read up to now. Changes in place."""

    threads: list[JavaThread] = field(default_factory=list)
    cycles: list[dict[str, None]] = field(default_factory=list)
    # of the thread that is being read
    head: tuple[str, int, int] | None = None
    ages: tuple[float | None, float | None, str] = (None, None, "")
    state: str = ""
    frames: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    awaited: Awaited | None = None
    known: dict[str, str] = field(default_factory=dict)
    lines: int = 0
    kept: int = 0
    in_cycle: bool = False
    in_locks: bool = False  # of the last thread
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
            self.cycles[-1][redact_version(line[1:-2])] = None

    def _take_of_thread(self, line: str) -> None:
        if not line.strip():
            self._end_thread()
        elif line.startswith('"'):
            self._end_thread()
            self.head, self.ages, self.in_locks = _head(line), _ages(line), False
        elif line.startswith(SYNCHRONIZERS):
            self.in_locks = bool(self.threads)
        elif self.in_locks and line.startswith("\t- <") and (address := _address(line[3:])):
            last = self.threads[-1]
            self.threads[-1] = replace(last, held=(*last.held, address))
            self.kept += 1
        elif self.head is not None:
            line = line.strip()
            if line.startswith(STATE):
                self.state = self.state or line.removeprefix(STATE).partition(" ")[0]
            elif line.startswith(FRAME) and (frame := _frame(line.removeprefix(FRAME))):
                self.frames.append(self.known.setdefault(frame, frame))
                self.kept += 1
            elif line.startswith("- "):
                self._take_lock(line[2:])

    def _take_lock(self, line: str) -> None:
        how = next((each for each in WAITS if line.startswith(each)), None)
        if how is not None and self.awaited is None:
            self.awaited = _awaited(how, line.removeprefix(how).strip())
        elif line.startswith(LOCKED) and (address := _address(line.removeprefix(LOCKED))):
            self.held.append(address)
            self.kept += 1

    def _end_thread(self) -> None:
        if self.head is not None:
            frames, held = tuple(self.frames), tuple(self.held)
            self.threads.append(
                JavaThread(*self.head, self.state, frames, held, self.awaited, *self.ages)
            )
        self.head, self.state, self.frames, self.held, self.awaited = None, "", [], [], None

    def dump(self) -> Dump:
        """The whole dump. A deadlock that is not complete counts as none."""
        self._end_thread()
        cycles = self.cycles[: len(self.cycles) - self.in_cycle]
        return Dump(tuple(self.threads), tuple(map(tuple, cycles)), not self.is_cut)


def _head(line: str) -> tuple[str, int, int] | None:
    """A thread's name, Java's number of it and the kernel's; a name may hold what follows it, and
    what resembles a credential, which is redacted."""
    name, _, rest = line[1:].rpartition('" #')
    words = rest.split()
    nid = next((word[4:] for word in words if word.startswith("nid=")), "")
    if not words or not re.fullmatch(rf"[0-9]{{1,{DIGITS}}}", words[0]):
        return None
    if not re.fullmatch(rf"0x[0-9a-f]{{1,{DIGITS}}}|[0-9]{{1,{DIGITS}}}", nid):
        return None
    return redact_version(name), int(words[0]), int(nid, 16) if nid.startswith("0x") else int(nid)


def _ages(line: str) -> tuple[float | None, float | None, str]:
    """Milliseconds of a processor, seconds since it began, and where it is in memory:
    `cpu=1.20ms elapsed=41.02s tid=0x00007f`."""
    found = dict(AGES.findall(line.rpartition('" #')[2]))
    cpu, elapsed = (
        float(found[each]) if NUMBER.match(found.get(each, "")) else None for each in TIMES
    )
    return cpu, elapsed, found.get("tid", "")


def _frame(text: str) -> str | None:
    """`loader//module@version/a.B.c(module@version/B.java:12)` -> `a.B.c (B.java:12)`.

    `a.B$$Lambda/0x00007f8a1c3e5a18.run` is a method of a hidden class.
    """
    head, bracket, at = text.partition("(")
    name = HIDDEN.sub("", head).rpartition("/")[2]
    if not (bracket and at.endswith(")") and name):
        return None
    module, slash, place = at[:-1].partition("/")
    return f"{name} ({place if slash and '(' not in module else at[:-1]})"


def _awaited(how: str, text: str) -> Awaited:
    """`<0x000000069ec1b668> (a java.lang.Object)`; the address may be missing."""
    if text.startswith(INITIALIZES):
        name = text.removeprefix(INITIALIZES)[:CLASS_CHARACTERS]
        return Awaited(None, name, initializes=True)
    kind = text.partition("(a ")[2].rpartition(")")[0] or "java.lang.Object"
    return Awaited(_address(text), kind[:CLASS_CHARACTERS], how in REENTERS, how == WAITS[3])


def _address(text: str) -> str | None:
    address, end, _ = text.removeprefix("<").partition(">")
    return address if end and re.fullmatch(rf"0x[0-9a-f]{{1,{DIGITS}}}", address) else None
