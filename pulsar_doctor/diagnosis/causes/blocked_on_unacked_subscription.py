"""The subscription has reached its limit of unacknowledged messages; nobody gets a new one.

You see: `blockedSubscriptionOnUnackedMsgs` is true, `unackedMessages` is at or near the limit
(maxUnackedMessagesPerSubscription, 200,000 by default), and consumers with permits get nothing new.

On Shared and Key_Shared the broker counts what all consumers hold without an ack. At the limit it
only sends again what was given back. It continues below half the limit. A broker at its own limit
(maxUnackedMessagesPerBroker) stops the subscriptions that hold most in the same way.

A subscription that works at its limit is blocked and released all the time. So the check computes
when the release comes, at the pace of all acks of the window, as long as none is overdue.
- Sooner than `slow_wait` is healthy, within `refill_wait` it is a warning, later it is a stall.
- Without any ack it is a stall after `refill_wait`, or after half a minute and ten times the
  longest gap between acks in the window. Before that it is a warning that leaves the verdict
  unknown while no consumer moves: all may work.
- What was sent or acknowledged less than `just_now` ago decides nothing yet. No clock is needed if
  nobody has ever acknowledged anything (a warning), or if whole thousands are held.
- The flag is not trusted if the subscription holds nothing, or less than half the limit.

A trace does not show this limit. It is unknown there if several consumers have permits, hold more
than `in_hand` messages together, and were neither sent nor acknowledged any for `slow_wait`. If a
consumer is at its own limit too, this finding covers both.

Source: PersistentDispatcherMultipleConsumers.addUnAckedMessages and readMoreEntries;
BrokerService.checkUnAckMessageDispatching.
"""

from __future__ import annotations

from pulsar_doctor.broker.stats.observed import SHARING
from pulsar_doctor.diagnosis.actions.activity import verdict
from pulsar_doctor.diagnosis.actions.consumers import freeing, more_workers
from pulsar_doctor.diagnosis.actions.limits import ONLY_IF, raised_limit
from pulsar_doctor.diagnosis.actions.sentence import remedy
from pulsar_doctor.diagnosis.answers import (
    Answers,
    Finding,
    NothingMoves,
    NotReported,
    Severity,
    Unknown,
)
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.release import release_verdict, still_comes
from pulsar_doctor.diagnosis.thresholds import IN_HAND, RELEASE_WAITS, Limits
from pulsar_doctor.evidence.ack_wait import AckWait, acks_to_release
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import STATS, WIRE, Measure
from pulsar_doctor.evidence.numbers import measured
from pulsar_doctor.evidence.subscription import SubscriptionView, UnackedLimit, backlog_measure
from pulsar_doctor.evidence.values import exact
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import fill, joined, say

