"""Whatever goes wrong in observing: the traffic goes on, and the trace says what it lacks."""

from __future__ import annotations

import contextlib
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsar_doctor.trace.ring import RingLimits
from pulsar_doctor.trace.sealing import open_trace
from tests.parts.tap.relay import faulty
from tests.parts.tap.relay.test_undecodable import marked
from tests.parts.tap.tapped import Tapped, flow, message, tapping
from tests.support import eventually
from tests.support.command_line import pulsar_doctor
from tests.support.processes import linux
from tests.support.wanting import wanting

OPENED = ("OPEN", "CONNECT", "CONNECTED")


# What cannot be decoded.


@pytest.fixture(scope="module", params=["cutter", "mask"])
def undecodable(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tapped]:
    folder = tmp_path_factory.mktemp("relay")
    with contextlib.ExitStack() as stack:
        with faulty.relays(folder, request.param):
            tapped = stack.enter_context(tapping(folder / "t"))
        yield tapped


@pytest.mark.parametrize("code", [2, 9])
def test_a_command_that_breaks_the_decoder_passes_and_so_does_all_behind_it(undecodable, code):
    client, broker = undecodable.connected()
    said = flow(1) + marked(code, b"") + flow(2) + marked(code, bytes(3000)) + flow(3)
    for one, other in ((client, broker), (broker, client)):
        one.send(said)
        assert other.read(len(said)) == said
        one.send(said, pieces=997)
        assert other.read(len(said)) == said
    commands = undecodable.commands(client)
    assert commands.count("UNPARSED") == 1, "that it is no longer observed is said once"
    assert commands[-1] == "UNPARSED"
    client.sock.shutdown(socket.SHUT_WR)
    assert broker.rest() == b""
    broker.sock.close()
    assert undecodable.wait_for(client, "CLOSE").error_message == "closed by the client"


def test_what_breaks_the_decoder_on_one_connection_does_not_end_the_observing_of_others(
    undecodable,
):
    broken, _ = undecodable.connected()
    broken.send(marked(11, b""))
    client, broker = undecodable.connected()
    client.send(flow(5))
    assert broker.read(len(flow(5))) == flow(5)
    assert undecodable.commands(client) == [*OPENED, "FLOW"]


# What cannot be written down.


class Traffic:
    """Numbered round trips through the relay, from now until the end; counts what it said."""

    def __init__(self, tapped: Tapped, connections: int = 2) -> None:
        self.tapped = tapped
        self.pairs = [tapped.connected() for _ in range(connections)]
        self.said = 0
        self._over = threading.Event()
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._round()
        except BaseException as error:
            self._errors.append(error)

    def _round(self) -> None:
        first = self.said + 1
        up = b"".join(flow(number) for number in range(first, first + 20))
        down = b"".join(message(1, b"x" * 50, entry_id=first + n) for n in range(20))
        for client, broker in self.pairs:
            client.send(up)
            broker.send(down)
            assert broker.read(len(up)) == up
            assert client.read(len(down)) == down
        self.said += 20
        time.sleep(0.01)

    def goes_on(self, rounds: int = 10) -> None:
        """Waits until so many more have come back."""
        until = self.said + 20 * rounds
        eventually(lambda: self._errors or self.said > until)
        assert not self._errors, self._errors

    def end(self) -> int:
        """How many commands have passed, what is said of each connection included."""
        self._over.set()
        self._thread.join(20)
        assert not self._errors, self._errors
        for client, broker in self.pairs:
            client.sock.close()
            assert broker.rest() == b""
            broker.sock.close()
        return len(self.pairs) * (2 * self.said + len((*OPENED, "CLOSE")))


def written_and_dropped(trace_dir: Path) -> tuple[int, int]:
    """Commands in the trace, once it is sealed, and those that it says it lacks."""
    rows = list(open_trace(trace_dir).rows())
    gaps = [row for row in rows if row.command == "GAP"]
    assert all(row.dropped for row in gaps), "a gap without a number"
    return len(rows) - len(gaps), sum(row.dropped or 0 for row in gaps)


def assert_accounted_for(tapped: Tapped, seen: int, *, some_dropped: bool = True) -> None:
    """What has passed, what the relay counts, and what its trace says: the same, exactly."""
    eventually(lambda: tapped.relay.counters()["connections_open"] == 0)
    tapped.relay.flush()
    told = tapped.relay.counters()
    assert told["records_seen"] == seen
    tapped.relay.stop()
    written, dropped = written_and_dropped(tapped.relay.trace_dir)
    assert (written, dropped) == (told["records_written"], told["records_dropped"])
    assert written + dropped == seen
    assert bool(dropped) == some_dropped


