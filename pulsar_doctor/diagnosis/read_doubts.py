"""Why a broker that does not read, though a consumer could receive, may not be stuck.

Each doubt is a function of the case that gives a reason, or nothing. `WATCH_ON` are those that a
longer window or another document takes away. With `OTHER_REASONS` nothing is sent either: only the
reason is not known. `broker-read-stuck` says what each of them means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE
from pulsar_doctor.diagnosis.thresholds import Limits
from pulsar_doctor.evidence.consumer import ConsumerView, since_last_delivery, since_last_request
from pulsar_doctor.evidence.reading import BrokerReads, Face, ReadState
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import told
from pulsar_doctor.wording.durations import duration

RANGES = 10_000  # the least that any version persists by default
SOCKET_BYTES = 65_536  # fewer are taken by the operating system, whether the client reads or not


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that a doubt is judged by: who could receive, and how the broker reads."""

    view: SubscriptionView
    ready: Sequence[ConsumerView]
    reads: BrokerReads
    limits: Limits

    @property
    def newest_alone_tells(self) -> bool:
        """Whether the topic's samples show the standstill, and the last one's flags how it came."""
        reads, limits = self.reads, self.limits
        if not reads.newest or reads.unread_before <= 0:
            return False
        looked = reads.samples >= limits["samples"] and reads.window_seconds >= limits["still_for"]
        return looked or reads.window_seconds >= limits["retried_within"]

    @property
    def stands(self) -> float:
        """Seconds for which nothing was sent or asked for, at least."""
        last = since_last_delivery(self.ready), since_last_request(self.ready)
        ages = [age.seconds for age in last if age is not None]
        return max(min(ages, default=0.0), self.reads.seconds or 0.0)


def _one_sample(case: Case) -> str | None:
    if case.view.watched and case.reads.samples > 1:
        return None
    return (
        "one sample does not decide: a healthy subscription looks the same; take several "
        "(--window 10s)"
    )


def _no_states(case: Case) -> str | None:
    if case.reads.states:
        return None
    return "only the internal stats show whether the broker reads (--internal-stats)"


def _too_few(case: Case) -> str | None:
    seconds, states = case.reads.seconds, len(case.reads.states)
    if seconds is None:
        return "the time between the samples is not known (--interval)"
    enough = states >= case.limits["samples"] and seconds >= case.limits["still_for"]
    if enough or case.newest_alone_tells:
        return None
    return f"{states} samples over {duration(seconds)} are too few; take a longer window"


def _not_reported(case: Case) -> str | None:
    limit = case.view.unacked_limit
    blocked = [
        limit and limit.blocked,
        *(consumer.blocked_consumer_on_unacked_msgs for consumer in case.ready),
    ]
    if any(_left_not_reported(case, state) for state in case.reads.states):
        return "what is left to send is not reported"
    if case.view.type not in SINGLE_ACTIVE and None in blocked:
        return "whether it is blocked on unacknowledged messages is not reported"
    if any(state.face is None for state in case.reads.states):
        return "this broker does not report whether a read is pending"
    if case.view.delivered is None:
        return "how much was delivered is not reported"
    return None


def _left_not_reported(case: Case, state: ReadState) -> bool:
    """What waits to be sent again does not matter on Shared where something is unread."""
    if state.unread is None:
        return True
    return state.replay is None and not (case.view.type == "Shared" and state.unread)


def _not_throughout(case: Case) -> str | None:
    if case.reads.left_least <= 0:
        return "nothing was left to send in some of the samples"
    if any(consumer.may_receive_throughout for consumer in case.ready):
        return None
    return "in some of the samples no consumer had permits"


def _just_asked(case: Case) -> str | None:
    asked, still = since_last_request(case.ready), case.limits["still_for"]
    if case.reads.switched:
        return "the active consumer has just changed"
    if asked is None or asked.seconds >= still:
        return None
    return f"it sent a FLOW or connected {asked} ago"


def _who_is_active(case: Case) -> str | None:
    """Consumers may share a name, or tell none, and then the active one is not told."""
    consumers = case.view.consumers or ()
    if case.view.type not in SINGLE_ACTIVE or len(consumers) == 1:
        return None
    if len(case.view.served) == 1 and all(consumer.name for consumer in consumers):
        return None
    return "which of its consumers is the active one is not reported"


def _reads(case: Case) -> str | None:
    if any(state.face is Face.UNDER_WAY for state in case.reads.states):
        return (
            "a read is in progress and takes long; check the latency of the bookies, and the "
            "broker's log for failed reads"
        )
    if case.reads.face is None:
        return (
            "the state of its read changes from sample to sample, so it keeps trying; check its log"
        )
    return None


def _replay_only(case: Case) -> str | None:
    """What waits to be sent again may be bound to a consumer: by its key, or as a chunk."""
    keys = case.view.key_order
    if keys is not None and any(state.replay for state in case.reads.states):
        return "the messages to be redelivered may belong to one of the Key_Shared consumers"
    if keys is not None and keys.joined:
        return "Key_Shared consumers that joined lately may have to wait for earlier messages"
    if case.reads.unread_least > 0:
        return None
    everybody = all(consumer.may_receive for consumer in case.view.consumers or ())
    if case.reads.face is Face.NONE_PENDING and everybody:
        return None
    return (
        "only messages to be redelivered are left, and which consumers may get them is not reported"
    )


def _transaction(case: Case) -> str | None:
    """A reader must not pass an open transaction: it waits although there are entries."""
    if case.view.open_transactions is None and case.reads.face is Face.ASLEEP:
        return "it may be waiting for a transaction; whether one is open is not reported"
    return None


def _paused(case: Case) -> str | None:
    ranges = case.view.ranges
    if case.view.type not in SINGLE_ACTIVE and told(case.view.delayed) != 0:
        return "delayed messages can pause the dispatcher"
    if ranges is not None and not ranges.over and ranges.count >= (ranges.known_limit or RANGES):
        return f"{ranges.count} acknowledged ranges can pause the dispatcher until fewer are left"
    return None


def _throttled(case: Case) -> str | None:
    if case.reads.face is not Face.NONE_PENDING:
        return None  # a throttled read is not marked as pending
    if case.view.throttling is not None:
        return None
    return "a dispatch rate limit looks the same, and this broker does not count throttled reads"


def _deaf_client(case: Case) -> str | None:
    """On Exclusive and Failover the next read waits until the last messages are on the wire."""
    if case.view.type not in SINGLE_ACTIVE or case.reads.face is not Face.NONE_PENDING:
        return None
    sent = [told(consumer.bytes_out_counter) for consumer in case.ready]
    much = any(count is None or count > SOCKET_BYTES for count in sent)
    if not much or case.stands >= case.limits["retried_within"]:
        return None
    return (
        "a client that does not read from its connection looks the same for up to "
        f"{duration(case.limits['retried_within'])}; check again then"
    )


Doubt = Callable[[Case], str | None]
WATCH_ON: tuple[Doubt, ...] = (
    _one_sample,
    _no_states,
    _too_few,
    _not_reported,
    _who_is_active,
    _not_throughout,
    _just_asked,
)
OTHER_REASONS: tuple[Doubt, ...] = (  # why it may stand still
    _reads,
    _replay_only,
    _transaction,
    _paused,
    _throttled,
    _deaf_client,
)
