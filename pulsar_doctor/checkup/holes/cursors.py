"""Every cursor of a topic: those of subscriptions, and those of the broker itself.

Stats list subscriptions, and of the broker's own cursors only that of compaction. So where there
are internal stats too, their other cursors are treated as subscriptions of which nothing else is
reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pulsar_doctor.broker.samples.plain import UNKNOWN
from pulsar_doctor.broker.stats.cursors import CursorOwner, owner_of
from pulsar_doctor.broker.stats.observed import Observed, TopicWindow
from pulsar_doctor.broker.stats.topic import SubscriptionStats
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.checkup.holes.account import NO_STATS, account
from pulsar_doctor.checkup.holes.held import BrokerCursor, durable, held_by
from pulsar_doctor.ledger.acks.persisting import Storing


def subscriptions_of(window: TopicWindow, storing: Storing) -> Iterator[Observed]:
    """The subscriptions of the last sample that somebody made."""
    owners = _owners(window, storing)
    return (each for each in window.subscriptions() if not owners[each.subscription].is_broker)


def broker_cursors_of(window: TopicWindow, storing: Storing) -> Iterator[BrokerCursor]:
    """The cursors of the last sample that nobody made; what they hold where there are internal
    stats.

    Raises InputError where ranges are none.
    """
    owners, last = _owners(window, storing), window.window.last
    stats, internal = last.topic.subscriptions or {}, last.internal
    cursors = {} if internal is None else internal.cursors or {}
    durables = {name: each.is_durable for name, each in stats.items()}
    lasting = durable(cursors, {name: owners[name] for name in cursors}, durables)
    for observed in _with_cursors(window).subscriptions():
        name, owner = observed.subscription, owners[observed.subscription]
        if owner.is_broker:
            replicator = (last.topic.replication or {}).get(owner.of or "")
            connected = None if replicator is None else replicator.connected
            cursor = account(observed, storing)
            missing = tuple(each for each in cursor.unknowns if each != NO_STATS)
            held = held_by(name, internal, lasting)
            yield BrokerCursor(owner, replace(cursor, unknowns=missing), held, connected)


def _owners(window: TopicWindow, storing: Storing) -> Mapping[str, CursorOwner]:
    last = window.window.last
    names = dict.fromkeys((*(last.topic.subscriptions or ()), *_cursors(window)))
    topic = None if window.topic == UNKNOWN else window.topic
    prefix, clusters = storing.replicator_prefix, tuple(last.topic.replication or ())
    return {
        name: owner_of(name, topic=topic, replicator_prefix=prefix, clusters=clusters)
        for name in names
    }


def _cursors(window: TopicWindow) -> tuple[str, ...]:
    internal = window.window.last.internal
    return () if internal is None else tuple(internal.cursors or ())


def _with_cursors(window: TopicWindow) -> TopicWindow:
    """The last sample alone, with every cursor among the subscriptions."""
    last = window.window.last
    bare = {name: SubscriptionStats() for name in _cursors(window)}
    topic = replace(last.topic, subscriptions={**bare, **(last.topic.subscriptions or {})})
    return replace(window, window=Window((replace(last, topic=topic),)))
