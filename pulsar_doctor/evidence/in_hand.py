"""Messages that an application has taken and not finished, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.broker.stats.age import Age

FAR_SLOWER = 2  # times as many in hand as were finished meanwhile


@dataclass(frozen=True, slots=True)
class InHand:
    """Messages that are taken and not finished. None is not known."""

    messages: int  # at least
    most: int  # with those that may still be in its queue
    oldest: Age  # since the first of them was sent
    finished: int  # since then, at most
    # Whether acks came since and left them in hand; None: a later sample tells.
    one_by_one: bool | None
    pace: float | None  # seconds from one finished message to the next
    growth: float | None  # unacknowledged messages a second

    @property
    def seconds(self) -> float | None:
        """For all of it, at its pace."""
        return None if self.pace is None else self.messages * self.pace

    @property
    def seconds_most(self) -> float | None:
        """The same with those that may still be in its queue."""
        return None if self.pace is None else self.most * self.pace

    @property
    def outpaced(self) -> bool:
        """Whether it is sent so many more than it finishes, and keeps them."""
        return (self.growth or 0.0) * (self.pace or 0.0) >= FAR_SLOWER - 1

    @property
    def outgrows(self) -> bool:
        """Whether it does so now, as far as statistics tell: a trace tells how much is in hand."""
        return self.outpaced and not self.oldest.exact

    @property
    def piles_up(self) -> bool:
        """Whether these are more than it works on: workers finish as many while the oldest waits,
        and take no more than they finish."""
        return self.outpaced or self.messages >= FAR_SLOWER * self.finished
