"""Observations of one consumer: its permits, what it holds, its signs of life."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.diagnosis.observing import Clues, Found, observed_by
from pulsar_doctor.diagnosis.thresholds import IN_HAND, LONG_SECONDS, PAUSE_SECONDS
from pulsar_doctor.evidence.ack_wait import acks_to_release
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView, replay_waits
from pulsar_doctor.evidence.values import exact, least, most
from pulsar_doctor.wording.durations import duration

APART_MS = 30_000  # by so much a neighbour's sign of life is later


@dataclass(frozen=True, slots=True)
class _Everybody:
    """The consumers of a subscription together, read at once: there may be thousands."""

    count: int
    held: int  # messages, at most
    idle: Sequence[ConsumerView]
    liveliest: Sequence[tuple[Age, ConsumerView]]  # the two with the youngest signs of life
    called: Mapping[str, Sequence[ConsumerView]]


@dataclass(frozen=True, slots=True)
class _Of:
    """One consumer beside the others of its subscription."""

    view: SubscriptionView
    everybody: _Everybody
    consumer: ConsumerView
    silent: bool  # a check names its silence: what it is sent is no sign of life


def of_consumers(
    view: SubscriptionView, silent: Collection[str | None] = ()
) -> list[tuple[ConsumerView, Clues]]:
    """Every served consumer with its clues by key. silent: labels of silent ones."""
    everybody = _everybody(view.consumers or ())
    return [
        (each, observed_by(OBSERVERS, _Of(view, everybody, each, each.label in silent), each))
        for each in view.served
    ]


def _everybody(there: Sequence[ConsumerView]) -> _Everybody:
    signs = ((_sign(each), each) for each in there)
    known = ((age, each) for age, each in signs if age is not None)
    called: dict[str, list[ConsumerView]] = {}
    for each in there:
        if each.name:
            called.setdefault(each.name, []).append(each)
    return _Everybody(
        count=len(there),
        held=sum(most(each.unacked_messages) or 0 for each in there),
        idle=[each for each in there if each.may_receive and each.holds_nothing],
        liveliest=nsmallest(2, known, key=lambda sign: sign[0].ms),
        called=called,
    )


def _permits(of: _Of) -> Found:
    each = of.consumer
    if each.below_zero:
        yield "below_zero"
    elif each.without_permits:
        yield "no_permits"
    elif (least(each.available_permits) or 0) > 0:
        yield "has_permits"
    if of.view.gone is None and of.everybody.count < 2:
        yield "no_standby"
    elif of.view.gone is None and (least(each.available_permits) or 0) > 0:
        yield "active_ready"
    fewest = least(each.available_permits)
    if fewest is not None and fewest >= 0:
        yield "not_below_zero"
    if each.without_permits and each.holds_nothing and not each.surely_singly:
        yield "empty_handed"
    if each.never_sent_flow:
        yield "never_asked"


def _held(of: _Of) -> Found:
    held, each = least(of.consumer.unacked_messages) or 0, of.consumer
    if each.holds_nothing:
        yield "holds_nothing"
    elif held > IN_HAND.default:
        yield "holds_many"
    elif most(each.unacked_messages) == 1:
        yield "holds_one"
    elif held:
        yield "holds_some"
    if each.holds_nothing and _has_sent_flow(each):
        yield "took_all"
    if each.one_by_one and not each.holds_nothing:
        yield "holds_requested"


def _has_sent_flow(each: ConsumerView) -> bool:
    """Whether it is known that a FLOW came."""
    sent = (least(each.permits_granted) or 0) > 0 or (least(each.msg_out_counter) or 0) > 0
    return sent or bool(each.flows)


def _share(of: _Of) -> Found:
    each, idle, others = of.consumer, of.everybody.idle, of.everybody.count > 1
    held = least(each.unacked_messages) or 0
    total = held + of.everybody.held - (most(each.unacked_messages) or 0)
    if held > 1 and 2 * held >= total and idle and of.view.type == "Shared":
        more = f" and {len(idle) - 1} more have" if len(idle) > 1 else " has"
        idle_ones = f"{idle[0].label}{more}"
        yield "neighbours_idle", {"held": held, "total": total, "idle_ones": idle_ones}
    elif held and others and not idle:
        yield "neighbours_busy"
    if others and 4 * held < total:
        yield "small_share", {"held": held, "total": total}


def _acks(of: _Of) -> Found:
    each = of.consumer
    sent = exact(each.msg_out_counter) or least(each.unacked_messages) or 0
    if each.never_acked and sent > IN_HAND.default:
        yield "never_acked_many", {"sent": sent}
    elif each.never_acked and sent > 1:
        yield "never_acked", {"sent": sent}
    elif each.never_acked is False:
        yield "acked_ever" if each.since_last_ack is None else "has_acked"
    lately = each.since_last_ack is None or each.since_last_ack.seconds < PAUSE_SECONDS
    if each.acked and lately:
        yield "acks_lately"
    if (
        exact(each.permits_granted) is not None
        and each.permits_granted == each.receiver_queue_size
        and sent > 1
    ):
        yield "one_flow"


def _limit(of: _Of) -> Found:
    each, held = of.consumer, least(of.consumer.unacked_messages) or 0
    if each.blocked_consumer_on_unacked_msgs is False:
        yield "flag_free"
    if each.blocked_consumer_on_unacked_msgs:
        release = each.acks.until(acks_to_release(held, each.max_unacked_messages_per_consumer))
        soon = release.seconds is not None and release.seconds <= PAUSE_SECONDS
        if not (soon and (not each.watched or (each.acked and each.delivered))):
            yield "flag_blocked"
    elif (
        each.max_unacked_messages_per_consumer
        and held >= each.max_unacked_messages_per_consumer / 2
    ):
        yield "near_limit", {"held": held}


def _silence(of: _Of) -> Found:
    each = of.consumer
    untouched = each.since_work if of.silent else None
    quiet = untouched or each.quiet_for
    if quiet is None:
        return
    if quiet.seconds >= LONG_SECONDS:
        yield "untouched_long" if untouched else "quiet_long"
    elif quiet.seconds >= PAUSE_SECONDS:
        yield "untouched_some" if untouched else "quiet_some"
    elif quiet.exact:
        yield "lively"
    usual = each.pace_most
    if usual is not None and quiet.seconds > 4 * usual + 5:
        yield "untouched_unusual" if untouched else "unusual", {"usual": duration(usual)}


def _beside(of: _Of) -> Found:
    """Neighbours as a clock: what they did since its last sign."""
    own = _sign(of.consumer)
    others = [sign for sign in of.everybody.liveliest if sign[1] is not of.consumer]
    if own is None or not others:
        return
    newest, who = others[0]
    if own.ms - newest.ms >= APART_MS:
        apart = duration((own.ms - newest.ms) / 1000)
        yield "neighbour_later", {"neighbour": who.label, "apart": apart}


def _sign(each: ConsumerView) -> Age | None:
    """Since it last did something by itself: an ack or a FLOW."""
    signs = [age for age in (each.since_last_ack, each.since_last_flow) if age is not None]
    return min(signs, key=lambda age: age.ms, default=each.connected_for)


def _motion(of: _Of) -> Found:
    each, seconds = of.consumer, of.view.watched_seconds
    if each.acked:
        yield "acks_come"
    elif each.moved is False and seconds and seconds >= PAUSE_SECONDS:
        yield "still", {"seconds": duration(seconds)}
    if each.last_request is not None:
        yield "asks"
    if each.works and not of.silent:
        yield "works"


def _ahead(of: _Of) -> Found:
    each = of.consumer
    if not each.without_permits or each.holds_nothing:  # who holds none asks when it likes
        return
    least_, most_ = each.seconds_until_sending_least, each.seconds_until_sending_most
    measured = each.seconds_until_sending
    if max(measured or 0, least_) > LONG_SECONDS:
        yield "flow_far"
    elif measured is not None and measured > PAUSE_SECONDS:
        yield "flow_later"
    elif any(wait is not None and wait <= PAUSE_SECONDS for wait in (measured, most_)):
        yield "flow_soon"
    elif most_ is not None and most_ > LONG_SECONDS:
        yield "flow_may_be_far"


def _queue(of: _Of) -> Found:
    each = of.consumer
    if each.batch_for_one:
        yield "batch_for_one"
    if each.asks_singly:
        yield "asks_singly", {"asks": "asks" if each.surely_singly else "may ask"}
    if (each.largest_batch or 0) > 1 and each.below_zero:
        yield "batches"
    age = each.connected_for
    if age is not None and age.exact and age.seconds < 2 * PAUSE_SECONDS:
        yield "young"
    owed, threshold = least(each.permits_owed) or 0, each.refill_threshold
    if threshold and owed > 0:
        yield "owes_flow" if owed > threshold else "owes_little"
    if (least(each.receiver_queue_size) or 0) > 1:
        yield "queues_several"
    if (exact(each.available_permits) or 0) > 1:
        yield "several_permits"
    known = each.unacked_messages is not None and exact(each.permits_granted) is not None
    if known and not (each.batch_for_one or each.one_by_one):
        yield "no_batch_for_one"
    exactly = exact(each.permits_owed)
    if exactly is not None and threshold and exactly < threshold:
        yield "owes_few"


def _in_hand(of: _Of) -> Found:
    own = of.consumer.in_hand
    if own is not None and own.messages > max(IN_HAND.default, own.finished):
        yield "in_hand", {"taken": own.messages}


def _keys(of: _Of) -> Found:
    each, view = of.consumer, of.view
    if view.type != "Key_Shared":
        return
    replay = exact(view.replay) or 0
    if each.keys_wait or (each.draining_hashes is not None and each.draining_hashes.hashes):
        yield "keys_drain"
    elif replay and not each.holds_nothing and not each.may_receive:
        yield "replay_waits", {"replay": replay, "waits": replay_waits(view.type)}
    if each.waits_from is not None:
        yield "joined_late"


def _namesake(of: _Of) -> Found:
    each = of.consumer
    same = of.everybody.called.get(each.name or "", ())
    newer = [
        c
        for c in same
        if c is not each
        and c.connected_for
        and each.connected_for
        and c.connected_for.ms < each.connected_for.ms
    ]
    if newer:
        yield "namesake"


OBSERVERS: tuple[Callable[[_Of], Found], ...] = (
    _permits, _held, _share, _acks, _limit, _silence, _beside, _motion, _ahead, _queue, _in_hand,
    _keys, _namesake,
)  # fmt: skip
