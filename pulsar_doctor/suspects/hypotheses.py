"""Each cause as a hypothesis: whom it may concern, what excludes it, which clues speak for it.

Which clues speak for a cause, and which against, follows from how broker and clients work, and is
written here. How much each of them says is measured: see weights. What excludes a cause is a number
with which it cannot be, so that it is ruled out and not only unlikely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pulsar_doctor.evidence.answers import HEALTHY
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least, told
from pulsar_doctor.suspects.clues import QUIET

FEW_RANGES = 1000  # a tenth of the broker's own limit, where nobody told what it is set to
LONGEST_DELAY = 120.0  # seconds: what is given back comes again after 60 as a rule
OfConsumer = Callable[[SubscriptionView, ConsumerView], str | None]
OfAll = Callable[[SubscriptionView], str | None]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One cause. speaks_for, against: keys of clues. missing: names of numbers that would tell.

    excluded: of the subscription as a whole; not_by: by one of its consumers, where the cause is
    one consumer's. Both say why; None: it may be.
    """

    code: str
    says: str
    speaks_for: tuple[str, ...]
    against: tuple[str, ...]
    excluded: OfAll | None = None
    not_by: OfConsumer | None = None
    missing: tuple[str, ...] = ()


def _asks(view: SubscriptionView, each: ConsumerView) -> str | None:
    """Nobody waits for permits who has some."""
    if (least(each.permits) or 0) > 0:
        return f"{each.label} has {each.permits} permits"
    return None


def _waits_for_flow(view: SubscriptionView, each: ConsumerView) -> str | None:
    if each.holds_nothing and _has_asked(each):
        return f"{each.label} holds nothing"
    return _asks(view, each)


def _has_asked(each: ConsumerView) -> bool:
    """Whether it is known that a FLOW came."""
    return (least(each.granted) or 0) > 0 or (least(each.sent) or 0) > 0 or bool(each.flows)


def _not_slow(view: SubscriptionView, each: ConsumerView) -> str | None:
    return _holds_none(view, each) or _asks(view, each)


def _not_below(view: SubscriptionView, each: ConsumerView) -> str | None:
    permits = least(each.permits)
    return None if permits is None or permits < 0 else f"{each.label} has {each.permits} permits"


def _not_silent(view: SubscriptionView, each: ConsumerView) -> str | None:
    if each.holds_nothing:
        return _holds_none(view, each)
    lately = each.since_ack is None or each.since_ack.seconds < QUIET
    return f"acknowledgements of {each.label} come" if each.acked and lately else None


def _not_blocked(view: SubscriptionView, each: ConsumerView) -> str | None:
    return (
        f"the broker says that {each.label} is not at its limit" if each.blocked is False else None
    )


def _holds_none(view: SubscriptionView, each: ConsumerView) -> str | None:
    return f"{each.label} holds nothing" if each.holds_nothing else None


def _not_one_by_one(view: SubscriptionView, each: ConsumerView) -> str | None:
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


def _no_namesake(view: SubscriptionView, each: ConsumerView) -> str | None:
    others = [c.name for c in view.consumers or () if c is not each]
    if each.name is None or None in others or each.name in others:
        return None
    return "no two consumers have the same name"


def _not_active(view: SubscriptionView, each: ConsumerView) -> str | None:
    if view.gone is not None:
        return None
    if len(view.consumers or ()) < 2:
        return "nobody stands by"
    return None if each.without_permits else _asks(view, each)


def _not_shared(view: SubscriptionView) -> str | None:
    if view.type not in (None, "Shared"):
        return f"the subscription is {view.type}: nobody shares its messages"
    if view.consumers is not None and len(view.consumers) < 2:
        return "there is no neighbour"
    if view.left is not None and (view.left.least or 0) > 0:
        return f"{view.left} entries are left to send, also to the neighbours"
    if view.consumers and all(each.without_permits or each.blocked for each in view.consumers):
        return "no neighbour has permits"
    return None


def _not_failover(view: SubscriptionView) -> str | None:
    return None if view.type in (None, "Failover") else f"the subscription is {view.type}"


