"""Which topics are requested, and their names, loaded or not, without loading any."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pulsar_doctor.broker.admin import Admin, Refused, TopicName, topic_name
from pulsar_doctor.broker.sampling import Unread
from pulsar_doctor.errors import DoctorError

SYSTEM_NAMESPACE = "pulsar/system"
# A broker's own health check lies in pulsar/CLUSTER/HOST:PORT or pulsar/HOST:PORT.
HEARTBEAT = re.compile(r"pulsar/([^/]+/)?[^/]+:\d+/.+")
PENDING_ACKS = "__transaction_pending_ack"


@dataclass(frozen=True, slots=True)
class Scope:
    """Which topics of a cluster are read."""

    namespaces: tuple[str, ...] = ()  # empty: all that these credentials can list
    system: bool = False  # the broker's own topics too
    load: bool = False  # read topics that no broker has loaded, which loads them

    def includes(self, name: TopicName) -> bool:
        """Whether this topic is meant, if its namespace is."""
        return self.system or not is_system(name)


def is_system(name: TopicName) -> bool:
    """Whether the broker keeps this topic for itself.

    Source: SystemTopicNames and NamespaceService of Pulsar; all that begin with two underscores.
    """
    local = name.of_all_partitions.local
    return (
        local.startswith("__")
        or local.endswith(PENDING_ACKS)
        or name.namespace == SYSTEM_NAMESPACE
        or HEARTBEAT.fullmatch(f"{name.namespace}/{name.local}") is not None
    )


@dataclass(frozen=True, slots=True)
class Listing:
    """The topics of a fleet."""

    namespaces: frozenset[str]  # all that were meant
    topics: frozenset[str]  # full names
    unread: tuple[Unread, ...]  # what could not be listed


async def listing(admin: Admin, scope: Scope) -> Listing:
    """Lists what is meant. Raises AdminError where the namespaces cannot be known."""
    namespaces, unread = sorted(set(scope.namespaces)), list[Unread]()
    if not namespaces:
        namespaces, unread = await _each(await _tenants(admin), admin.namespaces)
    topics, unlisted = await _each(namespaces, lambda namespace: _topics(admin, namespace))
    meant = frozenset(topic for topic in topics if scope.includes(topic_name(topic)))
    return Listing(frozenset(namespaces), meant, (*unread, *unlisted))


async def _topics(admin: Admin, namespace: str) -> Sequence[str]:
    """Lists every topic and the segments of scalable ones; each of these costs a request."""
    listed, scalable = await asyncio.gather(
        admin.topics(namespace), admin.scalable_topics(namespace)
    )
    found = await asyncio.gather(*(admin.scalable_topic(topic) for topic in scalable))
    segments = (each.name for topic in found for each in topic.values() if each.name is not None)
    return [*listed.topics, *segments]


async def _tenants(admin: Admin) -> list[str]:
    try:
        return await admin.tenants()
    except Refused as error:
        raise Refused(f"{error}, or name the namespaces with --namespace") from None


async def _each(
    names: Sequence[str], ask: Callable[[str], Awaitable[Sequence[str]]]
) -> tuple[list[str], list[Unread]]:
    """What all of them list, and those that cannot be listed."""
    answers = await asyncio.gather(*map(ask, names), return_exceptions=True)
    listed: list[str] = []
    unread: list[Unread] = []
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, DoctorError):
            unread.append(Unread(name, str(answer)))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            listed += answer
    return listed, unread
