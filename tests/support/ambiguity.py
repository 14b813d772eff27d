"""Finds repeats of a regular expression that compete for the same text, so that it is not linear.

A pattern is turned into states. Where a text leads from a state `early` back to it, from `early` to
`late`, and from `late` back to it, that text n times can be split between both in n ways, and all
are tried where the rest does not fit: n² steps, or more. A search anywhere is a first state that
takes any text, so that it finds what begins with a repeat, too. A repeat with an upper bound counts
as one without a loop: it costs at most that bound for each character.

What is behind a repeat that completes the pattern is never tried in vain. What is kept (atomic
groups, possessive repeats) is not split again. An assertion of more than one character may hold or
not, and what is in it is a pattern of its own.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

START, ACCEPT = 0, 1
SAMPLES = "\n\r\t \x00\x1baZk0_é\u00a0٣!-.<>\"'/:;=,{}[]()#*@$…“"
FLAGS_OF = re.IGNORECASE | re.DOTALL | re.MULTILINE | re.ASCII

Test = Callable[[str | None, str | None], bool]  # of the characters before and behind a place
Step = Callable[[str], bool]  # of a character


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two repeats that compete: `before` leads to the first one, `pump` may belong to either."""

    before: str
    pump: str


@dataclass(slots=True)
class States:
    """The states of one pattern and the ways between them; filled while it is read."""

    flags: int
    free: list[list[tuple[int, Test | None]]] = field(default_factory=lambda: [[], []])
    steps: list[list[tuple[int, Step]]] = field(default_factory=lambda: [[], []])
    kept: list[frozenset[int]] = field(default_factory=lambda: [frozenset(), frozenset()])
    within: frozenset[int] = frozenset()  # what is kept around this place
    written: set[str] = field(default_factory=set)  # characters that the pattern names

    def new(self) -> int:
        self.free.append([])
        self.steps.append([])
        self.kept.append(self.within)
        return len(self.free) - 1

    def sequence(self, items: Iterable[Any], at: int) -> int:
        """The state behind these items, which begin at this one."""
        for op, given in items:
            at = self.item(op, given, at)
        return at

    def item(self, op: Any, given: Any, at: int) -> int:
        if _is_one([(op, given)]):
            end = self.new()
            self.steps[at].append((end, self.step(op, given)))
            return end
        if op is sre.BRANCH:
            return self.joined([self.sequence(each, self.begun(at)) for each in given[1]])
        if op is sre.SUBPATTERN:
            return self.grouped(given, at)
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            return self.repeated(given, at)
        if op in (sre.POSSESSIVE_REPEAT, sre.ATOMIC_GROUP):
            return self.whole(op, given, at)
        if op is sre.AT:
            return self.behind(at, self.place(given))
        if op in (sre.ASSERT, sre.ASSERT_NOT):
            return self.asserted(given, at, holds=op is sre.ASSERT)
        raise NotImplementedError(f"{op} of a pattern is not known here")

    def begun(self, at: int) -> int:
        return self.behind(at, None)

    def behind(self, at: int, test: Test | None) -> int:
        end = self.new()
        self.free[at].append((end, test))
        return end

    def joined(self, ends: Iterable[int]) -> int:
        end = self.new()
        for each in ends:
            self.free[each].append((end, None))
        return end

    def grouped(self, given: Any, at: int) -> int:
        _, add, drop, items = given
        before, self.flags = self.flags, (self.flags | add) & ~drop
        end = self.sequence(items, at)
        self.flags = before
        return end

    def repeated(self, given: Any, at: int) -> int:
        least, most, items = given
        for _ in range(min(least, 2)):
            at = self.sequence(items, at)
        if most is not sre.MAXREPEAT:
            ends = [at]
            for _ in range(min(most - least, 2)):
                ends.append(self.sequence(items, self.begun(ends[-1])))
            return self.joined(ends)
        loop = self.begun(at)
        self.free[self.sequence(items, self.begun(loop))].append((loop, None))
        return self.begun(loop)

    def whole(self, op: Any, given: Any, at: int) -> int:
        """What is kept as it was first found; a repeat of one character takes all there are."""
        before, here = self.within, self.new()
        self.within = before | {here}
        self.free[at].append((begin := self.new(), None))
        if op is sre.ATOMIC_GROUP:
            end = self.sequence(given, begin)
        else:
            end = self.repeated(given, begin)
            if given[1] is sre.MAXREPEAT and _is_one(given[2][:1]) and len(given[2]) == 1:
                end = self.behind(end, _around(self.step(*given[2][0]), 1, holds=False))
        self.within = before
        return self.begun(end)

    def asserted(self, given: Any, at: int, *, holds: bool) -> int:
        """A place that depends on what is around it, by the nearest character of that."""
        direction, items = given
        nearest = items[:1] if direction > 0 else items[-1:]
        test = None
        if _is_one(nearest) and (holds or len(items) == 1):
            test = _around(self.step(*nearest[0]), direction, holds=holds)
        if direction > 0 and len(items) > 1:
            self.sequence(items, self.begun(at))
        return self.behind(at, test)

    def place(self, where: Any) -> Test:
        """An anchor."""
        lines = bool(self.flags & re.MULTILINE)
        word = re.compile(r"\w", self.flags & re.ASCII)

        def is_word(one: str | None) -> bool:
            return one is not None and word.match(one) is not None

        tests: dict[Any, Test] = {
            sre.AT_BEGINNING: lambda last, _: last is None or (lines and last == "\n"),
            sre.AT_BEGINNING_STRING: lambda last, _: last is None,
            sre.AT_END: lambda _, following: following in (None, "\n"),
            sre.AT_END_STRING: lambda _, following: following is None,
            sre.AT_BOUNDARY: lambda last, following: is_word(last) is not is_word(following),
            sre.AT_NON_BOUNDARY: lambda last, following: is_word(last) is is_word(following),
        }
        return tests[where]

    def step(self, op: Any, given: Any) -> Step:
        """Whether a character fits one item; the compiler of `re` knows."""
        items = given if op is sre.IN else [(op, given)]
        for kind, value in items:
            if kind in (sre.LITERAL, sre.NOT_LITERAL):
                self.written.add(chr(value))
            if kind is sre.RANGE:
                self.written.update(
                    map(chr, (value[0], value[1], min(value[1] + 1, sys.maxunicode)))
                )
        return re.compile(_written(op, given), self.flags & FLAGS_OF).fullmatch  # type: ignore[return-value]


