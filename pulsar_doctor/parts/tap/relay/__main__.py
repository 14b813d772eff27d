"""The entry point of the relay process.

Started by relaying.py. One line of JSON on stdin has what to do, one on stdout where it listens or
what is wrong. Then stdin carries questions, see events.py, and a line of TAKEN for each message
that an application took, which is written to the journal as it is. STOP ends the relay, and so does
SIGTERM. The end of stdin and the parent's death end it too, unless it is to outlive them: then it
ends when no client has been there for a while.

What passes is in connection.py, what is changed of it in rewrites.py, which brokers it dials in
targets.py, the disk in journal_file.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
import time
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any, TypeVar

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.tap.relay import tls
from pulsar_doctor.parts.tap.relay.connections import Connections
from pulsar_doctor.parts.tap.relay.dialling import Dialler
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
from pulsar_doctor.parts.tap.relay.journal_file import JournalFile, moment
from pulsar_doctor.parts.tap.relay.lines import Strange, first_line
from pulsar_doctor.parts.tap.relay.migrations import Listeners
from pulsar_doctor.parts.tap.relay.passage import TO_BROKER, TO_CLIENT
from pulsar_doctor.parts.tap.relay.targets import Targets
from pulsar_doctor.trace.folder import JournalLimits
from pulsar_doctor.wire.columns import GAP, TAKEN
from pulsar_doctor.wire.framing import Frames
from pulsar_doctor.wire.journal import NO_CONNECTION, pack_event, pack_json
from pulsar_doctor.wire.masking import Read
from pulsar_doctor.wording.addresses import shown
from pulsar_doctor.wording.gate import Once, complain
from pulsar_doctor.wording.typed_json import Misread, of_json

TICK_SECONDS = 0.1
DISK_SECONDS = 2.0  # for an answer that needs the disk
ALONE_SECONDS = 10.0  # without a client, once the parent is dead: time to come back
TAKEN_LINE = (
    b'{"command":"TAKEN",'  # as parts/tap/relaying.py writes it: such a line need not be read
)

Done = TypeVar("Done")


class Control(asyncio.Protocol):
    """Lines from whoever started the relay. over: its end is requested; alone: nobody is left."""

    def __init__(self, connections: Connections, over: asyncio.Event, alone: asyncio.Event) -> None:
        self._connections = connections
        self._over = over
        self._alone = alone
        self._rest = b""
        self._taken: list[bytes] = []
        self._answering: set[asyncio.Task[None]] = set()

    def data_received(self, data: bytes) -> None:
        """Several lines at once; a TAKEN for each message that an application took."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(TAKEN_LINE):
                self._taken.append(pack_json(line))
            else:
                self._obey(line)
        self._journal_taken()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is left who wants this relay, but for its clients."""
        self._alone.set()

    def _obey(self, line: bytes) -> None:
        request = QUESTIONS.of_line(line)
        if isinstance(request, Strange):  # no reason to leave the traffic alone
            if request.kind == TAKEN:
                self._taken.append(pack_json(line))
        elif isinstance(request, Stop):
            self._over.set()
        else:
            self._journal_taken()
            task = asyncio.get_running_loop().create_task(self._reply(request))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _reply(self, request: Question) -> None:
        journal = self._connections.journal
        match request:
            case Rotate():
                number, _ = await _in_time(journal.rotating())
                answer(Rotated(number, request.id))
            case Flush():
                _, flushed = await _in_time(journal.flushing())
                answer(Flushed(flushed, counters(self._connections), request.id))
            case CountTraffic():
                answer(TrafficCounted(counters(self._connections), request.id))

    def _journal_taken(self) -> None:
        taken, self._taken = self._taken, []
        self._connections.journal.add(taken)


async def _in_time(promised: Future[Done]) -> tuple[Done | None, bool]:
    """What the thread that writes the journal answers, and whether it did: a disk may hang."""
    try:
        async with asyncio.timeout(DISK_SECONDS):
            return await asyncio.shield(asyncio.wrap_future(promised)), True
    except TimeoutError:
        return None, False


def answer(message: Answer | Listens | CannotStart | Ended) -> None:
    """One line on stdout, for whoever is still there to read it."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(ANSWERS.to_json(message)).encode() + b"\n")


def counters(connections: Connections) -> dict[str, int]:
    """What was counted since the relay began."""
    journal = connections.journal
    counted = asdict(connections.counters)
    del counted["read_bytes"]
    return counted | {
        "bytes_to_broker": connections.read_bytes(TO_BROKER),
        "bytes_to_client": connections.read_bytes(TO_CLIENT),
        "frames_too_long": connections.mask.too_long,
        "records_seen": journal.seen,
        "records_written": journal.written,
        "records_dropped": journal.dropped,
    }


