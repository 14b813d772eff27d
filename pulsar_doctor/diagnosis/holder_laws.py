"""Laws of messages that a consumer holds: how long they may rest with it.

Averages of a life tell no rhythm: only of a steady worker are they one. Whoever allows more time
than the default until the first acknowledgement allows it between two as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE
from pulsar_doctor.broker.stats.window import MINUTE
from pulsar_doctor.diagnosis.answers import Rests, SilentHolder
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.progress import stood_for
from pulsar_doctor.diagnosis.thresholds import (
    FIRST_ACK_WITHIN,
    FORGETS_FROM,
    IN_HAND,
    PAUSE_SECONDS,
    QUIET_AFTER,
)
from pulsar_doctor.evidence.ack_wait import UNUSUAL
from pulsar_doctor.evidence.balance import LONGEST_BURST
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.in_hand import FAR_SLOWER
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import exact, least
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import many
from pulsar_doctor.wording.sentences import Sentence, say

SENT_AGAIN_SECONDS = 120.0  # after which what was given back has come again, as a rule
STEADY = 2.0  # times the life until the last ack, which a sink of a steady period is never silent
SENT_EVENLY = 0.75  # of what comes in so long, where it is sent some all the time
CHANCE = 3.0  # standard deviations of a count, which chance hardly ever brings
ACKS_AGAIN_SECONDS = 300.0  # who has acknowledged before may take this long for the next time


def moves(consumer: ConsumerView, seconds: float = QUIET_AFTER.default) -> bool:
    """Whether it was seen to work: in its rhythm, at the end of the window, or so lately."""
    moved = consumer.moved and not consumer.quiet_at_least(PAUSE_SECONDS)
    return bool(consumer.works or moved or consumer.resting or lately(consumer, seconds))


def lately(consumer: ConsumerView, seconds: float) -> bool:
    """Whether it has certainly shown a sign of life within so long."""
    quiet = consumer.quiet_for
    return quiet is not None and quiet.exact and quiet.seconds < seconds


def quiet(consumer: ConsumerView, within: float) -> bool:
    """Whether it has shown nothing for so long, and that is no rest in the rhythm."""
    return consumer.quiet_at_least(within) and not consumer.resting


def _holder_is_silent(view: SubscriptionView, within: float) -> Iterator[SilentHolder]:
    """A consumer holds messages in silence, for longer than any pause of it that was seen."""
    pause = within if within > FIRST_ACK_WITHIN.default else PAUSE_SECONDS
    for each in view.served:
        if found := silent_holder(view, each, pause) or queue_untouched(each, pause):
            yield found


def silent_holder(view: SubscriptionView, each: ConsumerView, pause: float) -> SilentHolder | None:
    """That a consumer holds messages, and nothing of it has moved for so many seconds.

    While it is sent messages nothing tells that it takes none: then `_acks_stopped` holds.
    """
    if each.closed or moves(each, pause) or not each.quiet_at_least(pause):
        return None
    if held := each.holds:
        return SilentHolder(worded("held_in_silence", each, held=held), each.label)
    waits = with_it_or_due(view, each) - max(0, view.published or 0)
    if waits > 0:
        return SilentHolder(worded("held_or_due_in_silence", each, waits=waits), each.label)
    return None


def queue_untouched(each: ConsumerView, pause: float) -> SilentHolder | None:
    """That messages have been in its queue for so many seconds, and it has worked on none.

    A client sends FLOW once its application has taken half of the queue. A sink that acknowledges
    late takes messages all the same.
    """
    worked = each.since_work
    if worked is None or worked.seconds < max(pause, each.usual_silence):
        return None
    if each.closed or each.resting or not (queued := each.left_untaken(pause)):
        return None
    reason = worded("queue_untouched", each, queued=queued, pause=duration(pause))
    return SilentHolder(reason, each.label)


def with_it_or_due(view: SubscriptionView, each: ConsumerView) -> int:
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
            yield Rests(worded("ended_holding", each, held=kept), each.label)
        elif since is not None and since.seconds >= within:
            yield Rests(worded("held_unacked", each, held=kept), each.label)
        elif (long := _sent_first(each)) >= within:
            none = worded("never_acked", each, sent=kept)
            yield Rests(say("{} in about {}", none, duration(long)), each.label)


def _sent_first(each: ConsumerView) -> float:
    """Seconds since it was sent its first message, about, by its pace; 0: not known.

    That is the pace of a full minute, which may have ended up to a minute ago, unless it was sent
    messages at that pace for nearly all its life.
    """
    there, lasted = each.connected_for, each.sent_for
    if there is None or lasted is None:
        return 0.0
    return lasted if lasted >= SENT_EVENLY * there.seconds else max(0.0, lasted - MINUTE)


def _gives_back(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """A consumer is sent messages, has acknowledged none for long, and does not keep them.

    It fails on each of them, or they expire while it holds them.
    """
    for each in view.served:
        there, sent = each.connected_for, each.since_last_delivery
        lately = sent is None or not sent.exact or sent.seconds < max(within, SENT_AGAIN_SECONDS)
        if each.gave_back >= FORGETS_FROM and there and there.seconds >= within and lately:
            reason = say("{}: it gives them back, or they expire", worded("given_back", each))
            yield Rests(reason, each.label)


def _acks_have_stopped(view: SubscriptionView, within: float) -> Iterator[SilentHolder]:
    """A consumer acknowledged messages long ago, none since, and holds some that are not new."""
    found = (acks_stopped(view, each, acks_again(view, each, within)) for each in view.served)
    yield from (each for each in found if each is not None)


def acks_again(view: SubscriptionView, each: ConsumerView, within: float) -> float:
    """Seconds in which it has to acknowledge: by gaps that were seen, else as between checkpoints.

    A sink of a steady period is silent for no longer than it was there before its last ack. Whoever
    allows more time than the default until the first one allows it between two as well.
    """
    if within > FIRST_ACK_WITHIN.default:
        return max(ACKS_AGAIN_SECONDS, within)
    if each.ack_gap is not None:
        return min(ACKS_AGAIN_SECONDS, max(PAUSE_SECONDS, UNUSUAL * each.ack_gap))
    since, acked_for = each.holds_since, each.acked_for
    old = view.watched or (since is not None and since.exact) or each.held_in_silence(within)
    if acked_for is None or not (old or _sent_before(view, each, within)):
        return ACKS_AGAIN_SECONDS
    return min(ACKS_AGAIN_SECONDS, max(within, STEADY * acked_for))


def acks_stopped(
    view: SubscriptionView, each: ConsumerView, within: float, more_than: int = 0
) -> SilentHolder | None:
    """That its last ack is that old, and it holds so many older messages.

    Its checkpoints may lie that far apart, or its acknowledgements have stopped.
    """
    since = each.since_last_ack
    if since is None or since.seconds < within or each.resting:
        return None
    if (kept := _not_new(view, each, within)) <= more_than:
        return None
    return SilentHolder(worded("acks_stopped", each, kept=kept), each.label)


def _keeps_longer(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """A consumer acknowledges, and left messages behind that took longer to come than a burst.

    After a checkpoint only those are left that came since. A worker that is sent far more than it
    finishes falls behind, though no silence of it is long.
    """
    longest = max(LONGEST_BURST, within)
    for each in view.served:
        since, rate = each.since_last_ack, each.msg_rate_out or 0.0
        outpaced = rate > FAR_SLOWER * (each.message_ack_rate or 0.0)
        if since is None or not since.exact or not outpaced or view.pending_acks:
            continue
        older = _sent_before(view, each, since.seconds)
        if older >= longest * rate:
            kept = duration(older / rate)
            yield Rests(worded("keeps_longer", each, older=round(older), kept=kept), each.label)


def _sent_before(view: SubscriptionView, each: ConsumerView, seconds: float) -> float:
    """Messages that it holds and was sent longer ago than that; 0: no more than workers have."""
    older = _older(view, each, seconds)
    return older if older > IN_HAND.default else 0.0


def _older(view: SubscriptionView, each: ConsumerView, seconds: float) -> float:
    """Messages that it holds and was sent longer ago than that, about, at the rate of now.

    0 where it was sent more a second before, or where chance may have brought that many.
    """
    rate, batch = each.msg_rate_out or 0.0, max(1, (each.entry_messages_most or 0) // 2)
    if rate < SENT_EVENLY * (sent_at(each) or math.inf):
        return 0.0
    older = max(each.holds, with_it_or_due(view, each) * batch) - rate * seconds
    return older if older > 1 + CHANCE * math.sqrt(rate * seconds) else 0.0


def _rests_beside_others(view: SubscriptionView, within: float) -> Iterator[SilentHolder]:
    """A consumer holds older messages in silence while others acknowledge as they go."""
    pause = within if within > FIRST_ACK_WITHIN.default else PAUSE_SECONDS
    for each, text in rest_beside_others(view, pause):
        yield SilentHolder(text, each.label)


def rest_beside_others(
    view: SubscriptionView, pause: float, more_than: int = 0
) -> Iterator[tuple[ConsumerView, Sentence]]:
    """Who has held more messages than that for so many seconds while the others work, and how.

    Sinks that acknowledge at checkpoints rest together, and of others one sees no rhythm. One job
    of minutes among short ones is the same from outside. Of many others one document shows as well
    how far apart their acks are: by how old the last ones are at one moment.
    """
    pauses = {each.number: each.unusual_after for each in view.served}
    known = {each.number: age for each in view.served if (age := each.since_last_ack) and age.exact}
    ages = {number: age.seconds for number, age in known.items() if age.seconds < PAUSE_SECONDS}
    if by_many := not view.watched and len(ages) > IN_HAND.default:
        pauses |= dict.fromkeys(pauses) | dict.fromkeys(ages, UNUSUAL * max(ages.values()))
    others = [each for each in view.served if pauses[each.number] is not None]
    usual = max((each.usual_silence for each in others), default=0.0)
    until = max(pause, usual, *(pauses[each.number] or 0.0 for each in others))
    for each in view.served if others else ():
        shown = view.watched or by_many or each.message_ack_rate == 0
        beside = pauses[each.number] is None and shown
        kept = each.held_in_silence(until) if beside else 0
        if kept > more_than:
            times = {"kept": kept, "until": duration(until)}
            they = many(len(others), "other consumer")
            yield each, worded("rests_beside_others", each, **times, others=they)


def _not_new(view: SubscriptionView, each: ConsumerView, within: float) -> int:
    """Messages that a consumer has held since before the window, or `within` seconds, at least.

    Statistics do not report what a single active consumer holds. While it has permits it was sent
    the backlog, or the broker has stopped reading. A few messages may all have come with the last
    delivery, unless they are far more than come in that time, or the oldest is that old.
    """
    held, since = each.holds, each.holds_since
    if since is not None and since.exact:
        return held if since.seconds >= within else 0
    held = max(held, with_it_or_due(view, each))
    if view.watched:  # of a long window a part is as old as that
        share = min(1.0, within / view.watched_seconds) if view.watched_seconds else 1.0
        held -= math.ceil((each.delivered or 0) * share)
    if held <= 0:
        return 0
    sent = each.since_last_delivery
    long_ago = sent is not None and sent.seconds >= FIRST_ACK_WITHIN.default
    old = long_ago or held >= FORGETS_FROM or stood_for(view) >= within
    return held if old or _older(view, each, within) > 0 else 0


def sent_in_silence(view: SubscriptionView, each: ConsumerView, within: float, kept: int) -> bool:
    """Whether it took and acknowledged nothing for so long, and was sent messages all that time.

    What it holds is more than one batch, and about as many as came since at the rate of now; while
    it has permits, perhaps more. If it was idle before, it may have begun on a first job just now.
    Without permits it is sent none now: by what comes in, or at its rate while it was sent some.
    Delayed messages that fall due come at once beside those that are published all the time.
    """
    worked, sent, full = each.since_work, each.since_last_delivery, each.without_permits
    rates = (view.msg_rate_in, sent_at(each)) if full else (each.msg_rate_out,)
    if worked is None or sent is None or worked.seconds < within:
        return False
    came = [rate * max(0.0, worked.seconds - sent.seconds) for rate in rates if rate]
    enough = max(IN_HAND.default, each.entry_messages_most or 0)
    evenly = any(
        SENT_EVENLY * some < kept and not (full and SENT_EVENLY * kept > some) for some in came
    )
    lately, usual = each.msg_rate_out or 0.0, SENT_EVENLY * (view.msg_rate_in or math.inf)
    if not full and lately >= usual and worked.seconds > 2 * MINUTE:
        evenly |= usual * (worked.seconds - MINUTE) < kept - lately * MINUTE
    silent = not (each.message_ack_rate or each.resting or each.closed)
    return kept > enough and evenly and silent


def sent_at(each: ConsumerView) -> float | None:
    """Messages a second from its start to its last delivery; None: nothing tells."""
    life, last, sent = each.connected_for, each.since_last_delivery, least(each.msg_out_counter)
    if life is None or last is None or not sent:
        return None
    return sent / max(1.0, life.seconds - last.seconds)


def held_without_backlog(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """No message waits by the backlog, and a silent consumer holds some by its own counter.

    They expired or were skipped while it held them, or one of the counters is wrong. A few may have
    been sent between the broker's two counts; many count where nothing tells when it moved.
    """
    for each in () if view.durable is False or view.backlog is None else view.served:
        held, still = each.holds, quiet(each, within)
        untold = each.quiet_for is None and not (view.watched or view.msg_rate_out)
        if (held and still) or (untold and held >= FORGETS_FROM):
            since = each.quiet_for if still else None
            yield Rests(worded("held_without_backlog", each, held=held, since=since), each.label)


def counted_below_zero(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """The broker miscounts unacknowledged messages, so nothing is known of what consumers hold.

    Where the backlog is 0, the consumers' own numbers suffice. Source: apache/pulsar #26416, #5755.
    """
    counted, consumers = exact(view.unacked), view.consumers
    known = consumers is not None and None not in [each.unacked_messages for each in consumers]
    if counted is not None and counted < 0 and not (view.nothing_to_move and known):
        yield Rests(worded("counted_below_zero", view))


HOLDERS = (
    _holder_is_silent,
    _never_acknowledged,
    _gives_back,
    _acks_have_stopped,
    _keeps_longer,
    _rests_beside_others,
)
