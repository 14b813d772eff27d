"""A consumer has reached the limit of unacknowledged messages; the broker sends it nothing more.

On Shared and Key_Shared the broker stops a consumer that holds maxUnackedMessagesPerConsumer
messages without an ack, whatever permits it has, and sets its further FLOWs aside. It goes on when
acks have brought it down to half the limit, or when the consumer gives messages back.

A consumer that works at its limit is blocked and released all the time. So the rule asks when the
release comes: at the pace of the window's acks, after at most half of what it holds. Nearer than
`slow_wait` is healthy, within `refill_wait` a warning, further away a stall. Without any ack in the
window it is a stall too, unless the last one fits the rhythm of its whole life. What was sent or
acknowledged less than `just_now` ago decides nothing yet.

The broker's flag can stay behind: on a consumer that holds nothing, or far less than half the
limit, it is not trusted, and where messages still arrive it holds nothing up. A trace of the wire
tells this too, where the limit is told.

Source: Consumer.incrementUnackedMessages and updateBlockedConsumerOnUnackedMsgs in the broker.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.ack_waiting import AckWait, ack_wait, acks_to_release
from pulsar_doctor.consumers import Consumer
from pulsar_doctor.diagnosis import (
    STATS,
    WIRE,
    Evidence,
    Finding,
    Limits,
    Measure,
    NotTold,
    Outcome,
    Severity,
    Threshold,
    Unknown,
    found,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.ledger import Ledger
from pulsar_doctor.standing import Standing, standings
from pulsar_doctor.stats.observed import SHARING
from pulsar_doctor.stats.sample import Age
from pulsar_doctor.waiting import in_rhythm, pace

THRESHOLDS = (
    Threshold("refill_wait", 300.0, "seconds", "a release further away than this is a stall"),
    Threshold("slow_wait", 30.0, "seconds", "a release nearer than this is healthy"),
    Threshold("just_now", 3.0, "seconds", "an ack or message younger than this decides nothing"),
)
NEEDS = frozenset({STATS, WIRE})
EXPLAINS = frozenset(
    {
        "permits-exhausted",
        "slow-but-progressing",
        "prefetch-hogging",
        "not-acknowledging",
        "ack-hole",
    }
)
REMEDY = (
    "Make this consumer acknowledge what it has finished, or close it, which gives its messages to "
    "the others; raise the limit (pulsar-admin namespaces set-max-unacked-messages-per-consumer) "
    "only if so many are really in work at once."
)
NO_LIMIT = "the limit of unacknowledged messages is no part of the wire"


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for each consumer at its limit whose release is far away or not in sight."""
    if evidence.wire is not None:
        now_ns = evidence.wire.now_ns
        return found(
            answer
            for consumer in evidence.wire.consumers
            for answer in _by_wire(consumer, now_ns, limits)
        )
    assert evidence.stats is not None
    if evidence.stats.type not in SHARING:
        return found(())
    return found(
        answer for standing in standings(evidence.stats) for answer in _by_stats(standing, limits)
    )


