"""Who is the active consumer of a Failover subscription by the broker's stats, and who is gone."""

from __future__ import annotations

from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.topic import SubscriptionStats
from pulsar_doctor.evidence.standing import Standing
from pulsar_doctor.evidence.subscription import Gone


def active_of(observed: Observed, everybody: tuple[Standing, ...]) -> int | None:
    """The active one's place; of several with its name, the only one that was ever sent something.

    None where that is not told, or nobody is.
    """
    name = observed.now.active_consumer_name
    named = [s for s in everybody if name is not None and s.now.consumer_name == name]
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
