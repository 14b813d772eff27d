"""Why a broker that does not read, though a consumer could receive, may not be stuck.

`explain broker-read-stuck` describes them. A longer window or another document removes the reasons
of `_watch_on`. With the others nothing is sent either: only the cause is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE
from pulsar_doctor.diagnosis.answers import NothingMoves, Unknown
from pulsar_doctor.diagnosis.thresholds import Limits
from pulsar_doctor.evidence.consumer import ConsumerView, since_last_delivery, since_last_request
from pulsar_doctor.evidence.reading import BrokerReads, Face
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import exact
from pulsar_doctor.wording.durations import duration

RANGES = 10_000  # the least that any version persists by default
SOCKET_BYTES = 65_536  # fewer are taken by the operating system, whether the client reads or not


@dataclass(frozen=True, slots=True)
class Case:
    """What the reasons depend on: the consumers that could receive, and how the broker reads."""

    view: SubscriptionView
    ready: Sequence[ConsumerView]
    reads: BrokerReads
    limits: Limits

    @property
    def newest_is_enough(self) -> bool:
        """Whether the samples show the standstill, and the flags of the last one its cause."""
        reads, limits = self.reads, self.limits
        if not reads.newest or reads.unread_before <= 0:
            return False
        seen = reads.samples >= limits["samples"] and reads.window_seconds >= limits["still_for"]
        return seen or reads.window_seconds >= limits["retried_within"]

    @property
    def still_for(self) -> float:
        """Seconds for which nothing was sent or requested, at least."""
        last = since_last_delivery(self.ready), since_last_request(self.ready)
        ages = [age.seconds for age in last if age is not None]
        return max(min(ages, default=0.0), self.reads.seconds or 0.0)

    @property
    def alone(self) -> bool:
        """Whether the broker sends everything to one consumer."""
        return self.view.type in SINGLE_ACTIVE


def doubt_of(case: Case) -> tuple[type[Unknown], str] | None:
    """The first reason that applies, with its kind of answer; None if the broker is stuck."""
    for kind, reasons in ((Unknown, _watch_on), (NothingMoves, _other_reasons)):
        if reason := next(reasons(case), None):
            return kind, reason
    return None


def _watch_on(case: Case) -> Iterator[str]:
    reads, seconds, still_for = case.reads, case.reads.seconds, case.limits["still_for"]
    count = len(reads.states)
    if not case.view.watched:
        yield (
            "one sample does not decide: a healthy subscription looks the same; take several "
            "(--window 10s)"
        )
    elif reads.samples <= 1:
        yield (
            "one sample since the last movement does not decide; take a longer window "
            "(--window 60s)"
        )
    if not count:
        yield "only the internal stats show whether the broker reads (--internal-stats)"
    if seconds is None:
        yield "the time between the samples is not known (--interval)"
    elif not case.newest_is_enough and (count < case.limits["samples"] or seconds < still_for):
        yield f"{count} samples over {duration(seconds)} are too few; take a longer window"
    yield from _not_reported(case)
    if reads.left_least <= 0:
        yield "nothing was left to send in some of the samples"
    if not any(consumer.may_receive_throughout for consumer in case.ready):
        yield "in some of the samples no consumer could receive"
    if reads.switched:
        yield "the active consumer has just changed"
    request = since_last_request(case.ready)
    if request is not None and request.seconds < still_for:
        yield f"it sent a FLOW or connected {request} ago"


def _not_reported(case: Case) -> Iterator[str]:
    view, states = case.view, case.reads.states
    for state in states:
        # What waits to be sent again does not matter on Shared where something is unread.
        replay_matters = view.type != "Shared" or not state.unread
        if state.unread is None or (replay_matters and state.replay is None):
            yield "what is left to send is not reported"
    flags = [consumer.blocked_consumer_on_unacked_msgs for consumer in case.ready]
    if not case.alone and None in (view.unacked_limit and view.unacked_limit.blocked, *flags):
        yield "whether it is blocked on unacknowledged messages is not reported"
    if any(state.face is None for state in states):
        yield "this broker does not report whether a read is pending"
    if view.delivered is None:
        yield "how much was delivered is not reported"
    # Consumers may share a name, or have none, and then nothing tells which is the active one.
    consumers = view.consumers or ()
    known = len(view.served) == 1 and all(consumer.name for consumer in consumers)
    if case.alone and len(consumers) != 1 and not known:
        yield "which of its consumers is the active one is not reported"


def _other_reasons(case: Case) -> Iterator[str]:
    """Reasons for which the broker may not read, though it should."""
    view, reads, none_pending = case.view, case.reads, case.reads.face is Face.NONE_PENDING
    if any(state.face is Face.UNDER_WAY for state in reads.states):
        yield (
            "a read is in progress and takes long; check the latency of the bookies, and the "
            "broker's log for failed reads"
        )
    if reads.face is None:
        yield (
            "the state of its read changes from sample to sample, so it keeps trying; check its log"
        )
    yield from _replay_only(case)
    if view.open_transactions is None and reads.face is Face.ASLEEP:
        yield "it may be waiting for a transaction; whether one is open is not reported"
    if not case.alone and exact(view.delayed) != 0:
        yield "delayed messages can pause the dispatcher"
    ranges = view.ranges
    if ranges is not None and not ranges.over and ranges.count >= (ranges.known_limit or RANGES):
        yield f"{ranges.count} acknowledged ranges can pause the dispatcher until fewer are left"
    if none_pending and view.throttling is None:  # a throttled read is not marked as pending
        yield "a dispatch rate limit looks the same, and this broker does not count throttled reads"
    # On Exclusive and Failover the next read waits until the last messages are on the wire.
    sent = [exact(consumer.bytes_out_counter) for consumer in case.ready]
    much = any(count is None or count > SOCKET_BYTES for count in sent)
    retried = case.limits["retried_within"]
    if case.alone and none_pending and much and case.still_for < retried:
        yield (
            "a client that does not read from its connection looks the same for up to "
            f"{duration(retried)}; check again then"
        )


def _replay_only(case: Case) -> Iterator[str]:
    """What waits to be sent again may be bound to a consumer: by its key, or as a chunk."""
    keys, reads = case.view.key_order, case.reads
    if keys is not None and any(state.replay for state in reads.states):
        yield "the messages to be redelivered may belong to one of the Key_Shared consumers"
    if keys is not None and keys.joined:
        yield "Key_Shared consumers that joined lately may have to wait for earlier messages"
    everybody = all(consumer.may_receive for consumer in case.view.consumers or ())
    if reads.unread_least <= 0 and not (reads.face is Face.NONE_PENDING and everybody):
        yield (
            "only messages to be redelivered are left, and which consumers may get them is not "
            "reported"
        )
