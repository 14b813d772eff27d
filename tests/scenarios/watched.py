"""Stands in front of the broker's REST API and counts how often the stats of a topic were read.

So that something can happen in the middle of a window, however long a command takes to begin.
"""

from __future__ import annotations

import re
import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import unquote, urlsplit

READ = re.compile(rb"GET /admin/v2/persistent/(\S+)/stats[? ]")
PIECE_BYTES = 65536


class Watched:
    """url: ask here. reads: of `persistent://…`, how many times its stats were asked for."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._asked: Counter[str] = Counter()

    def reads(self, topic: str) -> int:
        return self._asked[topic]

    def note(self, request: bytes) -> None:
        """Counts what is asked for; a client sends the head of a request in one piece."""
        self._asked.update(f"persistent://{unquote(m.decode())}" for m in READ.findall(request))


@contextmanager
def watched(admin_url: str) -> Iterator[Watched]:
    """A way to that address that counts; closed at the end."""
    broker = urlsplit(admin_url)

    class Forward(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection((broker.hostname, broker.port)) as behind:
                back = threading.Thread(target=pump, args=(behind, self.request), daemon=True)
                back.start()
                pump(self.request, behind, way)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Forward) as server:
        server.daemon_threads = True
        way = Watched(server.server_address[1])
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        yield way
        server.shutdown()
        serving.join()


def pump(source: socket.socket, sink: socket.socket, way: Watched | None = None) -> None:
    """Passes on what comes until either side ends; the end is passed on too."""
    with suppress(OSError):
        while piece := source.recv(PIECE_BYTES):
            if way is not None:
                way.note(piece)
            sink.sendall(piece)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
