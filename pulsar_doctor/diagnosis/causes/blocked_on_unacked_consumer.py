"""A consumer has reached the limit of unacknowledged messages; the broker sends it nothing more.

You see: `blockedConsumerOnUnackedMsgs` is true, and `unackedMessages` is at or near the limit
(maxUnackedMessagesPerConsumer, 50,000 by default). `availablePermits` may be above 0.

On Shared and Key_Shared the broker stops a consumer that holds so many messages without an ack, and
sets its further FLOWs aside. It sends again when acks have brought the number down to half the
limit, or when the consumer gives messages back.

A consumer that works at its limit is blocked and released all the time. So the check computes when
the release comes, at the pace of the window's acks, as long as no ack is overdue. With 50,000
messages and 100 acks a second that takes up to 250 s.
- Sooner than `slow_wait` is healthy, within `refill_wait` it is a warning, later it is a stall.
- Without any ack it is a stall after `refill_wait`, or after half a minute and ten times the
  longest gap between acks in the window. Before that it is a warning that leaves the verdict
  unknown: a sink that acknowledges at checkpoints, or a long job, is silent at its limit, too.
- What was sent or acknowledged less than `just_now` ago decides nothing yet, unless its pace so far
  brings the release sooner than `slow_wait`. No clock is needed if the consumer has never
  acknowledged any (a warning), or if it holds whole thousands.
- The flag is not trusted if the consumer holds nothing, or far less than half the limit.

A trace of the wire shows this, too, if the limit is known.

Source: Consumer.incrementUnackedMessages and updateBlockedConsumerOnUnackedMsgs in the broker.
"""

from __future__ import annotations

from pulsar_doctor.broker.stats.observed import SHARING
from pulsar_doctor.diagnosis.actions.activity import verdict
from pulsar_doctor.diagnosis.actions.commands import policy_admin
from pulsar_doctor.diagnosis.actions.consumers import freeing, more_workers
from pulsar_doctor.diagnosis.actions.limits import ONLY_IF, raised_limit
from pulsar_doctor.diagnosis.actions.sentence import remedy
from pulsar_doctor.diagnosis.answers import (
    Answers,
    Finding,
    NothingMoves,
    NotReported,
    Probe,
    Severity,
    Unknown,
)
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.release import release_verdict, still_comes
from pulsar_doctor.diagnosis.thresholds import RELEASE_WAITS, Limits
from pulsar_doctor.evidence.ack_wait import AckWait, acks_to_release
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import STATS, WIRE, Measure
from pulsar_doctor.evidence.numbers import measured
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import exact
from pulsar_doctor.wording.sentences import fill, say

