"""A connection that passes through the relay: a client and its broker.

How bytes move is in sides.py; here is which broker a client is taken to, what becomes of the
frames that are held (see rewrites.py), and what is written down. Nothing that goes wrong in that is
raised: the traffic goes on.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from pulsar_doctor import pulsar_wire_pb2 as wire
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.framing import FRAME_PADDING_BYTES, Cutter, Frame, Frames
from pulsar_doctor.relay import lookups, rewrites, tls
from pulsar_doctor.relay.addresses import Address, address_of, addresses_of
from pulsar_doctor.relay.connection_journal import ConnectionJournal
from pulsar_doctor.relay.connections import Connections
from pulsar_doctor.relay.dialling import Dialler, TargetUnreachable
from pulsar_doctor.relay.ends import Broker, Client
from pulsar_doctor.relay.greeting import Greeting
from pulsar_doctor.relay.lookups import Questions, Unfollowed
from pulsar_doctor.relay.rewrites import NotForTap, framed
from pulsar_doctor.relay.sides import TO_BROKER, TO_CLIENT, Side
from pulsar_doctor.relay.sockets import peer_address, peer_of
from pulsar_doctor.relay.targets import TargetRefused

FRAME_BYTES_MOST = 2**31 - 1  # what a column of the trace holds


def accept(connections: Connections, dialler: Dialler) -> Client:
    """A new client, of the cluster behind that dialler."""
    return RelayedConnection(connections, dialler).client


class RelayedConnection:
    """A client and its broker."""

    def __init__(self, connections: Connections, dialler: Dialler) -> None:
        self.all = connections
        self.dialler = dialler
        self.client = Client(self)
        self.broker = Broker(self)
        self.client.other, self.broker.other = self.broker, self.client
        self.closed = False
        self.greeted = False
        self._journal: ConnectionJournal | None = None
        self._parsed = True
        self._greeting = Greeting()
        self._questions = Questions()
        self._tasks: set[asyncio.Task[None]] = set()

    def admit(self) -> bool:
        """A client is there: whether it may stay."""
        self._journal = self.all.admit()
        self.closed = self._journal is None
        if not self.closed:
            self.all.open.add(self.client)
        return not self.closed

    def gone(self, side: Side) -> None:
        """A side has ended for good."""
        if side not in self.all.open:
            return
        self.all.open.discard(side)
        counters = self.all.counters
        counters.read_bytes[side.direction] += side.read_bytes
        counters.connections_open -= side is self.client

    def dial(self, broker: str) -> None:
        """Connects to the broker that the client names, "" for one of the service URL's."""
        target = address_of(broker) if broker else None
        if broker and target is None:
            self.all.counters.targets_refused += 1
            place = broker if "@" not in broker else "of that URL"  # it may hold a password
            self.close(f"refused: no lookup of this cluster named the broker {place}")
            return
        self._start(self._dial(target))

    async def _dial(self, target: Address | None) -> None:
        try:
            await self.dialler.connect(target, lambda: self.broker)
        except TargetRefused as error:
            self.all.counters.targets_refused += 1
            self.close(f"refused: {error}")
        except asyncio.CancelledError:  # uvloop then ends a transport without a connection_lost
            self.gone(self.broker)
            raise
        except Exception as error:  # DoctorError; others would be a mistake of ours
            self.all.counters.unreachable += 1
            if isinstance(error, TargetUnreachable) and error.of_tls:
                self.all.counters.tls_failed += 1
            why = str(error) if isinstance(error, DoctorError) else type(error).__name__
            self.all.say(why)
            self.close(why)

    def tls_failed(self, error: ssl.SSLError) -> None:
        """The broker ended the connection, and said why."""
        why = tls.why_not(error, peer_address(self.broker.transport))
        if why is not None and not self.greeted:
            self.all.counters.tls_failed += 1
            self.all.say(why)
            self.close(why)

    def made(self) -> None:
        """The broker is there."""
        self.all.open.add(self.broker)
        self._note(lambda journal: journal.open(*self._peers()))
        self.client.broker_is_there()

    def allow(self, message_bytes: int) -> None:
        """Sets the longest frame: a message of so many bytes and what is added to it."""
        for side in (self.client, self.broker):
            if message_bytes > 0 and side.cutter is not None:
                most = min(message_bytes + FRAME_PADDING_BYTES, FRAME_BYTES_MOST)
                side.cutter.max_frame_bytes = most

    def close(self, why: str, *, reset: bool = False) -> None:
        """Ends both ends, after what was written to them has gone out."""
        if self.closed:
            return
        self.closed = True
        self._greeting.forget()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        self._note(lambda journal: self._last_words(journal, why))
        for side in (self.client, self.broker):
            side.end(reset=reset)

    def _last_words(self, journal: ConnectionJournal, why: str) -> None:
        if not journal.opened:  # no broker was reached: what the client said is told anyway
            journal.open(*self._peers())
            for frames in self.client.first:
                journal.frames(frames, TO_BROKER)
        journal.close(why)

    def _peers(self) -> tuple[str | None, str | None]:
        return peer_of(self.client.transport), peer_of(self.broker.transport)

    def observe(self, frames: Frames, direction: int) -> None:
        """Journals what has passed. Never raises."""
        try:
            assert self._journal is not None
            self._journal.frames(frames, direction)
        except Exception as error:
            self._not_noted(error)

    def unparsed(self, error: Exception, direction: int) -> None:
        """From here on nothing can be said of this connection. Never raises."""
        self.all.counters.unparsed += self._parsed
        self._parsed = False
        self._note(lambda journal: journal.unparsed(error, direction))

    def _note(self, what: Callable[[ConnectionJournal], None]) -> None:
        """Nothing that goes wrong in writing down may reach the traffic."""
        if self._journal is None:
            return
        try:
            what(self._journal)
        except Exception as error:
            self._not_noted(error)

    def _not_noted(self, error: Exception) -> None:
        self.all.say(f"something could not be written down: {type(error).__name__}")

    def decide(self, frame: Frame, original: bytes, direction: int) -> bytes:
        """What to pass on instead of a held frame. Never raises."""
        try:
            return DECISIONS[direction][frame.code](self, frame, original)
        except Exception:  # upb's DecodeError, and more: not ours to judge
            return original

    def _connect(self, frame: Frame, original: bytes) -> bytes:
        self._greeting.said(frame.command)
        return rewrites.connect(frame, original)

    def _lookup(self, frame: Frame, original: bytes) -> bytes:
        self._questions.asked(frame.command)
        return original

    def _auth_response(self, frame: Frame, original: bytes) -> bytes:
        self._greeting.renewed(frame.command)
        return original

    def _lookup_response(self, frame: Frame, original: bytes) -> bytes:
        command = wire.BaseCommand.FromString(frame.command)
        question = self._questions.answered(command.lookup_response.request_id)
        if rewrites.is_redirect(command.lookup_response):
            self._start(self._follow(question, command.lookup_response))
            return b""
        kept = self._kept_on_tap(command)
        return original if kept is None else rewrites.reframed(kept, frame, original)

    def _kept_on_tap(self, command: Any) -> Any:
        """A LOOKUP_RESPONSE that keeps the client here; None where it may pass as it is."""
        answer = command.lookup_response
        try:
            broker = rewrites.keep_on_tap(answer, tls=self._tls)
        except NotForTap as error:
            self.all.say(str(error))
            return rewrites.not_ready(answer.request_id, str(error))
        if broker is None:
            return None
        self.dialler.targets.name(broker)
        return command

    async def _follow(self, question: bytes | None, redirect: Any) -> None:
        """Asks the broker that a redirect names, and gives the client what it answers."""
        counters = self.all.counters
        try:
            async with self.all.following:
                greeting = self._greeting.frame()
                if question is None or not greeting:
                    raise Unfollowed("the tap cannot follow a redirect of a lookup it did not see")
                answer = await lookups.follow(question, redirect, greeting, self.dialler)
            counters.redirects_followed += 1
        except Exception as error:
            counters.redirects_failed += 1
            why = str(error) if isinstance(error, DoctorError) else type(error).__name__
            answer = rewrites.not_ready(redirect.request_id, why)
        kept = self._kept_on_tap(answer)
        self._insert(framed((answer if kept is None else kept).SerializeToString()))

    def _insert(self, frame: bytes) -> None:
        if self.broker.insert(frame):
            self.observe(Cutter().feed(frame), TO_CLIENT)

    def _closing(self, frame: Frame, original: bytes) -> bytes:
        instead, broker = rewrites.without_broker(frame, original, tls=self._tls)
        if broker is not None:
            self.dialler.targets.name(broker)
        return instead

    def _topic_migrated(self, frame: Frame, original: bytes) -> bytes:
        command = wire.BaseCommand.FromString(frame.command)
        migrated = command.topic_migrated
        url = migrated.broker_service_url_tls if self._tls else migrated.broker_service_url
        brokers = addresses_of(url)
        if not brokers or self.all.migrate is None:
            return original
        address = self.all.migrate(brokers, self.client.transport, self.dialler)
        if address is None:
            return original
        rewrites.migrated_to(migrated, address)
        return rewrites.reframed(command, frame, original)

    @property
    def _tls(self) -> bool:
        return self.dialler.context is not None

    def _start(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


Decide = Callable[[RelayedConnection, Frame, bytes], bytes]
DECISIONS: dict[int, dict[int, Decide]] = {
    TO_BROKER: {
        rewrites.CONNECT: RelayedConnection._connect,
        rewrites.LOOKUP: RelayedConnection._lookup,
        rewrites.AUTH_RESPONSE: RelayedConnection._auth_response,
    },
    TO_CLIENT: {
        rewrites.LOOKUP_RESPONSE: RelayedConnection._lookup_response,
        rewrites.CLOSE_CONSUMER: RelayedConnection._closing,
        rewrites.CLOSE_PRODUCER: RelayedConnection._closing,
        rewrites.TOPIC_MIGRATED: RelayedConnection._topic_migrated,
    },
}
