"""What goes on when a process of a tap is killed: the traffic, and the trace of it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsar_doctor import cli
from pulsar_doctor.parts.analyze.reading import look
from pulsar_doctor.parts.tap.relay.__main__ import ALONE_SECONDS
from pulsar_doctor.trace.folder import is_live
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.trace.verifying import verify
from pulsar_doctor.wire.columns import GENERATION_BITS
from pulsar_doctor.wire.journal import FILE_HEADER, read_blocks
from tests.parts.tap.tap_process import running
from tests.parts.tap.tapped import be_looked_for, flow
from tests.parts.tap.test_watching import Played
from tests.support import eventually
from tests.support.processes import linux

pytestmark = linux
RELAY, OBSERVER = "pulsar_doctor.parts.tap.relay", "pulsar_doctor.parts.tap.observer"


@contextlib.contextmanager
def played(trace: Path) -> Iterator[tuple[Played, contextlib.ExitStack]]:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.settimeout(20)
        url = f"pulsar://127.0.0.1:{server.getsockname()[1]}"
        asked = ("-o", "jsonl", "--trace", str(trace), "--accept-unknown", "all")
        tap = stack.enter_context(running(*asked, service_url=url))
        be_looked_for(server)
        yield Played(tap, server, stack).subscribe(), stack


def flows(trace: Path) -> list[int | None]:
    return [row.permits for row in open_trace(trace).rows() if row.command == "FLOW"]


def test_a_relay_that_is_killed_is_started_again_at_the_same_address(tmp_path):
    trace = tmp_path / "t"
    with played(trace) as (first, stack):
        tap = first.tap
        eventually(lambda: tap.of("snapshot")[-1:] and tap.of("snapshot")[-1]["consumers"])
        os.kill(tap.child(RELAY), signal.SIGKILL)
        assert first.client.rest() == b""
        tap.says("it is started again at the same address")
        again = eventually(lambda: _again(first, stack)).subscribe()
        again.to_broker(flow(9))
        assert tap.counted()["relay"]["connections_opened"] == 1
        eventually(lambda: len(tap.of("snapshot")[-1]["consumers"]) == 1)
        tap.end()
    assert "the relay had to be started again" in tap.events[-1]["seen"]
    assert flows(trace)[-2:] == [4, 9]
    rows = list(open_trace(trace).rows())
    commands = sum(row.command != "GAP" for row in rows)
    assert (tap.events[-1]["written"], tap.events[-1]["sealed"]) == (commands, commands)
    assert tap.says(f"wrote {commands} commands, {commands} are in the trace")
    assert {row.conn_id for row in rows if row.command == "SUBSCRIBE"} == {
        0, 1 << GENERATION_BITS,
    }  # fmt: skip
    assert [row.dropped for row in rows if row.command == "GAP"][:1] == [None]
    assert len(open_trace(trace).timeline().consumers) == 2


def work(talk: Played, seconds: float) -> None:
    """Messages come and are acknowledged, until then or until the relay is gone."""
    until = time.monotonic() + seconds
    with contextlib.suppress(OSError, AssertionError):
        while time.monotonic() < until:
            talk.deliver(2).ack(talk.entries - 1, talk.entries)
            talk.to_broker(flow(2))


@pytest.mark.parametrize(
    "number", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20))]
)
def test_whoever_waits_while_the_relay_is_down_hides_no_gap(tmp_path, number):
    """The tap, `trace verify`, `stall-check --trace` and `analyze` agree that it is incomplete."""
    trace, chance = tmp_path / "t", random.Random(number)
    with played(trace) as (first, stack):
        relay = first.tap.child(RELAY)
        killing = threading.Timer(chance.uniform(0.05, 1.2), os.kill, (relay, signal.SIGKILL))
        killing.start()
        work(first, 30)
        again = eventually(lambda: _again(first, stack)).subscribe()
        again.entries = first.entries
        work(again, chance.uniform(0.05, 0.5))
        assert first.tap.end() == 3
    assert [each["status"] for each in first.tap.events[-1]["subscriptions"]] == ["unknown"]
    rows = [row.command for row in open_trace(trace).rows()]
    assert rows.index("GAP") < rows.index("SUBSCRIBE", rows.index("SUBSCRIBE") + 1)
    assert cli.run(["trace", "verify", str(trace)]) == 4
    assert cli.run(["stall-check", "--trace", str(trace)]) == 3
    ends = look([str(trace)], here=True).ends
    assert [each.diagnosis.status for end in ends for each in end.verdicts] == ["unknown"]


def test_what_is_missing_is_told_also_where_the_relay_that_wrote_it_has_died(tmp_path):
    """A journal of the first relay is deleted before it is sealed; the second knows of nothing."""
    trace = tmp_path / "t"
    with played(trace) as (first, stack):
        tap = first.tap
        os.kill(tap.child(OBSERVER), signal.SIGSTOP)
        observer = tap.child(OBSERVER)
        tap.send(signal.SIGUSR2)
        eventually((trace / ".journal-000002.pdj").exists)
        first.to_broker(flow(5))
        eventually(lambda: (trace / ".journal-000002.pdj").stat().st_size > 200)
        missing = records(trace / ".journal-000001.pdj")
        (trace / ".journal-000001.pdj").unlink()
        os.kill(tap.child(RELAY), signal.SIGKILL)
        os.kill(observer, signal.SIGKILL)  # it may have had it open
        tap.says("it is started again at the same address")
        eventually(lambda: _again(first, stack)).to_broker(flow(9))
        assert tap.end() == 3
    end = tap.events[-1]
    assert flows(trace) == [5, 9]
    assert end["dropped"] == missing == end["written"] - end["sealed"]
    said = "some of what was written is not in the trace"
    assert f"{said}: {missing} commands; was a journal deleted?" in tap.err


def test_a_tap_whose_trace_is_damaged_ends_with_3_as_verify_with_2(tmp_path):
    trace = tmp_path / "t"
    with played(trace) as (talk, _):
        tap, journal = talk.tap, trace / ".journal-000001.pdj"
        os.kill(observer := tap.child(OBSERVER), signal.SIGSTOP)
        before = journal.stat().st_size
        for permits in range(5, 9):
            talk.to_broker(flow(permits))
        eventually(lambda: journal.stat().st_size > before + 200)
        with journal.open("r+b") as file:
            file.seek(before + 50)
            byte = file.read(1)
            file.seek(before + 50)
            file.write(bytes([byte[0] ^ 1]))
        os.kill(observer, signal.SIGCONT)
        assert tap.end() == 3
    found = verify(trace)
    assert (found.missing.exit_code, found.gaps) == (2, 1)
    assert "the trace is damaged" in tap.events[-1]["seen"]
    assert {each["status"] for each in tap.events[-1]["subscriptions"]} == {"unknown"}


def records(journal: Path) -> int:
    blocks = read_blocks(journal.read_bytes()[len(FILE_HEADER) :])
    return sum(len(block.records) for block, _ in blocks)


def test_a_relay_that_cannot_be_started_again_ends_with_its_tap(tmp_path):
    trace = tmp_path / "t"
    with played(trace) as (talk, _):
        _, _, port = talk.tap.service_url.rpartition(":")
        os.kill(talk.tap.child(RELAY), signal.SIGKILL)
        with reserved(int(port)):
            talk.tap.says("the tap cannot start: cannot listen")
            assert talk.tap.end() == 0
    end = talk.tap.events[-1]
    assert end["written"] == end["sealed"] == sum(1 for _ in open_trace(trace).rows())


@contextlib.contextmanager
def reserved(port: int) -> Iterator[None]:
    """Nobody else can listen there."""
    with contextlib.ExitStack() as stack:
        address = ("127.0.0.1", port)
        stack.enter_context(eventually(lambda: _listener(address)))
        yield


def _listener(address: tuple[str, int]) -> socket.socket | None:
    with contextlib.suppress(OSError):
        return socket.create_server(address)
    return None


def _again(first: Played, stack: contextlib.ExitStack) -> Played | None:
    with contextlib.suppress(OSError):
        return Played(first.tap, first.server, stack)
    return None


def test_the_traffic_goes_on_when_the_tap_is_killed_until_its_clients_are_gone(tmp_path):
    trace = tmp_path / "t"
    with played(trace) as (talk, stack):
        talk.tap.process.kill()
        talk.tap.process.wait()
        for permits in range(5, 25):
            talk.to_broker(flow(permits))
        assert is_live(trace)
        later = Played(talk.tap, talk.server, stack)  # the address is still there
        later.to_broker(flow(99))
        for peer in (talk.client, talk.broker, later.client, later.broker):
            peer.sock.close()
        eventually(lambda: not is_live(trace), ALONE_SECONDS + 15)
        eventually(lambda: not list(trace.glob(".journal-*")), 30)
    assert flows(trace) == [4, *range(5, 25), 99]


def test_a_relay_that_is_left_alone_can_be_told_to_end(tmp_path):
    trace = tmp_path / "t"
    with played(trace) as (talk, _):
        relay = talk.tap.child(RELAY)
        talk.tap.process.kill()
        talk.tap.process.wait()
        talk.to_broker(flow(5))
        os.kill(relay, signal.SIGTERM)
        assert talk.client.rest() == b""
        eventually(lambda: not is_live(trace), 10)
    assert flows(trace) == [4, 5]


def test_an_observer_that_is_killed_is_no_concern_of_the_traffic(tmp_path):
    trace = tmp_path / "t"
    with played(trace) as (talk, _):
        os.kill(talk.tap.child(OBSERVER), signal.SIGKILL)
        talk.to_broker(flow(5))
        talk.tap.end()
    assert flows(trace) == [4, 5]
