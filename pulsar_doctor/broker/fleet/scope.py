"""Which namespaces were requested, and whether Pulsar's own topics are included."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pulsar_doctor.broker.admin import TopicName

SYSTEM_NAMESPACE = "pulsar/system"
# A broker's own health check lies in pulsar/CLUSTER/HOST:PORT or pulsar/HOST:PORT.
HEARTBEAT = re.compile(r"pulsar/([^/]+/)?[^/]+:\d+/.+")
PENDING_ACKS = "__transaction_pending_ack"


@dataclass(frozen=True, slots=True)
class Scope:
    """Which topics of a cluster are read."""

    namespaces: tuple[str, ...] = ()  # empty: all that these credentials can list
    system: bool = False  # the broker's own topics too
    load: bool = False  # read topics that no broker has loaded, which loads them

    def includes(self, name: TopicName) -> bool:
        """Whether this topic is meant, if its namespace is."""
        return self.system or not is_system(name)


def is_system(name: TopicName) -> bool:
    """Whether the broker keeps this topic for itself.

    Source: SystemTopicNames and NamespaceService of Pulsar; all that begin with two underscores.
    """
    local = name.of_all_partitions.local
    return (
        local.startswith("__")
        or local.endswith(PENDING_ACKS)
        or name.namespace == SYSTEM_NAMESPACE
        or HEARTBEAT.fullmatch(f"{name.namespace}/{name.local}") is not None
    )
