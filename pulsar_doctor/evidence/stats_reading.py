"""The broker's reads for a subscription, by its stats and internal stats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

from pulsar_doctor.broker.stats.internal import CursorStats, InternalStats
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.broker.stats.positions import unread_of
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.evidence.reading import BrokerReads, ReadState

DUE, PERHAPS_DUE = 5.0, 60.0  # seconds without a delivery, where one is due or may be
ReadSample = tuple[Sample, InternalStats, CursorStats]


def reads_of(observed: Observed) -> BrokerReads | None:
    """The broker's reading; None where nothing is left to send, or there is no ledger to read."""
    left = observed.left
    if observed.persistent is False or (left is not None and left.most == 0):
        return None
    observed = _since_the_last_delivery(observed)
    moved, window = _moved(observed), observed.window
    told = [] if moved else list(_told(observed))
    return BrokerReads(
        moved=moved,
        states=tuple(_state(observed, each) for each in told),
        seconds=_seconds(observed, told) if told else None,
        newest=bool(told) and told[-1][0] is window.last,
        position=_position(told[-1][2]) if told else None,
        extended=len({internal.last_confirmed_entry for _, internal, _ in (*told[:1], *told[-1:])})
        > 1,
        samples=len(window.samples),
        window_seconds=(window.span_least_ms or 0) / 1000,
        came=window.topic().growth(attrgetter("msg_in_counter")),
        switched=bool(observed.course.moved(attrgetter("active_consumer_name"))),
        open_transactions=window.last.topic.ongoing_txn_count,
    )


def _since_the_last_delivery(observed: Observed) -> Observed:
    """As its last samples show it, where nothing has been sent since the first of these.

    Only where something waits for certain, or for long: otherwise a moment without a delivery is
    ordinary. On Key_Shared what waits may be for a consumer that is busy.
    """
    window, left = observed.window, observed.left
    waits = left is not None and left.least > 0 and observed.type != "Key_Shared"
    least, since = DUE if waits else PERHAPS_DUE, _seconds_without_delivery(observed)
    if not _moved(observed) or (since is not None and since < least):
        return observed
    still = 1
    while not _moved(_last(observed, still + 1)):
        still += 1
    if since is None:
        since = window.seconds_since(len(window.samples) - still) or 0
        if not observed.now.msg_rate_out and not window.is_short:
            since = least  # it may be that long ago
    return observed if since < least else _last(observed, still)


def _seconds_without_delivery(observed: Observed) -> float | None:
    since = observed.window.last.age(observed.now.last_consumed_timestamp_ms)
    return since.seconds if since is not None and since.exact else None


def _last(observed: Observed, samples: int) -> Observed:
    """The same by its last samples alone."""
    window = observed.window
    return replace(observed, window=replace(window, given=window.given[-samples:]))


def _moved(observed: Observed) -> bool:
    """Whether the broker read, or tried to send: that leaves its moment where nothing could be.

    Where the read position is not told over time, mark-delete may have moved with it (an entry
    filter); where it is told and stands, mark-delete shows acks of what was delivered before.
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


def _told(observed: Observed) -> Iterator[ReadSample]:
    """The samples that report where the cursor reads, or whether a read is pending."""
    for sample in observed.window.samples:
        internal, cursor = sample.internal, sample.cursor(observed.subscription)
        if internal is None or cursor is None:
            continue
        if cursor.read_position is not None or cursor.subscription_have_pending_read is not None:
            yield sample, internal, cursor


def _state(observed: Observed, told: ReadSample) -> ReadState:
    sample, internal, cursor = told
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


def _seconds(observed: Observed, told: Sequence[ReadSample]) -> float | None:
    """From the first of them to the last; None where that is not told."""
    first, last = told[0][0], told[-1][0]
    clock = first.now_told and last.now_told
    if clock and first.now_ms is not None and last.now_ms is not None:
        return (last.now_ms - first.now_ms) / 1000
    window = observed.window
    if window.interval_ms is not None:
        return (len(told) - 1) * window.interval_ms / 1000
    return window.seconds_since(window.samples.index(first)) if last is window.last else None


def _position(cursor: CursorStats) -> str | None:
    position = cursor.read_position
    return None if position is None else f"{position[0]}:{position[1]}"
