"""Reads the statistics of segments, which a broker reports only for all its topics together.

Pulsar 5.0.0-M1 has no request for the statistics of one segment. What it has: the list of loaded
topics (broker-stats/topics), with every consumer, renewed once a minute; and the metrics, which are
of this moment and know a subscription's counters and moments, but none of a consumer. Both are read
for all segments at once and kept for a few seconds, so that eight segments cost what one costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pulsar_doctor.broker.admin.http import Http, RestAnswer, clock_ms, reading
from pulsar_doctor.broker.admin.live_metrics import require_live
from pulsar_doctor.broker.admin.refusals import NotFound
from pulsar_doctor.broker.admin.segment_numbers import ListedStats, composed, numbers_in
from pulsar_doctor.ledger.consumers import split_segment

NOW_SECONDS = 4.5  # what was read so lately is not read again
LIST_SECONDS = 20.0  # so for the list, which a broker renews once a minute
RENEWED_SECONDS = 60  # statsUpdateFrequencyInSecs, where the broker does not report it
LATE_SECONDS = 10  # that a renewal may take, and a clock be off

Loaded = Callable[[str], AsyncGenerator[Any, None]]
Configuration = Callable[[], Awaitable[Mapping[str, Any]]]


@dataclass(slots=True)
class SegmentReader:
    """Statistics of segments, of all brokers. Changes in place."""

    http: Http
    loaded: Loaded  # topics that a broker has loaded
    configuration: Configuration  # of the broker that answers
    _lists: dict[str, ListedStats] = field(default_factory=dict)  # by segment
    _answers: dict[str, RestAnswer] = field(default_factory=dict)
    _seen_at: dict[str, float] = field(default_factory=dict)
    _listed_at: float | None = None
    _read_at: float | None = None
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def answer(self, segment: str) -> RestAnswer:
        """Its statistics, as those of a topic would be written. Raises AdminError."""
        async with self._reading:
            now = asyncio.get_running_loop().time()
            if self._read_at is None or now - self._read_at >= NOW_SECONDS:
                await self._read(now)
                self._read_at = now
        if segment not in self._answers:
            raise NotFound(
                f"no broker has loaded {segment}: nobody uses it, and to ask for its statistics "
                "would not load it"
            )
        return self._answers[segment]

    def loaded_for(self, topic: str) -> dict[str, float]:
        """The loaded segments of a scalable topic, and for how many seconds each has been seen."""
        seen = self._seen_at.items()
        return {
            name: (self._read_at or at) - at for name, at in seen if split_segment(name)[0] == topic
        }

    async def _read(self, now: float) -> None:
        configuration = await self.configuration()
        require_live(configuration)
        brokers = await self.http.brokers()
        if self._listed_at is None or now - self._listed_at >= LIST_SECONDS:
            lists = await asyncio.gather(*map(self._list, brokers))
            self._lists = {name: given for each in lists for name, given in each.items()}
            self._listed_at = now
        renewed = configuration.get("statsUpdateFrequencyInSecs", RENEWED_SECONDS)
        old_ms = 1000 * (int(renewed) + LATE_SECONDS)
        read = await asyncio.gather(*(self._numbers(broker, old_ms) for broker in brokers))
        self._answers = {name: answer for each in read for name, answer in each.items()}
        self._seen_at = {name: self._seen_at.get(name, now) for name in self._answers}

    async def _list(self, broker: str) -> dict[str, ListedStats]:
        return {
            each.topic: ListedStats(each.stats, each.broker_clock_ms)
            async for each in self.loaded(broker)
            if each.topic.startswith("segment://")
        }

    async def _numbers(self, broker: str, old_ms: int) -> dict[str, RestAnswer]:
        """What one broker reports now; of segments that it has loaded."""
        what = "the metrics"
        async with self.http.stream("/metrics/", what, broker=broker) as stream:
            clock, url = clock_ms(stream.response), stream.response.url
            found = await reading(numbers_in(stream.lines()), url, what)
        return {
            segment: RestAnswer(composed(numbers, self._lists.get(segment), clock, old_ms), clock)
            for segment, numbers in found.items()
        }
