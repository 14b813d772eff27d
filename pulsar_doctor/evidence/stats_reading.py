"""The broker's reads for a subscription, and what holds them back, by its stats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter

from pulsar_doctor.broker.stats.internal import CursorStats, InternalStats
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.broker.stats.positions import unread_of
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.evidence.broker_counts import HeldBack, Throttling
from pulsar_doctor.evidence.reading import BrokerReads, ReadState

COUNTERS = tuple(
    (owner, f"dispatch_throttled_{what}_events_by_{owner}_limit")
    for owner in ("subscription", "topic", "broker")
    for what in ("msg", "bytes")
)
STEPS_LEAST = 4  # samples
READ = attrgetter(*(counter for _, counter in COUNTERS))
DUE, PERHAPS_DUE = 5.0, 60.0  # seconds without a delivery, where one is due or may be
ReadSample = tuple[Sample, InternalStats, CursorStats]


def reads_of(observed: Observed) -> BrokerReads | None:
    """The broker's reading; None where nothing is left to send, or there is no ledger to read."""
    left = observed.left
    if observed.persistent is False or (left is not None and left.most == 0):
        return None
    moved = _moved(observed)
    if moved:
        whole, observed = observed, _since_the_last_delivery(observed)
        moved = observed is whole
    window = observed.window
    samples = [] if moved else list(_read_samples(observed))
    return BrokerReads(
        moved=moved,
        states=tuple(_state(observed, each) for each in samples),
        seconds=_seconds(window, samples) if samples else None,
        newest=bool(samples) and samples[-1][0] is window.last,
        position=_position(samples[-1][2]) if samples else None,
        extended=len(
            {internal.last_confirmed_entry for _, internal, _ in (*samples[:1], *samples[-1:])}
        )
        > 1,
        samples=len(window.samples),
        window_seconds=(window.span_least_ms or 0) / 1000,
        came=observed.published,
        switched=bool(observed.course.moved(attrgetter("active_consumer_name"))),
    )


def _since_the_last_delivery(observed: Observed) -> Observed:
    """One that moved as its last samples show it, where nothing was sent since the first of these.

    Only where something waits for certain, or for long: otherwise a moment without a delivery is
    ordinary. On Key_Shared what waits may be for another consumer, which is busy.
    """
    window, left = observed.window, observed.left
    keyed = observed.type == "Key_Shared" and len(observed.consumers) > 1
    waits = left is not None and left.least > 0 and not keyed
    least, sent = DUE if waits else PERHAPS_DUE, observed.since_delivery
    since = sent.seconds if sent is not None and sent.exact else None
    if since is not None and since < least:
        return observed
    still = 1
    while not _moved(_last(observed, still + 1)):
        still += 1
    if since is None:
        since = window.seconds_since(len(window.samples) - still) or 0
        if not observed.now.msg_rate_out and not window.is_short:
            since = least  # it may be that long ago
    return observed if since < least else _last(observed, still)


def _last(observed: Observed, samples: int) -> Observed:
    """The same by its last samples alone."""
    window = observed.window
    return replace(observed, window=replace(window, given=window.given[-samples:]))


def _moved(observed: Observed) -> bool:
    """Whether the broker read, or tried to send: that leaves its moment where nothing could be.

    Where the read position is not reported over time, mark-delete may have moved with it (an entry
    filter); where it is reported and constant, mark-delete shows acks of what was delivered before.
    """
    course = observed.course
    sent = course.growth(attrgetter("msg_out_counter"))
    each = (consumer.growth(attrgetter("msg_out_counter")) for consumer in observed.consumers)
    if sent or any(each) or course.passed("last_consumed_timestamp_ms"):
        return True
    read = observed.cursor.moved(attrgetter("read_position"))
    if read is not None:
        return read
    return bool(course.passed("last_mark_delete_advanced_timestamp_ms"))


