"""Who gets what is sent: the simulator's dispatchers with read-ahead, a switch, drained keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from pulsar_doctor.model.broker import READ_MOST, Dispatcher, SentEntry, Shared, SingleActive
from pulsar_doctor.model.scenario import ProducedEntry


def nothing_waits(dispatcher: Dispatcher) -> bool:
    """Whether it has sent all that there is."""
    return not any(True for _ in dispatcher._entries())


class Ahead(Shared):
    """It reads for all permits that there are, and keeps what it cannot send: the replay."""

    def __init__(self, permits: Callable[[], int]) -> None:
        super().__init__()
        self._permits = permits
        self.read = 0

    def _read(self) -> Iterator[SentEntry]:
        if self._waiting[0].number >= self.read:  # otherwise what was given back comes first
            first = next(permits for permits in self.available if permits > 0)
            count = min(max(self._permits(), first), READ_MOST, len(self._waiting))
            self.read = self._waiting[count - 1].number + 1
        yield from super()._read()


class OneActive(SingleActive):
    """All to the one that is chosen, entries for permits."""

    chosen = 0

    def active(self, consumer: int) -> bool:
        return consumer == self.chosen

    def dispatch(self) -> Iterator[SentEntry]:
        while self._waiting and self.available and self.available[self.chosen] > 0:
            yield self._spend(self.chosen, self._waiting.popleft())


class Keys(Dispatcher):
    """Each key has its owner, who gets it once nobody else holds something of it."""

    def __init__(self, may_have: Callable[[int], int | None]) -> None:
        super().__init__()
        self._may_have = may_have
        self._of: dict[int, deque[ProducedEntry]] = {}

    def add(self, entry: ProducedEntry) -> None:
        self._of.setdefault(entry.key, deque()).append(entry)

    def give_back(self, entries: Iterable[ProducedEntry]) -> None:
        for entry in sorted(entries, key=lambda entry: entry.number, reverse=True):
            self._of.setdefault(entry.key, deque()).appendleft(entry)

    def dispatch(self) -> Iterator[SentEntry]:
        for key, waiting in self._of.items():
            while waiting:
                owner = self._may_have(key)
                if owner is None or self.available[owner] <= 0:
                    break
                yield self._spend(owner, waiting.popleft())

    def _entries(self) -> Iterable[ProducedEntry]:
        return [entry for waiting in self._of.values() for entry in waiting]
