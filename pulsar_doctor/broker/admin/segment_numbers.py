"""Combines a broker's metrics and its list of loaded topics to the statistics of a segment.

The numbers of a subscription are of this moment, and its moments too. Those of a consumer are up to
a minute older. Permits and unacknowledged messages of a consumer change only where the subscription
asks, is sent, or acknowledges; where the last of these is older than the list can be, they still
hold, and otherwise they are not reported. Where a subscription has one consumer, its moments are
that consumer's.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pulsar_doctor.broker.bodies import NAMES_MOST, TooMany
from pulsar_doctor.broker.stats.values import epoch_ms

MOMENTS = ("lastConsumedTimestamp", "lastAckedTimestamp", "lastConsumedFlowTimestamp")
FIELDS = {
    "subscription_back_log": "msgBacklog",
    "subscription_delayed": "msgDelayed",
    "subscription_in_replay": "msgInReplay",
    "subscription_unacked_messages": "unackedMessages",
    "subscription_blocked_on_unacked_messages": "blockedSubscriptionOnUnackedMsgs",
    "subscription_consumers_count": "consumers",
    "subscription_last_consumed_timestamp": MOMENTS[0],
    "subscription_last_acked_timestamp": MOMENTS[1],
    "subscription_last_consumed_flow_timestamp": MOMENTS[2],
    "subscription_last_mark_delete_advanced_timestamp": "lastMarkDeleteAdvancedTimestamp",
    "subscription_last_expire_timestamp": "lastExpireTimestamp",
    "subscription_total_msg_expired": "totalMsgExpired",
    "subscription_filter_rescheduled_msg_count": "filterRescheduledMsgCount",
    "out_messages_total": "msgOutCounter",
}
TOPIC_LINE = "subscriptions_count"  # one of each loaded topic
LINE = re.compile(
    (
        rf"\npulsar_({'|'.join((*FIELDS, TOPIC_LINE))})"
        r'\{[^\n]*?topic="(segment://[^"\n]*)"(?:,subscription="((?:[^"\\\n]|\\.)*)")?\} (\S+)'
    ).encode()
)
OF_TOPIC = ("publishers", "msgRateIn")
OF_LIST = ("type", "messageAckRate", "msgRateOut", "msgRateRedeliver")
CHANGING = ("availablePermits", "unackedMessages", "blockedConsumerOnUnackedMsgs")

CountsByName = dict[
    str, dict[str, int]
]  # of each subscription, by the names of a topic's statistics


@dataclass(frozen=True, slots=True)
class ListedStats:
    """What the list reports about a segment."""

    stats: Any
    read_ms: int | None  # when the list was read, by the broker's clock


async def numbers_in(pieces: AsyncIterator[bytes]) -> dict[str, CountsByName]:
    """The numbers of each loaded segment; of whole lines, many at once."""
    found: dict[str, CountsByName] = {}
    names = 0
    async for lines in pieces:
        names += _add(found, lines)
        if names > NAMES_MOST:
            raise TooMany(NAMES_MOST, "subscriptions of segments")
    return found


def _add(found: dict[str, CountsByName], lines: bytes) -> int:
    """How many names are new."""
    new = 0
    for match in LINE.finditer(lines):
        metric, topic, subscription, number = (each.decode() for each in match.groups(b""))
        new += topic not in found
        numbers = found.setdefault(topic, {})
        if subscription and metric != TOPIC_LINE:
            name = re.sub(r"\\(.)", r"\1", subscription)
            new += name not in numbers
            numbers.setdefault(name, {})[FIELDS[metric]] = int(float(number))
    return new


def composed(
    numbers: CountsByName, listed: ListedStats | None, now_ms: int | None, old_ms: int
) -> dict[str, Any]:
    """A document as the statistics of a topic are. old_ms: how old what the list tells may be."""
    stats = listed.stats if listed is not None and isinstance(listed.stats, dict) else {}
    listed_of, since_ms = stats.get("subscriptions") or {}, None
    if listed is not None and listed.read_ms is not None:
        since_ms = listed.read_ms - old_ms
    subscriptions = {
        name: _subscription(values, listed_of.get(name) or {}, since_ms)
        for name, values in numbers.items()
    }
    given = {name: stats[name] for name in OF_TOPIC if name in stats}
    return {"publishers": [], **given, "subscriptions": subscriptions}


def _subscription(
    values: Mapping[str, int], listed: Mapping[str, Any], since_ms: int | None
) -> dict[str, Any]:
    """since_ms: the list tells nothing that is older."""
    written: dict[str, Any] = {name: listed[name] for name in OF_LIST if name in listed}
    written |= {name: value for name, value in values.items() if name != "consumers"}
    blocked = "blockedSubscriptionOnUnackedMsgs"
    written[blocked] = bool(values.get(blocked))
    if "unackedMessages" not in listed and values.get("consumers"):
        del written["unackedMessages"]  # Exclusive and Failover: a 0 that counts nothing
    each = listed.get("consumers") or []
    if values.get("consumers") == len(each):
        still = since_ms is not None and all(values.get(name, 0) < since_ms for name in MOMENTS)
        written["consumers"] = list(_consumers(each, written, still=still))
    return written


def _consumers(
    listed: list[Any], subscription: Mapping[str, Any], *, still: bool
) -> Iterator[dict[str, Any]]:
    """still: nothing of what they have changed since the list was renewed."""
    for each in listed:
        written = dict(each) if still else {k: v for k, v in each.items() if k not in CHANGING}
        if len(listed) == 1:
            since_ms = epoch_ms(each.get("connectedSince")) or 0
            moments = {name: subscription.get(name, 0) for name in MOMENTS}
            written |= {name: ms if ms >= since_ms else 0 for name, ms in moments.items()}
            if "unackedMessages" in each:
                written["unackedMessages"] = subscription["unackedMessages"]
        yield written
