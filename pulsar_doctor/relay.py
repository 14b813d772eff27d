"""The relay: the process that moves a client's bytes to the broker and back, and writes them down.

It moves bytes first and unchanged, and journals afterwards; whatever goes wrong in observing ends
the observing of that connection, never the connection. Only this is rewritten, so that a client
stays on the tap:

- LOOKUP_RESPONSE: `proxy_through_service_url` is set. The client then connects to the tap again and
  names the broker it wants in CONNECT, as it does with Pulsar's own proxy;
- CONNECT: `proxy_to_broker_url` is taken off and followed, to brokers that the cluster named only;
- CLOSE_CONSUMER, CLOSE_PRODUCER: the broker they point to is taken off: the client looks it up.

Started by tap.py: one line of JSON on stdin says what to do, one on stdout says where it listens;
then stdin carries control lines (TAKEN, FLUSH, STOP), and its end is the end of the relay.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, cast

from pulsar_doctor import pulsar_wire_pb2 as wire
from pulsar_doctor.columns import CLOSE, OPEN, TAKEN, UNPARSED
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.framing import FRAME_PADDING_BYTES, Cutter, Frame
from pulsar_doctor.journal import Mask, pack_event
from pulsar_doctor.journal_file import JournalFile

CONNECT, CONNECTED, CLOSE_PRODUCER, CLOSE_CONSUMER, LOOKUP_RESPONSE = 2, 3, 15, 16, 24
HELD = (frozenset({CONNECT}), frozenset({LOOKUP_RESPONSE, CLOSE_CONSUMER, CLOSE_PRODUCER}))
TO_BROKER, TO_CLIENT = 0, 1
FLUSH_SECONDS = 0.1
WRITE_BUFFER_BYTES = 256 * 1024
CONNECT_BYTES_MOST = 1024 * 1024  # of a client that has not shown a CONNECT yet
DIAL_SECONDS = 10.0


class Relay:
    """All connections of one tap and the journal that they share."""

    def __init__(self, config: dict[str, Any], journal: JournalFile) -> None:
        self.upstream = (str(config["upstream_host"]), int(config["upstream_port"]))
        self.brokers = {self.upstream}
        self.journal = journal
        self.mask = Mask(os.urandom(16))
        self.connections: dict[int, Connection] = {}
        self.next_conn_id = 0

    def accept(self) -> Client:
        """A new client."""
        connection = Connection(self, self.next_conn_id)
        self.next_conn_id += 1
        self.connections[connection.conn_id] = connection
        return connection.client

    def event(self, command: str, conn_id: int | None, **values: Any) -> None:
        """Journals something that is no frame."""
        self.journal.add([pack_event(command, **values)], conn_id=conn_id)

    def close(self) -> None:
        """Ends all connections."""
        for connection in list(self.connections.values()):
            connection.close("the tap ends")


class Side(asyncio.Protocol):
    """One end of a connection: reads here are written to the other end."""

    direction = TO_BROKER

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.transport: asyncio.Transport | None = None
        self.cutter: Cutter | None = Cutter(HELD[self.direction])
        self.waiting = b""  # bytes that may not be passed on yet
        self.ended = False

    @property
    def other(self) -> Side:
        """The end that gets what is read here."""
        return self.connection.broker if self.direction == TO_BROKER else self.connection.client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Nagle's algorithm would add its own delays; buffers are bounded."""
        transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self.transport = transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def pause_writing(self) -> None:
        """This end takes no more: the other end is not read until it does."""
        if self.other.transport is not None and not self.other.transport.is_closing():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """This end takes again."""
        if self.other.transport is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def eof_received(self) -> bool:
        """A half-close is carried over; the other direction goes on."""
        self.ended = True
        self.pass_on(self.waiting)
        self.waiting = b""
        target = self.other.transport
        if target is not None and not target.is_closing() and target.can_write_eof():
            target.write_eof()
        if self.other.ended:
            self.connection.close("closed by both")
            return False
        return target is not None

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of one end is the end of both; a reset is carried over as one."""
        why = f"reset by the {self.name}" if exc else f"closed by the {self.name}"
        self.connection.close(why, reset=exc is not None)

    @property
    def name(self) -> str:
        """Who is at this end."""
        return "client" if self.direction == TO_BROKER else "broker"

    def pass_on(self, data: bytes) -> None:
        """Writes to the other end."""
        target = self.other.transport
        if data and target is not None:
            target.write(data)

    def data_received(self, data: bytes) -> None:
        """The hot path: cut, pass on, journal."""
        cutter = self.cutter
        if cutter is None:
            self.pass_on(data)
            return
        try:
            frames = cutter.feed(data)
        except Exception as error:
            self._observe_no_more(data, error)
            return
        if self.waiting or cutter.undecided or cutter.completed_held:
            self._pass_on_slowly(data, frames, cutter)
        else:
            self.pass_on(data)
        if frames:
            self.observe(frames)

    def observe(self, frames: list[Frame]) -> None:
        """Journals what has passed; never raises."""
        relay = self.connection.relay
        try:
            pack = relay.mask.pack
            records = [pack(frame) for frame in frames]
            relay.journal.add(records, self.connection.conn_id, self.direction)
        except Exception as error:
            self._observe_no_more(b"", error)

    def _observe_no_more(self, data: bytes, error: Exception) -> None:
        self.cutter = None
        held, self.waiting = self.waiting, b""
        self.pass_on(held + data)
        self.connection.relay.event(
            UNPARSED,
            self.connection.conn_id,
            direction=("to_broker", "to_client")[self.direction],
            error_message=f"no longer observed: {error}",
        )

    def _pass_on_slowly(self, data: bytes, frames: list[Frame], cutter: Cutter) -> None:
        """Some of this is to be rewritten, or its type is not known yet."""
        buffer = self.waiting + data
        start = cutter.position - len(buffer)
        passed = 0
        out = []
        for frame in frames:
            if frame.code in HELD[self.direction]:
                begin, end = frame.end - frame.frame_bytes - start, frame.end - start
                out.append(buffer[passed:begin])
                out.append(self.rewritten(frame, buffer[begin:end]))
                passed = end
        until = len(buffer) - cutter.undecided
        out.append(buffer[passed:until])
        self.waiting = buffer[until:]
        self.pass_on(b"".join(out))

    def rewritten(self, frame: Frame, original: bytes) -> bytes:
        """The bytes to send instead of a held frame: its own, where nothing is to be changed."""
        try:
            command = wire.BaseCommand.FromString(frame.command)
            changed = REWRITES[frame.code](self.connection.relay, command)
        except Exception:
            return original
        return framed(command.SerializeToString()) if changed else original


class Client(Side):
    """The client's end. The broker is dialled when the client's CONNECT says which one."""

    direction = TO_BROKER

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.dialled = False
        self.first: list[Frame] = []

    def data_received(self, data: bytes) -> None:
        """Until the broker is there, everything waits."""
        if self.other.transport is not None:
            super().data_received(data)
            return
        self.waiting += data
        if not self.dialled:
            self._read_connect(data)

    def _read_connect(self, data: bytes) -> None:
        assert self.cutter is not None
        try:
            self.first += self.cutter.feed(data)
            command = self.first[0].command if self.first else b""
            broker = wire.BaseCommand.FromString(command).connect.proxy_to_broker_url
        except Exception as error:
            self._observe_no_more_yet(error)
            return
        if self.first or len(self.waiting) > CONNECT_BYTES_MOST:
            self._dial(broker)

    def _observe_no_more_yet(self, error: Exception) -> None:
        self.cutter = None
        self.first = []
        self.connection.reason = f"no longer observed: {error}"
        self._dial("")

    def _dial(self, broker: str) -> None:
        self.dialled = True
        assert self.transport is not None
        self.transport.pause_reading()
        self.connection.dial(broker)

    def broker_is_there(self) -> None:
        """Sends what waited, CONNECT without the broker's name in it."""
        data, self.waiting = self.waiting, b""
        assert self.transport is not None
        if self.cutter is None:
            self._observe_no_more(data, ValueError(self.connection.reason))
        else:
            self._pass_on_slowly(data, self.first, self.cutter)
            self.observe(self.first)
        self.first = []
        self.transport.resume_reading()