def _not_key_shared(view: SubscriptionView) -> str | None:
    if view.type not in (None, "Key_Shared"):
        return f"the subscription is {view.type}"
    if view.consumers is not None and len(view.consumers) < 2:
        return "there is no other consumer"
    if view.key_order is not None and view.key_order.out_of_order:
        return "out-of-order delivery is allowed"
    return None


def _not_all_blocked(view: SubscriptionView) -> str | None:
    limit = view.unacked_limit
    said = "the broker says that the subscription is not at its limit"
    return said if limit is not None and limit.blocked is False else None


def _reads_on(view: SubscriptionView) -> str | None:
    if view.nothing_left:
        return "nothing is left to send"
    if view.delivered:
        return f"{view.delivered} messages were sent in the window"
    if view.reads is not None and view.reads.moved:
        return "the broker reads"
    if view.consumers is not None and all(each.without_permits for each in view.served):
        return "nobody has permits, so the broker does not have to read"
    return None


def _attended(view: SubscriptionView) -> str | None:
    count = len(view.consumers or ())
    if view.attended:
        return f"{count} {'consumer is' if count == 1 else 'consumers are'} attached"
    return "the backlog is empty" if view.backlog and view.backlog.empty else None


def _no_hole(view: SubscriptionView) -> str | None:
    ranges = view.ranges
    return "no acknowledged range lies behind mark-delete" if ranges and not ranges.count else None


def _few_ranges(view: SubscriptionView) -> str | None:
    ranges = view.ranges
    if ranges is None or ranges.count > (ranges.limit / 2 if ranges.limit else FEW_RANGES):
        return None
    return f"{ranges.count} acknowledged ranges are few"


def _not_throttled(view: SubscriptionView) -> str | None:
    throttling = view.throttling
    if view.nothing_left:
        return "nothing is left to send"
    if throttling is not None and not throttling.reads and not throttling.lately:
        return "no read was ever held back by a rate limit"
    return None


def _not_again(view: SubscriptionView) -> str | None:
    circulation, there = view.circulation, view.consumers or ()
    for_long = all(each.connected and each.connected.seconds > LONGEST_DELAY for each in there)
    if there and for_long and circulation is not None and circulation.ever_sent == 0:
        return "nothing was ever sent to those that are there"
    if view.delivered == 0 and (view.watched_seconds or 0) > LONGEST_DELAY:
        return "nothing was sent in the window"
    return None


def _none_delayed(view: SubscriptionView) -> str | None:
    if not view.attended:
        return None  # without a consumer the broker counts none
    return "the broker counts no delayed entry" if told(view.delayed) == 0 else None


def _counts_right(view: SubscriptionView) -> str | None:
    backlog = view.backlog
    if backlog is None or backlog.counter is None or backlog.positions is None:
        return None
    same = backlog.counter == backlog.positions and not backlog.wrong
    return f"counter and positions both say {backlog.counter} entries" if same else None


def _by_trace_only(view: SubscriptionView, each: ConsumerView) -> str | None:
    owed = told(each.owed)
    if owed is not None and each.refill_threshold and owed < each.refill_threshold:
        return f"{each.label} owes {owed} permits, fewer than it asks for at once"
    return _asks(view, each)


STUCK = ("quiet_long", "quiet_some", "unusual", "neighbour_later", "still", "one_flow")

