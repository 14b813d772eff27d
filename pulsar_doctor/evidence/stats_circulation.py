"""The share of redeliveries, by the broker's stats.

The broker counts what it sends, not what comes back. What follows from the counters of the window:

*Given back*: sent, less what is now more unacknowledged than before, less what was acknowledged.
Acknowledged entries are 0 where no ack came; otherwise the cursor or the backlog counts them, and
how many messages they held is known about only. Then also what could be sent for the first time is
held against it: what came in, and what was unread.

*In circles*: whatever was sent is acknowledged, unacknowledged, or waits to be sent again. Where
more than twice all of that was sent, some of it was sent three times.

On Exclusive and Failover nothing counts as unacknowledged. There bytes are compared: the backlog
and what came in are all that can be sent. Also the read position moves back with each redelivery,
and with nothing else as long as the consumer stays connected and active. If nothing has been
acknowledged for a minute, what the last full minute could send once is what it acknowledged and
what waits now: where more than twice that was sent, some of it was sent three times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Literal

from pulsar_doctor.broker.stats.observed import SHARING, SINGLE_ACTIVE, Observed
from pulsar_doctor.broker.stats.positions import entries_from
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import (
    ACKED,
    MARK_DELETED,
    ConsumerStats,
    SubscriptionStats,
    TopicStats,
)
from pulsar_doctor.broker.stats.window import MINUTE, Course
from pulsar_doctor.evidence.circulation import ROUNDS, Circulation, Rounds, Sent
from pulsar_doctor.evidence.stats_moved import ConsumerWindow

Counter = Literal["msg_out_counter", "bytes_out_counter"]
UNTOLD_BATCH = 1_000_000  # messages in an entry, where the broker does not tell
PASSES = 5  # times what waits came in the window, where each message is acknowledged soon
SKEWED = 3  # times: the size of a backlog is an estimate by the average size of entries


def circulation_of(observed: Observed, consumers: Sequence[ConsumerWindow]) -> Circulation:
    """What the counters tell of it."""
    now, there, window = observed.now, observed.now.consumers or (), observed.window
    batch = _batch_most(observed.consumers)
    life = _life(observed, batch)
    connected = (each.connected_since_ms for each in there)
    begun = min((moment for moment in connected if moment is not None), default=None)
    return Circulation(
        window=_sent_in_window(observed, consumers, batch),
        before=_before(observed, batch),
        life=life.sent_again if life and _nothing_ever_acknowledged(now) else None,
        at_most_twice=life is not None and life.sent <= 2 * life.stock,
        ever_sent=_ever_sent(now),
        ever_known=now.msg_out_counter is not None,
        rounds=_rounds(observed, batch),
        starts_over=observed.durable is not False and _starts_over(now),
        passes=_passes(observed, batch),
        last_delivery=window.last.age(*(each.last_consumed_timestamp_ms for each in there)),
        begun=window.last.age(begun),
        span_seconds=window.span_ms / 1000 if window.span_ms else None,
        rate_redeliver=now.msg_rate_redeliver,
        rate_out=now.msg_rate_out,
    )


def _ever_sent(now: SubscriptionStats) -> int | None:
    """Messages since the topic was loaded, or the consumers connected; 0 where nobody is there."""
    own = now.msg_out_counter
    if now.consumers is None:
        return own
    to_them = _sum(now.consumers, "msg_out_counter")
    return to_them if to_them is None or own is None or not now.consumers else max(to_them, own)


@dataclass(frozen=True, slots=True)
class _Life:
    """What the consumers were sent since they connected, and what there is to send."""

    messages: int
    sent: int  # messages on Shared and Key_Shared, otherwise bytes, as `stock`
    stock: int
    entries: int  # in the stock

    @property
    def sent_again(self) -> Sent:
        """What came again, where nothing was acknowledged ever since."""
        again = max(0, self.messages * (self.sent - self.stock) // self.sent)
        circles = self.sent >= SKEWED * self.stock and self.messages >= SKEWED * self.entries
        return Sent(self.messages, 0, again, circles)


def _life(observed: Observed, batch: int) -> _Life | None:
    now, consumers = observed.now, observed.now.consumers or ()
    messages, sizes = _sum(consumers, "msg_out_counter"), _sum(consumers, "bytes_out_counter")
    if observed.type in SHARING:
        out = None if now.msg_in_replay is None else _out(now, batch)
        return _Life(messages, messages, out, 0) if messages and out else None
    stock, backlog = _backlog_bytes(observed.window.last.topic, now), observed.backlog.entries
    if not messages or not sizes or not stock or backlog is None:
        return None
    return _Life(messages, sizes, stock, max(0, backlog))


def _nothing_ever_acknowledged(now: SubscriptionStats) -> bool:
    """Whether that is certain, since the consumers connected."""
    consumers = now.consumers or ()
    stood = _stood(now, *(each.connected_since_ms for each in consumers))
    return stood and all(ACKED in each.never for each in consumers)


def _stood(now: SubscriptionStats, *since: int | None) -> bool:
    """Whether mark-delete has not moved since all of these moments."""
    moved = now.last_mark_delete_advanced_timestamp_ms
    known = moved is not None and all(each is not None and moved < each for each in since)
    return MARK_DELETED in now.never or known


def _starts_over(now: SubscriptionStats) -> bool:
    """By moments of one clock and by counters, so that one document tells it."""
    consumers, ever = now.consumers, now.msg_out_counter
    if not consumers:
        return consumers == () and bool(ever) and _stood(now, now.last_consumed_flow_timestamp_ms)
    sent = _sum(consumers, "msg_out_counter")
    before = sent is not None and ever is not None and ever > sent
    return before and _stood(now, *(each.connected_since_ms for each in consumers))


def _rounds(observed: Observed, batch: int) -> Rounds | None:
    """By the counters since the topic was loaded.

    If mark-delete has not moved since, and nothing after it is acknowledged, the backlog is all
    that can have been sent. Else it is that and what was published, and what was acknowledged of
    older messages is not counted. While nobody was sent any, bytes are compared: those of all that
    was published, where the whole backlog was published since.
    """
    now, backlog = observed.now, observed.backlog.entries
    ever, present = now.msg_out_counter, _sum(now.consumers or (), "msg_out_counter")
    sure = MARK_DELETED in now.never and observed.acknowledged_ranges == 0
    published = 0 if sure else observed.window.last.topic.msg_in_counter
    known = None not in (ever, present, published, now.consumers)
    if not known or observed.durable is False or backlog is None or backlog < 0:
        return None
    sent = (ever or 0) - (present or 0)
    times = sent // max(1, (published or 0) + backlog * batch)
    topic = observed.window.last.topic
    came, size = topic.bytes_in_counter, _backlog_bytes(topic, now)
    if not present and size and (sure or came is not None):
        whole = sure and came and (topic.msg_in_counter or 0) >= backlog
        there = max(came or 0, size) if whole else SKEWED * size + (0 if sure else came or 0)
        times = (now.bytes_out_counter or 0) // there
    sure = sure and _nothing_ever_acknowledged(now)
    return Rounds(times, sent, sure) if times >= ROUNDS else None


def _passes(observed: Observed, batch: int) -> bool:
    """Whether what waits is the last that was published, and little of what came in the window.

    Nothing behind mark-delete is acknowledged, so that all before what waits is.
    """
    published, waits, now = observed.published, observed.backlog.entries, observed.now
    expired = now.msg_rate_expired or observed.course.growth(attrgetter("total_msg_expired"))
    if published is None or waits is None or waits < 0 or observed.acknowledged_ranges != 0:
        return False
    return not expired and PASSES * waits * batch <= published


def _sent_in_window(
    observed: Observed, consumers: Sequence[ConsumerWindow], batch: int
) -> Sent | None:
    """What consumers that were there all the time were sent; None where it is not reported."""
    messages = _growth(observed, "msg_out_counter")
    silent = _no_ack_came(observed, consumers)
    entries = 0 if silent else acknowledged_entries(observed)
    if messages is None or entries is None:
        return None
    acknowledged, ends = entries * batch, (observed.window.first, observed.window.last)
    before, after = (_unread(each, observed.subscription, batch) for each in ends)
    if observed.type in SHARING:
        new = 0 if silent else _first_time(observed.published, before, batch)
        return _shared(observed, messages, acknowledged, new, batch)
    return _single(observed, messages, acknowledged, _read_on(observed, before, after) * batch)


def _before(observed: Observed, batch: int) -> Sent | None:
    """In the minute of the first sample's rates; the broker counts what its consumers gave back.

    Of a single active consumer it counts none of that.
    """
    first = observed.course.values[0]
    rates = first and (first.msg_rate_out, first.message_ack_rate, first.msg_rate_redeliver)
    if first is None or not rates or None in rates:
        return None
    sent, acked, again = (round((rate or 0) * MINUTE) for rate in rates)
    if observed.type not in SINGLE_ACTIVE or not _at_rest(observed, first):
        return Sent(sent, acked, again, in_circles=False)
    once = ((first.msg_backlog or 0) + acked) * batch
    return Sent(sent, acked, max(0, sent - once), in_circles=sent >= SKEWED * max(1, once))


def _at_rest(observed: Observed, first: SubscriptionStats) -> bool:
    """Whether nothing was acknowledged since the minute of the first sample's rates ended."""
    there, moved = first.consumers or (), first.last_mark_delete_advanced_timestamp_ms
    acked = [each.last_acked_timestamp_ms for each in there if ACKED not in each.never]
    last = acked if MARK_DELETED in first.never else [*acked, moved]
    since = observed.window.first.age(*last)
    known = None not in last and first.msg_backlog is not None
    return known and (not last or (since is not None and since.seconds >= MINUTE))


