"""Observations that were made: rows of the table with their numbers, worded when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from pulsar_doctor.diagnosis.answers import Clue
from pulsar_doctor.diagnosis.observations import CLUES, SENTENCES, Wording
from pulsar_doctor.wording.sentences import Sentence, fill

Of = TypeVar("Of")
Added = Mapping[str, object]


class Observation:
    """One observation that was made; its text is composed when it is read."""

    __slots__ = ("_numbers", "_of", "_row")

    def __init__(self, row: Wording, of: object, numbers: Added) -> None:
        self._row, self._of, self._numbers = row, of, numbers

    @property
    def name(self) -> str:
        """The name of the number that the observation rests on."""
        return self._row.number

    @property
    def text(self) -> Sentence:
        """The observation's sentence, without a full stop."""
        return fill(self._row.sentence, self._of, **self._numbers)


Clues = Mapping[str, Observation | Clue]  # by the key of the clue
Found = Iterator[str | tuple[str, Added]]  # keys of rows, and the numbers that the test adds


def observed_by(observers: Iterable[Callable[[Of], Found]], beside: Of, of: object) -> Clues:
    """What these tests see, by clue. of: the consumer with the numbers that the sentences name."""
    seen: dict[str, Observation | Clue] = {}
    for observe in observers:
        for found in observe(beside):
            key, numbers = (found, {}) if isinstance(found, str) else found
            row = CLUES[key]
            seen[row.clue or key] = Observation(row, of, numbers)
    return seen


def first_of(
    tests: Iterable[str | Callable[..., str | None]], clues: Clues, *of: object
) -> Observation | Clue | None:
    """The first of these that holds: observations by their keys, or tests of `of`."""
    for each in tests:
        if isinstance(each, str):
            if each in clues:
                return clues[each]
        elif because := each(*of):
            return Clue("", because)
    return None


def worded(key: str, of: object, /, **numbers: object) -> Sentence:
    """The sentence of an observation that is known to be so. numbers: that its test adds."""
    return fill(SENTENCES[key], of, **numbers)
