"""A small HTTP server on the loopback that answers as a broker might, or as it should not."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

DATE = "Sat, 21 Nov 2026 11:56:01 GMT"
DATE_MS = 1795262161000
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came; headers with small letters."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    client_port: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. pieces: a body in chunks; cut: the connection ends before the body does."""

    status: int = 200
    document: Any = None
    body: bytes | None = None
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Iterator[bytes] | None = None
    cut: bool = False


class HttpBroker:
    """What was asked, and how many were being answered at once."""

    def __init__(self, answer: Callable[[Asked], Reply]) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.most_at_once = 0
        self.url = ""
        self._at_once = 0
        self._lock = threading.Lock()

    def take(self, asked: Asked) -> Reply:
        with self._lock:
            self.asked.append(asked)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        return self.answer(asked)

    def done(self) -> None:
        with self._lock:
            self._at_once -= 1


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 5
    broker: ClassVar[HttpBroker]

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(length)
        asked = Asked(self.command, self.path, headers, body, self.client_address[1])
        reply = self.broker.take(asked)
        self.broker.done()
        try:
            self.write(reply)
        except OSError:
            self.close_connection = True

    do_POST = do_GET  # noqa: N815

    def write(self, reply: Reply) -> None:
        body = json.dumps(reply.document).encode() if reply.body is None else reply.body
        self.send_response_only(reply.status)
        for name, value in (
            {"Date": DATE, "Content-Type": reply.content_type} | dict(reply.headers)
        ).items():
            if value:
                self.send_header(name, value)
        if reply.pieces is not None:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in reply.pieces:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"" if reply.cut else b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(body) + 10 * reply.cut))
            self.end_headers()
            self.wfile.write(body)
        self.close_connection = self.close_connection or reply.cut

    def log_message(self, *words: object) -> None:
        """Nothing on stderr."""


class Server(ThreadingHTTPServer):
    request_queue_size = 256

    def handle_error(self, *words: object) -> None:
        """A client that goes away, or does not speak TLS, is what these tests are about."""


@contextmanager
def serving(
    answer: Callable[[Asked], Reply], *, tls: ssl.SSLContext | None = None
) -> Iterator[HttpBroker]:
    """A broker at a free port of the loopback; `answer` runs in the connection's thread."""
    broker = HttpBroker(answer)
    handler = type("BrokerHandler", (Handler,), {"broker": broker})
    server = Server(("127.0.0.1", 0), handler)
    if tls:
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    broker.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield broker
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
