"""Entries that are known to wait for a subscription that has no consumer, or sends nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from pulsar_doctor.ledger.balance import NOWHERE, Position

STEP_NS = 5_000_000_000
MARKS_KEPT = 4  # of the moments at which the last stored entry is remembered, STEP_NS apart


@dataclass(slots=True)
class Published:
    """The last entries that are known to be stored in a topic, and when their receipts came."""

    subscriptions: int = field(default=0, compare=False)  # of the topic, that are remembered
    # moments and entries, the newest last, the others STEP_NS apart
    marks: list[tuple[int, Position]] = field(default_factory=list)
    delayed_us: int = 0  # until when a message is not due

    @property
    def last(self) -> tuple[int, Position]:
        """When the last entry was stored, and which it is."""
        return self.marks[-1] if self.marks else (0, NOWHERE)

    @property
    def is_known(self) -> bool:
        """Whether anything is known of it."""
        return bool(self.marks or self.delayed_us)

    def stored(self, ns: int, position: Position) -> None:
        """A receipt came for this entry."""
        marks = self.marks
        if marks and position <= marks[-1][1]:
            return
        if len(marks) > 1 and ns - marks[-2][0] < STEP_NS:
            marks.pop()
        marks.append((ns, position))
        del marks[:-MARKS_KEPT]

    def since(self, sent: Position, ns: int | None) -> int | None:
        """When an entry beyond this one was stored, at the latest, and after ns."""
        later = (mark for mark in self.marks if ns is None or mark[0] > ns)
        return next((at for at, position in later if position > sent), None)


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """Messages that wait since the last consumer left."""

    last: str  # its label
    left_us: int  # when it left
    seconds: float  # from then to the end of the trace
    unacked: int  # that a consumer held at its end, with no acknowledgement since, at least
    published: bool  # a message was published that no consumer was sent


@dataclass(frozen=True, slots=True)
class Unsent:
    """A message was stored that no consumer was sent, though this one has had permits since."""

    who: str  # its label
    seconds: float  # for how long, at least
