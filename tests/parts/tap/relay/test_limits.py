"""What is bounded in the relay and what is counted; nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from pulsar_doctor.parts.tap.relay import connection, passage, sides
from pulsar_doctor.parts.tap.relay.connections import Connections
from pulsar_doctor.parts.tap.relay.dialling import Dialler
from pulsar_doctor.parts.tap.relay.journal_file import JournalFile
from pulsar_doctor.parts.tap.relay.migrations import Listeners
from pulsar_doctor.parts.tap.relay.passage import FRAMES_MOST, TO_CLIENT, Passage
from pulsar_doctor.parts.tap.relay.rewrites import HELD_TO_CLIENT
from pulsar_doctor.parts.tap.relay.sides import READ_BYTES_LEAST, Side
from pulsar_doctor.parts.tap.relay.targets import Targets
from pulsar_doctor.trace.folder import JournalLimits
from pulsar_doctor.wire import framing
from pulsar_doctor.wire.framing import HELD_BYTES_MOST, STRETCH_BYTES, Cutter
from tests.parts.tap.tapped import (
    CONNECT,
    CONNECTED,
    PONG,
    command_frame,
    connect_frame,
    flow,
    frame,
    journals,
    message,
    tapping,
)
from tests.support import eventually


def test_so_many_connections_and_the_next_is_closed_at_once(tmp_path):
    with tapping(tmp_path / "t", max_connections=3) as tapped:
        pairs = [tapped.connected() for _ in range(3)]
        for _ in range(2):
            refused = tapped.client()
            assert refused.rest() == b""
        counted = tapped.relay.counters()
        assert counted["connections_open"] == 3
        assert (counted["connections_opened"], counted["connections_refused"]) == (3, 2)
        client, broker = pairs[0]
        client.send(flow(1))
        assert broker.read(len(flow(1))) == flow(1)
        assert [tapped.commands(pair[0])[0] for pair in pairs] == ["OPEN"] * 3
        client.sock.close()
        broker.sock.close()
        eventually(lambda: tapped.relay.counters()["connections_open"] == 2)
        tapped.connected()
        assert tapped.relay.counters()["connections_opened"] == 4


def test_what_passes_is_counted(tmp_path):
    with tapping(tmp_path / "t") as tapped:
        client, broker = tapped.connected()
        client.send(flow(1) * 10)
        broker.read(10 * len(flow(1)))
        broker.send(message(1, b"x" * 1000))
        client.read(len(message(1, b"x" * 1000)))
        other, _ = tapped.connected()
        other.send(b"\xff" * 100)
        tapped.relay.flush()
        counted = eventually(
            lambda: (c := tapped.relay.counters())["unparsed"] and c["records_seen"] == 18 and c
        )
        assert counted["bytes_to_broker"] == 2 * len(CONNECT) + 10 * len(flow(1)) + 100
        assert counted["bytes_to_client"] == 2 * len(CONNECTED) + len(message(1, b"x" * 1000))
        assert (counted["records_written"], counted["records_dropped"]) == (18, 0)
        assert counted["unparsed"] == 1
        tapped.server.close()
        assert tapped.client().send(CONNECT).rest() == b""
        assert tapped.relay.counters()["unreachable"] == 1
        client.sock.close()
        broker.sock.close()
        eventually(lambda: tapped.relay.counters()["connections_open"] == 1)
        after = tapped.relay.counters()
        assert after["bytes_to_client"] == counted["bytes_to_client"]
        assert after["bytes_to_broker"] == counted["bytes_to_broker"] + len(CONNECT)


def test_a_journal_is_begun_anew_when_somebody_asks(tmp_path):
    with tapping(tmp_path / "t") as tapped:
        assert tapped.relay.rotate() is None
        client, broker = tapped.connected()
        assert tapped.relay.rotate() == 1
        client.send(flow(1))
        broker.read(len(flow(1)))
        assert tapped.relay.rotate() == 2
        assert tapped.relay.rotate() is None
        assert tapped.relay.flush() is True
        assert [path.name for path in journals(tmp_path / "t")][:2] == [
            ".journal-000001.pdj", ".journal-000002.pdj",
        ]  # fmt: skip
        assert tapped.commands(client) == ["OPEN", "CONNECT", "CONNECTED", "FLOW"]


def test_a_late_answer_is_not_taken_for_the_next_one(tmp_path):
    with tapping(tmp_path / "t") as tapped:
        tapped.relay._send({"command": "COUNTERS", "id": 99})
        tapped.relay._send({"command": "COUNTERS"})
        assert tapped.relay.flush() is True
        assert tapped.relay.rotate() is None
        assert tapped.relay.counters()["connections_open"] == 0


# In this process, to see what is left.


@contextlib.contextmanager
def aborted_at_last(writer: asyncio.StreamWriter) -> Iterator[None]:
    """What a peer of ours leaves open would be closed by the event loop, if it can."""
    try:
        yield
    finally:
        writer.transport.abort()


async def others_are_over() -> None:
    """The brokers that a test plays end before the event loop does; what the relay left stays."""
    others = [task for task in asyncio.all_tasks() if task.get_coro().__name__ == "broker"]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def relay(folder: Path, broker: Any, **tls: Any) -> AsyncIterator[tuple[Connections, int]]:
    """A relay in this process, in front of a broker that a StreamReader callback plays."""
    folder.mkdir()
    with JournalFile(str(folder), JournalLimits()) as journal:
        server = await asyncio.start_server(broker, "127.0.0.1", 0, ssl=tls.get("serving"))
        place = server.sockets[0].getsockname()
        listeners = Listeners(tls.get("listening"))
        connections = Connections(journal, places=listeners)
        listeners.connections = connections
        dialler = Dialler(Targets([place]), tls.get("dialling"))
        tap = await listeners.listen(dialler, host="127.0.0.1", port=0)
        yield connections, tap.sockets[0].getsockname()[1]
        listeners.close()
        await connections.close()
        server.close()
        await others_are_over()


@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_connections_of_all_fates_leave_no_task_and_no_row_behind(tmp_path, loop):
    draw = random.Random(11)

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), aborted_at_last(writer):
            await reader.readexactly(len(CONNECT))
            redirect = command_frame(
                24, "lookup_response", response=0, broker_service_url="pulsar://127.0.0.1:9",
                request_id=1,
            )  # fmt: skip
            writer.write(CONNECTED + redirect + message(1, b"x" * 50_000))
            if draw.random() < 0.5:
                writer.transport.abort()
            else:
                while await reader.read(65536):
                    pass
                writer.close()

    async def client(port: int) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(CONNECT[: draw.choice((0, 5, 1000, 1000))])
            await asyncio.sleep(draw.random() / 20)
            if draw.random() < 0.5:
                async with asyncio.timeout(0.2):
                    await reader.readexactly(draw.randrange(1000))
                writer.write(flow(1) * 1000)
        writer.transport.abort() if draw.random() < 0.5 else writer.close()

    async def run() -> None:
        before = len(asyncio.all_tasks())
        async with relay(tmp_path / "t", broker) as (connections, port):
            for _ in range(4):
                await asyncio.gather(*(client(port) for _ in range(100)))
            for _ in range(200):
                await asyncio.sleep(0.02)
                if not connections.open:
                    break
            assert connections.open == set()
            assert connections.counters.connections_open == 0
            assert connections.counters.connections_opened == 400
        await asyncio.sleep(0.05)
        assert len(asyncio.all_tasks()) == before

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])
@pytest.mark.parametrize("tls", [False, True])
def test_small_frames_do_not_wait_for_more(tmp_path, pem, server_side, loop, tls):
    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CONNECTED)
        await reader.read()
        writer.close()

    contexts = {}
    if tls:
        trusting = ssl.create_default_context(cafile=str(pem / "cert.pem"))
        contexts = {"serving": server_side, "listening": server_side, "dialling": trusting}

    async def run() -> None:
        async with relay(tmp_path / "t", broker, **contexts) as (connections, port):
            own = ssl.create_default_context(cafile=str(pem / "cert.pem")) if tls else None
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=own)
            writer.write(CONNECT)
            await reader.readexactly(len(CONNECTED))
            sockets = [side.transport.get_extra_info("socket") for side in connections.open]
            options = [s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for s in sockets]
            assert len(options) == 2
            assert all(options)
            writer.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_a_connection_that_has_much_to_say_is_not_read_twice_before_another(
    tmp_path, loop, monkeypatch
):
    monkeypatch.setattr(sides, "TURN_SECONDS", 0.0)
    read: list[Side] = []
    updated = Side.buffer_updated
    monkeypatch.setattr(
        Side, "buffer_updated", lambda side, size: (read.append(side), updated(side, size))[1]
    )

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CONNECTED)
        while await reader.read(1 << 20):
            pass
        writer.close()

    async def greeted(port: int) -> socket.socket:
        loop, sock = asyncio.get_running_loop(), socket.socket()
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", port))
        await loop.sock_sendall(sock, CONNECT)
        assert await loop.sock_recv(sock, len(CONNECTED)) == CONNECTED
        return sock

    async def run() -> None:
        async with relay(tmp_path / "t", broker) as (connections, port):
            socks = [await greeted(port) for _ in range(2)]
            read.clear()
            sent = [sock.send(flow(1) * 50_000) for sock in socks]  # as much as there is room for
            for _ in range(10_000):
                if sum(side.read_bytes for side in connections.open) < sum(sent):
                    await asyncio.sleep(0)
            for sock in socks:
                sock.close()
        assert min(sent) > 20 * READ_BYTES_LEAST
        both = read[: 2 * min(read.count(side) for side in set(read))]
        assert len(set(both)) == 2
        assert max(len(list(run)) for _, run in itertools.groupby(both)) <= 2

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


def test_of_many_short_frames_so_many_are_looked_at_and_the_others_in_a_later_turn():
    way = Passage(HELD_TO_CLIENT, TO_CLIENT, lambda frame, original, direction: original)
    answer = command_frame(24, "lookup_response", request_id=1)
    said = (PONG * 1000 + answer) * 20 + PONG[:-1]
    passed, turns = way.receive(said), [way.frames]
    while way.more:
        passed += way.receive(b"")
        turns.append(way.frames)
    assert passed == said
    assert sum(map(len, turns)) == 20 * 1001
    assert max(map(len, turns)) <= FRAMES_MOST + STRETCH_BYTES // len(PONG) + 1
    assert len(turns) > 4


def test_short_frames_that_wait_for_their_turn_pass_and_are_journalled(tmp_path):
    with tapping(tmp_path / "t") as tapped:
        client, broker = tapped.connected()
        said = PONG * 100_000
        reader = threading.Thread(target=lambda: client.read(len(said)), daemon=True)
        reader.start()
        broker.send(said).send(flow(9))
        reader.join(60)
        assert client.read(len(flow(9))) == flow(9)
        commands = tapped.commands(client)
        assert commands.count("PONG") == 100_000
        assert commands[-1] == "FLOW"


@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_short_frames_that_wait_for_a_broker_that_never_comes_hold_nobody_up(
    tmp_path, loop, monkeypatch
):
    monkeypatch.setattr(passage, "FRAMES_MOST", 1)
    monkeypatch.setattr(framing, "STRETCH_BYTES", 1)

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def run() -> None:
        async with relay(tmp_path / "t", broker) as (connections, port):
            away = connect_frame("127.0.0.1:1") + flow(1) * 100
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(away)
            assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()
            while connections.open:
                await asyncio.sleep(0.01)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


def test_a_lookup_that_is_none_passes_unseen_and_is_told(tmp_path):
    with tapping(tmp_path / "t") as tapped:
        client, broker = tapped.connected()
        long = command_frame(23, "lookup", topic="x" * HELD_BYTES_MOST, request_id=1)
        client.send(long + flow(1))
        assert broker.read(len(long) + len(flow(1))) == long + flow(1)
        assert tapped.wait_for(client, "FLOW")
        told = tapped.wait_for(client, "UNPARSED")
        assert (told.frame_bytes, told.error_code) == (len(long), "SetAside")
        assert tapped.relay.counters()["frames_too_long"] == 1


@pytest.mark.parametrize("said", [b"", CONNECT[:-1]])
def test_a_client_that_does_not_say_where_it_wants_to_go_is_let_go(tmp_path, monkeypatch, said):
    monkeypatch.setattr(connection, "SILENT_SECONDS", 0.2)

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CONNECTED)
        await reader.read()
        writer.close()

    async def run() -> None:
        async with relay(tmp_path / "t", broker) as (connections, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(CONNECT)
            silent, other = await asyncio.open_connection("127.0.0.1", port)
            other.write(said)
            assert await asyncio.wait_for(silent.read(), 10) == b""
            assert connections.counters.connections_silent == 1
            assert await reader.readexactly(len(CONNECTED)) == CONNECTED
            await asyncio.sleep(0.3)
            assert not reader.at_eof()
            for each in (writer, other):
                each.close()

    asyncio.run(run())


# Between frames.


@pytest.mark.parametrize("held", [frozenset(), HELD_TO_CLIENT])
def test_a_cutter_says_whether_what_passed_ends_with_a_frame(held):
    answer = command_frame(24, "lookup_response", request_id=1)
    stream = flow(1) + message(1, b"x" * 50) + answer + frame(b"\x08\x7f") + flow(2)
    ends = {0}
    for one in (flow(1), message(1, b"x" * 50), answer, frame(b"\x08\x7f"), flow(2)):
        ends.add(max(ends) + len(one))
    for cut in range(len(stream) + 1):
        cutter = Cutter(held)
        cutter.feed(stream[:cut])
        passed = cut - cutter.undecided
        assert cutter.between_frames == (passed in ends), cut
