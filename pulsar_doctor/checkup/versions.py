"""Lists the versions in use, their known bugs, and the smallest upgrade that helps."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from pulsar_doctor.broker.admin import Admin
from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import ReadSamples
from pulsar_doctor.broker.sampling import SamplingPlan, Watch
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.stats.observed import Observed, TopicWindow
from pulsar_doctor.broker.stats.reading import topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import TopicStats
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.checkup.case import read_case
from pulsar_doctor.checkup.identity import cluster_of
from pulsar_doctor.checkup.kinds import recognise
from pulsar_doctor.checkup.named_topics import sample_named
from pulsar_doctor.checkup.result import Cluster
from pulsar_doctor.diagnosis.known.issue import BROKER, Issue, load
from pulsar_doctor.diagnosis.known.matching import KnownIssue, is_affected, matching, on_broker
from pulsar_doctor.diagnosis.known.versions import Version, client_of, version_of
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.evidence.by_stats import subscription_view
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.ledger.topics import PERSISTENT

ONCE = SamplingPlan(window_seconds=0, limits=False)


@dataclass(frozen=True, slots=True)
class InUse:
    """One version of one component."""

    component: str
    version: Version
    consumers: int = 0  # how many have it; 0 for a broker
    # id of an issue -> subscriptions of which the numbers fit its whole fingerprint
    shown: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def issues(self) -> tuple[Issue, ...]:
        """What is known against it."""
        return tuple(
            issue
            for issue in load()
            if issue.component == self.component and is_affected(issue, self.version)
        )


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A version, how much of what is known it removes, and the ids of what it has itself."""

    to: str
    removes: int
    left: tuple[str, ...]


def fitting(observed: Observed, broker: str | None) -> tuple[KnownIssue, ...]:
    """Known issues that the statistics of a subscription fit. broker: its version, as written."""
    return on_broker(matching(subscription_view(observed)), broker)


def fits_of(
    names: Sequence[str], broker: str | None
) -> list[tuple[SubscriptionView, tuple[KnownIssue, ...]]]:
    """Each subscription of files of statistics or a page, and the issues that it fits.

    broker: its version; by default what a file has. Raises InputError, DoctorError.
    """
    if names[0].endswith((".html", ".htm")) and len(names) == 1:
        case = read_case(names[0])
        views, version = [each.whole for each in case.subscriptions], case.head.broker_version
    else:
        read = _statistics_of(names)
        observed = (each for window in read.windows for each in window.subscriptions())
        views, version = [*map(subscription_view, observed)], read.broker_version
    return [(view, on_broker(matching(view), broker or version)) for view in views]


def _statistics_of(names: Sequence[str]) -> ReadSamples:
    """The samples of files. Raises DoctorError where they hold none, such as dumps and logs, or
    where some may be missing."""
    found = recognise(SampleFiles(list(names)))
    if found.brought and not found.samples.windows:
        raise DoctorError(f"{'; '.join(found.lines)}: no statistics, which known issues need")
    if found.incomplete:
        raise DoctorError(f"{'; '.join(found.incomplete)}, so other issues may fit")
    return found.samples


def in_use(topics: Iterable[TopicWindow], broker: str | None) -> list[InUse]:
    """The broker first, then clients, the most frequent first. broker: its version, as written."""
    version, clients = version_of(broker or ""), Counter[tuple[str, Version]]()
    shown: dict[str, list[str]] = {}
    for topic in topics:
        clients.update(_clients(topic.window.last.topic))
        for observed in topic.subscriptions():
            where = f"{observed.subscription} on {observed.topic.removeprefix(PERSISTENT)}"
            for known in fitting(observed, broker):
                if known.holds:
                    shown.setdefault(known.issue.id, []).append(where)
    found = [] if version is None else [InUse(BROKER, version, shown=shown)]
    return found + [InUse(*which, count, shown) for which, count in clients.most_common()]


def upgrades(used: InUse) -> tuple[Upgrade, ...]:
    """The smallest upgrades that remove most: on the same release line, and of all."""
    fixes = sorted({fix for issue in used.issues for fix in _fixes(issue, used.version)})
    line = [fix for fix in fixes if fix.parts[:2] == used.version.parts[:2]]
    best = (_best(used, some) for some in (line, fixes))
    return tuple(dict.fromkeys(each for each in best if each is not None))


def _best(used: InUse, fixes: Sequence[Version]) -> Upgrade | None:
    """The lowest of these versions that removes most. fixes: ascending."""
    each_fix = [_to(used, fix) for fix in fixes]
    return max(each_fix, key=lambda each: each.removes, default=None)


def _to(used: InUse, fix: Version) -> Upgrade:
    left = tuple(issue.id for issue in InUse(used.component, fix).issues)
    return Upgrade(fix.text, sum(issue.id not in left for issue in used.issues), left)


def of_files(stats_files: Sequence[str], broker: str | None) -> list[InUse]:
    """By files of statistics. broker: its version; by default what a file of `--save` reports."""
    read = _statistics_of(stats_files)
    return in_use(read.windows, broker or read.broker_version)


def of_broker(settings: Settings, topics: Sequence[str]) -> tuple[Cluster, list[InUse]]:
    """A live cluster, and what is in use by these topics, or by all that are loaded (superuser)."""
    return asyncio.run(_of_broker(settings, topics))


async def _of_broker(settings: Settings, topics: Sequence[str]) -> tuple[Cluster, list[InUse]]:
    async with Admin(settings) as admin:
        version = await admin.version()
        found = await (_named(admin, topics) if topics else _loaded(admin))
        return cluster_of(admin, version), in_use(found, version)


async def _named(admin: Admin, topics: Sequence[str]) -> Sequence[TopicWindow]:
    sampled = await sample_named(admin, topics, ONCE, Watch())
    if sampled.unread:
        raise DoctorError(f"{sampled.unread[0].topic}: {sampled.unread[0].reason}")
    return sampled.windows


async def _loaded(admin: Admin) -> list[TopicWindow]:
    found: list[TopicWindow] = []
    for broker in await admin.brokers():
        async with aclosing(admin.loaded_topics(broker)) as loaded:
            async for each in loaded:
                now = Sample(each.broker_clock_ms, topic_stats(each.stats))
                found.append(TopicWindow(each.topic, None, Window((now,))))
    return found


def _clients(topic: TopicStats) -> Iterator[tuple[str, Version]]:
    for subscription in (topic.subscriptions or {}).values():
        for consumer in subscription.consumers or ():
            named = client_of(consumer.client_version)
            if named is not None and named[1] is not None:
                yield named[0], named[1]


def _fixes(issue: Issue, version: Version) -> Iterator[Version]:
    for text in issue.fixed_in:
        fix = version_of(text)
        if fix is not None and fix > version:
            yield fix
