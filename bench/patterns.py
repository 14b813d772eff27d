"""Measures each regular expression of the package on texts that are made of its own parts.

    python bench/patterns.py [PART OF A PLACE...]

A pattern is pumped: a text that leads to one of its repeats, then a text that this repeat takes,
again and again, then one that does not fit; and one of nothing but its beginning again and again.
Each line is a pattern and its worst text: the CPU time for n characters, for 2n, and their ratio.
A linear pattern has a ratio near 2, a quadratic one near 4. n grows until a search takes 20 ms, or
to half a megabyte. Lines come worst first. `tests/test_patterns.py` proves it without a clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from measured import table

from tests.support.ambiguity import Automaton
from tests.support.patterns import Found, patterns

FIRST, MOST = 1_000, 500_000  # characters
ENOUGH_SECONDS = 0.02
PUMPS_MOST = 5  # repeats of one pattern, each with a text of its own
TAILS = ("\x00", "\n!")


@dataclass(frozen=True, slots=True)
class Text:
    """What a pattern is tried on."""

    before: str
    pump: str
    tail: str

    def of(self, characters: int) -> str:
        return self.before + self.pump * (characters // len(self.pump)) + self.tail


@dataclass(frozen=True, slots=True)
class Cost:
    """What one text costs: CPU seconds of so many characters, and of twice as many."""

    text: Text
    characters: int
    once: float
    twice: float

    @property
    def ratio(self) -> float:
        return self.twice / self.once


def texts(found: Found, way: str) -> Iterator[Text]:
    """Of each repeat, and of the beginnings that lead to it."""
    automaton = Automaton.of(found.compiled, way)
    pumps: dict[tuple[str, str], None] = {}
    for place, loop in automaton.loops.items():
        before = automaton.reached[place]
        pumps[before, loop] = None
        pumps["", (before + loop)] = None
    for before, pump in [*pumps][: 2 * PUMPS_MOST]:
        yield from (Text(before, pump, tail) for tail in TAILS)


def seconds(found: Found, way: str, text: str) -> float:
    """CPU time of all matches in a text, the least of three."""
    given = text.encode("latin-1", "replace") if isinstance(found.compiled.pattern, bytes) else text
    use = found.compiled.finditer if way == "search" else getattr(found.compiled, way)
    took = []
    for _ in range(3):
        began = time.process_time()
        for _ in use(given) if way == "search" else [use(given)]:
            pass
        took.append(time.process_time() - began)
        if took[0] > 1:
            break
    return max(min(took), 1e-7)


def cost(found: Found, way: str, text: Text) -> Cost:
    characters, once = FIRST, seconds(found, way, text.of(FIRST))
    while once < ENOUGH_SECONDS and characters < MOST:
        characters = min(4 * characters, MOST)
        once = seconds(found, way, text.of(characters))
    return Cost(text, characters, once, seconds(found, way, text.of(2 * characters)))


def worst(found: Found) -> Cost | None:
    """The text with the highest ratio, of those that cost anything at all; None: no repeat."""
    costs = [cost(found, way, text) for way in found.ways for text in texts(found, way)]
    return max(costs, key=lambda each: (each.once > 1e-3, each.ratio), default=None)


def main(parts: list[str]) -> None:
    """Prints the table."""
    chosen = [
        each
        for each in patterns()
        if isinstance(each, Found) and (not parts or any(part in each.place for part in parts))
    ]
    measured = [(each, most) for each in chosen if (most := worst(each)) is not None]
    measured.sort(key=lambda each: -each[1].ratio)
    rows = [("ratio", "n", "CPU ms", "of 2n", "place", "text")]
    rows += [
        (
            f"{most.ratio:.1f}", str(most.characters), f"{1000 * most.once:.1f}",
            f"{1000 * most.twice:.1f}", each.place,
            f"{most.text.before[-20:]!r} + n * {most.text.pump[-40:]!r} + {most.text.tail!r}",
        )
        for each, most in measured
    ]  # fmt: skip
    print(table(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
