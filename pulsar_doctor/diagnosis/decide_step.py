"""A step of --decide: what was read, and what it showed."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class DecideStep:
    """One step of `--decide`. step: what was looked at; seconds: how long it took.

    before, after: the status of the verdict.
    """

    step: str
    seconds: float
    before: str
    after: str

    def document(self) -> dict[str, str | float]:
        """As every JSON has it."""
        return asdict(self)
