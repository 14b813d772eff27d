"""The share of redeliveries, by the broker's stats.

The broker counts what it sends, not what comes back. What follows from the counters of the window:

*Given back*: sent, less what is now more unacknowledged than before, less what was acknowledged.
Acknowledged entries are 0 where no ack came; otherwise the cursor or the backlog counts them, and
how many messages they held is known about only. Then also what could be sent for the first time is
held against it: what came in, and what was unread.

*In circles*: whatever was sent is acknowledged, unacknowledged, or waits to be sent again. Where
more than twice all of that was sent, some of it was sent three times.

On Exclusive and Failover nothing counts as unacknowledged. There bytes are compared: the backlog
and what came in are all that can be sent. Also the read position goes back with each redelivery,
and with nothing else as long as the consumer stays connected and active.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Literal

from pulsar_doctor.broker.stats.observed import SHARING, Observed
from pulsar_doctor.broker.stats.positions import entries_from
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats
from pulsar_doctor.broker.stats.window import consumers_of, identity
from pulsar_doctor.evidence.circulation import Circulation, Sent
from pulsar_doctor.evidence.standing import gone_by_backlog
from pulsar_doctor.evidence.stats_consumer import ConsumerFacts

Counter = Literal["msg_out_counter", "bytes_out_counter"]
UNTOLD_BATCH = 1_000_000  # messages in an entry, where the broker does not tell
SKEWED = 3  # times: the size of a backlog is an estimate by the average size of entries


def circulation_of(observed: Observed, consumers: Sequence[ConsumerFacts]) -> Circulation:
    """What the counters tell of it."""
    last, now = observed.window.last, observed.now.consumers or ()
    since = [each.connected_since_ms for each in now]
    return Circulation(
        window=sent_in_window(observed, consumers),
        life=sent_in_life(observed),
        gone=came_and_left(observed),
        at_most_twice=at_most_twice(observed),
        ever_sent=_ever_sent(observed),
        last_delivery=last.age(*(each.last_consumed_timestamp_ms for each in now)),
        begun=last.age(min((moment for moment in since if moment is not None), default=None)),
        span_seconds=None if not observed.window.span_ms else observed.window.span_ms / 1000,
        rate_redeliver=observed.now.msg_rate_redeliver,
        rate_out=observed.now.msg_rate_out,
    )


def _ever_sent(observed: Observed) -> int | None:
    """Messages since the topic was loaded, or the consumers connected; 0 where nobody is there."""
    now, own = observed.now.consumers, observed.now.msg_out_counter
    if now is None:
        return own
    to_them = _sum(list(now), "msg_out_counter")
    return to_them if to_them is None or own is None or not now else max(to_them, own)


def sent_in_window(observed: Observed, consumers: Sequence[ConsumerFacts]) -> Sent | None:
    """By the consumers that were there all the time; None where it is not told."""
    messages = _growth(observed, "msg_out_counter")
    silent = no_ack_came(observed, consumers)
    entries = 0 if silent else acknowledged_entries(observed)
    if messages is None or entries is None:
        return None
    acknowledged = entries * batch_most(observed)
    if observed.type in SHARING:
        new = 0 if silent else _first_time(observed)
        return _shared(observed, messages, acknowledged, new)
    return _single(observed, messages, acknowledged)


def sent_in_life(observed: Observed) -> Sent | None:
    """Since the consumers connected, where nothing was acknowledged ever since; otherwise None."""
    now = list(observed.now.consumers or ())
    life = _life(observed)
    if life is None or not _nothing_ever_acknowledged(observed.now, now):
        return None
    again = max(0, life.messages * (life.sent - life.stock) // life.sent)
    circles = life.sent >= SKEWED * life.stock and life.messages >= SKEWED * life.entries
    return Sent(life.messages, 0, again, circles)


def at_most_twice(observed: Observed) -> bool:
    """Whether all that the consumers were ever sent may have been sent to them twice at most."""
    life = _life(observed)
    return life is not None and life.sent <= 2 * life.stock


@dataclass(frozen=True, slots=True)
class _Life:
    """What the consumers were sent since they connected, and what there is to send."""

    messages: int
    sent: int  # messages on Shared and Key_Shared, otherwise bytes, as `stock`
    stock: int
    entries: int  # in the stock


def _life(observed: Observed) -> _Life | None:
    now = list(observed.now.consumers or ())
    messages, sizes = _sum(now, "msg_out_counter"), _sum(now, "bytes_out_counter")
    if observed.type in SHARING:
        out = None if observed.now.msg_in_replay is None else _out(observed, observed.window.last)
        return _Life(messages, messages, out, 0) if messages and out else None
    stock, backlog = backlog_bytes(observed, observed.window.last), observed.backlog.entries
    if not messages or not sizes or not stock or backlog is None:
        return None
    return _Life(messages, sizes, stock, max(0, backlog))


def came_and_left(observed: Observed) -> int:
    """Consumers that came and left again within the window, were sent messages, and never acked.

    0 where anybody whom the window shows has acknowledged, or mark-delete moved in it.
    """
    samples, name = observed.window.samples, observed.subscription
    seen = [each for sample in samples for each in consumers_of(sample, name) or ()]
    moved = samples[-1].age(observed.now.last_mark_delete_advanced_timestamp_ms)
    lately = moved is not None and moved.ms <= (observed.window.span_ms or 0)
    if lately or not all("last_acked_timestamp_ms" in each.never for each in seen):
        return 0
    there = {identity(each) for each in consumers_of(samples[0], name) or ()}
    gone = observed.window.left(name) or ()
    return sum(bool(each.msg_out_counter) and identity(each) not in there for each in gone)


def no_ack_came(observed: Observed, consumers: Sequence[ConsumerFacts]) -> bool:
    """Whether it is certain that nothing was acknowledged, or expired, within the window."""
    silent = all(s.acked is False or "last_acked_timestamp_ms" in s.now.never for s in consumers)
    stayed = observed.window.left(observed.subscription) == ()
    skipped = observed.course.passed("last_mark_delete_advanced_timestamp_ms")
    return bool(consumers) and silent and stayed and not skipped


def acknowledged_entries(observed: Observed) -> int | None:
    """Entries acknowledged (or expired, or skipped) in the window, at most; None: not told."""
    if observed.window.first.internal and observed.window.last.internal:
        consumed = observed.cursor.growth(lambda cursor: cursor.messages_consumed_counter)
        if consumed is not None:
            return consumed
    return gone_by_backlog(observed)


def batch_most(observed: Observed) -> int:
    """Messages in an entry, about the most; the broker rounds its average."""
    seen = [consumer for course in observed.consumers for consumer in course.values if consumer]
    averages = [consumer.avg_messages_per_entry for consumer in seen]
    told = [average for average in averages if average is not None]
    if not told or len(told) < len(averages):
        return UNTOLD_BATCH
    return 1 if max(told) <= 1 else 2 * max(told)


def backlog_bytes(observed: Observed, sample: Sample) -> int | None:
    """Bytes that the broker could send, about; None where not told. Some tell sizes below 0."""
    topic, subscription = sample.topic, sample.subscription(observed.subscription)
    own = subscription.backlog_size if subscription else None
    waiting, whole = (
        [size for size in sizes if size is not None and size >= 0]
        for sizes in ((own, topic.backlog_size), (topic.storage_size,))
    )
    return max(waiting or whole, default=None)


def rewinds(observed: Observed) -> int:
    """How often the read position was seen to go back, while the same consumer was active."""
    if observed.course.moved(lambda subscription: subscription.active_consumer_name):
        return 0
    cursors = [cursor for cursor in observed.cursor.values if cursor is not None]
    seen = [cursor.read_position for cursor in cursors if cursor.read_position is not None]
    return sum(later < earlier for earlier, later in pairwise(seen))


def _shared(observed: Observed, messages: int, acknowledged: int, new: int) -> Sent | None:
    outs = [_out(observed, sample) for sample in observed.window.samples]
    risen = [course.change(lambda c: c.unacked_messages) for course in observed.consumers]
    told = [out for out in outs if out is not None]
    if not told:
        return None
    given_back = messages - sum(change or 0 for change in risen) - acknowledged
    circles = messages > 2 * (acknowledged + max(told))
    return Sent(messages, acknowledged, min(given_back, messages - new), circles)


def _first_time(observed: Observed) -> int:
    """Messages that may have been sent for the first time, at most: unread ones and new ones."""
    added = observed.window.topic().growth(lambda topic: topic.msg_in_counter)
    unread = _unread(observed, observed.window.first)
    if added is None or unread is None:
        return UNTOLD_BATCH
    return added + unread * batch_most(observed)


def _unread(observed: Observed, sample: Sample) -> int | None:
    """Entries that were not read yet in a sample, at most."""
    internal, cursor = sample.internal, sample.cursor(observed.subscription)
    if internal and cursor and cursor.read_position:
        return entries_from(cursor.read_position, internal)
    subscription = sample.subscription(observed.subscription)
    if subscription is None or subscription.msg_backlog is None:
        return None
    held = max(0, subscription.unacked_messages or 0) // batch_most(observed)
    return max(0, subscription.msg_backlog - held)


def _out(observed: Observed, sample: Sample) -> int | None:
    """Messages that consumers hold, or that wait to be sent again."""
    subscription = sample.subscription(observed.subscription)
    if subscription is None:
        return None
    held = [consumer.unacked_messages for consumer in subscription.consumers or ()]
    if None in held:
        return None
    most = sum(max(0, messages or 0) for messages in held)
    return most + (subscription.msg_in_replay or 0) * batch_most(observed)


def _single(observed: Observed, messages: int, acknowledged: int) -> Sent | None:
    sizes = _growth(observed, "bytes_out_counter")
    came = observed.window.topic().growth(lambda topic: topic.bytes_in_counter)
    backlog = backlog_bytes(observed, observed.window.first)
    back, again, circles = rewinds(observed), 0, False
    if sizes and backlog and came is not None:
        stock = backlog + came
        again = max(0, messages * (sizes - stock) // sizes)
        circles = sizes >= SKEWED * stock
    elif not back:
        return None
    if back:
        again = max(again, messages - _read_on(observed) * batch_most(observed))
    return Sent(messages, acknowledged, again, circles or back > 1)


def _read_on(observed: Observed) -> int:
    """Entries by which the read position is further on than at the start of the window."""
    first, last = observed.window.first.internal, observed.window.last.internal
    before, after = (_unread(observed, s) for s in (observed.window.first, observed.window.last))
    counters = [i.entries_added_counter for i in (first, last) if i is not None]
    if before is None or after is None or len(counters) < 2 or None in counters:
        return UNTOLD_BATCH
    added = (counters[1] or 0) - (counters[0] or 0)
    return max(0, before + added - after)


def _growth(observed: Observed, counter: Counter) -> int | None:
    """Of all consumers that were there all the time; None where there is none."""
    grown = [course.growth(attrgetter(counter)) for course in observed.consumers]
    told = [growth for growth in grown if growth is not None]
    return sum(told) if told else None


def _sum(consumers: list[ConsumerStats], counter: Counter) -> int | None:
    told = [getattr(consumer, counter) for consumer in consumers]
    return None if None in told else sum(number or 0 for number in told)


def _nothing_ever_acknowledged(
    subscription: SubscriptionStats, consumers: list[ConsumerStats]
) -> bool:
    since = [consumer.connected_since_ms for consumer in consumers]
    moved = subscription.last_mark_delete_advanced_timestamp_ms
    never = "last_mark_delete_advanced_timestamp_ms" in subscription.never
    stood = never or (moved is not None and all(s is not None and moved < s for s in since))
    return stood and all("last_acked_timestamp_ms" in c.never for c in consumers)
