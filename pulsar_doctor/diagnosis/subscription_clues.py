"""Observations of the whole subscription: backlog, consumers, reads, limits, cursor."""

from __future__ import annotations

from collections.abc import Callable

from pulsar_doctor.broker.stats.backlog import COUNTER_LEAST, Backlog
from pulsar_doctor.diagnosis.clues import Clues, Found, observed_by
from pulsar_doctor.diagnosis.thresholds import IN_HAND, LONG_SECONDS
from pulsar_doctor.evidence.reading import Face
from pulsar_doctor.evidence.subscription import SubscriptionView, replay_waits
from pulsar_doctor.evidence.values import least, told
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import many
from pulsar_doctor.wording.sentences import say

MINUTE_OLD_SECONDS = 120.0  # a rate is of a full minute, and as much old at most
APART = 1.1  # times: two rates that differ by less are about the same
WIDE = 10_000  # entries: more than consumers hold as a rule
OF_A_READ = {Face.LOST: "read_lost", Face.ASLEEP: "read_asleep", Face.NONE_PENDING: "no_read"}


def of_subscription(view: SubscriptionView) -> Clues:
    """By key."""
    return observed_by(OBSERVERS, view)


def _waiting(view: SubscriptionView) -> Found:
    left, replay = view.left, told(view.replay) or 0
    if view.nothing_left:
        yield "nothing_left", "left", "nothing is left to send"
    elif left is not None and (left.least or 0) > 0:
        yield "waits", "left", f"{left} entries could be sent"
    if replay:
        yield "replay", "msg_in_replay", f"{replay} entries wait {replay_waits(view.type)}"
    if view.backlog_change is not None and view.watched_seconds:
        within = duration(view.watched_seconds)
        if view.backlog_change > 0:
            text = f"the backlog grew by {view.backlog_change} within {within}"
            yield "backlog_grows", "backlog_change", text
        elif view.backlog_change < 0:
            text = f"the backlog fell by {-view.backlog_change} within {within}"
            yield "backlog_falls", "backlog_change", text
    elif view.backlog_change is None:
        yield from _by_rates(view)


def _by_rates(view: SubscriptionView) -> Found:
    """Whether the backlog grew in the broker's last full minute, where no earlier sample tells.

    What is sent again makes no backlog smaller.
    """
    came, sent = view.msg_rate_in, view.msg_rate_out
    if came is None or sent is None or view.backlog is None or view.backlog.empty:
        return
    new = max(0.0, sent - (view.msg_rate_redeliver or 0))
    text = f"{came:.3g} messages a second were published lately, {new:.3g} were sent first"
    if came > APART * new:
        yield "backlog_grows", "msg_rate_in", text
    elif new > APART * came:
        yield "backlog_falls", "msg_rate_in", text
    elif came > 0:
        yield "keeps_up", "msg_rate_in", text


def _who(view: SubscriptionView) -> Found:
    if view.attended is False:
        yield "nobody", "consumers", "no consumer is attached"
        return
    active = view.served
    if not active:
        return
    if any(each.may_receive for each in active):
        yield "somebody_ready", "available_permits", "a consumer has permits"
    if all(each.without_permits for each in active):
        yield "nobody_ready", "available_permits", "no consumer has permits"
    if all(each.holds_nothing for each in active):
        yield "nobody_holds", "unacked_messages", "no consumer holds a message"
    if view.gone is not None:
        yield "active_gone", "active_consumer", "the active consumer is not connected"
    standbys = [each for each in view.consumers or () if each.active is False]
    if view.type == "Failover" and standbys:
        yield "standby", "active_consumer", f"{standbys[0].label} is a standby"


def _delivery(view: SubscriptionView) -> Found:
    since = view.since_delivery
    if view.still_delivers:
        yield "delivers", "msg_out_counter", f"{view.delivered} messages were sent in the window"
    elif view.delivered == 0 and (view.watched_seconds or 0) > 1:
        yield "delivers_none", "msg_out_counter", "nothing was sent in the window"
    if since is not None and since.seconds >= LONG_SECONDS:
        yield "delivered_long_ago", "last_consumed", f"the last delivery was {since} ago"
    elif view.just_delivered:
        yield "just_delivered", "last_consumed", "a message was sent just now"
    if any(each.acked for each in view.consumers or ()):
        yield "somebody_acks", "acked", "acknowledgements come"


def _held_back_lately(view: SubscriptionView) -> bool:
    """Whether nobody holds a message, as many wait as may be sent, and some were sent lately.

    Lately: since the broker's last full minute. A broker sends at once what may be sent, unless
    something holds it back.
    """
    ages = [each.connected_for for each in view.served]
    young = all(a is not None and a.exact and a.seconds < MINUTE_OLD_SECONDS for a in ages)
    may = sum(least(each.available_permits) or 0 for each in view.served if each.may_receive)
    waits = 0 < may <= (least(view.left) or 0) and all(e.holds_nothing for e in view.served)
    return waits and (young or bool(view.delivered))


