"""A real relay between sockets of ours: a client, and a broker that says what we like."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.parts.tap.options import RelayOptions
from pulsar_doctor.parts.tap.relaying import Relay, relaying
from pulsar_doctor.parts.tap.upstream import PING
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import Row
from pulsar_doctor.wire.commands import rows_of
from pulsar_doctor.wire.journal import FILE_HEADER, Block, read_blocks
from tests.made.frames import command_frame, command_of, field, frame
from tests.support import eventually

SECRET = b"token-of-a-customer-0123456789"
AUTH = b"\x1a" + bytes([len(SECRET)]) + SECRET  # CommandConnect.auth_data, not in our proto
__all__ = ["command_frame", "frame"]  # with which all that is said here is written
LOOPS = ("uvloop", "asyncio")
FUTURE = b"\xfa\x07\x05later"  # field 127, of a protocol that is newer than we are


def connect_frame(broker: str | None = None) -> bytes:
    """As a client writes it, the credentials in the middle, the broker behind them."""
    body = b"\x0a\x06client" + AUTH
    if broker is not None:
        body += field(6, broker)
    return frame(command_of(2, body + FUTURE, FUTURE))


def message(consumer_id: int, payload: bytes, entry_id: int = 1) -> bytes:
    message_id = wire.MessageId(ledger_id=7, entry_id=entry_id)
    inner = wire.Message(consumer_id=consumer_id, message_id=message_id)
    command = wire.BaseCommand(type=9, message=inner).SerializeToString()
    metadata = wire.MessageMetadata(publish_time=1_790_000_000_000).SerializeToString()
    part = struct.pack(">HII", 0x0E01, 1, len(metadata)) + metadata + payload
    return frame(command, part)


def flow(permits: int) -> bytes:
    return command_frame(11, "flow", consumer_id=1, message_permits=permits)


CONNECT = connect_frame()
CONNECTED = command_frame(3, "connected", server_version="broker", max_message_size=5_242_880)
PONG = command_frame(19, "pong")


def be_looked_for(server: socket.socket, context: ssl.SSLContext | None = None) -> None:
    """Answers a tap that starts, and looks whether there is a broker. context: of its TLS."""
    plain, _ = server.accept()
    with context.wrap_socket(plain, server_side=True) if context else plain as sock:
        peer = Peer(sock)
        if peer.read(len(PING)) == PING:
            peer.send(PONG)


@contextlib.contextmanager
def found() -> Iterator[str]:
    """A broker that is there for whoever looks for it, and for nothing else; its service URL."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    be_looked_for(server)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        try:
            yield f"pulsar://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(15)


