"""`consume` takes nothing that is somebody's, makes nothing unasked, and leaves nothing unnamed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx2
import pytest

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.consume import attach
from pulsar_doctor.parts.consume.engines import Plan
from pulsar_doctor.parts.consume.visiting import leavings
from pulsar_doctor.parts.consume.visiting.leavings import Left, Visit, of_own_topic
from pulsar_doctor.parts.consume.visiting.manners import enter
from pulsar_doctor.parts.consume.visiting.presence import Present, look
from tests.broker.http_broker import Asked, Reply, serving
from tests.support import eventually
from tests.support.command_line import MINE, answered, environment, pulsar_doctor

SHARED = attach.TYPES["shared"]
BOTH_ENGINES = pytest.mark.parametrize(
    "engine", [pytest.param("pulsar-client", marks=pytest.mark.slow), "wire"]
)
SLOW = pytest.mark.slow
QUICK = ("--timeout", "500ms")


def path(topic: str) -> str:
    return "/admin/v2/" + topic.replace("://", "/")


def held(admin: httpx2.Client, topic: str) -> dict[str, int]:
    """The exact backlog of each subscription."""
    answer = admin.get(f"{path(topic)}/stats?getPreciseBacklog=true").raise_for_status().json()
    return {name: each["msgBacklog"] for name, each in answer["subscriptions"].items()}


def refused(broker, *arguments: str) -> str:
    run = answered("consume", *arguments, *QUICK, broker=broker)
    assert (run.returncode, run.stdout) == (2, ""), run.stderr
    return run.stderr


@pytest.fixture
def theirs(client, topic):
    client.subscribe(topic, "billing", SHARED).close()
    attach.produce(client, topic, 50)
    return topic


@pytest.fixture
def partitioned(admin, client, topic):
    admin.put(f"{path(topic)}/partitions", json=3).raise_for_status()
    client.subscribe(topic, "billing", SHARED).close()
    attach.produce(client, topic, 9)
    return topic


# ---- what is somebody's


@BOTH_ENGINES
def test_the_backlog_of_somebody_is_not_taken(broker, admin, theirs, engine):
    said = refused(broker, theirs, "-s", "billing", "--engine", engine)
    assert f"billing exists on {theirs} with a backlog of 50 and no consumers" in said
    assert "--take-messages" in said
    assert held(admin, theirs) == {"billing": 50}


def test_a_subscription_with_consumers_is_not_joined(broker, client, topic):
    consumers = [client.subscribe(topic, "s", SHARED, consumer_name=f"c{n}") for n in range(4)]
    said = refused(broker, topic, "-s", "s", "--engine", "wire")
    assert "no backlog and 4 consumers (c0 at 127.0.0.1:" in said
    assert "and 1 more)" in said
    for consumer in consumers:
        consumer.close()


def test_where_nothing_waits_and_nobody_is_attached_it_says_what_it_will_take(
    broker, client, topic
):
    client.subscribe(topic, "s", SHARED).close()
    run = answered("consume", topic, "-s", "s", *QUICK, "-o", "json", broker=broker)
    assert "with no backlog and no consumers: what comes now will be taken from it" in run.stderr
    assert json.loads(run.stdout)["left_behind"] == []
    client.create_producer(topic).send(b"x")
    assert "with a backlog of 1 and no consumers" in refused(broker, topic, "-s", "s")


def test_parts_of_a_topic_are_taken_from_neither_alone_nor_together(
    broker, admin, client, partitioned
):
    said = refused(broker, partitioned, "-s", "billing", "--zero-queue", "--engine", "wire")
    assert f"on 3 partitions of {partitioned} with a backlog of 9" in said
    one = f"{partitioned}-partition-1"
    assert f"billing exists on {one} with a backlog of 3" in refused(broker, one, "-s", "billing")
    admin.put(f"{path(one)}/subscription/half").raise_for_status()
    attach.produce(client, partitioned, 9)
    assert f"half exists on {one} with" in refused(broker, partitioned, "-s", "half")


@SLOW
def test_what_is_not_persistent_is_lost_to_its_consumers_too(broker, client, topic):
    topic = topic.replace("persistent", "non-persistent")
    consumer = client.subscribe(topic, "s", SHARED, consumer_name="live")
    assert "1 consumer (live at" in refused(broker, topic, "-s", "s")
    consumer.close()


def test_who_says_so_takes_messages_and_nothing_is_left(broker, admin, theirs):
    run = answered(
        "consume", theirs, "-s", "billing", "--take-messages", "-n", "20", "-o", "json",
        broker=broker,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "messages will be taken from it" in run.stderr
    assert held(admin, theirs) == {"billing": 30}
    assert json.loads(run.stdout)["left_behind"] == []


# ---- a copy


@BOTH_ENGINES
def test_without_a_name_all_is_read_and_nothing_is_taken(broker, admin, theirs, engine):
    run = pulsar_doctor(
        "consume", theirs, "-n", "50", "--consumers", "2", "-o", "json", "--engine", engine,
        broker=broker,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    assert document["subscription"].startswith("pulsar-doctor-")
    assert document["acknowledgements"]["acknowledge_calls"] == 50
    assert document["left_behind"] == []
    assert held(admin, theirs) == {"billing": 50}


def test_a_copy_of_several_goes_everywhere(broker, admin, partitioned):
    parts = [f"{partitioned}-partition-{n}" for n in range(3)]
    run = answered("consume", partitioned, "-n", "9", "-o", "json", broker=broker)
    assert run.returncode == 0, run.stderr
    assert [held(admin, part) for part in parts] == [{"billing": 3}] * 3


@contextmanager
def working(broker, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A run in the background that has taken a message."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pulsar_doctor", "consume", *arguments, "--process-time", "10m"],
        env=environment(broker), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert any(" takes " in line for line in process.stdout)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=SLOW),
        signal.SIGTERM,
        pytest.param(signal.SIGHUP, marks=SLOW),
    ],
)
def test_a_copy_goes_also_where_the_run_is_ended(broker, admin, theirs, number):
    with working(broker, theirs, "--type", "exclusive") as process:
        assert len(held(admin, theirs)) == 2
        process.send_signal(number)
        _, talk = process.communicate(timeout=20)
    attaching = f"attaching to {theirs} at {broker.service_url}"
    assert (process.returncode, talk.strip()) == (130, attaching)
    assert held(admin, theirs) == {"billing": 50}


@SLOW
def test_a_copy_goes_where_a_later_consumer_is_refused(broker, admin, theirs):
    admin.post(f"{path(theirs)}/maxConsumers", json=1).raise_for_status()
    eventually(lambda: admin.get(f"{path(theirs)}/maxConsumers").json() == 1)
    run = answered("consume", theirs, "--consumers", "2", *QUICK, broker=broker)
    assert run.returncode == 3, run.stdout
    assert held(admin, theirs) == {"billing": 50}


# ---- what is made, and stays


@pytest.mark.parametrize("more", [(), ("-s", "s"), pytest.param(("--engine", "wire"), marks=SLOW)])
def test_a_topic_that_does_not_exist_is_not_made(broker, admin, topic, more):
    run = answered("consume", topic, *more, *QUICK, broker=broker)
    assert run.returncode == 3
    assert f"there is no topic {topic} at {broker.admin_url}; " in run.stderr
    assert "--create makes one" in run.stderr
    assert run.stderr.count("\n") == 1
    assert topic not in admin.get("/admin/v2/persistent/public/default").json()


def test_a_topic_that_is_mistyped_gets_the_one_that_was_meant(broker, theirs):
    run = answered("consume", f"{theirs}x", *QUICK, broker=broker)
    meant = theirs.rpartition("/")[2]
    said = run.stderr.partition("did you mean ")[2]
    assert said.startswith(meant), "before what other tests have called much alike"
    assert "? --create makes one" in said


def test_neither_a_namespace_nor_a_part_is_made(broker, admin, partitioned):
    for wrong in ("public/nosuch/t", f"{partitioned}-partition-3"):
        run = answered("consume", wrong, *QUICK, broker=broker)
        assert (run.returncode, run.stderr.count("there is no topic")) == (3, 1)


def command_runs(admin: httpx2.Client, command: str) -> bool:
    """What pulsar-admin would do over the REST API, which is quicker than to start it."""
    pulsar_admin, topics, what, *rest = shlex.split(command)
    assert (pulsar_admin, topics) == ("pulsar-admin", "topics")
    if what == "unsubscribe":
        flag, subscription, topic = rest
        assert flag == "-s"
        return admin.delete(f"{path(topic)}/subscription/{subscription}").is_success
    (topic,) = rest
    kinds = {"delete": "", "delete-partitioned-topic": "/partitions"}
    return admin.delete(f"{path(topic)}{kinds[what]}").is_success


def test_a_topic_that_was_made_is_named_with_what_removes_it(broker, admin, topic):
    run = answered("consume", topic, "-s", "s", "--create", "-o", "json", *QUICK, broker=broker)
    assert run.returncode == 0, run.stderr
    (left,) = json.loads(run.stdout)["left_behind"]
    assert (left["topic"], left["subscription"]) == (topic, None)
    assert f"left behind: topic {topic}; remove it with: {left['remove']}" in run.stderr
    assert command_runs(admin, left["remove"])
    assert topic not in admin.get("/admin/v2/persistent/public/default").json()


def test_a_subscription_that_was_made_is_named_with_what_removes_it(broker, admin, theirs):
    run = answered("consume", theirs, "-s", "my own", "-n", "5", "-o", "json", broker=broker)
    (left,) = json.loads(run.stdout)["left_behind"]
    assert left["remove"] == f"pulsar-admin topics unsubscribe -s 'my own' {theirs}"
    assert left["remove"] in run.stderr
    assert held(admin, theirs) == {"billing": 50, "my own": 45}
    assert command_runs(admin, left["remove"])


@SLOW
def test_only_partitions_that_had_no_such_subscription_are_named(broker, admin, partitioned):
    admin.put(f"{path(partitioned)}-partition-1/subscription/s").raise_for_status()
    run = answered("consume", partitioned, *MINE, *QUICK, "-o", "json", broker=broker)
    left = json.loads(run.stdout)["left_behind"]
    assert [each["topic"] for each in left] == [f"{partitioned}-partition-{n}" for n in (0, 2)]
    assert all(each["remove"] in run.stderr for each in left)


def test_what_was_made_is_named_after_ctrl_c_too(broker, admin, theirs):
    with working(broker, theirs, "-s", "mine") as process:
        process.send_signal(signal.SIGINT)
        _, talk = process.communicate(timeout=20)
    assert process.returncode == 130
    assert f"pulsar-admin topics unsubscribe -s mine {theirs}" in talk


def test_a_topic_of_our_own_is_named_on_a_broker_that_stays(broker, admin):
    run = answered("consume", "-n", "2", "-o", "json", broker=broker)
    (left,) = json.loads(run.stdout)["left_behind"]
    assert (left["topic"], left["subscription"]) == (json.loads(run.stdout)["topic"], None)
    assert command_runs(admin, left["remove"])


# ---- where too little is known

PLAN = Plan("c", "persistent://public/default/t", "s")
MISSING = Present(PLAN.topic, False, 0, {})
THERE = Present(PLAN.topic, True, 0, {})


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(401), "wants credentials"),
        (Reply(403), "may not read"),
        (Reply(500), "failed with 500"),
        (Reply(200, {"partitions": 0, "msgInCounter": 1}), "hold no subscriptions"),
        (Reply(200, {"partitions": 0}), "no field of a topic's stats"),
    ],
)
def test_what_the_broker_does_not_tell_is_not_guessed(reply, says):
    def answer(asked: Asked) -> Reply:
        return reply

    with serving(answer) as web:
        where = Settings(admin_url=web.url, sandbox=True)
        with pytest.raises(DoctorError, match="--take-messages") as raised:
            enter(where, PLAN, thrown_away=False, create=True)
        assert says in str(raised.value)
        assert raised.value.exit_code == 3
        with pytest.raises(DoctorError, match="--create"):
            enter(where, PLAN, thrown_away=True)
        assert enter(where, PLAN, thrown_away=False, take=True).before is None
        assert enter(where, PLAN, thrown_away=True, create=True).before is None


def test_a_partition_that_could_not_be_read_is_not_taken_for_free():
    def answer(asked: Asked) -> Reply:
        if asked.path.endswith("/partitions"):
            return Reply(200, {"partitions": 2})
        return Reply(500 if "partition-1/" in asked.path else 404, {"reason": "?"})

    with serving(answer) as web, pytest.raises(DoctorError, match="failed with 500"):
        look(Settings(admin_url=web.url, sandbox=True), PLAN)


def test_the_exact_backlog_is_asked_for_as_the_counter_drifts():
    document = {"subscriptions": {"s": {"type": "Shared", "consumers": [], "msgBacklog": 0}}}

    def answer(asked: Asked) -> Reply:
        if asked.path.endswith("/partitions"):
            return Reply(200, {"partitions": 0})
        if "getPreciseBacklog=true" in asked.path:
            document["subscriptions"]["s"]["msgBacklog"] = 2
        return Reply(200, document)

    with serving(answer) as web, pytest.raises(InputError, match="a backlog of 2"):
        enter(Settings(admin_url=web.url, sandbox=True), PLAN, thrown_away=False)


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(
    "told",
    [
        {"service_url": "pulsar://broker.invalid:6650"},
        {"service_url": "pulsar://127.0.0.1:16650"},
        {"admin_url": "http://broker.invalid:8080"},
    ],
)
def test_an_address_that_nobody_gave_is_not_taken_for_the_same_cluster(told):
    settings = Settings(**told, origins=dict.fromkeys(told, "option"))
    with pytest.raises(DoctorError, match="may be another cluster's"):
        look(settings, PLAN)
    both = replace(
        settings,
        origins=dict.fromkeys(["service_url", "admin_url"], "option"),
        admin_url="http://[::1]:1",
    )
    with pytest.raises(DoctorError, match="nothing listens"):
        look(both, PLAN)


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(
    ("visit", "left"),
    [
        (Visit(PLAN, THERE, thrown_away=False), [(PLAN.topic, "s")]),
        (Visit(PLAN, MISSING, thrown_away=False), [(PLAN.topic, None)]),
        (Visit(PLAN, None, thrown_away=False), [(PLAN.topic, "s")]),
        (Visit(PLAN, None, create=True), [(PLAN.topic, None), (PLAN.topic, "s")]),
        (Visit(PLAN, THERE), [(PLAN.topic, "s")]),
        (of_own_topic(PLAN), [(PLAN.topic, None), (PLAN.topic, "s")]),
    ],
)
def test_what_may_be_left_is_named_where_the_broker_is_gone(visit, left, monkeypatch):
    monkeypatch.setattr(leavings, "GONE_SECONDS", 0)
    named: list[Left] = []
    dead = Settings("pulsar://127.0.0.1:1", "http://127.0.0.1:1", sandbox=True)
    visit.tidy(dead, named)
    assert [(each.topic, each.subscription) for each in named] == left
    if visit.thrown_away:
        assert "cannot be removed" in named[-1].sentence


def test_who_does_not_wait_for_the_tidying_is_told_what_may_be_left():
    def answer(asked: Asked) -> Reply:
        os.kill(os.getpid(), signal.SIGINT)
        return Reply(500)

    named: list[Left] = []
    with serving(answer) as web, pytest.raises(KeyboardInterrupt):
        Visit(PLAN, THERE).tidy(Settings(admin_url=web.url, sandbox=True), named)
    assert [(each.topic, each.subscription) for each in named] == [(PLAN.topic, "s")]


@SLOW
def test_a_copy_that_cannot_be_removed_is_named_with_what_removes_it(broker, admin, theirs):
    with working(broker, theirs) as process:
        (ours,) = set(held(admin, theirs)) - {"billing"}
        other = subprocess.run(
            [sys.executable, "-c", IN_THE_WAY, broker.service_url, theirs, ours, str(process.pid)],
            env=os.environ | environment(), check=True, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert "attached" in other.stdout
        _, talk = process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"left behind: subscription {ours} on {theirs} (it cannot be removed" in talk
    assert f"pulsar-admin topics unsubscribe -s {ours} {theirs}" in talk


IN_THE_WAY = """
import os, signal, sys, time
import pulsar
url, topic, subscription, pid = sys.argv[1:]
client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
client.subscribe(topic, subscription, pulsar.ConsumerType.Shared, receiver_queue_size=1)
print("attached")
os.kill(int(pid), signal.SIGINT)
time.sleep(6)
client.close()
"""
