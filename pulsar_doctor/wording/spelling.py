"""Suggestions for an unknown name: similar names, or all of them.

For causes, thresholds, subcommands and topics in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from heapq import nlargest
from itertools import takewhile

ALIKE_MOST = 3
LIKENESS = 0.6  # of difflib: twice the characters in common, over those of both
COMPARED_MOST = 5_000  # names; each comparison takes microseconds, and a namespace may have 100,000


def near(
    name: str,
    known: Iterable[str],
    *,
    shown: Mapping[str, str] | None = None,
    most: int | None = None,
) -> str:
    """`did you mean a, b or c?`, or `there are a, b and 3 more`; nothing where there are none.

    shown: how a known name is written, where that is not the name. most: at most so many names
    where none is alike; None: all.
    """
    names = sorted(set(known))
    compared = _compared(name, names)
    tried = (
        get_close_matches(each, compared, ALIKE_MOST, LIKENESS) for each in (name, name.lower())
    )
    alike = next(filter(None, tried), [])
    written = [(shown or {}).get(each, each) for each in alike or names[:most]]
    if alike:
        *others, last = written
        return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
    if not names:
        return ""
    more = f" and {len(names) - len(written)} more" if len(names) > len(written) else ""
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(written)}{more}"


def _compared(name: str, names: list[str]) -> list[str]:
    """The ones of very many names that begin most alike."""
    if len(names) <= COMPARED_MOST:
        return names
    return nlargest(COMPARED_MOST, names, key=lambda known: _begin_alike(name, known))


def _begin_alike(one: str, other: str) -> int:
    """Characters that both begin with."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in same)
