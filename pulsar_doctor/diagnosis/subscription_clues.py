"""Observations of the whole subscription: backlog, consumers, reads, limits, cursor."""

from __future__ import annotations

from collections.abc import Callable

from pulsar_doctor.broker.stats.backlog import COUNTER_LEAST, Backlog
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE
from pulsar_doctor.diagnosis.observing import Clues, Found, observed_by
from pulsar_doctor.diagnosis.restart_laws import circles, outlived
from pulsar_doctor.diagnosis.thresholds import FIRST_ACK_WITHIN, IN_HAND, LONG_SECONDS
from pulsar_doctor.evidence.reading import Face
from pulsar_doctor.evidence.subscription import SubscriptionView, replay_waits
from pulsar_doctor.evidence.values import exact, least
from pulsar_doctor.wording.durations import duration

MINUTE_OLD_SECONDS = 120.0  # a rate is of a full minute, and as much old at most
APART = 1.1  # times: two rates that differ by less are about the same
WIDE = 10_000  # entries: more than consumers hold as a rule
OF_A_READ = {Face.LOST: "read_lost", Face.ASLEEP: "read_asleep"}


def of_subscription(view: SubscriptionView) -> Clues:
    """By key."""
    return observed_by(OBSERVERS, view, view)


def _kind(view: SubscriptionView) -> Found:
    if view.type not in (None, "Shared"):
        yield "not_shared"
    if view.type not in (None, "Failover"):
        yield "not_failover"
    if view.type not in (None, "Key_Shared"):
        yield "not_key_shared"
    if view.type in SINGLE_ACTIVE:
        yield "one_active"
    if view.key_order is not None and view.key_order.out_of_order:
        yield "out_of_order"
    if view.consumers is not None and len(view.consumers) < 2:
        yield "one_consumer"
    if view.consumers and all(
        each.without_permits or each.blocked_consumer_on_unacked_msgs for each in view.consumers
    ):
        yield "nobody_takes"


def _waiting(view: SubscriptionView) -> Found:
    left, replay = view.left, exact(view.replay) or 0
    if view.nothing_left:
        yield "nothing_left"
    elif left is not None and (left.least or 0) > 0:
        yield "waits"
    if replay:
        yield "replay", {"waits": replay_waits(view.type)}
    if view.backlog_change and view.watched_seconds:
        grows = view.backlog_change > 0
        numbers = {"by": abs(view.backlog_change), "within": duration(view.watched_seconds)}
        yield ("backlog_grows" if grows else "backlog_falls"), numbers
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
    rates = {"came": f"{came:.3g}", "new": f"{new:.3g}"}
    if came > APART * new:
        yield "came_faster", rates
    elif new > APART * came:
        yield "sent_faster", rates
    elif came > 0:
        yield "keeps_up", rates


def _who(view: SubscriptionView) -> Found:
    if view.attended is False:
        yield "nobody"
        return
    active = view.served
    if not active:
        if view.consumers is not None:
            yield "nobody_served"
        return
    if any(each.may_receive for each in active):
        yield "somebody_ready"
    if all(each.without_permits for each in active):
        yield "nobody_ready"
    if all(each.holds_nothing for each in active):
        yield "nobody_holds"
    if view.gone is not None:
        yield "active_gone"
    standbys = [each for each in view.consumers or () if each.active is False]
    if view.type == "Failover" and standbys:
        yield "standby", {"standby": standbys[0].label}


def _delivery(view: SubscriptionView) -> Found:
    since = view.since_delivery
    if view.still_delivers:
        yield "delivers"
    elif view.delivered == 0 and (view.watched_seconds or 0) > 1:
        yield "delivers_none"
    if since is not None and since.seconds >= LONG_SECONDS:
        yield "delivered_long_ago"
    elif view.just_delivered:
        yield "just_delivered"
    if any(each.acked for each in view.consumers or ()):
        yield "somebody_acks"


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
    passes = view.circulation is not None and view.circulation.passes
    if again > 0 and 2 * again >= out and sent and not passes:
        yield "rate_redeliver", {"again": f"{again:.3g}", "out": f"{out:.3g}"}
    if view.msg_rate_out == 0 and view.backlog is not None and view.backlog.empty is False:
        if not _held_back_lately(view):
            yield "minute_none"  # a limit lets some through each second
        if view.rates_alone_tell:
            yield "rate_none"
    each = view.served  # all is sent to the active one of Failover
    if len(each) > 1 and any(consumer.msg_rate_out for consumer in each):
        return
    if out > 0:
        yield "rate_out", {"out": f"{out:.3g}"}
    acks = view.message_ack_rate or 0
    if acks > 0:
        yield "rate_acks", {"acks": f"{acks:.3g}"}


