"""Verdicts as metrics: totals of all, and series of each subscription that is not healthy.

A cluster has tens of thousands of subscriptions, and a monitoring system pays for each series: a
healthy one has none unless it was named, and all together are capped. How many subscriptions the
cap leaves out is a series, too. Labels are names of topics and subscriptions, and words of ours: no
consumer and no address.

OpenMetrics with gauges alone, which readers of Prometheus' older text format understand as well.
https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from pulsar_doctor.checkup.result import STATUSES, Checkup
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.errors import needing
from pulsar_doctor.evidence.values import least
from pulsar_doctor.ledger.topics import split_partition, split_segment
from pulsar_doctor.report.documents import fields

with needing("metrics", "OpenMetrics"):
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.openmetrics.exposition import generate_latest

SERIES_MOST = 2_000
TOTALS_MOST = 500  # of these series; the namespaces beyond are counted together
LABEL_MOST = 400  # characters
OTHERS = "(others)"  # the namespaces beyond
NAMES = ("namespace", "topic", "subscription")
PREFIX = "pulsar_doctor_"

LabelValues = tuple[str, ...]  # of labels
Series = Iterator[tuple[LabelValues, float | None]]  # None: not reported, so there is no series
MetricSample = tuple[str, LabelValues, float]
Rank = tuple[str, int]  # "true" where it is suppressed, the place of the status: worst first
Total = tuple[Rank, str, str]  # with namespace and cause


def _suppressed(of: Diagnosis) -> str:
    """A label that is empty is none."""
    return "true" if of.suppressed else ""


def _status(of: Diagnosis) -> Series:
    yield (of.status, _suppressed(of)), 1


def _findings(of: Diagnosis) -> Series:
    """Several consumers may share a cause, which is one series."""
    found = (each for each in of.findings if each.severity != "info")
    causes = ((each.code, each.severity, _suppressed(of)) for each in found)
    yield from ((cause, 1) for cause in dict.fromkeys(causes))


def _suspect(of: Diagnosis) -> Series:
    """That nothing is wrong is no suspect here: it would raise an alert."""
    first = of.likeliest if of.status == "unknown" else None
    if first is not None:
        yield (first.code,), first.probability


def _limits(of: Diagnosis) -> Series:
    yield from (((each.limit,), each.seconds) for each in of.deadlines)


def _places(of: Diagnosis) -> Series:
    """Where a verdict counts; several consumers are one series."""
    entries = Counter[str]()
    for each in of.account.places if of.account else ():
        entries[each.name] += least(each.entries) or 0
    yield from (((name,), count or None) for name, count in entries.items())


def _rest(of: Diagnosis) -> float | None:
    places = of.account.places if of.account else ()
    return max((each.rest.least for each in places if each.rest), default=None)


NUMBERS = fields(  # one number each, by the end of the name
    "backlog_entries=backlog oldest_message_seconds next_flow_seconds=flow_seconds"
    " ranges=ranges.count ranges_limit=ranges.known_limit"
    " growth_messages_per_second=balance.growth.about rest_seconds",
    oldest_message_seconds=lambda of: None if (of.oldest_seconds or 0) < 0 else of.oldest_seconds,
    rest_seconds=_rest,
)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. All are gauges."""

    meaning: str
    labels: LabelValues = ()  # beside cluster, and NAMES where it is of a subscription
    series: Callable[[Diagnosis], Series] | None = None  # None: of the whole, or in NUMBERS


SINGLE = "subscription_"  # before the names of numbers
OF_SUBSCRIPTION = {
    "subscription_status": Metric("1 for the verdict on it.", ("status", "suppressed"), _status),
    "finding": Metric(
        "1 for each cause that was found; more: pulsar-doctor explain CAUSE.",
        ("cause", "severity", "suppressed"), _findings,
    ),
    "suspect_probability": Metric(
        "How likely the first cause of an unknown verdict is, from 0 to 1.", ("cause",), _suspect
    ),
    "subscription_backlog_entries": Metric("Entries in the backlog."),
    "subscription_oldest_message_seconds": Metric("Age of the oldest unacknowledged message."),
    "subscription_next_flow_seconds": Metric(
        "Until the last consumer that keeps a pace asks for more messages, at most."
    ),
    "subscription_ranges": Metric("Acknowledged ranges behind mark-delete."),
    "subscription_ranges_limit": Metric("How many ranges the broker keeps over a load."),
    "subscription_growth_messages_per_second": Metric("What comes in less what is newly sent."),
    "subscription_limit_seconds": Metric(
        "Until it reaches a limit at its present pace.", ("limit",), _limits
    ),
    "subscription_place_entries": Metric(
        "Where the entries of the backlog are, at least.", ("place",), _places
    ),
    "subscription_rest_seconds": Metric("For how long at least one of these has not moved."),
}  # fmt: skip
TOTALS = {
    "subscriptions": Metric(
        "Subscriptions by verdict and first cause, each partition apart.",
        ("namespace", "status", "cause", "suppressed"),
    ),
    "subscriptions_cut": Metric("Subscriptions without series: there are too many.", ("status",)),
    "topics_not_loaded": Metric("Topics that no broker has loaded, and that were not read."),
    "topics_unreachable": Metric("Topics that could not be read."),
    "checked_at_seconds": Metric(
        "When the last round began that read anything, in seconds since 1970."
    ),
}
METRICS = TOTALS | OF_SUBSCRIPTION


