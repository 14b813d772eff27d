"""Which consumers are attached by the broker's stats: active, gone, or none."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import SubscriptionStats
from pulsar_doctor.broker.stats.window import consumers_of, topic_counters_fell
from pulsar_doctor.evidence.standing import Standing
from pulsar_doctor.evidence.subscription import Alone, Gone, Turnover


def active_of(observed: Observed, consumers: Sequence[Standing]) -> int | None:
    """The active one's place; of several with its name, the only one that was ever sent something.

    None where that is not told, or nobody is.
    """
    name = observed.now.active_consumer_name
    named = [s for s in consumers if name is not None and s.now.consumer_name == name]
    if len(named) > 1:
        named = [standing for standing in named if standing.now.msg_out_counter != 0]
    return named[0].number if len(named) == 1 else None


def gone_of(observed: Observed) -> Gone | None:
    """The active one, where it is named and not connected; otherwise None."""
    if observed.type != "Failover" or not (_is_gone(observed.now) or _was_named(observed)):
        return None
    named = [v.active_consumer_name for v in observed.course.values if v and v.active_consumer_name]
    return Gone(
        observed.now.active_consumer_name, named[-1] if named else None, _gone_seconds(observed)
    )


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


def _gone_seconds(observed: Observed) -> float | None:
    """For how long the last samples have shown nobody active, within one load of the topic."""
    if observed.one_sample:
        return None
    values = observed.course.values
    since = len(values)
    while since > 0 and (value := values[since - 1]) and _nobody_active(value):
        since -= 1
    return None if since == len(values) else observed.window.seconds_since(since)


def _nobody_active(subscription: SubscriptionStats) -> bool:
    return subscription.active_consumer_name is None or _is_gone(subscription)


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
        elsewhere=observed.elsewhere,
    )


def turnover_of(observed: Observed) -> Turnover | None:
    """Who connected within the window; None where it cannot be seen: one sample, or a load."""
    window, name = observed.window, observed.subscription
    if len(window.samples) < 2 or any(map(_loaded, window.samples, window.samples[1:])):
        return None
    listed = [consumers_of(sample, name) for sample in window.samples]
    if None in listed:
        return None
    moments: dict[tuple[str | None, str], set[str]] = {}
    for consumer in (each for consumers in listed for each in consumers or ()):
        if consumer.connected_since and consumer.address:
            who = consumer.consumer_name, consumer.address.rpartition(":")[0]
            moments.setdefault(who, set()).add(consumer.connected_since)
    again = max((len(each) - 1 for each in moments.values()), default=0)
    unseen = sum(
        not before_there and not now_there and _was_sent(before, now)
        for (before, before_there), (now, now_there) in pairwise(
            zip(observed.course.values, listed, strict=True)
        )
    )
    return Turnover(again + unseen, window.span_ms / 1000 if window.span_ms else None)


def _loaded(before: Sample, after: Sample) -> bool:
    """Whether the topic was loaded in between; new connections alone do not show that."""
    owner, now = before.topic.owner_broker, after.topic.owner_broker
    return any(topic_counters_fell(before, after)) or (None not in (owner, now) and owner != now)


def _was_sent(before: SubscriptionStats | None, now: SubscriptionStats | None) -> bool:
    """Whether messages were sent, or requested, between two samples."""
    if before is None or now is None:
        return False
    pairs = (
        (before.msg_out_counter, now.msg_out_counter),
        (before.last_consumed_flow_timestamp_ms, now.last_consumed_flow_timestamp_ms),
    )
    return any(one is not None and other is not None and other > one for one, other in pairs)


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
