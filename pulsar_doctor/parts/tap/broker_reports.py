"""The broker's statistics of the topics on a tap, joined with what the wire shows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pulsar_doctor.broker.stats.observed import ClusterLimits, Observed
from pulsar_doctor.broker.stats.reading import topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.errors import InputError
from pulsar_doctor.evidence import by_stats, by_wire
from pulsar_doctor.evidence.merge import merged
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.ledger.consumers import Subscription

SAMPLES_KEPT = 11  # of each topic, about a second apart
STALE_MS = 30_000  # by then the wire knows better


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """What the broker reported about one topic."""

    topic: str
    taken_ms: int | None  # by its clock; None: it sent no Date
    stats: str  # its JSON, without what users attach
    unacked_limit: int | None = None  # of a consumer; None: not known


class BrokerReports:
    """The newest answers of each topic. Changed by `hear`, which another thread may call."""

    def __init__(self) -> None:
        self._samples: dict[str, tuple[Sample, ...]] = {}
        self._limits: dict[str, ClusterLimits] = {}

    def hear(self, answers: Iterable[BrokerAnswer]) -> None:
        """New answers; one that is no stats of a topic, or is older than the last, is left out."""
        for answer in answers:
            try:
                sample = Sample(answer.taken_ms, topic_stats(json.loads(answer.stats)))
            except (InputError, ValueError):
                continue
            kept = self._samples.get(answer.topic, ())
            if kept and (sample.now_ms or 0) < (kept[-1].now_ms or 0):
                continue
            self._limits[answer.topic] = ClusterLimits(answer.unacked_limit)
            self._samples[answer.topic] = (*kept, sample)[-SAMPLES_KEPT:]

    def beside(self, wire: Subscription) -> SubscriptionView:
        """What is known of it from the wire, and from the broker where that was read lately."""
        view, name = by_wire.subscription_view(wire), wire.full_topic
        samples = self._samples.get(name, ())
        if wire.is_over:
            samples = _before_its_end(samples, wire)
        if not samples or abs(wire.now_us // 1000 - (samples[-1].now_ms or 0)) > STALE_MS:
            return view
        if samples[-1].subscription(wire.subscription) is None:
            return view
        observed = Observed(
            wire.topic,
            wire.partition,
            wire.subscription,
            Window(samples),
            self._limits[name],
        )
        return merged(by_stats.subscription_view(observed), view)


def _before_its_end(samples: tuple[Sample, ...], wire: Subscription) -> tuple[Sample, ...]:
    """Up to the last that still lists all who were shut down: what came later is another state."""
    those = {consumer.consumer_name for consumer in wire.consumers}
    fits = [those <= _listed(sample, wire.subscription) for sample in samples]
    return samples[: max((at for at, each in enumerate(fits, 1) if each), default=0)]


def _listed(sample: Sample, subscription: str) -> set[str | None]:
    found = sample.subscription(subscription)
    return {consumer.consumer_name for consumer in (found and found.consumers) or ()}
