"""What py-spy's answer says of the threads of a Python consumer."""

from __future__ import annotations

import platform
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.evidence.dumps.python import sitting
from pulsar_doctor.parts.examine.child import CannotAttach, in_time
from pulsar_doctor.parts.examine.py_spy import (
    CALLS,
    FILES,
    LOCK,
    READ,
    SLEEP,
    _output,
    waits_for,
    waits_in,
    word,
)
from tests.support import eventually
from tests.support.wanting import wanting

PULSAR = "/x/lib/python3.11/site-packages/pulsar/__init__.py"


@pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc"))
@pytest.mark.usefixtures("outside")
def test_a_program_that_prints_without_end_is_ended():
    script = "while True: print('[' * 1000)"
    with pytest.raises(CannotAttach, match=r"code|File too large"):
        in_time(lambda: _output([sys.executable, "-c", script]))
    assert in_time(lambda: _output([sys.executable, "-c", "print('[]')"])) == b"[]\n"


def frame(name: str, file: str, line: int = 7) -> dict[str, Any]:
    return {"name": name, "filename": file, "short_filename": file.rpartition("/")[2], "line": line}


CHARGE = frame("charge", "/app/billing.py", 88)
WAIT = frame("wait", "/x/lib/python3.11/threading.py", 327)


@pytest.mark.parametrize(
    ("frames", "role", "where"),
    [
        ([CHARGE], "application", "charge (billing.py:88)"),
        (
            [WAIT, frame("get", "/x/lib/python3.11/site-packages/requests/api.py"), CHARGE],
            "application",
            "wait in get under charge (billing.py:88)",
        ),
        ([WAIT, CHARGE], "application", "wait under charge (billing.py:88)"),
        (
            [CHARGE, frame("_listener_wrapper.<locals>.wrapper", PULSAR)],
            "listens",
            "charge (billing.py:88)",
        ),
        (
            [frame("Consumer.receive", PULSAR), CHARGE],
            "receives",
            "Consumer.receive under charge (billing.py:88)",
        ),
        (
            [frame("acknowledge", PULSAR), CHARGE],
            "acknowledges",
            "acknowledge under charge (billing.py:88)",
        ),
        ([frame("receive", "/app/billing.py")], "application", "receive (billing.py:7)"),
        ([], "application", "no frame"),
    ],
)
def test_what_a_thread_is_there_for_follows_from_pulsars_own_frames(frames, role, where):
    told = sitting({"frames": frames, "os_thread_id": 12, "active": False}, 3.0)
    assert (told.role, told.where) == (role, where)
    assert (told.thread, told.seconds) == ("12", 3.0)


def test_c_code_below_the_last_line_is_named_by_its_call_of_the_kernel():
    told = sitting({"frames": [CHARGE], "os_thread_id": 12}, 3.0, SLEEP)
    assert told.where == "a sleep under charge (billing.py:88)"
    told = sitting({"frames": [frame("Consumer.receive", PULSAR), CHARGE]}, 3.0, LOCK)
    assert told.where == "Consumer.receive under charge (billing.py:88)"


@pytest.mark.parametrize(
    ("machine", "number", "first", "says"),
    [
        ("x86_64", 230, 1, SLEEP),
        ("x86_64", 202, 0x7F00, LOCK),
        ("x86_64", 23, 0, SLEEP),  # select() without a file, as time.sleep of Python 3.10
        ("x86_64", 23, 5, FILES),
        ("aarch64", 115, 1, SLEEP),
        ("aarch64", 98, 1, LOCK),
        ("x86_64", 39, 0, None),
        ("riscv64", 98, 0, None),
    ],
)
def test_calls_of_the_kernel_have_words(machine, number, first, says):
    assert word(machine, number, first) == says


@pytest.mark.skipif(
    platform.machine() not in CALLS or not Path("/proc/self/syscall").exists(),
    reason=wanting("/proc/PID/syscall"),
)
@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("import time; time.sleep(60)", SLEEP),
        ("import threading; it = threading.Lock(); it.acquire(); it.acquire()", LOCK),
        ("import os; os.read(os.pipe()[0], 1)", READ),
        ("import select, socket; both = socket.socketpair(); select.select(both, [], [])", FILES),
    ],
)
def test_the_kernel_tells_in_which_call_a_thread_waits(script, says):
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        try:
            eventually(lambda: waits_in(process.pid, process.pid) == says)
        finally:
            process.kill()
    assert waits_in(process.pid, process.pid) is None


@pytest.mark.skipif(
    platform.machine() not in CALLS or not Path("/proc/self/syscall").exists(),
    reason=wanting("/proc/PID/syscall"),
)
@pytest.mark.usefixtures("outside")
def test_the_other_end_of_a_socket_that_a_thread_reads_is_named():
    with socket.create_server(("127.0.0.1", 0)) as server:
        end = f"127.0.0.1:{server.getsockname()[1]}"
        script = f"import socket; socket.create_connection({server.getsockname()}).recv(1)"
        with subprocess.Popen([sys.executable, "-c", script]) as process:
            try:
                eventually(lambda: waits_for(process.pid, process.pid) == f"a read from {end}")
            finally:
                process.kill()
    assert waits_for(process.pid, process.pid) is None
    pipe = "import os; os.read(os.pipe()[0], 1)"
    with subprocess.Popen([sys.executable, "-c", pipe]) as process:
        try:
            eventually(lambda: waits_in(process.pid, process.pid) == READ)
            assert waits_for(process.pid, process.pid) is None
        finally:
            process.kill()


def test_the_socket_that_is_read_comes_before_the_calls_of_python():
    reads = "a read from 10.0.0.9:80"
    into = frame("SocketIO.readinto", "/x/lib/python3.11/socket.py")
    told = sitting({"frames": [into, CHARGE]}, 3.0, READ, reads)
    assert told.where == f"{reads} in SocketIO.readinto under charge (billing.py:88)"
    assert sitting({"frames": [CHARGE]}, 3.0, READ, reads).where == (
        f"{reads} under charge (billing.py:88)"
    )
