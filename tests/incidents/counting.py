"""How often which law is broken, by whom: what a run of many incidents comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.incidents.laws import Broken, broken_at
from tests.incidents.moments import Moment, incident
from tests.incidents.questions import Asked, answers
from tests.incidents.rhythm import unsteady
from tests.incidents.truth import truth_of

SEEDS_SHOWN = 4
STATUSES = ("stalled", "warning", "healthy", "unknown")

Key = tuple[str, str, str]  # law, code, pair; the last or the last two empty: of any


@dataclass(slots=True)
class Count:
    """broken: incidents by law, rule and pair. seeds: the first that show it. seen: how many.

    verdicts: by truth, sources and status.
    """

    broken: Counter[Key]
    seeds: dict[Key, list[int]]
    seen: Counter[str]
    verdicts: Counter[Key]

    def add(self, other: Count) -> None:
        self.broken += other.broken
        self.seen += other.seen
        self.verdicts += other.verdicts
        for key, seeds in other.seeds.items():
            known = self.seeds.setdefault(key, [])
            known += seeds[: SEEDS_SHOWN - len(known)]

    def note(self, found: Iterable[Broken], seed: int) -> None:
        """What one incident breaks; each law, rule and pair once."""
        keys: set[Key] = set()
        for each in found:
            law = f"{each.law} (excluded: it cannot see it)" if each.excluded else each.law
            keys |= {(law, each.code, each.pair), (law, each.code, ""), (law, "", "")}
        for key in keys:
            self.broken[key] += 1
            seeds = self.seeds.setdefault(key, [])
            if len(seeds) < SEEDS_SHOWN:
                seeds.append(seed)

    def tally(self, moment: Moment, said: Iterable[Asked]) -> None:
        """How often which sources say what, by the truth."""
        truth = truth_of(moment)
        for asked in said:
            self.verdicts[truth, asked.who, asked.status] += 1


def none() -> Count:
    """Before anything is counted."""
    return Count(Counter(), {}, Counter(), Counter())


def count(seeds: Iterable[int]) -> Count:
    """Plays these and asks all of them."""
    total = none()
    for seed in seeds:
        total.seen["incidents"] += 1
        broken: list[Broken] = []
        for moment in incident(seed).moments:
            said = answers(moment)
            total.seen["moments"] += 1
            total.tally(moment, said)
            broken += broken_at(moment, said)
        total.note(broken, seed)
    return total


def count_rhythms(seeds: Iterable[int]) -> Count:
    """Plays the rhythms of these seeds, and asks them at all their phases."""
    total = none()
    for seed in seeds:
        total.seen["rhythms"] += 1
        total.note(unsteady(seed), seed)
    return total


def printed(total: Count, pairs: int) -> Iterator[str]:
    """A table: law, rule, between whom, incidents, the seeds of the first few.

    pairs: how many of a rule are shown, the most frequent ones.
    """
    seen = total.seen
    played = (f"{seen[what]:,} {what}" for what in ("incidents", "moments", "rhythms"))
    yield ", ".join(played)
    yield from _verdicts(total)
    for law in sorted({key[0] for key in total.broken}):
        yield ""
        yield f"{law}: {total.broken[law, '', '']:,} incidents"
        codes = {key[1] for key in total.broken if key[0] == law and key[1]}
        for code in sorted(codes, key=lambda code: -total.broken[law, code, ""]):
            yield _line(total, (law, code, ""), f"  {code}")
            those = [key for key in total.broken if key[:2] == (law, code) and key[2]]
            those.sort(key=lambda key: (-total.broken[key], key))
            for key in those[:pairs]:
                yield _line(total, key, f"      {key[2]}")
            if len(those) > pairs:
                yield f"      and {len(those) - pairs} more pairs"


def _verdicts(total: Count) -> Iterator[str]:
    """Verdicts by the truth, in percent of those of the same sources."""
    yield ""
    yield f"{'verdicts by truth':40}{'asked':>9}" + "".join(f"{each:>10}" for each in STATUSES)
    for truth in sorted({key[0] for key in total.verdicts}):
        yield truth
        for who in sorted({key[1] for key in total.verdicts if key[0] == truth}):
            each = [total.verdicts[truth, who, status] for status in STATUSES]
            shares = "".join(f"{100 * number / sum(each):9.1f}%" for number in each)
            yield f"  {who:38}{sum(each):9,}{shares}"


def _line(total: Count, key: Key, text: str) -> str:
    seeds = " ".join(map(str, total.seeds[key]))
    return f"{text:92} {total.broken[key]:6,}  seeds {seeds}"


HEADER = """\
Laws that are broken today, by law, rule and sources: to be shortened, never lengthened.

Written by `python -m tests.incidents --known tests/incidents/known.py`. A law, rule and pair of
sources that is not in it fails the tests; one that is in it and does not occur any more fails the
slow one.
"""


def as_known(total: Count) -> Iterator[str]:
    """known.py, of what this run has broken."""
    yield f'"""{HEADER}"""\n\nfrom __future__ import annotations\n'
    yield "KNOWN: dict[str, dict[str, tuple[str, ...]]] = {"
    for law in sorted({key[0] for key in total.broken if gates(key[0])}):
        yield f'    "{law}": {{'
        codes = sorted({key[1] for key in total.broken if key[0] == law and key[1]})
        for code in codes:
            yield f'        "{code}": ('
            pairs = {plain(key[2]) for key in total.broken if key[:2] == (law, code)} - {""}
            yield from (f'            "{pair}",' for pair in sorted(pairs))
            yield "        ),"
        yield "    },"
    yield "}"


def gates(law: str) -> bool:
    """Whether it is a law that must hold, and not only counted."""
    return not law.startswith("(") and "excluded" not in law


def plain(pair: str) -> str:
    """A pair of sources as known.py has it: whether a clock was told is left out."""
    return pair.replace(" (no clock)", "")