def _no_ack_came(observed: Observed, consumers: Sequence[ConsumerWindow]) -> bool:
    """Whether it is certain that nothing was acknowledged, or expired, within the window."""
    silent = all(each.acked is False or ACKED in each.now.never for each in consumers)
    stayed = observed.window.left(observed.subscription) == ()
    skipped = observed.course.passed("last_mark_delete_advanced_timestamp_ms")
    return bool(consumers) and silent and stayed and not skipped


def acknowledged_entries(observed: Observed) -> int | None:
    """Entries acknowledged (or expired, or skipped) in the window, at most; None: not reported."""
    if observed.window.first.internal and observed.window.last.internal:
        consumed = observed.cursor.growth(attrgetter("messages_consumed_counter"))
        if consumed is not None:
            return consumed
    return observed.backlog_lost


def _batch_most(consumers: Sequence[Course[ConsumerStats]]) -> int:
    """Messages in an entry, about the most, of consumers that were sent some."""
    seen = (each for course in consumers for each in course.values if each)
    sent = [each.entry_messages_most for each in seen if each.msg_out_counter != 0]
    known = [most for most in sent if most is not None]
    return max(known) if known and len(known) == len(sent) else UNTOLD_BATCH


def _backlog_bytes(topic: TopicStats, own: SubscriptionStats | None) -> int | None:
    """Bytes that the broker could send, about; None where not reported. Some tell sizes below 0."""
    waiting, whole = (
        [size for size in sizes if size is not None and size >= 0]
        for sizes in (
            (own.backlog_size if own else None, topic.backlog_size),
            (topic.storage_size,),
        )
    )
    return max(waiting or whole, default=None)


