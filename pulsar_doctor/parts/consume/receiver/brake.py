"""When a consumer sends FLOW, and for how many permits.

- A queue of N: FLOW(N) at first, then what was taken, once that is max(1, N // 2).
- A zero queue: nothing unasked. Who wants a message brings what is outstanding at the broker to
  one. A batch takes it below zero, and the broker sends nothing until it is above: after a batch of
  100 this is a FLOW(100).
- By hand: what is granted by hand, and nothing else.

Only what the broker debited is given back: an index that it knows as acknowledged (`ack_set`) costs
nothing, and Java's and the C++ client's habit of crediting it would grant a permit too many.
"""

from __future__ import annotations


class Brake:
    """Each method that may ask the broker returns the FLOW to send; 0: none."""

    __slots__ = ("_by_hand", "_queue", "outstanding", "unsent")

    def __init__(self, queue: int, *, by_hand: bool) -> None:
        self._queue = queue
        self._by_hand = by_hand
        self.outstanding = 0  # granted, less what MESSAGEs have debited
        self.unsent = 0  # taken, not yet sent as FLOW

    def first(self) -> int:
        """Right after SUBSCRIBE has succeeded."""
        return 0 if self._by_hand else self._grant(self._queue)

    def wanted(self) -> int:
        """Somebody waits, and nothing of this topic is there."""
        if self._by_hand or self._queue:
            return 0
        return self._grant(max(0, 1 - self.outstanding))

    def debited(self, permits: int) -> None:
        """A MESSAGE has come that cost so many."""
        self.outstanding -= permits

    def taken(self, permits: int) -> int:
        """What so many had been spent on has left the queue."""
        if self._by_hand or not self._queue:
            return 0
        self.unsent += permits
        if self.unsent < max(1, self._queue // 2):
            return 0
        permits, self.unsent = self.unsent, 0
        return self._grant(permits)

    def by_hand(self, permits: int) -> int:
        """The user grants."""
        return self._grant(permits)

    def _grant(self, permits: int) -> int:
        self.outstanding += permits
        return permits
