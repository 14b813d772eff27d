"""Starts and controls the relay process."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import DoctorError, InputError, MissingExtra
from pulsar_doctor.parts.tap.broker_settings import asking
from pulsar_doctor.parts.tap.hearing import Hearing, started
from pulsar_doctor.parts.tap.options import RelayOptions
from pulsar_doctor.parts.tap.relay.events import (
    ANSWERS,
    QUESTIONS,
    Answer,
    CannotStart,
    Config,
    CountTraffic,
    Ended,
    Flush,
    Flushed,
    Listens,
    Question,
    Rotate,
    Rotated,
    Stop,
    TrafficCounted,
)
from pulsar_doctor.parts.tap.relay.tally import SharedTally
from pulsar_doctor.parts.tap.upstream import (
    Upstream,
    broker_of,
    listen_address,
    own_tls,
    require_reachable,
    upstream_of,
    upstream_tls,
)
from pulsar_doctor.trace.folder import REDACTION, Meta, take_relay_lock
from pulsar_doctor.trace.ring import RingLimits
from pulsar_doctor.wire.columns import TAKEN
from pulsar_doctor.wording.typed_json import to_json

START_SECONDS = 15.0
STOP_SECONDS = 5.0
ANSWER_SECONDS = 10.0
DEFAULTS = RelayOptions()
BoundReply = TypeVar("BoundReply", bound=Answer)
# A process of the relay, the host and port where it listens, and who passes on what it says.
Started = tuple[subprocess.Popen[bytes], str, Hearing | None]
ENCODE = json.JSONEncoder(separators=(",", ":")).encode


class Relay:
    """The relay process. Its methods may be called from any thread."""

    def __init__(
        self,
        started: Started,
        config: Config,
        *,
        say: Callable[[str], object] | None = None,
        tally: SharedTally | None = None,
        held: contextlib.ExitStack | None = None,
    ) -> None:
        self._process, listening, self._hearing = started
        scheme = "pulsar+ssl" if config.listen_tls else "pulsar"
        self.service_url = f"{scheme}://{listening}"
        self.trace_dir = Path(config.trace_dir)
        self.pid = self._process.pid
        self._config = replace(config, listen_port=int(listening.rpartition(":")[2]))
        self._say = say
        self._tally = tally
        self._held = held or contextlib.ExitStack()  # the lock and the tally of a lasting relay
        self._stopped = False
        self._dead_written = self._dead_dropped = 0
        self.deaths = 0  # how often it had to be started anew
        self._lock = threading.Lock()
        self._last_question = 0
        self._heard = b""
        self.written: int | None = None  # records of all processes, at the end; None: not known
        self.dropped: int | None = None  # as `written`

    def taken(self, **columns: str | int | None) -> None:
        """Notes that an application took a message; sent to the relay at once, in order."""
        with self._lock:  # the command comes first: see relay.TAKEN_LINE
            self._send({"command": TAKEN, **columns, "messages": 1})

    def flush(self) -> bool:
        """Returns once all that the relay saw is in the journal; False: the disk is too slow."""
        return self._ask(Flush, Flushed).flushed

    def rotate(self) -> int | None:
        """Begins the next journal; the number of the one that is complete now, None without any."""
        return self._ask(Rotate, Rotated).rotated

    def counters(self) -> dict[str, int]:
        """What the relay has counted since it began: connections, bytes, records, refusals."""
        return self._ask(CountTraffic, TrafficCounted).counters

    def _ask(self, question: Callable[[int], Question], answer: type[BoundReply]) -> BoundReply:
        with self._lock:
            self._last_question += 1
            self._send(QUESTIONS.to_json(question(self._last_question)))
            until = time.monotonic() + ANSWER_SECONDS
            while True:
                message = ANSWERS.of_line(self._line(until))
                if (
                    isinstance(message, answer) and message.id == self._last_question
                ):  # not a late one
                    return message

    def _line(self, until: float) -> bytes:
        while b"\n" not in self._heard:
            left = max(0.0, until - time.monotonic())
            ready, _, _ = select.select([self._stdout], [], [], left)
            if not ready:
                raise DoctorError(f"the relay (process {self.pid}) does not answer")
            more = os.read(self._stdout.fileno(), 65536)
            if not more:
                raise self._died()
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line

    def check(self) -> None:
        """Raises DoctorError where the relay is gone."""
        if self._process.poll() is not None:
            raise self._died()

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def revive(self) -> None:
        """Starts another at the same address in the place of one that has died.

        Its clients were cut off and may come again. Raises DoctorError.
        """
        if self._tally is None:
            raise self._died()
        with self._lock:
            self.deaths += 1
            if self._hearing is not None:
                self._hearing.finish()
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
            self._count_dead()
            config = replace(self._config, generation=self.deaths)
            self._process, _, self._hearing = start(config, self._say)
            self.pid, self._heard = self._process.pid, b""

    def _count_dead(self) -> None:
        """What the process that is gone has left of its counts."""
        if self._tally is not None:
            written, dropped = self._tally.take()
            self._dead_written += written
            self._dead_dropped += dropped

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Ends it, once: connections close, the journal is complete. timeout: then a kill."""
        if self._stopped:
            return
        self._stopped = True
        assert self._process.stdin is not None
        with self._lock:
            with contextlib.suppress(OSError, ValueError):  # it may be gone already
                self._process.stdin.write(ENCODE(QUESTIONS.to_json(Stop())).encode() + b"\n")
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._count(self._heard + (b"" if self._stdout.closed else self._stdout.read()))
        self._stdout.close()
        self._held.close()  # the trace is no longer live
        if self._hearing is not None:
            self._hearing.finish()

    def _count(self, last_words: bytes) -> None:
        """How much was written and dropped in all: the last one reports it, or has left it."""
        messages = map(ANSWERS.of_line, last_words.splitlines())
        last = next((each.counters for each in messages if isinstance(each, Ended)), None)
        if last is None and self._tally is None:
            return
        if last is None:
            self._count_dead()
        counted = last or {"records_written": 0, "records_dropped": 0}
        self.written = self._dead_written + counted["records_written"]
        self.dropped = self._dead_dropped + counted["records_dropped"]

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
    service_url: str, trace_dir: Path, options: RelayOptions = DEFAULTS
) -> Iterator[Relay]:
    """A relay in front of service_url that writes its journal to trace_dir, made where missing.

    With settings among the options the broker also reports how it keeps acknowledgements. Raises
    InputError for addresses and files that cannot be used, DoctorError where the relay cannot
    start, Unreachable.
    """
    require_extra()
    upstream = upstream_of(service_url)
    config = _config(upstream, trace_dir, options)
    if options.probe:
        require_reachable(service_url, options.settings or Settings())
    meta = write_meta(trace_dir, upstream=upstream, given=options.given)
    with contextlib.ExitStack() as held:
        tally = None
        if options.lasting:
            config, tally = _lasting(config, held)
        started = start(config, options.say)
        meta = replace(meta, tap_address=started[1])  # the port is known now
        relay = Relay(started, config, say=options.say, tally=tally, held=held)

        def record(of_broker: dict[str, Any]) -> None:
            replace(meta, broker=of_broker).write(trace_dir)

        try:
            meta.write(trace_dir)
            with asking(options.settings, record):
                yield relay
        finally:
            relay.stop()


