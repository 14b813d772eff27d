"""What is known to wait for a subscription that nobody is attached to any more."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.ledger.balance import NOWHERE, Position


@dataclass(slots=True)
class Published:
    """The last entry that is known to be stored in a topic, and when its receipt came.

    subscriptions: how many subscriptions of the topic are remembered.
    """

    subscriptions: int = 0
    ns: int = 0
    last: Position = NOWHERE


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """Messages that wait since the last consumer left.

    last: its label. left_us: when it left. seconds: how long ago that was when the trace ended.
    unacked: messages that a consumer held at its end, if nobody has acknowledged any since then, at
    least. published: whether a message was published that no consumer was sent.
    """

    last: str
    left_us: int
    seconds: float
    unacked: int
    published: bool
