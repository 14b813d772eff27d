"""Stands between a client and a broker, or a relay, and does to frames as it is told."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from tests.made.frames import frames_from

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
                for ends in ((client, broker), (broker, client)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            for frame, command in frames_from(source):
                sink.sendall(self.meddle(frame, command))
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