class Broker(Side):
    """The broker's end."""

    direction = TO_CLIENT

    def observe(self, frames: list[Frame]) -> None:
        """Journals, and learns the longest message of this broker from CONNECTED."""
        if frames[0].code == CONNECTED:
            self.connection.connected(frames[0])
        super().observe(frames)


class Connection:
    """A client, its broker, and the number that the journal gives them."""

    def __init__(self, relay: Relay, conn_id: int) -> None:
        self.relay = relay
        self.conn_id = conn_id
        self.client = Client(self)
        self.broker = Broker(self)
        self.reason = ""
        self.closed = False
        self.task: asyncio.Task[None] | None = None

    def dial(self, broker: str) -> None:
        """Connects to the broker that the client names, "" for the one behind the service URL."""
        target = address_of(broker) if broker else self.relay.upstream
        if target is None or target not in self.relay.brokers:
            self.close(f"refused: no lookup of this cluster named the broker {broker!r}")
            return
        self.task = asyncio.get_running_loop().create_task(self._dial(*target))

    async def _dial(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                await loop.create_connection(lambda: self.broker, host, port)
        except OSError as error:
            self.close(f"the broker {host}:{port} cannot be reached: {error.strerror or error}")
            return
        if self.closed:
            if self.broker.transport is not None:
                self.broker.transport.abort()
            return
        self.relay.event(
            OPEN,
            self.conn_id,
            client_addr=_address(self.client.transport, "peername"),
            broker_addr=_address(self.broker.transport, "peername"),
        )
        self.client.broker_is_there()

    def connected(self, frame: Frame) -> None:
        """Sets the longest frame to what the broker says."""
        connected = wire.BaseCommand.FromString(frame.command).connected
        if connected.max_message_size > 0:
            for side in (self.client, self.broker):
                if side.cutter is not None:
                    most = connected.max_message_size + FRAME_PADDING_BYTES
                    side.cutter.max_frame_bytes = most

    def close(self, why: str, *, reset: bool = False) -> None:
        """Ends both ends, after what was written to them has gone out; at once on a reset."""
        if self.closed:
            return
        self.closed = True
        self.relay.connections.pop(self.conn_id, None)
        for side in (self.client, self.broker):
            if side.transport is not None and not side.transport.is_closing():
                if reset:
                    side.transport.abort()
                else:
                    side.transport.close()
        self.relay.event(CLOSE, self.conn_id, error_message=why)


def framed(command: bytes) -> bytes:
    """A simple command with its two sizes."""
    return (len(command) + 4).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command


def _lookup_response(relay: Relay, command: Any) -> bool:
    answer = command.lookup_response
    broker = address_of(answer.broker_service_url)
    if broker is None:
        return False
    relay.brokers.add(broker)
    answer.proxy_through_service_url = True
    return True


def _connect(relay: Relay, command: Any) -> bool:
    named = command.connect.HasField("proxy_to_broker_url")
    command.connect.ClearField("proxy_to_broker_url")
    return bool(named)


def _without_broker(field: str) -> Callable[[Relay, Any], bool]:
    def rewrite(relay: Relay, command: Any) -> bool:
        closing = getattr(command, field)
        named = closing.HasField("assigned_broker_service_url")
        closing.ClearField("assigned_broker_service_url")
        closing.ClearField("assigned_broker_service_url_tls")
        return bool(named)

    return rewrite


REWRITES: dict[int, Callable[[Relay, Any], bool]] = {
    CONNECT: _connect,
    LOOKUP_RESPONSE: _lookup_response,
    CLOSE_CONSUMER: _without_broker("close_consumer"),
    CLOSE_PRODUCER: _without_broker("close_producer"),
}


def address_of(url: str) -> tuple[str, int] | None:
    """Host and port of `pulsar://host:port` or `host:port`; None where it is neither."""
    host, colon, port = url.rpartition("://")[2].rstrip("/").rpartition(":")
    return (host.strip("[]"), int(port)) if colon and host and port.isdecimal() else None


def _address(transport: asyncio.BaseTransport | None, which: str) -> str | None:
    name = transport.get_extra_info(which) if transport is not None else None
    return f"{name[0]}:{name[1]}" if name else None


class Control(asyncio.Protocol):
    """Lines from whoever started the relay; the end of them ends it."""

    def __init__(self, relay: Relay, over: asyncio.Event) -> None:
        self._relay = relay
        self._over = over
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        """Several lines at once; a TAKEN for each message that an application took."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        taken = []
        for line in lines:
            values = json.loads(line)
            command = values.pop("command")
            if command == TAKEN:
                taken.append(pack_event(TAKEN, **values))
                continue
            if command == "FLUSH":
                self._relay.journal.add(taken, None)
                taken = []
                self._relay.journal.flush()
                answer({"flushed": True})
            elif command == "STOP":
                self._over.set()
        if taken:
            self._relay.journal.add(taken, None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is left who wants this relay."""
        self._over.set()


def answer(values: dict[str, Any]) -> None:
    """One line on stdout."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


async def serve(config: dict[str, Any]) -> None:
    """Relays until it is told to stop, or until whoever started it is gone."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    with JournalFile(config["trace_dir"], float(config["seal_every_seconds"])) as journal:
        relay = Relay(config, journal)
        server = await loop.create_server(
            relay.accept, str(config["listen_host"]), int(config["listen_port"])
        )
        host, port = server.sockets[0].getsockname()[:2]
        answer({"listening": f"{host}:{port}"})
        await loop.connect_read_pipe(lambda: Control(relay, over), sys.stdin)
        ticker = loop.create_task(_tick(journal))
        await over.wait()
        server.close()
        relay.close()
        ticker.cancel()
        await asyncio.sleep(0)  # lets the transports send what is left


async def _tick(journal: JournalFile) -> None:
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        journal.tick(time.monotonic())


def _first_line() -> bytes:
    """The first line of stdin and not a byte more: what follows is for the event loop."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return line


def main() -> int:
    """The process: config on stdin, address or error on stdout."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for whoever started us
    config = json.loads(_first_line())
    try:
        import uvloop

        run: Callable[..., Any] = uvloop.run
    except ImportError:
        run = asyncio.run
    try:
        run(serve(config))
    except (OSError, DoctorError) as error:
        answer({"error": getattr(error, "strerror", None) or str(error)})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
