"""The text that a broker would have scraped from it, made from the statistics of a topic.

tests/broker/test_metrics.py holds it against what a real broker wrote at the same moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulsar_doctor.broker.stats import metrics
from pulsar_doctor.broker.stats.metrics import COUNT


def metrics_of(topics: Mapping[str, Any], *, consumers: bool = False) -> str:
    """As 4.0.8 writes them. consumers: exposeConsumerLevelMetricsInPrometheus."""
    rows = [row for topic, stats in topics.items() for row in _rows(topic, stats, consumers)]
    rows.sort(key=lambda row: row.partition("{")[0])  # a name together, of all topics
    return "".join(rows)


def _rows(topic: str, stats: Any, consumers: bool) -> Iterator[str]:
    at = f'cluster="standalone",namespace="public/default",topic="{_escaped(topic)}"'
    subscriptions = stats.get("subscriptions", {})
    yield from _lines(metrics.OF_TOPIC, stats, at, len(subscriptions))
    for name, each in subscriptions.items():
        of = f'{at},subscription="{_escaped(name)}"'
        yield from _lines(metrics.OF_SUBSCRIPTION, each, of, len(each["consumers"]))
        for number, one in enumerate(each["consumers"] if consumers else ()):
            label = f'{of},consumer_name="{_escaped(one["consumerName"])}",consumer_id="{number}"'
            yield from _lines(metrics.OF_CONSUMER, one, label, 0)


def _lines(table: Mapping[str, str], stats: Any, labels: str, count: int) -> Iterator[str]:
    for name, key in table.items():
        series, _, reason = name.partition("/")
        value = count if key == COUNT else stats.get(key)
        if value is None and key == "unackedMessages":
            value = 0
        if value is not None:
            more = f'{labels},reason="{reason}"' if reason else labels
            yield f"pulsar_{series}{{{more}}} {int(value) if type(value) is bool else value}\n"


def _escaped(name: str) -> str:
    return name.replace('"', '\\"')
