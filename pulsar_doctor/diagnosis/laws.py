"""How long messages may rest in each place; beyond that nobody calls the subscription healthy.

Each law answers for one place: messages that a consumer holds, those that could be sent, those
that nobody has, and, by a trace alone, what the wire does not show. It names what has rested for
longer, however unlikely a problem is. A number that is not reported breaks no law by itself, but
the consumers of a subscription whose messages wait have to be seen. Where nothing needs to move
(all is consumed, or nobody promised to consume it) only the laws of `AT_REST` hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from pulsar_doctor.broker.stats.observed import SHARING, SINGLE_ACTIVE
from pulsar_doctor.diagnosis.answers import ReaderRests, Rests, SilentHolder, Unknown
from pulsar_doctor.diagnosis.healthy import FIRST_ACK_WITHIN
from pulsar_doctor.diagnosis.probes import watching
from pulsar_doctor.diagnosis.thresholds import (
    FORGETS_FROM,
    PAUSE_SECONDS,
    QUIET_AFTER,
    Limits,
)
from pulsar_doctor.diagnosis.trace_laws import (
    dropped_meanwhile,
    end_not_shown,
    limit_not_on_the_wire,
    stored_and_not_sent,
)
from pulsar_doctor.evidence.account import is_quiet, with_nobody
from pulsar_doctor.evidence.circulation import Rounds
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least, told
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import say

SENT_AGAIN_SECONDS = 120.0  # after which what was given back has come again, as a rule
READS_ON = "if it is sent messages, it reads at its own pace"
NOT_WITH_ANYBODY = "acknowledged in a transaction that is open, or lost on the way"
ACKS_AGAIN_SECONDS = 300.0  # who has acknowledged before may take this long for the next time


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


def moves(consumer: ConsumerView, seconds: float = QUIET_AFTER.default) -> bool:
    """Whether it was seen to work: in its rhythm, at the end of the window, or so lately."""
    moved = consumer.moved and not consumer.quiet_at_least(PAUSE_SECONDS)
    return bool(consumer.works or moved or consumer.resting or _lately(consumer, seconds))


def _lately(consumer: ConsumerView, seconds: float) -> bool:
    """Whether it has certainly shown a sign of life within so long."""
    quiet = consumer.quiet_for
    return quiet is not None and quiet.exact and quiet.seconds < seconds


def _quiet(consumer: ConsumerView, within: float) -> bool:
    """Whether it has shown nothing for so long, and that is no rest of its rhythm."""
    return consumer.quiet_at_least(within) and not consumer.resting


def _held(consumer: ConsumerView) -> int:
    """Messages that it holds for certain."""
    return least(consumer.unacked_messages) or 0


# Messages that a consumer holds.


def _holder_is_silent(view: SubscriptionView, within: float) -> Iterator[SilentHolder]:
    """A consumer holds messages in silence, for longer than any pause of it that was seen.

    Averages of a life tell no rhythm: only of a steady worker are they one. Whoever allows more
    time than the default until the first acknowledgement allows it between two as well.
    """
    pause = within if within > FIRST_ACK_WITHIN.default else PAUSE_SECONDS
    found = (silent_holder(view, each, pause) for each in view.served)
    yield from (each for each in found if each is not None)


def silent_holder(view: SubscriptionView, each: ConsumerView, pause: float) -> SilentHolder | None:
    """That a consumer holds messages, and nothing of it has moved for so many seconds.

    While it is sent messages nothing tells that it takes none: then `_acks_stopped` holds.
    """
    if each.closed or moves(each, pause) or not each.quiet_at_least(pause):
        return None
    if held := _held(each):
        text = "{} holds {:messages}, and has taken and acknowledged nothing for {}"
        return SilentHolder(say(text, each.label, held, each.quiet_for), each.label)
    waits = _with_it_or_due(view, each) - max(0, view.published or 0)
    if waits > 0:
        text = (
            "{:entries} are with {} or could be sent to it, and it has taken and acknowledged "
            "nothing for {}"
        )
        return SilentHolder(say(text, waits, each.label, each.quiet_for), each.label)
    return None


def _queue_untouched(view: SubscriptionView, within: float) -> Iterator[SilentHolder]:
    """A consumer is sent messages, and its application takes none of its client's queue."""
    pause = within if within > FIRST_ACK_WITHIN.default else PAUSE_SECONDS
    found = (queue_untouched(each, pause) for each in view.served)
    yield from (each for each in found if each is not None)