def _is_one(items: Any) -> bool:
    """Whether it begins with exactly one character."""
    return bool(items) and items[0][0] in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)


def _around(step: Step, direction: int, *, holds: bool) -> Test:
    """Whether the character behind a place fits (1), or that before it (-1); or does not."""

    def test(last: str | None, following: str | None) -> bool:
        one = following if direction > 0 else last
        return (one is not None and bool(step(one))) is holds

    return test


def _written(op: Any, given: Any) -> str:
    """One item as it is written in a pattern."""
    if op is sre.ANY:
        return "."
    if op is sre.LITERAL:
        return re.escape(chr(given))
    if op is sre.NOT_LITERAL:
        return f"[^{re.escape(chr(given))}]"
    return f"[{''.join(map(_in_brackets, given))}]"


def _in_brackets(item: Any) -> str:
    op, given = item
    if op is sre.NEGATE:
        return "^"
    if op is sre.RANGE:
        return "-".join(re.escape(chr(each)) for each in given)
    if op is sre.CATEGORY:
        name = str(given).removeprefix("CATEGORY_")
        letter = {"D": r"\d", "S": r"\s", "W": r"\w"}[name.removeprefix("NOT_")[0]]
        return letter.upper() if name.startswith("NOT_") else letter
    return re.escape(chr(given))


