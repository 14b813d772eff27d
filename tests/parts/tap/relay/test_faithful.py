"""Every byte arrives, in order, whatever it is, however it is cut, and whoever ends first."""

from __future__ import annotations

import itertools
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pulsar_doctor.trace.ring import RingLimits
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import Row
from tests.parts.tap.relay.traffic import (
    MIB,
    Stream,
    at_once,
    frames,
    nonsense,
    send_in_pieces,
    sha256,
    sha256_until_end,
)
from tests.parts.tap.tapped import LOOPS, flow, message, tapping
from tests.support import eventually
from tests.support.processes import descriptors, linux

# Much of everything.


def send_all(end, stream: Stream, seed: int) -> None:
    send_in_pieces(end.sock, stream.data, seed)
    end.sock.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("tapped", LOOPS, indirect=True)
@pytest.mark.parametrize("made", [frames, nonsense])
@pytest.mark.parametrize("size", [16 * MIB, pytest.param(256 * MIB, marks=pytest.mark.slow)])
def test_what_is_sent_each_way_in_pieces_of_any_length_arrives(tapped, made, size):
    to_broker, to_client = made(1, size), made(2, size)
    client, broker = tapped.connected()
    arrived: dict[str, str] = {}
    at_once(
        lambda: send_all(client, to_broker, 3),
        lambda: send_all(broker, to_client, 4),
        lambda: arrived.update(broker=sha256_until_end(broker.sock)),
        lambda: arrived.update(client=sha256_until_end(client.sock)),
    )
    assert arrived == {"broker": sha256(to_broker.data), "client": sha256(to_client.data)}
    tapped.wait_for(client, "CLOSE")
    rows = tapped.rows(client)[3:-1]
    if made is nonsense:
        assert [row.command for row in rows] == ["UNPARSED"]
        return
    for direction, stream in (("to_broker", to_broker), ("to_client", to_client)):
        assert [row.command_code for row in rows if row.direction == direction] == stream.codes


# Observing is switched on and off meanwhile.

COUNT = 65_536
BATCH = 256


def send_evenly(end, parts: list[bytes], seconds: float) -> None:
    for part in parts:
        end.sock.sendall(part)
        time.sleep(seconds / len(parts))


def numbered(made: Callable[[int], bytes]) -> list[bytes]:
    return [b"".join(map(made, range(first, first + BATCH))) for first in range(0, COUNT, BATCH)]


def numbered_message(number: int) -> bytes:
    return message(1, b"payload", entry_id=number)


class Observed:
    """The observer of a trace: started, stopped, killed, started again."""

    def __init__(self, trace_dir: Path) -> None:
        self._command = [sys.executable, "-m", "pulsar_doctor.parts.tap.observer", str(trace_dir)]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def refuse_journal(pid: int, refuse: bool) -> None:
    """From now on the kernel lets no file of this process grow; or again it does."""
    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (100 if refuse else most, most))


def switch_on_and_off(relay_pid: int, observed: Observed, over: threading.Event) -> None:
    steps = (
        lambda: refuse_journal(relay_pid, True),
        lambda: observed.signal(signal.SIGSTOP),
        lambda: refuse_journal(relay_pid, False),
        observed.kill,
        observed.start,
    )
    for step in itertools.cycle(steps):
        step()
        if over.wait(0.15):
            break
    refuse_journal(relay_pid, False)
    observed.kill()


@linux
def test_numbered_frames_stay_in_order_while_observing_is_switched_on_and_off(tmp_path):
    trace_dir = tmp_path / "t"
    ups, downs = numbered(flow), numbered(numbered_message)
    with tapping(trace_dir, limits=RingLimits(rotate_seconds=0.5)) as tapped:
        client, broker = tapped.connected()
        observed, over = Observed(trace_dir), threading.Event()
        switching = threading.Thread(
            target=switch_on_and_off, args=(tapped.relay.pid, observed, over)
        )
        switching.start()
        arrived: dict[str, bytes] = {}
        try:
            at_once(
                lambda: send_evenly(client, ups, 2.0),
                lambda: send_evenly(broker, downs, 2.0),
                lambda: arrived.update(broker=broker.read(sum(map(len, ups)))),
                lambda: arrived.update(client=client.read(sum(map(len, downs)))),
            )
        finally:
            over.set()
            switching.join()
        assert arrived["broker"] == b"".join(ups)
        assert arrived["client"] == b"".join(downs)
        client.sock.close()
        tapped.relay.stop()
    rows = list(open_trace(trace_dir).rows())
    assert_in_order_and_all_accounted_for(
        rows, 2 * COUNT + len(("OPEN", "CONNECT", "CONNECTED", "CLOSE"))
    )


def assert_in_order_and_all_accounted_for(rows: list[Row], seen: int) -> None:
    for of_row in (flow_number, message_number):
        numbers = [number for row in rows if (number := of_row(row)) is not None]
        assert numbers == sorted(set(numbers))
        assert numbers, "nothing at all was written"
    gaps = [row for row in rows if row.command == "GAP"]
    assert gaps, "the journal was never refused"
    dropped = sum(row.dropped or 0 for row in gaps)
    assert len(rows) - len(gaps) + dropped == seen


def flow_number(row: Row) -> int | None:
    return row.permits if row.command == "FLOW" else None


def message_number(row: Row) -> int | None:
    return row.entry_id if row.command == "MESSAGE" else None


# Who ends first, and what is still said.

SAID = message(1, b"x" * 200_000) + b"\0\0\0\x09"  # the beginning of a frame that never ends


@linux
@pytest.mark.parametrize("first", ["client", "broker"])
@pytest.mark.parametrize("before", [b"", SAID], ids=["silent", "with its last words"])
@pytest.mark.parametrize("after", [b"", SAID], ids=["answered by an end", "answered by more"])
def test_ends_are_carried_over_in_every_order(either_loop, first, before, after):
    open_before = descriptors(either_loop.relay.pid)
    client, broker = either_loop.connected()
    one, other = (client, broker) if first == "client" else (broker, client)
    one.send(before)
    one.sock.shutdown(socket.SHUT_WR)
    assert other.rest() == before
    heard: list[bytes] = []
    reading = threading.Thread(target=lambda: heard.append(one.rest()))
    reading.start()
    for _ in range(3):  # one end alone ends nothing: the other may go on for as long as it likes
        other.send(after)
    assert one.sock.fileno() >= 0
    time.sleep(0.05)
    assert reading.is_alive()
    other.sock.shutdown(socket.SHUT_WR)
    reading.join(10)
    assert heard == [after * 3]
    assert either_loop.wait_for(client, "CLOSE").error_message == f"closed by the {first}"
    assert either_loop.commands(client).count("CLOSE") == 1
    eventually(lambda: descriptors(either_loop.relay.pid) == open_before)


@linux
@pytest.mark.parametrize("said", [b"", SAID], ids=["silent", "with their last words"])
def test_both_may_end_at_the_same_moment(either_loop, said):
    open_before = descriptors(either_loop.relay.pid)
    client, broker = either_loop.connected()
    heard: dict[str, bytes] = {}

    def speak(end) -> None:
        end.send(said)
        end.sock.shutdown(socket.SHUT_WR)

    at_once(
        lambda: speak(client),
        lambda: speak(broker),
        lambda: heard.update(client=client.rest()),
        lambda: heard.update(broker=broker.rest()),
    )
    assert heard == {"client": said, "broker": said}
    assert either_loop.wait_for(client, "CLOSE")
    eventually(lambda: descriptors(either_loop.relay.pid) == open_before)
