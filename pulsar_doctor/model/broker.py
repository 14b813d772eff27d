"""The simulated broker: which consumer gets which entries."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from pulsar_doctor.model.scenario import ProducedEntry

READ_MOST = 100  # entries: dispatcherMaxReadBatchSize
ROUND_ROBIN_MOST = 20  # entries: dispatcherMaxRoundRobinBatchSize

SentEntry = tuple[int, ProducedEntry]  # consumer, entry


class Dispatcher:
    """Entries that wait, and the permits of each consumer as the broker has them. In place."""

    def __init__(self) -> None:
        self.available: list[int] = []
        self._waiting: deque[ProducedEntry] = deque()

    @property
    def backlog(self) -> int:
        """Messages that nobody has got."""
        return sum(entry.messages for entry in self._entries())

    def attach(self) -> None:
        """One more consumer, without permits."""
        self.available.append(0)

    def add(self, entry: ProducedEntry) -> None:
        """One more entry may be sent."""
        self._waiting.append(entry)

    def give_back(self, entries: Iterable[ProducedEntry]) -> None:
        """Entries that a consumer did not finish: they come before all others, in their order."""
        back = sorted(entries, key=lambda entry: entry.number, reverse=True)
        self._waiting.extendleft(back)

    def flow(self, consumer: int, permits: int) -> None:
        """A FLOW has come."""
        self.available[consumer] += permits

    def active(self, consumer: int) -> bool:
        """Whether it is sent anything."""
        return True

    def dispatch(self) -> Iterator[SentEntry]:
        """What is sent now, in order; spends permits."""
        raise NotImplementedError

    def _entries(self) -> Iterable[ProducedEntry]:
        return self._waiting

    def _spend(self, consumer: int, entry: ProducedEntry) -> SentEntry:
        self.available[consumer] -= entry.messages
        return consumer, entry


class Shared(Dispatcher):
    """Consumers in turn (PersistentDispatcherMultipleConsumers.trySendMessagesToConsumers)."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0

    def dispatch(self) -> Iterator[SentEntry]:
        while self._waiting and max(self.available, default=0) > 0:
            yield from self._read()

    def _read(self) -> Iterator[SentEntry]:
        first = next(permits for permits in self.available if permits > 0)
        count = min(max(sum(self.available), first), READ_MOST, len(self._waiting))
        read = [self._waiting.popleft() for _ in range(count)]
        remaining = sum(entry.messages for entry in read)
        average = max(1, remaining // count)
        start = 0
        while start < count and (consumer := self._turn()) is not None:
            messages = min(remaining, self.available[consumer])
            entries = min(-(-messages // average), ROUND_ROBIN_MOST)
            for entry in read[start : start + entries]:
                remaining -= entry.messages
                yield self._spend(consumer, entry)
            start += entries
        self._waiting.extendleft(reversed(read[start:]))

    def _turn(self) -> int | None:
        """The next consumer that has permits; None where nobody has."""
        everyone = len(self.available)
        for step in range(everyone):
            consumer = (self._next + step) % everyone
            if self.available[consumer] > 0:
                self._next = consumer + 1
                return consumer
        return None


class SingleActive(Dispatcher):
    """Sends all entries to the first consumer, as PersistentDispatcherSingleActiveConsumer."""

    def active(self, consumer: int) -> bool:
        return consumer == 0

    def dispatch(self) -> Iterator[SentEntry]:
        while self._waiting and self.available and self.available[0] > 0:
            for _ in range(min(self.available[0], READ_MOST, len(self._waiting))):
                yield self._spend(0, self._waiting.popleft())


class KeyShared(Dispatcher):
    """Each key has its consumer; who joins takes over keys of what was not sent yet."""

    def __init__(self) -> None:
        super().__init__()
        self._of: list[deque[ProducedEntry]] = []

    def attach(self) -> None:
        waiting = sorted(self._entries(), key=lambda entry: entry.number)
        super().attach()
        self._of = [deque() for _ in self.available]
        self._waiting.clear()
        for entry in waiting:
            self.add(entry)

    def add(self, entry: ProducedEntry) -> None:
        if self._of:
            self._of[entry.key % len(self._of)].append(entry)
        else:
            self._waiting.append(entry)

    def dispatch(self) -> Iterator[SentEntry]:
        for consumer, waiting in enumerate(self._of):
            while waiting and self.available[consumer] > 0:
                yield self._spend(consumer, waiting.popleft())

    def _entries(self) -> Iterable[ProducedEntry]:
        return [*self._waiting, *(entry for waiting in self._of for entry in waiting)]


DISPATCHERS: dict[str, type[Dispatcher]] = {
    "shared": Shared,
    "exclusive": SingleActive,
    "failover": SingleActive,
    "key_shared": KeyShared,
}