def _limits(view: SubscriptionView) -> Found:
    limit, throttling = view.unacked_limit, view.throttling
    if limit is not None and limit.blocked is False:
        yield "flag_all_free"
    if throttling is not None and not throttling.reads and not throttling.lately:
        yield "never_throttled"
    if limit is not None and limit.blocked:
        yield "flag_all_blocked"
    if throttling is not None and throttling.lately:
        yield "throttled", {"reads": throttling.lately[0].reads}
    elif throttling is not None and throttling.reads:
        yield "throttled_once", {"reads": throttling.reads}
    if view.attended and exact(view.delayed) == 0:  # without a consumer the broker counts none
        yield "none_delayed"
    delayed, entries = exact(view.delayed), view.backlog.entries if view.backlog else None
    if delayed and entries and delayed * 2 >= entries:
        yield "delayed_most", {"entries": entries}
    elif delayed:
        yield "delayed_some"


def _at_the_broker(view: SubscriptionView) -> Found:
    """What of the broker's own may keep messages."""
    filtering = view.filtering
    if filtering is not None and view.filter_keeps:
        yield "filter_puts_back", {"put_back": filtering.put_back}
    if view.pauses_by_design:
        yield "waits_by_design"
    if view.pending_acks == 0:
        yield "none_pending"
    if view.open_transactions is not None:
        yield "open_transaction" if view.open_transactions else "none_open"


def _read_state(face: Face, unread: int | None) -> Found:
    """What the flags of the read say; where all is read, waiting for new entries is right."""
    if face in OF_A_READ and (face is not Face.ASLEEP or unread):
        yield OF_A_READ[face], {"flags": face.value}
    elif face is Face.ASLEEP and unread == 0:
        yield "read_waits"


def _cursor(view: SubscriptionView) -> Found:
    reads, hole, ranges, backlog = view.reads, view.hole, view.ranges, view.backlog
    unread = reads.states[-1].unread if reads is not None and reads.states else None
    if reads is not None and reads.moved:
        yield "reads"
    elif reads is not None and reads.face is not None:
        yield from _read_state(reads.face, unread)
    if view.read_armed:
        yield "read_armed"
    if unread and view.left is None:
        yield "unread", {"unread": unread}
    if hole is not None and hole.ranges:
        old = hole.stood is not None and hole.stood.seconds >= LONG_SECONDS
        lie = "lies" if hole.ranges == 1 else "lie"
        yield ("hole_old" if old else "hole"), {"ranges": hole.ranges, "lie": lie}
        if (hole.behind or 0) >= WIDE:
            yield "hole_wide", {"behind": hole.behind}
    if ranges is not None and ranges.count >= (ranges.limit or 10_000) / 2:
        yield "many_ranges", {"ranges": ranges.count}
    # In a window both are of several moments: whether they differ all the time is decided.
    if backlog is not None and (backlog.wrong or (backlog.doubtful and not view.watched)):
        counts = {"counter": backlog.counter, "positions": backlog.positions}
        yield "counter_differs", counts
    elif backlog is not None and (backlog.counter or 0) < COUNTER_LEAST:
        yield "counter_negative", {"counter": backlog.counter}
        yield "counter_below_0"
    elif backlog is not None and view.durable is not False:
        yield from _counted(backlog)


def _counted(backlog: Backlog) -> Found:
    """What the cursor counts itself. It begins below 0, by as much as the backlog was then."""
    counted, positions, consumed = backlog.counted, backlog.positions, backlog.consumed
    if counted is not None and positions is not None:
        if abs(counted - positions) > max(IN_HAND.default, positions / 10):
            yield "counted_far", {"counted": counted, "positions": positions}
    elif consumed is not None and consumed < 0:
        yield "consumed_negative", {"consumed": consumed}


def _circles(view: SubscriptionView) -> Found:
    circulation = view.circulation
    if circulation is None:
        return
    if outlived(view, FIRST_ACK_WITHIN.default):  # nobody there: it was one life, perhaps
        yield "outlived"
    if rounds := circles(view, FIRST_ACK_WITHIN.default):
        yield "went_round", {"sent": rounds.sent, "times": rounds.times}
    if circulation.passes:
        return
    for sent in (circulation.window, circulation.life):
        if sent is not None and sent.in_circles:
            yield "in_circles", {"sent": sent.messages}
            return
        if sent is not None and 2 * sent.again > sent.messages > 0:
            yield "again", {"again": sent.again, "sent": sent.messages}
            return
    if circulation.rate_redeliver:
        yield "redelivers", {"rate": f"{circulation.rate_redeliver:.3g}"}


def _ended(view: SubscriptionView) -> Found:
    for closed in view.closed or ():
        if not closed.acked_since:
            yield "ended_holding", {"label": closed.consumer.label, "held": closed.held}
            return


def _own(view: SubscriptionView) -> Found:
    """Clues on a cursor of the broker's own."""
    if view.own is not None and view.own.connected is False:
        yield "apart", {"cluster": view.own.of}


OBSERVERS: tuple[Callable[[SubscriptionView], Found], ...] = (
    _kind, _waiting, _who, _delivery, _rates, _limits, _at_the_broker, _cursor, _circles, _ended,
    _own,
)  # fmt: skip
