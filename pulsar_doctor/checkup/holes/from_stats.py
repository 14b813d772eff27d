"""The acknowledged ranges of subscriptions: topics by name, whole namespaces, or files.

Topics that are named are read, which loads them. Of a namespace only those are read that a broker
has loaded and that have a backlog, acknowledged ranges or something left to replicate: without
these there are no holes, and no replicator keeps anything. Where a backlog's counter does not fit
the rest, the topic is looked at again over a moment: that tells whether the counter is wrong, or
was read at another moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace

from pulsar_doctor.broker.admin import Admin, topic_name
from pulsar_doctor.broker.admin.broker_settings import broker_settings
from pulsar_doctor.broker.admin.topics import namespace_path
from pulsar_doctor.broker.fleet import Fleet, Scope
from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import read as read_files
from pulsar_doctor.broker.samples.files import called, opened, whole
from pulsar_doctor.broker.samples.pasted import document_in
from pulsar_doctor.broker.samples.plain import UNKNOWN, UNNAMED, plain_internal
from pulsar_doctor.broker.samples.reading import check_found, is_called
from pulsar_doctor.broker.sampling import SamplingPlan, sample
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.stats.backlog import is_empty
from pulsar_doctor.broker.stats.internal import InternalStats
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import SubscriptionStats, TopicStats
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.checkup.holes.found import Acknowledged
from pulsar_doctor.checkup.identity import cluster_of
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.named_topics import kinds, sample_named
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.ledger.acks.persisting import NOTHING_REPORTED, Storing, storing_of
from pulsar_doctor.ledger.topics import split_partition

ONE_SAMPLE = SamplingPlan(window_seconds=0.0, limits=False)
NAMED = replace(ONE_SAMPLE, internal=True)
AGAIN = SamplingPlan(
    window_seconds=1.0, interval_seconds=0.5, limits=False, as_named=True, internal=True
)


def holes_of_topics(
    settings: Settings, topics: Sequence[str], subscription: str | None
) -> Acknowledged:
    """The subscriptions of topics on a live broker. subscription: only this one; None: all.

    Raises InputError for what is no name, DoctorError where all could be read and none has it.
    """
    for topic in topics:
        topic_name(topic)
    return asyncio.run(_of_topics(Admin(settings), topics, subscription))


async def _of_topics(admin: Admin, topics: Sequence[str], subscription: str | None) -> Acknowledged:
    found = Acknowledged("broker")
    async with admin:
        reading = sample_named(admin, topics, NAMED)
        sampled, storing = await asyncio.gather(reading, _storing(admin, found))
        windows = await _looked_at_again(admin, sampled.windows, subscription)
    found.notes += sampled.notes
    found.not_loaded += sampled.not_loaded
    found.unreachable += [(unread.topic, unread.reason) for unread in sampled.unread]
    found.kinds += kinds(sampled)
    for window in windows:
        found.add(window, storing, subscription)
    missing = None if found.cursors else _judge(subscription).missing(sampled.windows)
    if missing and not found.unreachable:
        raise DoctorError(missing)
    return found


async def _looked_at_again(
    admin: Admin, windows: Sequence[TopicWindow], subscription: str | None
) -> list[TopicWindow]:
    """The windows, in their order; those with a counter that does not fit are read anew."""
    doubtful = [each.full_topic for each in windows if _is_doubtful(each, subscription)]
    if not doubtful:
        return list(windows)
    again = {each.full_topic: each for each in (await sample(admin, doubtful, AGAIN)).windows}
    return [again.get(each.full_topic, each) for each in windows]


def _is_doubtful(window: TopicWindow, subscription: str | None) -> bool:
    return any(
        each.backlog.doubtful or each.backlog.shown_wrong == 1
        for each in window.subscriptions()
        if subscription in (None, each.subscription)
    )


def holes_of_namespaces(
    settings: Settings, namespaces: Sequence[str], subscription: str | None
) -> Acknowledged:
    """Reads the holes of all subscriptions of all loaded topics. Raises as `holes_of_topics`."""
    for namespace in namespaces:
        namespace_path(namespace)
    return asyncio.run(_of_namespaces(Admin(settings), namespaces, subscription))


async def _of_namespaces(
    admin: Admin, namespaces: Sequence[str], subscription: str | None
) -> Acknowledged:
    found, fleet = Acknowledged("broker"), Fleet(admin, Scope(tuple(namespaces)), _empty)
    fleet.plan, doubtful = NAMED, list[TopicWindow]()
    async with admin:
        storing = await _storing(admin, found)
        async with aclosing(fleet.windows()) as windows:
            async for window in windows:
                if _is_doubtful(window, subscription):
                    doubtful.append(window)
                else:
                    found.add(window, storing, subscription)
        for window in await _looked_at_again(admin, doubtful, subscription):
            found.add(window, storing, subscription)
    found.notes += fleet.notes
    found.not_loaded += fleet.not_loaded
    found.unreachable += [(unread.topic, unread.reason) for unread in fleet.unread]
    if subscription is not None and not (found.accounts or found.cursors or found.unreachable):
        raise DoctorError(f"no topic that was read has a subscription {subscription!r}")
    return found


def _empty(window: TopicWindow) -> bool:
    """Whether no subscription can have holes, and no replicator has anything left to send."""
    topic = window.window.last.topic
    behind = [each.replication_backlog for each in (topic.replication or {}).values()]
    return all(map(is_empty, (topic.subscriptions or {}).values())) and not any(behind)


async def _storing(admin: Admin, found: Acknowledged) -> Storing:
    """How the broker that answers stores ranges, as far as these credentials show."""
    reported = await broker_settings(admin)
    found.cluster = cluster_of(admin, reported["version"])
    return storing_of(reported["configuration"], reported["version"])


def holes_of_files(files: SampleFiles, subscription: str | None) -> Acknowledged:
    """What files tell: of stats and internal stats together, or each of internal stats alone.

    Raises InputError, and DoctorError where the subscription is not there.
    """
    found = Acknowledged("files")
    if files.stats_files:
        read = read_files(files)
        windows = list(read.windows)
        found.notes += read.notes
    else:
        windows = [
            window
            for name in files.internal_files
            for window in _internal_alone(name, files.named, found.notes)
        ]
    for window in windows:
        found.add(window, NOTHING_REPORTED, subscription)
    missing = None if found.cursors else _judge(subscription).missing(windows)
    if missing:
        raise DoctorError(missing)
    return found


def _internal_alone(name: str, topics: Sequence[str], notes: list[str]) -> Iterator[TopicWindow]:
    """Every cursor as a subscription of which nothing else is reported. notes: how it was read."""
    with opened(name) as stream:
        read = document_in(whole(stream, name), name)
    notes += read.notes
    internals = plain_internal(read.document, name)
    if UNNAMED in internals:
        if len(topics) > 1:
            raise InputError(f"{called(name)} is of one topic; give one TOPIC or none")
        internals = {topics[0] if topics else UNKNOWN: internals[UNNAMED]}
    else:
        check_found(topics, internals, called(name))
    for topic, internal in internals.items():
        if not topics or any(is_called(topic, wanted) for wanted in topics):
            yield TopicWindow(*split_partition(topic), Window((_sample(internal),)))


def _sample(internal: InternalStats) -> Sample:
    subscriptions = {name: SubscriptionStats() for name in internal.cursors or {}}
    return Sample(None, TopicStats(subscriptions=subscriptions), internal)


def _judge(subscription: str | None) -> Judge:
    return Judge((), {}, subscription)
