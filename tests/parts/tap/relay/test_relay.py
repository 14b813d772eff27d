"""What passes through the relay: sockets of ours at both ends, between them the real process."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsar_doctor.parts.tap.relaying import Relay, relaying
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import Row
from tests.parts.tap.tapped import (
    AUTH,
    CONNECT,
    CONNECTED,
    FUTURE,
    SECRET,
    Tapped,
    connect_frame,
    flow,
    frame,
    message,
    rows_in,
    tapping,
)
from tests.support import eventually


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    """One relay for the tests that only look at their own connections."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        url = f"pulsar://127.0.0.1:{server.getsockname()[1]}"
        relay = stack.enter_context(relaying(url, tmp_path_factory.mktemp("relay") / "trace"))
        yield relay, server


@pytest.fixture
def tapped(shared) -> Iterator[Tapped]:
    with contextlib.ExitStack() as stack:
        yield Tapped(*shared, stack)


# What passes.


def test_what_client_and_broker_say_passes_unchanged_and_is_written_down(tapped):
    client, broker = tapped.connected()
    client.send(flow(10) + flow(5))
    assert broker.read(len(flow(10) + flow(5))) == flow(10) + flow(5)
    pushed = message(1, b"a" * 100) + message(1, b"b" * 3_000_000, entry_id=2)
    threading.Thread(target=broker.send, args=(pushed,)).start()
    assert client.read(len(pushed)) == pushed
    rows = tapped.rows(client)
    assert [row.command for row in rows] == [
        "OPEN", "CONNECT", "CONNECTED", "FLOW", "FLOW", "MESSAGE", "MESSAGE",
    ]  # fmt: skip
    assert (rows[0].client_addr, rows[0].broker_addr) == (client.name, tapped.broker_url)
    assert [row.permits for row in rows[3:]] == [10, 5, 1, 1]
    assert [row.direction for row in rows[1:4]] == ["to_broker", "to_client", "to_broker"]
    assert (rows[-1].entry_id, rows[-1].frame_bytes) == (2, len(message(1, b"b" * 3_000_000, 2)))
    assert rows[-1].ts == pytest.approx(time.time() * 1e6, abs=20e6)
    assert [row.mono_ns for row in rows] == sorted(row.mono_ns for row in rows)


@pytest.mark.parametrize("seed", [0])
def test_streams_cut_anywhere_pass_both_ways_at_once(tapped, seed):
    draw = random.Random(seed)
    client, broker = tapped.connected()
    up = b"".join(flow(draw.randrange(1, 300)) for _ in range(200))
    down = b"".join(message(1, draw.randbytes(draw.randrange(2000))) for _ in range(200))
    senders = [
        threading.Thread(target=end.send, args=(data,), kwargs={"pieces": draw.randrange(50, 5000)})
        for end, data in ((client, up), (broker, down))
    ]
    for sender in senders:
        sender.start()
    assert client.read(len(down)) == down
    assert broker.read(len(up)) == up
    for sender in senders:
        sender.join()
    commands = tapped.commands(client)
    assert (commands.count("FLOW"), commands.count("MESSAGE")) == (200, 200)


def test_no_credential_reaches_the_disk(tapped):
    client, _ = tapped.connected()
    assert tapped.wait_for(client, "CONNECT").client_version == "client"
    for path in tapped.relay.trace_dir.iterdir():
        assert SECRET not in path.read_bytes()


# What keeps a client on the tap.


def lookup_answer(broker: str, **more: object) -> bytes:
    answer = wire.LookupResponse(
        broker_service_url=f"pulsar://{broker}", response=1, request_id=9, **more
    )
    return wire.BaseCommand(type=24, lookup_response=answer).SerializeToString()


def test_a_connect_is_taken_to_the_broker_that_a_lookup_named(tapped):
    client, broker = tapped.connected()
    url, server = tapped.another_broker()
    broker.send(frame(lookup_answer(url)))
    assert client.sock.recv(1000)
    second = tapped.client().send(connect_frame(url) + flow(3))
    arrived = tapped.accept(server)
    stripped = wire.BaseCommand.FromString(connect_frame(url)[8:])
    stripped.connect.ClearField("proxy_to_broker_url")
    expected = frame(stripped.SerializeToString()) + flow(3)
    assert arrived.read(len(expected)) == expected
    assert AUTH in expected
    assert expected.count(FUTURE) == 2
    assert url.encode() not in expected
    arrived.send(CONNECTED)
    assert second.read(len(CONNECTED)) == CONNECTED
    opened, *others = tapped.rows(second)
    assert opened.broker_addr == url
    assert [row.command for row in others] == ["CONNECT", "FLOW", "CONNECTED"]


