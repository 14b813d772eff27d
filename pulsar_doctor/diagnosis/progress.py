"""For how long a subscription has made no progress, whatever is sent meanwhile.

Progress is an acknowledgement, or mark-delete that moves. To send the same messages again is none:
a consumer that crashes on a message, or gives all of them back, moves counters and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from pulsar_doctor.diagnosis.answers import Finding
from pulsar_doctor.diagnosis.thresholds import NO_PROGRESS, Limits
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import say


def stood_for(view: SubscriptionView) -> float:
    """Seconds for which messages were there, and none was acknowledged, at least; 0: not known."""
    if STATS not in view.sources or view.consumers is None or view.pending_acks:
        return 0.0
    return min(_without_acks(view), max(_there_for(view), default=0.0))


def without_progress(view: SubscriptionView, found: Finding, limits: Limits) -> Finding:
    """The warning as a stall, where nobody has acknowledged any for `refill_wait`."""
    stood = stood_for(view)
    if stood < limits[NO_PROGRESS.name]:
        return found
    text = say("{}; nothing was acknowledged for at least {}", found.summary, duration(stood))
    numbers = (*found.evidence, Measure("stood_for", round(stood, 1), "seconds"))
    return replace(found, severity="stalled", summary=text, evidence=numbers)


def _without_acks(view: SubscriptionView) -> float:
    """Seconds since the last acknowledgement of any consumer, at least.

    Where later messages are acknowledged, consumers that left may have done that, so that only the
    time of those that are there counts.
    """
    moved, ranges = view.since_mark_delete, view.ranges
    stood = math.inf if view.never_moved else moved.seconds if moved is not None else 0.0
    ages = [age.seconds if (age := each.connected_for) else 0.0 for each in view.served]
    present = stood if ranges is not None and ranges.count == 0 else min(ages, default=0.0)
    return min(stood, present, *map(_silent_for, view.served))


def connected_longest(view: SubscriptionView) -> float:
    """Seconds for which one consumer has been there; 0: nobody is, or that is not known."""
    return max((age.seconds for each in view.served if (age := each.connected_for)), default=0.0)


def _silent_for(each: ConsumerView) -> float:
    if each.never_acked:
        return math.inf
    return each.since_last_ack.seconds if each.since_last_ack is not None else 0.0


def _there_for(view: SubscriptionView) -> Iterator[float]:
    """Seconds since the oldest message could be sent, by each number that shows that."""
    yield float(view.oldest_seconds or 0)
    if view.circulation is not None and view.circulation.starts_over:
        yield connected_longest(view)
    waits, change = view.backlog.entries if view.backlog else None, view.backlog_change
    if waits and change is not None and waits > change and view.since_empty is None:
        yield view.watched_seconds or 0.0
    yield from (each.sent_for for each in view.served if each.never_acked and each.sent_for)
