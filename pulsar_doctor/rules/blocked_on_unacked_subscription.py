"""The subscription has reached its limit of unacknowledged messages; nobody gets a new one.

On Shared and Key_Shared the broker stops reading new messages for a subscription whose consumers
together hold maxUnackedMessagesPerSubscription without an ack, whatever permits they have. Messages
that were given back are still sent again. It goes on below half the limit. A broker at its own
limit (maxUnackedMessagesPerBroker) stops the subscriptions that hold most in the same way.

A subscription that works at its limit is blocked and released all the time. So the rule asks when
the release comes, at the pace of all acks of the window. Nearer than `slow_wait` is healthy, within
`refill_wait` a warning, further away a stall. Without any ack in the window it is a stall too,
unless the last ones fit the rhythm of their consumers. What was sent or acknowledged less than
`just_now` ago decides nothing yet. A flag on a subscription that holds nothing, or less than half
of the limit, is not trusted.

Where a consumer is at a limit of its own too, this speaks for both: it names who holds how much.

Source: PersistentDispatcherMultipleConsumers.addUnAckedMessages and readMoreEntries;
BrokerService.checkUnAckMessageDispatching.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.ack_waiting import AckWait, acks_to_release, rhythm, without_ack
from pulsar_doctor.diagnosis import (
    STATS,
    Evidence,
    Finding,
    Limits,
    Measure,
    Outcome,
    Severity,
    Threshold,
    Unknown,
    backlog_measure,
    found,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.standing import Standing, standings
from pulsar_doctor.stats.observed import SHARING, Observed
from pulsar_doctor.stats.sample import Age

THRESHOLDS = (
    Threshold("refill_wait", 300.0, "seconds", "a release further away than this is a stall"),
    Threshold("slow_wait", 30.0, "seconds", "a release nearer than this is healthy"),
    Threshold("just_now", 3.0, "seconds", "an ack or message younger than this decides nothing"),
)
NEEDS = frozenset({STATS})
EXPLAINS = frozenset(
    {
        "permits-exhausted",
        "slow-but-progressing",
        "prefetch-hogging",
        "ack-hole",
        "blocked-on-unacked-consumer",
    }
)
REMEDY = (
    "Make the consumers named acknowledge what they have finished, or close the one that hangs; "
    "raise the limit (pulsar-admin namespaces set-max-unacked-messages-per-subscription) only if "
    "so many are really in work at once."
)
NAMED_MOST = 3


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for the subscription as a whole, where its release is far away or not in sight."""
    assert evidence.stats is not None
    if evidence.stats.type not in SHARING:
        return found(())
    return found(_judge(evidence.stats, limits))


