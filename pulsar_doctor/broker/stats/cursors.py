"""Whether a cursor belongs to a subscription, or to the broker itself.

Internal stats list all cursors of a topic by their names alone. Not a subscription's are:

- those that begin with `replicatorPrefix` (a setting of the broker, `pulsar.repl`): a replicator's,
  with a dot and the remote cluster behind it; with a dash and a topic it is that of a shadow topic,
  which is not durable;
- `pulsar.dedup`: how far deduplication has stored the sequence ids that it has seen;
- `__compaction`: how far the topic is compacted (the one that stats list as a subscription, too);
- `transaction.subscription` of a transaction coordinator's log and `__pending_ack_state` of the log
  of acknowledgements within transactions: topics that the broker keeps for itself;
- `transaction-buffer-sub`, which reads a topic when it is loaded, and is not durable.

Seen on 4.0.8. A subscription's cursor has its name as in a form of the web (`a%2Fb+c`).
Source: PersistentTopic (its constructor), AbstractReplicator, ShadowReplicator, Compactor,
MLTransactionLogImpl, SystemTopicNames and TopicTransactionBuffer of the broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

REPLICATOR_PREFIX = "pulsar.repl"

SUBSCRIPTION, REPLICATOR, SHADOW = "subscription", "replicator", "shadow-replicator"
DEDUPLICATION, COMPACTION = "deduplication", "compaction"
TRANSACTION_LOG, PENDING_ACKS = "transaction-log", "pending-acks"
TRANSACTION_BUFFER = "transaction-buffer"

BY_NAME = {
    "pulsar.dedup": DEDUPLICATION,
    "__compaction": COMPACTION,
    "transaction-buffer-sub": TRANSACTION_BUFFER,
}
ON_TOPICS = {  # by the cursor's name: the kind, and what the name of its topic has in it
    "transaction.subscription": (TRANSACTION_LOG, "__transaction_log_"),
    "__pending_ack_state": (PENDING_ACKS, "__transaction_pending_ack"),
}
NOT_DURABLE = frozenset({SHADOW, TRANSACTION_BUFFER})
JUDGED = frozenset({REPLICATOR, COMPACTION})


@dataclass(frozen=True, slots=True)
class CursorOwner:
    """kind: as above. of: the remote cluster of a replicator, or the shadow topic; else None."""

    kind: str
    of: str | None = None

    @property
    def is_broker(self) -> bool:
        """Whether nobody subscribed."""
        return self.kind != SUBSCRIPTION


def owner_of(
    cursor: str,
    *,
    topic: str | None = None,
    replicator_prefix: str | None = None,
    clusters: Collection[str] = (),
) -> CursorOwner:
    """By the cursor's name. topic: None where it is not known. clusters: that it is replicated to.

    replicator_prefix: as the broker has it set; None: by its default.
    """
    prefix = replicator_prefix or REPLICATOR_PREFIX
    if cursor in BY_NAME:
        return CursorOwner(BY_NAME[cursor])
    kind, within = ON_TOPICS.get(cursor, (None, ""))
    if kind is not None and (topic is None or within in topic):
        return CursorOwner(kind)
    if cursor.startswith(prefix):
        rest = cursor.removeprefix(prefix)
        kind = SHADOW if rest.startswith("-") else REPLICATOR
        return CursorOwner(kind, rest[1:] or None)
    for cluster in clusters:
        if cursor.endswith(f".{cluster}"):
            return CursorOwner(REPLICATOR, cluster)
    return CursorOwner(SUBSCRIPTION)


def judged_cursors(cursors: Iterable[str], clusters: Collection[str]) -> tuple[str, ...]:
    """Names of the cursors that get a verdict. cursors, clusters: those that are reported.

    A replicator with a cursor that is not reported has the name that its broker gives it by
    default.
    """
    owners = {name: owner_of(name, clusters=clusters) for name in cursors}
    found = [name for name, owner in owners.items() if owner.kind in JUDGED]
    named = {owners[name].of for name in found}
    missing = (f"{REPLICATOR_PREFIX}.{each}" for each in clusters if each not in named)
    return (*found, *missing)
