"""The relay: the process that moves a client's bytes to the broker and back, and writes them down.

Started by tap.py. One line of JSON on stdin says what to do (listen_host, listen_port,
upstream_host, upstream_port, trace_dir, seal_every_seconds), one on stdout says where it listens or
what is wrong. Then stdin carries control lines:

    {"command":"TAKEN", …}   an application took a message: goes to the journal as it is
    {"command":"FLUSH"}      answered once everything that was seen stands in the journal
    {"command":"STOP"}       ends the relay; so do SIGTERM, the end of stdin, the parent's death

What passes is in connections.py, what is changed of it in rewrites.py, the disk in journal_file.py.
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
from collections.abc import Callable
from typing import Any

from pulsar_doctor.columns import TAKEN
from pulsar_doctor.connections import Connections
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.journal import pack_told
from pulsar_doctor.journal_file import JournalFile
from pulsar_doctor.sockets import in_words

TICK_SECONDS = 0.1
TAKEN_LINE = b'{"command":"TAKEN",'  # as tap.py writes it: such a line need not be read


class Control(asyncio.Protocol):
    """Lines from whoever started the relay; the end of them ends it."""

    def __init__(self, connections: Connections, over: asyncio.Event) -> None:
        self._connections = connections
        self._over = over
        self._rest = b""
        self._taken: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        """Several lines at once; a TAKEN for each message that an application took."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(TAKEN_LINE):
                self._taken.append(pack_told(line))
            else:
                self._obey(line)
        self._journal_taken()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is left who wants this relay."""
        self._over.set()

    def _obey(self, line: bytes) -> None:
        try:
            command = json.loads(line)["command"]
        except (ValueError, TypeError, KeyError):  # no reason to leave the traffic alone
            return
        if command == TAKEN:
            self._taken.append(pack_told(line))
        elif command == "FLUSH":
            self._journal_taken()
            self._connections.journal.flush()
            answer({"flushed": True, "unreachable": self._connections.unreachable})
        elif command == "STOP":
            self._over.set()

    def _journal_taken(self) -> None:
        taken, self._taken = self._taken, []
        self._connections.journal.add(taken)


def answer(values: dict[str, Any]) -> None:
    """One line on stdout, for whoever is still there to read it."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(values).encode() + b"\n")


async def serve(config: dict[str, Any]) -> None:
    """Relays until it is told to stop, or until whoever started it is gone."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    loop.set_exception_handler(_say_once)
    _allow_connections()
    upstream = str(config["upstream_host"]), int(config["upstream_port"])
    with JournalFile(config["trace_dir"], float(config["seal_every_seconds"])) as journal:
        connections = Connections(upstream, journal)
        server = await _listen(connections, str(config["listen_host"]), int(config["listen_port"]))
        answer({"listening": in_words(server.sockets[0].getsockname())})
        await loop.connect_read_pipe(lambda: Control(connections, over), sys.stdin)
        ticker = loop.create_task(_tick(journal, over))
        await over.wait()
        ticker.cancel()
        server.close()
        await connections.close()


def _say_once(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio would log with a stack trace, again and again: a mistake of ours."""
    loop.set_exception_handler(lambda _, __: None)
    what = context.get("exception") or context["message"]
    print(f"pulsar-doctor: the relay goes on after {what!r}", file=sys.stderr, flush=True)


def _allow_connections() -> None:
    """Two sockets each: the usual limit of 1024 would be reached soon."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _listen(connections: Connections, host: str, port: int) -> asyncio.Server:
    try:
        return await asyncio.get_running_loop().create_server(connections.accept, host, port)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise DoctorError(f"cannot listen on {host}:{port}: {why}") from error


async def _tick(journal: JournalFile, over: asyncio.Event) -> None:
    parent = os.getppid()
    while True:
        await asyncio.sleep(TICK_SECONDS)
        journal.tick(time.monotonic())
        if os.getppid() != parent:  # something that it forked may hold our stdin open
            over.set()


def _first_line() -> bytes:
    """The first line of stdin and not a byte more: what follows is for the event loop."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return line


def main() -> int:
    """The process: config on stdin, address or error on stdout."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for whoever started us
    line = _first_line()
    if not line:
        return 0
    try:
        import uvloop

        run: Callable[..., Any] = uvloop.run
    except ImportError:
        run = asyncio.run
    try:
        run(serve(json.loads(line)))
    except (OSError, DoctorError) as error:
        answer({"error": str(error)})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
