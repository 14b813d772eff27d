"""Real JVMs whose threads wait for each other: what they wait for, who holds it, and since when."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pulsar_doctor.evidence.process_report import ProcessReport, Sitting
from pulsar_doctor.parts.examine import report as screen
from pulsar_doctor.parts.examine.looking import Looking
from pulsar_doctor.parts.sandbox import distribution, versions
from tests.parts.examine import javas
from tests.parts.examine.java_client import CLIENTS
from tests.support.maven import compiled
from tests.support.wanting import wanting

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc")),
]
SECONDS = 2.5
MONITOR, LOCK = "the monitor of a java.lang.Object", "a java.util.concurrent.locks.ReentrantLock"
READ_WRITE = "a java.util.concurrent.locks.ReentrantReadWriteLock"
TASK, FUTURE = "a java.util.concurrent.FutureTask", "a java.util.concurrent.CompletableFuture"
LATCH, SEMAPHORE = "a java.util.concurrent.CountDownLatch", "a java.util.concurrent.Semaphore"
NO_OWNER = "which has no owner: who is to end the wait is not known"
SLEEP = "java.lang.Thread.sleep under com.acme.Waits"


@pytest.fixture(scope="module")
def classpath(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("classes")
    guava = (versions.pulsar_home(None) / "lib").glob("com.google.guava-*.jar")
    jars = ":".join(map(str, guava))
    compiled([CLIENTS / "Waits.java"], folder, distribution.java_home() / "bin/java", jars)
    return f"{folder}:{jars}"


@contextmanager
def waiting(how: str, classpath: str, java: Path) -> Iterator[int]:
    line = [str(java), "-Xmx64m", "-cp", classpath, "com.acme.Waits", how]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()
            process.wait()
            Path(f"/tmp/.java_pid{process.pid}").unlink(missing_ok=True)


def looked_at(how: str, classpath: str, java: Path, seconds: float = SECONDS) -> ProcessReport:
    with waiting(how, classpath, java) as pid:
        looking = Looking.at(pid, inside=True)
        time.sleep(seconds)
        return looking.again()


def thread(told: ProcessReport, name: str = "waiter") -> Sitting:
    return next(each for each in told.threads if each.thread == name)


def of(told: ProcessReport, name: str) -> tuple[str | None, list[str]]:
    found = thread(told, name)
    return found.waits and found.waits.text, [each.thread for each in found.chain]


@pytest.mark.parametrize("version", [javas.OURS, javas.JAVA_8, "21.0.8", "25.0.2"])
@pytest.mark.parametrize(
    ("how", "waits", "chain", "ends"),
    [
        ("monitor", f"{MONITOR}, which writer holds", ["writer"], f"{SLEEP}.rest"),
        ("chain", f"{MONITOR}, which writer holds", ["writer", "clerk"], f"{SLEEP}.rest"),
        (
            "notified",
            f"a java.lang.Object, {NO_OWNER}",
            [],
            "java.lang.Object.wait under com.acme.Waits.awaitNotice",
        ),
        ("readers", f"{READ_WRITE}, which reader holds", ["reader"], f"{SLEEP}.rest"),
        (
            "deadlock",
            f"{MONITOR}, which left holds",
            ["left"],
            "java.util.concurrent.locks.ReentrantLock.lock under com.acme.Waits.writeIntoBooks",
        ),
        (
            "future",
            f"{FUTURE}, which has no owner: who is to complete it is not known",
            [],
            "java.util.concurrent.CompletableFuture.join under com.acme.Waits",
        ),
        ("task", f"{TASK}, which pool-1-thread-1 runs", ["pool-1-thread-1"], f"{SLEEP}.rest"),
        (
            "latch",
            f"{LATCH}, {NO_OWNER}",
            [],
            "java.util.concurrent.CountDownLatch.await under com.acme.Waits",
        ),
        ("join", "the end of sleeper", ["sleeper"], f"{SLEEP}.rest"),
        (
            "upgrade",
            f"{READ_WRITE}, which it holds itself",
            [],
            "java.util.concurrent.locks.ReentrantReadWriteLock$WriteLock.lock under com.acme.Waits",
        ),
        (
            "stamped",
            "a java.util.concurrent.locks.StampedLock, whose owner is not known",
            [],
            "java.util.concurrent.locks.StampedLock.readLock under com.acme.Waits",
        ),
        ("all", f"{TASK}, which pool-1-thread-1 runs", ["pool-1-thread-1"], f"{SLEEP}.rest"),
        (
            "semaphore",
            f"{SEMAPHORE}, {NO_OWNER}",
            [],
            "java.util.concurrent.Semaphore.acquire under com.acme.Waits",
        ),
        (
            "phaser",
            f"a java.util.concurrent.Phaser, {NO_OWNER}",
            [],
            "java.util.concurrent.Phaser.arriveAndAwaitAdvance under com.acme.Waits",
        ),
        ("barrier", None, [], "java.util.concurrent.CyclicBarrier.await under com.acme.Waits"),
        ("put", None, [], "java.util.concurrent.ArrayBlockingQueue.put under com.acme.Waits"),
        ("handed", None, [], "java.util.concurrent.SynchronousQueue.put under com.acme.Waits"),
        ("parked", None, [], "java.util.concurrent.locks.LockSupport.park under com.acme.Waits"),
        (
            "limiter",
            None,
            [],
            "java.lang.Thread.sleep in com.google.common.util.concurrent.RateLimiter.acquire under "
            "com.acme.Waits.acquire",
        ),
    ],
)
def test_what_a_thread_waits_for_is_followed_to_its_end(
    how, waits, chain, ends, version, classpath
):
    told = looked_at(how, classpath, javas.java(version))
    found = thread(told)
    assert of(told, "waiter") == (waits, chain)
    assert found.ends.where.startswith(ends)
    assert (found.seconds or 0) >= SECONDS - 0.2


@pytest.mark.parametrize("version", [javas.OURS, "21.0.8", "25.0.2"])
def test_who_initializes_a_class_is_known_from_java_16_on(version, classpath):
    told = looked_at("class", classpath, javas.java(version))
    assert of(told, "waiter") == (
        "the class com.acme.Waits$Rates, which loader initializes",
        ["loader"],
    )
    assert (thread(told).seconds or 0) >= SECONDS - 0.2


@pytest.mark.parametrize("how", ["spin", "retry"])
def test_a_thread_that_works_is_not_said_to_wait(how, classpath):
    told = looked_at(how, classpath, javas.java(javas.OURS))
    assert of(told, "waiter") == (None, [])
    assert (thread(told).seconds or 0) < 1


def test_a_task_that_nobody_has_begun_is_told_of_those_that_wait_for_it(classpath):
    told = looked_at("queued", classpath, javas.java(javas.OURS))
    for name in ("pool-1-thread-1", "pool-1-thread-2"):
        assert of(told, name) == (f"{TASK}, which no thread has begun to run", [])


@pytest.mark.parametrize("version", ["21.0.8", "25.0.2"])
def test_virtual_threads_are_counted(version, classpath):
    told = looked_at("virtual", classpath, javas.java(version), 0)
    assert told.inspections[-1].virtual_threads == 5


def test_no_virtual_threads_are_invented(classpath):
    assert (
        looked_at("latch", classpath, javas.java(javas.OURS), 0).inspections[-1].virtual_threads
        == 0
    )


def test_one_that_waits_again_and_again_has_not_waited_since_the_first_look(classpath):
    """Its frames are the same in both dumps; that it is another wait only the JVM's counts tell."""
    found = thread(looked_at("rhythm", classpath, javas.java(javas.OURS), 6))
    assert (found.seconds or 0) < 4


