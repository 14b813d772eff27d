"""What the stats tell of a subscription to which nobody is attached."""

from __future__ import annotations

from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.topic import SubscriptionStats
from pulsar_doctor.evidence.attendance import Alone


def alone_of(observed: Observed) -> Alone | None:
    """Since when nobody is attached; None where somebody is, or that is not told."""
    if observed.now.consumers is None or observed.now.consumers:
        return None
    values = observed.course.values
    there = [at for at, value in enumerate(values) if value is not None and value.consumers]
    last = there[-1] if there else None
    flow = observed.now.last_consumed_flow_timestamp_ms
    return Alone(
        left=last is not None,
        reloaded=last is not None and not _same_load(observed, last),
        seconds=observed.window.seconds_since(0 if last is None else last + 1),
        since_flow=observed.window.last.age(flow),
    )


def _same_load(observed: Observed, at: int) -> bool:
    """Whether the topic was not loaded anew since that sample: a counter went on."""
    before, after = observed.window.samples[at].topic, observed.window.last.topic
    counted = (
        (before.msg_in_counter, after.msg_in_counter),
        (before.bytes_in_counter, after.bytes_in_counter),
        (_sent(observed.course.values[at]), observed.now.msg_out_counter),
    )
    told = [(old, new) for old, new in counted if old and new is not None]
    return bool(told) and all(new >= old for old, new in told)


def _sent(subscription: SubscriptionStats | None) -> int | None:
    return None if subscription is None else subscription.msg_out_counter
