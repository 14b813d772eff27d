"""Each cause as a hypothesis: whom it may concern, what excludes it, which clues speak for it.

Which clues speak for a cause, and which against, follows from how broker and clients work, and is
written here. How much each of them says is measured: see weights. What excludes a cause rules it
out, and does not only make it unlikely: see exclusions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pulsar_doctor.evidence.answers import HEALTHY
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.suspects import exclusions

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
        not_by=exclusions.needs_no_flow,
        missing=("pace", "receiver_queue_size"),
    ),
    Hypothesis(
        "slow-but-progressing",
        "{who} works, slowly, and asks for more only after half of its queue",
        ("undecided", "no_permits", "holds_many", "holds_some", "flow_later", "flow_may_be_far",
         "acks_come", "works", "has_acked", "waits", "rate_acks"),
        ("never_acked", "never_acked_many", "still", "quiet_long", "unusual", "flow_soon",
         "one_flow", "asks_singly", "flag_blocked", "flow_far"),
        not_by=exclusions.not_slow,
        missing=("pace", "receiver_queue_size"),
    ),
    Hypothesis(
        "negative-permits",
        "{who} was sent far more than it asked for, in batches, and must work that off first",
        ("undecided", "below_zero", "batches", "flow_far", "quiet_long", "waits"),
        ("lively", "asks_singly", "flow_soon", "moves"),
        not_by=exclusions.not_below,
        missing=("largest_batch",),
    ),
    Hypothesis(
        "permit-leak",
        "the client of {who} has lost permits and will never ask for them again",
        ("undecided", "owes_flow", "no_permits", "holds_one", "empty_handed", "has_acked", "waits",
         "quiet_long"),
        ("owes_little", "holds_many", "lively", "one_flow", "never_acked_many", "flag_blocked"),
        not_by=exclusions.owes_little,
        missing=("owed",),
    ),
    Hypothesis(
        "zero-queue-unsupported",
        "{who} has a zero queue, and its client cannot take a batch with that",
        ("undecided", "batch_for_one", "quiet_long", "quiet_some", "below_zero"),
        ("works", "lively", "acks_come"),
        not_by=exclusions.not_one_by_one,
        missing=("receiver_queue_size",),
    ),
    Hypothesis(
        "blocked-on-unacked-consumer",
        "{who} holds as many unacknowledged messages as its limit allows",
        ("undecided", "flag_blocked", "near_limit", "never_acked_many", "still", "quiet_long",
         "neighbour_later", "rate_none"),
        ("acks_come", "works", "holds_nothing", "holds_one", "rate_out", "rate_acks"),
        not_by=exclusions.not_blocked,
        missing=("blocked_consumer_on_unacked_msgs",),
    ),
    Hypothesis(
        "not-acknowledging",
        "{who} takes messages and acknowledges none of them, or hangs with them",
        ("undecided", "never_acked", "never_acked_many", "has_permits", "near_limit",
         "nothing_left", "holds_some", "holds_many", "rate_none", *STUCK),
        ("works", "acks_come", "lively", "has_acked", "young", "no_permits", "rate_acks"),
        not_by=exclusions.not_silent,
        missing=("last_acked_timestamp", "quiet_for"),
    ),
    Hypothesis(
        "prefetch-hogging",
        "{who} keeps in its queue what idle neighbours could do",
        ("undecided", "neighbours_idle", "holds_many", "holds_some", "nothing_left", "flow_far",
         "quiet_long", "quiet_some", "unusual", "neighbour_later"),
        ("neighbours_busy", "small_share", "holds_one", "asks_singly", "lively", "flow_soon",
         "works"),
        excluded=exclusions.not_shared,
        not_by=exclusions.holds_none,
        missing=("pace",),
    ),
    Hypothesis(
        "key-shared-blocked",
        "messages wait for keys that {who} had, or has, until it acknowledges",
        ("undecided", "keys_drain", "replay_waits", "no_permits", "below_zero", "never_acked",
         "never_acked_many", "waits", "rate_none", *STUCK),
        ("works", "acks_come", "lively", "nothing_left", "joined_late"),
        excluded=exclusions.not_key_shared,
        not_by=exclusions.holds_none,
        missing=("draining_hashes", "msg_in_replay"),
    ),
    Hypothesis(
        "inactive-failover",
        "{who} is the active consumer, does nothing, and so no standby takes over",
        ("undecided", "standby", "active_gone", "no_permits", "below_zero", "never_acked",
         "never_acked_many", "flow_far", "rate_none", *STUCK),
        ("works", "acks_come", "lively", "asks_singly", "moves", "rate_out", "rate_acks"),
        excluded=exclusions.not_failover,
        not_by=exclusions.not_active,
        missing=("quiet_for",),
    ),
    Hypothesis(
        "exclusive-zombie",
        "{who} seems to be dead and still keeps its place or its messages",
        ("undecided", "namesake", "neighbour_later", "quiet_long", "still"),
        ("works", "acks_come", "lively"),
        excluded=exclusions.no_namesake,
    ),
    Hypothesis(
        "blocked-on-unacked-subscription",
        "the consumers together hold as many messages as the subscription's limit allows",
        ("undecided", "flag_all_blocked", "delivers_none", "delivered_long_ago", "rate_none"),
        ("somebody_acks", "delivers", "nobody_holds", "rate_out", "rate_acks"),
        excluded=exclusions.not_all_blocked,
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
        excluded=exclusions.reads_on,
        missing=("read_state", "read_position"),
    ),
    Hypothesis(
        "no-consumer",
        "nobody is attached, and a backlog waits",
        ("undecided", "nobody", "waits", "backlog_grows", "rate_none", "unread"),
        ("just_delivered", "rate_out", "rate_acks", "read_armed"),
        excluded=exclusions.attended,
        missing=("consumers",),
    ),
    Hypothesis(
        "ack-hole",
        "single messages that are not acknowledged hold mark-delete back",
        ("undecided", "hole", "hole_old", "hole_wide", "many_ranges", "somebody_acks"),
        ("counter_differs", "delayed_most", "nobody_holds"),
        excluded=exclusions.no_hole,
        missing=("acknowledged_ranges",),
    ),
    Hypothesis(
        "holes-over-limit",
        "more acknowledged ranges than the broker writes down",
        ("undecided", "many_ranges"),
        (),
        excluded=exclusions.few_ranges,
        missing=("acknowledged_ranges",),
    ),
    Hypothesis(
        "dispatch-throttled",
        "a dispatch rate limit sets the pace",
        ("undecided", "throttled", "throttled_once", "somebody_ready", "waits", "unread"),
        ("nobody_ready", "delivered_long_ago", "read_asleep", "rate_none"),
        excluded=exclusions.not_throttled,
        missing=("throttled_reads",),
    ),
    Hypothesis(
        "redelivery-storm",
        "the same messages are sent again and again, and few are acknowledged",
        ("undecided", "in_circles", "again", "redelivers", "come_and_go", "delivers", "replay",
         "rate_redeliver"),
        ("somebody_acks", "delivers_none", "delivered_long_ago", "backlog_falls", "rate_acks",
         "rate_none"),
        excluded=exclusions.not_again,
        missing=("redelivered",),
    ),
    Hypothesis(
        "delayed-messages",
        "the backlog is not due yet",
        ("undecided", "delayed_most", "delayed_some", "nobody_holds", "somebody_ready"),
        (),
        excluded=exclusions.none_delayed,
        missing=("msg_delayed",),
    ),
    Hypothesis(
        "backlog-counter-wrong",
        "the broker miscounts the backlog: less waits than it says, or nothing",
        ("undecided", "counter_differs", "counted_far", "consumed_negative", "nobody_holds",
         "read_asleep", "somebody_ready"),
        ("delivers", "just_delivered", "reads"),
        excluded=exclusions.counts_right,
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
