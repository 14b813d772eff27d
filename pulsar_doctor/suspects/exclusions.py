"""What excludes a cause: a number with which it cannot be, in a sentence; None: it may be.

A number that is not told excludes nothing. Each is called by what it finds; hypotheses says which
cause that excludes.
"""

from __future__ import annotations

from collections import Counter

from pulsar_doctor.evidence.answers import STATS, WIRE
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least, told
from pulsar_doctor.suspects.clues import QUIET

FEW_RANGES = 1000  # a tenth of the broker's own limit, where nobody told what it is set to
LONGEST_DELAY = 120.0  # seconds: what is given back comes again after 60 as a rule


def needs_no_flow(view: SubscriptionView, each: ConsumerView) -> str | None:
    """Who holds nothing has taken all that it was sent; who has permits needs no FLOW."""
    if each.holds_nothing and _has_asked(each):
        return f"{each.label} holds nothing"
    return _asks(view, each)


def not_slow(view: SubscriptionView, each: ConsumerView) -> str | None:
    """Who holds nothing, or has permits, keeps nobody waiting."""
    return holds_none(view, each) or _asks(view, each)


def not_below(view: SubscriptionView, each: ConsumerView) -> str | None:
    """Permits that are told, and are not negative."""
    permits = least(each.permits)
    return None if permits is None or permits < 0 else f"{each.label} has {each.permits} permits"


def not_silent(view: SubscriptionView, each: ConsumerView) -> str | None:
    """Nothing to acknowledge, or acknowledgements that come."""
    if each.holds_nothing:
        return holds_none(view, each)
    lately = each.since_ack is None or each.since_ack.seconds < QUIET
    return f"acknowledgements of {each.label} come" if each.acked and lately else None


def not_blocked(view: SubscriptionView, each: ConsumerView) -> str | None:
    """The broker's own flag."""
    return (
        f"the broker says that {each.label} is not at its limit" if each.blocked is False else None
    )


def holds_none(view: SubscriptionView, each: ConsumerView) -> str | None:
    """Nothing waits at who holds nothing."""
    return f"{each.label} holds nothing" if each.holds_nothing else None


def not_one_by_one(view: SubscriptionView, each: ConsumerView) -> str | None:
    """A queue that is larger, or a life in which no batch came for one permit."""
    size = least(each.queue_size)
    if size is not None and size > 1:
        return f"{each.label} has a receiver queue of {each.queue_size}"
    granted = told(each.granted)
    permits = told(each.permits)
    if permits is not None and permits > 1:
        return f"{each.label} has {permits} permits"
    if each.batch_for_one or granted is None or each.held is None:
        return None
    return f"{each.label} was sent no batch for one permit" if not each.one_by_one else None


def no_namesake(view: SubscriptionView) -> str | None:
    """No second consumer that could be the newer one of somebody who is served."""
    names = Counter(each.name for each in view.consumers or ())
    if None in names or not view.served or any(names[each.name] > 1 for each in view.served):
        return None
    return "no two consumers have the same name"


def not_active(view: SubscriptionView, each: ConsumerView) -> str | None:
    """Nobody who could take over, or an active consumer with permits."""
    if view.gone is not None:
        return None
    if len(view.consumers or ()) < 2:
        return "nobody stands by"
    return None if each.without_permits else _asks(view, each)


def owes_little(view: SubscriptionView, each: ConsumerView) -> str | None:
    """Fewer permits are owed than a client gives back at once, or it has some."""
    owed = told(each.owed)
    if owed is not None and each.refill_threshold and owed < each.refill_threshold:
        return f"{each.label} owes {owed} permits, fewer than it asks for at once"
    return _asks(view, each)


def not_shared(view: SubscriptionView) -> str | None:
    """No neighbour who is idle because of what another one keeps."""
    if view.type not in (None, "Shared"):
        return f"the subscription is {view.type}: nobody shares its messages"
    if view.consumers is not None and len(view.consumers) < 2:
        return "there is no neighbour"
    if view.left is not None and (view.left.least or 0) > 0:
        return f"{view.left} entries are left to send, also to the neighbours"
    if view.consumers and all(each.without_permits or each.blocked for each in view.consumers):
        return "no neighbour has permits"
    return None


def not_failover(view: SubscriptionView) -> str | None:
    """Nobody stands by elsewhere."""
    if view.type is None and view.sources == {STATS} and any(map(_holds, view.consumers or ())):
        return "unacknowledged messages are counted, as on Shared and Key_Shared alone"
    return None if view.type in (None, "Failover") else f"the subscription is {view.type}"


