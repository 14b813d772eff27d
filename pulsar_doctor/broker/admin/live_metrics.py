"""Whether a broker's metrics have every loaded topic as it is now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulsar_doctor.broker.admin.refusals import BrokerFailed

LIVE = {"exposeTopicLevelMetricsInPrometheus": "true", "metricsBufferResponse": "false"}
NEWER = frozenset({"metricsBufferResponse"})  # a broker that does not know this one buffers nothing


class NotLive(BrokerFailed):
    """By a setting of the broker its metrics leave out topics, or are not of this moment."""


def require_live(configuration: Mapping[str, Any]) -> None:
    """Raises NotLive where metrics do not tell every loaded topic as it is now."""
    for name, wanted in LIVE.items():
        given = configuration.get(name, wanted if configuration and name in NEWER else None)
        if str(given).lower() != wanted:
            raise NotLive(f"the broker's {name} is {'not reported' if given is None else given}")
