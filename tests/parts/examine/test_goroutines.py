"""Where the goroutines of a Go program are, by dumps that Go itself has printed.

dumps/goroutines.txt is what a program with pulsar-client-go 0.19.0 served at its pprof page: four
workers wait for a mutex that another goroutine holds, while it goes on receiving.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pulsar_doctor.evidence.dumps.goroutines import parsed, pools_of, sittings
from pulsar_doctor.evidence.process_report import Pool
from pulsar_doctor.parts.examine import pprof
from pulsar_doctor.parts.examine.child import CannotAttach
from pulsar_doctor.parts.examine.identity import process
from pulsar_doctor.parts.examine.pprof import PAGE, page_of
from tests.support import eventually
from tests.support.command_line import answered
from tests.support.wanting import wanting

DUMP = Path(__file__).parent / "dumps" / "goroutines.txt"
HEADS = """goroutine 7 [{state}]:
main.charge(0xc000012345)
\t/home/dev/billing/main.go:20 +0x1d
created by main.main in goroutine 1
\t/home/dev/billing/main.go:9 +0x88
"""


@pytest.mark.parametrize(
    ("text", "state", "minutes"),
    [
        ("sync.Mutex.Lock, 5 minutes", "sync.Mutex.Lock", 5),
        ("chan receive", "chan receive", 0),
        ("select, 3 minutes, locked to thread", "select", 3),
        ("running, locked to thread", "running", 0),
    ],
)
def test_the_state_and_the_minutes_are_in_the_head(text, state, minutes):
    (one,) = parsed(HEADS.format(state=text)).values()
    assert (one.id, one.state, one.minutes) == (7, state, minutes)
    assert one.frames == one.own == ("main.charge (main.go:20)",)


def test_what_sigquit_prints_is_read_as_well():
    text = "SIGQUIT: quit\nPC=0x47 m=0 sigcode=0\n\n" + HEADS.format(state="sleep, 2 minutes")
    text = text.replace("goroutine 7 ", "goroutine 7 gp=0xc000006c40 m=nil ").replace("\n", "\r\n")
    (one,) = parsed(text).values()
    assert (one.state, one.minutes, one.own) == ("sleep", 2, ("main.charge (main.go:20)",))


def test_a_call_of_go_below_the_applications_line_is_named():
    text = HEADS.format(state="sync.Mutex.Lock, 5 minutes").replace(
        "main.charge(0xc",
        "internal/sync.runtime_SemacquireMutex(0x0?, 0x0?, 0x0?)\n\t/opt/go/src/runtime/sema.go:95"
        "\nsync.(*Mutex).Lock(...)\n\t/opt/go/src/sync/mutex.go:46\nmain.charge(0xc",
    )
    now = parsed(text)
    (seen,) = sittings({}, now, 0.0)
    assert seen.where == (
        "internal/sync.runtime_SemacquireMutex in sync.Mutex.Lock under main.charge (main.go:20)"
    )
    assert (seen.role, seen.seconds, seen.since_look) == ("application", 300.0, False)


def test_less_than_a_minute_is_known_by_two_dumps_with_the_same_frames():
    now = parsed(HEADS.format(state="select"))
    (seen,) = sittings(now, now, 5.0)
    assert (seen.where, seen.seconds, seen.since_look) == (
        "a select under main.charge (main.go:20)", 5.0, True,
    )  # fmt: skip
    moved = {7: replace(now[7], frames=("main.other (main.go:9)",))}
    assert sittings(moved, now, 5.0)[0].seconds is None
    assert sittings({}, now, 5.0)[0].seconds is None


def test_roles_follow_from_the_clients_own_calls():
    found = {each.thread: each.role for each in sittings({}, parsed(DUMP.read_text()), 0.0)}
    assert found["goroutine 1"] == "receives"
    assert sorted(found.values()) == ["application"] * 5 + ["receives"]


def test_workers_that_are_all_blocked_are_a_pool_and_those_without_work_are_none():
    now = parsed(DUMP.read_text())
    (pool,) = pools_of(now.values())
    assert len(pool.threads) == 4
    assert all(now[each].state == "sync.Mutex.Lock" for each in pool.threads)
    one = now[pool.threads[0]]
    idle = replace(one, state="chan receive", frames=one.own[-1:], own=one.own[-1:])
    assert pools_of((now | {one.id: idle}).values()) == ()
    assert pool == Pool(pool.threads)


@pytest.mark.usefixtures("outside")  # a child reads it
@pytest.mark.parametrize("text", ["", "goroutine", "{}", "goroutine 1 [running]", "\0" * 9])
def test_what_is_no_dump_is_refused(text, tmp_path):
    file = tmp_path / "dump"
    file.write_text(text)
    with pytest.raises(CannotAttach, match="holds no dump of goroutines"):
        pprof.read(str(file))


@pytest.mark.usefixtures("outside")  # a child reads it
def test_a_file_that_is_not_there_is_said():
    with pytest.raises(CannotAttach, match="nowhere cannot be read: No such file"):
        pprof.read("nowhere")


def test_a_program_that_go_has_built_is_known_by_its_section():
    gofmt = shutil.which("gofmt")
    if gofmt is None:
        pytest.skip(wanting("gofmt, which waits for its input"))
    with subprocess.Popen([gofmt], stdin=subprocess.PIPE) as program:
        eventually(lambda: process(program.pid).kind == "go")
        done = answered("examine", str(program.pid), "--attach", "--no-capture")
        said = " ".join(done.stdout.split())
        assert "--goroutines http://HOST:PORT reads them from its pprof page" in said
        assert "gdb" not in done.stdout


def test_what_no_go_has_built_has_no_goroutines():
    done = answered("examine", str(os.getpid()), "--goroutines", "http://127.0.0.1:1")
    assert done.returncode == 2
    assert "is not a Go program" in done.stderr


@contextmanager
def serving(status: int, body: bytes) -> Iterator[tuple[str, list[str]]]:
    """A page, its address, and what was asked of it."""
    asked: list[str] = []

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("outside")  # a child reads it
def test_the_page_of_the_program_is_read_by_its_address():
    with serving(200, DUMP.read_bytes()) as (url, asked):
        assert pprof.read(url) == parsed(DUMP.read_text())
    assert asked == [PAGE]
    assert page_of("http://h:1/debug/pprof/goroutine?debug=2") == f"http://h:1{PAGE}"


@pytest.mark.usefixtures("outside")  # a child reads it
@pytest.mark.parametrize(("status", "says"), [(404, "404"), (302, "302")])
def test_a_page_that_is_not_there_or_elsewhere_is_not_followed(status, says):
    with serving(status, b"x") as (url, asked), pytest.raises(CannotAttach, match=says):
        pprof.read(url)
    assert len(asked) == 1
