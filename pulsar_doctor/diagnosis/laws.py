"""How long messages may rest in each place; beyond that nobody calls the subscription healthy.

Each law answers for one place: messages that a consumer holds, those that could be sent, those
that nobody has, and, by a trace alone, what the wire does not show. It names what has rested for
longer, however unlikely a problem is. A number that is not reported breaks no law by itself, but
the consumers of a subscription with waiting messages have to be seen. Where nothing needs to move
(all is consumed, or nobody promised to consume it) only the laws of `AT_REST` hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pulsar_doctor.broker.stats.observed import SHARING
from pulsar_doctor.diagnosis.answers import ReaderRests, Rests, Unknown
from pulsar_doctor.diagnosis.holder_laws import (
    HOLDERS,
    acks_again,
    acks_stopped,
    counted_below_zero,
    held_without_backlog,
    lately,
    quiet,
)
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.probes import watching
from pulsar_doctor.diagnosis.restart_laws import in_vain
from pulsar_doctor.diagnosis.subscription_clues import MINUTE_OLD_SECONDS
from pulsar_doctor.diagnosis.thresholds import (
    FIRST_ACK_WITHIN,
    IN_HAND,
    PAUSE_SECONDS,
    QUIET_AFTER,
    Limits,
)
from pulsar_doctor.diagnosis.trace_laws import (
    dropped_meanwhile,
    end_not_shown,
    later_and_later,
    left_behind,
    limit_not_on_the_wire,
    stored_and_not_sent,
)
from pulsar_doctor.evidence.account import left_with_nobody
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import exact, least, most
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import say

READS_ON = "if it is sent messages, it reads at its own pace"
ACKS_AGAIN = "if it acknowledges any, it reads at its own pace"
NOT_WITH_ANYBODY = "acknowledged in a transaction that is open, or lost on the way"


def resting(view: SubscriptionView, limits: Limits) -> Iterator[Unknown]:
    """What has rested for longer than its place allows. limits: of `healthy`."""
    reader = view.keeps_nothing and view.own is None
    laws = READERS if reader else LAWS
    for law in AT_REST if _nothing_waits(view, reader=reader) else laws:
        yield from law(view, limits[FIRST_ACK_WITHIN.name])


def _nothing_waits(view: SubscriptionView, *, reader: bool) -> bool:
    """Whether all is acknowledged, or the cursor is the broker's own."""
    if reader:
        return view.backlog is not None and view.backlog.empty is True
    return view.nothing_to_move


