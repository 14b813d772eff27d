"""Real running clients, stuck in every way, looked into while they run."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pulsar_doctor.evidence.process_report import ClientConsumer
from pulsar_doctor.parts.examine.identity import process
from pulsar_doctor.parts.examine.jvm import agent
from pulsar_doctor.parts.examine.jvm.attach import Jvm
from pulsar_doctor.parts.sandbox import distribution, versions
from tests.parts.examine import javas
from tests.parts.examine.java_client import (
    BESIDE,
    CLIENTS,
    SHADED,
    JavaApplication,
    classes,
    container,
    left_in_tmp,
    only_child,
    running,
    spring_boot_jar,
)
from tests.support import eventually
from tests.support.command_line import answered, pulsar_doctor
from tests.support.maven import jar
from tests.support.processes import descriptors
from tests.support.wanting import wanting

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc")),
]
EARLY = ("nobody-receives", "listener-stuck", "pool-stuck")
SOON = tuple(word for each in EARLY for word in ("--set", f"{each}.stuck_for=1s"))
WINDOW = ("--window", "2s", "--interval", "500ms", *SOON)


@pytest.fixture(params=javas.OURS_AND_8)
def application(request: pytest.FixtureRequest, broker: Any) -> Iterator[JavaApplication]:
    with running(broker.service_url, java=javas.java(request.param)) as started:
        yield started


def examined(application: JavaApplication, broker: Any, *more: str) -> dict[str, Any]:
    """What `examine PID --attach -o json` prints."""
    asked = ("examine", str(application.pid), "--attach", *WINDOW, *more, "-o", "json")
    done = answered(*asked, broker=broker)
    assert done.stdout, done.stderr
    print(done.stdout)  # seen where a test fails
    return dict(json.loads(done.stdout))


def findings(document: dict[str, Any]) -> dict[tuple[str, str | None], dict[str, Any]]:
    """All of them, by code and consumer."""
    return {
        (each["code"], each["consumer"]): each
        for subscription in document["subscriptions"]
        for each in subscription["findings"]
    }


def consumers(pid: int) -> list[ClientConsumer]:
    """What the agent tells of all consumers in a JVM."""
    return list(agent.consumers(Jvm(process(pid))).consumers)


def consumer(pid: int) -> ClientConsumer:
    """Of the only one."""
    (found,) = consumers(pid)
    return found


def granted(admin: httpx2.Client, topic: str) -> int:
    """All permits that the only consumer of a topic was ever granted."""
    told = admin.get(f"/admin/v2/{topic.replace('://', '/')}/stats").json()
    (each,) = told["subscriptions"]["s"]["consumers"]
    return int(each["availablePermits"] + each["msgOutCounter"])


def still(read: Callable[[], Any]) -> Any:
    """What it reads, once that is the same twice."""
    before = read()
    while (now := (time.sleep(0.2), read())[1]) != before:
        before = now
    return now


def measured(finding: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each["value"] for each in finding["evidence"]}


def test_a_receive_loop_that_sits_in_something_else_is_told_with_its_line(
    application, broker, topic
):
    application.consumes(topic, 40, "slow", 20, take=7)
    application.order("hang", "slow")
    time.sleep(2)
    began = time.monotonic()
    document = examined(application, broker, "--no-capture")
    took = time.monotonic() - began
    found = findings(document)["nobody-receives", "slow"]
    print(found["summary"], f"{took:.1f} s")
    told = measured(found)
    assert (told["unsent_permits"], told["next_flow_after"], told["queued"]) == (7, 3, 13)
    assert "com.acme.Client$Billing.charge (Client.java:" in found["summary"]
    assert "the broker may send it 0" in found["summary"]
    assert told["stood_for"] >= 2
    assert document["sources"] == ["stats", "internal-stats", "process"]
    assert set(findings(document)) == {("nobody-receives", "slow")}


def test_a_listener_that_waits_for_an_answer_is_told_with_its_line(application, broker, topic):
    application.consumes(topic, 60, "ear", 20, kind="listener+stuck")
    eventually(lambda: application.order("taken", "ear") == "4")
    time.sleep(2)
    document = examined(application, broker)
    found = findings(document)["listener-stuck", "ear"]
    print(found["summary"])
    told = measured(found)
    assert told["unsent_permits"] == 4
    assert told["with_listener"] + told["queued"] >= 16
    assert "under com.acme.Client$Billing.read (Client.java:" in found["summary"]
    assert "Socket" in told["sits_in"]
    assert told["thread"].startswith("pulsar-external-listener")
    assert told["stood_for"] >= 2


def test_a_pool_of_which_each_thread_waits_is_found_though_somebody_receives(
    application, broker, topic
):
    application.consumes(topic, 300, "pooled", 100, kind="keep")
    application.order("pump", "pooled", 2)
    eventually(lambda: application.order("taken", "pooled") == "300")
    time.sleep(2)
    document = examined(application, broker)
    found = findings(document)["pool-stuck", "pooled"]
    print(found["summary"])
    told = measured(found)
    assert (told["pool_threads"], told["tasks_waiting"]) == (2, 298)
    assert "each of its 2 pool threads has been in" in found["summary"]
    assert "CountDownLatch.await under com.acme.Client$Billing.await (Cl" in found["summary"]
    assert set(findings(document)) == {("pool-stuck", "pooled")}


def test_consumers_that_share_the_only_listener_thread_are_told_of_each_other(broker, topic):
    with running(broker.service_url, options=("-Dlisteners=1",)) as application:
        for name, each in (("first", topic), ("second", f"{topic}-b")):
            application.order("produce", each, 60)
            application.order("subscribe", name, 20, "listener+stuck", each)
            eventually(lambda: application.order("taken", "first") == "4")
        time.sleep(2)
        found = findings(examined(application, broker))
    told = {name: each["summary"] for (_, name), each in found.items()}
    print(*told.values(), sep="\n")
    bare = topic.removeprefix("persistent://")
    assert f"calls its listener and that of second on {bare}-b: its listen" in told["first"]
    assert f"calls its listener and that of first on {bare}: its listen" in told["second"]


def test_a_paused_consumer_is_told_and_asks_for_nothing(application, broker, topic):
    application.consumes(topic, 60, "paused", 10)
    eventually(lambda: consumer(application.pid).waiting == 10)
    application.order("pause", "paused")
    application.order("take", "paused", 10)
    document = examined(application, broker)
    found = findings(document)["paused", "paused"]
    print(found["summary"])
    told = measured(found)
    assert (told["available_permits"], told["unsent_permits"], told["queued"]) == (0, 10, 0)
    assert "permits-exhausted" not in {code for code, _ in findings(document)}


def test_what_decides_a_paused_consumer_on_this_machine_is_examining_it(broker, topic):
    with running(broker.service_url) as application:
        application.consumes(topic, 200, "pausing", 70)
        eventually(lambda: consumer(application.pid).waiting == 70)
        application.order("pause", "pausing")
        application.order("take", "pausing", 70)
        time.sleep(5)
        soon = ("--set", "healthy.first_ack_within=5s")
        asked = ("stall-check", topic, "--window", "5s", *soon, "-o", "json")
        (found,) = json.loads(answered(*asked, broker=broker).stdout)["subscriptions"]
        suspects = {each["code"]: each for each in found["suspects"]}
        print(found["status"], *suspects)
        decide = suspects["permit-leak"]["decide"]
        program, *line = shlex.split(decide["command"])
        assert (program, line[0], line[2:]) == ("pulsar-doctor", "examine", [topic, "--attach"])
        document = json.loads(answered(*line, "-o", "json", *WINDOW, broker=broker).stdout)
    assert document["process"]["pid"] == application.pid
    assert set(findings(document)) == {("paused", "pausing")}


def test_a_zero_queue_asks_at_each_receive(application, broker, topic):
    application.consumes(topic, 20, "zero", 0, take=3)
    application.order("hang", "zero")
    told = consumer(application.pid)
    assert (told.zero_queue, told.queue_size, told.waiting, told.refills_at) == (True, 0, 0, None)
    time.sleep(2)
    found = findings(examined(application, broker))["nobody-receives", "zero"]
    print(found["summary"])
    assert "zero queue" in found["summary"]


def test_every_part_of_a_topic_has_its_own_ledger_and_the_parent_its_queue(
    application, broker, admin, topic
):
    admin.put(f"/admin/v2/{topic.replace('://', '/')}/partitions", json=3).raise_for_status()
    application.consumes(topic, 90, "parts", 10, take=12)
    told = still(lambda: consumers(application.pid))
    (parent,) = [each for each in told if each.kind == "multi"]
    children = [each for each in told if each.kind == "single"]
    assert set(parent.children) == {each.id for each in children}
    assert [each.partition for each in sorted(children, key=lambda c: c.partition)] == [0, 1, 2]
    for each in children:
        # Counted as taken where it went to its parent; all that was sent is somewhere.
        eventually(lambda each=each: _is_accounted_for(each, admin))
    handed = sum(_gone(each, admin) for each in children)
    assert handed - parent.waiting == 12
    document = examined(application, broker)
    partitions = {each["partition"] for each in document["subscriptions"]}
    assert partitions == {0, 1, 2}


def _is_accounted_for(child: ClientConsumer, admin: httpx2.Client) -> bool:
    """Whether both ledgers agree; the broker's does once it has read the last FLOW."""
    given_back = granted(admin, child.topic) - child.queue_size
    return bool(child.unsent_permits + given_back == _gone(child, admin))


