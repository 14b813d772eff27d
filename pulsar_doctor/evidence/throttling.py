"""Which dispatch rate limit delayed reads, and whether consumers could have taken more."""

from __future__ import annotations

from dataclasses import dataclass, field

from pulsar_doctor.wording.typed_json import written_as


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Reads that a limit held back, or made smaller, within the window."""

    # Subscription, topic or broker.
    limit_of: str = field(metadata=written_as("whose"))
    counter: str  # as the broker calls it
    reads: int


@dataclass(frozen=True, slots=True)
class Throttling:
    """What the broker counts of throttled reads."""

    reads: int  # since the topic was loaded
    lately: tuple[HeldBack, ...]  # those of the window
    # Share of the samples in which a consumer could receive; 0: none was held back lately.
    ready: float
