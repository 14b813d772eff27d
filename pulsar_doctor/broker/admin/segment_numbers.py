"""Combines a broker's metrics and its list of loaded topics to the statistics of a segment.

The numbers of a subscription are of this moment, and its moments too. Those of a consumer are up to
a minute older. Permits and unacknowledged messages of a consumer change only where the subscription
asks, is sent, or acknowledges; where the last of these is older than the list can be, they still
hold, and otherwise they are not reported. Where a subscription has one consumer, its moments are
that consumer's.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulsar_doctor.broker.bodies import NAMES_MOST, TooMany
from pulsar_doctor.broker.stats.fields import ROOT, Fields, as_object
from pulsar_doctor.broker.stats.metrics import COUNT, MOMENTS, MetricsReader, Reported
from pulsar_doctor.broker.stats.values import epoch_ms

SEGMENT = re.compile(r"segment://[^\n]*/[0-9a-f]{1,8}-[0-9a-f]{1,8}-[0-9]{1,18}")
OF_TOPIC = ("publishers", "msgRateIn")
OF_LIST = ("type", "messageAckRate", "msgRateOut", "msgRateRedeliver")
CHANGING = ("availablePermits", "unackedMessages", "blockedConsumerOnUnackedMsgs")

# Of each subscription, by the names of a topic's statistics.
CountsByName = dict[str, Reported]


@dataclass(frozen=True, slots=True)
class ListedStats:
    """What the list reports about a segment."""

    stats: Any
    read_ms: int | None  # when the list was read, by the broker's clock


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
    numbers: CountsByName, listed: ListedStats | None, now_ms: int | None, old_ms: int
) -> dict[str, Any]:
    """A document as the statistics of a topic are. old_ms: how old what the list tells may be.

    Raises InputError where a number or a field is not what it should be.
    """
    stats = Fields({} if listed is None else as_object(listed.stats, ROOT))
    listed_of, since_ms = stats.by_name("subscriptions", lambda each: each) or {}, None
    if listed is not None and listed.read_ms is not None:
        since_ms = listed.read_ms - old_ms
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
