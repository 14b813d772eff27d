"""Cursors of the broker itself (replication, compaction), by the broker's stats.

A replicator stands in the `replication` part of the stats by its remote cluster, and as a cursor in
the internal stats. That it sent something is seen by its mark-delete, by the count of what it sent,
or by a backlog that became less; a backlog that stays, while messages are published, tells nothing.
"""

from __future__ import annotations

from operator import attrgetter

from pulsar_doctor.broker.stats.cursors import COMPACTION, JUDGED
from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.positions import entries_by_positions
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.evidence.own_cursor import OwnCursor

BACKLOG = attrgetter("replication_backlog")


def own_cursor_of(observed: Observed) -> OwnCursor | None:
    """None of a subscription, and of a cursor that nothing is judged of."""
    owner = observed.owner
    if owner.kind not in JUDGED:
        return None
    replicator = observed.window.replicator(owner.of or "").values
    now, last = replicator[-1], observed.window.last
    waiting = [_waiting(observed, sample) for sample in observed.window.samples]
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
        watched_seconds=_seconds(observed),
        connected=None if now is None else now.connected,
        apart_throughout=all(each is not None and each.connected is False for each in replicator),
        msg_rate_out=None if now is None else now.msg_rate_out,
        succeeded=last.age(ended.last_compaction_succeed_timestamp or None) if ended else None,
        failed=last.age(ended.last_compaction_failed_timestamp or None) if ended else None,
    )


def _waiting(observed: Observed, sample: Sample) -> int | None:
    """Entries behind it: by the broker's counter, otherwise by positions."""
    name, cluster = observed.subscription, observed.owner.of or ""
    replicator = (sample.topic.replication or {}).get(cluster)
    stats = sample.subscription(name)
    told = replicator.replication_backlog if replicator else stats.msg_backlog if stats else None
    if told is not None:
        return max(0, told)
    internal, cursor = sample.internal, sample.cursor(name)
    if internal is None or cursor is None:
        return None
    entries = entries_by_positions(internal, cursor)
    return None if entries is None else max(0, entries)


def _moved(observed: Observed) -> bool | None:
    window = observed.window
    replicator = window.replicator(observed.owner.of or "")
    by_cursor = observed.cursor.moved(attrgetter("mark_delete_position"))
    if by_cursor is not None:
        return by_cursor
    sent = replicator.growth(attrgetter("msg_out_count"))
    if sent is not None:
        return sent > 0
    less, came = replicator.change(BACKLOG), window.topic().growth(attrgetter("msg_in_counter"))
    if less is None:
        return None
    return True if less < 0 else False if came == 0 else None


def _seconds(observed: Observed) -> float | None:
    span_ms = observed.window.span_ms
    return None if len(observed.window.samples) < 2 or span_ms is None else span_ms / 1000
