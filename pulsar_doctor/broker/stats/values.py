"""Basic values of the stats: positions, times, and the backlog of a subscription."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pulsar_doctor.wording.sentences import say

Position = tuple[int, int]  # ledger, entry; entry -1 is "before the first"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
COUNTER_LEAST = -1  # for a moment, while an entry is being acknowledged


def epoch_ms(text: str | None) -> int | None:
    """Epoch milliseconds of an ISO 8601 time with its zone; None where it tells no moment."""
    try:
        moment = datetime.fromisoformat(text or "")
        return (moment - EPOCH) // MILLISECOND if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class Backlog:
    """What one subscription has not acknowledged, in entries; None is "not told".

    counter: as the broker tells it. positions: by those of the last sample. ranges: acknowledged
    ones. shown_wrong: samples that show the counter wrong, 0 where it is not known to be. consumed,
    counted: messagesConsumed of the last sample, and entriesAdded less that.
    """

    counter: int | None = None
    positions: int | None = None
    ranges: int | None = None
    shown_wrong: int = 0
    consumed: int | None = None
    counted: int | None = None

    @property
    def wrong(self) -> bool:
        """Whether the counter is known to be wrong."""
        return self.shown_wrong > 0

    @property
    def doubtful(self) -> bool:
        """Whether counter and positions differ, perhaps as they are of two moments."""
        told = self.counter is not None and self.positions is not None
        return told and not self.wrong and self.counter != self.positions

    @property
    def told(self) -> bool:
        """Whether the counter or the positions are told."""
        return self.counter is not None or self.positions is not None

    @property
    def off(self) -> float:
        """By how many entries the counter is off; infinite where nothing tells what is right."""
        if self.counter is None or self.positions is None:
            return float("inf")
        return abs(self.counter - self.positions)

    @property
    def entries(self) -> int | None:
        """By the counter, or by the positions where that is wrong, cannot be, or is not told."""
        of_no_use = self.wrong or self.counter is None or self.counter < COUNTER_LEAST
        return self.positions if of_no_use else self.counter

    @property
    def empty(self) -> bool | None:
        """Whether everything is known to be acknowledged; None where that is not known."""
        behind_ranges = bool(self.ranges and self.ranges > 0)
        if self.wrong or self.counter is None:
            at_end = None if self.positions is None else self.positions <= 0
            return False if behind_ranges else at_end
        if self.counter > 0:
            return False
        if behind_ranges or (self.positions or 0) > 0:
            return None
        return True if self.counter == 0 or self.positions == 0 else None

    def __str__(self) -> str:
        """As a sentence names it: `60 entries`."""
        if self.entries is not None:
            return say("{:entries}", self.entries)
        return "at least 1 entry" if self.empty is False else "entries that are not reported"
