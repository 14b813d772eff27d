"""What a cursor of the broker itself keeps on disk, what moves it, and what to do.

The broker deletes a ledger that is full when every durable cursor has it behind its mark-delete and
retention wants it no more. A cursor of the broker's own that does not move thus keeps all ledgers
from there on, though every subscription has acknowledged them; and so does one hole in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pulsar_doctor.broker.stats.cursors import (
    COMPACTION,
    DEDUPLICATION,
    NOT_DURABLE,
    PENDING_ACKS,
    REPLICATOR,
    SHADOW,
    TRANSACTION_BUFFER,
    TRANSACTION_LOG,
    CursorOwner,
)
from pulsar_doctor.broker.stats.internal import CursorStats, InternalStats
from pulsar_doctor.checkup.holes.account import CursorAccount
from pulsar_doctor.checkup.holes.shape import entries_of, sizes_of

SENT = (
    "moves when {of} has confirmed what was sent there; an entry in a hole was not confirmed, and "
    "is sent again when the replicator connects anew"
)
MOVES = {
    REPLICATOR: SENT,
    SHADOW: f"{SENT}; it is not durable and keeps nothing",
    DEDUPLICATION: (
        "moves when the broker stores which sequence ids it has seen: after so many entries "
        "(brokerDeduplicationEntriesInterval, 1,000) or so many seconds "
        "(brokerDeduplicationSnapshotIntervalSeconds, 120)"
    ),
    COMPACTION: "moves when a compaction of the topic is complete, and not between",
    TRANSACTION_LOG: "moves when the oldest transaction of this coordinator has ended",
    PENDING_ACKS: "moves when the transactions that acknowledge have ended",
    TRANSACTION_BUFFER: "reads the topic when it is loaded; it is not durable and keeps nothing",
}
PRACTICE = {
    REPLICATOR: (
        "See whether {of} can be reached and takes messages (pulsar-admin topics stats {topic}: "
        "connected and replicationBacklog; pulsar-admin clusters get {of}). Where nothing is to go "
        "there any more, take it out of the clusters of the namespace (pulsar-admin namespaces "
        "set-clusters) or topic: this cursor goes with it. To skip what waits: pulsar-admin topics "
        "clear-backlog {topic} -s {name}. In both cases {of} never gets it."
    ),
    DEDUPLICATION: (
        "Nothing, where it follows within minutes. Where it does not, let it store sooner: "
        "pulsar-admin topicPolicies set-deduplication-snapshot-interval {topic} -i 100. Old "
        "brokers do so by time only where brokerDeduplicationEnabled is true."
    ),
    COMPACTION: (
        "Compact: pulsar-admin topics compact {topic}, and see pulsar-admin topics "
        "compaction-status {topic}; a threshold does it by itself (pulsar-admin topicPolicies "
        "set-compaction-threshold). Where it is not wanted any more, remove the threshold, then "
        "pulsar-admin topics unsubscribe {topic} -s {name}: readers of the compacted view then get "
        "every message that is left."
    ),
    **dict.fromkeys(
        (TRANSACTION_LOG, PENDING_ACKS),
        "Look for transactions that never end: pulsar-admin transactions slow-transactions -t 10m.",
    ),
    **dict.fromkeys((SHADOW, TRANSACTION_BUFFER), "Nothing to do."),
}


@dataclass(frozen=True, slots=True)
class KeptLedgers:
    """Ledgers that no subscription needs, without the one being written.

    How much of it retention keeps anyhow is not reported.
    """

    ledgers: int
    bytes: int | None  # None: not reported
    alone: int  # of these, kept by nothing else
    bytes_alone: int | None  # None: not reported
    others: tuple[str, ...]  # cursors of the broker itself that keep some of them too


@dataclass(frozen=True, slots=True)
class BrokerCursor:
    """A cursor of the broker's own."""

    owner: CursorOwner
    account: CursorAccount  # ranges and holes, as of a subscription
    held: KeptLedgers | None  # None: the ledgers are not reported
    connected: bool | None = None  # of a replicator; None: not reported

    @property
    def pins(self) -> bool:
        """Whether it keeps ledgers, or what it has acknowledged behind a hole."""
        return bool((self.held and self.held.ledgers) or self.account.ranges)

    @property
    def moves(self) -> str:
        """Who moves its mark-delete."""
        return MOVES[self.owner.kind].format(of=self.owner.of or "the other side")

    @property
    def practice(self) -> str:
        """What to do where it keeps too much."""
        return PRACTICE[self.owner.kind].format(
            of=self.owner.of or "the other side",
            name=self.account.subscription,
            topic=self.account.full_topic if "/" in self.account.topic else "TOPIC",
        )


def held_by(
    name: str, internal: InternalStats | None, owners: Mapping[str, CursorOwner]
) -> KeptLedgers | None:
    """owners: of all durable cursors, this one with them; one that is not durable keeps nothing."""
    cursors = {} if internal is None else internal.cursors or {}
    if internal is None or not internal.ledgers or name not in cursors:
        return None
    needed = {each: _needed(cursors.get(each), internal) for each in owners}
    mine = needed.get(name, frozenset[int]())
    if mine is None:
        return None
    wanted = _all(needed[each] for each, owner in owners.items() if not owner.is_broker)
    kept = mine - wanted
    others = {
        each: (needed[each] or frozenset()) & kept
        for each, owner in owners.items()
        if owner.is_broker and each != name
    }
    alone = kept - _all(others.values())
    sizes = sizes_of(internal)
    return KeptLedgers(
        len(kept),
        None if sizes is None else sum(sizes[ledger] for ledger in kept),
        len(alone),
        None if sizes is None else sum(sizes[ledger] for ledger in alone),
        tuple(each for each, shared in others.items() if shared),
    )


def durable(
    cursors: Mapping[str, CursorStats],
    owners: Mapping[str, CursorOwner],
    durables: Mapping[str, bool | None],
) -> dict[str, CursorOwner]:
    """Cursors with a mark-delete that counts. durables: what the stats report for subscriptions.

    Where they do not, the cursor itself may show that it is not durable.
    """
    return {
        name: owners[name]
        for name, cursor in cursors.items()
        if owners[name].kind not in NOT_DURABLE
        and durables.get(name) is not False
        and cursor.durable is not False
    }


def _needed(cursor: CursorStats | None, internal: InternalStats) -> frozenset[int] | None:
    """Ledgers that are full and not wholly behind mark-delete; None where that is not known."""
    if cursor is None or cursor.mark_delete_position is None:
        return None
    ledger, entry = cursor.mark_delete_position
    entries = entries_of(internal)
    done = entries.get(ledger, -1) == entry + 1
    full = sorted(entries)[:-1]
    return frozenset(each for each in full if each > ledger or (each == ledger and not done))


def _all(sets: Iterable[frozenset[int] | None]) -> frozenset[int]:
    found: Sequence[frozenset[int]] = [each for each in sets if each is not None]
    return frozenset[int]().union(*found)
