"""When a subscription reaches a limit at its present pace, and what happens then.

What falls behind reaches a backlog quota or the TTL. Retention deletes only what every subscription
has acknowledged, so it never takes effect on what waits; a message that expires is acknowledged by
the broker.

Acknowledged ranges become more where messages are acknowledged past some that are not. The broker
keeps so many of them over a load of the topic, and forgets the rest. Once there are more than that,
`holes-over-limit` is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pulsar_doctor.evidence.balance import Balance, counted
from pulsar_doctor.evidence.policies import Policies
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least
from pulsar_doctor.ledger.defaults import RANGES, by_default

DeadlineName = Literal[
    "backlog-quota-size", "backlog-quota-age", "message-ttl", "acknowledged-ranges"
]
EXPIRES = "messages expire unread"
FORGETS = "more acknowledged ranges than the broker saves (lost at a restart or unload)"
EFFECTS = {
    None: "the backlog quota refuses producers or drops messages",
    "producer_request_hold": "the backlog quota holds producers",
    "producer_exception": "the backlog quota refuses producers",
    "consumer_backlog_eviction": "the backlog quota drops the oldest messages unread",
}


@dataclass(frozen=True, slots=True)
class Deadline:
    """A limit that takes effect in about so many seconds; 0: it does now."""

    limit: DeadlineName
    seconds: float
    effect: str


def deadlines_of(view: SubscriptionView, balance: Balance) -> tuple[Deadline, ...]:
    """The soonest first. Of quota and TTL nothing where it does not fall behind."""
    found = list(_of_ranges(view))
    if balance.pace == "falls-behind" and view.policies is not None:
        found += _of_policies(view.policies, balance)
    return tuple(sorted(found, key=lambda each: each.seconds))


def _of_ranges(view: SubscriptionView) -> Iterator[Deadline]:
    """Nothing where they may be more by chance, or where no load of the topic takes them over."""
    ranges, seconds = view.ranges, view.watched_seconds
    if ranges is None or not ranges.grew or not seconds or view.durable is False:
        return
    growth = counted(ranges.grew, seconds)
    limit = by_default(RANGES, None) if ranges.known_limit is None else ranges.known_limit
    if growth.rises and ranges.count <= limit + 1:
        left = limit + 1 - ranges.count
        yield Deadline("acknowledged-ranges", left / growth.about, FORGETS)


def _of_policies(of: Policies, balance: Balance) -> Iterator[Deadline]:
    growth, comes_in = balance.growth, balance.comes_in
    if growth is None or comes_in is None or growth.about <= 0:
        return
    effect = EFFECTS.get(of.quota_effect, EFFECTS[None])
    if of.quota_bytes and of.used_bytes is not None and of.message_bytes:
        left = max(0.0, of.quota_bytes - of.used_bytes)
        yield Deadline("backlog-quota-size", left / (growth.about * of.message_bytes), effect)
    # What waits came in at this pace: the first of it so long ago. What is sent next is younger by
    # what comes in between two that are sent, so that the age grows more slowly than the clock.
    oldest = of.oldest_seconds or (least(balance.waits_messages) or 0) / comes_in.about
    aging = growth.about / comes_in.about
    if of.quota_seconds:
        yield Deadline("backlog-quota-age", max(0.0, of.quota_seconds - oldest) / aging, effect)
    if of.ttl_seconds:
        yield Deadline("message-ttl", max(0.0, of.ttl_seconds - oldest) / aging, EXPIRES)
