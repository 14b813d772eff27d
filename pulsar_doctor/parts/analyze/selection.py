"""Which part of the traces was requested: a time, a topic, a subscription.

What is analyzed of a time is as if the traces began and ended with it: what a consumer is and how
its state are shown by its rows as ever, what is counted is counted there only, and a consumer that
began before is not `certain`. A time without permits keeps its true start and its whole length.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """From one moment up to another, both in it, in µs since 1970; None: from or to the end."""

    since_us: int | None = None
    until_us: int | None = None

    def has_some(self, times: tuple[int, int]) -> bool:
        """Whether rows of these times, the first and the last, may lie in it."""
        first_us, last_us = times
        after = self.since_us is None or last_us >= self.since_us
        return after and (self.until_us is None or first_us <= self.until_us)

    def has_all(self, times: tuple[int, int]) -> bool:
        """Whether all of them do."""
        first_us, last_us = times
        after = self.since_us is None or first_us >= self.since_us
        return after and (self.until_us is None or last_us <= self.until_us)

    def has_end(self, end_us: int) -> bool:
        """Whether the time reaches that moment."""
        return self.until_us is None or self.until_us >= end_us

    def __str__(self) -> str:
        since = "" if self.since_us is None else f" from {_iso(self.since_us)}"
        return since + ("" if self.until_us is None else f" up to {_iso(self.until_us)}")


@dataclass(frozen=True, slots=True)
class Selection:
    """What is requested of the traces; None: all."""

    since: datetime | float | None = None  # a moment, or seconds before the end
    until: datetime | float | None = None  # as `since`
    topic: str | None = None  # full name, or its last part
    subscription: str | None = None
    proven_only: bool = False  # leave out rows of captures that are only likely

    @property
    def all(self) -> bool:
        """Whether no time and no name is left out."""
        return self == Selection(proven_only=self.proven_only)

    @property
    def by_name(self) -> bool:
        """Whether rows are left out for what they are of."""
        return self.topic is not None or self.subscription is not None

    def has(self, topic: str, subscription: str) -> bool:
        """Whether a subscription was requested. topic: its full name; see selected.of_names."""
        is_topic = self.topic is None or f"/{topic}".endswith(f"/{self.topic}")
        return is_topic and self.subscription in (None, subscription)

    @property
    def counts_back(self) -> bool:
        """Whether one must know where the traces end."""
        return isinstance(self.since, float) or isinstance(self.until, float)

    def span(self, end_us: int) -> TimeSpan:
        """The time that is meant, where the last of the traces ends there."""
        return TimeSpan(_microseconds(self.since, end_us), _microseconds(self.until, end_us))


EVERYTHING, EVER = Selection(), TimeSpan()


def _microseconds(moment: datetime | float | None, end_us: int) -> int | None:
    if isinstance(moment, datetime):
        return (moment - EPOCH) // timedelta(microseconds=1)
    return None if moment is None else end_us - int(moment * 1_000_000)


def _iso(us: int) -> str:
    try:
        return f"{EPOCH + timedelta(microseconds=us):%Y-%m-%dT%H:%M:%S.%fZ}"
    except OverflowError:
        return f"{us} us since 1970"
