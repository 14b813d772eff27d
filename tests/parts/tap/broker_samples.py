"""Asks a broker for the permits of a topic's consumers beside a tap, and cross-checks its trace.

A FLOW passes the tap before it reaches the broker, a MESSAGE after it has left, each by at most
MARGIN_NS. So a sample is held against all that the broker can have had between the question and its
answer. Where FLOWs may have been parked the ledger is an upper bound.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import httpx2

from pulsar_doctor.broker.stats.reading import topic_stats
from pulsar_doctor.broker.stats.topic import ConsumerStats
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import Row
from tests.support.looking import Looking

MARGIN_NS = 200_000_000  # on the way between tap and broker
# Nothing moved; it can have been; nothing can be said; the broker cannot have had so many.
Outcome = Literal["agreed", "inside", "skipped", "parted"]


@dataclass(frozen=True, slots=True)
class Sample:
    """Between which moments, by the monotonic clock, the broker said this of a consumer."""

    consumer: ConsumerStats
    from_ns: int
    until_ns: int


@dataclass(slots=True)
class Tapped:
    """What the ledger of one consumer did: moments, and by how many permits. Changes in place."""

    began_ns: int
    permits: int = 0
    unacked_most: int = 0
    moves: list[tuple[int, int]] = field(default_factory=list)

    def add(self, row: Row) -> None:
        now = self.permits if row.available_permits is None else row.available_permits
        self.unacked_most = max(self.unacked_most, row.unacked_messages or 0)
        if now != self.permits:
            self.moves.append((row.mono_ns, now - self.permits))
        self.permits = now

    def says(self, sample: Sample, limit: int | None) -> Outcome:
        """limit: of unacknowledged messages, 0 for none, None where that is not known."""
        first, last = sample.from_ns - MARGIN_NS, sample.until_ns + MARGIN_NS
        if self.began_ns > first:
            return "skipped"
        known = [(at, change) for at, change in self.moves if at <= last]
        within = [(at, change) for at, change in known if at >= first]
        before = sum(change for _, change in known) - sum(change for _, change in within)
        # All messages by then and no FLOW since; or all FLOWs by then, and no message.
        least = before + sum(change for _, change in within if change < 0)
        gone = [(at, change) for at, change in within if at <= sample.until_ns]
        most = before + sum(n for at, n in gone if n > 0 or at < sample.from_ns)
        permits = sample.consumer.available_permits or 0
        if least <= permits <= most:
            return "inside" if within else "agreed"
        coming = any(n < 0 and at >= sample.until_ns for at, n in within)
        return "skipped" if permits < least and (coming or self.parks(sample, limit)) else "parted"

    def parks(self, sample: Sample, limit: int | None) -> bool:
        """Acks on their way make the broker's number larger: only half of the limit is trusted."""
        most = max(self.unacked_most, sample.consumer.unacked_messages or 0)
        blocked = sample.consumer.blocked_consumer_on_unacked_msgs
        return bool(blocked) or limit is None or (limit > 0 and 2 * most >= limit)


class BrokerSamples(Looking):
    """One sample a second of each consumer. unacked_limit: of a consumer, as in Tapped.says."""

    def __init__(self, admin_url: str, topic: str, unacked_limit: int | None = None) -> None:
        super().__init__(1.0)
        self._url = f"{admin_url}/admin/v2/{topic.replace('://', '/')}/stats"
        self._limit = unacked_limit
        self.samples: list[Sample] = []

    def look(self) -> None:
        from_ns = time.monotonic_ns()
        answer = httpx2.get(self._url, timeout=30, trust_env=False)
        until_ns = time.monotonic_ns()
        if answer.status_code == httpx2.codes.OK:
            for subscription in (topic_stats(answer.json()).subscriptions or {}).values():
                told = subscription.consumers or ()
                self.samples += [Sample(each, from_ns, until_ns) for each in told]
        super().look()

    def held_against(self, trace: Path) -> list[tuple[Outcome, str | None, int | None]]:
        """What each says of a sealed trace of the same time: its consumer, and their permits."""
        timeline, due, said = Timeline("cross-check"), deque(self.samples), []
        tapped: dict[str | None, Tapped] = {}
        for row in open_trace(trace).rows():
            while due and row.mono_ns > due[0].until_ns + MARGIN_NS:
                sample = due.popleft()
                name = sample.consumer.consumer_name
                living = {each.consumer_name for each in timeline.living}
                if name in living and name in tapped:
                    outcome = tapped[name].says(sample, self._limit)
                    said.append((outcome, name, sample.consumer.available_permits))
            done = timeline.apply(row)
            if done.command == "SUBSCRIBE":
                tapped[done.consumer_name] = Tapped(done.mono_ns)
            if done.consumer_name in tapped:
                tapped[done.consumer_name].add(done)
        return said


def lasting(
    said: Sequence[tuple[Outcome, str | None, int | None]],
) -> list[tuple[Outcome, str | None, int | None]]:
    """Those that have parted in two samples in a row; one may be a matter of the moment."""
    before: dict[str | None, Outcome] = {}
    found = []
    for each in said:
        outcome, name, _ = each
        if outcome == before.get(name) == "parted":
            found.append(each)
        before[name] = outcome
    return found
