"""The receiver queue size by the stats of the real broker, of clients that never acknowledge."""

from __future__ import annotations

import httpx2
import pulsar

from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.reading import topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.values import Count, at_most, exactly
from pulsar_doctor.parts.consume import attach
from tests.support import eventually


def subscribed(client: pulsar.Client, topic: str) -> pulsar.Consumer:
    return client.subscribe(
        topic,
        "s",
        consumer_type=pulsar.ConsumerType.Shared,
        receiver_queue_size=8,
        initial_position=pulsar.InitialPosition.Earliest,
    )


def sent(admin_url: str, topic: str, messages: int) -> ConsumerView:
    """The consumer by its stats, as soon as it was sent so many."""

    def found() -> ConsumerView | None:
        told = topic_stats(
            httpx2.get(f"{admin_url}/admin/v2/{topic.replace('://', '/')}/stats").json()
        )
        view = by_stats.subscription_view(Observed(topic, None, "s", Window((Sample(None, told),))))
        [consumer] = view.consumers or (None,)
        there = consumer is not None and consumer.msg_out_counter == exactly(messages)
        return consumer if there else None

    return eventually(found)


def test_who_has_asked_once_tells_its_queue(broker, client, topic) -> None:
    attach.produce(client, topic, 100)

    def exact() -> Count | None:
        """Again where the machine was too busy for its FLOW to come at once."""
        consumer = subscribed(client, topic)
        size = sent(broker.admin_url, topic, 8).receiver_queue_size
        consumer.close()
        return None if size == at_most(8) else size

    assert eventually(exact) == exactly(8)


def test_who_takes_and_never_acknowledges_has_asked_again(broker, client, topic) -> None:
    attach.produce(client, topic, 100)
    consumer = subscribed(client, topic)
    sent(broker.admin_url, topic, 8)
    for _ in range(40):
        consumer.receive(10_000)
    assert sent(broker.admin_url, topic, 48).receiver_queue_size == at_most(48)