def queue_untouched(each: ConsumerView, pause: float) -> SilentHolder | None:
    """That messages have been in its queue for so many seconds, and it has worked on none.

    A client sends FLOW once its application has taken half of its queue. A sink that acknowledges
    late takes messages all the same.
    """
    worked = each.since_work
    if worked is None or worked.seconds < max(pause, each.usual_silence):
        return None
    if each.closed or each.resting or not (queued := each.left_untaken(pause)):
        return None
    text = (
        "{:messages} or more have been in the queue of {} for {} or more, and it has taken and"
        " acknowledged none for {}"
    )
    return SilentHolder(say(text, queued, each.label, duration(pause), worked), each.label)


def _with_it_or_due(view: SubscriptionView, each: ConsumerView) -> int:
    """Entries that are in one of two places, both of which rest while it has permits.

    Statistics do not report what a single active consumer holds.
    """
    if view.type not in SINGLE_ACTIVE or not each.may_receive_throughout or view.backlog is None:
        return 0
    return max(0, view.backlog.entries or 0)


def _never_acknowledged(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """A consumer has held messages for long, and has never acknowledged any.

    It may work on its first messages, or wait for its first checkpoint. A consumer that has ended
    will not acknowledge any more.
    """
    for each in view.served:
        kept, since = view.kept_by(each), each.holds_since
        if not kept or not each.never_acked or each.resting:
            continue
        if each.closed:
            text = "{} ended while it held {:messages}, and acknowledged none"
            yield Rests(say(text, each.label, kept), each.label)
        elif since is not None and since.seconds >= within:
            text = "{} has held {:messages} for {}, and acknowledged none"
            yield Rests(say(text, each.label, kept, since), each.label)


def _gives_back(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """A consumer is sent messages, has acknowledged none for long, and does not keep them.

    It fails on each of them, or they expire while it holds them.
    """
    for each in view.served:
        there, sent = each.connected_for, each.since_last_delivery
        lately = sent is None or not sent.exact or sent.seconds < max(within, SENT_AGAIN_SECONDS)
        if each.gave_back >= FORGETS_FROM and there and there.seconds >= within and lately:
            text = (
                "{} has acknowledged none of the {:messages} that it was sent, and holds {}: "
                "it gives them back, or they expire"
            )
            numbers = each.msg_out_counter, each.unacked_messages
            yield Rests(say(text, each.label, *numbers), each.label)


def _sent_over_and_over(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """What waits was sent several times to consumers that have left, and nobody acknowledged it."""
    if (rounds := rounds_of(view, within)) is not None:
        text = (
            "{:messages} were sent to consumers that have left, at least {} times all that could be"
            " sent, and the present ones have acknowledged none"
        )
        yield Rests(say(text, rounds.sent, rounds.times))


def rounds_of(view: SubscriptionView, within: float) -> Rounds | None:
    """How often messages went round; None where the former consumers may have acknowledged lately.

    A consumer that has just been restarted has acknowledged none yet.
    """
    rounds = view.circulation.rounds if view.circulation is not None else None
    moved = view.since_mark_delete
    lately = rounds and not rounds.sure and (moved is None or moved.seconds < within)
    return None if lately else rounds


def _acks_stopped(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """A consumer acknowledged messages long ago, none since, and holds some that are not new.

    Its checkpoints may lie that far apart, or its acknowledgements have stopped.
    """
    within = max(ACKS_AGAIN_SECONDS, within)
    for each in view.served:
        if kept := kept_without_ack(view, each, within):
            text = "{} has acknowledged nothing for {}, though it holds at least {:older messages}"
            yield Rests(say(text, each.label, each.since_last_ack, kept), each.label)


def kept_without_ack(view: SubscriptionView, each: ConsumerView, within: float) -> int:
    """Older messages that it holds, at least, if its last ack is that old; otherwise 0."""
    since = each.since_last_ack
    long_ago = since is not None and since.seconds >= within
    return _not_new(view, each, within) if long_ago and not each.resting else 0


def _not_new(view: SubscriptionView, each: ConsumerView, within: float) -> int:
    """Messages that a consumer has held since before the window, or `within` seconds, at least.

    Statistics do not report what a single active consumer holds. While it has permits it was sent
    the backlog, or the broker has stopped reading. A few messages may all have come with the last
    delivery.
    """
    held, since = _held(each), each.holds_since
    if since is not None and since.exact:
        return held if since.seconds >= within else 0
    held = max(held, _with_it_or_due(view, each))
    if view.watched:  # of a long window a part is as old as that
        share = min(1.0, within / view.watched_seconds) if view.watched_seconds else 1.0
        held -= math.ceil((each.delivered or 0) * share)
    sent = each.since_last_delivery
    long_ago = sent is not None and sent.seconds >= FIRST_ACK_WITHIN.default
    return max(0, held) if held >= FORGETS_FROM or long_ago else 0


def _held_without_backlog(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """No message waits by the backlog, and a silent consumer holds some by its own counter.

    They expired or were skipped while it held them, or one of the counters is wrong. A few may have
    been sent between the broker's two counts; many count where nothing tells when it moved.
    """
    for each in () if view.durable is False or view.backlog is None else view.served:
        held, still = _held(each), _quiet(each, within)
        untold = each.quiet_for is None and not (view.watched or view.msg_rate_out)
        if (held and still) or (untold and held >= FORGETS_FROM):
            since = say(" and has not moved for {}", each.quiet_for) if still else ""
            text = (
                "{} holds {:messages}{}, but the backlog is 0: they expired or were skipped, or a"
                " counter is wrong"
            )
            yield Rests(say(text, each.label, held, since), each.label)


def _counted_below_zero(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """The broker miscounts unacknowledged messages, so nothing is known of what consumers hold.

    Where the backlog is 0, the consumers' own numbers suffice. Source: apache/pulsar #26416, #5755.
    """
    counted, consumers = told(view.unacked), view.consumers
    known = consumers is not None and None not in [each.unacked_messages for each in consumers]
    if counted is not None and counted < 0 and not (view.nothing_to_move and known):
        yield Rests(
            f"the broker counts {counted} unacknowledged messages, so what its consumers hold is "
            "not known"
        )


# Messages that could be sent.


def _due_and_still(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """Entries could be sent, a consumer has permits, and nothing moves.

    Entries that came within the window may be sent next, so only older ones count. The dispatcher
    waits for delayed messages and for open transactions by design.
    """
    watched, left = view.watched_seconds or 0, view.left
    due = (least(left) or 0) - max(0, view.backlog_change or 0)
    waits_by_design = told(view.delayed) or view.held_by_transaction
    if STATS not in view.sources or due <= 0 or watched < QUIET_AFTER.default or waits_by_design:
        return
    moved = view.delivered != 0 or any(each.moved is not False for each in view.served)
    ready = [each.label for each in view.served if each.may_receive_throughout]
    if ready and not moved:
        text = "{:entries} could be sent and {} has permits, but nothing moved within {}"
        yield Rests(say(text, due, ready[0], duration(watched)))


def _nobody_asks(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """Entries could be sent, no consumer has permits, and no consumer holds a message to ask after.

    A consumer asks again once its application has taken what it holds. One that holds nothing has
    lost its permits, or nobody calls receive.
    """
    due = least(view.left) or 0
    empty = [each for each in view.served if each.without_permits and each.holds_nothing]
    still = all(_quiet(each, within) for each in empty)
    if STATS in view.sources and due > 0 and empty and still and len(empty) == len(view.served):
        text = "{:entries} could be sent, and {} has had no permits and held nothing for {} or more"
        yield Rests(say(text, due, empty[0].label, duration(within)))


def _never_above_zero(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """Permits are below zero, and all that a consumer holds cannot bring them back."""
    for each in () if view.nothing_to_send_for_sure else view.served:
        if each.beyond_help and not each.moved:
            yield Rests(
                f"{each.label} is at {each.available_permits} permits and holds "
                f"{each.unacked_messages} messages, too few to bring them back",
                each.label,
            )


def _reader_rests(view: SubscriptionView, within: float) -> Iterator[ReaderRests]:
    """Messages wait for a reader, at the broker or in its queue, and none is sent.

    A reader acknowledges what its application reads. At the end of the topic it rests by design.
    """
    waits, sent = view.backlog.entries if view.backlog else None, view.since_delivery
    none_held = all(each.holds_nothing for each in view.served)
    if view.consumers is None or not waits or (view.nothing_left and none_held):
        return
    if any(each.works or _lately(each, QUIET_AFTER.default) for each in view.served):
        return
    still = view.delivered == 0 and (view.watched_seconds or 0) >= QUIET_AFTER.default
    long = sent is not None and sent.seconds >= PAUSE_SECONDS and not view.delivered
    if still or long:
        first = next(iter(view.served), None)
        since = say(" for {}", sent) if sent is not None else ""
        acked = first.since_last_ack if first else None
        last = say("; its last ack came {} ago", acked) if acked is not None else ""
        where = " in its queue" if view.nothing_left else ""
        text = "a reader stands still: {:entries} wait{}, and none was sent{}{}"
        decide = watching(view, READS_ON)
        yield ReaderRests(
            say(text, waits, where, since, last), first.label if first else None, decide
        )


# Messages that nobody has, as far as anybody sees.


def _not_seen(view: SubscriptionView, within: float) -> Iterator[Unknown]:
    """Messages may wait, and who would take them is not reported."""
    if view.consumers is None and view.attended is not False:
        yield Unknown("its consumers are not reported")


def _left_behind(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """By a trace: the last consumer has left, and messages wait.

    That is no stall for certain: a consumer may be attached by a way that the trace does not see.
    Whoever has only just left may be about to return, or was ended together with the trace.
    """
    left = view.left_behind
    if left is not None and left.seconds >= QUIET_AFTER.default:
        are = "message is" if left.unacked == 1 else "messages are"
        unacked = f"at least {left.unacked} {are} unacknowledged" if left.unacked else ""
        published = "messages were published and sent to no consumer" if left.published else ""
        yield Rests(
            f"no consumer is attached since {left.last} left {duration(left.seconds)} ago, and "
            f"{' and '.join(filter(None, (unacked, published)))}; whether another consumer is "
            "attached is not in the trace"
        )


def _nobody_has_it(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """Entries were read, and no consumer holds them: a place in which nothing may rest.

    While anything moves, numbers of two moments look like that. What is acknowledged in an open
    transaction may rest: `uncommitted-acks` tells for how long.
    """
    if view.type not in SHARING or not is_quiet(view) or view.pending_acks:
        return
    fewest = least(with_nobody(view)) or 0
    if fewest > 0:
        text = "{:entries} were read and no consumer holds them: {}"
        yield Rests(say(text, fewest, NOT_WITH_ANYBODY))


Law = Callable[[SubscriptionView, float], Iterator[Unknown]]
AT_REST: tuple[Law, ...] = (_held_without_backlog, _counted_below_zero, dropped_meanwhile)
READERS: tuple[Law, ...] = (
    _not_seen,
    _reader_rests,
    _nobody_asks,
    _never_above_zero,
    _counted_below_zero,
)
LAWS: tuple[Law, ...] = (
    _not_seen,
    _holder_is_silent,
    _queue_untouched,
    _never_acknowledged,
    _gives_back,
    _sent_over_and_over,
    _acks_stopped,
    _due_and_still,
    _nobody_asks,
    _never_above_zero,
    _counted_below_zero,
    limit_not_on_the_wire,
    stored_and_not_sent,
    end_not_shown,
    _left_behind,
    _nobody_has_it,
    dropped_meanwhile,
)