class Peer:
    """One end of a connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.settimeout(10)

    def send(self, data: bytes, *, pieces: int = 0) -> Peer:
        if not pieces:
            self.sock.sendall(data)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(data) if pieces else 0, pieces or 1):
            self.sock.sendall(data[at : at + pieces])
            time.sleep(0.001)
        return self

    def read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size and (more := self.sock.recv(size - len(data))):
            data += more
        return bytes(data)

    def read_frame(self) -> bytes:
        size = self.read(4)
        return size + self.read(int.from_bytes(size, "big"))

    def rest(self) -> bytes:
        """All until the other end says that there is no more."""
        data = b""
        while more := self.sock.recv(65536):
            data += more
        return data

    def silent(self, seconds: float = 0.2) -> bool:
        """Whether nothing comes for so long."""
        self.sock.settimeout(seconds)
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            self.sock.settimeout(10)
        return False

    @property
    def name(self) -> str:
        return "{}:{}".format(*self.sock.getsockname())


class Tapped:
    """A relay, a broker behind it, and the clients that come."""

    def __init__(
        self,
        relay: Relay,
        server: socket.socket,
        stack: contextlib.ExitStack,
        *,
        broker_tls: ssl.SSLContext | None = None,
        client_tls: ssl.SSLContext | None = None,
    ) -> None:
        """broker_tls: how the brokers answer; client_tls: how clients come; None without TLS."""
        self.relay = relay
        self.server = server
        self.broker_url = f"127.0.0.1:{server.getsockname()[1]}"
        self._stack = stack
        self._broker_tls = broker_tls
        self._client_tls = client_tls
        server.settimeout(10)

    def client(self, place: str | None = None) -> Peer:
        """Someone who comes to the tap. place: its `host:port`, where it has several."""
        place = place or self.relay.service_url.rpartition("://")[2]
        host, port = place.split(":")
        sock = socket.create_connection((host, int(port)))
        if self._client_tls is not None:
            sock = self._client_tls.wrap_socket(sock, server_hostname=host)
        return Peer(self._stack.enter_context(sock))

    def accept(self, server: socket.socket | None = None) -> Peer:
        sock = self.accept_plain(server)
        if self._broker_tls is not None:
            sock = self._broker_tls.wrap_socket(sock, server_side=True)
        return Peer(self._stack.enter_context(sock))

    def accept_plain(self, server: socket.socket | None = None) -> socket.socket:
        sock = self._stack.enter_context((server or self.server).accept()[0])
        sock.settimeout(10)
        return sock

    def another_broker(self) -> tuple[str, socket.socket]:
        server = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.settimeout(10)
        return f"127.0.0.1:{server.getsockname()[1]}", server

    def connected(self) -> tuple[Peer, Peer]:
        client = self.client().send(CONNECT)
        broker = self.accept()
        assert broker.read(len(CONNECT)) == CONNECT
        broker.send(CONNECTED)
        assert client.read(len(CONNECTED)) == CONNECTED
        return client, broker

    def rows(self, client: Peer) -> list[Row]:
        """What the journal says of a client's connection."""
        self.relay.flush()
        rows = rows_in(self.relay.trace_dir)
        (conn_id,) = {row.conn_id for row in rows if row.client_addr == client.name}
        return [row for row in rows if row.conn_id == conn_id]

    def commands(self, client: Peer) -> list[str]:
        return [row.command for row in self.rows(client)]

    def wait_for(self, client: Peer, command: str) -> Row:
        """The first such row of a connection."""
        return eventually(
            lambda: next((row for row in self.rows(client) if row.command == command), None)
        )


def journals(trace_dir: Path) -> list[Path]:
    return sorted(trace_dir.glob(".journal-*.pdj"))


def blocks_in(trace_dir: Path) -> list[Block]:
    blocks = []
    for path in journals(trace_dir):
        data = path.read_bytes()
        assert data.startswith(FILE_HEADER)
        blocks += [block for block, _ in read_blocks(data, len(FILE_HEADER))]
    return blocks


def rows_in(trace_dir: Path) -> list[Row]:
    return [row for block in blocks_in(trace_dir) for row in rows_of(block)]


@contextlib.contextmanager
def on_loop(loop: str, folder: Path) -> Iterator[None]:
    """A relay that is started meanwhile has this event loop, one of LOOPS."""
    with pytest.MonkeyPatch.context() as patch:
        if loop == "asyncio":
            shadow = folder / "no-uvloop"
            shadow.mkdir()
            (shadow / "uvloop.py").write_text("raise ImportError\n")
            patch.setenv("PYTHONPATH", str(shadow))
        yield


@contextlib.contextmanager
def tapping(
    trace_dir: Path,
    *,
    service_url: str | None = None,
    broker_tls: ssl.SSLContext | None = None,
    client_tls: ssl.SSLContext | None = None,
    **options: Any,
) -> Iterator[Tapped]:
    """A relay in front of a broker of ours.

    service_url: names another one, or more; `{}` in it is replaced by the port of ours.
    """
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        scheme = "pulsar+ssl" if broker_tls else "pulsar"
        url = (service_url or scheme + "://127.0.0.1:{}").format(server.getsockname()[1])
        relay = stack.enter_context(relaying(url, trace_dir, RelayOptions(**options)))
        yield Tapped(relay, server, stack, broker_tls=broker_tls, client_tls=client_tls)