# What cannot be observed.

HTTP = b"GET /admin/v2/brokers HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_what_is_no_pulsar_passes_with_one_unparsed(tapped):
    client = tapped.client().send(HTTP)
    broker = tapped.accept()
    assert broker.read(len(HTTP)) == HTTP
    broker.send(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_000)
    assert len(client.read(100_019)) == 100_019
    client.send(HTTP * 3)
    assert broker.read(3 * len(HTTP)) == HTTP * 3
    rows = tapped.rows(client)
    assert [row.command for row in rows] == ["OPEN", "UNPARSED"]
    assert "longer than the 5253120" in rows[1].error_message


def test_a_client_that_says_little_and_hangs_up_is_heard(tapped):
    client = tapped.client().send(b"hi")
    client.sock.shutdown(socket.SHUT_WR)
    broker = tapped.accept()
    assert broker.rest() == b"hi"
    broker.send(b"bye").sock.close()
    assert client.rest() == b"bye"


# How connections end.


def test_a_half_close_is_carried_over_and_the_other_direction_goes_on(tapped):
    client, broker = tapped.connected()
    client.send(flow(1) + b"\0\0")  # the beginning of a frame that never ends
    client.sock.shutdown(socket.SHUT_WR)
    assert broker.rest() == flow(1) + b"\0\0"
    pushed = message(1, b"x" * 100_000)
    broker.send(pushed)
    assert client.read(len(pushed)) == pushed
    broker.sock.close()
    assert client.rest() == b""
    assert tapped.wait_for(client, "CLOSE").error_message == "closed by the client"


def test_the_end_of_the_broker_reaches_the_client_after_all_that_it_said(tapped):
    client, broker = tapped.connected()
    pushed = message(1, b"x" * 1_000_000)
    threading.Thread(target=lambda: (broker.send(pushed), broker.sock.close())).start()
    time.sleep(0.1)
    assert client.rest() == pushed
    client.sock.close()


@pytest.mark.parametrize("who", ["client", "broker"])
def test_a_reset_is_carried_over(tapped, who):
    client, broker = tapped.connected()
    name = client.name
    ends = {"client": client, "broker": broker}
    ends[who].sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ends.pop(who).sock.close()
    (other,) = ends.values()
    with pytest.raises(ConnectionResetError):
        other.sock.recv(1)
    rows = eventually(lambda: [r for r in journal_rows(tapped, name) if r.command == "CLOSE"])
    assert rows[0].error_message == f"reset by the {who}"


def journal_rows(tapped: Tapped, client_name: str) -> list[Row]:
    tapped.relay.flush()
    rows = rows_in(tapped.relay.trace_dir)
    (conn_id,) = {row.conn_id for row in rows if row.client_addr == client_name}
    return [row for row in rows if row.conn_id == conn_id]


def test_a_client_that_says_nothing_leaves_nothing_behind(tapped):
    for _ in range(3):
        tapped.client().sock.close()
    client, _ = tapped.connected()
    assert tapped.commands(client) == ["OPEN", "CONNECT", "CONNECTED"]


def test_an_end_that_does_not_read_stops_the_other_and_not_the_relay(tapped):
    client, broker = tapped.connected()
    pushed = message(1, bytes(1_000_000))
    broker.sock.settimeout(0.5)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 200_000_000:
            sent += broker.sock.send(pushed[sent % len(pushed) :])
    assert sent < 100_000_000, "the relay swallows whatever comes"
    assert resident_bytes(tapped.relay.pid) < 120_000_000
    got = 0
    while got < sent:
        got += len(client.sock.recv(1 << 20))
    assert got == sent
    other, _ = tapped.connected()
    assert tapped.commands(other)[0] == "OPEN"


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_broker_that_is_not_there_costs_the_client_its_connection_only(tmp_path):
    with tapping(tmp_path / "t") as tapped:
        tapped.server.close()
        for _ in range(2):
            client = tapped.client().send(CONNECT)
            assert client.rest() == b""
        tapped.relay.flush()
        closed = [row for row in rows_in(tapped.relay.trace_dir) if row.command == "CLOSE"]
        assert len(closed) == 2
        assert "cannot be reached" in closed[0].error_message
        assert tapped.broker_url in closed[0].error_message
