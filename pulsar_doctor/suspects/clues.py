"""Single observations of a view, each with its numbers: what speaks for a suspect, or against it.

A clue has a key, by which hypotheses and weights know it, the name of the number that it rests on,
and a text. What the view does not tell gives no clue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pulsar_doctor.broker.stats.backlog import Backlog
from pulsar_doctor.broker.stats.sample import Age
from pulsar_doctor.evidence.answers import Clue
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.reading import Face
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least, most, told
from pulsar_doctor.wording.durations import duration

Clues = Mapping[str, Clue]  # by key
QUIET, LONG = 30.0, 300.0  # seconds: longer than a pause, longer than nearly all work
APART_MS = 30_000  # by so much a neighbour's sign of life is later
MANY = 16  # messages: more than one application works on at once
FAR = 300.0  # seconds until the next FLOW
ROUND = 1000  # limits are set to round numbers
WIDE = 10_000  # entries: more than consumers hold as a rule

Found = Iterator[tuple[str, str, str]]  # key, name, text


@dataclass(frozen=True, slots=True)
class _Of:
    """One consumer beside the others of its subscription."""

    view: SubscriptionView
    consumer: ConsumerView


def of_consumer(view: SubscriptionView, consumer: ConsumerView) -> Clues:
    """What is seen of one consumer, and of others beside it."""
    of = _Of(view, consumer)
    return {key: Clue(name, text) for look in LOOKS for key, name, text in look(of)}


def of_subscription(view: SubscriptionView) -> Clues:
    """What is seen of the subscription as a whole."""
    return {key: Clue(name, text) for look in LOOKS_AT_ALL for key, name, text in look(view)}


# One consumer.


def _permits(of: _Of) -> Found:
    each, name = of.consumer, "available_permits"
    who = f"{each.label} has {each.permits} permits"
    if each.below_zero:
        yield "below_zero", name, who
    elif each.without_permits:
        yield "no_permits", name, who
    elif (least(each.permits) or 0) > 0:
        yield "has_permits", name, who
    if each.without_permits and each.holds_nothing and not each.surely_singly:
        text = f"{each.label} holds nothing and has no permits, as if its client had lost them"
        yield "empty_handed", name, text
    if each.never_asked:
        yield "never_asked", "flows", f"{each.label} has never asked for a message"


def _held(of: _Of) -> Found:
    each, name = of.consumer, "unacked_messages"
    if each.held is None:
        return
    who = f"{each.label} holds {each.held} messages"
    if each.holds_nothing:
        yield "holds_nothing", name, f"{each.label} holds nothing"
    elif (least(each.held) or 0) > MANY:
        yield "holds_many", name, who
    elif most(each.held) == 1:
        yield "holds_one", name, who
    elif least(each.held):
        yield "holds_some", name, who


def _share(of: _Of) -> Found:
    each, others = of.consumer, [c for c in of.view.consumers or () if c is not of.consumer]
    held = least(each.held) or 0
    total = held + sum(most(other.held) or 0 for other in others)
    idle = [other for other in others if other.may_receive and other.holds_nothing]
    if held > 1 and 2 * held >= total and idle and of.view.type == "Shared":
        more = f" and {len(idle) - 1} more have" if len(idle) > 1 else " has"
        yield (
            "neighbours_idle",
            "idle_neighbours",
            f"{each.label} holds {held} of {total} messages, {idle[0].label}{more} nothing to do",
        )
    elif held and others and not idle:
        yield "neighbours_busy", "idle_neighbours", "no neighbour is idle"
    if others and 4 * held < total:
        text = f"{each.label} holds only {held} of {total} messages"
        yield "small_share", "unacked_messages", text


def _acks(of: _Of) -> Found:
    each, name = of.consumer, "last_acked_timestamp"
    sent = told(each.sent) or least(each.held) or 0
    if each.never_acked and sent > MANY:
        text = f"{each.label} has acknowledged none of {sent} messages"
        yield "never_acked_many", name, text
    elif each.never_acked and sent > 1:
        yield "never_acked", name, f"{each.label} has acknowledged none of {sent} messages"
    elif each.never_acked is False:
        ago = "" if each.since_ack is None else f", last {each.since_ack} ago"
        yield "has_acked", name, f"{each.label} has acknowledged before{ago}"
    if told(each.granted) is not None and each.granted == each.queue_size and sent > 1:
        text = f"{each.label} has sent one FLOW in its life, and no refill"
        yield "one_flow", "flows", text


def _limit(of: _Of) -> Found:
    each, name = of.consumer, "blocked_consumer_on_unacked_msgs"
    held = least(each.held) or 0
    if each.blocked:
        yield "flag_blocked", name, f"the broker says that {each.label} is at its limit"
    elif each.unacked_limit and held >= each.unacked_limit / 2:
        text = f"{each.label} holds {held} of at most {each.unacked_limit}"
        yield "near_limit", "unacked_messages", text


def _silence(of: _Of) -> Found:
    each, quiet = of.consumer, of.consumer.quiet
    if quiet is None:
        return
    said = f"{each.label} has shown no sign of life for {quiet}"
    if quiet.seconds >= LONG:
        yield "quiet_long", "quiet_for", said
    elif quiet.seconds >= QUIET:
        yield "quiet_some", "quiet_for", said
    elif quiet.exact:
        yield "lively", "quiet_for", f"{each.label} showed a sign of life {quiet} ago"
    usual = each.pace_most
    if usual is not None and quiet.seconds > 4 * usual + 5:
        yield "unusual", "pace", f"{said}; a message took it at most {duration(usual)} on average"


def _beside(of: _Of) -> Found:
    """Neighbours as a clock: what they did since its last sign."""
    own = _sign(of.consumer)
    others = [(_sign(c), c) for c in of.view.consumers or () if c is not of.consumer]
    later = [(age, c) for age, c in others if age is not None]
    if own is None or not later:
        return
    newest, who = min(later, key=lambda each: each[0].ms)
    if own.ms - newest.ms >= APART_MS:
        apart = duration((own.ms - newest.ms) / 1000)
        text = f"{who.label} showed a sign of life {apart} after the last of {of.consumer.label}"
        yield "neighbour_later", "quiet_for", text


def _sign(each: ConsumerView) -> Age | None:
    """Since it last did something by itself: an ack or a FLOW."""
    signs = [age for age in (each.since_ack, each.since_flow) if age is not None]
    return min(signs, key=lambda age: age.ms, default=each.connected)


def _motion(of: _Of) -> Found:
    each, seconds = of.consumer, of.view.watched_seconds
    within = "" if seconds is None else f" within {duration(seconds)}"
    if each.acked:
        yield "acks_come", "acked", f"{each.label} acknowledged{within}"
    elif each.moved:
        yield "moves", "moved", f"something of {each.label} moved{within}"
    elif each.moved is False and seconds and seconds >= QUIET:
        yield "still", "moved", f"nothing of {each.label} moved{within}"
    elif each.moved is False:
        yield "still_briefly", "moved", f"nothing of {each.label} moved{within}"
    if each.works:
        yield "works", "pace", f"{each.label} goes on as it did"
    if each.msg_rate_out:
        text = f"{each.label} was sent {each.msg_rate_out:.3g} messages a second lately"
        yield "is_sent", "msg_rate_out", text


def _ahead(of: _Of) -> Found:
    each = of.consumer
    if not each.without_permits:
        return
    least_, most_ = each.seconds_until_sending_least, each.seconds_until_sending_most
    measured = each.seconds_until_sending
    if max(measured or 0, least_) > FAR:
        yield "flow_far", "next_flow_in", f"{each.label}: {each.outlook}"
    elif measured is not None and measured > QUIET:
        yield "flow_later", "next_flow_in", f"{each.label}: {each.outlook}"
    elif (measured is not None and measured <= QUIET) or (most_ is not None and most_ <= QUIET):
        yield "flow_soon", "next_flow_in", f"{each.label} asks for more soon: {each.outlook}"
    elif most_ is not None and most_ > FAR:
        yield "flow_may_be_far", "pace", f"a message takes {each.label} long; {each.outlook}"


def _queue(of: _Of) -> Found:
    each, size = of.consumer, "receiver_queue_size"
    if each.batch_for_one:
        text = f"{each.label} asks for one message and was sent a batch"
        yield "batch_for_one", size, text
    if each.asks_singly:
        asks = "asks" if each.surely_singly else "may ask"
        yield "asks_singly", size, f"{each.label} {asks} for one message at a time"
    elif each.queue_size is not None and (least(each.queue_size) or 0) > 1:
        yield "queue_told", size, f"{each.label} has a receiver queue of {each.queue_size}"
    batch = each.largest_batch
    if batch is not None and batch > 1 and each.below_zero:
        yield "batches", "largest_batch", f"batches of {batch} messages are sent whole"
    if each.connected is not None and each.connected.exact and each.connected.seconds < 2 * QUIET:
        yield "young", "connected_since", f"{each.label} connected {each.connected} ago"
    if each.owed is not None and each.refill_threshold and (least(each.owed) or 0) > 0:
        text = f"{each.label} owes {each.owed} permits, and asks from {each.refill_threshold} on"
        over = (least(each.owed) or 0) > each.refill_threshold
        yield ("owes_flow" if over else "owes_little"), "owed", text


def _keys(of: _Of) -> Found:
    each, view = of.consumer, of.view
    if view.type != "Key_Shared":
        return
    replay = told(view.replay) or 0
    if each.keys_wait or (each.draining is not None and each.draining.hashes):
        text = f"keys that {each.label} had wait for its acknowledgements"
        yield "keys_drain", "draining_hashes", text
    elif replay and not each.holds_nothing and not each.may_receive:
        yield "replay_waits", "msg_in_replay", f"{replay} entries wait to be sent again"
    if each.waits_from is not None:
        yield "joined_late", "position_when_joining", f"{each.label} waits for mark-delete"


def _namesake(of: _Of) -> Found:
    each = of.consumer
    same = [c for c in of.view.consumers or () if each.name and c.name == each.name]
    newer = [
        c
        for c in same
        if c is not each and c.connected and each.connected and c.connected.ms < each.connected.ms
    ]
    if newer:
        text = f"a newer consumer is called {each.label}, too"
        yield "namesake", "name", text


LOOKS: tuple[Callable[[_Of], Found], ...] = (
    _permits, _held, _share, _acks, _limit, _silence, _beside, _motion, _ahead, _queue, _keys,
    _namesake,
)  # fmt: skip


# The subscription.


def _waiting(view: SubscriptionView) -> Found:
    left, replay = view.left, told(view.replay) or 0
    if view.nothing_left:
        yield "nothing_left", "left", "nothing is left to send"
    elif left is not None and (left.least or 0) > 0:
        yield "waits", "left", f"{left} entries could be sent"
    if replay:
        yield "replay", "msg_in_replay", f"{replay} entries wait to be sent again"
    if view.backlog_change is not None and view.watched_seconds:
        within = duration(view.watched_seconds)
        if view.backlog_change > 0:
            text = f"the backlog grew by {view.backlog_change} within {within}"
            yield "backlog_grows", "backlog_change", text
        elif view.backlog_change < 0:
            text = f"the backlog fell by {-view.backlog_change} within {within}"
            yield "backlog_falls", "backlog_change", text


def _who(view: SubscriptionView) -> Found:
    if view.attended is False:
        yield "nobody", "consumers", "nobody is attached"
        return
    active = view.served
    if not active:
        return
    if any(each.may_receive for each in active):
        yield "somebody_ready", "available_permits", "somebody has permits"
    if all(each.without_permits for each in active):
        yield "nobody_ready", "available_permits", "nobody has permits"
    if all(each.holds_nothing for each in active):
        yield "nobody_holds", "unacked_messages", "nobody holds a message"
    if view.gone is not None:
        yield "active_gone", "active_consumer", "the active consumer is not connected"
    standbys = [each for each in view.consumers or () if each.active is False]
    if view.type == "Failover" and standbys:
        yield "standby", "active_consumer", f"{standbys[0].label} stands by"


def _delivery(view: SubscriptionView) -> Found:
    since = view.since_delivery
    if view.delivered:
        yield "delivers", "msg_out_counter", f"{view.delivered} messages were sent in the window"
    elif view.delivered == 0 and (view.watched_seconds or 0) > 1:
        yield "delivers_none", "msg_out_counter", "nothing was sent in the window"
    if since is not None and since.seconds >= LONG:
        yield "delivered_long_ago", "last_consumed", f"the last delivery was {since} ago"
    elif view.just_delivered:
        yield "just_delivered", "last_consumed", "something was sent just now"
    if any(each.acked for each in view.consumers or ()):
        yield "somebody_acks", "acked", "acknowledgements come"


def _rates(view: SubscriptionView) -> Found:
    """What the broker's last full minute tells of all, where nothing tells it of each."""
    again, out = view.msg_rate_redeliver or 0, view.msg_rate_out or 0
    if again > 0 and 2 * again >= out:
        text = f"{again:.3g} messages a second came back lately, {out:.3g} went out"
        yield "rate_redeliver", "msg_rate_redeliver", text
    if view.msg_rate_out == 0 and view.backlog is not None and view.backlog.empty is False:
        text = "nothing went out in the broker's last full minute"
        yield "rate_none", "msg_rate_out", text
    each = view.consumers or ()
    if len(each) > 1 and any(consumer.msg_rate_out for consumer in each):
        return
    if out > 0:
        yield "rate_out", "msg_rate_out", f"{out:.3g} messages a second went out lately"
    acks = view.message_ack_rate or 0
    if acks > 0:
        text = f"{acks:.3g} messages a second were acknowledged lately"
        yield "rate_acks", "message_ack_rate", text


