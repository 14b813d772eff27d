"""One connection to a broker: handshake, requests and responses, pushed commands.

Lives in the engine's loop. It ends when the broker closes it, sends nothing for two keep-alives, or
sends what is not the protocol; all who wait on it get the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
import struct
from collections.abc import Callable
from typing import Any, Protocol

from google.protobuf.message import DecodeError

from pulsar_doctor import __version__
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.consume.receiver import spoken_pb2 as spoken
from pulsar_doctor.parts.consume.receiver.door import Door
from pulsar_doctor.parts.consume.receiver.refusals import Lost, ServerRefused
from pulsar_doctor.parts.tap.relay.addresses import Address
from pulsar_doctor.parts.tap.relay.tls import why_not
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.commands import CODES
from pulsar_doctor.wire.framing import DEFAULT_MAX_MESSAGE_BYTES, FRAME_PADDING_BYTES, nonsense
from pulsar_doctor.wording.addresses import shown

CLIENT = f"pulsar-doctor-{__version__}"
PROTOCOL_VERSION = 19  # 20 would ask for TOPIC_MIGRATED
RECEIPTS_SINCE = 17  # protocol version with ACK_RESPONSE
DIAL_SECONDS = 10.0
ANSWER_SECONDS = 15.0
KEEPALIVE_SECONDS = 30.0
CLOSE_SECONDS = 1.0
READ_AHEAD_BYTES = 1 << 20

_SIZES = struct.Struct(">II")
_U32 = struct.Struct(">I")


class ConnectionListener(Protocol):
    """A consumer on a connection."""

    def arrived(self, command: Any, part: memoryview) -> None: ...
    def lost(self, why: str) -> None: ...
    def active_changed(self, active: bool) -> None: ...


class WireConnection:
    """Made by `dialled`."""

    def __init__(
        self, door: Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, where: str
    ) -> None:
        self.where = where
        self.consumers: dict[int, ConnectionListener] = {}
        self.over: str | None = None  # why it ended
        self.receipts = False
        self._door = door
        self._reader = reader
        self._writer = writer
        self._most = DEFAULT_MAX_MESSAGE_BYTES + FRAME_PADDING_BYTES
        self._numbers = itertools.count(1)
        self._requests: dict[int, asyncio.Future[Any]] = {}
        loop = asyncio.get_running_loop()
        self._greeted: asyncio.Future[Any] = loop.create_future()
        self._greeted.add_done_callback(_looked_at)
        self._heard_at = loop.time()
        self._tasks = [loop.create_task(self._read()), loop.create_task(self._keep_alive())]

    async def greet(self, proxy_to: Address | None) -> None:
        """CONNECT and its answer. Raises Refused, Lost, DoctorError."""
        method, data = await self._door.credentials()
        connect = spoken.Connect(
            client_version=CLIENT,
            protocol_version=PROTOCOL_VERSION,
            feature_flags=spoken.FeatureFlags(supports_auth_refresh=True),
        )
        if method:
            connect.auth_method_name, connect.auth_data = method, data
        if proxy_to is not None:
            connect.proxy_to_broker_url = shown(proxy_to)
        self._write(spoken.BaseCommand(type=CODES["CONNECT"], connect=connect))
        await self._answer(self._greeted)

    def send(self, command: Any) -> None:
        """A BaseCommand without an answer."""
        if not self.over:
            self._write(command)

    def ask(self, build: Callable[[int], Any]) -> asyncio.Future[Any]:
        """Sends the BaseCommand that `build` makes for a request id; its answer, when it comes."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.over:
            future.set_exception(Lost(self.over))
            return future
        number = next(self._numbers)
        self._requests[number] = future
        future.add_done_callback(lambda _: self._requests.pop(number, None))
        future.add_done_callback(_looked_at)
        self._write(build(number))
        return future

    async def request(self, build: Callable[[int], Any]) -> Any:
        """Asks and waits. Raises Refused, Lost."""
        return await self._answer(self.ask(build))

    async def drained(self) -> None:
        """Waits while the broker is slow to read."""
        with contextlib.suppress(OSError):  # the reader tells
            await self._writer.drain()

    async def close(self) -> None:
        """Ends it and waits until all has been sent, for a moment."""
        self.end("we have closed it")
        try:
            await asyncio.wait_for(self._writer.wait_closed(), CLOSE_SECONDS)
        except (OSError, TimeoutError):
            self._writer.transport.abort()
            await asyncio.sleep(0)

    def end(self, why: str) -> None:
        """Closes it; everybody who waits gets the reason."""
        if self.over:
            return
        self.over = why
        for task in self._tasks:
            task.cancel()
        self._writer.close()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._writer.transport.abort)
        for future in (self._greeted, *self._requests.values()):
            if not future.done():
                future.set_exception(Lost(why))
        consumers, self.consumers = self.consumers, {}
        for consumer in consumers.values():
            consumer.lost(why)

    async def _answer(self, future: asyncio.Future[Any]) -> Any:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(future)
        except TimeoutError:
            future.cancel()
            raise Lost(f"the broker {self.where} does not answer") from None

    def _write(self, command: Any) -> None:
        data = command.SerializeToString()
        self._writer.write(_SIZES.pack(4 + len(data), len(data)) + data)

    async def _read(self) -> None:
        why = f"the broker {self.where} has closed the connection"
        try:
            while True:
                total = _U32.unpack(await self._reader.readexactly(4))[0]
                if total < 4 or total > self._most:
                    raise DecodeError(nonsense(total, 0, self._most))
                self._frame(memoryview(await self._reader.readexactly(total)))
        except (OSError, EOFError) as error:
            if reason := getattr(error, "strerror", None):
                why = f"the connection to {self.where} broke: {reason}"
        except Exception as error:  # whatever comes of it: nobody must wait on for more
            why = f"the broker {self.where} says what is no Pulsar command ({error})"
        self.end(why)

    def _frame(self, frame: memoryview) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        behind = 4 + _U32.unpack_from(frame)[0]
        if behind > len(frame):
            raise DecodeError(nonsense(len(frame), behind - 4, self._most))
        command = wire.BaseCommand.FromString(frame[4:behind].tobytes())
        if command.type == CODES["MESSAGE"]:
            consumer = self.consumers.get(command.message.consumer_id)
            if consumer is not None:
                consumer.arrived(command.message, frame[behind:])
        elif field := ANSWERS.get(command.type):
            self._answered(getattr(command, field))
        elif hear := HEARD.get(command.type):
            hear(self, command)

    def _connected(self, command: Any) -> None:
        connected = command.connected
        if connected.max_message_size > 0:
            self._most = connected.max_message_size + FRAME_PADDING_BYTES
        self.receipts = connected.protocol_version >= RECEIPTS_SINCE
        if not self._greeted.done():
            self._greeted.set_result(connected)

    def _error(self, command: Any) -> None:
        error = ServerRefused(command.error.error, command.error.message)
        future = self._requests.get(command.error.request_id)
        for waiting in (future,) if future else (self._greeted,):
            if not waiting.done():
                waiting.set_exception(error)

    def _answered(self, answer: Any) -> None:
        future = self._requests.get(answer.request_id)
        if future is None or future.done():
            return
        if "error" in answer.DESCRIPTOR.fields_by_name and answer.HasField("error"):
            future.set_exception(ServerRefused(answer.error, answer.message))
        else:
            future.set_result(answer)

    def _ping(self, command: Any) -> None:
        self.send(wire.BaseCommand(type=CODES["PONG"], pong=wire.Empty()))

    def _close_consumer(self, command: Any) -> None:
        consumer = self.consumers.pop(command.close_consumer.consumer_id, None)
        if consumer is not None:
            consumer.lost(f"the broker {self.where} has closed the consumer")

    def _active_change(self, command: Any) -> None:
        change = command.active_consumer_change
        if consumer := self.consumers.get(change.consumer_id):
            consumer.active_changed(change.is_active)

    def _challenge(self, command: Any) -> None:
        """The broker wants credentials again: the first ones are about to expire (PIP-55)."""
        self._tasks.append(asyncio.get_running_loop().create_task(self._respond()))

    async def _respond(self) -> None:
        try:
            method, data = await self._door.credentials()
        except DoctorError as error:
            self.end(str(error))
            return
        response = spoken.AuthResponse(
            client_version=CLIENT,
            protocol_version=PROTOCOL_VERSION,
            response=spoken.AuthData(auth_method_name=method, auth_data=data),
        )
        self._write(spoken.BaseCommand(type=CODES["AUTH_RESPONSE"], auth_response=response))

    async def _keep_alive(self) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() - self._heard_at < 2 * KEEPALIVE_SECONDS:
            await asyncio.sleep(KEEPALIVE_SECONDS)
            self.send(wire.BaseCommand(type=CODES["PING"], ping=wire.Empty()))
        self.end(f"the broker {self.where} has been silent for {2 * KEEPALIVE_SECONDS:.0f} s")


