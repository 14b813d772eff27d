"""An expectation of a tap, such as --expect-consumers, and its result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pulsar_doctor.wording.durations import duration

AckedWanted = int | Literal["all"]


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected; None: nothing of the kind."""

    consumers: int | None = None
    acked: AckedWanted | None = None  # so many messages at least
    # since the tap began; where all are to be acknowledged, since each delivery
    within_seconds: float | None = None

    @property
    def anything(self) -> bool:
        """Whether something is expected at all."""
        return self.consumers is not None or self.acked is not None

    @property
    def in_time(self) -> str:
        """The time that is given, for the end of a sentence."""
        return "" if self.within_seconds is None else f" within {duration(self.within_seconds)}"


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation."""

    option: str
    met: bool | None  # None: the trace does not show it
    seen: str  # what was seen, with numbers
    action: str = ""  # what to do first
    topic: str | None = None  # where most is missing (so are the next two); None: nowhere
    subscription: str | None = None
    consumer: str | None = None
    delivered: int | None = None
    acknowledged_least: int | None = None
    acknowledged_most: int | None = None

    def beside(self, *more: str, before: str = "", action: str = "") -> Expectation:
        """With more that was seen, and perhaps with another action."""
        texts = filter(None, (before, self.seen, *more))
        return replace(self, seen="; ".join(texts), action=action or self.action)

    @property
    def sentence(self) -> str:
        """Which it is, and why it is not met."""
        how = {True: "is met", False: "is not met", None: "cannot be decided"}[self.met]
        return f"{self.option} {how}: {self.seen}"
