"""Stats as brokers wrote them: tests/stats/VERSION-SCENARIO.json, and made-up ones named so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pulsar_doctor.broker.stats.reading import internal_stats, topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats
from pulsar_doctor.broker.stats.window import Window

FOLDER = Path(__file__).parents[1] / "stats"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def recording(name: str) -> dict[str, Any]:
    """version, made_up, kind (topic, partitioned), scenario, samples (date_ms, stats, internal)."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def stats_of(name: str, at: int = -1) -> Any:
    return recording(name)["samples"][at]["stats"]


def internal_of(name: str, at: int = -1) -> Any:
    return recording(name)["samples"][at]["internal"]


def subscription_of(name: str, at: int = -1) -> SubscriptionStats:
    """The only subscription of a recording."""
    (found,) = (topic_stats(stats_of(name, at)).subscriptions or {}).values()
    return found


def consumer_of(name: str, number: int = 0, at: int = -1) -> ConsumerStats:
    return (subscription_of(name, at).consumers or ())[number]


def sample_of(document: Any) -> Sample:
    return Sample(
        document["date_ms"], topic_stats(document["stats"]), internal_stats(document["internal"])
    )


def window_of(*names: str) -> Window:
    """The samples of recordings, one after the other."""
    return Window(tuple(sample_of(each) for name in names for each in recording(name)["samples"]))
