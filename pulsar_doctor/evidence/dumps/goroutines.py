"""Where the goroutines of a Go program are, by a dump that it makes.

No debugger shows them: the threads of the process are the scheduler's. A program that imports
net/http/pprof serves a dump at /debug/pprof/goroutine?debug=2, which stops it for milliseconds.
SIGQUIT prints one to stderr and ends the program. Who holds a mutex is in none of them.

For how long a goroutine waits is given in whole minutes, counted from the first garbage collection
after it began. What is shorter is known by two dumps with the same frames.

Sources: runtime/traceback.go (goroutineheader), runtime/mgcmark.go (waitsince), net/http/pprof.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pulsar_doctor.evidence.process_report import Pool, Role, Sitting, method

FRAMES_KEPT = 12
HEAD = re.compile(
    r"goroutine (\d{1,18}) [^\[]{0,200}\[([^],]{1,100})"
    r"(?:, (\d{1,9}) minutes)?(?:,[^]]{0,200})?\]:$"
)
MARK = re.compile(f"^{HEAD.pattern}", re.MULTILINE)
CLIENT = "github.com/apache/pulsar-client-go/pulsar."
CALLS: dict[Role, re.Pattern[str]] = {
    "acknowledges": re.compile(r"\w+\.(?:Ack|Nack)\w*$"),
    "receives": re.compile(r"\w+\.(?:Receive|Next)$"),
}
WAITS_FOR_WORK = frozenset({"chan receive", "select", "IO wait"})
STANDARD = re.compile(  # Go's own packages; a module of one word may have such a name, too
    r"(?:archive|bufio|bytes|cmp|compress|container|context|crypto|database|debug|embed|encoding"
    r"|errors|expvar|flag|fmt|go|hash|html|image|index|internal|io|iter|log|maps|math|mime|net|os"
    r"|path|plugin|reflect|regexp|runtime|slices|sort|strconv|strings|structs|sync|syscall|testing"
    r"|text|time|unicode|unique|unsafe|vendor|weak)[/.]"
)


@dataclass(frozen=True, slots=True)
class Goroutine:
    """One of a dump. Frames are innermost first: `main.charge (main.go:20)`."""

    id: int
    state: str
    minutes: int
    frames: tuple[str, ...]
    # Which of these are the application's own.
    own: tuple[str, ...]

    @property
    def role(self) -> Role | None:
        """What it does for a consumer; None where nothing in it is the application's."""
        calls = [
            method(each).removeprefix(CLIENT) for each in self.frames if each.startswith(CLIENT)
        ]
        for role, pattern in CALLS.items():
            if any(map(pattern.match, calls)):
                return role
        return "application" if self.own else None

    @property
    def waits_for_work(self) -> bool:
        """Whether it waits in its own code for a channel, as workers without work do."""
        return self.state in WAITS_FOR_WORK and self.frames[:1] == self.own[:1]

    def sitting(self, role: Role, seconds: float | None, *, since_look: bool) -> Sitting:
        """Where it is, with the innermost call and the one that the application has made there."""
        line, top = self.own[0] if self.own else None, self.frames[0] if self.frames else None
        at = self.frames.index(line) if line else 0
        calls = (*self.frames[:1], *self.frames[at - 1 : at]) if at else ()
        inside = tuple(dict.fromkeys(map(method, calls))) or (f"a {self.state}",)
        return Sitting(
            f"goroutine {self.id}", role, self.state, top, line, self.frames[:FRAMES_KEPT], self.id,
            seconds, inside, since_look=since_look,
        )  # fmt: skip


def parsed(dump: str) -> dict[int, Goroutine]:
    """The goroutines of the last dump by number; nothing where it is no such dump."""
    return next(reversed(dumps(dump)), {})


def dumps(text: str) -> list[dict[int, Goroutine]]:
    """Each dump of a text; one begins where a goroutine comes again."""
    found: list[dict[int, Goroutine]] = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        if "goroutine " not in block:
            continue
        lines = block.strip("\n").split("\n")
        start = next((at for at, line in enumerate(lines) if HEAD.match(line)), None)
        if start is None or (head := HEAD.match(lines[start])) is None:
            continue
        number, state, minutes = head.groups()
        frames = list(_frames(lines[start + 1 :]))
        own = tuple(text for text, is_own in frames if is_own)
        texts = tuple(text for text, _ in frames)
        one = Goroutine(int(number), state, int(minutes or 0), texts, own)
        if not found or one.id in found[-1]:
            found.append({})
        found[-1][one.id] = one
    return found


def _frames(lines: Sequence[str]) -> Iterable[tuple[str, bool]]:
    """Each call, above the line that says where; whether it is the application's."""
    for call, place in pairwise(lines):
        if call.startswith(("\t", "created by ")) or not place.startswith("\t"):
            continue
        name = call[: call.rfind("(")].replace("(*", "").replace(")", "")
        path = place.strip().partition(" +")[0]
        is_own = not (STANDARD.match(name) or "@v" in path or "/vendor/" in path)
        yield f"{name} ({path.rpartition('/')[2]})", is_own


def sittings(
    then: dict[int, Goroutine], now: dict[int, Goroutine], seconds: float
) -> tuple[Sitting, ...]:
    """Where those are now that matter to a consumer. seconds: between both dumps."""
    found = []
    for each in now.values():
        role = each.role
        if role is None:
            continue
        before = then.get(each.id)
        stayed = before is not None and replace(before, minutes=each.minutes) == each
        known = 60.0 * each.minutes
        looked = seconds if stayed and each.state != "running" else 0.0
        longest = max(known, looked)
        found.append(each.sitting(role, longest or None, since_look=looked > known))
    return tuple(found)


def pools_of(now: Iterable[Goroutine]) -> tuple[Pool, ...]:
    """Goroutines that begin in one function: a pool, unless one of them waits for work."""
    groups: dict[str, list[Goroutine]] = {}
    for each in now:
        if each.own and each.role == "application":
            groups.setdefault(method(each.own[-1]), []).append(each)
    several = (each for each in groups.values() if len(each) > 1)
    return tuple(
        Pool(tuple(one.id for one in each))
        for each in several
        if not any(one.waits_for_work for one in each)
    )