THRESHOLDS = RELEASE_WAITS
NEEDS = frozenset({STATS, WIRE})
SYMPTOM = "nothing comes"
BY_SILENCE = True
EXPLAINS = frozenset(
    {
        "permits-exhausted",
        "closed-unacknowledged",
        "slow-but-progressing",
        "prefetch-hogging",
        "not-acknowledging",
        "ack-hole",
    }
)
NO_LIMIT = "the limit of unacknowledged messages is not visible on the wire"
SUMMARY = (
    "{label} holds {held:unacknowledged messages}, its limit, so the broker sends it nothing "
    "more{at}: {verdict}; {more}"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer at its limit with a release that is far away or not in sight."""
    if view.type not in SHARING:
        return
    for consumer in view.consumers or ():
        yield from _answers(view, consumer, limits)


def _answers(view: SubscriptionView, consumer: ConsumerView, limits: Limits) -> Answers:
    held, limit = exact(consumer.unacked_messages), consumer.max_unacked_messages_per_consumer
    if consumer.blocked_consumer_on_unacked_msgs is None and held != 0 and not consumer.delivered:
        yield _not_reported(view, consumer)
    if not consumer.blocked_consumer_on_unacked_msgs:
        return
    if held is None:
        yield _unknown(
            consumer, "the broker reports it as blocked, and its unacked_messages are not reported"
        )
    elif _flows(consumer, limits):
        return
    elif held <= 0 or (limit is not None and held <= limit // 2):
        yield from _stale(view, consumer, held)
    else:
        wait = consumer.acks.until(acks_to_release(held, limit))
        verdict = release_verdict(wait, limits, None if consumer.works else held)
        soon = wait.seconds is not None and wait.seconds <= limits["slow_wait"]
        if isinstance(verdict, Unknown) and not (soon and consumer.works and not consumer.watched):
            yield _unknown(consumer, f"it is blocked with {held} unacked; {verdict.reason}")
        elif verdict is not None and not isinstance(verdict, Unknown):
            yield _finding(view, consumer, wait, verdict)


def _not_reported(view: SubscriptionView, consumer: ConsumerView) -> Unknown | NotReported:
    if view.unacked_limit is None:
        return NotReported(NO_LIMIT)
    return _unknown(consumer, "blocked_consumer_on_unacked_msgs is not reported")


def _flows(consumer: ConsumerView, limits: Limits) -> bool:
    """Whether messages reach it although every sample says that it is blocked."""
    came = bool(consumer.delivered) and consumer.blocked_share == 1
    return came and still_comes(consumer.acks, limits)


def _stale(view: SubscriptionView, consumer: ConsumerView, held: int) -> Answers:
    """Measures of a flag that does not fit what the consumer holds."""
    if view.left is not None and view.left.most == 0:
        return
    limit = consumer.max_unacked_messages_per_consumer
    of = "" if limit is None else f" of a limit of {limit or 'none'}"
    still = consumer.watched and consumer.delivered == 0 and len(view.served) == 1
    yield (NothingMoves if still else Unknown)(
        f"{consumer.label}: the broker reports it as blocked with {held} unacked{of}: the flag may "
        "be left over; if nothing arrives, restart this consumer",
        consumer.label,
    )


def _unknown(consumer: ConsumerView, why: str) -> Unknown:
    return Unknown(f"{consumer.label}: {why}", consumer.label)


def _finding(
    view: SubscriptionView, consumer: ConsumerView, wait: AckWait, severity: Severity
) -> Finding:
    quiet, held = wait.acks.quiet, exact(consumer.unacked_messages)
    at, link = ("", ", and") if wait.seconds is None else (" most of the time", ",")
    more = say("it goes on after at most {:more acks}{} {}", wait.needed, link, wait.outlook)
    return Finding(
        severity=severity,
        confidence=consumer.sure(0.9),
        consumer=consumer.label,
        summary=fill(SUMMARY, consumer, held=held, at=at, verdict=verdict(consumer), more=more),
        evidence=(
            measured("unacked_messages", held),
            Measure(
                "max_unacked_messages_per_consumer",
                consumer.max_unacked_messages_per_consumer,
                "messages",
            ),
            Measure("release_after", wait.needed, "acks"),
            Measure("release_in", wait.seconds, "seconds"),
            measured("quiet_for", quiet),
            measured("blocked_consumer_on_unacked_msgs", True),
            *consumer.measure("available_permits", "parked_permits"),
            Measure("acknowledged", consumer.acks.acknowledged, "messages"),
        ),
        remedy=f"{remedy(view, consumer).removesuffix('.')}; raise the limit {ONLY_IF}.",
        actions=(
            *freeing(view, consumer),
            raised_limit(view, "consumer", consumer.max_unacked_messages_per_consumer, held),
            more_workers(view),
        ),
    )


def _probe(view: SubscriptionView, consumer: ConsumerView | None) -> Probe:
    return Probe(
        "Read the limit: if it holds that many messages, this is the cause; otherwise it is not.",
        policy_admin(view, "get-max-unacked-messages-per-consumer", "-ap"),
        2,
    )


HYPOTHESIS = Hypothesis(
    "{who} holds as many unacknowledged messages as its limit allows",
    speaks_for=(
        "undecided", "flag_blocked", "near_limit", "never_acked_many", "still", "neighbour_later",
    ),
    against=("holds_nothing", "holds_one", "rate_acks", "works"),
    not_by=("flag_free",),
    missing=("blocked_consumer_on_unacked_msgs",),
    probe=_probe,
)  # fmt: skip
