"""One simulated consumer: its queue, its permits, its work."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from pulsar_doctor.ledger.balance import Ledger
from pulsar_doctor.ledger.clients import ClientLibrary
from pulsar_doctor.model.scenario import ProducedEntry


def refill_threshold(receiver_queue_size: int) -> int:
    """Messages from one FLOW to the next: half the queue, at least 1."""
    return max(1, receiver_queue_size // 2)


def flow_gap_seconds(receiver_queue_size: int, process_seconds: float) -> float:
    """From one FLOW to the next, half a queue of messages: so long there are no permits."""
    return refill_threshold(receiver_queue_size) * process_seconds


class Queued(NamedTuple):
    """A message in a client's queue."""

    message: int
    entry: ProducedEntry
    delivered_ns: int
    idle_ns: int  # how long others had been idle when it came


class SentFlow(NamedTuple):
    """A FLOW."""

    at_ns: int
    permits: int
    taken: int  # messages that the application had received by then, with this one


class SimulatedConsumer:
    """One consumer of a simulation. Changed in place."""

    def __init__(
        self, index: int, name: str, client: ClientLibrary, receiver_queue_size: int
    ) -> None:
        self.index = index
        self.name = name
        self.client = client
        self.threshold = refill_threshold(receiver_queue_size)
        self.ahead_most = client.ahead if receiver_queue_size else 0
        self.ledger = Ledger()  # its own, as the timeline keeps it, once it has subscribed

        self.queue: deque[Queued] = deque()
        self.ahead: deque[Queued] = deque()
        self.asking = False  # the application waits for a message
        self.unsent = 0
        self.flows: list[SentFlow] = []  # that it has sent

        self.received = 0
        self.finished = 0
        self.queued_most = 0
        self.wait_ns = 0  # the longest that a message was in the queue
        self.beside_idle_ns = 0  # the same, while another consumer had nothing to do
        self.stall_ns = 0  # longest without permits while it owed some and worked
        self._stalled_since_ns: int | None = None

    @property
    def queued(self) -> int:
        """Messages in its queue, without those that have been given back already."""
        return len(self.queue)

    @property
    def holds(self) -> int:
        """The messages that it has and the application has not received."""
        return self.queued + len(self.ahead)

    def put(self, queued: Queued) -> None:
        """A message has come."""
        self.queue.append(queued)
        self.queued_most = max(self.queued_most, self.holds)

    def move_ahead(self) -> bool:
        """Moves a message towards the application; False where none is there, or no room."""
        if not self.queue or len(self.ahead) >= self.ahead_most:
            return False
        self.ahead.append(self.queue.popleft())
        return True

    def take(self) -> Queued | None:
        """The next message for the application; None where none is there."""
        source = self.ahead if self.ahead_most else self.queue
        return source.popleft() if source else None

    def look(self, now_ns: int) -> None:
        """Something has changed: keeps for how long it has been stalled."""
        if self.unsent and self.ledger.available_permits <= 0 and not self.asking:
            if self._stalled_since_ns is None:
                self._stalled_since_ns = now_ns
        elif self._stalled_since_ns is not None:
            self._end_stall(now_ns)

    def waited(self, queued: Queued, now_ns: int, idle_ns: int) -> None:
        """A message has left the queue, or is still there at the end."""
        self.wait_ns = max(self.wait_ns, now_ns - queued.delivered_ns)
        self.beside_idle_ns = max(self.beside_idle_ns, idle_ns - queued.idle_ns)

    def end(self, now_ns: int, idle_ns: int) -> None:
        """Counts what lasts at the end up to there."""
        if self._stalled_since_ns is not None:
            self._end_stall(now_ns)
        for queued in (*self.queue, *self.ahead):
            self.waited(queued, now_ns, idle_ns)

    def _end_stall(self, now_ns: int) -> None:
        self.stall_ns = max(self.stall_ns, now_ns - (self._stalled_since_ns or 0))
        self._stalled_since_ns = None