def _due_and_still(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """Entries could be sent, a consumer has permits, and nothing moves.

    Entries that came within the window may be sent next, so only older ones count. The dispatcher
    waits for delayed messages and for open transactions by design.
    """
    watched, left = view.watched_seconds or 0, view.left
    due = (least(left) or 0) - max(0, view.backlog_change or 0)
    waits_by_design = exact(view.delayed) or view.held_by_transaction
    if STATS not in view.sources or due <= 0 or watched < QUIET_AFTER.default or waits_by_design:
        return
    moved = view.delivered != 0 or any(each.moved is not False for each in view.served)
    ready = [each for each in view.served if each.may_receive_throughout]
    if ready and not moved:
        yield Rests(worded("due_and_still", ready[0], due=due, within=duration(watched)))


def _only_newer_ones_move(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """No more was sent than was published meanwhile, and more than that was due all the time.

    A consumer that has permits is sent the oldest first. Where mark-delete moves, or a limit holds
    reads back, they are on their way.
    """
    due = (least(view.left) or 0) - max(0, view.backlog_change or 0)
    stood = view.since_mark_delete
    held_back = view.held_by_transaction or (view.throttling and view.throttling.lately)
    if view.type not in SHARING or held_back or most(view.delayed) != 0 or not view.sends_only_new:
        return
    if due > IN_HAND.default and stood is not None and stood.seconds >= within:
        yield Rests(worded("only_newer_move", view, due=due, where=NOT_WITH_ANYBODY))


def _nobody_asks(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """Entries could be sent, no consumer has permits, and no consumer holds a message to ask after.

    A consumer asks again once its application has taken what it holds. One that holds nothing has
    lost its permits, or nobody calls receive. On Key_Shared nobody else is sent its keys.
    """
    due = least(view.left) or 0
    empty = [each for each in view.served if each.without_permits and each.holds_nothing]
    alike = len(empty) == len(view.served) or view.type == "Key_Shared"
    still = all(quiet(each, within) for each in view.served)
    if STATS in view.sources and due > 0 and empty and still and alike:
        yield Rests(worded("nobody_asks", empty[0], due=due, within=duration(within)))


def _never_above_zero(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """Permits are below zero, and all that a consumer holds cannot bring them back."""
    for each in () if view.nothing_to_send_for_sure else view.served:
        if each.beyond_help and not each.moved:
            yield Rests(worded("below_zero_for_good", each), each.label)


def _reader_rests(view: SubscriptionView, within: float) -> Iterator[ReaderRests]:
    """Messages wait for a reader, at the broker or in its queue, and none is sent.

    A reader acknowledges what its application reads. At the end of the topic it rests by design.
    """
    waits, sent = view.backlog.entries if view.backlog else None, view.since_delivery
    none_held = all(each.holds_nothing for each in view.served)
    if view.consumers is None or not waits or (view.nothing_left and none_held):
        return
    if any(each.works or lately(each, QUIET_AFTER.default) for each in view.served):
        return
    still = view.delivered == 0 and (view.watched_seconds or 0) >= QUIET_AFTER.default
    may_be_long = sent is not None and (sent.seconds >= PAUSE_SECONDS or not sent.exact)
    if still or (may_be_long and not view.delivered):
        first = next(iter(view.served), None)
        acked, who = (first.since_last_ack, first.label) if first else (None, None)
        where = " in its queue" if view.nothing_left else ""
        reason = worded("reader_rests", view, waits=waits, where=where, last=acked)
        yield ReaderRests(reason, who, watching(view, READS_ON))


def _reader_reads_none(view: SubscriptionView, within: float) -> Iterator[ReaderRests]:
    """A reader that acknowledged what its application read does so no more, and is sent more."""
    awake = (each for each in view.served if each.works or lately(each, QUIET_AFTER.default))
    for each in awake:  # of others `_reader_rests` speaks
        if stopped := acks_stopped(view, each, acks_again(view, each, within)):
            text = say("a reader stands still: {}", stopped.reason)
            yield ReaderRests(text, each.label, watching(view, ACKS_AGAIN))


# Messages that nobody has, as far as anybody sees.


def _not_seen(view: SubscriptionView, within: float) -> Iterator[Unknown]:
    """Messages may wait, and who would take them is not reported."""
    if view.consumers is None and view.attended is not False:
        yield Unknown("its consumers are not reported")


def _type_not_reported(view: SubscriptionView, within: float) -> Iterator[Unknown]:
    """Metrics report neither the type nor acknowledged ranges: who holds what waits is not known.

    The oldest messages of one consumer are on their way while mark-delete moves, unless it could
    have been sent many more all the time. Of several, one may hold what the others could take.
    """
    known = view.type is not None or view.ranges is not None
    if STATS in view.sources and not known and not _one_moves_on(view):
        yield Unknown("its type and its acknowledged ranges are not reported")


def _one_moves_on(view: SubscriptionView) -> bool:
    stood, waits = view.since_mark_delete, view.backlog.entries if view.backlog else None
    if len(view.served) != 1 or not view.watched or stood is None or waits is None:
        return False
    many = waits > max(IN_HAND.default, view.delivered or 0)
    held_back = many and view.served[0].may_receive_throughout
    return stood.exact and stood.seconds < QUIET_AFTER.default and not held_back


def _nobody_has_it(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """Entries were read, and no consumer holds them: a place in which nothing may rest.

    While anything moves, numbers of two moments differ like that. What is acknowledged in an open
    transaction may rest: `uncommitted-acks` tells for how long.
    """
    fewest = left_with_nobody(view) or int(acked_past(view))
    if fewest and not view.pending_acks:
        yield Rests(worded("with_nobody", view, entries=fewest, where=NOT_WITH_ANYBODY))


def acked_past(view: SubscriptionView) -> bool:
    """Whether an entry was passed over all the last full minute, and nobody has it at its end.

    Acknowledgements of that minute did not move mark-delete, so they are of later entries.
    """
    stood, acks = view.since_mark_delete, view.message_ack_rate or 0
    passed = acks > 0 and stood is not None and stood.seconds >= MINUTE_OLD_SECONDS
    none_held = bool(view.served) and all(each.holds_nothing for each in view.served)
    return passed and none_held and view.type in SHARING and most(view.delayed) == 0


Law = Callable[[SubscriptionView, float], Iterator[Unknown]]


AT_REST: tuple[Law, ...] = (held_without_backlog, counted_below_zero, dropped_meanwhile)
READERS: tuple[Law, ...] = (
    _not_seen,
    _reader_rests,
    _reader_reads_none,
    _nobody_asks,
    _never_above_zero,
    counted_below_zero,
)
LAWS: tuple[Law, ...] = (
    _not_seen,
    *HOLDERS,
    in_vain,
    _due_and_still,
    _only_newer_ones_move,
    _nobody_asks,
    _never_above_zero,
    counted_below_zero,
    limit_not_on_the_wire,
    stored_and_not_sent,
    end_not_shown,
    later_and_later,
    left_behind,
    _nobody_has_it,
    _type_not_reported,
    dropped_meanwhile,
)