def _config(upstream: Upstream, trace_dir: Path, options: RelayOptions) -> Config:
    """The configuration of the relay's process. Raises InputError."""
    host, port = listen_address(options.listen, allow_remote=options.allow_remote)
    limits = options.limits or RingLimits()
    return Config(
        listen_host=host,
        listen_port=port,
        listen_tls=own_tls(options.listen_tls_cert, options.listen_tls_key),
        upstream=upstream.brokers,
        upstream_tls=upstream_tls(upstream, options.settings or Settings()),
        allow_brokers=tuple(broker_of(text) for text in options.allow_brokers),
        max_connections=options.max_connections,
        trace_dir=str(trace_dir),
        seal_every_seconds=limits.rotate_seconds,
        journal_bytes_most=limits.journal_bytes_most,
        rotate_bytes=limits.rotate_bytes,
    )


def _lasting(config: Config, held: contextlib.ExitStack) -> tuple[Config, SharedTally]:
    """The same for a relay that outlives us: with the lock of its trace, and a tally, both held."""
    folder = Path(config.trace_dir)
    lock_fd = take_relay_lock(folder)
    held.callback(os.close, lock_fd)
    tally = SharedTally(folder)
    held.callback(tally.close)
    return replace(config, lock_fd=lock_fd, tally_fd=tally.fd), tally


def require_extra() -> None:
    """The relay reads protobuf, its observer writes Parquet."""
    try:
        missing = not all(map(find_spec, ("google.protobuf", "pyarrow")))
    except ModuleNotFoundError:  # not even the package around it
        missing = True
    if missing:
        raise MissingExtra("trace", "the tap")


def start(config: Config, say: Callable[[str], object] | None) -> Started:
    """The relay's process and where it listens; DoctorError where it does not come up."""
    fds = [fd for fd in (config.lock_fd, config.tally_fd) if fd is not None]
    process, hearing = started("pulsar_doctor.parts.tap.relay", say=say, pass_fds=fds)
    assert process.stdin is not None
    assert process.stdout is not None
    line = b""
    with contextlib.suppress(OSError):  # it ended before it could read
        process.stdin.write(ENCODE(to_json(config)).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
    answer = ANSWERS.of_line(line) if line else CannotStart("it ended without a word")
    if isinstance(answer, Listens):
        return process, answer.listening, hearing
    with contextlib.suppress(OSError):
        process.stdin.close()
    process.stdout.close()
    process.wait(START_SECONDS)
    if hearing is not None:
        hearing.finish()
    why = answer.error if isinstance(answer, CannotStart) else f"the relay says: {answer}"
    raise DoctorError(f"the tap cannot start: {why}")


def write_meta(
    trace_dir: Path, *, upstream: Upstream, given: Mapping[str, Mapping[str, Any]]
) -> Meta:
    """Makes the folder of a new trace, where it is not there, and its _meta.json.

    Raises InputError where the folder cannot be made, or holds something else.
    """
    meta = Meta(
        trace_id=uuid.uuid4().hex,
        upstream_address=str(upstream),
        clocks={"wall_us": time.time_ns() // 1000, "mono_ns": time.monotonic_ns()},
        redaction=REDACTION,
        told={name: dict(values) for name, values in given.items()},
    )
    try:
        meta.begin(trace_dir, "tap")
    except OSError as error:
        raise InputError(f"cannot write a trace to {trace_dir}: {error.strerror}") from error
    return meta
