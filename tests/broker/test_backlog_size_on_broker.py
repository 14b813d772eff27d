"""The size of a topic's backlog is 0 on the real broker where no durable subscription has one."""

from __future__ import annotations

from typing import Any

import httpx2
import pulsar

from pulsar_doctor.parts.consume import attach
from tests.support import eventually


def told(admin_url: str, topic: str) -> tuple[int, dict[str, int]]:
    """The size of the topic's backlog, and how many entries each durable subscription has."""
    stats: Any = httpx2.get(f"{admin_url}/admin/v2/{topic.replace('://', '/')}/stats").json()
    each = stats["subscriptions"].items()
    return stats["backlogSize"], {name: s["msgBacklog"] for name, s in each if s["isDurable"]}


def subscribed(client: pulsar.Client, topic: str, name: str) -> pulsar.Consumer:
    earliest = pulsar.InitialPosition.Earliest
    shared = pulsar.ConsumerType.Shared
    return client.subscribe(topic, name, consumer_type=shared, initial_position=earliest)


def test_it_is_0_only_where_nothing_waits(broker, client, topic) -> None:
    def waits(**entries: int) -> None:
        eventually(lambda: told(broker.admin_url, topic)[1] == entries)
        sizes.append(told(broker.admin_url, topic))

    sizes: list[tuple[int, dict[str, int]]] = []

    attach.produce(client, topic, 10)
    one = subscribed(client, topic, "one")
    waits(one=10)
    messages = [one.receive() for _ in range(10)]
    for message in messages[1:]:
        one.acknowledge(message)
    waits(one=1)
    one.acknowledge(messages[0])
    waits(one=0)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)  # keeps nothing
    waits(one=0)
    reader.close()
    httpx2.put(f"{broker.admin_url}/admin/v2/{topic.replace('://', '/')}/unload")  # a new ledger
    eventually(one.is_connected)
    waits(one=0)
    attach.produce(client, topic, 3)
    waits(one=3)
    two = subscribed(client, topic, "two")
    waits(one=3, two=3)
    for _ in range(3):
        one.acknowledge(one.receive())
    waits(one=0, two=3)
    for _ in range(3):
        two.acknowledge(two.receive())
    waits(one=0, two=0)
    assert [size == 0 for size, _ in sizes] == [not any(each.values()) for _, each in sizes]
