"""One connection through the relay: its two sockets and their conversation.

What is decided is in conversation.py, how bytes move in sides.py; here it is done: brokers are
dialled, redirects of lookups followed, on a connection for each request, and ends closed. No
failure of that is raised: the traffic continues.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine
from typing import Any, cast

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.tap.relay import tls
from pulsar_doctor.parts.tap.relay.addresses import Address, Way
from pulsar_doctor.parts.tap.relay.connections import Connections
from pulsar_doctor.parts.tap.relay.conversation import HOME, Conversation
from pulsar_doctor.parts.tap.relay.dialling import Dialler, TargetUnreachable
from pulsar_doctor.parts.tap.relay.errands import (
    Close,
    Dial,
    EndBoth,
    Errand,
    Follow,
    Name,
    Pass,
    SayAloud,
)
from pulsar_doctor.parts.tap.relay.journal_file import moment
from pulsar_doctor.parts.tap.relay.lookups import Following, Inquiry
from pulsar_doctor.parts.tap.relay.passage import TO_BROKER
from pulsar_doctor.parts.tap.relay.sides import (
    ITS_BROKER,
    Broker,
    Client,
    Side,
    peer_address,
    peer_of,
)
from pulsar_doctor.parts.tap.relay.targets import TargetRefused

SILENT_SECONDS = 30.0  # for a CONNECT, as a broker waits for it
FOLLOW_SECONDS = 10.0


def accept(connections: Connections, dialler: Dialler, home: Way = HOME) -> Client:
    """A new client, of the cluster behind that dialler. home: its broker where it names none."""
    return RelayedConnection(connections, dialler, home).client


class RelayedConnection:
    """A client and its broker."""

    def __init__(self, connections: Connections, dialler: Dialler, home: Way) -> None:
        self.all = connections
        self.dialler = dialler
        self.talk = Conversation(
            connections.counters,
            tls=dialler.context is not None,
            migrate=self._migrate,
            stand_in=self._stand_in,
            way_to=self._way_to,
            home=home,
        )
        self.client = Client(self)
        self.broker = Broker(self)
        self.client.other, self.broker.other = self.broker, self.client
        self._tasks: set[asyncio.Task[None]] = set()
        self._patience: asyncio.TimerHandle | None = None

    def admit(self) -> bool:
        """A client is there: whether it may stay."""
        self.talk.client_came(self.all.admit(), peer_of(self.client.transport))
        if not self.talk.closed:
            self.all.open.add(self.client)
            loop = asyncio.get_running_loop()
            self._patience = loop.call_later(SILENT_SECONDS, self._expect_words)
        return not self.talk.closed

    def _expect_words(self) -> None:
        self.talk.say_something(moment())
        self.run_errands()

    def made(self) -> None:
        """The broker is there."""
        self.all.open.add(self.broker)
        self.client.need_not_wait_for(ITS_BROKER)

    def gone(self, side: Side) -> None:
        """A side has ended for good."""
        if side not in self.all.open:
            return
        self.all.open.discard(side)
        counters = self.all.counters
        counters.read_bytes[side.direction] += side.read_bytes
        counters.connections_open -= side is self.client
        if self._patience is not None:
            self._patience.cancel()

    def tls_failed(self, error: ssl.SSLError) -> None:
        """The broker ended the connection, with a reason."""
        why = tls.why_not(error, peer_address(self.broker.transport))
        if why is not None:
            self.talk.tls_failed(why, moment())
            self.run_errands()

    def close(self, why: str) -> None:
        """Ends both ends, after what was written to them has gone out."""
        self.talk.close(why, moment())
        self.run_errands()

    def run_errands(self) -> None:
        """Does what the conversation wants done. Never raises."""
        while self.talk.errands:
            errand = self.talk.errands.pop(0)
            try:
                self._run(errand)
            except Exception as error:  # a mistake of ours
                self.all.say(f"something could not be done for a client: {type(error).__name__}")

    def _run(self, errand: Errand) -> None:
        match errand:
            case Dial(broker):
                self.client.wait_for(ITS_BROKER)
                self._start(self._dialled(broker))
            case Name(broker, behind=True):
                self.dialler.targets.name_behind(broker)
            case Name(broker):
                self.dialler.targets.name(broker)
            case Follow():
                self._start(self._followed(errand))
            case SayAloud(sentence):
                self.all.say(sentence)
            case Pass(data, direction):
                self._towards(direction).write(data)
            case EndBoth(direction):
                self._towards(direction).write_end()
            case Close(reset):
                self._close(reset=reset)

    async def _dialled(self, target: Address | None) -> None:
        try:
            await self.dialler.connect(target, lambda: self.broker)
        except TargetRefused as error:
            self.talk.refused(str(error), moment())
        except asyncio.CancelledError:  # uvloop then ends a transport without a connection_lost
            self.gone(self.broker)
            raise
        except Exception as error:
            of_tls = isinstance(error, TargetUnreachable) and error.of_tls
            self.talk.unreachable(_in_words(error), moment(), of_tls=of_tls)
        self.run_errands()

    async def _followed(self, errand: Follow) -> None:
        try:
            async with self.all.following:
                answer = await follow(self.talk.following(errand), self.dialler)
        except Exception as error:
            self.talk.unfollowed(errand, _in_words(error), moment())
        else:
            self.talk.followed(answer, moment())
        self.run_errands()

    def _close(self, *, reset: bool) -> None:
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        for side in (self.client, self.broker):
            side.end(reset=reset)

    def _towards(self, direction: int) -> Side:
        return self.broker if direction == TO_BROKER else self.client

    def _migrate(self, brokers: tuple[Address, ...]) -> Address | None:
        places, client = self.all.places, self.client.transport
        return places.migrate(brokers, client, self.dialler) if places else None

    def _stand_in(self, way: Way) -> Address | None:
        places, client = self.all.places, self.client.transport
        return places.stand_in(way, client, self.dialler) if places else None

    def _way_to(self, broker: Address) -> Way:
        way = self.all.places and self.all.places.way_of(broker)
        return way or self.dialler.targets.way_to(broker)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _in_words(error: Exception) -> str:
    """Others than a DoctorError would be a mistake of ours."""
    return str(error) if isinstance(error, DoctorError) else type(error).__name__


async def follow(following: Following, dialler: Dialler) -> Any:
    """The final LOOKUP_RESPONSE, a BaseCommand. Raises Unfollowed, Refused or Unreachable."""
    try:
        async with asyncio.timeout(FOLLOW_SECONDS):
            while following.answer is None:
                broker, inquiry = following.next()
                dialler.targets.name(broker)
                await _ask(broker, inquiry, dialler)
                following.heard(inquiry)
    except TimeoutError:
        raise following.late() from None
    return following.answer


async def _ask(broker: Address, inquiry: Inquiry, dialler: Dialler) -> None:
    asking = LookupAsking(inquiry)
    await dialler.connect(broker, lambda: asking)
    await asking.over()


class LookupAsking(asyncio.Protocol):
    """The connection of one inquiry."""

    def __init__(self, inquiry: Inquiry) -> None:
        self._inquiry = inquiry
        self._transport: asyncio.Transport | None = None
        self._over = asyncio.Event()

    async def over(self) -> None:
        """Waits for its outcome, and hangs up."""
        try:
            await self._over.wait()
        finally:
            if self._transport is not None:
                self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """First the client's CONNECT."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self._transport.write(self._inquiry.greeting)

    def data_received(self, data: bytes) -> None:
        """Until the answer is here."""
        out = self._inquiry.receive(data)
        if out and self._transport is not None:
            self._transport.write(out)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Too early, where there is no answer yet."""
        self._inquiry.ended()
        self._look()

    def _look(self) -> None:
        if self._inquiry.outcome is not None:
            self._over.set()
