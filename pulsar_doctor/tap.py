"""Starts the relay as a process of its own and holds its strings."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pulsar_doctor.columns import TAKEN
from pulsar_doctor.errors import DoctorError, InputError, MissingExtra
from pulsar_doctor.trace.folder import META, Meta

START_SECONDS = 15.0
STOP_SECONDS = 5.0
FLUSH_SECONDS = 10.0
DEFAULT_PORT = 6650
ENCODE = json.JSONEncoder(separators=(",", ":")).encode
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

    def taken(
        self,
        *,
        topic: str,
        subscription: str,
        consumer_name: str,
        ledger_id: int,
        entry_id: int,
        batch_index: int | None,
        partition: int | None,
        messages: int = 1,
    ) -> None:
        """An application took a message; goes to the relay at once, in the order of the calls."""
        values = {
            "command": TAKEN,  # first: see relay.TAKEN_LINE
            "topic": topic,
            "subscription": subscription,
            "consumer_name": consumer_name,
            "ledger_id": ledger_id,
            "entry_id": entry_id,
            "batch_index": batch_index,
            "partition": partition,
            "messages": messages,
        }
        with self._lock:
            self._send(values)

    def flush(self) -> None:
        """Returns when everything that the relay has seen stands in the journal."""
        with self._lock:
            self._send({"command": "FLUSH"})
            ready, _, _ = select.select([self._stdout], [], [], FLUSH_SECONDS)
            if not ready:
                raise DoctorError(f"the relay (process {self.pid}) does not answer")
            if not self._stdout.readline():
                raise self._died()

    def check(self) -> None:
        """Raises DoctorError where the relay is gone."""
        if self._process.poll() is not None:
            raise self._died()

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Ends it: connections are closed, the journal is complete. Once is enough.

        timeout: seconds after which it is killed.
        """
        if self._process.stdin is None or self._process.stdin.closed:
            return
        with self._lock, contextlib.suppress(OSError):  # it may be gone already
            self._process.stdin.close()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()

    @property
    def _stdout(self) -> Any:
        assert self._process.stdout is not None
        return self._process.stdout

    def _send(self, values: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(ENCODE(values).encode() + b"\n")
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
    _require_extra()
    upstream = upstream_of(service_url)
    listen_host, listen_port = listen_address(listen)
    meta = write_meta(trace_dir, upstream=upstream, told=told or {})
    config = {
        "listen_host": listen_host,
        "listen_port": listen_port,
        "upstream_host": upstream.host,
        "upstream_port": upstream.port,
        "trace_dir": str(trace_dir),
        "seal_every_seconds": seal_every_seconds,
    }
    process, listening = _start(config)
    relay = Relay(process, listening, trace_dir)
    try:
        _write_for_owner(replace(meta, tap_address=listening), trace_dir)  # the port is known now
        yield relay
    finally:
        relay.stop()


def _require_extra() -> None:
    """The relay reads protobuf, its observer writes Parquet."""
    try:
        missing = not all(map(find_spec, ("google.protobuf", "pyarrow")))
    except ModuleNotFoundError:  # not even the package around it
        missing = True
    if missing:
        raise MissingExtra("trace", "the tap")


def _start(config: Mapping[str, Any]) -> tuple[subprocess.Popen[bytes], str]:
    """The relay's process and where it listens; DoctorError where it does not come up."""
    # -P: whatever lies in the current folder is no part of the relay.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "pulsar_doctor.relay"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    line = b""
    with contextlib.suppress(OSError):  # it ended before it could read
        process.stdin.write(json.dumps(config).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
    answer = json.loads(line) if line else {"error": "it ended without a word"}
    if "listening" in answer:
        return process, answer["listening"]
    with contextlib.suppress(OSError):
        process.stdin.close()
    process.stdout.close()
    process.wait(START_SECONDS)
    raise DoctorError(f"the tap cannot start: {answer['error']}")


@dataclass(frozen=True, slots=True)
class Upstream:
    """The broker that the relay connects to first."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def upstream_of(service_url: str) -> Upstream:
    """The first broker of a service URL, `pulsar://a:6650,b:6650`, that can be read.

    Raises InputError for other schemes and where none can.
    """
    scheme, _, rest = service_url.strip().partition("://")
    if scheme in ("http", "https"):
        raise InputError(
            f"{scheme}:// looks topics up over HTTP, past the tap: give a pulsar:// service URL"
        )
    if scheme == "pulsar+ssl":
        raise InputError("this version taps pulsar:// only, not yet pulsar+ssl://")
    for part in rest.split(","):
        address = urlsplit(f"//{part.strip()}")
        with contextlib.suppress(ValueError):  # a port that is none
            if scheme == "pulsar" and address.hostname:
                return Upstream(address.hostname, address.port or DEFAULT_PORT)
    shown = rest.rpartition("@")[2]  # it may have a password in front
    raise InputError(f"{scheme}://{shown} is no service URL; write pulsar://host:6650")


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
    trace_dir: Path, *, upstream: Upstream, told: Mapping[str, Mapping[str, Any]]
) -> Meta:
    """Makes the folder of a new trace, where it is not there, and its _meta.json.

    Raises InputError where the folder cannot be made, or holds something else.
    """
    meta = Meta(
        trace_id=uuid.uuid4().hex,
        upstream_address=str(upstream),
        clocks={"wall_us": time.time_ns() // 1000, "mono_ns": time.monotonic_ns()},
        redaction=REDACTION,
        told={name: dict(values) for name, values in told.items()},
    )
    try:
        trace_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(trace_dir.iterdir()):
            raise InputError(f"{trace_dir} is not empty: a tap begins a trace of its own")
        _write_for_owner(meta, trace_dir)
    except OSError as error:
        raise InputError(f"cannot write a trace to {trace_dir}: {error.strerror}") from error
    return meta


def _write_for_owner(meta: Meta, trace_dir: Path) -> None:
    meta.write(trace_dir)
    (trace_dir / META).chmod(0o600)