def _rates(view: SubscriptionView) -> Found:
    """What the broker's last full minute tells of all, where nothing tells it of each."""
    again, out = view.msg_rate_redeliver or 0, view.msg_rate_out or 0
    sent = view.msg_rate_out != 0  # in the same minute; what is not sent does not come again
    if again > 0 and 2 * again >= out and sent:
        text = f"{again:.3g} messages a second were redelivered lately, {out:.3g} were sent"
        yield "rate_redeliver", "msg_rate_redeliver", text
    if view.msg_rate_out == 0 and view.backlog is not None and view.backlog.empty is False:
        text = "nothing was sent in the broker's last full minute"
        if not _held_back_lately(view):
            yield "minute_none", "msg_rate_out", text  # a limit lets some through each second
        if view.rates_alone_tell:
            yield "rate_none", "msg_rate_out", text
    each = view.served  # all goes to the active one of Failover
    if len(each) > 1 and any(consumer.msg_rate_out for consumer in each):
        return
    if out > 0:
        yield "rate_out", "msg_rate_out", f"{out:.3g} messages a second were sent lately"
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
        text = f"{throttling.lately[0].reads} reads were delayed by a rate limit"
        yield "throttled", "throttled_reads", text
    elif throttling is not None and throttling.reads:
        text = f"{throttling.reads} reads were delayed since the topic was loaded"
        yield "throttled_once", "throttled_reads", text
    delayed, entries = told(view.delayed), view.backlog.entries if view.backlog else None
    if delayed and entries and delayed * 2 >= entries:
        yield "delayed_most", "msg_delayed", f"{delayed} of {entries} entries are not due yet"
    elif delayed:
        yield "delayed_some", "msg_delayed", f"{delayed} entries are not due yet"


def _at_the_broker(view: SubscriptionView) -> Found:
    """What of the broker's own may keep messages."""
    filtering = view.filtering
    if filtering is not None and view.filter_keeps:
        text = f"an entry filter has put messages back {filtering.put_back} times"
        yield "filter_puts_back", "filter_rescheduled_msg_count", text
    if view.open_transactions:
        text = say("the topic has {:open transactions} of a producer", view.open_transactions)
        yield "open_transaction", "ongoing_txn_count", text


def _read_state(face: Face, unread: int | None) -> Found:
    """What the flags of the read say; where all is read, waiting for new entries is right."""
    if face is not Face.ASLEEP or unread:
        yield OF_A_READ.get(face, "read_under_way"), "read_state", face.value
    elif unread == 0:
        yield "read_waits", "read_state", "the broker has read all and waits for new entries"


def _cursor(view: SubscriptionView) -> Found:
    reads, hole, ranges, backlog = view.reads, view.hole, view.ranges, view.backlog
    unread = reads.states[-1].unread if reads is not None and reads.states else None
    if reads is not None and reads.moved:
        yield "reads", "read_position", "the broker is reading, or has tried to"
    elif reads is not None and reads.face is not None:
        yield from _read_state(reads.face, unread)
    if view.read_armed:
        yield (
            "read_armed",
            "read_state",
            "a read waits or is in progress, so a consumer has asked for messages",
        )
    if unread and view.left is None:
        yield "unread", "read_position", f"the broker has not read {unread} entries yet"
    if hole is not None and hole.ranges:
        old = hole.stood is not None and hole.stood.seconds >= LONG_SECONDS
        lie = "lies" if hole.ranges == 1 else "lie"
        text = f"{many(hole.ranges, 'acknowledged range')} {lie} behind an entry that is not"
        yield ("hole_old" if old else "hole"), "acknowledged_ranges", text
        if (hole.behind or 0) >= WIDE:
            text = f"{hole.behind} entries lie behind the first that is not acknowledged"
            yield "hole_wide", "acknowledged_ranges", text
    if ranges is not None and ranges.count >= (ranges.limit or 10_000) / 2:
        yield "many_ranges", "acknowledged_ranges", many(ranges.count, "acknowledged range")
    if backlog is not None and (backlog.wrong or backlog.doubtful):
        text = f"the counter says {backlog.counter}, positions say {backlog.positions} entries"
        yield "counter_differs", "msg_backlog", text
    elif backlog is not None and (backlog.counter or 0) < COUNTER_LEAST:
        text = f"the counter says {backlog.counter}, below 0"
        yield "counter_differs", "msg_backlog", text
        yield "counter_below_0", "msg_backlog", "no backlog can be below 0"
    elif backlog is not None and view.durable is not False:
        yield from _counted(backlog)


def _counted(backlog: Backlog) -> Found:
    """What the cursor counts itself. It begins below 0, by as much as the backlog was then."""
    counted, positions, consumed = backlog.counted, backlog.positions, backlog.consumed
    name = "messages_consumed_counter"
    if counted is not None and positions is not None:
        if abs(counted - positions) > max(IN_HAND.default, positions / 10):
            text = f"by the counters {counted} entries wait, by the positions {positions}"
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
        yield "come_and_go", "consumers", f"{circulation.gone} consumers connected and left"


def _ended(view: SubscriptionView) -> Found:
    for closed in view.closed or ():
        if not closed.acked_since:
            who = closed.consumer.label
            text = f"{who} ended while it held {closed.held} messages, and acknowledged none"
            yield "ended_holding", "unacked_messages", text
            return


def _own(view: SubscriptionView) -> Found:
    """Of a cursor of the broker's own."""
    if view.own is not None and view.own.connected is False:
        yield "apart", "connected", f"the replicator to {view.own.of} is not connected"


OBSERVERS: tuple[Callable[[SubscriptionView], Found], ...] = (
    _waiting, _who, _delivery, _rates, _limits, _at_the_broker, _cursor, _circles, _ended, _own,
)  # fmt: skip
