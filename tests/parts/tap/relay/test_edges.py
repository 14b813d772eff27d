"""Where relays go wrong: ends and resets in every order, readers that are slow, what is no Pulsar.

Both ends are plain sockets, the relay is the real process, on uvloop and on asyncio's own loop.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsar_doctor.parts.tap.options import RelayOptions
from pulsar_doctor.parts.tap.relaying import Relay, relaying
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import Row
from tests.parts.tap.tapped import blocks_in, command_frame, frame, rows_in
from tests.parts.tap.tapped import message as message_to
from tests.support import eventually

MIB = 1024 * 1024
linux = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")
RESET = struct.pack("ii", 1, 0)
Name = tuple[str, int]


def message(payload: bytes) -> bytes:
    return message_to(1, payload)


def lookup_response(url: str, **more: str | bool) -> bytes:
    return command_frame(24, "lookup_response", broker_service_url=url, response=1, **more)


def kept_on_tap(url: str) -> bytes:
    """The same as the client gets it: whichever URL it reads, it comes back to the tap."""
    with_tls = url.replace("pulsar:", "pulsar+ssl:")
    return lookup_response(url, broker_service_url_tls=with_tls, proxy_through_service_url=True)


CONNECT = command_frame(2, "connect", client_version="test")
CONNECTED = command_frame(3, "connected", server_version="test")
FLOW = command_frame(11, "flow", consumer_id=1, message_permits=1000)
GARBAGE = b"GET / HTTP/1.1\r\nHost: pulsar\r\n\r\n"


class Tap:
    """A relay, and the broker that it was told of."""

    def __init__(self, relay: Relay, broker: socket.socket) -> None:
        self.relay = relay
        self.broker = broker

    def client(self) -> socket.socket:
        address = ("127.0.0.1", int(self.relay.service_url.rpartition(":")[2]))
        return socket.create_connection(address, timeout=5)

    def accept(self) -> socket.socket:
        accepted, _ = self.broker.accept()
        accepted.settimeout(5)
        return accepted

    @contextlib.contextmanager
    def pair(self) -> Iterator[tuple[socket.socket, socket.socket]]:
        """A client and the broker that it reaches, once both have said who they are."""
        with self.client() as client:
            client.sendall(CONNECT)
            with self.accept() as broker:
                passes(broker, CONNECT)
                broker.sendall(CONNECTED)
                passes(client, CONNECTED)
                yield client, broker

    def rows(self, client: Name) -> list[Row]:
        """What is recorded of the connection of this client."""
        self.relay.flush()
        rows = rows_in(self.relay.trace_dir)
        address = f"{client[0]}:{client[1]}"
        conn_ids = {r.conn_id for r in rows if r.command == "OPEN" and r.client_addr == address}
        return [row for row in rows if row.conn_id in conn_ids]

    def commands(self, client: Name) -> list[str]:
        return [row.command for row in self.rows(client)]

    def end(self, client: Name) -> str | None:
        """Why this client's connection was closed."""
        close = eventually(lambda: [row for row in self.rows(client) if row.command == "CLOSE"])
        assert len(close) == 1
        return close[0].error_message


def passes(sock: socket.socket, expected: bytes) -> None:
    data = b""
    while len(data) < len(expected) and (more := sock.recv(len(expected) - len(data))):
        data += more
    assert data == expected


def until_end(sock: socket.socket) -> bytes:
    data = bytearray()
    while more := sock.recv(65536):
        data += more
    return bytes(data)


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    sock.close()


@contextlib.contextmanager
def tapping(folder: Path, loop: str = "uvloop") -> Iterator[Tap]:
    with contextlib.ExitStack() as stack:
        if loop == "asyncio":
            shadow = folder / "no-uvloop"
            shadow.mkdir()
            (shadow / "uvloop.py").write_text("raise ImportError\n")
            stack.enter_context(pytest.MonkeyPatch.context()).setenv("PYTHONPATH", str(shadow))
        broker = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        broker.settimeout(5)
        url = f"pulsar://127.0.0.1:{broker.getsockname()[1]}"
        yield Tap(stack.enter_context(relaying(url, folder / "trace")), broker)


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def tap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tap]:
    with tapping(tmp_path_factory.mktemp("relay"), request.param) as tap:
        yield tap