def _series(of: Diagnosis) -> Iterator[tuple[str, LabelValues, float]]:
    """The series of one subscription, each with its labels; none for a number not reported."""
    for name, metric in OF_SUBSCRIPTION.items():
        for values, value in metric.series(of) if metric.series else ():
            if value is not None:
                yield name, values, value
    yield from ((SINGLE + name, (), n) for name, n in NUMBERS(of).items() if n is not None)


class Metrics:
    """The metrics of one round. Changes in place; keeps numbers, no verdicts."""

    def __init__(self, *, named: bool, before: Metrics | None = None) -> None:
        """named: healthy subscriptions have series, too. before: the last round."""
        self._named = named
        self._totals = Counter[Total]()
        self._used = Counter[Rank]()  # series
        self._kept = defaultdict[Rank, dict[LabelValues, tuple[Total, list[MetricSample]]]](dict)
        those = before._kept.values() if before else ()
        self._before = {names: row for each in those for names, row in each.items()}
        # None: nothing was read up to now.
        self._read_at: datetime | None = before._read_at if before else None

    def through(self, diagnoses: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
        """The same verdicts, each counted as it passes."""
        for diagnosis in diagnoses:
            self.add(diagnosis)
            yield diagnosis

    def add(self, of: Diagnosis) -> None:
        """One more subscription."""
        names = _shown(_namespace(of)), _shown(of.full_topic), _shown(of.subscription)
        rank, cause = (_suppressed(of), STATUSES.index(of.status)), of.first_cause
        total = rank, names[0], _shown(cause[0]) if cause else ""
        self._totals[total] += 1
        self._before.pop(names, None)
        if self._used[rank] >= SERIES_MOST or (of.status == "healthy" and not self._named):
            return
        samples = [
            (name, (*names, *map(_shown, values)), value) for name, values, value in _series(of)
        ]
        self._used[rank] += len(samples)
        self._kept[rank].setdefault(names, (total, samples))

    def text(self, checkup: Checkup) -> str:
        """The whole page, once the checkup was read to its end."""
        if self._totals or not checkup.unreachable:
            self._read_at = checkup.checked_at
        self._keep_unread(checkup)
        cluster = _shown((checkup.cluster and checkup.cluster.name) or "")
        families = {
            name: GaugeMetricFamily(PREFIX + name, metric.meaning, labels=("cluster", *labels))
            for name, metric in METRICS.items()
            for labels in [(*(NAMES if name in OF_SUBSCRIPTION else ()), *metric.labels)]
        }
        for name, values, value in self._samples(checkup):
            families[name].add_metric([cluster, *values], round(value, 3))
        filled = [family for family in families.values() if family.samples]
        registry: Any = SimpleNamespace(collect=lambda: filled)
        return str(generate_latest(registry), "utf-8")

    def _keep_unread(self, checkup: Checkup) -> None:
        """A topic that could not be read keeps its series: without them an alert would end."""
        unread = {_whole(_shown(topic)) for topic, _ in checkup.unreachable}
        vague = any("://" not in each for each in unread)  # a namespace, a broker, or the rest
        for names, (total, samples) in self._before.items():
            if vague or _whole(names[1]) in unread:
                self._totals[total] += 1
                self._kept[total[0]][names] = total, samples
        self._before = {}

    def _samples(self, checkup: Checkup) -> Iterator[MetricSample]:
        totals = self._folded()
        for ((suppressed, status), namespace, cause), count in totals.items():
            yield "subscriptions", (namespace, STATUSES[status], cause, suppressed), count
        yield from self._within(SERIES_MOST - len(totals) - len(STATUSES) - len(TOTALS))
        yield "topics_not_loaded", (), len(checkup.not_loaded)
        yield "topics_unreachable", (), len(checkup.unreachable)
        if self._read_at is not None:
            yield "checked_at_seconds", (), self._read_at.timestamp()

    def _folded(self) -> Counter[Total]:
        """The totals, those of the worst verdicts first; their sum is that of all subscriptions."""
        ordered = sorted(self._totals.items())
        folded = Counter(dict(ordered[:TOTALS_MOST]))
        for (rank, _, cause), count in ordered[TOTALS_MOST:]:
            folded[rank, OTHERS, cause] += count
        return folded

    def _within(self, room: int) -> Iterator[MetricSample]:
        """The worst first, each subscription wholly or not at all; then how many are left out."""
        left_out = Counter[str]()
        for rank in sorted({rank for rank, *_ in self._totals}):
            for _, samples in self._kept[rank].values():
                if len(samples) > room:
                    break
                room -= len(samples)
                left_out[STATUSES[rank[1]]] -= 1
                yield from samples
        for ((_, status), *_), count in self._totals.items():
            if STATUSES[status] != "healthy" or self._named:
                left_out[STATUSES[status]] += count
        yield from (("subscriptions_cut", (each,), n) for each, n in left_out.items() if n)


def _whole(topic: str) -> str:
    return split_segment(split_partition(topic)[0])[0]


def _namespace(of: Diagnosis) -> str:
    """`tenant/namespace`; nothing where a file does not name its topic wholly."""
    return "/".join(of.whole.partition("://")[2].split("/", 3)[:-1])


def _shown(text: str) -> str:
    """What does not print is its number: labels that differ must not become one."""
    kept = (char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in text)
    return "".join(kept)[:LABEL_MOST]