@dataclass(frozen=True)
class Automaton:
    """The states of a pattern, walked in one way: search, match or fullmatch."""

    states: States
    way: str

    @classmethod
    def of(cls, compiled: re.Pattern[Any], way: str) -> Automaton:
        """The states of a compiled pattern; one of bytes is read as Latin-1."""
        text, flags = compiled.pattern, compiled.flags
        if isinstance(text, bytes):
            text, flags = text.decode("latin-1"), flags | re.ASCII
        states = States(flags & ~re.DEBUG)
        end = states.sequence(parser.parse(text, flags & ~re.TEMPLATE), states.begun(START))
        test = None if way != "fullmatch" else (lambda _, following: following is None)
        states.free[end].append((ACCEPT, test))
        if way == "search":
            states.steps[START].append((START, lambda _: True))
        return cls(states, way)

    @cached_property
    def alphabet(self) -> str:
        """One character for each way in which characters differ to this pattern."""
        tests = [step for steps in self.states.steps for _, step in steps]
        kinds: dict[tuple[bool, ...], str] = {}
        for one in SAMPLES + "".join(sorted(self.states.written)):
            word = one == "_" or one.isalnum()
            kinds.setdefault((one == "\n", word, *(bool(test(one)) for test in tests)), one)
        return "".join(kinds.values())

    @cached_property
    def _known(self) -> dict[tuple[int, str, str], frozenset[int]]:
        return {}

    def _mark(self, one: str) -> str:
        """What is remembered of a character, where that matters to the next place."""
        return self._marks[one]

    @cached_property
    def _marks(self) -> dict[str, str]:
        """Of the characters that all anchors take for the same, one."""
        anchors = [test for ways in self.states.free for _, test in ways if test]
        followed = [*self.alphabet, None]
        kinds: dict[tuple[bool, ...], str] = {}
        return {
            one: kinds.setdefault(tuple(t(one, each) for t in anchors for each in followed), one)
            for one in self.alphabet
        }

    def next(self, state: int, last: str, one: str) -> frozenset[int]:
        """Where a character leads. last: the one before it; empty at the beginning."""
        key = state, last, one
        if key not in self._known:
            reached = self._free(state, last or None, one)
            ways = (way for each in reached for way in self.states.steps[each])
            self._known[key] = frozenset(end for end, step in ways if step(one))
        return self._known[key]

    def _free(self, state: int, last: str | None, following: str | None) -> set[int]:
        found, open_ = {state}, [state]
        while open_:
            for end, test in self.states.free[open_.pop()]:
                if end not in found and (test is None or test(last, following)):
                    found.add(end)
                    open_.append(end)
        return found

    @cached_property
    def completed(self) -> frozenset[int]:
        """States behind which nothing is needed any more."""
        found = {ACCEPT}
        before: set[int] = set()
        while found != before:
            before = set(found)
            found |= {
                at
                for at, ways in enumerate(self.states.free)
                if any(end in found and test is None for end, test in ways)
            }
        return frozenset(found)

    @cached_property
    def reached(self) -> dict[tuple[int, str], str]:
        """States with the character before them, each with a shortest text that leads there."""
        found: dict[tuple[int, str], str] = {(START, ""): ""}
        open_ = deque(found)
        while open_:
            state, last = open_.popleft()
            for one in self.alphabet:
                for end in self.next(state, last, one):
                    if (end, self._mark(one)) not in found:
                        found[end, self._mark(one)] = found[state, last] + one
                        open_.append((end, self._mark(one)))
        return found

    @cached_property
    def loops(self) -> dict[tuple[int, str], str]:
        """States that a text leads back to, each with a shortest such text."""
        found = {}
        for state, last in self.reached:
            back = self._cycle(state, last)
            if back is not None:
                found[state, last] = back
        return found

    def _cycle(self, begin: int, before: str) -> str | None:
        seen = {(begin, before): ""}
        open_ = deque(seen)
        while open_:
            state, last = open_.popleft()
            for one in self.alphabet:
                for end in self.next(state, last, one):
                    place = end, self._mark(one)
                    if place == (begin, before):
                        return seen[state, last] + one
                    if place not in seen:
                        seen[place] = seen[state, last] + one
                        open_.append(place)
        return None

    def conflicts(self) -> Iterator[Conflict]:
        """Repeats that compete, the first for each pair."""
        onward = {state: self._onward(state) for state, _ in self.loops}
        for (early, last), before in self.reached.items():
            late_ones = onward.get(early, frozenset()) & onward.keys() - {early, *self.completed}
            if early == START:  # it takes any text, so one state of each loop stands for the others
                late_ones = frozenset({onward[late]: late for late in late_ones}.values())
            for late in late_ones:
                if self.states.kept[early] - self.states.kept[late]:
                    continue
                pump = self._shared(early, late, last)
                if pump is not None:
                    yield Conflict(before, pump)

    def _onward(self, begin: int) -> frozenset[int]:
        """States that a text may lead to from this one, whatever is before it."""
        found, open_ = {begin}, [begin]
        while open_:
            state = open_.pop()
            for end in self._ends[state] - found:
                found.add(end)
                open_.append(end)
        return frozenset(found)

    @cached_property
    def _ends(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for state, last in self.reached:
            ends = (self.next(state, last, one) for one in self.alphabet)
            found.setdefault(state, set()).update(*ends)
        return found

    @cached_property
    def _leading(self) -> dict[int, frozenset[int]]:
        """By state: those from which a text leads to it."""
        onward = {state: self._onward(state) for state in self._ends}
        return {
            state: frozenset(each for each, ends in onward.items() if state in ends)
            for state in self._ends
        }

    def _shared(self, early: int, late: int, before: str) -> str | None:
        """A text that leads from `early` to both, and from `late` back to it."""
        begin, goal = (early, early, late, before), (early, late, late, before)
        seen = {begin: ""}
        open_ = deque(seen)
        back = self._leading[early], self._leading[late]
        while open_:
            place = open_.popleft()
            for one in self.alphabet:
                for ends in self._together(place, one, *back):
                    found = (*ends, self._mark(one))
                    if found not in seen:
                        seen[found] = seen[place] + one
                        if found == goal:
                            return seen[found]
                        open_.append(found)
        return None

    def _together(
        self, place: tuple[int, int, int, str], one: str, *back: frozenset[int]
    ) -> Iterator[tuple[int, int, int]]:
        first, second, third, last = place
        return product(
            self.next(first, last, one) & back[0],
            self.next(second, last, one) & back[1],
            self.next(third, last, one) & back[1],
        )


def conflicts(compiled: re.Pattern[Any], ways: Iterable[str]) -> Iterator[Conflict]:
    """Pairs of repeats that compete in one of these ways of using a pattern."""
    for way in ways:
        yield from Automaton.of(compiled, way).conflicts()
