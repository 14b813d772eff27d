"""A durable subscription has a backlog, and no consumer is attached to it.

A durable subscription keeps every message until somebody acknowledges it. With nobody attached its
backlog grows until a quota or a retention limit is reached. It is a warning, since it may be meant
so (a job that runs at night, a subscription that was forgotten), and a stall when the last consumer
left within the window.

When a topic is unloaded the broker closes all consumers, and they come back within moments: where
the topic was loaded anew in the window, and nobody has been there for less than `reconnect_wait`,
it is unknown. Readers and other non-durable subscriptions, and the cursor of compaction, keep
nothing that anybody waits for.

Source: PersistentSubscription.removeConsumer and getStats in the broker.
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
    Threshold,
    Unknown,
    backlog_measure,
    found,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.stats.observed import COMPACTION, Observed
from pulsar_doctor.stats.topic import SubscriptionStats

THRESHOLDS = (
    Threshold("reconnect_wait", 5.0, "seconds", "after a load consumers are back by then"),
)
NEEDS = frozenset({STATS})
EXPLAINS: frozenset[str] = frozenset()
REMEDY = (
    "Start the application that consumes this subscription; if nobody needs it any more, delete it "
    "(pulsar-admin topics unsubscribe), so that its backlog is not kept."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for a durable subscription with a backlog and nobody attached."""
    observed = evidence.stats
    assert observed is not None
    now = observed.now
    if now.consumers or now.is_durable is False or observed.subscription == COMPACTION:
        return CLEAR
    if observed.backlog.empty:
        return CLEAR
    return found(_judge(observed, limits))


def _judge(observed: Observed, limits: Limits) -> Iterator[Finding | Unknown]:
    now = observed.now
    for name, told in (("consumers", now.consumers), ("msg_backlog", now.msg_backlog)):
        if told is None:
            yield Unknown(f"{name} of the subscription is not told")
            return
    if observed.backlog.empty is None:
        yield Unknown("its backlog is told to be 0, and not everything seems to be acknowledged")
        return
    alone = _alone_seconds(observed)
    if not _somebody_was_there(observed):
        yield _finding(observed, left=False)
    elif _same_load(observed):
        yield _finding(observed, left=True)
    elif alone is None or alone < limits["reconnect_wait"]:
        yield Unknown("nobody is attached since the topic was loaded anew; look again in a moment")
    else:
        yield _finding(observed, left=False)


def _somebody_was_there(observed: Observed) -> bool:
    return any(value is not None and value.consumers for value in observed.course.values)


def _same_load(observed: Observed) -> bool:
    """Whether the topic was not loaded anew since somebody was there: a counter went on."""
    there = [at for at, value in enumerate(observed.course.values) if value and value.consumers]
    before = observed.window.samples[there[-1]].topic
    after = observed.window.last.topic
    counted = (
        (before.msg_in_counter, after.msg_in_counter),
        (before.bytes_in_counter, after.bytes_in_counter),
        (_sent(observed.course.values[there[-1]]), observed.now.msg_out_counter),
    )
    told = [(old, new) for old, new in counted if old and new is not None]
    return bool(told) and all(new >= old for old, new in told)


def _sent(subscription: SubscriptionStats | None) -> int | None:
    return None if subscription is None else subscription.msg_out_counter


def _alone_seconds(observed: Observed) -> float | None:
    """For how long nobody has been there, within the window; None where it is not told."""
    samples, values = observed.window.samples, observed.course.values
    since = len(values)
    while since > 0 and not ((before := values[since - 1]) and before.consumers):
        since -= 1
    if since == len(values):
        return None
    first, last = samples[since].now_ms, observed.window.last.now_ms
    return None if first is None or last is None else (last - first) / 1000


def _finding(observed: Observed, *, left: bool) -> Finding:
    now, alone = observed.now, _alone_seconds(observed)
    last = observed.window.last.age(now.last_consumed_flow_timestamp_ms)
    what, seen = "nobody is attached", ""
    if left:
        when = f"left at least {duration(alone)} ago" if alone else "has left"
        what = f"the last consumer {when}"
    elif last is not None:
        seen = f"; the last request for messages came {last} ago"
    sure = 0.9 if now.is_durable else 0.6
    return Finding(
        code="no-consumer",
        severity="stalled" if left else "warning",
        confidence=sure,
        consumer=None,
        summary=f"{what}, with a backlog of {observed.backlog}{seen}",
        evidence=(
            Measure("consumers", 0, "consumers"),
            backlog_measure(observed),
            Measure("last_flow", None if last is None else last.ms / 1000, "seconds ago"),
            Measure("nobody_for", alone, "seconds"),
        ),
        remedy=REMEDY,
    )