def _limits(view: SubscriptionView) -> Found:
    limit, throttling = view.unacked_limit, view.throttling
    if limit is not None and limit.blocked:
        text = f"the broker says that the subscription is at its limit, with {view.unacked} unacked"
        yield "flag_all_blocked", "blocked_subscription_on_unacked_msgs", text
    if throttling is not None and throttling.lately:
        text = f"{throttling.lately[0].reads} reads were held back by a rate limit"
        yield "throttled", "throttled_reads", text
    elif throttling is not None and throttling.reads:
        text = f"{throttling.reads} reads were held back since the topic was loaded"
        yield "throttled_once", "throttled_reads", text
    delayed, entries = told(view.delayed), view.backlog.entries if view.backlog else None
    if delayed and entries and delayed * 2 >= entries:
        yield "delayed_most", "msg_delayed", f"{delayed} of {entries} entries are not due yet"
    elif delayed:
        yield "delayed_some", "msg_delayed", f"{delayed} entries are not due yet"


def _read_state(face: Face, unread: int | None) -> Found:
    """What the flags of the read say; where all is read, waiting for new entries is right."""
    keys = {Face.LOST: "read_lost", Face.ASLEEP: "read_asleep", Face.NONE_PENDING: "no_read"}
    if face is not Face.ASLEEP or unread:
        yield keys.get(face, "read_under_way"), "read_state", face.value
    elif unread == 0:
        yield "read_waits", "read_state", "the broker has read all and waits for new entries"


