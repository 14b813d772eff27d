"""Where relays go wrong: ends and resets in every order, readers that are slow, what is no Pulsar.

Both ends are plain sockets, the relay is the real process, on uvloop and on asyncio's own loop.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.tap.relaying import Relay
from pulsar_doctor.wire.columns import Row
from tests.parts.tap.relay.traffic import MIB, sha256_until_end
from tests.parts.tap.tapped import (
    CONNECT,
    LOOPS,
    SECRET,
    Tapped,
    blocks_in,
    flow,
    frame,
    message,
    on_loop,
    rows_in,
    tapping,
)
from tests.support import eventually
from tests.support.processes import linux, resident_bytes
from tests.trace.flooded import pass_on

GARBAGE = b"GET / HTTP/1.1\r\nHost: pulsar\r\n\r\n"
FLOW = flow(1000)


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


# What passes, and is written down.


def test_what_client_and_broker_say_passes_unchanged_and_is_written_down(either_loop):
    client, broker = either_loop.connected()
    pass_on(client, broker, flow(10) + flow(5))
    pushed = message(1, b"a" * 100) + message(1, b"b" * 3_000_000, entry_id=2)
    threading.Thread(target=broker.send, args=(pushed,)).start()
    assert client.read(len(pushed)) == pushed
    rows = either_loop.rows(client)
    assert [row.command for row in rows] == [
        "OPEN", "CONNECT", "CONNECTED", "FLOW", "FLOW", "MESSAGE", "MESSAGE",
    ]  # fmt: skip
    assert (rows[0].client_addr, rows[0].broker_addr) == (client.name, either_loop.broker_url)
    assert [row.permits for row in rows[3:]] == [10, 5, 1, 1]
    assert [row.direction for row in rows[1:4]] == ["to_broker", "to_client", "to_broker"]
    assert (rows[-1].entry_id, rows[-1].frame_bytes) == (2, len(message(1, b"b" * 3_000_000, 2)))
    assert rows[-1].ts == pytest.approx(time.time() * 1e6, abs=20e6)
    assert [row.mono_ns for row in rows] == sorted(row.mono_ns for row in rows)


def test_no_credential_reaches_the_disk(either_loop):
    client, _ = either_loop.connected()
    assert either_loop.wait_for(client, "CONNECT").client_version == "client"
    for path in either_loop.relay.trace_dir.iterdir():
        assert SECRET not in path.read_bytes()


# How connections begin.


def test_a_broker_that_is_not_there_costs_the_client_its_connection_only(tapped):
    tapped.server.close()
    clients = [tapped.client().send(CONNECT) for _ in range(2)]
    assert [client.rest() for client in clients] == [b"", b""]
    tapped.relay.flush()
    closed = [row for row in rows_in(tapped.relay.trace_dir) if row.command == "CLOSE"]
    why = f"the broker {tapped.broker_url} cannot be reached: Connection refused"
    assert [row.error_message for row in closed] == [why] * 2


def test_a_client_that_says_nothing_leaves_nothing_behind(either_loop):
    for _ in range(3):
        either_loop.client().sock.close()
    client, _ = either_loop.connected()
    assert either_loop.commands(client) == ["OPEN", "CONNECT", "CONNECTED"]


@pytest.mark.parametrize("size", [2, 9, len(CONNECT + FLOW) - 1])
def test_whatever_a_client_says_before_it_hangs_up_arrives(either_loop, size):
    said = (CONNECT + FLOW)[:size]
    either_loop.client().send(said).sock.close()
    assert either_loop.accept().rest() == said


def test_a_client_that_says_little_and_only_listens_is_answered(either_loop):
    client = either_loop.client().send(b"hi")
    client.sock.shutdown(socket.SHUT_WR)
    broker = either_loop.accept()
    assert broker.rest() == b"hi"
    broker.send(b"bye").sock.close()
    assert client.rest() == b"bye"


def test_megabytes_and_then_the_end_arrive_at_a_broker_that_takes_its_time(either_loop):
    said = CONNECT + message(1, bytes(MIB)) * 4
    either_loop.client().send(said).sock.close()
    broker = either_loop.accept()
    time.sleep(0.1)
    assert broker.rest() == said


@linux
def test_an_unknown_command_that_lies_about_its_length_costs_nothing(either_loop):
    lie = frame(bytes.fromhex("0863 9a06 06 0a ffffffff03"))  # "a GiB follows", in a field of 6
    client, broker = either_loop.connected()
    before = resident_bytes(either_loop.relay.pid, "VmHWM")
    pass_on(client, broker, lie + FLOW)
    assert either_loop.commands(client)[-2:] == ["COMMAND_99", "FLOW"]
    assert resident_bytes(either_loop.relay.pid, "VmHWM") < before + 8 * MIB


# How connections end. In every order: test_faithful.py.


def end_of(tapped: Tapped, name: str) -> str | None:
    """Why this client's connection was closed, which is told once."""

    def closed() -> list[Row]:
        tapped.relay.flush()
        rows = rows_in(tapped.relay.trace_dir)
        (conn_id,) = {row.conn_id for row in rows if row.client_addr == name}
        return [row for row in rows if row.conn_id == conn_id and row.command == "CLOSE"]

    (close,) = eventually(closed)
    return close.error_message


