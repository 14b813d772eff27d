"""Which versions are in use, what is known against each, and the smallest upgrade that helps."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from pulsar_doctor.broker.admin import Admin
from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import read as read_files
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.stats.reading import topic_stats
from pulsar_doctor.broker.stats.topic import TopicStats
from pulsar_doctor.diagnosis.known.issue import BROKER, Issue, load
from pulsar_doctor.diagnosis.known.matching import is_affected
from pulsar_doctor.diagnosis.known.versions import Version, client_of, version_of


@dataclass(frozen=True, slots=True)
class InUse:
    """One version of one component. consumers: how many have it; 0 for a broker."""

    component: str
    version: Version
    consumers: int = 0

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
    """The lowest version that removes most of what is known. left: ids that it still has."""

    to: str
    removes: int
    left: tuple[str, ...]


def in_use(topics: Iterable[TopicStats], broker: str | None) -> list[InUse]:
    """The broker first, then clients, the most frequent first. broker: as it tells its version."""
    version, clients = version_of(broker or ""), Counter(_clients(topics))
    found = [] if version is None else [InUse(BROKER, version)]
    return found + [InUse(kind, each, count) for (kind, each), count in clients.most_common()]


def upgrade(used: InUse) -> Upgrade | None:
    """The smallest upgrade that removes most; None where no release removes anything."""
    best: tuple[int, Version, tuple[str, ...]] | None = None
    for fix in sorted({fix for issue in used.issues for fix in _fixes(issue, used.version)}):
        left = tuple(issue.id for issue in InUse(used.component, fix).issues)
        removed = sum(issue.id not in left for issue in used.issues)
        if best is None or removed > best[0]:
            best = removed, fix, left
    return None if best is None else Upgrade(best[1].text, best[0], best[2])


def of_files(stats_files: Sequence[str], broker: str | None) -> list[InUse]:
    """By files of statistics, which do not tell the version of their broker."""
    windows = read_files(SampleFiles(list(stats_files))).windows
    return in_use((window.window.last.topic for window in windows), broker)


def of_broker(settings: Settings, topics: Sequence[str]) -> list[InUse]:
    """Of a live cluster: by these topics, or by all that its brokers have loaded (superuser)."""
    return asyncio.run(_of_broker(settings, topics))


async def _of_broker(settings: Settings, topics: Sequence[str]) -> list[InUse]:
    async with Admin(settings) as admin:
        version = await admin.version()
        if topics:
            told = [topic_stats((await admin.topic_stats(topic)).document) for topic in topics]
            return in_use(told, version)
        found = []
        for broker in await admin.brokers():
            async with aclosing(admin.loaded_topics(broker)) as loaded:
                found += [topic_stats(each.stats) async for each in loaded]
        return in_use(found, version)


def _clients(topics: Iterable[TopicStats]) -> Iterator[tuple[str, Version]]:
    for topic in topics:
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
