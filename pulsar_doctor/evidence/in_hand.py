"""Messages that an application has taken and not finished, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.broker.stats.age import Age


@dataclass(frozen=True, slots=True)
class InHand:
    """Messages that are taken and not finished. None is "not told".

    messages: at least; most: with those that may still be in its queue. oldest: since the first of
    them was sent. finished: since then, at most. one_by_one: whether acks have come since then and
    left them in hand; None where only a later sample tells. pace: seconds from one finished message
    to the next. growth: unacknowledged messages a second.
    """

    messages: int
    most: int
    oldest: Age
    finished: int
    one_by_one: bool | None
    pace: float | None
    growth: float | None

    @property
    def seconds(self) -> float | None:
        """For all of it, at its pace."""
        return None if self.pace is None else self.messages * self.pace
