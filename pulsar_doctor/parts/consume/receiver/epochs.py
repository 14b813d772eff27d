"""What a consumer may deliver after REDELIVER: nothing lost, nothing twice.

Theory of operation
-------------------
On Exclusive and Failover a refusal asks the broker for all that is not acknowledged. The client
counts such requests, its *consumer epoch* (PIP-84): SUBSCRIBE and REDELIVER tell it, each MESSAGE
carries that of the read it comes from, and a client drops what is of an older one: it was on its
way before the request, and comes again. Mostly.

The broker raises the epoch, rewinds its cursor and reads; a read that is under way *survives*, with
the old epoch, and sets the cursor behind what it has read (docs/permits.md, part 6, says where).
Which comes first is chance:

- the survivor sets the cursor after the rewind, or after the first new read: what lies between is
  read no more. Its own entries come in the old epoch, others not at all. A client that drops by
  epoch has lost them until it connects again;
- a new read sets the cursor back after the survivor: entries come twice in one epoch.

Permits are no part of it: a REDELIVER leaves them alone, so each MESSAGE that is not handed out
gives its permits back at once. The broker may also take no notice of a REDELIVER: it is not for the
active consumer, or a rewind is due anyway. The epoch is raised all the same (#14716), and all comes
again with the next rewind.

So what was handed out and is not acknowledged is remembered, and REDELIVER drops none of it but
*holds* it, as it holds what comes in an older epoch. What is held

- is dropped when it comes in the present epoch, or is acknowledged: by itself or by a cumulative
  acknowledgement of something behind it;
- is handed out before a higher position of the present epoch, since reads go upward: it will not
  come; or when all has been quiet for QUIET_SECONDS while the broker had permits (the caller tells:
  `overdue`). Should it come after all, it comes twice.

What comes twice in one epoch is handed out once, what was acknowledged never again. Another active
consumer of a Failover subscription gets all of it: then nothing is held (`stood_by`), as after a
lost connection or a seek, which begin a new incarnation (`begin`).

Bound: of each kind (handed out, held, acknowledged) the newest `most` positions are remembered,
which is more than a receiver queue and a batch can hold. What lies beyond is as with other clients:
it comes again, but for the race; and where the broker sends it twice it is handed out twice.

Changed in place; knows neither sockets nor time.
"""

from __future__ import annotations

import heapq
from typing import Any

from pulsar_doctor.parts.consume.receiver.entries import Entry, Position

QUIET_SECONDS = 2.0  # the delay of a broker's rewind (a second) and a read
REMEMBERED = 10_000  # positions, beside those of the receiver queue


class Epochs:
    """What one consumer may deliver, over its incarnations."""

    def __init__(self, most: int) -> None:
        self.number = 0  # the consumer epoch
        self._most = most
        self.begin()

    def begin(self) -> None:
        """A new incarnation: all that is not acknowledged comes again."""
        self.stood_by()
        self._acknowledged: dict[Position, None] = {}
        self._covered: Position = (-1, -1)  # by a cumulative acknowledgement, up to here

    def stood_by(self) -> None:
        """Another consumer gets everything, or has got it."""
        self._out: dict[Position, Entry] = {}  # handed out in this epoch
        self._held: dict[Position, Entry] = {}  # under each of its positions
        self._order: list[Position] = []  # of what is held, as a heap, and of what was
        self._highest: Position = (-1, -1)  # that has come in this epoch

    @property
    def holds(self) -> bool:
        """Whether anything waits to come again."""
        return bool(self._held)

    def arrived(self, entry: Entry, epoch: int) -> list[Entry]:
        """What is to be handed out now, in order; without `entry`: that is not, or not yet."""
        [position] = entry.positions
        if position <= self._covered or position in self._acknowledged or position in self._out:
            return []
        if epoch >= self.number:
            return self._came(position, entry)
        self._hold(position, entry)
        return self._release(self._highest)  # what has been passed already

    def _came(self, position: Position, entry: Entry) -> list[Entry]:
        self._highest = max(self._highest, position)
        due = self._release(position)
        held = self._held.get(position)
        if held is not None and len(held.positions) > 1:  # it has been put together before
            return due + (self._release_one(held) if position == held.positions[-1] else [])
        self._held.pop(position, None)
        return [*due, *self._handed_out(entry)]

    def again(self) -> list[Entry]:
        """REDELIVER: from here on another epoch counts. What is held now, in no order."""
        self.number += 1
        held = self._held | self._out
        self.stood_by()
        for position in sorted(held):
            if position > self._covered:
                self._hold(position, held[position])
        return list(self._held.values())

    def joined(self, whole: Entry) -> None:
        """Chunks that were handed out one by one have become a message."""
        for position in whole.positions:
            if position in self._out:
                self._out[position] = whole

    def acknowledged(self, positions: tuple[Position, ...]) -> None:
        """By themselves."""
        for position in positions:
            self._out.pop(position, None)
            self._held.pop(position, None)
            self._acknowledged[position] = None
        _forget(self._acknowledged, self._most)

    def covered(self, position: Position, *, partly: bool) -> None:
        """By a cumulative acknowledgement. partly: of the entry itself only some messages."""
        ledger_id, entry_id = position
        self._covered = max(self._covered, (ledger_id, entry_id - partly))
        for known in (self._out, self._held):
            while known and (first := next(iter(known))) <= self._covered:
                del known[first]

    def overdue(self) -> list[Entry]:
        """Every message that is held, in order, to be handed out."""
        return self._release((1 << 64, 0))

    def _hold(self, position: Position, entry: Entry) -> None:
        if position not in self._held:  # the one before knows what of it is acknowledged
            self._held[position] = entry
            heapq.heappush(self._order, position)
            _forget(self._held, self._most)

    def _release(self, before: Position) -> list[Entry]:
        due: list[Entry] = []
        while self._order and self._order[0] < before:
            position = heapq.heappop(self._order)
            held = self._held.get(position)
            if held is not None and position == held.positions[-1]:
                due += self._release_one(held)
        return due

    def _release_one(self, held: Entry) -> list[Entry]:
        for position in held.positions:
            self._held.pop(position, None)
        return self._handed_out(held) if held.positions[-1] > self._covered else []

    def _handed_out(self, entry: Entry) -> list[Entry]:
        self._out.update(dict.fromkeys(entry.positions, entry))
        _forget(self._out, self._most)
        return [entry]


def _forget(known: dict[Position, Any], most: int) -> None:
    if len(known) > most:
        del known[next(iter(known))]