def _gone(child: ClientConsumer, admin: httpx2.Client) -> int:
    """How many messages of a child went to its parent: sent to it, and not in its queue."""
    told = admin.get(f"/admin/v2/{child.topic.replace('://', '/')}/stats").json()
    (each,) = told["subscriptions"]["s"]["consumers"]
    return int(each["msgOutCounter"]) - (child.waiting or 0)


def test_a_multi_topic_consumer_is_a_parent_with_a_child_for_each(
    application, broker, topic, admin
):
    other = f"{topic}-other"
    for each in (topic, other):
        application.order("produce", each, 40)
    application.order("subscribe", "multi", 10, "plain", f"{topic},{other}")
    application.order("take", "multi", 5)
    told = still(lambda: consumers(application.pid))
    children = [each for each in told if each.kind == "single"]
    (parent,) = [each for each in told if each.kind == "multi"]
    assert {each.topic for each in children} == {topic, other}
    assert sum(_gone(each, admin) for each in children) - parent.waiting == 5
    for each in children:
        eventually(lambda each=each: _is_accounted_for(each, admin))


def test_a_queue_that_scales_is_told_as_it_is_now(application, broker, admin, topic):
    application.consumes(topic, 200, "auto", 64, kind="auto")
    sizes = set()
    for taken in range(15, 75, 15):
        application.order("take", "auto", 15)
        told = still(lambda: consumer(application.pid))
        sizes.add(told.queue_size)
        assert told.queue_size_scales
        # Whatever the size is: all that was granted is that, and what was given back, once the
        # broker has read the last FLOW.
        wanted = told.queue_size + taken - told.unsent_permits
        eventually(lambda wanted=wanted: granted(admin, topic) == wanted)
    print(sorted(sizes))
    assert len(sizes) > 1