def say(sentence: str) -> None:
    """To whoever runs the tap. Nothing that fails here matters to the traffic."""
    with contextlib.suppress(OSError, ValueError):
        complain(sentence)


async def serve(config: Config) -> None:
    """Relays until its stop is requested, or until whoever started it is gone."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    alone = asyncio.Event() if config.lock_fd is not None else over
    loop.add_signal_handler(signal.SIGTERM, over.set)
    loop.set_exception_handler(_say_once)
    _allow_connections()
    targets = Targets(config.upstream, config.allow_brokers)
    files = config.upstream_tls
    dialler = Dialler(targets, tls.towards_brokers(files) if files else None)
    listeners = Listeners(None, config.listen_host)
    with _journal(config) as journal:
        connections = Connections(
            journal,
            places=listeners,
            say=Once(say),
            most=config.max_connections,
            generation=config.generation,
        )
        listeners.connections = connections
        if config.listen_tls:
            listeners.context = tls.towards_clients(config.listen_tls, connections.tls_failed)
        server = await listen(listeners, dialler, config.listen_host, config.listen_port)
        if config.generation:
            # What the one before had not written when it died, before whoever has waited since. It
            # is no command, so not counted.
            journal.add_block([pack_event(GAP)], 0, Read(*moment(), NO_CONNECTION, 0, Frames()))
        answer(Listens(shown((config.listen_host, server.sockets[0].getsockname()[1]))))
        await loop.connect_read_pipe(lambda: Control(connections, over, alone), sys.stdin)
        ticker = loop.create_task(_tick(journal, alone))
        leaver = loop.create_task(_leave(connections, over, alone))
        learner = loop.create_task(targets.learn())
        await over.wait()
        ticker.cancel()
        leaver.cancel()
        learner.cancel()
        listeners.close()
        await connections.close()
    answer(Ended(counters(connections)))


def _journal(config: Config) -> JournalFile:
    limits = JournalLimits(
        rotate_seconds=config.seal_every_seconds,
        rotate_bytes=config.rotate_bytes,
        journal_bytes_most=config.journal_bytes_most,
    )
    return JournalFile(config.trace_dir, limits, config.lock_fd, config.tally_fd)


def _say_once(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio would log with a stack trace, again and again: a mistake of ours."""
    loop.set_exception_handler(lambda _, __: None)
    what = context.get("exception") or context["message"]
    complain(f"the relay goes on after {what!r}")


def _allow_connections() -> None:
    """Two sockets each: the usual limit of 1024 would be reached soon."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def listen(listeners: Listeners, dialler: Dialler, host: str, port: int) -> asyncio.Server:
    """Clients may come, on all addresses of the host and one port. Raises DoctorError."""
    try:
        server = await listeners.listen(dialler, host=host, port=port)
        first, *more = [sock.getsockname()[1] for sock in server.sockets]
        if all(other == first for other in more):
            return server
        server.close()  # a name of several addresses, and each was given a free port of its own
        return await listeners.listen(dialler, host=host, port=first)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise DoctorError(f"cannot listen on {host}:{port}: {why}") from error


async def _leave(connections: Connections, over: asyncio.Event, alone: asyncio.Event) -> None:
    """Ends a relay without a parent when its clients are gone, and have not come back."""
    await alone.wait()
    waited = 0.0
    while waited < ALONE_SECONDS:
        await asyncio.sleep(TICK_SECONDS)
        waited = 0.0 if connections.counters.connections_open else waited + TICK_SECONDS
    over.set()


async def _tick(journal: JournalFile, alone: asyncio.Event) -> None:
    parent = os.getppid()
    while True:
        await asyncio.sleep(TICK_SECONDS)
        journal.tick(time.monotonic())
        if os.getppid() != parent:  # something that it forked may hold our stdin open
            alone.set()


def main() -> int:
    """The process: config on stdin, address or error on stdout."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for whoever started us
    line = first_line()
    if not line:
        return 0
    try:
        from uvloop import new_event_loop
    except ImportError:
        from asyncio import new_event_loop  # type: ignore[assignment]
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(serve(of_json(Config, json.loads(line))))
    except Misread as misread:
        answer(CannotStart(f"its instruction {misread}"))
        return 1
    except (OSError, DoctorError) as error:
        answer(CannotStart(str(error)))
        return 1
    return 0


if __name__ == "__main__":
    # The journal is closed. A loop may take long to close, for a name server or a half-dead socket.
    os._exit(main())
