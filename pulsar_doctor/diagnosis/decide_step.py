"""A step of --decide: what was read, and what it showed."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class DecideStep:
    """One step of `--decide`."""

    step: str  # what was sampled
    seconds: float  # how long it took
    before: str  # status of the verdict
    after: str  # status of the verdict

    def document(self) -> dict[str, str | float]:
        """The step as JSON."""
        return asdict(self)
