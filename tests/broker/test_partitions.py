"""What the partitions of one topic know of each other."""

from __future__ import annotations

from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.partitions import among_partitions
from pulsar_doctor.broker.stats.reading import topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.window import Window

ATTENDED = {"billing": {"consumers": [{"consumerName": "w"}]}, "audit": {"consumers": []}}
EMPTY = {"billing": {"consumers": []}, "audit": {"consumers": []}}


def window(topic: str, partition: int | None, subscriptions: dict[str, object]) -> TopicWindow:
    sample = Sample(0, topic_stats({"msgInCounter": 1, "subscriptions": subscriptions}), None)
    return TopicWindow(topic, partition, Window((sample,)))


def test_a_partition_knows_which_subscriptions_have_consumers_on_the_others():
    first, second = among_partitions([window("a", 0, ATTENDED), window("a", 1, EMPTY)])
    assert {each.subscription: each.elsewhere for each in second.subscriptions()} == {
        "billing": True,
        "audit": False,
    }
    assert first.topic == "a"


def test_other_topics_and_topics_without_partitions_are_no_neighbours():
    windows = [window("a", 0, ATTENDED), window("b", 0, EMPTY), window("c", None, ATTENDED)]
    windows.append(window("c", None, EMPTY))
    assert [each.elsewhere for each in among_partitions(windows)[1:]] == [frozenset()] * 3