def test_acks_that_the_client_holds_back_are_told(application, broker, topic):
    application.consumes(topic, 20, "holds", 50, kind="hold", take=12)
    found = findings(examined(application, broker))["acks-held-back", "holds"]
    print(found["summary"])
    assert measured(found)["acks_pending"] == 12
    assert measured(found)["acks_grouped_for"] == 600


def test_a_deadlock_is_told_as_the_jvm_reports_it(application, broker, topic):
    application.consumes(topic, 40, "locked", 20, take=2)
    application.order("deadlock")
    document = examined(application, broker)
    found = findings(document)["receive-deadlock", "locked"]
    print(found["summary"])
    assert found["severity"] == "stalled"
    (names,) = document["process"]["deadlocks"]
    assert sorted(names) == ["left", "right"]  # Java 8 begins with the other one
    assert "com.acme.Client$Billing.lock" in found["summary"]


def test_settings_of_dead_letters_and_the_ack_timeout_are_told(application, topic):
    application.consumes(topic, 20, "dead", 10, kind="dead+keep", take=4)
    told = consumer(application.pid)
    assert (told.dead_letter_after, told.dead_letter_topic) == (7, "given-up")
    assert (told.ack_timeout_ms, told.unacked_tracked) == (30_000, 4)
    assert told.missing == ()


@pytest.mark.parametrize("looks", [13, pytest.param(100, marks=pytest.mark.slow)])
def test_unsent_permits_are_the_truth_in_every_look(application, topic, looks):
    assert right_looks(application, topic, looks) == looks


