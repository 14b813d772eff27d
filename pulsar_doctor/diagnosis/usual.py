"""What is normal for a subscription at this hour, as a record of earlier days shows it.

It is evidence for whoever reads the verdict. It changes no status and no share: what rests for
longer than its place allows may be the same fault as yesterday.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pulsar_doctor.wording.printable import many

DAYS_LEAST = 5  # with fewer, no habit is known
MOSTLY, HARDLY = 0.8, 0.1  # of the days: at least, at most
UsualSays = Literal["usual", "sometimes", "not-usual", "not-known"]


@dataclass(frozen=True, slots=True)
class UsualHour:
    """One hour of the day (UTC) of one subscription, on the earlier days that are known."""

    days: int = 0
    # messages waited, and nothing was sent or acknowledged: whenever it was seen in that hour, and
    # no stall or warning was found
    resting_days: int = 0
    quiet_days: int = 0  # nothing came in
    not_well_days: int = 0  # a stall or a warning was found
    comes_in: float | None = None  # messages a second; the median of the days; None: not known

    @property
    def says(self) -> UsualSays:
        """Whether it usually rests at this hour."""
        if self.days < DAYS_LEAST:
            return "not-known"
        share = self.resting_days / self.days
        return "usual" if share >= MOSTLY else "not-usual" if share <= HARDLY else "sometimes"


@dataclass(frozen=True, slots=True)
class Usual:
    """What is normal at an hour. since, until: the hours around it in which resting is usual."""

    hour: int
    of: UsualHour
    rests: bool  # now: messages wait, and nothing is sent or acknowledged
    since: int | None = None
    until: int | None = None
    recorded: bool = True  # any hour at all

    def __str__(self) -> str:
        """What it says of now, in a sentence."""
        if not self.recorded:
            return "not known: no finished hour is recorded yet"
        of, at = self.of, f"between {_clock(self.hour)} and {_clock(self.hour + 1)} UTC"
        if of.says == "not-known":
            return f"not known: the record has {many(of.days, 'earlier day')} {at}"
        bad = f"; a stall or a warning on {of.not_well_days}" if of.not_well_days else ""
        days = f"{of.days} days {at}"
        if not self.rests:
            rate = "" if of.comes_in is None else f"{of.comes_in:.2g} messages/s come in, "
            return f"{rate}nothing on {of.quiet_days} of {days}{bad}"
        often = f"{of.says.replace('-', ' ')} here: on {of.resting_days} of {days}{bad}"
        hours = ""
        if self.since is not None and self.until is not None:
            at_night = f"from {_clock(self.since)} to {_clock(self.until)}"
            hours = f"; most days {'at any hour' if self.since == self.until else at_night}"
        return f"silence while messages wait is {often}{hours}"


def _clock(hour: int) -> str:
    return f"{hour % 24:02d}:00"