def _holds(consumer: ConsumerView) -> bool:
    return (least(consumer.held) or 0) > 0


def not_key_shared(view: SubscriptionView) -> str | None:
    """No order of keys that would have to be kept."""
    if view.type not in (None, "Key_Shared"):
        return f"the subscription is {view.type}"
    if view.consumers is not None and len(view.consumers) < 2:
        return "there is no other consumer"
    if view.key_order is not None and view.key_order.out_of_order:
        return "out-of-order delivery is allowed"
    return None


def not_all_blocked(view: SubscriptionView) -> str | None:
    """The broker's own flag of the subscription."""
    limit = view.unacked_limit
    said = "the broker says that the subscription is not at its limit"
    return said if limit is not None and limit.blocked is False else None


def reads_on(view: SubscriptionView) -> str | None:
    """Reads go on, or nobody needs one."""
    if view.nothing_left:
        return "nothing is left to send"
    if view.delivered:
        return f"{view.delivered} messages were sent in the window"
    if view.reads is not None and view.reads.moved:
        return "the broker reads"
    if view.consumers is not None and all(each.without_permits for each in view.served):
        return "nobody has permits, so the broker does not have to read"
    return None


def attended(view: SubscriptionView) -> str | None:
    """Somebody is there, or nothing waits."""
    count = len(view.consumers or ())
    if view.attended and count:
        told_of = sum(each.tells_something for each in view.consumers or ())
        short = "at least " if 0 < told_of < count else ""  # of a list that is not whole
        count = told_of if short else count
        return f"{short}{count} {'consumer is' if count == 1 else 'consumers are'} attached"
    if view.attended:
        return "the broker names an active consumer"
    by_broker = WIRE not in view.sources  # which forgets what was held when the last one leaves
    if by_broker and view.attended is None and (least(view.unacked) or 0) > 0:
        return f"somebody holds {view.unacked} messages"
    return "the backlog is empty" if view.backlog and view.backlog.empty else None


def no_hole(view: SubscriptionView) -> str | None:
    """Ranges that are told, and are none."""
    ranges = view.ranges
    return "no acknowledged range lies behind mark-delete" if ranges and not ranges.count else None


def few_ranges(view: SubscriptionView) -> str | None:
    """Far fewer ranges than the limit."""
    ranges = view.ranges
    if ranges is None or ranges.count > (ranges.limit / 2 if ranges.limit else FEW_RANGES):
        return None
    return f"{ranges.count} acknowledged ranges are few"


def not_throttled(view: SubscriptionView) -> str | None:
    """Nothing to send, or no read that was ever held back."""
    throttling = view.throttling
    if view.nothing_left:
        return "nothing is left to send"
    if throttling is not None and not throttling.reads and not throttling.lately:
        return "no read was ever held back by a rate limit"
    return None


def not_again(view: SubscriptionView) -> str | None:
    """For longer than it takes to come again nothing was sent at all."""
    circulation, there = view.circulation, view.consumers or ()
    for_long = all(each.connected and each.connected.seconds > LONGEST_DELAY for each in there)
    if there and for_long and circulation is not None and circulation.ever_sent == 0:
        return "nothing was ever sent to those that are there"
    if view.delivered == 0 and (view.watched_seconds or 0) > LONGEST_DELAY:
        return "nothing was sent in the window"
    return None


def none_delayed(view: SubscriptionView) -> str | None:
    """The broker's own count, which it keeps while somebody is attached."""
    if not view.attended:
        return None  # without a consumer the broker counts none
    return "the broker counts no delayed entry" if told(view.delayed) == 0 else None


def counts_right(view: SubscriptionView) -> str | None:
    """Two counts that agree."""
    backlog = view.backlog
    if backlog is None or backlog.counter is None or backlog.positions is None:
        return None
    same = backlog.counter == backlog.positions and not backlog.wrong
    return f"counter and positions both say {backlog.counter} entries" if same else None


def _asks(view: SubscriptionView, each: ConsumerView) -> str | None:
    """Nobody waits for permits who has some."""
    if (least(each.permits) or 0) > 0:
        return f"{each.label} has {each.permits} permits"
    return None


def _has_asked(each: ConsumerView) -> bool:
    """Whether it is known that a FLOW came."""
    return (least(each.granted) or 0) > 0 or (least(each.sent) or 0) > 0 or bool(each.flows)
