"""`stall-check --watch --listen`: publishes each round of a watch when it has ended.

Scrapes are answered from the page of the last round; none sends a request to a broker. The page is
one value that is replaced whole, so that an answer costs what it takes to send it.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from socketserver import ThreadingTCPServer
from typing import TYPE_CHECKING, Any

from pulsar_doctor.cli._calls import say
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.wording.addresses import shown
from pulsar_doctor.wording.gate import complain

if TYPE_CHECKING:
    from pulsar_doctor.checkup.result import Checkup
    from pulsar_doctor.diagnosis.verdict import Diagnosis

    Published = Callable[[Checkup, Iterable[Diagnosis]], Iterator[Diagnosis]]


OPEN_METRICS = "application/openmetrics-text"
TYPES = {True: f"{OPEN_METRICS}; version=1.0.0", False: "text/plain; version=0.0.4"}
NO_ROUND = b"# EOF\n"  # an empty page: nothing is known yet, and nothing is 0
AT_ONCE_MOST = 16  # connections; who comes then is sent away
SILENT_SECONDS = 10.0  # of a connection
LATE_ROUNDS, LATE_SECONDS = 3, 60.0  # for so many rounds and seconds the last one is good enough


class LastRound:
    """The page of the last round that ended, and since when. Changes in place, as a whole."""

    def __init__(self, every_seconds: float) -> None:
        self._late_after = LATE_ROUNDS * every_seconds + LATE_SECONDS
        self._ended: float | None = None
        self.page = NO_ROUND  # what a scrape gets

    def publish(self, text: str) -> None:
        """A round has ended, with this page."""
        self.page, self._ended = text.encode(), time.monotonic()

    @property
    def state(self) -> dict[str, bool | float | None]:
        """`ready` says whether verdicts can be relied on; no age: no round has ended yet."""
        since = self._ended
        age = None if since is None else time.monotonic() - since
        ready = age is not None and age <= self._late_after
        return {"ready": ready, "round_age_seconds": None if age is None else round(age, 3)}


class _Answering(BaseHTTPRequestHandler):
    """One request, then the connection ends."""

    timeout = SILENT_SECONDS
    server: _Server
    server_version, sys_version = "pulsar-doctor", ""

    def do_GET(self) -> None:
        """/metrics, /ready or /health."""
        last, path = self.server.last, self.path.partition("?")[0]
        if path == "/metrics":
            open_metrics = OPEN_METRICS in self.headers.get("Accept", "")
            self._answer(HTTPStatus.OK, TYPES[open_metrics], last.page)
            return
        ready = path == "/health" or (path == "/ready" and last.state["ready"])
        missing = HTTPStatus.SERVICE_UNAVAILABLE if path == "/ready" else HTTPStatus.NOT_FOUND
        document = last.state if path in ("/ready", "/health") else {"paths": PATHS}
        body = json.dumps(document).encode() + b"\n"
        self._answer(HTTPStatus.OK if ready else missing, "application/json", body)

    do_HEAD = do_GET  # noqa: N815 (the name that http.server calls)

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a scrape is no news."""


PATHS = ("/metrics", "/ready", "/health")


class _Server(ThreadingTCPServer):
    """A thread for each connection, for a few at once."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, last: LastRound, family: int, address: tuple[str, int]) -> None:
        self.last, self.address_family = last, family
        self._free = threading.BoundedSemaphore(AT_ONCE_MOST)
        super().__init__(address, _Answering)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts the thread, or closes the connection."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """In the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: who hangs up while it is answered does not want the rest."""


@contextmanager
def served(last: LastRound, host: str, port: int) -> Iterator[tuple[str, int]]:
    """Answers until the end; yields the address. DoctorError where it cannot listen there."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        server = _Server(last, family, (str(address[0]), int(address[1])))
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "this is not the name of a host"
        raise DoctorError(f"cannot listen at {shown((host, port))}: {why}; see --listen") from None
    with server:
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        try:
            yield str(server.server_address[0]), int(server.server_address[1])
        finally:
            server.shutdown()


def address_of(text: str) -> tuple[str, int]:
    """Host and port of --listen; InputError for anything else."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not (host and colon and port.isascii() and port.isdecimal() and int(port) <= 65535):
        raise InputError(f"--listen takes HOST:PORT, such as 127.0.0.1:9464, not {text!r}")
    return host, int(port)


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches this IP address."""
    return ip_address(address.partition("%")[0]).is_loopback


@contextmanager
def beside(options: Mapping[str, Any], *, named: bool, every: float) -> Iterator[Published]:
    """Listens as long as the watch lasts; yields what the verdicts of each round pass through.

    options: of the call. named: healthy subscriptions have series, too. every: seconds.
    """
    from pulsar_doctor.report.stall_check.metrics import Metrics

    host, port = address_of(options["listen"])
    last = LastRound(every)
    before: Metrics | None = None

    def published(checkup: Checkup, diagnoses: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
        nonlocal before
        metrics = Metrics(named=named, before=before)
        yield from metrics.through(diagnoses)
        last.publish(metrics.text(checkup))  # not of a round that is cut off
        before = metrics

    with served(last, host, port) as bound:
        say(f"metrics at http://{shown(bound)}/metrics, after the first round")
        if not is_loopback(bound[0]):
            complain(
                f"{shown(bound)} is not on loopback: whoever reaches it reads the names of topics "
                "and subscriptions, without a password"
            )
        yield published
