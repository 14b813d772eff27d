"""What was found of holes, from whatever source, for every cursor of a topic.

Stats list subscriptions, and of the broker's own cursors only that of compaction. So where there
are internal stats too, their other cursors are treated as subscriptions of which nothing else is
reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pulsar_doctor.broker.samples.plain import UNKNOWN
from pulsar_doctor.broker.stats.cursors import CursorOwner, owner_of
from pulsar_doctor.broker.stats.observed import Observed, TopicWindow
from pulsar_doctor.broker.stats.topic import SubscriptionStats
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.checkup.holes.account import NO_STATS, CursorAccount, account
from pulsar_doctor.checkup.holes.held import BrokerCursor, durable, held_by
from pulsar_doctor.checkup.result import Cluster
from pulsar_doctor.errors import InputError
from pulsar_doctor.ledger.acks.biographies import Biography
from pulsar_doctor.ledger.acks.persisting import NOTHING_REPORTED, Storing


@dataclass(slots=True)
class Acknowledged:
    """What was found."""

    source: str  # broker, files or trace
    accounts: list[CursorAccount] = field(default_factory=list)
    cursors: list[BrokerCursor] = field(default_factory=list)  # that the broker keeps for itself
    not_loaded: list[str] = field(default_factory=list)
    unreachable: list[tuple[str, str]] = field(default_factory=list)  # what was not read, and why
    notes: list[str] = field(default_factory=list)
    # (full name, sentence) of named topics that have no subscription, or store nothing
    kinds: list[tuple[str, str]] = field(default_factory=list)
    # entries in holes by topic and subscription, where a trace has them
    biographies: dict[tuple[str, str], Sequence[Biography]] = field(default_factory=dict)
    cluster: Cluster | None = None  # that was read; None: files or a trace

    def add(self, window: TopicWindow, storing: Storing, subscription: str | None) -> None:
        """The subscriptions of a topic, as its last sample has them.

        Raises InputError where a file holds what a broker cannot have written.
        """
        for observed in subscriptions_of(window, storing):
            if subscription in (None, observed.subscription):
                with self._named(window, observed.subscription):
                    self.accounts.append(account(observed, storing))
        with self._named(window, "a cursor of the broker's own"):
            self.cursors += [
                each
                for each in broker_cursors_of(window, storing)
                if subscription in (None, each.account.subscription)
            ]

    @contextmanager
    def _named(self, window: TopicWindow, what: str) -> Iterator[None]:
        """Names the file with what cannot be read; reports the rest of a broker all the same."""
        try:
            yield
        except InputError as error:
            where = f"{what} on {window.topic}"
            if self.source == "files":
                raise InputError(f"{where}: {error}") from None
            self.unreachable.append((window.full_topic, f"{where}: {error}"))


def holes_in(windows: Iterable[TopicWindow], subscription: str | None) -> Acknowledged:
    """What windows that were read before tell; what cannot be right is in `unreachable`."""
    found = Acknowledged("broker")
    for window in windows:
        found.add(window, NOTHING_REPORTED, subscription)
    return found


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