THRESHOLDS = (*RELEASE_WAITS, IN_HAND)
NEEDS = frozenset({STATS, WIRE})
SYMPTOM = "nothing comes"
BY_SILENCE = True
EXPLAINS = frozenset(
    {
        "permits-exhausted",
        "closed-unacknowledged",
        "slow-but-progressing",
        "prefetch-hogging",
        "ack-hole",
        "blocked-on-unacked-consumer",
    }
)
NO_LIMIT = "the subscription's limit of unacknowledged messages is not visible on the wire"
REMEDY = f"Make consumers acknowledge what they have finished; raise the limit {ONLY_IF}."
SUMMARY = (
    "no consumer gets a new message: the subscription has reached its limit with {unacked} "
    "unacknowledged ones, held by {holders}{worst}; {more}"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for the subscription as a whole, where its release is far away or not in sight."""
    limit, unacked = view.unacked_limit, exact(view.unacked)
    if limit is None:
        yield from _by_wire(view, unacked or 0, limits)
        return
    if limit.blocked is None and unacked != 0 and not limit.delivered:
        yield Unknown("blocked_subscription_on_unacked_msgs is not reported")
    if not limit.blocked or view.consumers == ():
        return
    if unacked is None or view.consumers is None:
        missing = "unacked_messages" if unacked is None else "consumers"
        yield Unknown(
            f"the broker reports the subscription as blocked, and its {missing} are not reported"
        )
    elif limit.flows and still_comes(limit.acks, limits):
        return
    elif unacked <= 0 or (limit.most is not None and unacked < limit.most // 2):
        yield from _stale(view, limit, unacked)
    else:
        wait = limit.acks.until(acks_to_release(unacked, limit.most))
        works = any(each.works for each in view.consumers)
        verdict = release_verdict(wait, limits, None if works else unacked)
        if isinstance(verdict, Unknown):
            yield Unknown(f"the subscription is blocked with {unacked} unacked; {verdict.reason}")
        elif verdict is not None:
            yield _finding(view, limit, wait, verdict)


def _by_wire(view: SubscriptionView, held: int, limits: Limits) -> Answers:
    """Where nobody tells whether the limit is reached, which holds for consumers that share."""
    if view.type not in SHARING or not held:
        return
    serving, quiet = view.served, [each.quiet_for for each in view.served if each.quiet_for]
    still = all(each.may_receive and not each.works for each in serving)
    shortest = min(quiet, key=lambda age: age.ms, default=None)
    lasts = shortest is not None and shortest.seconds >= limits["slow_wait"]
    if still and lasts and len(quiet) == len(serving) > 1 and held > limits["in_hand"]:
        yield Unknown(worded("limit_not_seen", serving[0], held=held, within=shortest))
    else:
        yield NotReported(NO_LIMIT)


def _stale(view: SubscriptionView, limit: UnackedLimit, unacked: int) -> Answers:
    """Measures of a flag that does not fit what the subscription holds."""
    if view.left is not None and view.left.most == 0:
        return
    of = "" if limit.most is None else f" of a limit of {limit.most or 'none'}"
    still = limit.watched and not limit.delivered and any(c.may_receive for c in view.served)
    yield (NothingMoves if still else Unknown)(
        f"the broker reports the subscription as blocked with {unacked} unacked{of}: the flag may "
        "be left over, or the broker is at maxUnackedMessagesPerBroker; if nothing arrives, "
        "unload the topic"
    )


def _finding(
    view: SubscriptionView, limit: UnackedLimit, wait: AckWait, severity: Severity
) -> Finding:
    quiet, unacked = wait.acks.quiet, exact(view.unacked)
    more = say("it goes on after at most {:more acks}, {}", wait.needed, wait.outlook)
    return Finding(
        severity=severity,
        confidence=0.9 if limit.watched else 0.7,
        summary=fill(
            SUMMARY, view, unacked=unacked, holders=_holders(view), worst=_worst(view), more=more
        ),
        evidence=(
            Measure("blocked_subscription_on_unacked_msgs", "true", ""),
            Measure("unacked_messages", unacked, "messages"),
            Measure("max_unacked_messages_per_subscription", limit.most, "messages"),
            backlog_measure(view),
            Measure("acknowledged", limit.acks.acknowledged, "messages"),
            Measure("release_after", wait.needed, "acks"),
            Measure("release_in", wait.seconds, "seconds"),
            measured("quiet_for", quiet),
        ),
        remedy=_remedy(view),
        actions=(
            *(action for worst in _most_first(view)[:1] for action in freeing(view, worst)),
            raised_limit(view, "subscription", limit.most),
            more_workers(view),
        ),
    )


def _worst(view: SubscriptionView) -> str:
    """The state of the consumer that holds most of them."""
    return joined(
        "", (say(" ({}: {})", each.label, verdict(each)) for each in _most_first(view)[:1])
    )


def _remedy(view: SubscriptionView) -> str:
    worst = "".join(remedy(view, each).removesuffix(".") for each in _most_first(view)[:1])
    return f"{worst}; raise the limit {ONLY_IF}." if worst else REMEDY


def _most_first(view: SubscriptionView) -> list[ConsumerView]:
    return sorted(view.consumers or (), key=lambda each: each.holds, reverse=True)


def _holders(view: SubscriptionView) -> str:
    named = [say("{} ({})", each.label, each.holds) for each in _most_first(view)]
    return listed(named, last=", ")


HYPOTHESIS = Hypothesis(
    "the consumers together hold as many messages as the subscription's limit allows",
    speaks_for=(
        "undecided", "flag_all_blocked", "rate_none",
    ),
    against=("somebody_acks", "delivers", "nobody_holds", "rate_out", "rate_acks"),
    excluded=("flag_all_free", "one_active"),
    missing=("blocked_subscription_on_unacked_msgs",),
)  # fmt: skip
