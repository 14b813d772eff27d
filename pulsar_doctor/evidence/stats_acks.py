"""How fast acknowledgements arrive, and the gap before acknowledged ranges, by the broker's stats.

Where there are no ranges, acknowledgements that do not move mark-delete finish no entry: they are
of messages within batches. A batch in work is the same from outside, but not many of them. While
consumers have permits they were sent the whole backlog, and what exceeds their queues (see
`stats_queue`) was taken by their applications. At the pace of the last minute it took so long to
send that, about.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.backlog import is_empty
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.broker.stats.positions import entries_from, entry_after
from pulsar_doctor.broker.stats.topic import MARK_DELETED
from pulsar_doctor.broker.stats.window import MINUTE
from pulsar_doctor.evidence.ack_wait import Acks
from pulsar_doctor.evidence.hole import AckedRanges, AckHole
from pulsar_doctor.evidence.stats_moved import ConsumerWindow
from pulsar_doctor.evidence.stats_queue import most_queue_size
from pulsar_doctor.evidence.subscription import UnackedLimit

BATCHES = 10  # taken and none of them finished: not all of them are in work


def unacked_limit_of(
    observed: Observed, consumers: Sequence[ConsumerWindow], each: Sequence[Acks]
) -> UnackedLimit | None:
    """The limit; None on Exclusive and Failover, which have none, and where not reported."""
    blocked = observed.now.blocked_subscription_on_unacked_msgs
    if observed.type in SINGLE_ACTIVE or (observed.type is None and blocked is None):
        return None
    acks = _acks_of_all(observed, each, _quiet(consumers, each))
    delivered = sum(consumer.delivered or 0 for consumer in consumers)
    return UnackedLimit(
        blocked=blocked,
        most=observed.limits.max_unacked_messages_per_subscription,
        acks=acks,
        delivered=delivered,
        flows=delivered > 0 and _flows(observed, acks.acked),
        watched=not observed.one_sample,
    )


def _flows(observed: Observed, acked: bool | None) -> bool:
    """Whether the broker keeps reading although every sample says that it is blocked."""
    flags = (s.blocked_subscription_on_unacked_msgs for s in observed.course.values if s)
    read = observed.cursor.moved(lambda cursor: cursor.read_position)
    return bool(acked if read is None else read) and all(flags)


def _acks_of_all(observed: Observed, each: Sequence[Acks], quiet: Age | None) -> Acks:
    returned = [acks.acknowledged for acks in each if acks.acknowledged is not None]
    came = (observed.course.passed("last_acked_timestamp_ms"), *(acks.acked for acks in each))
    known = [acked for acked in came if acked is not None]
    acked = any(known) if known else None
    # What is given back is counted as returned too, and comes again at once: only acks release.
    acknowledged = 0 if acked is False else (sum(returned) if returned else None)
    paces = [1 / acks.rhythm_seconds for acks in each if acks.rhythm_seconds is not None]
    return Acks(
        acknowledged,
        acked,
        observed.window.span_ms,
        quiet,
        an_ack=max((acks.an_ack for acks in each), default=1),
        apart_ms=max((acks.apart_ms or 0 for acks in each), default=0) or None,
        rhythm_seconds=1 / sum(paces) if paces else None,
        may_fit=any(acks.may_fit for acks in each),
        never=all(acks.never for acks in each),
    )


def _quiet(consumers: Sequence[ConsumerWindow], each: Sequence[Acks]) -> Age | None:
    """Since the last ack of anybody, also of those that hold nothing any more."""
    pairs = list(zip(consumers, each, strict=True))
    holding = [acks.quiet for s, acks in pairs if s.unacked != 0]
    done = [s.since(s.now.last_acked_timestamp_ms) for s in consumers if s.unacked == 0]
    known = [age for age in (*holding, *done) if age is not None]
    return min(known, key=lambda age: age.ms) if holding and None not in holding else None


def hole_of(observed: Observed, consumers: Sequence[ConsumerWindow]) -> AckHole | None:
    """None where acknowledged ranges are not reported."""
    now, ranges, cursor = observed.now, observed.acknowledged_ranges, observed.cursor_now
    if ranges is None:
        return None
    in_part = 0 if ranges else _in_part(observed, consumers)
    if ranges <= 0 and not in_part:
        return AckHole(ranges, None)
    since, acked = _since_ms(observed, in_part), now.last_ack_ms
    position = cursor.mark_delete_position if cursor else None
    last, held = observed.window.last, observed.held
    return AckHole(
        ranges=ranges,
        stood=last.age(since),
        acked=last.age(acked),
        acks_lasted_ms=None if since is None or acked is None else acked - since,
        all_acked_in=_all_acked_in(observed),
        passed=_passed(observed, consumers, since),
        held=held.most if held else 0,
        left_out=ranges,
        passed_in_window=observed.course.passed("last_acked_timestamp_ms") is True,
        moved=observed.mark_delete_moved,
        delayed=(now.msg_delayed or 0) > 0,
        markers=now.is_replicated is not False,  # their acks leave ranges, too
        position="{}:{}".format(*position) if position else None,
        backlog_bytes=now.backlog_size,
        behind=cursor.number_of_entries_since_first_not_acked_message if cursor else None,
        in_part=in_part > 0,
        compacted=_compacted(observed, consumers),
    )


def acked_ranges_of(observed: Observed) -> AckedRanges | None:
    """The acknowledged ranges against their limit; None where they are not reported."""
    count, limits = observed.acknowledged_ranges, observed.limits
    if count is None:
        return None
    size_bytes = observed.now.non_contiguous_deleted_messages_ranges_serialized_size
    set_to, default = limits.max_unacked_ranges_to_persist, limits.unacked_ranges_by_default
    return AckedRanges(count, set_to, size_bytes, default, _grew(observed) if count else None)


def _grew(observed: Observed) -> int | None:
    """By how much ranges became more while mark-delete stood; None where it moved, or not known."""
    if observed.course.passed("last_mark_delete_advanced_timestamp_ms") is not False:
        return None
    return observed.course.growth(attrgetter("non_contiguous_deleted_messages_ranges"))


def _compacted(observed: Observed, consumers: Sequence[ConsumerWindow]) -> int:
    """Entries of a compacted topic that were read and unacknowledged, beyond all that was sent."""
    held, sent = observed.held, [each.now.msg_out_counter for each in consumers]
    if held is None or observed.type not in SINGLE_ACTIVE or None in sent:
        return 0
    compacted = "__compaction" in (observed.window.last.topic.subscriptions or {})
    return max(0, held.least - sum(each or 0 for each in sent)) if compacted else 0


def _in_part(observed: Observed, consumers: Sequence[ConsumerWindow]) -> int:
    """Messages that were sent in batches, none of which is finished; 0 where all may be in work."""
    served = [each for each in consumers if each.active]
    batch = max((each.now.avg_messages_per_entry or 0 for each in served), default=0)
    queues = [most_queue_size(each) for each in served if (each.permits or 0) > 0]
    if batch <= 1 or observed.window.last.topic.ongoing_txn_count or len(queues) < len(served):
        return 0
    backlog = min((each.msg_backlog or 0 for each in observed.course.values if each), default=0)
    sent = min(batch * backlog, sum(each.now.msg_out_counter or 0 for each in served))
    taken = None if None in queues else sent - sum(filter(None, queues))
    return sent if taken is not None and taken >= BATCHES * batch else 0


def _began_ms(observed: Observed, messages: int) -> int | None:
    """When the first of so many messages was sent, at the pace of the last minute."""
    now_ms, consumers = observed.window.last.now_ms, observed.now.consumers or ()
    rate = sum(each.msg_rate_out or 0 for each in consumers)
    return now_ms if now_ms is None or not rate else now_ms - int(messages / rate * 1000)


def _since_ms(observed: Observed, in_part: int) -> int | None:
    """When mark-delete stopped, as far as a consumer was there and something was in the backlog.

    A new holder begins no new rest: what was acknowledged behind the gap, and was not sent to who
    is there, was acknowledged by those that left. It took so long to come, at the pace of the last
    minute. in_part: messages of batches, the first of which was not sent before.
    """
    now = observed.now
    connected = [each.connected_since_ms for each in now.consumers or ()]
    oldest = min((moment for moment in connected if moment is not None), default=None)
    advanced = now.last_mark_delete_advanced_timestamp_ms
    if oldest is None or (
        advanced is None and "last_mark_delete_advanced_timestamp_ms" not in now.never
    ):
        return None
    began = _began_ms(observed, in_part) if in_part else None
    oldest = min(oldest, _passed_before_ms(observed) or oldest)
    return max(oldest, *(each or oldest for each in (advanced, _emptied_ms(observed), began)))


def _passed_before_ms(observed: Observed) -> int | None:
    """When those that left began to acknowledge later entries, at the latest; None: not known."""
    now, cursor, rate = observed.now, observed.cursor_now, observed.window.last.topic.msg_rate_in
    now_ms, backlog = observed.window.last.now_ms, observed.backlog.entries
    behind = cursor.number_of_entries_since_first_not_acked_message if cursor else None
    sent = [each.msg_out_counter for each in now.consumers or ()]
    if now_ms is None or behind is None or backlog is None or not rate or None in sent:
        return None
    by_others = behind - backlog - sum(each or 0 for each in sent)
    return now_ms - int(by_others / rate * 1000) if by_others > 0 else None


def _emptied_ms(observed: Observed) -> int | None:
    """When the backlog was last seen to be 0 within the window: no gap is older."""
    if observed.backlog.wrong:
        return None
    seen = zip(observed.window.samples, observed.course.values, strict=True)
    empty = [sample for sample, value in seen if value and is_empty(value)]
    return empty[-1].now_ms if empty else None


def _all_acked_in(observed: Observed) -> float | None:
    """Seconds for all that is acknowledged after mark-delete, at the pace of the window."""
    cursor, internal, span = observed.cursor_now, observed.internal, observed.window.span_ms
    acked = observed.cursor.growth(attrgetter("messages_consumed_counter"))
    if cursor is None or internal is None or not span or not acked:
        return None
    backlog, position = observed.backlog.entries, cursor.mark_delete_position
    after = entries_from(position, internal) if position is not None else None
    return None if after is None or backlog is None else (after - 1 - backlog) * span / acked / 1000


def _passed(observed: Observed, consumers: Sequence[ConsumerWindow], since_ms: int | None) -> int:
    """Later entries or messages that all who hold something have acknowledged since then.

    0 where somebody holds something and has not.
    """
    now, held = observed.now, observed.held
    if since_ms is None or held is None or now.is_replicated is not False:
        return 0
    holders = [each for each in consumers if each.unacked != 0 and each.active]
    acks = [each.now.last_acked_timestamp_ms or 0 for each in holders]
    if not acks or min(acks) <= since_ms:
        return 0
    age = observed.window.last.age(since_ms)
    stood = 0.0 if age is None else age.seconds
    cursor, done = observed.cursor_now, [_done(each, stood) for each in holders]
    behind = cursor.number_of_entries_since_first_not_acked_message if cursor else None
    return max(0, (behind or 0) - held.most, sum(done))


def _done(consumer: ConsumerWindow, stood: float) -> int:
    """Messages that it has finished since mark-delete stopped: in the window, or by its rate.

    The broker's rate is of a minute that ended up to a minute ago.
    """
    lately = (consumer.now.message_ack_rate or 0) * min(MINUTE, stood - MINUTE)
    return max(0, consumer.returned or 0, int(lately))


def oldest_of(observed: Observed) -> str | None:
    """The first entry that is not acknowledged, by the position of mark-delete."""
    cursor, internal = observed.cursor_now, observed.internal
    done = cursor.mark_delete_position if cursor is not None else None
    if done is None or internal is None or done < (0, -1):
        return None
    return "{}:{}".format(*entry_after(done, internal))


def oldest_sent(observed: Observed) -> bool:
    """Whether the oldest entry was sent to who is there: they are sent the oldest first.

    An acknowledged one lies behind it, or the oldest is the same since the topic was loaded.
    """
    now = observed.now
    same = bool(observed.acknowledged_ranges) or MARK_DELETED in now.never
    return same and any(each.msg_out_counter for each in now.consumers or ())