def right_looks(application: JavaApplication, topic: str, looks: int) -> int:
    """How many of these looks tell as many unsent permits as the application has taken."""
    size, taken, right = 20, 0, 0
    application.order("produce", topic, 700)
    application.order("subscribe", "count", size, "plain", topic)
    for look in range(looks):
        step = look % 13
        numbers = application.order("take", "count", step).split()
        assert numbers == [str(each) for each in range(taken, taken + step)]
        taken += step
        assert int(application.order("taken", "count")) == taken
        right += consumer(application.pid).unsent_permits == taken % (size // 2)
    return right


def test_a_look_that_waits_for_a_processor_sees_all_the_same(application, topic):
    application.order("subscribe", "waits", 20, "plain", topic)
    jvm = Jvm(process(application.pid))
    warm = [agent.consumers(jvm).milliseconds for _ in range(2)]
    one = {min(os.sched_getaffinity(0))}
    for task in Path(f"/proc/{application.pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), one)
    spinning = [
        sys.executable,
        "-c",
        f"import os; os.sched_setaffinity(0, {one})\nwhile True: pass",
    ]
    busy = [subprocess.Popen(spinning) for _ in range(2)]
    try:
        looks = [agent.consumers(jvm, milliseconds=100) for _ in range(3)]
    finally:
        for each in busy:
            each.kill()
            each.wait()
    print(f"{warm} ms alone, {[each.milliseconds for each in looks]} ms")
    assert [(len(each.consumers), each.unknowns) for each in looks] == [(1, ())] * 3


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", javas.PACKAGES)
def test_every_java_is_read_and_keeps_nothing(broker, topic, version):
    with running(broker.service_url, java=javas.java(version)) as application:
        assert right_looks(application, topic, 100) == 100
        jvm = Jvm(process(application.pid))
        assert agent.consumers(jvm).runtime == f"Java {version}"
        warmed_up(application)
        before = counted(application)
        looks = []
        for _ in range(10):
            application.order("longest")
            milliseconds = agent.consumers(jvm).milliseconds
            looks.append((milliseconds, float(application.order("longest"))))
        after = counted(application)
    grown = {what: after[what] - before[what] for what in before}
    print(version, "ms in there, longest pause:", looks, "grown:", grown)
    assert grown["threads"] == 0
    assert grown["classes"] <= 5  # the last look's go with the next collection
    assert grown["heap"] < 200_000


def counted(application: JavaApplication) -> dict[str, int]:
    """What the JVM has of each, by itself; its garbage is collected before."""
    return {what: int(application.order(what)) for what in ("threads", "classes", "heap")}


def warmed_up(application: JavaApplication) -> None:
    """Has it load what it needs to answer, so that all classes that come are those of looks."""
    counted(application)
    application.order("longest")


@pytest.mark.parametrize("looks", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_looks_leave_nothing_behind_and_hold_nothing_up(application, broker, topic, looks):
    application.consumes(topic, 60, "kept", 20, take=3)
    examined(application, broker)  # the first loads what the JVM then keeps
    assert not left_in_tmp(application.pid)
    warmed_up(application)
    before = counted(application)
    files = descriptors(application.pid)
    application.order("longest")
    for _ in range(looks):
        examined(application, broker, "--window", "100ms", "--interval", "50ms")
    longest = float(application.order("longest"))
    after = counted(application)
    print(f"longest pause {longest:.1f} ms; before {before}, after {after}")
    assert after["threads"] == before["threads"]
    assert after["classes"] <= before["classes"] + 5
    eventually(lambda: counted(application)["heap"] < before["heap"] + 200_000)  # the client's own
    assert descriptors(application.pid) == files
    assert not left_in_tmp(application.pid)
    assert application.order("take", "kept", 5).split() == ["3", "4", "5", "6", "7"]


def test_a_listener_that_waits_for_a_lock_is_told_with_who_holds_it(application, broker, topic):
    """Its thread wakes once a second, so the kernel tells of less than that."""
    application.order("produce", topic, 60)
    application.order("wait", "monitor")
    application.order("subscribe", "w", 20, "listener+waits", topic)
    eventually(lambda: application.order("taken", "w") == "4")
    document = examined(application, broker, "--no-capture", "--window", "3s")
    found = findings(document)["listener-stuck", "w"]
    told = measured(found)
    assert told["waits_for"] == "the monitor of a java.lang.Object, which writer holds"
    assert told["waits_for_thread"] == "writer"
    assert "writer has been in java.lang.Thread.sleep under" in found["summary"]
    (listener,) = [each for each in document["process"]["threads"] if each["role"] == "listens"]
    assert "com.acme.Waits.charge" in listener["where"]
    assert listener["seconds"] >= 2.9
    assert [each["thread"] for each in listener["chain"]] == ["writer"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "in_order"), [("fixed", True), ("scheduled", False), ("forked", False)]
)
def test_messages_that_were_handed_to_a_pool_are_told_with_its_threads(
    application, broker, topic, kind, in_order
):
    application.consumes(topic, 3100, "w", 1000, kind="plain+keep")
    application.order("handoff", "w", 3004, 4, kind)
    document = examined(application, broker, "--no-capture")
    (pool,) = document["process"]["pools"]
    assert (pool["waiting"], pool["looked"], pool["holding"], len(pool["threads"])) == (
        3000, 200, 200, 4,
    )  # fmt: skip
    assert (pool["topic"], pool["in_order"]) == (topic, in_order)
    if in_order:
        assert pool["message"].endswith(":4")  # the four before it are being worked on
    assert time.time() * 1000 - 120_000 < pool["published_ms"] <= time.time() * 1000


CLIENT_VERSIONS = ("2.8.4", "2.11.4", "3.0.7", "3.3.5", "4.0.8", "4.1.1", "5.0.0-M1")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("version", "runs_on"),
    [
        *((version, javas.OURS) for version in CLIENT_VERSIONS),
        *((version, javas.JAVA_8) for version in CLIENT_VERSIONS[:5]),  # later ones need Java 17
    ],
)
def test_shaded_clients_of_all_versions_are_read(broker, topic, version, runs_on):
    beside = BESIDE_5 if version.startswith("5.") else BESIDE
    jars = [*(f"org.apache.pulsar:{each}:{version}" for each in SHADED), *beside]
    classpath = ":".join(str(jar(each)) for each in jars)
    with running(broker.service_url, java=javas.java(runs_on), classpath=classpath) as it:
        it.consumes(topic, 40, "shaded", 20, take=7)
        told = consumer(it.pid)
        print(version, told)
        assert (told.unsent_permits, told.queue_size, told.waiting) == (7, 20, 13)
        assert (told.name, told.subscription, told.connected) == ("shaded", "s", True)
        assert told.local_address is not None
        assert bool(told.missing) == (
            version == "2.8.4"
        )  # which had no listener's count, no scaling


@pytest.mark.parametrize(
    ("how", "code", "line"),
    [
        ("receive", "nobody-receives", "charge"),
        ("listener", "listener-stuck", "charge"),
        ("shared", "listener-stuck", "charge"),
        ("pool", "pool-stuck", "charge"),
    ],
)
def test_a_python_worker_that_hangs_is_told_with_its_line(
    broker, client, topic, how, code, line, tmp_path
):
    pytest.importorskip("pulsar")
    if not Path(sys.executable).with_name("py-spy").exists():
        pytest.skip(wanting("py-spy"))
    topics = [topic, f"{topic}-other"] if how == "shared" else [topic]
    for each in topics:
        producer = client.create_producer(each, batching_enabled=False)
        for _ in range(30):
            producer.send(b"x")
    program = [sys.executable, CLIENTS / "stuck.py", broker.service_url, topic, how]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
            time.sleep(2)
            asked = ("examine", str(worker.pid), *topics, "--attach", *WINDOW, "-o", "json")
            document = json.loads(pulsar_doctor(*asked, broker=broker).stdout)
        finally:
            worker.kill()
    found = findings(document)[code, "worker"]
    print(found["summary"])
    assert f"{line} (stuck.py:" in found["summary"]
    assert measured(found)["stood_for"] >= 2
    assert ("its listener and that of other on" in found["summary"]) == (how == "shared")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason=wanting("root"))