def _looked_at(future: asyncio.Future[Any]) -> None:
    """The caller may be gone: its error is nothing to warn of."""
    if not future.cancelled():
        future.exception()


# Answers to requests: the command and its field in BaseCommand.
ANSWERS = {
    CODES[name]: name.lower()
    for name in ("SUCCESS", "PARTITIONED_METADATA_RESPONSE", "LOOKUP_RESPONSE", "ACK_RESPONSE")
}
HEARD: dict[int, Callable[[WireConnection, Any], None]] = {
    CODES["CONNECTED"]: WireConnection._connected,
    CODES["ERROR"]: WireConnection._error,
    CODES["CLOSE_CONSUMER"]: WireConnection._close_consumer,
    CODES["PING"]: WireConnection._ping,
    CODES["ACTIVE_CONSUMER_CHANGE"]: WireConnection._active_change,
    CODES["AUTH_CHALLENGE"]: WireConnection._challenge,
}


async def dialled(door: Door, address: Address, proxy_to: Address | None = None) -> WireConnection:
    """A connection that is greeted. Raises Lost, Refused, DoctorError."""
    where = shown(address)
    try:
        async with asyncio.timeout(DIAL_SECONDS):  # wait_for can lose what comes as it is cancelled
            reader, writer = await asyncio.open_connection(
                *address, ssl=door.context, limit=READ_AHEAD_BYTES
            )
    except TimeoutError:
        raise Lost(f"the broker {where} does not answer") from None
    except ssl.SSLError as error:
        raise Lost(str(why_not(error, address))) from None
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise Lost(f"the broker {where} cannot be reached ({why}); see --service-url") from None
    connection = WireConnection(door, reader, writer, where)
    try:
        await connection.greet(proxy_to)
    except BaseException:
        await connection.close()
        raise
    return connection
