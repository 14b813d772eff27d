"""Single observations of a view, each with its numbers: what speaks for a suspect, or against it.

A clue has a key, by which hypotheses and weights know it, the name of the number that it rests on,
and a text. What the view does not tell gives no clue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from pulsar_doctor.evidence.answers import Clue

Of = TypeVar("Of")
Clues = Mapping[str, Clue]  # by key
Found = Iterator[tuple[str, str, str]]  # key, name, text
QUIET, LONG = 30.0, 300.0  # seconds: longer than a pause, longer than nearly all work
MANY = 16  # messages: more than one application works on at once


def seen_by(looks: Iterable[Callable[[Of], Found]], of: Of) -> Clues:
    """What each of these looks sees."""
    return {key: Clue(name, text) for look in looks for key, name, text in look(of)}
