"""The active consumer of a Failover subscription is stuck or gone, and no standby takes over.

On Failover the broker sends everything to one active consumer. A standby takes over when the active
one disconnects, never because it does nothing: an application that hangs with its connection open
stops the whole group. A standby that waits while the active one works is as it should be.

The active one is stuck when it holds messages of the backlog, has no permits left, and neither an
ack nor a FLOW nor a delivery has shown for `refill_wait`; after `quiet_after` without any of them
in the window it is a warning. With one message in hand, long work with a queue of 0 or 1 looks the
same: that is unknown. It is gone when the broker names one that is not connected, for at least
`switch_wait`, while messages wait and others have permits (a switch takes
activeConsumerFailoverDelayTimeMillis, 1 s by default).

Exclusive and Failover never count unacknowledged messages, so what the active one holds is told by
the backlog and the read position. Exclusive has no standby.

Source: AbstractDispatcherSingleActiveConsumer.pickAndScheduleActiveConsumer in the broker.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis import (
    CLEAR,
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
from pulsar_doctor.starvation import starving
from pulsar_doctor.stats.observed import Observed
from pulsar_doctor.stats.sample import Age
from pulsar_doctor.stats.topic import SubscriptionStats

THRESHOLDS = (
    Threshold("refill_wait", 300.0, "seconds", "an active consumer silent for so long is stuck"),
    Threshold("quiet_after", 5.0, "seconds", "below this silence nothing is said"),
    Threshold("switch_wait", 5.0, "seconds", "a switch to another consumer takes less than this"),
)
NEEDS = frozenset({STATS})
EXPLAINS = frozenset({"permits-exhausted", "slow-but-progressing", "negative-permits"})
REMEDY_STUCK = (
    "Restart the application of the active consumer, or stop it: as soon as it disconnects, a "
    "standby takes over and gets its messages."
)
REMEDY_GONE = (
    "Unload the topic (pulsar-admin topics unload): all consumers come back and one of them is "
    "made active; report the broker's version if it happens again."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for the active consumer, or for the subscription where it is gone."""
    observed = evidence.stats
    assert observed is not None
    now = observed.now
    if observed.type != "Failover" or now.is_durable is False or now.consumers == ():
        return CLEAR
    if observed.backlog.empty:
        return CLEAR
    for name, told in (("consumers", now.consumers), ("msg_backlog", now.msg_backlog)):
        if told is None:
            return Unknown(f"{name} of the subscription is not told")
    return found(_judge(observed, limits))


def _judge(observed: Observed, limits: Limits) -> Iterator[Finding | Unknown]:
    everybody = standings(observed)
    if any(standing.delivered and not _silent(standing, limits) for standing in everybody):
        return
    if _is_gone(observed.now) or _was_named(observed):
        yield from _gone(observed, limits)
        return
    active = _active(observed, everybody)
    if active is None and len(everybody) > 1:
        yield Unknown("which consumer is the active one is not told")
    elif active is not None and len(everybody) > 1:
        yield from _stuck(active, limits)


def _is_gone(subscription: SubscriptionStats) -> bool:
    """Whether the active one is named and not connected."""
    name, consumers = subscription.active_consumer_name, subscription.consumers or ()
    names = {consumer.consumer_name for consumer in consumers}
    return name is not None and bool(consumers) and None not in names and name not in names


def _was_named(observed: Observed) -> bool:
    """Whether an earlier sample names an active one and the last one does not."""
    if observed.now.active_consumer_name is not None:
        return False
    return any(value and value.active_consumer_name for value in observed.course.values)


def _gone(observed: Observed, limits: Limits) -> Iterator[Finding | Unknown]:
    left, lasted = observed.left, _gone_seconds(observed)
    permits = [s.permits for s in standings(observed) if s.permits is not None]
    if (left is not None and left.most == 0) or (permits and max(permits) <= 0):
        return
    if lasted is None or lasted < limits["switch_wait"]:
        yield Unknown("the active consumer is not connected, and a switch takes a moment: look on")
    elif left is None or left.least == 0:
        yield Unknown("the active consumer is not connected; whether messages wait is not told")
    else:
        yield _gone_finding(observed, lasted, max(permits, default=None))


def _gone_seconds(observed: Observed) -> float | None:
    """For how long the last samples have shown nobody active, within one load of the topic."""
    if observed.one_sample:
        return None
    samples, values = observed.window.samples, observed.course.values
    since = len(values)
    while since > 0 and (value := values[since - 1]) and _nobody_active(value):
        since -= 1
    if since == len(values):
        return None
    first, last = samples[since].now_ms, observed.window.last.now_ms
    return None if first is None or last is None else (last - first) / 1000