def test_a_journal_that_is_refused_costs_records_and_no_traffic(tmp_path):
    with (
        faulty.relays(tmp_path, "disk") as switch,
        tapping(tmp_path / "t", limits=RingLimits(rotate_seconds=0.2)) as tapped,
    ):
        traffic = Traffic(tapped)
        traffic.goes_on()
        for fault in ("EIO", "ENOSPC", "EACCES"):
            put_in_place(switch, fault)
            nothing_is_written(tapped)
            traffic.goes_on()
            switch.unlink()
            it_is_written_again(tapped)
            traffic.goes_on()
        assert_accounted_for(tapped, traffic.end())
        shown = pulsar_doctor("trace", "show", "--command", "GAP", str(tapped.relay.trace_dir))
        missing = re.findall(r"(\d+) commands are missing", shown.stdout)
        assert sum(map(int, missing)) == written_and_dropped(tapped.relay.trace_dir)[1]


def nothing_is_written(tapped: Tapped) -> None:
    """Waits until the disk has refused, and until it has refused again and taken nothing since."""

    def dropped_more(than: int) -> dict[str, int] | None:
        told = tapped.relay.counters()
        return told if told["records_dropped"] > than else None

    before = tapped.relay.counters()["records_dropped"]
    once = eventually(lambda: dropped_more(before)) or {}
    twice = eventually(lambda: dropped_more(once["records_dropped"])) or {}
    assert twice["records_written"] == once["records_written"]


def it_is_written_again(tapped: Tapped) -> None:
    before = tapped.relay.counters()["records_written"]
    eventually(lambda: tapped.relay.counters()["records_written"] > before)


def put_in_place(switch: Path, fault: str) -> None:
    part = switch.with_suffix(".part")
    part.write_text(fault)
    part.replace(switch)


def test_a_disk_that_hangs_does_not_hold_up_the_traffic(tmp_path):
    with faulty.relays(tmp_path, "hang") as switch, tapping(tmp_path / "t") as tapped:
        traffic = Traffic(tapped)
        traffic.goes_on()
        switch.touch()
        time.sleep(0.3)
        try:
            traffic.goes_on(50)
            others = Traffic(tapped)  # new ones come, too
            others.goes_on()
        finally:
            switch.unlink()
        assert_accounted_for(tapped, traffic.end() + others.end(), some_dropped=False)


@linux
def test_the_kernel_s_own_refusal_is_counted_likewise(tmp_path):
    with tapping(tmp_path / "t") as tapped:
        traffic = Traffic(tapped)
        traffic.goes_on()
        pid = tapped.relay.pid
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1000, most))
        nothing_is_written(tapped)
        traffic.goes_on()
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
        it_is_written_again(tapped)
        traffic.goes_on()
        assert_accounted_for(tapped, traffic.end())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of a quarter of a MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        done = False
    if not done:
        pytest.skip(wanting("the right to mount"))
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_disk_that_is_really_full(small_disk):
    with tapping(small_disk / "t") as tapped:
        traffic = Traffic(tapped)
        eventually(lambda: traffic.said > 8000, timeout=60)  # more than there is room for
        ballast = small_disk / "ballast"
        assert not ballast.exists()
        subprocess.run(
            ["mount", "-o", "remount,size=8m", str(small_disk)], check=True, capture_output=True
        )
        time.sleep(0.2)
        traffic.goes_on()
        assert_accounted_for(tapped, traffic.end())


def test_a_limit_that_is_reached_and_stays_so_is_told_at_the_end(tmp_path):
    with tapping(tmp_path / "t", limits=RingLimits(journal_bytes_most=8000)) as tapped:
        client, broker = tapped.connected()
        for number in range(300):  # so little at a time that the last bytes of room are used, too
            client.send(flow(number))
            assert broker.read(len(flow(number))) == flow(number)
            tapped.relay.flush()
        client.sock.close()
        assert broker.rest() == b""
        broker.sock.close()
        assert_accounted_for(tapped, 300 + len((*OPENED, "CLOSE")))


# Whoever observes.


@contextlib.contextmanager
def observing(trace_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "pulsar_doctor.parts.tap.observer", str(trace_dir)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("seconds", [0.7, pytest.param(5.0, marks=pytest.mark.slow)])
def test_an_observer_that_is_stopped_for_a_while_costs_nothing(tmp_path, seconds):
    with tapping(tmp_path / "t", limits=RingLimits(rotate_seconds=0.2)) as tapped:
        traffic = Traffic(tapped)
        with observing(tapped.relay.trace_dir) as observer:
            eventually((tapped.relay.trace_dir / "_segments.jsonl").exists)
            observer.send_signal(signal.SIGSTOP)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                traffic.goes_on()
            observer.send_signal(signal.SIGCONT)
            assert_accounted_for(tapped, traffic.end(), some_dropped=False)
            assert observer.wait(30) == 0


def test_an_observer_that_is_killed_and_not_replaced_costs_nothing(tmp_path):
    with tapping(tmp_path / "t", limits=RingLimits(rotate_seconds=0.2)) as tapped:
        traffic = Traffic(tapped)
        with observing(tapped.relay.trace_dir) as observer:
            eventually((tapped.relay.trace_dir / "_segments.jsonl").exists)
            observer.kill()
        traffic.goes_on()
        assert_accounted_for(tapped, traffic.end(), some_dropped=False)