def _by_stats(standing: Standing, limits: Limits) -> Iterator[Finding | Unknown]:
    flag, unacked = standing.now.blocked_consumer_on_unacked_msgs, standing.unacked
    if flag is None and unacked != 0 and not standing.delivered:
        yield _unknown(standing, "blocked_consumer_on_unacked_msgs is not told")
    if not flag:
        return
    limit = standing.observed.limits.max_unacked_messages_per_consumer
    if unacked is None:
        yield _unknown(standing, "it is said to be blocked, its unacked_messages are not told")
    elif _flows(standing, limits):
        return
    elif unacked <= 0 or (limit is not None and unacked <= limit // 2):
        yield from _stale(standing, unacked, limit)
    else:
        wait = ack_wait(standing, acks_to_release(unacked, limit))
        verdict = wait.verdict(limits)
        if isinstance(verdict, Unknown):
            yield _unknown(standing, f"it is blocked with {unacked} unacked; {verdict.reason}")
        elif verdict is not None:
            yield _stats_finding(standing, wait, verdict, limit)


def _flows(standing: Standing, limits: Limits) -> bool:
    """Whether messages reach it although every sample says that it is blocked."""
    flags = (c.blocked_consumer_on_unacked_msgs for c in standing.course.values if c is not None)
    quiet = standing.silence
    lately = quiet is None or quiet.ms < limits["refill_wait"] * 1000
    return bool(standing.delivered) and all(flags) and lately


def _stale(standing: Standing, unacked: int, limit: int | None) -> Iterator[Unknown]:
    """Of a flag that does not fit what the consumer holds."""
    left = standing.observed.left
    if left is not None and left.most == 0:
        return
    of = "" if limit is None else f" of a limit of {limit or 'none'}"
    yield _unknown(
        standing,
        f"it is said to be blocked with {unacked} unacked{of}: the flag may have stayed behind; if "
        "nothing arrives, restart this consumer",
    )


def _unknown(standing: Standing, why: str) -> Unknown:
    return Unknown(f"{standing.label}: {why}", standing.label)


def _by_wire(consumer: Consumer, now_ns: int, limits: Limits) -> Iterator[Finding | NotTold]:
    ledger = consumer.ledger
    if ledger.individual and ledger.unacked_limit is None:
        yield NotTold(NO_LIMIT)
    if not ledger.blocked or not ledger.individual:
        return
    wait = _wire_wait(ledger, now_ns)
    verdict = wait.verdict(limits)
    if verdict is None or isinstance(verdict, Unknown):
        return
    numbers = (
        Measure("available_permits", ledger.available_permits, "permits"),
        Measure("parked_permits", ledger.parked_permits, "permits"),
    )
    yield _finding(
        consumer.label, verdict, 0.9, _summary(consumer.label, ledger.unacked, wait),
        (*_measures(ledger.unacked, ledger.unacked_limit, wait), *numbers),
    )  # fmt: skip


def _wire_wait(ledger: Ledger, now_ns: int) -> AckWait:
    now = pace(ledger, now_ns) if in_rhythm(ledger, now_ns) else None
    quiet_ns = now_ns - max(ledger.last_message_ns or 0, ledger.last_ack_ns or 0)
    return AckWait(
        acks_to_release(ledger.unacked, ledger.unacked_limit),
        0 if now is None else 1,
        None,
        None if now is None else round(now.seconds * 1000),
        Age(quiet_ns // 1_000_000, True),
    )


def _stats_finding(
    standing: Standing, wait: AckWait, severity: Severity, limit: int | None
) -> Finding:
    assert standing.unacked is not None
    sure = 0.9 if standing.moved is not None else 0.7
    numbers = (
        Measure("blocked_consumer_on_unacked_msgs", "true", ""),
        Measure("available_permits", standing.permits, "permits"),
        Measure("acknowledged", wait.acknowledged, "messages"),
    )
    return _finding(
        standing.label, severity, sure, _summary(standing.label, standing.unacked, wait),
        (*_measures(standing.unacked, limit, wait), *numbers),
    )  # fmt: skip


def _summary(label: str, unacked: int, wait: AckWait) -> str:
    at = "at its limit" if wait.seconds is None else "at its limit most of the time"
    return f"{label} holds {unacked} unacknowledged messages and is {at}; {_outlook(wait)}"


def _outlook(wait: AckWait) -> str:
    more = f"the broker sends again after at most {wait.needed} more acks"
    if wait.seconds is not None:
        ago = f" (last ack or message {wait.quiet} ago)" if wait.quiet else ""
        return f"{more}, in about {duration(wait.seconds)}{ago}"
    return f"{more}, and none came for {wait.quiet}" if wait.quiet else f"{more}, and none came"


def _measures(unacked: int, limit: int | None, wait: AckWait) -> tuple[Measure, ...]:
    quiet = None if wait.quiet is None else wait.quiet.ms / 1000
    return (
        Measure("unacked_messages", unacked, "messages"),
        Measure("max_unacked_messages_per_consumer", limit, "messages"),
        Measure("release_after", wait.needed, "acks"),
        Measure("release_in", wait.seconds, "seconds"),
        Measure("quiet_for", quiet, "seconds"),
    )


def _finding(
    label: str, severity: Severity, confidence: float, summary: str, evidence: tuple[Measure, ...]
) -> Finding:
    return Finding(
        code="blocked-on-unacked-consumer",
        severity=severity,
        confidence=confidence,
        consumer=label,
        summary=summary,
        evidence=evidence,
        remedy=REMEDY,
    )
