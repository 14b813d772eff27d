"""Reads the statistics of segments, which a broker reports only for all its topics together.

Pulsar 5.0.0-M1 has no request for the statistics of one segment. What it has: the list of loaded
topics (broker-stats/topics), with every consumer, renewed once a minute; and the metrics, which are
of this moment and know a subscription's counters and moments, but none of a consumer. Both are read
for all segments at once and kept for a few seconds, so that eight segments cost what one costs.

Both are combined to the statistics of a segment. The numbers of a subscription are of this moment,
and its moments too. Those of a consumer are up to a minute older. Permits and unacknowledged
messages of a consumer change only where the subscription asks, is sent, or acknowledges; where the
last of these is older than the list can be, they still hold, and otherwise they are not reported.
Where a subscription has one consumer, its moments are that consumer's.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from pulsar_doctor.broker.admin.http import Http, RestAnswer, clock_ms, reading
from pulsar_doctor.broker.admin.live_metrics import require_live
from pulsar_doctor.broker.admin.refusals import NotFound
from pulsar_doctor.broker.bodies import NAMES_MOST, TooMany
from pulsar_doctor.broker.stats.fields import ROOT, Fields, as_object
from pulsar_doctor.broker.stats.metrics import COUNT, MOMENTS, MetricsReader, Reported
from pulsar_doctor.broker.stats.values import epoch_ms
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.ledger.acks.persisting import number_of
from pulsar_doctor.ledger.topics import split_segment

NOW_SECONDS = 4.5  # what was read so lately is not read again
LIST_SECONDS = 20.0  # so for the list, which a broker renews once a minute
RENEWED_SECONDS = 60  # statsUpdateFrequencyInSecs, where the broker does not report it
LATE_SECONDS = 10  # that a renewal may take, and a clock be off

T = TypeVar("T")
Loaded = Callable[[str], AsyncGenerator[Any, None]]
Configuration = Callable[[], Awaitable[Mapping[str, Any]]]
SEGMENT = re.compile(r"segment://[^\n]*/[0-9a-f]{1,8}-[0-9a-f]{1,8}-[0-9]{1,18}")
OF_TOPIC = ("publishers", "msgRateIn")
OF_LIST = ("type", "messageAckRate", "msgRateOut", "msgRateRedeliver")
CHANGING = ("availablePermits", "unackedMessages", "blockedConsumerOnUnackedMsgs")

# Of each subscription, by the names of a topic's statistics.
CountsByName = dict[str, Reported]


@dataclass(slots=True)
class SegmentReader:
    """Statistics of segments, of all brokers. Changes in place."""

    http: Http
    loaded: Loaded  # topics that a broker has loaded
    configuration: Configuration  # of the broker that answers
    _lists: dict[str, RestAnswer] = field(default_factory=dict)  # by segment
    _unlisted: dict[str, DoctorError] = field(default_factory=dict)  # by broker: why
    _answers: dict[str, RestAnswer | DoctorError] = field(default_factory=dict)
    _failure: DoctorError | None = None  # why a broker was not read
    _seen_at: dict[str, float] = field(default_factory=dict)
    _listed_at: float | None = None
    _read_at: float | None = None
    _ended_at: float = -math.inf
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def answer(self, segment: str) -> RestAnswer:
        """The segment's statistics, as of a topic. Raises AdminError, InputError."""
        clock = asyncio.get_running_loop().time
        asked_at = clock()
        async with self._reading:
            new = self._read_at is not None and clock() - self._read_at < NOW_SECONDS
            if not new and self._ended_at < asked_at:  # one that ended since is new enough, too
                await self._read(clock())
                self._ended_at = clock()
        answer = self._answers.get(segment, self._failure)
        if answer is None:
            raise NotFound(
                f"no broker has loaded {segment}: nobody uses it, and to ask for its statistics "
                "would not load it"
            )
        if isinstance(answer, DoctorError):
            raise answer
        return answer

    def loaded_for(self, topic: str) -> dict[str, float]:
        """The loaded segments of a scalable topic, and for how many seconds each has been seen."""
        seen = self._seen_at.items()
        return {
            name: (self._read_at or at) - at for name, at in seen if split_segment(name)[0] == topic
        }

    async def _read(self, now: float) -> None:
        """A broker that cannot be read leaves the segments of the others as they are."""
        self._read_at, self._answers = now, {}
        try:
            configuration = await self.configuration()
            require_live(configuration)
            brokers = await self.http.brokers()
            if self._listed_at is None or now - self._listed_at >= LIST_SECONDS:
                lists, self._unlisted = await _of_each(brokers, self._list)
                self._lists = {name: given for each in lists for name, given in each.items()}
                self._listed_at = now
        except DoctorError as error:
            self._failure = error
            return
        renewed = number_of(configuration.get("statsUpdateFrequencyInSecs"))
        seconds = renewed if renewed is not None and renewed >= 0 else RENEWED_SECONDS
        listed = [broker for broker in brokers if broker not in self._unlisted]
        numbers = partial(self._numbers, old_ms=1000 * (seconds + LATE_SECONDS))
        read, unread = await _of_each(listed, numbers)
        self._answers = {name: answer for each in read for name, answer in each.items()}
        self._failure = next(iter((*self._unlisted.values(), *unread.values())), None)
        self._seen_at = {name: self._seen_at.get(name, now) for name in self._answers}

    async def _list(self, broker: str) -> dict[str, RestAnswer]:
        return {
            each.topic: RestAnswer(each.stats, each.broker_clock_ms)
            async for each in self.loaded(broker)
            if each.topic.startswith("segment://")
        }

    async def _numbers(self, broker: str, old_ms: int) -> dict[str, RestAnswer | DoctorError]:
        """What one broker reports now; of segments that it has loaded."""
        what = "the metrics"
        async with self.http.stream("/metrics/", what, broker=broker) as stream:
            clock, url = clock_ms(stream.response), stream.response.url
            found = await reading(numbers_in(stream.lines()), url, what)
        return {
            segment: self._composed(segment, numbers, clock, old_ms)
            for segment, numbers in found.items()
        }

    def _composed(
        self, segment: str, numbers: CountsByName, clock: int | None, old_ms: int
    ) -> RestAnswer | DoctorError:
        try:
            listed = self._lists.get(segment)
            return RestAnswer(composed(numbers, listed, clock, old_ms), clock)
        except DoctorError as error:
            return error