@pytest.fixture
def own_tap(tmp_path: Path) -> Iterator[Tap]:
    """One that a test may end."""
    with tapping(tmp_path) as tap:
        yield tap


# How connections begin.


def test_a_client_that_finds_no_broker_is_on_record_with_what_it_said(tap):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"pulsar://127.0.0.1:{gone.getsockname()[1]}"
    with tap.pair() as (client, broker):
        broker.sendall(lookup_response(url))
        told = client.recv(len(kept_on_tap(url)), socket.MSG_WAITALL)
        named = wire.BaseCommand.FromString(told[8:]).lookup_response.broker_service_url
        assert told == kept_on_tap(named) != kept_on_tap(url)
    with tap.client() as client:
        name = client.getsockname()
        client.sendall(command_frame(2, "connect", proxy_to_broker_url=url))
        assert client.recv(1) == b""
    assert tap.end(name) == f"the broker {url[9:]} cannot be reached: Connection refused"
    assert tap.commands(name) == ["OPEN", "CONNECT", "CLOSE"]


@pytest.mark.parametrize("size", [9, len(CONNECT + FLOW) - 1])
def test_whatever_a_client_says_before_it_hangs_up_arrives(tap, size):
    said = (CONNECT + FLOW)[:size]
    with tap.client() as client:
        client.sendall(said)
    with tap.accept() as broker:
        assert until_end(broker) == said


def test_megabytes_and_then_the_end_arrive_at_a_broker_that_takes_its_time(tap):
    said = CONNECT + message(bytes(MIB)) * 4
    with tap.client() as client:
        client.sendall(said)
    with tap.accept() as broker:
        time.sleep(0.1)
        assert until_end(broker) == said


# What is no Pulsar, or not any more.


@linux
def test_an_unknown_command_that_lies_about_its_length_costs_nothing(tap):
    lie = frame(bytes.fromhex("0863 9a06 06 0a ffffffff03"))  # "a GiB follows", in a field of 6
    with tap.pair() as (client, broker):
        before = resident_bytes(tap.relay, "VmHWM")
        client.sendall(lie + FLOW)
        passes(broker, lie + FLOW)
        assert tap.commands(client.getsockname())[-2:] == ["COMMAND_99", "FLOW"]
        assert resident_bytes(tap.relay, "VmHWM") < before + 8 * MIB


# How connections end.


def test_a_client_that_has_ended_still_gets_answers(tap):
    with tap.pair() as (client, broker):
        name = client.getsockname()
        client.sendall(FLOW)
        client.shutdown(socket.SHUT_WR)
        assert until_end(broker) == FLOW
        for _ in range(3):
            broker.sendall(message(b"x"))
            passes(client, message(b"x"))
        broker.close()
        assert client.recv(1) == b""
    assert tap.end(name) == "closed by the client"


def test_a_broker_that_has_ended_still_hears_the_client(tap):
    with tap.pair() as (client, broker):
        name = client.getsockname()
        broker.sendall(FLOW)
        broker.shutdown(socket.SHUT_WR)
        assert until_end(client) == FLOW
        for _ in range(3):
            client.sendall(FLOW)
            passes(broker, FLOW)
        client.close()
        assert broker.recv(1) == b""
    assert tap.end(name) == "closed by the broker"


def test_an_end_is_told_once_though_the_other_way_was_held_up_in_between(tap):
    with tap.pair() as (client, broker):
        client.shutdown(socket.SHUT_WR)
        assert broker.recv(1) == b""
        sent = send_until_it_blocks(broker, message(bytes(65536)))
        broker.shutdown(socket.SHUT_WR)
        assert len(until_end(client)) == sent


def test_what_was_read_before_a_reset_arrives_before_it(tap):
    with tap.pair() as (client, broker):
        name = client.getsockname()
        said = message(bytes(30_000))  # no more than the kernel of the client takes at once
        broker.sendall(said)
        eventually(lambda: tap.commands(name)[-1] == "MESSAGE")
        reset(broker)
        assert tap.end(name) == "reset by the broker"
        passes(client, said)
        with pytest.raises(ConnectionResetError):
            client.recv(1)


# Much at once.


