"""Messages that a consumer has not delivered yet, in order of arrival or of due time.

With a receiver delay all of the queue waits together. What is due first is handed out first, and
only then gives its permit back. A message that comes again keeps its publish time: it is due at
once and precedes all others.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Generic, TypeVar

from pulsar_doctor.parts.consume.deferring import due_ms
from pulsar_doctor.parts.consume.engines import Plan
from pulsar_doctor.parts.consume.holding import now_ms

T = TypeVar("T")


class Waiting(Generic[T]):
    """Lives in the engine's loop."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._heap: list[tuple[float, int, T]] = []
        self._numbers = itertools.count()

    def __bool__(self) -> bool:
        return bool(self._heap)

    def put(self, what: T, published_ms: int, entry_id: int) -> None:
        """One more message."""
        due = 0.0
        if self._plan.receiver_delay_seconds:
            due = due_ms(self._plan, published_ms, entry_id, now_ms())
        heapq.heappush(self._heap, (due, next(self._numbers), what))

    def seconds_left(self) -> float | None:
        """Until the first is due, 0 and less: it is; None where nothing is here."""
        if not self._heap:
            return None
        due = self._heap[0][0]
        return 0.0 if not due else (due - now_ms()) / 1000

    def take(self) -> T:
        """The first, due or not."""
        return heapq.heappop(self._heap)[2]

    def drop(self, wanted: Callable[[T], bool]) -> list[T]:
        """Removes those and returns them."""
        dropped = [item[2] for item in self._heap if wanted(item[2])]
        self._heap = [item for item in self._heap if not wanted(item[2])]
        heapq.heapify(self._heap)
        return dropped

    def all(self) -> list[T]:
        """What is here, in no order."""
        return [what for _, _, what in self._heap]