def _cursor(view: SubscriptionView) -> Found:
    reads, hole, ranges, backlog = view.reads, view.hole, view.ranges, view.backlog
    unread = reads.states[-1].unread if reads is not None and reads.states else None
    if reads is not None and reads.moved:
        yield "reads", "read_position", "the broker reads, or tried to"
    elif reads is not None and reads.face is not None:
        yield from _read_state(reads.face, unread)
    if view.read_armed:
        yield "read_armed", "read_state", "a read waits or is under way, so somebody has asked"
    if unread and view.left is None:
        yield "unread", "read_position", f"the broker has not read {unread} entries yet"
    if hole is not None and hole.ranges:
        old = hole.stood is not None and hole.stood.seconds >= LONG
        text = f"{hole.ranges} acknowledged ranges lie behind an entry that is not"
        yield ("hole_old" if old else "hole"), "acknowledged_ranges", text
        if (hole.behind or 0) >= WIDE:
            text = f"{hole.behind} entries lie behind the first that is not acknowledged"
            yield "hole_wide", "acknowledged_ranges", text
    if ranges is not None and ranges.count >= (ranges.limit or 10_000) / 2:
        yield "many_ranges", "acknowledged_ranges", f"{ranges.count} acknowledged ranges"
    if backlog is not None and (backlog.wrong or backlog.doubtful):
        text = f"the counter says {backlog.counter}, positions say {backlog.positions} entries"
        yield "counter_differs", "msg_backlog", text
    elif backlog is not None and view.durable is not False:
        yield from _counted(backlog)