def _rewinds(observed: Observed) -> int:
    """How often the read position was seen to go back, while the same consumer was active."""
    if observed.course.moved(attrgetter("active_consumer_name")):
        return 0
    cursors = [cursor for cursor in observed.cursor.values if cursor is not None]
    seen = [cursor.read_position for cursor in cursors if cursor.read_position is not None]
    return sum(later < earlier for earlier, later in pairwise(seen))


def _shared(
    observed: Observed, messages: int, acknowledged: int, new: int, batch: int
) -> Sent | None:
    outs = [_out(each, batch) for each in observed.course.values if each]
    risen = [course.change(attrgetter("unacked_messages")) for course in observed.consumers]
    known = [out for out in outs if out is not None]
    if not known:
        return None
    given_back = messages - sum(change or 0 for change in risen) - acknowledged
    circles = messages > 2 * (acknowledged + max(known))
    again = min(given_back, messages - new)
    return Sent(messages, acknowledged, again, circles, given_back=max(0, given_back))


def _first_time(published: int | None, unread: int | None, batch: int) -> int:
    """Messages that may have been sent for the first time, at most: unread ones and new ones."""
    return UNTOLD_BATCH if published is None or unread is None else published + unread * batch


def _unread(sample: Sample, name: str, batch: int) -> int | None:
    """Entries that were not read yet in a sample, at most."""
    internal, cursor, subscription = sample.internal, sample.cursor(name), sample.subscription(name)
    if internal and cursor and cursor.read_position:
        return entries_from(cursor.read_position, internal)
    if subscription is None or subscription.msg_backlog is None:
        return None
    held = max(0, subscription.unacked_messages or 0) // batch
    return max(0, subscription.msg_backlog - held)


def _out(subscription: SubscriptionStats, batch: int) -> int | None:
    """Messages that consumers hold, or that wait to be sent again."""
    held = [consumer.unacked_messages for consumer in subscription.consumers or ()]
    if None in held:
        return None
    most = sum(max(0, messages or 0) for messages in held)
    return most + (subscription.msg_in_replay or 0) * batch


def _single(observed: Observed, messages: int, acknowledged: int, new: int) -> Sent | None:
    first = observed.window.first
    sizes = _growth(observed, "bytes_out_counter")
    came = observed.window.topic().growth(attrgetter("bytes_in_counter"))
    backlog = _backlog_bytes(first.topic, first.subscription(observed.subscription))
    back, again, circles = _rewinds(observed), 0, False
    if sizes and backlog and came is not None:
        stock = backlog + came
        again = max(0, messages * (sizes - stock) // sizes)
        circles = sizes >= SKEWED * stock
    elif not back:
        return None
    if back:
        again = max(again, messages - new)
    return Sent(messages, acknowledged, again, circles or back > 1)


def _read_on(observed: Observed, before: int | None, after: int | None) -> int:
    """Entries by which the read position is further on than at the start of the window."""
    ends = observed.window.first.internal, observed.window.last.internal
    counters = [each.entries_added_counter for each in ends if each is not None]
    if before is None or after is None or len(counters) < 2 or None in counters:
        return UNTOLD_BATCH
    added = (counters[1] or 0) - (counters[0] or 0)
    return max(0, before + added - after)


def _growth(observed: Observed, counter: Counter) -> int | None:
    """The growth of all consumers that were there all the time; None where there is none."""
    grown = [course.growth(attrgetter(counter)) for course in observed.consumers]
    known = [growth for growth in grown if growth is not None]
    return sum(known) if known else None


def _sum(consumers: Sequence[ConsumerStats], counter: Counter) -> int | None:
    values = [getattr(consumer, counter) for consumer in consumers]
    return None if None in values else sum(number or 0 for number in values)