def test_since_when_it_waits_for_a_monitor_is_known_from_the_first_look_on(classpath):
    """Its thread wakes once a second, and the JVM times no waits. A sleep is known whole."""
    with waiting("monitor", classpath, javas.java(javas.OURS)) as pid:
        time.sleep(4)
        looking = Looking.at(pid, inside=True)
        time.sleep(SECONDS)
        told = looking.again()
    found, writer = thread(told), thread(told, "writer")
    assert found.since_look
    assert SECONDS - 0.2 <= (found.seconds or 0) < 4
    assert not writer.since_look
    assert (writer.seconds or 0) >= 4 + SECONDS
    out = io.StringIO()
    screen.write(told, out)
    assert "s or longer; longer was not measured" in " ".join(out.getvalue().split())


def test_a_person_reads_the_chain_below_the_thread_that_waits(classpath, monkeypatch):
    monkeypatch.setitem(os.environ, "COLUMNS", "200")
    out = io.StringIO()
    screen.write(looked_at("chain", classpath, javas.java(javas.OURS)), out)
    lines = [line.partition(" (Waits.java")[0].strip() for line in out.getvalue().splitlines()]
    at = lines.index("waiter (application): com.acme.Waits.charge")
    assert lines[at + 1 : at + 5] == [
        f"waits for {MONITOR}, which writer holds",
        "writer: java.util.concurrent.locks.ReentrantLock.lock under com.acme.Waits.writeIntoBooks",
        f"waits for {LOCK}, which clerk holds",
        "clerk: java.lang.Thread.sleep under com.acme.Waits.rest",
    ]
