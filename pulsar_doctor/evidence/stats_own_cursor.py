"""Cursors of the broker itself (replication, compaction), by the broker's stats.

A replicator is in the `replication` part of the stats by its remote cluster, and as a cursor in
the internal stats. That it sent something is seen by its mark-delete, by the count of what it sent,
or by a backlog that became less; a backlog that stays, while messages are published, shows nothing.
"""

from __future__ import annotations

from operator import attrgetter

from pulsar_doctor.broker.stats.cursors import COMPACTION, JUDGED
from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.positions import entries_by_positions
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import ReplicatorStats
from pulsar_doctor.evidence.own_cursor import OwnCursor


def own_cursor_of(observed: Observed) -> OwnCursor | None:
    """None of a subscription, and of a cursor that nothing is judged of."""
    owner, window, name = observed.owner, observed.window, observed.subscription
    if owner.kind not in JUDGED:
        return None
    replicator, last = observed.replicator.values, window.last
    now, seen = replicator[-1], zip(window.samples, replicator, strict=True)
    waiting = [_waiting(sample, name, value) for sample, value in seen]
    span_ms = window.span_ms if len(window.samples) > 1 else None
    cursor, compaction = observed.cursor_now, last.topic.compaction
    position = None if cursor is None else cursor.mark_delete_position
    ended = None if owner.kind != COMPACTION else compaction
    return OwnCursor(
        kind=owner.kind,
        of=owner.of,
        position=None if position is None else "{}:{}".format(*position),
        waiting=waiting[-1],
        waits_throughout=all((entries or 0) > 0 for entries in waiting),
        moved=_moved(observed),
        watched_seconds=None if span_ms is None else span_ms / 1000,
        connected=None if now is None else now.connected,
        apart_throughout=all(each is not None and each.connected is False for each in replicator),
        msg_rate_out=None if now is None else now.msg_rate_out,
        succeeded=last.age(ended.last_compaction_succeed_timestamp or None) if ended else None,
        failed=last.age(ended.last_compaction_failed_timestamp or None) if ended else None,
    )


def _waiting(sample: Sample, name: str, replicator: ReplicatorStats | None) -> int | None:
    """Entries behind it: by the broker's counter, otherwise by positions."""
    stats, internal, cursor = sample.subscription(name), sample.internal, sample.cursor(name)
    found = replicator.replication_backlog if replicator else stats.msg_backlog if stats else None
    if found is None and internal and cursor:
        found = entries_by_positions(internal, cursor)
    return None if found is None else max(0, found)


def _moved(observed: Observed) -> bool | None:
    by_cursor = observed.cursor.moved(attrgetter("mark_delete_position"))
    if by_cursor is not None:
        return by_cursor
    sent = observed.replicator.growth(attrgetter("msg_out_count"))
    if sent is not None:
        return sent > 0
    less = observed.replicator.change(attrgetter("replication_backlog"))
    if less is None:
        return None
    return True if less < 0 else False if observed.published == 0 else None