def _counted(backlog: Backlog) -> Found:
    """What the cursor counts itself. It begins below 0, by as much as the backlog was then."""
    counted, positions, consumed = backlog.counted, backlog.positions, backlog.consumed
    name = "messages_consumed_counter"
    if counted is not None and positions is not None:
        if abs(counted - positions) > max(MANY, positions / 10):
            text = f"by its counters {counted} entries wait, by positions {positions}"
            yield "counted_far", name, text
    elif consumed is not None and consumed < 0:
        text = f"the cursor's counter of acknowledged entries is {consumed}, below 0"
        yield "consumed_negative", name, text


def _circles(view: SubscriptionView) -> Found:
    circulation = view.circulation
    if circulation is None:
        return
    for sent in (circulation.window, circulation.life):
        if sent is not None and sent.in_circles:
            text = f"{sent.messages} messages were sent, many of them three times or more"
            yield "in_circles", "redelivered", text
            return
        if sent is not None and 2 * sent.again > sent.messages > 0:
            yield "again", "redelivered", f"{sent.again} of {sent.messages} had been sent before"
            return
    if circulation.rate_redeliver:
        text = f"{circulation.rate_redeliver:.3g} messages a second are sent again"
        yield "redelivers", "msg_rate_redeliver", text
    elif circulation.gone:
        yield "come_and_go", "consumers", f"{circulation.gone} consumers came and left"


LOOKS_AT_ALL: tuple[Callable[[SubscriptionView], Found], ...] = (
    _waiting, _who, _delivery, _rates, _limits, _cursor, _circles,
)  # fmt: skip
