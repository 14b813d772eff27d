"""Whether a remedy has worked: the verdict before and now, and what moved in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pulsar_doctor.wording.addresses import at
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import many

Outcome = Literal["worked", "not yet", "worse", "was well", "cannot be compared"]
Became = Literal["same", "reconnected", "new", "gone"]
CONSUMERS_NAMED_MOST = 5  # in the sentence
FIRST = {"available_permits": "{} permits", "unacked_messages": "holds {}"}  # of one that is new


@dataclass(frozen=True, slots=True)
class Shift:
    """A number then and now. None: not reported, or nobody there to have it."""

    name: str
    before: int | None
    now: int | None

    def __str__(self) -> str:
        """`available permits 0 -> 100`, or `… still 0`."""
        name = self.name.replace("_", " ")
        if self.before is None:  # nobody was there to have it, or it was not reported
            return FIRST.get(self.name, f"{name} {{}}").format(_shown(self.now))
        return f"{name} still {self.now}" if self.before == self.now else (
            f"{name} {self.before} -> {_shown(self.now)}"
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ConsumerAfter:
    """One consumer."""

    consumer: str
    became: Became
    address: str | None = None  # of one that has gone, the last one
    shifts: tuple[Shift, ...] = ()
    # messages acknowledged or given back since; if it is not the same one: since it connected
    returned: int | None = None
    acked: bool | None = None  # an ack came since; None: not known

    def __str__(self) -> str:
        """The shift of a consumer in words."""
        is_ = {"same": "is the same one", "reconnected": "has connected anew", "new": "is new"}
        who = at(self.consumer, self.address)
        if self.became == "gone":
            return f"{who} has gone"
        parts = [str(shift) for shift in self.shifts if shift.now is not None]
        if self.acked is False:
            parts.append("nothing acknowledged since")
        elif self.returned is not None:
            since = {"same": " since", "reconnected": " since it connected"}.get(self.became, "")
            parts.append(f"{self.returned} acknowledged or given back{since}")
        return f"{who} {is_[self.became]}{': ' if parts else ''}{', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class After:
    """What became of one subscription."""

    outcome: Outcome
    why: str
    before: str | None = None  # the verdict then
    seconds: float | None = None  # between both readings; None: not known
    shifts: tuple[Shift, ...] = ()
    consumers: tuple[ConsumerAfter, ...] = ()
    blamed: str = ""  # a sentence: whether the consumer that was named then was restarted

    def __str__(self) -> str:
        """`worked: stalled permits-exhausted of worker-1 -> healthy, 2 min later; backlog …`."""
        return "; ".join(self.lines())

    def lines(self) -> list[str]:
        """The outcome, whether the consumer that was named then was restarted, what moved."""
        later = f", {duration(self.seconds)} later" if self.seconds is not None else ""
        moved = [str(each) for each in (*self.shifts, *self.consumers[:CONSUMERS_NAMED_MOST])]
        if len(self.consumers) > CONSUMERS_NAMED_MOST:
            more = len(self.consumers) - CONSUMERS_NAMED_MOST
            moved.append(f"and {many(more, 'more consumer')}")
        lines = (f"{self.outcome}: {self.why}{later}", self.blamed, "; ".join(moved))
        return [line for line in lines if line]


def _shown(number: int | None) -> str:
    return "not reported" if number is None else str(number)
