"""A consumer holds messages and acknowledges nothing, though it has permits left.

Its receiver queue is not full, so permits are not what is missing: the broker has sent all there
is, and the application neither acknowledges nor asks for more. It hangs, forgets to acknowledge, or
works longer on one message than `silent_for`; from outside these look the same, so it is a warning.
Producers go on, and nothing fails until the queue is full.

The rule looks for a consumer with permits that holds messages, while nothing is left to send, and
of which neither an ack nor a FLOW nor a delivery has come for `silent_for`. One that goes on asking
or being sent messages is found too, where it holds 50 or more, the first of them for twice
`silent_for`, and has never acknowledged any; where that age is not told, it is unknown. Readers,
other non-durable subscriptions and standbys are not judged. By the stats alone, what is held on
Exclusive and Failover is known from the internal stats only. A trace does not tell what is left to
send; but nothing is, or the broker does not read, where a consumer with permits is sent nothing for
so long.

Source: Consumer.messageAcked and flowPermits in the broker.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE
from pulsar_doctor.broker.stats.sample import Age
from pulsar_doctor.evidence.answers import STATS, WIRE, Action, Answers, Finding, Measure, Unknown
from pulsar_doctor.evidence.consumer import ConsumerView, measured
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.thresholds import Limits, Threshold
from pulsar_doctor.evidence.values import least
from pulsar_doctor.remedies.consumers import in_order, look, more_workers, place, treatment
from pulsar_doctor.remedies.lines import check as check_line
from pulsar_doctor.wording.durations import duration

THRESHOLDS = (Threshold("silent_for", 300.0, "seconds", "a shorter silence of a consumer is work"),)
NEEDS = frozenset({STATS, WIRE})
EXPLAINS = frozenset({"ack-hole"})
MANY = 50  # messages, more than anybody works on at once
REMEDY = (
    "See whether this application hangs (a thread dump) or does not acknowledge what it has "
    "finished; closing it gives its messages to another consumer."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer that holds messages in silence."""
    if view.quiet_is_fine:
        return
    nothing_left = _nothing_left(view)
    for consumer in view.consumers or ():
        silent = consumer.quiet_for(limits["silent_for"]) and not consumer.works
        rests = nothing_left and _holds_with_permits(consumer)
        if rests and silent:
            yield _finding(view, consumer)
        elif _never_acks(view, consumer) and not (silent and consumer.without_permits):
            yield from _none_of_many(view, consumer, 2 * limits["silent_for"])
        elif rests and consumer.quiet and not consumer.quiet.exact:
            yield _since_when(consumer)


def _since_when(consumer: ConsumerView) -> Unknown:
    return Unknown(
        f"{consumer.label} holds {consumer.held} messages and has "
        f"{'never acknowledged any' if consumer.never_acked else 'not moved'}; "
        f"since when is not told: {consumer.unseen or 'take a longer window'}",
        consumer.label,
    )


def _never_acks(view: SubscriptionView, consumer: ConsumerView) -> bool:
    if not consumer.never_acked or consumer.active is False or consumer.resting:
        return False
    return _kept(view, consumer) >= MANY


def _kept(view: SubscriptionView, consumer: ConsumerView) -> int:
    """Messages without an ack, at least: of a single active consumer all that it was sent."""
    sent = least(consumer.sent) if view.type in SINGLE_ACTIVE else None
    return max(least(consumer.held) or 0, sent or 0)


def _none_of_many(view: SubscriptionView, consumer: ConsumerView, patience: float) -> Answers:
    """Of one that has never acknowledged any of many."""
    since, there = consumer.holds_since, consumer.connected
    if since is not None and since.seconds >= patience:
        yield _never_finding(view, consumer, since)
    elif since is not None and since.exact:
        return
    elif there is None or not there.exact or there.seconds >= patience:
        yield _since_when(consumer)


def _nothing_left(view: SubscriptionView) -> bool:
    """Whether nothing is left to send, as far as anybody tells."""
    if view.left is None:
        return view.backlog is None
    return view.left.most is not None and view.left.most <= 0


def _holds_with_permits(consumer: ConsumerView) -> bool:
    permits, held = least(consumer.permits), least(consumer.held)
    if not held or permits is None or permits <= 0 or consumer.active is False:
        return False
    return not (consumer.moved or consumer.works or consumer.resting)


def _never_finding(view: SubscriptionView, consumer: ConsumerView, since: Age) -> Finding:
    kept = _kept(view, consumer)
    evidence = (
        measured("available_permits", consumer.permits, "permits"),
        Measure("held_least", kept, "messages"),
        Measure("holds_since", round(since.seconds, 3), "seconds ago"),
    )
    said = (
        f"has been sent messages for {since} and has never acknowledged any: "
        f"it holds {kept} or more"
    )
    actions = (look(view, consumer), *_acknowledge(view, consumer), more_workers(view))
    return _warning(consumer, said, evidence, actions)


def _finding(view: SubscriptionView, consumer: ConsumerView) -> Finding:
    silent = consumer.quiet.seconds if consumer.quiet else 0.0
    held, permits = least(consumer.held), least(consumer.permits)
    evidence = (
        Measure("available_permits", permits, "permits"),
        Measure("held_least", held, "messages"),
        Measure("silent_for", round(silent, 3), "seconds"),
    )
    said = (
        f"holds {held} messages or more and has acknowledged nothing for {duration(silent)}; "
        f"{permits} permits are left, and nothing is left to send"
    )
    actions = in_order((*treatment(view, consumer), *_acknowledge(view, consumer)))
    return _warning(consumer, said, evidence, actions)


def _warning(
    consumer: ConsumerView, said: str, evidence: tuple[Measure, ...], actions: tuple[Action, ...]
) -> Finding:
    return Finding(
        code="not-acknowledging",
        severity="warning",
        confidence=0.6,
        consumer=consumer.label,
        summary=f"{consumer.label} {said}",
        evidence=evidence,
        remedy=REMEDY,
        actions=actions,
    )


def _acknowledge(view: SubscriptionView, consumer: ConsumerView) -> Iterator[Action]:
    if not consumer.never_acked:
        return
    yield Action(
        "today",
        f"See in the application {place(consumer)} that each message is acknowledged when its "
        "work is done: it takes them and has never acknowledged one.",
        check=check_line(view, "it has acknowledged, and holds fewer"),
    )
