"""Asks a broker for the permits of a topic's consumers beside a tap, and cross-checks its trace."""

from __future__ import annotations

import time
from pathlib import Path

import httpx2

from pulsar_doctor.broker.stats.reading import topic_stats
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.trace.sealing import open_trace
from tests.parts.tap.comparison import Comparison, ConsumerSample, Parted
from tests.parts.tap.passing import MARGIN_NS
from tests.support.looking import Looking


class BrokerSamples(Looking):
    """One sample a second. unacked_limit: of a consumer, as in ConsumerSample."""

    def __init__(self, admin_url: str, topic: str, unacked_limit: int | None = None) -> None:
        super().__init__(1.0)
        self._url = f"{admin_url}/admin/v2/{topic.replace('://', '/')}/stats"
        self._topic, self._limit = topic, unacked_limit
        self.rounds: list[list[ConsumerSample]] = []

    def look(self) -> None:
        from_ns = time.monotonic_ns()
        answer = httpx2.get(self._url, timeout=30, trust_env=False)
        until_ns = time.monotonic_ns()
        if answer.status_code == httpx2.codes.OK:
            self.rounds.append(self._samples(answer.json(), from_ns, until_ns))
        super().look()

    def _samples(self, document: object, from_ns: int, until_ns: int) -> list[ConsumerSample]:
        return [
            ConsumerSample(
                topic=self._topic,
                subscription=name,
                consumer_name=consumer.consumer_name or "",
                available_permits=consumer.available_permits,
                unacked_messages=consumer.unacked_messages,
                blocked=consumer.blocked_consumer_on_unacked_msgs,
                unacked_limit=self._limit,
                from_ns=from_ns,
                until_ns=until_ns,
            )
            for name, subscription in (topic_stats(document).subscriptions or {}).items()
            for consumer in subscription.consumers or ()
            if consumer.available_permits is not None
        ]

    def held_against(self, trace: Path) -> tuple[Comparison, list[Parted]]:
        """What all samples say of a sealed trace of the same time."""
        timeline, comparison = Timeline("cross-check"), Comparison()
        partings: list[Parted] = []
        due = iter([*self.rounds, None])
        samples = next(due)
        for row in open_trace(trace).rows():
            while samples is not None and (
                not samples or row.mono_ns > samples[0].until_ns + MARGIN_NS
            ):
                partings += comparison.compare(timeline, samples)
                samples = next(due)
            comparison.add(timeline.apply(row))
        return comparison, partings
