"""Starts the relay as a process of its own and holds its strings."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pulsar_doctor.columns import TAKEN
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.trace.folder import Meta

START_SECONDS = 15.0
STOP_SECONDS = 5.0
REDACTION = (
    "payloads, properties, credentials and error details are not recorded; keys are hashed with "
    "a salt that is not kept"
)


class Relay:
    """The relay process. Its methods may be called from any thread."""

    def __init__(self, process: subprocess.Popen[bytes], listening: str, trace_dir: Path) -> None:
        self.service_url = f"pulsar://{listening}"
        self.trace_dir = trace_dir
        self.pid = process.pid
        self._process = process
        self._lock = threading.Lock()

    def taken(self, **message: Any) -> None:
        """An application took a message. message: topic, subscription, consumer_name and its id."""
        self._tell({"command": TAKEN, "messages": 1, **message})

    def flush(self) -> None:
        """Returns when everything that the relay has seen stands in the journal."""
        with self._lock:
            self._send({"command": "FLUSH"})
            if not self._stdout.readline():
                raise self._died()

    def check(self) -> None:
        """Raises DoctorError where the relay is gone."""
        if self._process.poll() is not None:
            raise self._died()

    def stop(self) -> None:
        """Ends it: connections are closed, the journal is complete. Once is enough."""
        if self._process.stdin is None or self._process.stdin.closed:
            return
        with self._lock:
            with contextlib.suppress(OSError):  # it may be gone already
                self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()

    @property
    def _stdout(self) -> Any:
        assert self._process.stdout is not None
        return self._process.stdout

    def _tell(self, values: Mapping[str, Any]) -> None:
        with self._lock:
            self._send(values)

    def _send(self, values: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(values).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise self._died() from error

    def _died(self) -> DoctorError:
        return DoctorError(
            f"the relay ended (exit code {self._process.poll()}); "
            f"what it had recorded is in {self.trace_dir}"
        )


@contextlib.contextmanager
def relaying(
    service_url: str,
    trace_dir: Path,
    *,
    listen: str = "127.0.0.1:0",
    seal_every_seconds: float = 60.0,
    told: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[Relay]:
    """A relay in front of service_url that writes its journal to trace_dir, made where missing.

    listen: host:port on loopback, port 0 for a free one. told: what is known of consumers beside
    the wire, by name. Raises InputError for addresses that cannot be used, DoctorError where the
    relay cannot start.
    """
    upstream = upstream_of(service_url)
    listen_host, listen_port = listen_address(listen)
    write_meta(trace_dir, tap=listen, upstream=service_url, told=told or {})
    config = {
        "listen_host": listen_host,
        "listen_port": listen_port,
        "upstream_host": upstream[0],
        "upstream_port": upstream[1],
        "trace_dir": str(trace_dir),
        "seal_every_seconds": seal_every_seconds,
    }
    relay = _start(config, trace_dir)
    try:
        yield relay
    finally:
        relay.stop()


def _start(config: Mapping[str, Any], trace_dir: Path) -> Relay:
    process = subprocess.Popen(
        [sys.executable, "-m", "pulsar_doctor.relay"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(config).encode() + b"\n")
    process.stdin.flush()
    line = process.stdout.readline()
    answer = json.loads(line) if line else {"error": "it ended without a word"}
    if "listening" not in answer:
        process.stdin.close()
        process.stdout.close()
        process.wait(START_SECONDS)
        where = f"{config['listen_host']}:{config['listen_port']}"
        raise DoctorError(f"the relay cannot listen on {where}: {answer['error']}")
    return Relay(process, answer["listening"], trace_dir)


def upstream_of(service_url: str) -> tuple[str, int]:
    """Host and port of the first broker of a service URL. Raises InputError for other schemes."""
    address = urlsplit(service_url.split(",", maxsplit=1)[0].strip())
    if address.scheme in ("http", "https"):
        raise InputError(
            f"{service_url} looks topics up over HTTP, past the tap: give a pulsar:// URL"
        )
    if address.scheme == "pulsar+ssl":
        raise InputError("this version taps pulsar:// only, not yet pulsar+ssl://")
    try:
        host, port = address.hostname, address.port
    except ValueError:
        host = port = None
    if address.scheme != "pulsar" or not host:
        raise InputError(f"{service_url!r} is no service URL; write pulsar://host:6650")
    return host, port or 6650


def listen_address(listen: str) -> tuple[str, int]:
    """Host and port to listen on. Raises InputError where it is not on loopback."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"--listen takes HOST:PORT, such as 127.0.0.1:6651, not {listen!r}")
    host = host.strip("[]")
    try:
        loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise InputError(f"{host!r} is not on loopback: the tap listens on this machine only")
    return host, int(port)


def write_meta(
    trace_dir: Path, *, tap: str, upstream: str, told: Mapping[str, Mapping[str, Any]]
) -> None:
    """Makes the folder of a trace and its _meta.json; a folder that has one keeps its trace id.

    Raises InputError where the folder cannot be made, or holds something else.
    """
    try:
        trace_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(trace_dir.iterdir()):
            raise InputError(f"{trace_dir} is not empty: a tap begins a trace of its own")
        Meta(
            trace_id=uuid.uuid4().hex,
            tap_address=tap,
            upstream_address=without_credentials(upstream),
            clocks={"wall_us": time.time_ns() // 1000, "mono_ns": time.monotonic_ns()},
            redaction=REDACTION,
            told={name: dict(values) for name, values in told.items()},
        ).write(trace_dir)
    except OSError as error:
        raise InputError(f"cannot write a trace to {trace_dir}: {error.strerror}") from error


def without_credentials(url: str) -> str:
    """A service URL as it may be recorded: hosts and ports only."""
    return url.rpartition("@")[2] if "@" in url else url
