"""Decides what passes between a client and its broker, and what is recorded.

Bytes come in and bytes go out; what else is to be done is in `errands`, for whoever holds the
sockets (connection.py). Bytes move first: `receive` returns what is passed on, and `settle`, called
when it is sent, draws the consequences. No socket, no event loop and no clock are known here: the
time is an argument. No failure of recording is raised: the traffic continues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pulsar_doctor.parts.tap.relay import rewrites
from pulsar_doctor.parts.tap.relay.addresses import NOT_NAMED, Address, Way, address_of
from pulsar_doctor.parts.tap.relay.connection_journal import ConnectionJournal, Time
from pulsar_doctor.parts.tap.relay.decisions import Decisions, Migrate, StandIn
from pulsar_doctor.parts.tap.relay.errands import (
    Close,
    Dial,
    EndBoth,
    Errand,
    Follow,
    Pass,
    SayAloud,
)
from pulsar_doctor.parts.tap.relay.first_words import FirstWords
from pulsar_doctor.parts.tap.relay.lookups import Following
from pulsar_doctor.parts.tap.relay.passage import NOTHING, TO_BROKER, TO_CLIENT, Passage
from pulsar_doctor.wire.framing import FRAME_PADDING_BYTES, Cutter, Frames

HOME = Way()
SILENT = "closed by the tap: the client did not say CONNECT"
FRAME_BYTES_MOST = 2**31 - 1  # what a column of the trace holds
CONNECTED = 3
NAMES = {TO_BROKER: "client", TO_CLIENT: "broker"}  # of whoever speaks in this direction


@dataclass(slots=True)
class RelayCounters:
    """Counts over all connections since the relay began, beside those of its journal.

    Changes in place.
    """

    connections_opened: int = 0
    connections_open: int = 0
    connections_refused: int = 0
    connections_silent: int = 0
    targets_refused: int = 0
    unreachable: int = 0
    tls_failed: int = 0
    client_tls_failed: int = 0
    redirects_followed: int = 0
    redirects_failed: int = 0
    unparsed: int = 0
    read_bytes: list[int] = field(default_factory=lambda: [0, 0])  # by direction, of ended sides


class Conversation:
    """A client and its broker. tls: whether brokers are dialled with TLS.

    way_to: how to reach a broker that a client names. home: the same for a client that names none.
    """

    def __init__(
        self,
        counters: RelayCounters,
        *,
        tls: bool = False,
        migrate: Migrate | None = None,
        stand_in: StandIn | None = None,
        way_to: Callable[[Address], Way] = Way,
        home: Way = HOME,
    ) -> None:
        self.errands: list[Errand] = []
        # The broker is there; it has sent CONNECTED; it is over, for both.
        self.open = self.greeted = self.closed = False
        self._decisions = Decisions(self.errands, tls=tls, migrate=migrate, stand_in=stand_in)
        self._way_to = way_to
        self._home = home
        decide = self._decisions.decide
        self.to_broker = Passage(rewrites.HELD_TO_BROKER, TO_BROKER, decide)
        self.to_client = Passage(rewrites.HELD_TO_CLIENT, TO_CLIENT, decide)
        self._first = FirstWords(self.to_broker)
        self._counters = counters
        self._dialled = False
        self._parsed = True
        self._notes: ConnectionJournal | None = None
        self._client: str | None = None
        self._broker: str | None = None

    def client_came(self, notes: ConnectionJournal | None, address: str | None) -> None:
        """A client is there. notes: what is written down of it; None where it may not stay."""
        self._notes = notes
        self._client = address
        self.closed = notes is None

    def from_client(self, data: bytes) -> bytes:
        """What the broker gets now that the client has sent this. Until it is there, all waits."""
        if self.open:
            return self.to_broker.receive(data)
        if not self.closed:
            self._first.add(data)
            self.to_broker.news = True
        return b""

    def broker_came(self, address: str | None) -> bytes:
        """The broker is there: what it gets at once."""
        self.open = True
        self._broker = address
        return self._first.release()

    def opened(self, now: Time) -> None:
        """The consequences of that, when those bytes have gone out."""
        self._note(lambda notes: notes.open(self._client, self._broker, now))
        first, self._first.frames = self._first.frames, []
        for frames in first:
            self._passed(frames, TO_BROKER, now)
        if self.to_broker.failed is not None:
            self._cut_no_more(self.to_broker, self.to_broker.failed, now)
        if self.to_broker.ended:
            self._end(self.to_broker)

    def settle(self, way: Passage, now: Time) -> None:
        """The consequences of what was received last, where there was news. Never raises."""
        if not self.open:
            if self._first.enough:
                self._dial(now)
            return
        frames, way.frames = way.frames, NOTHING  # or the next read would need room beside these
        if way is self.to_client and not self.greeted:
            self._learn(frames)
        self._passed(frames, way.direction, now)
        if way.failed is not None:
            self._cut_no_more(way, way.failed, now)

    def ended(self, way: Passage, now: Time) -> None:
        """Nothing comes any more in this direction; what was kept back is sent, then the end
        itself.

        What a client sends before it hangs up reaches the broker, however little it is.
        """
        way.ended = True
        if not self.open:
            if self._first:
                self._dial(now)
            return
        self._end(way)
        if self.to_broker.ended and self.to_client.ended:
            self.close(f"closed by the {NAMES[1 - way.direction]}", now)

    def say_something(self, now: Time) -> None:
        """The client has had its time to say where it wants to go."""
        if not (self._dialled or self.closed):
            self._counters.connections_silent += 1
            self.close(SILENT, now)

    @property
    def dialling(self) -> bool:
        """Whether the broker is waited for."""
        return self._dialled and not self.open and not self.closed

    def lost(self, way: Passage, now: Time, *, reset: bool) -> None:
        """Whoever spoke in this direction is gone: that is the end of both."""
        how = "reset" if reset else "closed"
        self.close(f"{how} by the {NAMES[way.direction]}", now, reset=reset)

    def refused(self, why: str, now: Time) -> None:
        """The broker that the client wants may not be dialled."""
        self._counters.targets_refused += 1
        self.close(f"refused: {why}", now)

    def unreachable(self, why: str, now: Time, *, of_tls: bool = False) -> None:
        """No broker could be connected to. of_tls: since TLS with it failed."""
        self._counters.unreachable += 1
        self._counters.tls_failed += of_tls
        self._give_up(why, now)

    def tls_failed(self, why: str, now: Time) -> None:
        """The broker has hung up in the middle of TLS, with a reason."""
        if not self.greeted:
            self._counters.tls_failed += 1
            self._give_up(why, now)

    def close(self, why: str, now: Time, *, reset: bool = False) -> None:
        """Ends both ends, after what was written to them has gone out."""
        if self.closed:
            return
        self.closed = True
        self._decisions.forget()
        self._note(lambda notes: self._last_words(notes, why, now))
        self.errands.append(Close(reset))

    def following(self, errand: Follow) -> Following:
        """How a redirect is followed. Raises Unfollowed."""
        return self._decisions.following(errand)

    def followed(self, answer: Any, now: Time) -> None:
        """The answer to a redirected lookup, a LOOKUP_RESPONSE."""
        self._counters.redirects_followed += 1
        self._insert(self._decisions.followed(answer), now)

    def unfollowed(self, errand: Follow, why: str, now: Time) -> None:
        """There is none: the client gets a request to try again."""
        self._counters.redirects_failed += 1
        answer = rewrites.not_ready(errand.redirect.request_id, why)
        self._insert(self._decisions.followed(answer), now)

    def _insert(self, frame: bytes, now: Time) -> None:
        out = None if self.closed else self.to_client.insert(frame)
        if out is None:
            return
        if out:
            self.errands.append(Pass(out, TO_CLIENT))
        self._passed(Cutter().feed(frame), TO_CLIENT, now)

    def _dial(self, now: Time) -> None:
        if self._dialled or self.closed:
            return
        self._dialled = True
        wanted = self._first.wanted
        broker = address_of(wanted) if wanted else None
        if wanted and broker is None:
            self.refused(NOT_NAMED, now)
            return
        self._decisions.way = self._home if broker is None else self._way_to(broker)
        self.errands.append(Dial(self._decisions.way.dial))

    def _end(self, way: Passage) -> None:
        if kept := way.rest():
            self.errands.append(Pass(kept, way.direction))
        self.errands.append(EndBoth(way.direction))

    def _give_up(self, why: str, now: Time) -> None:
        self.errands.append(SayAloud(why))
        self.close(why, now)

    def _learn(self, frames: Frames) -> None:
        """The longest message of this broker, from its CONNECTED."""
        for frame in frames:
            if frame.code == CONNECTED:
                self.greeted = True
                longest = rewrites.longest_message(frame)
                if longest > 0:
                    most = min(longest + FRAME_PADDING_BYTES, FRAME_BYTES_MOST)
                    self.to_broker.allow(most)
                    self.to_client.allow(most)

    def _cut_no_more(self, way: Passage, error: Exception, now: Time) -> None:
        """From now on everything passes as it comes."""
        # Without a CONNECTED it may not be Pulsar at all: then the other way keeps nothing back.
        ways = (way,) if self.greeted else (self.to_broker, self.to_client)
        for each in ways:
            if kept := each.let_go():
                self.errands.append(Pass(kept, each.direction))
        self._counters.unparsed += self._parsed
        self._parsed = False
        self._note(lambda notes: notes.unparsed(error, way.direction, now))

    def _passed(self, frames: Frames, direction: int, now: Time) -> None:
        if self._notes is not None and frames.codes:
            try:
                self._notes.frames(frames, direction, now)
            except Exception as error:
                self._not_noted(error)

    def _last_words(self, notes: ConnectionJournal, why: str, now: Time) -> None:
        if not notes.opened:  # no broker was reached: what the client sent is recorded anyway
            notes.open(self._client, self._broker, now)
            for frames in self._first.frames:
                notes.frames(frames, TO_BROKER, now)
        notes.close(why, now)

    def _note(self, what: Callable[[ConnectionJournal], None]) -> None:
        """No failure of recording may reach the traffic."""
        if self._notes is None:
            return
        try:
            what(self._notes)
        except Exception as error:
            self._not_noted(error)

    def _not_noted(self, error: Exception) -> None:
        self.errands.append(
            SayAloud(f"something could not be written down: {type(error).__name__}")
        )
