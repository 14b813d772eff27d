"""Single observations, each with its numbers, that speak for or against a suspected cause.

A clue has a key, by which hypotheses and weights know it, the name of the number that it rests on,
and a text. What the view does not tell gives no clue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from pulsar_doctor.diagnosis.answers import Clue

Of = TypeVar("Of")
Clues = Mapping[str, Clue]  # by key
Found = Iterator[tuple[str, str, str]]  # key, name, text


def observed_by(observers: Iterable[Callable[[Of], Found]], of: Of) -> Clues:
    """The clues that these functions see, by key."""
    return {key: Clue(name, text) for observe in observers for key, name, text in observe(of)}
