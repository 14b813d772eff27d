"""Finds loaded topics and waiting messages from the brokers' metrics, without loading a topic.

The list of loaded topics in broker-stats is renewed once a minute (statsUpdateFrequencyInSecs). The
metrics are written anew for each request, with a line for every loaded topic, unless the broker
buffers them (metricsBufferResponse) or leaves topics out (exposeTopicLevelMetricsInPrometheus).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from pulsar_doctor.broker.admin.client import Admin
from pulsar_doctor.broker.admin.live_metrics import require_live
from pulsar_doctor.broker.admin.refusals import BrokerFailed
from pulsar_doctor.broker.bodies import NAMES_MOST

# splitTopicAndPartitionLabelInPrometheus: the number of a partition has a label of its own then.
# Of several labels that end so, the first counts: what follows is never tried with another one.
# A topic without partitions has -1 there; a number that no partition has names nothing.
TOPIC = rb'\{(?>[^\n]*?topic=")([^"\n]*)"(?:,partition="(\d{1,9})"|(?!,partition="\d))'
# What is not acknowledged is in the backlog, too, unless the broker's counter is wrong.
LINES = re.compile(
    rb"\npulsar_subscription(?:s_count" + TOPIC + rb"|_(?:back_log|unacked_messages)" + TOPIC
    + rb"[^\n]*\} (?!0(?:\.0)?(?:[ \n]|$)))"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LiveTopics:
    """Full names of topics."""

    loaded: set[str] = field(default_factory=set)  # all that these brokers have loaded
    # with messages that were not delivered or acknowledged
    waiting: set[str] = field(default_factory=set)


async def live_topics(admin: Admin, brokers: Sequence[str]) -> LiveTopics:
    """What is so at this moment. Raises AdminError.

    Each broker needs to answer, and the configuration has to say that its metrics are live.
    """
    require_live(await admin.configuration())
    found = LiveTopics()
    for broker in brokers:
        async with aclosing(admin.metrics(broker)) as metrics:
            async for lines in metrics:
                for topic, waits in topics_in(lines):
                    (found.waiting if waits else found.loaded).add(topic)
                if len(found.loaded) + len(found.waiting) > NAMES_MOST * len(brokers):
                    raise BrokerFailed(
                        f"the metrics of {broker} name more topics than a broker has"
                    )
    return found


def topics_in(lines: bytes) -> Iterator[tuple[str, bool]]:
    """Each loaded topic (False), and each where messages wait (True)."""
    for match in LINES.finditer(lines):
        loaded, of_loaded, waiting, of_waiting = match.groups()
        topic = (waiting if loaded is None else loaded).decode("utf-8", "replace")
        partition = of_waiting if loaded is None else of_loaded
        yield topic if partition is None else f"{topic}-partition-{int(partition)}", loaded is None
