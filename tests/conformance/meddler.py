"""Stands between a client and the relay and does to what the broker sends as it is told."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

from pulsar_doctor.wire import pulsar_wire_pb2 as wire

# A frame and its command -> what goes on instead.
Meddle = Callable[[bytes, wire.BaseCommand], bytes]


def as_it_is(frame: bytes, command: wire.BaseCommand) -> bytes:
    return frame


def flip_last_byte(frame: bytes, command: wire.BaseCommand) -> bytes:
    """A MESSAGE whose checksum is wrong."""
    if command.HasField("message"):
        return frame[:-1] + bytes([frame[-1] ^ 1])
    return frame


class Meddler:
    """service_url: for the client. meddle: changed at will while it runs."""

    def __init__(self, upstream: str) -> None:
        host, port = upstream.removeprefix("pulsar://").split(":")
        self._upstream = (host, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.service_url = f"pulsar://127.0.0.1:{self._server.getsockname()[1]}"
        self.meddle: Meddle = as_it_is
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Every connection is reset, as a failing network does."""
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self._open.clear()

    def close(self) -> None:
        self._server.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                broker = socket.create_connection(self._upstream)
                self._open += [client, broker]
                for pump, ends in ((_bytes, (client, broker)), (self._frames, (broker, client))):
                    threading.Thread(target=pump, args=ends, daemon=True).start()

    def _frames(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), contextlib.closing(source.makefile("rb")) as f:
            while True:
                head = f.read(4)
                if len(head) < 4:
                    break
                frame = head + f.read(struct.unpack(">I", head)[0])
                (size,) = struct.unpack(">I", frame[4:8])
                sink.sendall(self.meddle(frame, wire.BaseCommand.FromString(frame[8 : 8 + size])))
        _end(sink)


def _bytes(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
    _end(sink)


def _end(sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def meddling(upstream: str) -> Iterator[Meddler]:
    """A meddler in front of this service URL; closed at the end."""
    meddler = Meddler(upstream)
    try:
        yield meddler
    finally:
        meddler.close()
