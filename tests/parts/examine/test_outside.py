"""What the kernel tells of a process: its connections, its threads, whether it is the same."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pulsar_doctor.cli import run
from pulsar_doctor.errors import InputError
from pulsar_doctor.evidence.dumps.hotspot import dump
from pulsar_doctor.parts.examine.identity import process
from pulsar_doctor.parts.examine.looking import Looking
from pulsar_doctor.parts.examine.resting import LEAST_SECONDS, last_ran, resting_seconds
from pulsar_doctor.parts.examine.sockets import connections
from tests.broker.http_broker import serving
from tests.broker.test_fleet import Cluster
from tests.support import eventually
from tests.support.wanting import wanting

NOBODY = 65534
RECEIVES = """"main" #1 prio=5 os_prio=0 tid=0x1 nid={} waiting on condition [0x0]
   java.lang.Thread.State: WAITING (parking)
\tat org.apache.pulsar.client.impl.ConsumerBase.receive(ConsumerBase.java:250)
\tat com.acme.Main.main(Main.java:20)
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc"))


@pytest.fixture(params=["127.0.0.1", "::1"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection of ours."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    try:
        listening = socket.create_server((request.param, 0), family=family)
    except OSError:
        pytest.skip(wanting("IPv6"))
    with listening, socket.create_connection(listening.getsockname()[:2]) as near:
        far, _ = listening.accept()
        with far:
            yield near, far


def test_a_connection_is_told_with_what_nobody_has_read(pair):
    near, far = pair
    far.sendall(b"x" * 1234)
    time.sleep(0.3)
    ends = near.getsockname()[:2], near.getpeername()[:2]

    def seen():
        told = [each for each in connections(os.getpid()) if (each.local, each.remote) == ends]
        return told if told and told[0].unread == 1234 else None

    (told,) = eventually(seen)
    assert told.unsent == 0
    assert told.read_ms is not None
    assert 200 <= told.read_ms < 10_000
    assert told.round_trip_us is not None
    assert 0 < told.round_trip_us < 1_000_000
    other = [each for each in connections(os.getpid()) if each.local == ends[1]]
    assert [each.remote for each in other] == [ends[0]]


def test_a_mapped_address_is_written_as_what_it_is():
    with socket.socket(socket.AF_INET6) as listening:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind(("::", 0))
        listening.listen()
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            far, _ = listening.accept()
            with far:
                told = {each.local: each.remote for each in connections(os.getpid())}
    assert told["127.0.0.1", port] == near_end(told, port)


def near_end(told: dict, port: int) -> tuple[str, int]:
    (end,) = [local for local, remote in told.items() if remote == ("127.0.0.1", port)]
    return end


def test_who_does_not_run_is_told_for_how_long_at_least():
    with subprocess.Popen(["sleep", "600"]) as sleep:
        began = time.monotonic()
        time.sleep(1.5)
        told = resting_seconds(sleep.pid, [sleep.pid])
        sleep.kill()
    if not told:
        pytest.skip(wanting("/proc/PID/task/TID/sched"))
    # A clock of the scheduler may stand still while this machine has no CPU, never run ahead.
    assert 0.5 <= told[sleep.pid] <= time.monotonic() - began + 0.1
    assert os.sched_getaffinity(0) == os.sched_getaffinity(os.getpid())


def test_who_runs_does_not_rest():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        time.sleep(0.5)
        told = resting_seconds(busy.pid, [busy.pid])
        busy.kill()
    assert told.get(busy.pid, 0.0) == 0.0


def test_who_wakes_on_another_processor_does_not_rest_since_the_machine_began():
    """Until it runs there, the kernel has 0 as the time when it ran last."""
    script = "import time\nwhile True: time.sleep(0.0005)"
    with subprocess.Popen([sys.executable, "-c", script]) as wakes:
        time.sleep(0.5)
        told = {resting_seconds(wakes.pid, [wakes.pid]).get(wakes.pid, 0.0) for _ in range(300)}
        wakes.kill()
    assert max(told) < 5, told  # a busy machine may let it wait


def test_when_a_thread_ran_last_is_read_with_its_processor(tmp_path):
    (tmp_path / "sched").write_text("se.exec_start : 0.000000\n")
    (tmp_path / "stat").write_text("7 (a ) b) S" + " 0" * 35 + " 1 0\n")
    assert last_ran(tmp_path) == (1, 0.0)
    (tmp_path / "sched").write_text("se.exec_start : 4711.5\n")
    assert last_ran(tmp_path) == (1, 4711.5)


@pytest.mark.usefixtures("outside")  # a child looks at the files of the process
def test_a_process_that_has_its_pid_later_is_another_one():
    here = process(os.getpid())
    assert (here.is_there, here.kind, here.inner_pid) == (True, "python", os.getpid())
    assert not replace(here, started=here.started - 1).is_there
    with pytest.raises(InputError, match="there is no process 4194304"):
        process(4194304)


@pytest.mark.usefixtures("outside")  # a child looks at the files of the process
@pytest.mark.skipif(os.geteuid() != 0, reason=wanting("root"))
def test_whose_a_process_is_its_effective_ids_show_and_not_the_saved_ones():
    os.setresuid(-1, -1, NOBODY)
    os.setresgid(-1, -1, NOBODY)
    try:
        here = process(os.getpid())
    finally:
        os.setresgid(-1, -1, os.getegid())
        os.setresuid(-1, -1, os.geteuid())
    assert (here.uid, here.gid) == (os.geteuid(), os.getegid())


@pytest.mark.usefixtures("outside")  # a child looks at the files of the process
def test_since_when_a_thread_of_a_jvm_rests_is_the_kernels_word():
    """A thread of ours in the dump of a JVM."""
    ends = threading.Event()
    rests = threading.Thread(target=ends.wait)
    rests.start()
    try:
        pid, tid = os.getpid(), rests.native_id
        assert tid is not None
        time.sleep(LEAST_SECONDS + 0.1)
        if not resting_seconds(pid, [tid]).get(tid):
            pytest.skip(wanting("/proc/PID/task/TID/sched"))
        told, now = dump(RECEIVES.format(tid)), time.monotonic()
        (thread,) = Looking(process(pid), True, _dumps=[(now - 0.1, told), (now, told)])._java()
    finally:
        ends.set()
        rests.join()
    assert not thread.since_look
    assert thread.seconds is not None
    assert thread.seconds >= LEAST_SECONDS


def test_examine_of_a_process_without_a_subscription_decides_nothing(capsys):
    """A broker that answers, and knows no consumer at the other end of any connection."""
    quick = ("--no-attach", "--no-capture", "--window", "50ms", "--interval", "50ms")
    with serving(Cluster({})) as broker, subprocess.Popen(["sleep", "60"]) as idle:
        code = run(["examine", str(idle.pid), *quick, "--admin-url", broker.url])
        idle.kill()
    said = capsys.readouterr()
    assert code == 3, said.err
    assert "no consumer of the cluster is known at the other end of its 0 connections" in said.err
