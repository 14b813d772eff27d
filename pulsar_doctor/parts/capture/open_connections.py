"""Keeps the open connections of a capture, by address pair, with a limit on their number.

A connection is visited where a packet has left something undone, and then when time alone may do
it; the others cost nothing. Whoever may send packets could open as many as there are ports, so they
are let go: one that has sent no data after MUTE_NS or when MUTE_MOST of them are there, so that a
port scan pushes no other away; any other one without a packet for IDLE_NS, or twice that, since it
is checked so seldom (both ends ping each 30 seconds), or when CONNECTIONS_MOST are there, the
longest silent first, as far as is known.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count

from pulsar_doctor.parts.capture.connections import CapturedConnection, Sides

MUTE_NS = 60 * 10**9
IDLE_NS = 15 * MUTE_NS
MUTE_MOST = 5_000
CONNECTIONS_MOST = 20_000


class OpenConnections:
    """Changed in place. waiting_bytes of each are those of the last look at it."""

    def __init__(self) -> None:
        self._all: OrderedDict[Sides, CapturedConnection] = OrderedDict()  # by `kept_ns`
        self._mute: dict[Sides, CapturedConnection] = {}  # and some that have spoken since
        self._restless: dict[Sides, CapturedConnection] = {}
        self._due: list[tuple[int, int, Sides, CapturedConnection]] = []
        self._pushed = count()
        self._waiting: dict[Sides, int] = {}

    def __contains__(self, sides: Sides) -> bool:
        return sides in self._all

    def __iter__(self) -> Iterator[CapturedConnection]:
        return iter(self._all.values())

    def get(self, sides: Sides) -> CapturedConnection | None:
        """The connection between these two."""
        return self._all.get(sides)

    def add(self, connection: CapturedConnection, now_ns: int) -> None:
        """One that has begun, or that was there before."""
        connection.begun_ns = connection.kept_ns = connection.packet_ns = now_ns
        self._all[connection.sides] = self._mute[connection.sides] = connection

    def remove(self, connection: CapturedConnection) -> None:
        """One that has ended, or was let go."""
        sides = connection.sides
        for some in (self._all, self._mute, self._restless, self._waiting):
            some.pop(sides, None)

    def touched(self, connection: CapturedConnection) -> None:
        """A packet has left something undone."""
        self._restless[connection.sides] = connection

    def due(self, now_ns: int) -> Iterator[CapturedConnection]:
        """The connections to visit now; pass each to `looked_at` then, or remove it."""
        due, self._restless = self._restless, {}
        while self._due and self._due[0][0] <= now_ns:
            due_ns, _, sides, connection = heappop(self._due)
            if connection.due_ns == due_ns and self._all.get(sides) is connection:
                connection.due_ns = None
                due[sides] = connection
        return iter(due.values())

    def looked_at(self, connection: CapturedConnection, now_ns: int) -> None:
        """It has been; it is due again when time alone may change it."""
        if connection.waiting_bytes:
            self._waiting[connection.sides] = connection.waiting_bytes
        else:
            self._waiting.pop(connection.sides, None)
        due_ns = connection.changes_ns(now_ns)
        if due_ns is not None and (connection.due_ns is None or due_ns < connection.due_ns):
            connection.due_ns = due_ns
            heappush(self._due, (due_ns, next(self._pushed), connection.sides, connection))

    @property
    def waiting_bytes(self) -> int:
        """What all of them hold."""
        return sum(self._waiting.values())

    def by_waiting_bytes(self) -> list[CapturedConnection]:
        """The connections that hold something, who holds most first."""
        most_first = sorted(self._waiting, key=lambda sides: -self._waiting[sides])
        return [self._all[sides] for sides in most_first]

    def mute(self, now_ns: int) -> Iterator[CapturedConnection]:
        """The connections to let go since they have sent no data; each is to be removed."""
        while self._mute:
            sides, connection = next(iter(self._mute.items()))
            if connection.is_mute:
                if now_ns - connection.begun_ns < MUTE_NS and len(self._mute) <= MUTE_MOST:
                    return
                yield connection
            self._mute.pop(sides, None)

    def idle(self, now_ns: int) -> Iterator[CapturedConnection]:
        """The connections to let go since nothing is heard of them; each is to be removed."""
        while self._all:
            sides, connection = next(iter(self._all.items()))
            crowded = len(self._all) > CONNECTIONS_MOST
            if now_ns - connection.kept_ns < IDLE_NS and not crowded:
                return
            if connection.packet_ns > connection.kept_ns:
                connection.kept_ns = now_ns
                self._all.move_to_end(sides)
            else:
                yield connection
