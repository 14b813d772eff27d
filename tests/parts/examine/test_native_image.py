"""A real native image of GraalVM: known as one, never signalled, and told by all the rest.

No client of Pulsar is at hand as a native image. So Google's Closure Compiler, which waits for its
input here, has a consumer's connection to the broker: it has inherited that at its start.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pulsar_doctor.parts.examine.child import CannotAttach
from pulsar_doctor.parts.examine.identity import process
from pulsar_doctor.parts.examine.jvm.attach import Jvm
from tests.conformance.raw_producer import RawConsumer
from tests.parts.examine.java_client import left_in_tmp
from tests.support import npm
from tests.support.command_line import pulsar_doctor
from tests.support.wanting import wanting

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc"))
COMPILER = "google-closure-compiler-linux"
VERSION = "20261015.0.0"  # 16 MB
CAUSE = "permits-exhausted"
# A shell's job in the background ignores SIGQUIT, and with it all that is started there.
AS_BY_DEFAULT = ("env", "--default-signal=QUIT")
NOT_TOLD = (
    "process {pid} (compiler), a native image of GraalVM without a JVM, cannot be asked; where its "
    "threads are: gdb -p {pid} -batch -ex 'thread apply all bt', which stops it for that moment; "
    "kill -QUIT prints them if it was built with --enable-monitoring=threaddump, and ends it if not"
)


@pytest.fixture(scope="module")
def native_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("native-image")
    packages = npm.fetched(folder, f"{COMPILER} of npm", f"{COMPILER}@{VERSION}")
    return packages / COMPILER / "compiler"


@contextmanager
def waiting(program: Path, folder: Path, *inherits: int) -> Iterator[int]:
    """Its pid, while it waits for its input in this folder. Nothing may end it or be left there."""
    started = subprocess.Popen(
        [*AS_BY_DEFAULT, program], cwd=folder, pass_fds=inherits,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert started.stderr is not None
        assert b"waiting for input" in started.stderr.readline()
        yield started.pid
        time.sleep(0.2)
        assert started.poll() is None, "it was ended by us"
        assert not [*left_in_tmp(started.pid), *folder.iterdir()]
        started.send_signal(signal.SIGQUIT)
        assert started.wait(10) == -signal.SIGQUIT  # so it had not been sent before
    finally:
        started.kill()
        started.communicate()


def test_a_native_image_is_no_jvm_and_is_not_signalled(native_image, tmp_path):
    with waiting(native_image, tmp_path) as pid:
        there = process(pid)
        assert (there.kind, there.catches(signal.SIGQUIT)) == ("native-image", False)
        with pytest.raises(CannotAttach, match=r"process \d+ \(compiler\) is not a JVM"):
            Jvm(there)


@pytest.mark.slow
def test_a_native_image_is_told_by_the_broker_and_its_connections(
    default_broker, default_client, topic, native_image, tmp_path
):
    producer = default_client.create_producer(topic, batching_enabled=False)
    consumer = RawConsumer(default_broker.service_url, topic)
    for _ in range(10):
        producer.send(b"x")
    consumer.flow(3)
    with waiting(native_image, tmp_path, consumer.fileno()) as pid:
        consumer.close()  # from now on it is the other's alone
        time.sleep(3)  # until the broker's list has the topic
        window = ("--window", "2s", "--interval", "500ms", "--set", f"{CAUSE}.refill_wait=1s")
        asked = ("examine", str(pid), "--attach", *window)
        done = pulsar_doctor(*asked, "-o", "json", broker=default_broker)
        screen = pulsar_doctor(*asked, broker=default_broker)
    print(done.stdout, screen.stdout)  # seen where a test fails
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    told = document["process"]
    assert (told["pid"], told["name"], told["kind"]) == (pid, "compiler", "native-image")
    assert (told["runtime"], told["consumers"], told["threads"]) == (None, None, None)
    assert told["not_told"] == [NOT_TOLD.format(pid=pid)]
    (connection,) = told["connections"]
    assert connection["remote"].endswith(f":{default_broker.service_url.rpartition(':')[2]}")
    assert document["sources"] == ["stats", "internal-stats"]
    (subscription,) = document["subscriptions"]
    assert subscription["topic"] == topic
    assert [each["code"] for each in subscription["findings"]] == [CAUSE]
    assert f"process {pid}, compiler: a native image of GraalVM" in screen.stdout
    assert screen.returncode == 1


def test_a_native_image_without_a_broker_is_told_as_it_is(native_image, tmp_path):
    with waiting(native_image, tmp_path) as pid:
        asked = ("examine", str(pid), "--attach", "--window", "100ms", "-o", "json")
        done = pulsar_doctor(*asked, "--admin-url", "http://127.0.0.1:1")
    told = json.loads(done.stdout)["process"]
    assert (told["kind"], told["connections"]) == ("native-image", [])
    assert told["not_told"] == [NOT_TOLD.format(pid=pid)]
    assert done.returncode == 3
