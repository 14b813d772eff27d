"""Which topics brokers have loaded at this moment, by their metrics: asking loads nothing.

The list of loaded topics in broker-stats is renewed once a minute (statsUpdateFrequencyInSecs). The
metrics are written anew for each request, with a line for every loaded topic, unless the broker
buffers them (metricsBufferResponse) or leaves topics out (exposeTopicLevelMetricsInPrometheus).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from pulsar_doctor.broker.admin.client import Admin
from pulsar_doctor.broker.admin.refusals import BrokerFailed

LIVE = {"exposeTopicLevelMetricsInPrometheus": "true", "metricsBufferResponse": "false"}
NEWER = frozenset({"metricsBufferResponse"})  # a broker that does not know this one buffers nothing
# splitTopicAndPartitionLabelInPrometheus: the number of a partition has a label of its own then.
LOADED = re.compile(
    rb'^pulsar_subscriptions_count\{[^\n]*?topic="([^"\n]*)"(?:,partition="(\d+)")?', re.MULTILINE
)


async def loaded_now(admin: Admin, brokers: Sequence[str]) -> set[str]:
    """Full names of all topics that these brokers have loaded. Raises AdminError.

    Each broker needs to answer, and the configuration has to say that its metrics are live.
    """
    require_live(await admin.configuration())
    return {topic for broker in brokers async for topic in topics_in(admin.metrics(broker))}


def require_live(configuration: Mapping[str, Any]) -> None:
    """Raises BrokerFailed where metrics do not tell every loaded topic as it is now."""
    for name, wanted in LIVE.items():
        told = configuration.get(name, wanted if configuration and name in NEWER else None)
        if str(told).lower() != wanted:
            raise BrokerFailed(f"the broker's {name} is {'not reported' if told is None else told}")


async def topics_in(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Each loaded topic that metrics name, which come in pieces of any length."""
    rest = b""
    async for piece in pieces:
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        for topic in _named(whole + newline):
            yield topic
    for topic in _named(rest):
        yield topic


def _named(lines: bytes) -> Iterator[str]:
    for match in LOADED.finditer(lines):
        topic, partition = match[1].decode("utf-8", "replace"), match[2]
        yield topic if partition is None else f"{topic}-partition-{int(partition)}"