HYPOTHESES = (
    Hypothesis(
        "permits-exhausted",
        "{who} holds what it was sent and does not ask for more for long: it hangs, is paused, "
        "or is very slow",
        ("undecided", "no_permits", "below_zero", "holds_many", "holds_some", "flow_far",
         "flow_may_be_far", "never_acked", "never_acked_many", "never_asked", "waits", "rate_none",
         "unread", *STUCK),
        ("works", "moves", "lively", "flow_soon", "flow_later", "asks_singly", "holds_one",
         "flag_blocked", "nobody_holds", "rate_out", "rate_acks"),
        not_by=_waits_for_flow,
        missing=("pace", "receiver_queue_size"),
    ),
    Hypothesis(
        "slow-but-progressing",
        "{who} works, slowly, and asks for more only after half of its queue",
        ("undecided", "no_permits", "holds_many", "holds_some", "flow_later", "flow_may_be_far",
         "acks_come", "works", "has_acked", "waits", "rate_acks"),
        ("never_acked", "never_acked_many", "still", "quiet_long", "unusual", "flow_soon",
         "one_flow", "asks_singly", "flag_blocked", "flow_far"),
        not_by=_not_slow,
        missing=("pace", "receiver_queue_size"),
    ),
    Hypothesis(
        "negative-permits",
        "{who} was sent far more than it asked for, in batches, and must work that off first",
        ("undecided", "below_zero", "batches", "flow_far", "quiet_long", "waits"),
        ("lively", "asks_singly", "flow_soon", "moves"),
        not_by=_not_below,
        missing=("largest_batch",),
    ),
    Hypothesis(
        "permit-leak",
        "the client of {who} has lost permits and will never ask for them again",
        ("undecided", "owes_flow", "no_permits", "holds_one", "empty_handed", "has_acked", "waits",
         "quiet_long"),
        ("owes_little", "holds_many", "lively", "one_flow", "never_acked_many", "flag_blocked"),
        not_by=_by_trace_only,
        missing=("owed",),
    ),
    Hypothesis(
        "zero-queue-unsupported",
        "{who} has a zero queue, and its client cannot take a batch with that",
        ("undecided", "batch_for_one", "quiet_long", "quiet_some", "below_zero"),
        ("works", "lively", "acks_come"),
        not_by=_not_one_by_one,
        missing=("receiver_queue_size",),
    ),
    Hypothesis(
        "blocked-on-unacked-consumer",
        "{who} holds as many unacknowledged messages as its limit allows",
        ("undecided", "flag_blocked", "near_limit", "never_acked_many", "still", "quiet_long",
         "neighbour_later", "rate_none"),
        ("acks_come", "works", "holds_nothing", "holds_one", "rate_out", "rate_acks"),
        not_by=_not_blocked,
        missing=("blocked_consumer_on_unacked_msgs",),
    ),
    Hypothesis(
        "not-acknowledging",
        "{who} takes messages and acknowledges none of them, or hangs with them",
        ("undecided", "never_acked", "never_acked_many", "has_permits", "near_limit",
         "nothing_left", "holds_some", "holds_many", "rate_none", *STUCK),
        ("works", "acks_come", "lively", "has_acked", "young", "no_permits", "rate_acks"),
        not_by=_not_silent,
        missing=("last_acked_timestamp", "quiet_for"),
    ),
    Hypothesis(
        "prefetch-hogging",
        "{who} keeps in its queue what idle neighbours could do",
        ("undecided", "neighbours_idle", "holds_many", "holds_some", "nothing_left", "flow_far",
         "quiet_long", "quiet_some", "unusual", "neighbour_later"),
        ("neighbours_busy", "small_share", "holds_one", "asks_singly", "lively", "flow_soon",
         "works"),
        excluded=_not_shared,
        not_by=_holds_none,
        missing=("pace",),
    ),
    Hypothesis(
        "key-shared-blocked",
        "messages wait for keys that {who} had, or has, until it acknowledges",
        ("undecided", "keys_drain", "replay_waits", "no_permits", "below_zero", "never_acked",
         "never_acked_many", "waits", "rate_none", *STUCK),
        ("works", "acks_come", "lively", "nothing_left", "joined_late"),
        excluded=_not_key_shared,
        not_by=_holds_none,
        missing=("draining_hashes", "msg_in_replay"),
    ),
    Hypothesis(
        "inactive-failover",
        "{who} is the active consumer, does nothing, and so no standby takes over",
        ("undecided", "standby", "active_gone", "no_permits", "below_zero", "never_acked",
         "never_acked_many", "flow_far", "rate_none", *STUCK),
        ("works", "acks_come", "lively", "asks_singly", "moves", "rate_out", "rate_acks"),
        excluded=_not_failover,
        not_by=_not_active,
        missing=("quiet_for",),
    ),
    Hypothesis(
        "exclusive-zombie",
        "{who} seems to be dead and still keeps its place or its messages",
        ("undecided", "namesake", "neighbour_later", "quiet_long", "still"),
        ("works", "acks_come", "lively"),
        not_by=_no_namesake,
    ),
    Hypothesis(
        "blocked-on-unacked-subscription",
        "the consumers together hold as many messages as the subscription's limit allows",
        ("undecided", "flag_all_blocked", "delivers_none", "delivered_long_ago", "rate_none"),
        ("somebody_acks", "delivers", "nobody_holds", "rate_out", "rate_acks"),
        excluded=_not_all_blocked,
        missing=("blocked_subscription_on_unacked_msgs",),
    ),
    Hypothesis(
        "broker-read-stuck",
        "consumers ask, entries are there, and the broker does not read them",
        ("undecided", "somebody_ready", "waits", "delivers_none", "delivered_long_ago", "no_read",
         "read_lost", "read_asleep", "nobody_holds", "backlog_grows", "rate_none",
         "unread"),
        ("just_delivered", "delivers", "throttled", "delayed_most", "delayed_some", "replay",
         "read_under_way", "read_waits", "flag_all_blocked", "reads", "counter_differs",
         "rate_out"),
        excluded=_reads_on,
        missing=("read_state", "read_position"),
    ),
    Hypothesis(
        "no-consumer",
        "nobody is attached, and a backlog waits",
        ("undecided", "nobody", "waits", "backlog_grows", "rate_none", "unread"),
        ("just_delivered", "rate_out", "rate_acks", "read_armed"),
        excluded=_attended,
        missing=("consumers",),
    ),
    Hypothesis(
        "ack-hole",
        "single messages that are not acknowledged hold mark-delete back",
        ("undecided", "hole", "hole_old", "hole_wide", "many_ranges", "somebody_acks"),
        ("counter_differs", "delayed_most", "nobody_holds"),
        excluded=_no_hole,
        missing=("acknowledged_ranges",),
    ),
    Hypothesis(
        "holes-over-limit",
        "more acknowledged ranges than the broker writes down",
        ("undecided", "many_ranges"),
        (),
        excluded=_few_ranges,
        missing=("acknowledged_ranges",),
    ),
    Hypothesis(
        "dispatch-throttled",
        "a dispatch rate limit sets the pace",
        ("undecided", "throttled", "throttled_once", "somebody_ready", "waits", "unread"),
        ("nobody_ready", "delivered_long_ago", "read_asleep", "rate_none"),
        excluded=_not_throttled,
        missing=("throttled_reads",),
    ),
    Hypothesis(
        "redelivery-storm",
        "the same messages are sent again and again, and few are acknowledged",
        ("undecided", "in_circles", "again", "redelivers", "come_and_go", "delivers", "replay",
         "rate_redeliver"),
        ("somebody_acks", "delivers_none", "delivered_long_ago", "backlog_falls", "rate_acks",
         "rate_none"),
        excluded=_not_again,
        missing=("redelivered",),
    ),
    Hypothesis(
        "delayed-messages",
        "the backlog is not due yet",
        ("undecided", "delayed_most", "delayed_some", "nobody_holds", "somebody_ready"),
        (),
        excluded=_none_delayed,
        missing=("msg_delayed",),
    ),
    Hypothesis(
        "backlog-counter-wrong",
        "the broker miscounts the backlog: less waits than it says, or nothing",
        ("undecided", "counter_differs", "counted_far", "consumed_negative", "nobody_holds",
         "read_asleep", "somebody_ready"),
        ("delivers", "just_delivered", "reads"),
        excluded=_counts_right,
        missing=("backlog_by_positions",),
    ),
    Hypothesis(
        HEALTHY,
        "it works, or waits for what comes",
        ("settled", "just_delivered", "delivers", "somebody_acks", "reads", "nobody_holds",
         "nothing_left",
         "backlog_falls", "somebody_ready", "all_lively", "all_work", "rate_out", "rate_acks",
         "read_waits"),
        ("delivered_long_ago", "delivers_none", "backlog_grows", "flag_all_blocked", "waits",
         "nobody_ready", "one_stuck", "one_never_acked", "one_blocked", "replay",
         "rate_redeliver", "hole_wide", "rate_none", "one_empty", "unread"),
    ),
)  # fmt: skip
