"""How long ago something happened: exactly, or as a lower bound."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import say

A_SECOND_MS = 1000
FIRST_FLOW_MOST_MS = 2000  # after the connection, on a busy machine; a later one is another


@dataclass(frozen=True, slots=True)
class Age:
    """How long ago. exact: to the second; otherwise it is at least that long."""

    ms: int
    exact: bool

    @property
    def seconds(self) -> float:
        """The same in seconds."""
        return self.ms / 1000

    @property
    def says_nothing(self) -> bool:
        """Whether it is at least no time at all."""
        return not self.exact and self.ms < A_SECOND_MS

    def __str__(self) -> str:
        """The age in words: `at least 12 s`."""
        return say("{}" if self.exact else "at least {}", duration(self.ms / 1000))