def _read_samples(observed: Observed) -> Iterator[ReadSample]:
    """The samples that report where the cursor reads, or whether a read is pending."""
    for sample in observed.window.samples:
        internal, cursor = sample.internal, sample.cursor(observed.subscription)
        if internal is None or cursor is None:
            continue
        if cursor.read_position is not None or cursor.subscription_have_pending_read is not None:
            yield sample, internal, cursor


def _state(observed: Observed, read: ReadSample) -> ReadState:
    sample, internal, cursor = read
    subscription = sample.subscription(observed.subscription)
    replay = subscription.msg_in_replay if subscription else None
    alone = observed.type in SINGLE_ACTIVE
    return ReadState(
        pending=cursor.subscription_have_pending_read,
        replaying=False if alone else cursor.subscription_have_pending_replay_read,
        under_way=cursor.pending_read_ops,
        waits=cursor.waiting_read_op,
        unread=unread_of(internal, cursor),
        replay=0 if alone else replay,
    )


def _seconds(window: Window, samples: Sequence[ReadSample]) -> float | None:
    """Seconds from the first of them to the last; None where that is not known."""
    first, last = samples[0][0], samples[-1][0]
    clock = first.now_known and last.now_known
    if clock and first.now_ms is not None and last.now_ms is not None:
        return (last.now_ms - first.now_ms) / 1000
    if window.interval_ms is not None:
        return (len(samples) - 1) * window.interval_ms / 1000
    return window.seconds_since(window.samples.index(first)) if last is window.last else None


def _position(cursor: CursorStats) -> str | None:
    position = cursor.read_position
    return None if position is None else f"{position[0]}:{position[1]}"


def throttling_of(observed: Observed) -> Throttling | None:
    """The counters of throttled reads; None where the broker has none (before 4.0)."""
    counts = [count for count in READ(observed.now) if count is not None]
    if not counts:
        return None
    lately = _lately(observed) if any(counts) else ()
    return Throttling(sum(counts), lately, _ready(observed) if lately else 0.0)


def _lately(observed: Observed) -> tuple[HeldBack, ...]:
    grown = (
        (owner, counter, observed.course.growth(attrgetter(counter))) for owner, counter in COUNTERS
    )
    return tuple(HeldBack(owner, counter, reads) for owner, counter, reads in grown if reads)


def _ready(observed: Observed) -> float:
    """In which share of the samples a consumer could receive."""
    listed = [each.consumers for each in observed.course.values if each]
    ready = [any(map(_may_receive, consumers)) for consumers in listed if consumers]
    return sum(ready) / len(ready) if ready else 0.0


def sent_less(observed: Observed) -> bool:
    """Whether the broker sent less, in every step of the window, than waited and than the permits.

    On Key_Shared what waits may be for others. A single active consumer holds what it was ever
    sent, at most.
    """
    course = observed.course.values
    if (
        observed.type not in ("Shared", *SINGLE_ACTIVE)
        or len(course) < STEPS_LEAST
        or None in course
    ):
        return False
    steps = list(pairwise(filter(None, course)))
    sends = any(a.msg_out_counter != b.msg_out_counter for a, b in steps)
    return sends and all(_less(observed.type, a, b) for a, b in steps)


def _less(kind: str | None, before: SubscriptionStats, after: SubscriptionStats) -> bool:
    """In one step: fewer messages than permits, though there were as many entries."""
    out = [sum(c.msg_out_counter or 0 for c in each.consumers or ()) for each in (before, after)]
    permits = sum(c.available_permits or 0 for c in before.consumers or () if _may_receive(c))
    held = before.unacked_messages if kind == "Shared" else out[0]
    if before.msg_backlog is None or held is None or before.blocked_subscription_on_unacked_msgs:
        return False
    waits = before.msg_backlog - (before.msg_delayed or 0) - max(0, held)
    return 0 < permits <= waits and 0 <= out[1] - out[0] < permits


def _may_receive(consumer: ConsumerStats) -> bool:
    return (consumer.available_permits or 0) > 0 and not consumer.blocked_consumer_on_unacked_msgs
