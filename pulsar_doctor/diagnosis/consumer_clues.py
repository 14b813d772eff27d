"""Observations of one consumer: its permits, what it holds, its signs of life."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.diagnosis.clues import Clues, Found, observed_by
from pulsar_doctor.diagnosis.thresholds import IN_HAND, LONG_SECONDS, PAUSE_SECONDS
from pulsar_doctor.evidence.ack_wait import acks_to_release
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView, replay_waits
from pulsar_doctor.evidence.values import least, most, told
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


def of_consumers(view: SubscriptionView) -> list[tuple[ConsumerView, Clues]]:
    """Those that are served, each with its clues by key."""
    everybody = _everybody(view.consumers or ())
    return [(each, observed_by(OBSERVERS, _Of(view, everybody, each))) for each in view.served]


def _everybody(there: Sequence[ConsumerView]) -> _Everybody:
    signs = ((_sign(each), each) for each in there)
    told = ((age, each) for age, each in signs if age is not None)
    called: dict[str, list[ConsumerView]] = {}
    for each in there:
        if each.name:
            called.setdefault(each.name, []).append(each)
    return _Everybody(
        count=len(there),
        held=sum(most(each.unacked_messages) or 0 for each in there),
        idle=[each for each in there if each.may_receive and each.holds_nothing],
        liveliest=nsmallest(2, told, key=lambda sign: sign[0].ms),
        called=called,
    )


def _permits(of: _Of) -> Found:
    each, name = of.consumer, "available_permits"
    who = f"{each.label} has {each.available_permits} permits"
    if each.below_zero:
        yield "below_zero", name, who
    elif each.without_permits:
        yield "no_permits", name, who
    elif (least(each.available_permits) or 0) > 0:
        yield "has_permits", name, who
    if each.without_permits and each.holds_nothing and not each.surely_singly:
        text = f"{each.label} holds nothing and has no permits, as if its client had lost them"
        yield "empty_handed", name, text
    if each.never_asked:
        yield "never_asked", "flows", f"{each.label} has never asked for a message"


def _held(of: _Of) -> Found:
    each, name = of.consumer, "unacked_messages"
    if each.unacked_messages is None:
        return
    who = f"{each.label} holds {each.unacked_messages} messages"
    if each.holds_nothing:
        yield "holds_nothing", name, f"{each.label} holds nothing"
    elif (least(each.unacked_messages) or 0) > IN_HAND.default:
        yield "holds_many", name, who
    elif most(each.unacked_messages) == 1:
        yield "holds_one", name, who
    elif least(each.unacked_messages):
        yield "holds_some", name, who


def _share(of: _Of) -> Found:
    each, idle, others = of.consumer, of.everybody.idle, of.everybody.count > 1
    held = least(each.unacked_messages) or 0
    total = held + of.everybody.held - (most(each.unacked_messages) or 0)
    if held > 1 and 2 * held >= total and idle and of.view.type == "Shared":
        more = f" and {len(idle) - 1} more have" if len(idle) > 1 else " has"
        yield (
            "neighbours_idle",
            "idle_neighbours",
            f"{each.label} holds {held} of {total} messages, {idle[0].label}{more} nothing to do",
        )
    elif held and others and not idle:
        yield "neighbours_busy", "idle_neighbours", "no other consumer is idle"
    if others and 4 * held < total:
        text = f"{each.label} holds only {held} of {total} messages"
        yield "small_share", "unacked_messages", text


def _acks(of: _Of) -> Found:
    each, name = of.consumer, "since_last_ack"
    sent = told(each.msg_out_counter) or least(each.unacked_messages) or 0
    if each.never_acked and sent > IN_HAND.default:
        text = f"{each.label} has acknowledged none of {sent} messages"
        yield "never_acked_many", name, text
    elif each.never_acked and sent > 1:
        yield "never_acked", name, f"{each.label} has acknowledged none of {sent} messages"
    elif each.never_acked is False:
        ago = "" if each.since_last_ack is None else f", last {each.since_last_ack} ago"
        yield "has_acked", name, f"{each.label} has acknowledged before{ago}"
    if (
        told(each.permits_granted) is not None
        and each.permits_granted == each.receiver_queue_size
        and sent > 1
    ):
        text = f"{each.label} has sent one FLOW in its life, and no refill"
        yield "one_flow", "flows", text


def _limit(of: _Of) -> Found:
    each, name = of.consumer, "blocked_consumer_on_unacked_msgs"
    held = least(each.unacked_messages) or 0
    if each.blocked_consumer_on_unacked_msgs:
        release = each.acks.until(acks_to_release(held, each.max_unacked_messages_per_consumer))
        soon = each.acked and release.seconds is not None and release.seconds <= PAUSE_SECONDS
        if not (soon and each.delivered):  # or it has been set free within the window
            yield "flag_blocked", name, f"the broker says that {each.label} is at its limit"
        if soon:
            text = f"{each.label} acknowledges, and gets new messages {release.outlook}"
            yield "release_soon", "acked", text
    elif (
        each.max_unacked_messages_per_consumer
        and held >= each.max_unacked_messages_per_consumer / 2
    ):
        text = f"{each.label} holds {held} of at most {each.max_unacked_messages_per_consumer}"
        yield "near_limit", "unacked_messages", text


def _silence(of: _Of) -> Found:
    each, quiet = of.consumer, of.consumer.quiet_for
    if quiet is None:
        return
    said = f"{each.label} has shown no sign of life for {quiet}"
    if quiet.seconds >= LONG_SECONDS:
        yield "quiet_long", "quiet_for", said
    elif quiet.seconds >= PAUSE_SECONDS:
        yield "quiet_some", "quiet_for", said
    elif quiet.exact:
        yield "lively", "quiet_for", f"{each.label} showed a sign of life {quiet} ago"
    usual = each.pace_most
    if usual is not None and quiet.seconds > 4 * usual + 5:
        yield (
            "unusual",
            "pace",
            f"{said}; it took at most {duration(usual)} for a message on average",
        )


def _beside(of: _Of) -> Found:
    """Neighbours as a clock: what they did since its last sign."""
    own = _sign(of.consumer)
    others = [sign for sign in of.everybody.liveliest if sign[1] is not of.consumer]
    if own is None or not others:
        return
    newest, who = others[0]
    if own.ms - newest.ms >= APART_MS:
        apart = duration((own.ms - newest.ms) / 1000)
        text = f"{who.label} showed a sign of life {apart} after the last of {of.consumer.label}"
        yield "neighbour_later", "quiet_for", text


def _sign(each: ConsumerView) -> Age | None:
    """Since it last did something by itself: an ack or a FLOW."""
    signs = [age for age in (each.since_last_ack, each.since_last_flow) if age is not None]
    return min(signs, key=lambda age: age.ms, default=each.connected_for)


def _motion(of: _Of) -> Found:
    each, seconds = of.consumer, of.view.watched_seconds
    within = "" if seconds is None else f" within {duration(seconds)}"
    if each.acked:
        yield "acks_come", "acked", f"{each.label} acknowledged{within}"
    elif each.moved is False and seconds and seconds >= PAUSE_SECONDS:
        yield "still", "moved", f"nothing of {each.label} moved{within}"
    if each.asked_lately is not None:
        yield "asks", "flows", f"{each.label} asked for messages{within}"
    if each.works:
        yield "works", "pace", f"{each.label} continues as before"


def _ahead(of: _Of) -> Found:
    each = of.consumer
    if not each.without_permits:
        return
    least_, most_ = each.seconds_until_sending_least, each.seconds_until_sending_most
    measured = each.seconds_until_sending
    if max(measured or 0, least_) > LONG_SECONDS:
        yield "flow_far", "next_flow_in", f"{each.label}: {each.outlook}"
    elif measured is not None and measured > PAUSE_SECONDS:
        yield "flow_later", "next_flow_in", f"{each.label}: {each.outlook}"
    elif any(wait is not None and wait <= PAUSE_SECONDS for wait in (measured, most_)):
        yield "flow_soon", "next_flow_in", f"{each.label} asks for more soon: {each.outlook}"
    elif most_ is not None and most_ > LONG_SECONDS:
        yield "flow_may_be_far", "pace", f"a message takes {each.label} long; {each.outlook}"


def _queue(of: _Of) -> Found:
    each, size = of.consumer, "receiver_queue_size"
    if each.batch_for_one:
        text = f"{each.label} asks for one message and was sent a batch"
        yield "batch_for_one", size, text
    if each.asks_singly:
        asks = "asks" if each.surely_singly else "may ask"
        yield "asks_singly", size, f"{each.label} {asks} for one message at a time"
    batch = each.largest_batch
    if batch is not None and batch > 1 and each.below_zero:
        yield "batches", "largest_batch", f"batches of {batch} messages are sent whole"
    age = each.connected_for
    if age is not None and age.exact and age.seconds < 2 * PAUSE_SECONDS:
        yield "young", "connected_since", f"{each.label} connected {age} ago"
    owed, threshold = each.permits_owed, each.refill_threshold
    if owed is not None and threshold and (least(owed) or 0) > 0:
        text = f"{each.label} owes {owed} permits, and sends a FLOW at {threshold}"
        over = (least(owed) or 0) > threshold
        yield ("owes_flow" if over else "owes_little"), "permits_owed", text


def _in_hand(of: _Of) -> Found:
    own, each = of.consumer.in_hand, of.consumer
    if own is not None and own.messages > max(IN_HAND.default, own.finished):
        text = f"{each.label} has taken {own.messages} messages or more that it has not finished"
        yield "in_hand", "permits_granted", text


def _keys(of: _Of) -> Found:
    each, view = of.consumer, of.view
    if view.type != "Key_Shared":
        return
    replay = told(view.replay) or 0
    if each.keys_wait or (each.draining_hashes is not None and each.draining_hashes.hashes):
        text = f"messages of keys that {each.label} had wait for its acknowledgements"
        yield "keys_drain", "draining_hashes", text
    elif replay and not each.holds_nothing and not each.may_receive:
        yield "replay_waits", "msg_in_replay", f"{replay} entries wait {replay_waits(view.type)}"
    if each.waits_from is not None:
        yield "joined_late", "position_when_joining", f"{each.label} waits for mark-delete"


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
        text = f"a newer consumer has the same name, {each.label}"
        yield "namesake", "name", text


OBSERVERS: tuple[Callable[[_Of], Found], ...] = (
    _permits, _held, _share, _acks, _limit, _silence, _beside, _motion, _ahead, _queue, _in_hand,
    _keys, _namesake,
)  # fmt: skip