def _nobody_active(subscription: SubscriptionStats) -> bool:
    return subscription.active_consumer_name is None or _is_gone(subscription)


def _active(observed: Observed, everybody: tuple[Standing, ...]) -> Standing | None:
    """The active one; of several with its name, the only one that was ever sent something."""
    name = observed.now.active_consumer_name
    named = [s for s in everybody if name is not None and s.now.consumer_name == name]
    if len(named) > 1:
        named = [standing for standing in named if standing.now.msg_out_counter != 0]
    return named[0] if len(named) == 1 else None


def _stuck(active: Standing, limits: Limits) -> Iterator[Finding | Unknown]:
    silence, held = active.silence, active.observed.held
    works = active.moved and not _silent(active, limits)
    if active.permits is None and not works:
        yield Unknown(f"available_permits of {active.label} is not told", active.label)
    if active.permits is None or active.permits > 0 or works:
        return
    if held is not None and held.most == 0:
        return
    if silence is None:
        yield Unknown(f"since when {active.label} is silent is not told", active.label)
    elif _silent(active, limits):
        yield from _silent_for_long(active)
    elif silence.exact and _younger(silence, limits["quiet_after"]):
        return
    elif not silence.exact and (active.moved is None or _younger(silence, limits["quiet_after"])):
        yield Unknown(
            f"{active.label} has no permits, silent for {silence}: whether it works is shown by "
            "several samples and the broker's clock",
            active.label,
        )
    else:
        yield _stuck_finding(active, "warning", 0.4 if active.moved is None else 0.6)


def _younger(age: Age, seconds: float) -> bool:
    return age.ms < seconds * 1000


def _silent(standing: Standing, limits: Limits) -> bool:
    """Whether nothing has shown that it works for refill_wait, however long the window is."""
    silence = standing.silence
    return silence is not None and silence.ms >= limits["refill_wait"] * 1000


def _silent_for_long(active: Standing) -> Iterator[Finding | Unknown]:
    """With no permits and no sign for refill_wait."""
    held, sent, consumer = active.observed.held, active.now.msg_out_counter, starving(active)
    several = held is not None and held.least > 1
    never_acked = "last_acked_timestamp_ms" in active.now.never and (sent or 0) > 1
    certain = several or never_acked or (active.permits or 0) < 0
    if certain or (consumer is not None and not consumer.one_by_one):
        sure = 0.8 if certain else 0.6
        yield _stuck_finding(active, "stalled", sure - (0.2 if active.moved is None else 0))
    else:
        yield Unknown(
            f"{active.label} has been silent for {active.silence} and may have one message in "
            "hand: the read position (--internal-stats) tells how many it holds",
            active.label,
        )


def _stuck_finding(active: Standing, severity: Severity, confidence: float) -> Finding:
    observed, silence = active.observed, active.silence
    others = [s.label for s in standings(observed) if s.number != active.number]
    held = observed.held
    holds = held.most if held is not None and held.least == held.most else None
    entries = "" if holds is None else f" and holds {holds} entries"
    return Finding(
        code="inactive-failover",
        severity=severity,
        confidence=confidence,
        consumer=active.label,
        summary=(
            f"the active consumer {active.label} has {active.permits} permits{entries}, silent for "
            f"{silence}, with a backlog of {observed.backlog}; "
            f"{len(others)} standby ({', '.join(others[:3])}) takes over only when it disconnects"
        ),
        evidence=(
            Measure("active_consumer_name", active.label, ""),
            Measure("available_permits", active.permits, "permits"),
            backlog_measure(observed),
            Measure("held", holds, "entries"),
            Measure("standbys", len(others), "consumers"),
            Measure("quiet_for", None if silence is None else silence.ms / 1000, "seconds"),
        ),
        remedy=REMEDY_STUCK,
    )


def _gone_finding(observed: Observed, lasted: float, permits: int | None) -> Finding:
    now, left = observed.now, observed.left
    named = [v.active_consumer_name for v in observed.course.values if v and v.active_consumer_name]
    name = named[-1] if named else "none"
    return Finding(
        code="inactive-failover",
        severity="stalled",
        confidence=0.8,
        consumer=None,
        summary=(
            f"the active consumer {name} is not connected for {duration(lasted)} at least, and "
            f"none of the {len(now.consumers or ())} others is made active, with a backlog of "
            f"{observed.backlog}"
        ),
        evidence=(
            Measure("active_consumer_name", now.active_consumer_name, ""),
            Measure("consumers", len(now.consumers or ()), "consumers"),
            Measure("available_permits", permits, "permits"),
            backlog_measure(observed),
            Measure("left", None if left is None else left.least, "entries"),
            Measure("gone_for", lasted, "seconds"),
        ),
        remedy=REMEDY_GONE,
    )
