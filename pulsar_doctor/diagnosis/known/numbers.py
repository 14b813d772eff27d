"""The names of numbers in the conditions of known issues, and their sources.

A name is either one of VIEW, a number of the view, or one of `evidence.facts`, which only the
broker's documents report. `sub.` is of the subscription, `con.` of one consumer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.facts import FACTS
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import Count

Interval = tuple[float, float]  # both of a number that is exact
Term = Interval | str | bool | list[object] | None
Truth = bool | None

INFINITE = float("inf")
ENTRIES_MOST = 2**40  # of a ledger: a position as one number

# Name -> its place in the view.
VIEW: Mapping[str, str] = {
    "sub.type": "type",
    "sub.durable": "durable",
    "sub.persistent": "persistent",
    "sub.partition": "partition",
    "sub.backlog": "backlog.entries",
    "sub.left": "left",
    "sub.delivered": "delivered",
    "sub.rate_in": "msg_rate_in",
    "sub.rate_out": "msg_rate_out",
    "sub.rate_redelivered": "msg_rate_redeliver",
    "sub.ack_rate": "message_ack_rate",
    "sub.watched_seconds": "watched_seconds",
    "sub.unacked_limit": "unacked_limit.most",
    "sub.acked_ranges": "ranges.count",
    "sub.acked_ranges_limit": "ranges.limit",
    "sub.out_of_order": "key_order.out_of_order",
    "sub.joined_behind": "key_order.joined",
    "con.name": "name",
    "con.active": "active",
    "con.permits": "available_permits",
    "con.held": "unacked_messages",
    "con.sent": "msg_out_counter",
    "con.granted": "permits_granted",
    "con.flows": "flows",
    "con.queue_size": "receiver_queue_size",
    "con.blocked": "blocked_consumer_on_unacked_msgs",
    "con.unacked_limit": "max_unacked_messages_per_consumer",
    "con.never_acked": "never_acked",
    "con.delivered": "delivered",
    "con.rate_out": "msg_rate_out",
    "con.waits_from": "waits_from",
    "con.draining": "draining_hashes.hashes",
    "con.connected": "connected_for",
    "con.quiet": "quiet_for",
}
NAMES = frozenset(VIEW) | frozenset(FACTS)


@dataclass(frozen=True, slots=True)
class Numbers:
    """A view as conditions read it."""

    view: SubscriptionView
    consumer: ConsumerView | None = None  # None: they are about the subscription

    def value(self, name: str) -> Term:
        """A number by its name; None where it is not reported."""
        if name in FACTS:
            facts = self.view.facts
            return _value(facts.now(name, self._place(name))) if facts else None
        of = self.consumer if name.startswith("con.") else self.view
        return _value(reduce(_part, VIEW[name].split("."), of))

    def same(self, name: str) -> Truth:
        """Whether it is the same in all samples."""
        facts = self.view.facts
        return facts.same(name, self._place(name)) if facts and name in FACTS else None

    def grew(self, name: str) -> Truth:
        """Whether it grew from the first sample to the last."""
        facts = self.view.facts
        return facts.grew(name, self._place(name)) if facts and name in FACTS else None

    def consumers(self) -> list[Numbers] | None:
        """The same for each consumer."""
        everybody = self.view.consumers
        return None if everybody is None else [Numbers(self.view, each) for each in everybody]

    def _place(self, name: str) -> int | None:
        return self.consumer.number if self.consumer and name.startswith("con.") else None


def _part(value: Any, name: str) -> Any:
    return None if value is None else getattr(value, name)


def _value(found: Any) -> Term:
    match found:
        case bool() | str():
            return found
        case int() | float():
            return found, found
        case Count(least=least, most=most):
            return -INFINITE if least is None else least, INFINITE if most is None else most
        case Age():
            return found.seconds, found.seconds if found.exact else INFINITE
        case (ledger, entry):  # a position
            number = ledger * ENTRIES_MOST + entry
            return number, number
    return None