async def _of_each(
    brokers: Sequence[str], ask: Callable[[str], Awaitable[T]]
) -> tuple[list[T], dict[str, DoctorError]]:
    """What brokers answer, and why others do not."""

    async def one(broker: str) -> T | DoctorError:
        try:
            return await ask(broker)
        except DoctorError as error:
            return error

    answers = await asyncio.gather(*map(one, brokers))
    failed = {
        b: each for b, each in zip(brokers, answers, strict=True) if isinstance(each, DoctorError)
    }
    return [each for each in answers if not isinstance(each, DoctorError)], failed


async def numbers_in(pieces: AsyncIterator[bytes]) -> dict[str, CountsByName]:
    """The numbers of each loaded segment; of whole lines, many at once."""
    reader = MetricsReader(only=b'topic="segment://')
    async for lines in pieces:
        reader.feed(lines)
        if reader.names > NAMES_MOST:
            raise TooMany(NAMES_MOST, "subscriptions of segments")
    return {
        segment: {
            place.subscription: values
            for place, values in places.items()
            if place.subscription is not None and place.consumer is None
        }
        for segment, places in reader.scrapes[-1].items()
        if SEGMENT.fullmatch(segment)
    }


def composed(
    numbers: CountsByName, listed: RestAnswer | None, now_ms: int | None, old_ms: int
) -> dict[str, Any]:
    """A document as the statistics of a topic are. old_ms: how old what the list tells may be.

    Raises InputError where a number or a field is not what it should be.
    """
    stats = Fields({} if listed is None else as_object(listed.document, ROOT))
    listed_of, since_ms = stats.by_name("subscriptions", lambda each: each) or {}, None
    if listed is not None and listed.broker_clock_ms is not None:
        since_ms = listed.broker_clock_ms - old_ms
    subscriptions = {
        name: _subscription(_whole(name, values), listed_of.get(name) or Fields({}), since_ms)
        for name, values in numbers.items()
    }
    given = {name: stats.document[name] for name in OF_TOPIC if name in stats.document}
    return {"publishers": [], **given, "subscriptions": subscriptions}


def _whole(subscription: str, values: Mapping[str, Any]) -> Mapping[str, int]:
    reported = Fields(values, Fields({}, "the metrics of").where(subscription))
    known = (name for name in values if "Rate" not in name)  # rates are those of the list
    return {name: number for name in known if (number := reported.whole(name)) is not None}


def _subscription(
    values: Mapping[str, int], listed: Fields, since_ms: int | None
) -> dict[str, Any]:
    """since_ms: the list tells nothing that is older."""
    written = {name: listed.document[name] for name in OF_LIST if name in listed.document}
    written |= {name: value for name, value in values.items() if name != COUNT}
    blocked = "blockedSubscriptionOnUnackedMsgs"
    written[blocked] = bool(values.get(blocked))
    if "unackedMessages" not in listed.document and values.get(COUNT):
        written.pop("unackedMessages", None)  # Exclusive and Failover: a 0 that counts nothing
    each = listed.each("consumers", lambda one: one) or ()
    if values.get(COUNT) == len(each):
        still = since_ms is not None and all(values.get(name, 0) < since_ms for name in MOMENTS)
        written["consumers"] = list(_consumers(each, written, still=still))
    return written


def _consumers(
    listed: Sequence[Fields], subscription: Mapping[str, Any], *, still: bool
) -> Iterator[dict[str, Any]]:
    """still: nothing of what they have changed since the list was renewed."""
    for each in listed:
        document = each.document
        written = {name: document[name] for name in document if still or name not in CHANGING}
        if len(listed) == 1:
            since_ms = epoch_ms(each.text("connectedSince")) or 0
            moments = {name: subscription.get(name, 0) for name in MOMENTS}
            written |= {name: ms if ms >= since_ms else 0 for name, ms in moments.items()}
            if "unackedMessages" in document and "unackedMessages" in subscription:
                written["unackedMessages"] = subscription["unackedMessages"]
        yield written