def _judge(observed: Observed, limits: Limits) -> Iterator[Finding | Unknown]:
    now, limit = observed.now, observed.limits.max_unacked_messages_per_subscription
    flag, unacked = now.blocked_subscription_on_unacked_msgs, now.unacked_messages
    if flag is None and unacked != 0 and not _delivered(observed):
        yield Unknown("blocked_subscription_on_unacked_msgs is not told")
    if not flag or now.consumers == ():
        return
    if unacked is None or now.consumers is None:
        missing = "unacked_messages" if unacked is None else "consumers"
        yield Unknown(f"the subscription is said to be blocked, its {missing} are not told")
    elif _flows(observed, limits):
        return
    elif unacked <= 0 or (limit is not None and unacked < limit // 2):
        yield from _stale(observed, unacked, limit)
    else:
        wait = _wait(observed, acks_to_release(unacked, limit))
        verdict = wait.verdict(limits)
        if isinstance(verdict, Unknown):
            yield Unknown(f"the subscription is blocked with {unacked} unacked; {verdict.reason}")
        elif verdict is not None:
            yield _finding(observed, wait, verdict)


def _delivered(observed: Observed) -> int:
    return sum(standing.delivered or 0 for standing in standings(observed))


def _flows(observed: Observed, limits: Limits) -> bool:
    """Whether new messages are sent although every sample says that it is blocked."""
    flags = (s.blocked_subscription_on_unacked_msgs for s in observed.course.values if s)
    read = observed.cursor.moved(lambda cursor: cursor.read_position)
    acked = _acked(observed) if read is None else read
    quiet = _quiet(observed)
    lately = quiet is None or quiet.ms < limits["refill_wait"] * 1000
    return bool(_delivered(observed) and acked and lately) and all(flags)


def _stale(observed: Observed, unacked: int, limit: int | None) -> Iterator[Unknown]:
    """Of a flag that does not fit what the subscription holds."""
    if observed.left is not None and observed.left.most == 0:
        return
    of = "" if limit is None else f" of a limit of {limit or 'none'}"
    yield Unknown(
        f"the subscription is said to be blocked with {unacked} unacked{of}: the flag may have "
        "stayed behind, or the broker is at maxUnackedMessagesPerBroker; if nothing arrives, "
        "unload the topic"
    )


def _wait(observed: Observed, needed: int) -> AckWait:
    told = [s.returned for s in standings(observed) if s.returned is not None]
    acked = _acked(observed)
    # What is given back is counted as returned too, and comes again at once: only acks release.
    acknowledged = 0 if acked is False else (sum(told) if told else None)
    paces = [1 / pace for s in standings(observed) if (pace := rhythm(s)) is not None]
    return AckWait(
        needed,
        acknowledged,
        acked,
        observed.window.span_ms,
        _quiet(observed),
        batches=any((s.now.avg_messages_per_entry or 1) > 1 for s in standings(observed)),
        rhythm_seconds=1 / sum(paces) if paces else None,
    )


def _acked(observed: Observed) -> bool | None:
    told = [observed.course.passed("last_acked_timestamp_ms")]
    told += [standing.acked for standing in standings(observed)]
    known = [acked for acked in told if acked is not None]
    return any(known) if known else None


def _quiet(observed: Observed) -> Age | None:
    """Since the last ack of anybody."""
    ages = [without_ack(s) for s in standings(observed) if s.unacked != 0]
    known = [age for age in ages if age is not None]
    return min(known, key=lambda age: age.ms) if known and len(known) == len(ages) else None


def _finding(observed: Observed, wait: AckWait, severity: Severity) -> Finding:
    now, limits = observed.now, observed.limits
    quiet = None if wait.quiet is None else wait.quiet.ms / 1000
    more = f"the broker sends again after at most {wait.needed} more acks"
    when = f"none came for {wait.quiet}" if wait.quiet else "none came"
    if wait.seconds is not None:
        ago = f" (last ack or message {wait.quiet} ago)" if wait.quiet else ""
        when = f"in about {duration(wait.seconds)}{ago}"
    return Finding(
        code="blocked-on-unacked-subscription",
        severity=severity,
        confidence=0.7 if observed.one_sample else 0.9,
        consumer=None,
        summary=(
            f"the subscription is at its limit with {now.unacked_messages} unacknowledged "
            f"messages, held by {_holders(observed)}; {more}, {when}"
        ),
        evidence=(
            Measure("blocked_subscription_on_unacked_msgs", "true", ""),
            Measure("unacked_messages", now.unacked_messages, "messages"),
            Measure(
                "max_unacked_messages_per_subscription",
                limits.max_unacked_messages_per_subscription,
                "messages",
            ),
            backlog_measure(observed),
            Measure("acknowledged", wait.acknowledged, "messages"),
            Measure("release_after", wait.needed, "acks"),
            Measure("release_in", wait.seconds, "seconds"),
            Measure("quiet_for", quiet, "seconds"),
        ),
        remedy=REMEDY,
    )


def _holders(observed: Observed) -> str:
    def holds(standing: Standing) -> int:
        return standing.unacked or 0

    most_first = sorted(standings(observed), key=holds, reverse=True)
    named = [f"{standing.label} ({holds(standing)})" for standing in most_first[:NAMED_MOST]]
    others = len(most_first) - len(named)
    return ", ".join(named) + (f" and {others} more" if others else "")
