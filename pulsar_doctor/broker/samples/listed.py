"""Compares the partitions that a partitioned topic's stats list with its metadata and its totals.

A broker lists the partitions that answered, and its totals are the sums of just these answers: a
partition that it does not list was not read, and totals that no partition accounts for are wrong.

Source: internalGetPartitionedStats of pulsar-broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from pulsar_doctor.broker.stats.bounds import sentence
from pulsar_doctor.broker.stats.fields import shown
from pulsar_doctor.broker.stats.topic import PartitionedStats, TopicStats
from pulsar_doctor.ledger.topics import split_partition
from pulsar_doctor.wording.printable import many

NAMED_MOST = 3  # missing partitions that a sentence lists
FAR_ABOVE = 10  # totals above so many times the sum: no two moments differ by that


def listed(stats: PartitionedStats) -> Mapping[str, TopicStats]:
    """The partitions by name, each with what contradicts the metadata and the totals."""
    partitions = stats.partitions or {}
    wrong = tuple(_impossible(stats.count, len(partitions)))
    contradicted = {} if missing(stats)[0] else dict(_contradicted(stats.totals, partitions))
    return {name: _with(each, wrong, contradicted) for name, each in partitions.items()}


def of_totals(stats: PartitionedStats) -> TopicStats:
    """The totals, where no partition is listed, with what cannot be in the metadata."""
    return _with(stats.totals, tuple(_impossible(stats.count, 0)), {})


def missing(stats: PartitionedStats) -> tuple[int, list[str]]:
    """How many partitions the topic has that are not listed, and the full names of the first."""
    partitions = stats.partitions or {}
    topics, count = {split_partition(name)[0] for name in partitions}, stats.count or 0
    if len(topics) != 1 or len(partitions) > count:
        return 0, []
    (topic,) = topics
    here = {at for _, at in map(split_partition, partitions) if at is not None and at < count}
    first = islice((at for at in range(count) if at not in here), NAMED_MOST)
    return count - len(here), [f"{topic}-partition-{at}" for at in first]


def unlisted(stats: PartitionedStats) -> Iterator[str]:
    """Why subscriptions may be missing: what is not listed, in the words that follow a name."""
    partitions = stats.partitions or {}
    gone, names = missing(stats)
    if gone:
        more = f" and {gone - len(names)} more" if gone > len(names) else ""
        of_all = f"{(stats.count or 0) - gone} of {many(stats.count or 0, 'partition')}"
        yield f"lists {of_all}, not {', '.join(names)}{more}"
        return
    here = {name for each in partitions.values() for name in each.subscriptions or {}}
    for name, total in (stats.totals.subscriptions or {}).items():
        if name not in here:
            waiting = f", with a backlog of {total.msg_backlog}," if total.msg_backlog else ""
            yield f"has {shown(name)}{waiting} in its totals and in no partition"


def _impossible(count: int | None, there: int) -> Iterator[str]:
    """What cannot be of the number of partitions."""
    if count is not None and count < 0:
        yield sentence("metadata.partitions", count)
    elif count is not None and count < there:
        yield f"metadata.partitions is {count}, but {there} are listed: nothing is judged by it"


def _contradicted(
    totals: TopicStats, partitions: Mapping[str, TopicStats]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Subscriptions of which the totals report a backlog that no partition accounts for."""
    for name, total in (totals.subscriptions or {}).items():
        each = [_backlog(one, name) for one in partitions.values()]
        known = [max(0, backlog) for backlog in each if backlog is not None]
        if len(known) == len(each) and (total.msg_backlog or 0) > FAR_ABOVE * sum(known):
            of_totals = f"the backlog of {shown(name)} is {total.msg_backlog} in the totals"
            yield name, (f"{of_totals} and {sum(known)} in all partitions: one is wrong",)


def _backlog(partition: TopicStats, subscription: str) -> int | None:
    """What waits for a subscription there; None where that is not reported."""
    stats = (partition.subscriptions or {}).get(subscription)
    return 0 if stats is None else stats.msg_backlog


def _with(
    topic: TopicStats, wrong: tuple[str, ...], contradicted: Mapping[str, tuple[str, ...]]
) -> TopicStats:
    subscriptions = topic.subscriptions and {
        name: replace(each, cannot_be=each.cannot_be + contradicted.get(name, ()))
        for name, each in topic.subscriptions.items()
    }
    return replace(topic, subscriptions=subscriptions, cannot_be=topic.cannot_be + wrong)
