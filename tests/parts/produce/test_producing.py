"""`produce` on a real broker: what it sends, and where it refuses to send."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pulsar
import pytest

from tests.support import eventually
from tests.support.command_line import answered, environment


def stats(admin, topic):
    answer = admin.get(f"{topic.replace('persistent://', '/admin/v2/persistent/')}/stats")
    return answer.json() if answer.status_code == 200 else {}


def test_without_a_topic_nothing_is_sent():
    ran = answered("produce", "-n", "10")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "missing argument 'TOPIC'" in ran.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--delay", "5s", "--batch", "10"], "one by one"),
        (["-s", "billing", "--existing"], "on a new topic"),
        (["--size", "6MiB"], "more than 5 MiB"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(options, said):
    ran = answered("produce", "orders", *options)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr


def test_messages_wait_in_the_subscription_that_was_created_with_the_topic(
    broker, admin, client, topic
):
    ran = answered(
        "produce", topic, "-n", "40", "-s", "billing", "--keys", "2", "--batch", "10",
        "--size", "64", "-o", "json", broker=broker,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (told["created"], told["sent"], told["acknowledged"], told["failed"]) == (
        True,
        40,
        40,
        0,
    )
    assert f"remove it with: pulsar-admin topics delete {topic}" in ran.stderr
    assert stats(admin, topic)["subscriptions"]["billing"]["msgBacklog"] == 4, "entries"
    consumer = client.subscribe(topic, "billing", pulsar.ConsumerType.Shared)
    got = [consumer.receive(5000) for _ in range(40)]
    assert [message.partition_key() for message in got[::10]] == ["key 0", "key 1"] * 2
    assert {len(message.data()) for message in got} == {64}


def test_a_topic_that_exists_is_refused_without_existing_and_a_new_one_with_it(
    broker, admin, client, topic
):
    new = answered("produce", topic, "-n", "10", "--existing", broker=broker)
    assert (new.returncode, new.stdout) == (3, "")
    assert f"there is no topic {topic}" in new.stderr
    assert stats(admin, topic) == {}
    client.subscribe(topic, "s").close()
    refused = answered("produce", topic, "-n", "10", broker=broker)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "give --existing" in refused.stderr
    sent = answered("produce", topic, "-n", "10", "--existing", "--delay", "1h", broker=broker)
    line = " ".join(sent.stdout.split())
    assert line.startswith(f"10 of 10 messages acknowledged by the broker: {topic}, 100 bytes")
    assert line.endswith(f" at {broker.service_url}")
    assert (sent.returncode, sent.stderr) == (0, "")
    assert stats(admin, topic)["subscriptions"]["s"]["msgBacklog"] == 10


def test_ctrl_c_says_how_many_messages_the_broker_has(broker, admin, topic):
    process = subprocess.Popen(
        [sys.executable, "-m", "pulsar_doctor", "produce", topic, "--rate", "20/s"],
        env=environment(broker), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    eventually(lambda: stats(admin, topic).get("msgInCounter", 0) > 2)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=20)
    assert process.returncode == 130
    assert error.startswith("interrupted after ")
    there = stats(admin, topic)["msgInCounter"]
    assert int(out.partition(" of 1000 messages acknowledged")[0]) in (there - 1, there)


def test_a_topic_that_could_not_be_created_is_not_left_behind(broker):
    ran = answered("produce", "faces-nobody/nowhere/orders", "-n", "1", broker=broker)
    assert ran.returncode == 3
    assert "cannot send messages to faces-nobody/nowhere/orders" in ran.stderr
    assert "left behind" not in ran.stderr