def test_the_end_of_the_broker_reaches_the_client_after_all_that_it_said(either_loop):
    client, broker = either_loop.connected()
    pushed = message(1, b"x" * 1_000_000)
    threading.Thread(target=lambda: (broker.send(pushed), broker.sock.close())).start()
    time.sleep(0.1)
    assert client.rest() == pushed


@pytest.mark.parametrize("who", ["client", "broker"])
def test_a_reset_is_carried_over(either_loop, who):
    client, broker = either_loop.connected()
    name = client.name
    one, other = (client, broker) if who == "client" else (broker, client)
    reset(one.sock)
    with pytest.raises(ConnectionResetError):
        other.sock.recv(1)
    assert end_of(either_loop, name) == f"reset by the {who}"


def test_an_end_is_told_once_though_the_other_way_was_held_up_in_between(either_loop):
    client, broker = either_loop.connected()
    client.sock.shutdown(socket.SHUT_WR)
    assert broker.rest() == b""
    sent = send_until_it_blocks(broker.sock, message(1, bytes(65536)))
    broker.sock.shutdown(socket.SHUT_WR)
    assert len(client.rest()) == sent


def test_what_was_read_before_a_reset_arrives_before_it(either_loop):
    client, broker = either_loop.connected()
    said = message(1, bytes(30_000))  # no more than the kernel of the client takes at once
    broker.send(said)
    either_loop.wait_for(client, "MESSAGE")
    reset(broker.sock)
    assert end_of(either_loop, client.name) == "reset by the broker"
    assert client.read(len(said)) == said
    with pytest.raises(ConnectionResetError):
        client.sock.recv(1)


# Readers that are slow.


def send_until_it_blocks(sock: socket.socket, data: bytes) -> int:
    sock.settimeout(0.4)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while True:
            sent += sock.send(memoryview(data)[sent % len(data) :])
    return sent


