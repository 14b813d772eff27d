"""A tap that was told no folder: what becomes of its trace, and that this is said."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from pulsar_doctor.parts.tap.own_trace import bytes_in
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wording.sizes import in_words
from tests.parts.tap.tap_process import Tap, running
from tests.parts.tap.tapped import CONNECT, flow, found
from tests.parts.tap.test_watching import SOON, tapped
from tests.support import eventually


def commands_in(folder: Path) -> list[str]:
    return [row.command for row in open_trace(folder).rows()]


def shown(tap: Tap) -> Tap:
    """Once its consumer is there."""
    eventually(lambda: tap.of("snapshot")[-1:] and tap.of("snapshot")[-1]["consumers"])
    return tap


def kept(tap: Tap, why: str) -> Path:
    """The one trace that was kept; where and how large is said, and how it is removed."""
    (folder,) = tap.taps
    size = in_words(bytes_in(folder))
    removal = f"`rm -r {shlex.quote(str(folder))}` removes it"
    assert f"the trace is kept ({why}): {folder} ({size}); {removal}" in tap.err
    return folder


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_trace_of_a_stall_is_kept_and_said_to_be(number):
    with tapped(*SOON) as played:
        tap = played.stall().tap
        said = tap.says("the trace is temporary; give --trace DIR to keep it")
        tap.says("STALLED  billing on orders")
        assert tap.end(number) == 1
        assert said.endswith(f": {tap.taps[0]}")
        why = "warning, stalled" if any("WARNING" in line for line in tap.out) else "stalled"
        assert commands_in(kept(tap, why)).count("MESSAGE") == 4


def test_a_stall_that_went_by_is_something_too():
    with tapped("-o", "jsonl", *SOON) as played:
        tap = played.stall().tap
        eventually(lambda: [e for e in tap.of("verdict") if e["status"] == "stalled"], 45)
        played.recover()
        eventually(lambda: tap.of("verdict")[-1]["status"] == "healthy", 45)
        assert tap.end() == 0
        (folder,) = tap.taps
        assert tap.of("listening")[0]["trace_dir"] is None
        end = tap.events[-1]
        assert (end["event"], end["trace_dir"]) == ("end", str(folder))
        assert end["seen"][-1] == "stalled"
        assert "FLOW" in commands_in(folder)


def test_where_all_was_healthy_it_is_removed_and_said_to_be():
    with tapped("-o", "jsonl") as played:
        tap = shown(played.subscribe().deliver(2).ack(1, 2).tap)
        assert len(tap.taps) == 1
        assert tap.end() == 0
        assert tap.taps == []
    assert tap.err[0].endswith("; Ctrl-C ends it")
    assert tap.err[1].startswith("the trace is temporary; give --trace DIR to keep it (where some")
    assert tap.err[2:] == [
        "the tap ends; 1 connection of a client is cut off",
        "the temporary trace is removed: nothing was found",
    ]
    assert (tap.events[-1]["seen"], tap.events[-1]["trace_dir"]) == ([], None)


NOBODY = "no consumer came through the tap: there is nothing to judge"


def test_where_nobody_came_nothing_is_known_and_it_is_kept():
    with found() as url, running(service_url=url) as tap:
        tap.says("the trace is temporary")
        assert tap.end() == 3
        kept(tap, "no consumer came")
    assert tap.err[2] == NOBODY
    assert tap.err[-1].startswith("the trace is kept")


def test_that_nobody_came_may_be_accepted():
    with found() as url, running("--accept-unknown", "all", service_url=url) as tap:
        tap.says("the trace is temporary")
        assert tap.end() == 0
        assert tap.taps == []
    assert tap.err[2:] == [NOBODY, "the temporary trace is removed: nothing was found"]


def test_json_is_the_end_alone():
    with found() as url, running("-o", "json", service_url=url) as tap:
        tap.says("the trace is temporary")
        assert tap.end() == 3
    assert [(each["event"], each["exit_code"]) for each in tap.events] == [("end", 3)]
    assert tap.err[0].startswith("pulsar://")


def test_one_that_acknowledges_nothing_is_not_healthy_and_its_trace_is_kept():
    with tapped("-o", "jsonl", "--fail-on", "warning") as played:
        tap = shown(played.subscribe().deliver(2).tap)
        assert tap.end() == 3
        kept(tap, "unknown")
        assert tap.err[-1].startswith("the trace is kept")


def test_a_broker_that_could_not_be_reached_is_something_and_is_told_under_quiet_too():
    with ExitStack() as stack:
        with found() as url:  # and then it goes
            tap = stack.enter_context(running("-q", service_url=url))
            host, port = tap.service_url.removeprefix("pulsar://").split(":")
        with socket.create_connection((host, int(port)), 20) as client:
            client.sendall(CONNECT)
            assert client.recv(1) == b""
        tap.says("cannot be reached: Connection refused")
        assert tap.end() == 3
        assert "OPEN" in commands_in(kept(tap, "a broker could not be reached"))
    assert len(tap.err) == 3


def test_a_gap_is_something():
    with tapped("-o", "jsonl") as played:
        tap = shown(played.subscribe().tap)
        relay = tap.child("pulsar_doctor.parts.tap.relay")
        before, hard = resource.prlimit(relay, resource.RLIMIT_FSIZE)
        resource.prlimit(relay, resource.RLIMIT_FSIZE, (10, hard))
        played.to_broker(flow(1))
        assert tap.counted()
        eventually(lambda: _dropped(tap))
        resource.prlimit(relay, resource.RLIMIT_FSIZE, (before, hard))
        played.to_broker(flow(1))
        tap.wait_for("gap")
        tap.end()
        assert len(tap.taps) == 1
    assert any("not recorded" in what for what in tap.events[-1]["seen"])


def _dropped(tap: Tap) -> int:
    tap.send(signal.SIGUSR1)
    return int(tap.of("counters")[-1]["relay"]["records_dropped"])


def test_a_command_that_failed_is_something():
    script = "raise SystemExit(7)"
    with found() as url, running("--", sys.executable, "-c", script, service_url=url) as tap:
        assert tap.wait() == 7
        kept(tap, "the command ended with 7")


def test_a_tap_that_breaks_off_keeps_what_it_has():
    with tapped("-o", "jsonl") as played:
        tap = shown(played.subscribe().tap)
        os.kill(tap.child("pulsar_doctor.parts.tap.relay"), signal.SIGTERM)
        assert tap.wait() == 3
        (folder,) = tap.taps
        assert any(f"what the tap had recorded is kept in {folder} (" in line for line in tap.err)
        assert "FLOW" in commands_in(folder)


def test_a_tap_that_is_killed_leaves_it_where_it_is():
    with tapped("-o", "jsonl") as played:
        tap = shown(played.subscribe().tap)
        tap.process.kill()
        assert tap.wait() == -signal.SIGKILL
        for peer in (played.client, played.broker):
            peer.sock.close()
        (folder,) = tap.taps
        eventually(lambda: list(folder.glob("seg-*.parquet")), 30)
        assert "FLOW" in commands_in(folder)


def test_a_tap_that_does_not_begin_leaves_nothing():
    with running(service_url="pulsar://127.0.0.1:1") as tap:
        assert tap.wait() == 3
        assert tap.taps == []
    with found() as url, running("--allow-broker", "nowhere", service_url=url) as tap:
        assert tap.wait() == 2
        assert tap.taps == []


def test_where_no_state_can_be_kept_the_folder_for_temporary_files_will_do(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with (
        found() as url,
        running(
            "--accept-unknown", "all", state=Path("/dev/null/no/folder"), service_url=url
        ) as tap,
    ):
        assert f"kept anyway): {tmp_path}/pulsar-doctor-" in tap.says("is temporary")
        assert len(list(tmp_path.iterdir())) == 1
        assert tap.end() == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (9949, "9.9 kB"), (12_345, "12 kB"),
     (999_499, "999 kB"), (1_000_000, "1.0 MB"), (4_300_000_000, "4.3 GB")],
)  # fmt: skip
def test_a_size_is_read_at_a_glance(count, said):
    assert in_words(count) == said
