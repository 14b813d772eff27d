"""Which consumers are attached by the broker's stats: active, gone, or none."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats
from pulsar_doctor.broker.stats.window import consumers_of, topic_counters_fell
from pulsar_doctor.evidence.stats_moved import ConsumerWindow
from pulsar_doctor.evidence.subscription import Alone, ComesBackBy, Gone, Turnover


def active_of(observed: Observed, consumers: Sequence[ConsumerWindow]) -> int | None:
    """The active one's place; of several with its name, the only one that was ever sent something.

    None where that is not reported, or nobody is.
    """
    name = observed.now.active_consumer_name
    named = [s for s in consumers if name is not None and s.now.consumer_name == name]
    if len(named) > 1:
        named = [each for each in named if each.now.msg_out_counter != 0]
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
    """Since when nobody is attached; None where somebody is, or that is not reported."""
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
        since_seen=observed.window.last.age(flow, _acknowledged_ms(observed.now)),
        elsewhere=observed.elsewhere,
    )


def _acknowledged_ms(now: SubscriptionStats) -> int | None:
    """When mark-delete last moved by an acknowledgement; None where messages expired as well."""
    return None if now.total_msg_expired else now.last_mark_delete_advanced_timestamp_ms


def turnover_of(observed: Observed) -> Turnover | None:
    """Who connected within the window; None where it cannot be seen: one sample, or a load."""
    window, name = observed.window, observed.subscription
    if len(window.samples) < 2 or any(map(_loaded, window.samples, window.samples[1:])):
        return None
    listed = [consumers_of(sample, name) for sample in window.samples]
    if None in listed:
        return None
    lives = [frozenset(map(_life, consumers or ())) for consumers in listed]
    came, times = _returned(lives)
    unseen = sum(
        not (one or other) and _was_sent(before, now)
        for (before, one), (now, other) in pairwise(zip(observed.course.values, lives, strict=True))
    )
    return Turnover(
        times + unseen,
        window.span_ms / 1000 if window.span_ms else None,
        as_sampled=2 * (times + unseen) >= len(lives),
        connections=_alike([each.address for each in came]),
        hosts=tuple(sorted({each.host for each in came if each.host})),
        names=tuple(sorted({each.name for each in came if each.name})),
        put_back=_put_back(observed),
        stayed=_stayed(observed, lives),
    )


def _stayed(observed: Observed, lives: Sequence[frozenset[_Life]]) -> float | None:
    """By the last sample that lists others than the last one of all, while messages waited."""
    others = [at for at, some in enumerate(lives) if some and not some & lives[-1]]
    was = observed.course.values[others[-1]] if others else None
    if was is None or not was.msg_backlog:
        return None
    since = [each.connected_since_ms for each in was.consumers or ()]
    known = [each for each in since if each is not None]
    left = observed.window.samples[others[-1] + 1].now_ms
    return None if left is None or not known else (left - min(known)) / 1000


class _Life(NamedTuple):
    """One connection of a consumer."""

    name: str | None
    address: str | None
    since: str | None

    @property
    def host(self) -> str | None:
        return self.address and self.address.lstrip("/").rpartition(":")[0]


def _life(each: ConsumerStats) -> _Life:
    return _Life(each.consumer_name, each.address, each.connected_since)


def _returned(lives: Sequence[frozenset[_Life]]) -> tuple[Sequence[_Life], int]:
    """Lives of a consumer that comes back, and how often it connected in the window, at least.

    Those of one name and host, but for others beside it that are restarted once each. Where names
    are made anew each time: those that both began and ended in the window.
    """
    known = [{each for each in some if each.since and each.address} for some in lives]
    new = set().union(*known) - lives[0]
    whole = sorted(new - lives[-1], key=str)
    named, times = whole, len(whole)
    for who in {(each.name, each.host) for each in new}:
        of_it = sorted((each for each in new if (each.name, each.host) == who), key=str)
        beside = max(sum((each.name, each.host) == who for each in some) for some in known)
        if len(of_it) + 1 - beside > times:
            named, times = of_it, len(of_it) + 1 - beside
    return named, times


def _alike(addresses: Sequence[str | None]) -> ComesBackBy:
    """Whether several come by one connection, or each by its own, but for a few."""
    if len(addresses) < 2 or None in addresses:
        return None
    different = len(set(addresses))
    return "one" if different == 1 else "each" if 4 * different >= 3 * len(addresses) else None


def _put_back(observed: Observed) -> int:
    """By how many entries the backlog rose beyond what was published, step by step."""
    steps = pairwise(zip(observed.window.samples, observed.course.values, strict=True))
    return sum(max(0, _rise(*one, *other)) for one, other in steps)


def _rise(
    before: Sample, was: SubscriptionStats | None, after: Sample, now: SubscriptionStats | None
) -> int:
    """By how much the backlog rose in one step beyond what was published; 0 if not reported."""
    backlogs = was and was.msg_backlog, now and now.msg_backlog
    counters = before.topic.msg_in_counter, after.topic.msg_in_counter
    if None in (*backlogs, *counters):
        return 0
    return (backlogs[1] or 0) - (backlogs[0] or 0) - (counters[1] or 0) + (counters[0] or 0)


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
    known = [(old, new) for old, new in counted if old and new is not None]
    return bool(known) and all(new >= old for old, new in known)


def _sent(subscription: SubscriptionStats | None) -> int | None:
    return None if subscription is None else subscription.msg_out_counter