def stream(seed: int, size: int) -> tuple[bytes, int]:
    """Frames of many lengths, and how many they are."""
    chance = random.Random(seed)
    frames = []
    while size > 0:
        length = int(2 ** chance.uniform(0, 20))
        frames += [message(chance.randbytes(length)), FLOW]
        size -= length
    return b"".join(frames), len(frames)


def send_in_pieces(sock: socket.socket, data: bytes) -> None:
    chance = random.Random(5)
    at = 0
    while at < len(data):
        size = int(2 ** chance.uniform(0, 20))
        sock.sendall(memoryview(data)[at : at + size])
        at += size
    sock.shutdown(socket.SHUT_WR)


def digest(sock: socket.socket) -> str:
    summed = hashlib.sha256()
    while more := sock.recv(MIB):
        summed.update(more)
    return summed.hexdigest()


@pytest.fixture(scope="module")
def streams() -> tuple[tuple[bytes, int], tuple[bytes, int]]:
    return stream(1, 64 * MIB), stream(2, 64 * MIB)


def test_sixty_four_mebibytes_each_way_arrive_as_they_were_sent(tap, streams):
    (to_broker, sent), (to_client, pushed) = streams
    digests: dict[str, str] = {}
    with tap.pair() as (client, broker):
        name = client.getsockname()
        threads = [
            threading.Thread(target=send_in_pieces, args=(client, to_broker)),
            threading.Thread(target=send_in_pieces, args=(broker, to_client)),
            threading.Thread(target=lambda: digests.update(broker=digest(broker))),
            threading.Thread(target=lambda: digests.update(client=digest(client))),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert digests["broker"] == hashlib.sha256(to_broker).hexdigest()
    assert digests["client"] == hashlib.sha256(to_client).hexdigest()
    tap.end(name)
    seen = [row.direction for row in tap.rows(name) if row.command in ("MESSAGE", "FLOW")]
    assert (seen.count("to_broker"), seen.count("to_client")) == (sent, pushed)


def resident_bytes(relay: Relay, which: str = "VmRSS") -> int:
    """VmRSS: now; VmHWM: the most it ever was."""
    status = Path(f"/proc/{relay.pid}/status").read_text()
    return int(status.partition(f"{which}:")[2].split()[0]) * 1024


def send_until_it_blocks(sock: socket.socket, data: bytes) -> int:
    sock.settimeout(0.4)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while True:
            sent += sock.send(memoryview(data)[sent % len(data) :])
    return sent


@linux
@pytest.mark.parametrize("slow", ["broker", "client"])
def test_who_reads_slowly_slows_down_who_writes_and_not_the_relay(tap, slow):
    data = message(bytes(range(256)) * 256) * 16
    with tap.pair() as (client, broker):
        before = resident_bytes(tap.relay)
        source, sink = (client, broker) if slow == "broker" else (broker, client)
        sent = send_until_it_blocks(source, data)
        assert sent < 128 * MIB  # what the buffers of the kernel take
        assert resident_bytes(tap.relay) < before + 8 * MIB
        sink.sendall(FLOW)  # the other way goes on
        passes(source, FLOW)
        source.shutdown(socket.SHUT_WR)
        whole = hashlib.sha256(data * (sent // len(data)) + data[: sent % len(data)])
        assert digest(sink) == whole.hexdigest()


@linux
def test_a_broker_that_reads_nothing_holds_up_a_client_from_its_first_byte(tap):
    data = CONNECT + message(bytes(65536)) * 16
    with tap.client() as client:
        before = resident_bytes(tap.relay)
        client.sendall(CONNECT)
        with tap.accept() as broker:
            sent = send_until_it_blocks(client, data)
            assert resident_bytes(tap.relay) < before + 8 * MIB
            client.shutdown(socket.SHUT_WR)
            assert len(until_end(broker)) == len(CONNECT) + sent


# The process.


def test_what_was_seen_half_a_second_before_a_kill_can_be_read(own_tap):
    with own_tap.pair() as (client, broker):
        until = time.monotonic() + 1.0
        sent = []
        while time.monotonic() < until:
            client.sendall(FLOW)
            passes(broker, FLOW)
            sent.append(time.monotonic_ns())
        os.kill(own_tap.relay.pid, signal.SIGKILL)
        killed = time.monotonic_ns()
    flows = sum(row.command == "FLOW" for row in rows_in(own_tap.relay.trace_dir))
    assert flows >= sum(at < killed - 500e6 for at in sent)
    assert killed - blocks_in(own_tap.relay.trace_dir)[-1].mono_ns < 500e6


ENDS = {
    "stop": lambda relay: threading.Thread(target=relay.stop).start(),
    "SIGTERM": lambda relay: os.kill(relay.pid, signal.SIGTERM),
    "STOP": lambda relay: relay._send({"command": "STOP"}),
}


@pytest.mark.parametrize("how", ENDS)
def test_an_end_delivers_what_was_read(own_tap, how):
    relay = own_tap.relay
    one = message(bytes(65536))
    with own_tap.pair() as (client, broker), own_tap.pair() as (second, _):
        send_until_it_blocks(broker, one)
        seen = own_tap.commands(client.getsockname()).count("MESSAGE")
        assert seen > 4
        ENDS[how](relay)
        time.sleep(0.3)
        assert len(until_end(client)) >= seen * len(one)
        assert until_end(second) == b""
        assert relay._process.wait(5) == 0
    commands = [row.command for row in rows_in(relay.trace_dir)]
    assert commands.count("CLOSE") == 2
    assert commands[-1] == "CLOSE"


def test_control_lines_that_make_no_sense_are_passed_over(own_tap):
    stdin = own_tap.relay._process.stdin
    assert stdin is not None
    stdin.write(b'\n[]\n{}\n\xff\n{"command": [1]}\nnonsense\n')
    stdin.flush()
    with own_tap.pair() as (client, _):
        assert own_tap.commands(client.getsockname()) == ["OPEN", "CONNECT", "CONNECTED"]


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_nothing_is_printed_whatever_the_peers_do(tmp_path, capfd, loop):
    with tapping(tmp_path, loop) as tap:
        for end in (reset, socket.socket.close):
            for one in (0, 1):
                with tap.pair() as ends:
                    end(ends[one])
                    with contextlib.suppress(OSError):
                        for _ in range(100):
                            ends[1 - one].sendall(FLOW * 1000)
        with tap.client() as client:
            client.sendall(GARBAGE)
            tap.accept().close()
        for _ in range(20):
            with tap.client() as client:
                client.sendall(CONNECT[:11])
        with tap.client() as client:  # while the relay ends
            client.sendall(CONNECT + message(bytes(MIB)))
    assert capfd.readouterr() == ("", "")


def test_a_relay_whose_starter_is_gone_prints_nothing_either(tmp_path, capfd):
    with tapping(tmp_path) as tap:
        process = tap.relay._process
        assert process.stdout is not None
        process.stdout.close()
        with contextlib.suppress(Exception):
            tap.relay._send({"command": "FLUSH"})
        process.stdin.close()
        assert process.wait(5) == 0
    assert capfd.readouterr() == ("", "")


@linux
def test_nothing_secret_stands_in_the_arguments_of_the_process(tmp_path):
    with (
        socket.create_server(("127.0.0.1", 0)) as broker,
        relaying(f"pulsar://127.0.0.1:{broker.getsockname()[1]}/canary", tmp_path / "t") as tap,
    ):
        arguments = Path(f"/proc/{tap.pid}/cmdline").read_bytes()
        assert os.getsid(tap.pid) == tap.pid
    assert b"pulsar_doctor.parts.tap.relay" in arguments
    assert b"canary" not in arguments
    for path in (tmp_path / "t").iterdir():
        assert b"canary" not in path.read_bytes()


def test_an_address_of_ipv6_has_its_brackets(tmp_path):
    with (
        socket.create_server(("127.0.0.1", 0)) as broker,
        relaying(
            f"pulsar://127.0.0.1:{broker.getsockname()[1]}",
            tmp_path / "t",
            RelayOptions(listen="[::1]:0"),
        ) as relay,
        socket.create_connection(("::1", int(relay.service_url.rpartition(":")[2]))) as client,
    ):
        assert relay.service_url.startswith("pulsar://[::1]:")
        client.sendall(CONNECT)
        with broker.accept()[0] as accepted:
            passes(accepted, CONNECT)
        relay.flush()
        rows = rows_in(relay.trace_dir)
        assert rows[0].client_addr == f"[::1]:{client.getsockname()[1]}"