@linux
@pytest.mark.parametrize("slow", ["broker", "client"])
def test_who_reads_slowly_slows_down_who_writes_and_not_the_relay(either_loop, slow):
    data = message(1, bytes(range(256)) * 256) * 16
    client, broker = either_loop.connected()
    before = resident_bytes(either_loop.relay.pid)
    source, sink = (client, broker) if slow == "broker" else (broker, client)
    sent = send_until_it_blocks(source.sock, data)
    assert sent < 100_000_000  # what the buffers of the kernel take
    assert resident_bytes(either_loop.relay.pid) < before + 8 * MIB
    pass_on(sink, source, FLOW)  # the other way goes on
    other, _ = either_loop.connected()  # and so do others
    assert either_loop.commands(other)[0] == "OPEN"
    source.sock.shutdown(socket.SHUT_WR)
    whole = hashlib.sha256(data * (sent // len(data)) + data[: sent % len(data)])
    assert sha256_until_end(sink.sock) == whole.hexdigest()


@linux
def test_a_broker_that_reads_nothing_holds_up_a_client_from_its_first_byte(either_loop):
    before = resident_bytes(either_loop.relay.pid)
    client = either_loop.client().send(CONNECT)
    broker = either_loop.accept()
    sent = send_until_it_blocks(client.sock, CONNECT + message(1, bytes(65536)) * 16)
    assert resident_bytes(either_loop.relay.pid) < before + 8 * MIB
    client.sock.shutdown(socket.SHUT_WR)
    assert len(broker.rest()) == len(CONNECT) + sent


# The process.


def test_what_was_seen_half_a_second_before_a_kill_can_be_read(tapped):
    client, broker = tapped.connected()
    until = time.monotonic() + 1.0
    sent = []
    while time.monotonic() < until:
        pass_on(client, broker, FLOW)
        sent.append(time.monotonic_ns())
    os.kill(tapped.relay.pid, signal.SIGKILL)
    killed = time.monotonic_ns()
    for asked in (tapped.relay.check, tapped.relay.flush):
        with pytest.raises(DoctorError, match=r"the relay ended \(exit code -9\)"):
            eventually(asked)
    flows = sum(row.command == "FLOW" for row in rows_in(tapped.relay.trace_dir))
    assert flows >= sum(at < killed - 500e6 for at in sent)
    assert killed - blocks_in(tapped.relay.trace_dir)[-1].mono_ns < 500e6


ENDS = {
    "stop": lambda relay: threading.Thread(target=relay.stop).start(),
    "SIGTERM": lambda relay: os.kill(relay.pid, signal.SIGTERM),
    "STOP": lambda relay: relay._send({"command": "STOP"}),
}


@pytest.mark.parametrize("how", ENDS)
def test_an_end_delivers_what_was_read(tapped, how):
    relay: Relay = tapped.relay
    one = message(1, bytes(65536))
    (client, broker), (second, _) = tapped.connected(), tapped.connected()
    send_until_it_blocks(broker.sock, one)
    seen = tapped.commands(client).count("MESSAGE")
    assert seen > 4
    ENDS[how](relay)
    time.sleep(0.3)
    assert len(client.rest()) >= seen * len(one)
    assert second.rest() == b""
    assert relay._process.wait(5) == 0
    commands = [row.command for row in rows_in(relay.trace_dir)]
    assert commands.count("CLOSE") == 2
    assert commands[-1] == "CLOSE"


def test_control_lines_that_make_no_sense_are_passed_over(tapped):
    stdin = tapped.relay._process.stdin
    assert stdin is not None
    stdin.write(b'\n[]\n{}\n\xff\n{"command": [1]}\nnonsense\n')
    stdin.flush()
    client, _ = tapped.connected()
    assert tapped.commands(client) == ["OPEN", "CONNECT", "CONNECTED"]


@pytest.mark.parametrize("loop", LOOPS)
def test_nothing_is_printed_whatever_the_peers_do(tmp_path, capfd, loop):
    with on_loop(loop, tmp_path), tapping(tmp_path / "t") as tapped:
        for end in (reset, socket.socket.close):
            for one in (0, 1):
                ends = tapped.connected()
                end(ends[one].sock)
                with contextlib.suppress(OSError):
                    for _ in range(100):
                        ends[1 - one].send(FLOW * 1000)
                ends[1 - one].sock.close()
        tapped.client().send(GARBAGE)
        tapped.accept().sock.close()
        for _ in range(20):
            tapped.client().send(CONNECT[:11]).sock.close()
        tapped.client().send(CONNECT + message(1, bytes(MIB))).sock.close()  # while the relay ends
    assert capfd.readouterr() == ("", "")


def test_a_relay_whose_starter_is_gone_prints_nothing_either(tapped, capfd):
    process = tapped.relay._process
    assert process.stdout is not None
    process.stdout.close()
    with contextlib.suppress(Exception):
        tapped.relay._send({"command": "FLUSH"})
    process.stdin.close()
    assert process.wait(5) == 0
    tapped.relay.stop()
    assert capfd.readouterr() == ("", "")


@linux
def test_nothing_secret_stands_in_the_arguments_of_the_process(tmp_path):
    with tapping(tmp_path / "t", service_url="pulsar://127.0.0.1:{}/canary") as tapped:
        arguments = Path(f"/proc/{tapped.relay.pid}/cmdline").read_bytes()
        assert os.getsid(tapped.relay.pid) == tapped.relay.pid
    assert b"pulsar_doctor.parts.tap.relay" in arguments
    assert b"canary" not in arguments
    for path in (tmp_path / "t").iterdir():
        assert b"canary" not in path.read_bytes()


def test_an_address_of_ipv6_has_its_brackets(tmp_path):
    with tapping(tmp_path / "t", listen="[::1]:0") as tapped:
        assert tapped.relay.service_url.startswith("pulsar://[::1]:")
        port = int(tapped.relay.service_url.rpartition(":")[2])
        with socket.create_connection(("::1", port)) as client:
            client.sendall(CONNECT)
            assert tapped.accept().read(len(CONNECT)) == CONNECT
            tapped.relay.flush()
            rows = rows_in(tapped.relay.trace_dir)
            assert rows[0].client_addr == f"[::1]:{client.getsockname()[1]}"