def test_a_client_in_a_container_is_told_as_any_other(broker, topic):
    """Its network is ours, so that it has the broker."""
    java, lib = distribution.java_home(), versions.pulsar_home(None) / "lib"
    with (
        container(java, lib) as (contained, (inner_java, inner_lib)),
        running(
            broker.service_url,
            java=inner_java / "bin/java",
            classpath=f"{inner_lib}/*",
            before=contained,
        ) as application,
    ):
        application.consumes(topic, 60, "inside", 20, kind="listener+stuck")
        eventually(lambda: application.order("taken", "inside") == "4")
        application.pid = only_child(application.pid)
        time.sleep(2)
        tmp = process(application.pid).root / "tmp"
        before = {each.name for each in tmp.iterdir()}
        document = examined(application, broker)
        left = {each.name for each in tmp.iterdir()} - before
    found = findings(document)["listener-stuck", "inside"]
    assert measured(found)["unsent_permits"] == 4
    assert measured(found)["stood_for"] >= 2
    assert "com.acme.Client$Billing.read" in found["summary"]
    assert left == {".java_pid1"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_client_in_a_spring_boot_jar_is_read(broker, topic, tmp_path):
    """Its classes are in jars within a jar, and their loader is Spring's."""
    boot = spring_boot_jar(tmp_path / "app.jar")
    with running(broker.service_url, jar=boot) as application:
        application.consumes(topic, 60, "boot", 20, kind="listener+stuck")
        eventually(lambda: application.order("taken", "boot") == "4")
        time.sleep(2)
        document = examined(application, broker)
    found = findings(document)["listener-stuck", "boot"]
    print(found["summary"])
    assert measured(found)["unsent_permits"] == 4
    assert "under com.acme.Client$Billing.read (Client.java:" in found["summary"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_client_under_another_name_is_read(broker, topic, tmp_path):
    """Its classes were moved to a package of the application, as shading does."""
    jars = {each: jar(f"org.apache.pulsar:{each}:4.0.8") for each in SHADED}
    jars["application"] = tmp_path / "plain.jar"
    with zipfile.ZipFile(jars["application"], "w") as packed:
        for each in classes().rglob("*.class"):
            packed.write(each, each.relative_to(classes()))
    rule = tmp_path / "rule"
    rule.write_text("rule org.apache.pulsar.client.** com.acme.shaded.pulsar.client.@1\n")
    java = distribution.java_home() / "bin/java"
    tool = [java, "-cp", ":".join(str(jar(each)) for each in JARJAR), "org.pantsbuild.jarjar.Main"]
    for name, plain in jars.items():
        jars[name] = tmp_path / f"{name}.jar"
        subprocess.run([*tool, "process", rule, plain, jars[name]], check=True, capture_output=True)
    application = jars.pop("application")
    rest = ":".join(map(str, [*jars.values(), *(jar(each) for each in BESIDE)]))
    with running(broker.service_url, application=application, classpath=rest) as it:
        it.consumes(topic, 40, "moved", 20, take=7)
        told = consumer(it.pid)
        there = Jvm(process(it.pid)).ask("jcmd", "GC.class_histogram")
    assert (told.unsent_permits, told.queue_size, told.waiting) == (7, 20, 13)
    assert "com.acme.shaded.pulsar.client.impl.ConsumerImpl" in there
    assert "org.apache.pulsar.client.impl.ConsumerImpl" not in there


JARJAR = (
    "org.pantsbuild:jarjar:1.7.2",
    "org.ow2.asm:asm:9.7",
    "org.ow2.asm:asm-commons:9.7",
    "org.ow2.asm:asm-tree:9.7",
)


BESIDE_5 = (
    "org.slf4j:slf4j-api:2.0.18",
    "io.opentelemetry:opentelemetry-api:1.62.0",
    "io.opentelemetry:opentelemetry-common:1.62.0",
    "io.opentelemetry:opentelemetry-context:1.62.0",
    "io.opentelemetry:opentelemetry-api-incubator:1.62.0-alpha",
    "io.github.merlimat.slog:slog:0.9.9",
    "com.fasterxml.jackson.core:jackson-annotations:2.21",
)


def test_without_attach_its_consumers_are_found_by_their_addresses(default_broker, topic):
    with running(default_broker.service_url) as application:
        application.consumes(topic, 40, "outside", 20, take=7)
        time.sleep(3)  # until the broker's list has the topic
        asked = ("examine", str(application.pid), *WINDOW, "-o", "json")
        document = json.loads(answered(*asked, broker=default_broker).stdout)
    (subscription,) = document["subscriptions"]
    assert subscription["topic"] == topic
    assert document["process"]["consumers"] is None
    assert "process" not in document["sources"]
    assert [each["read_ms"] is not None for each in document["process"]["connections"]]
