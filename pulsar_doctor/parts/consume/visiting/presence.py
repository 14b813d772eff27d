"""What exists of the topics and the subscription that `consume` wants to attach to.

Read from the REST API, which creates nothing; a topic that no broker has loaded is loaded, as
attaching does. Each partition is read by itself: an answer for all of them leaves out those
that could not be read, and what is not known may be somebody's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pulsar_doctor.broker.admin import Admin, NotFound, TopicName, absent, topic_name
from pulsar_doctor.broker.admin.topics import DOMAINS
from pulsar_doctor.broker.settings import Settings, guessed
from pulsar_doctor.broker.stats.reading import topic_stats
from pulsar_doctor.broker.stats.topic import SubscriptionStats
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.consume.engines import Plan


@dataclass(frozen=True, slots=True)
class Present:
    """The topic of a run as it is before it, or after it."""

    topic: str
    exists: bool  # the broker has the topic
    partitions: int  # 0: it has none
    held: Mapping[str, SubscriptionStats]  # topic or partition -> the subscription, where it exists
    absent: str | None = None  # a topic does not exist: a sentence with similar names

    @property
    def parts(self) -> tuple[str, ...]:
        """What is subscribed to: each partition, or the topic itself."""
        names = (f"{self.topic}-partition-{number}" for number in range(self.partitions))
        return tuple(names) or (self.topic,)


def look(settings: Settings, plan: Plan) -> Present:
    """Asks the broker. Raises DoctorError where it tells less than all of it."""
    _require_one_cluster(settings)
    return asyncio.run(_look(settings, plan))


def _require_one_cluster(settings: Settings) -> None:
    """Strict, for what follows takes messages: neither address may be another cluster's."""
    other = guessed(settings)
    if other is not None:
        option = f"--{other.replace('_', '-')}"
        raise DoctorError(f"{option} is not given, and its default may be another cluster's")


async def _look(settings: Settings, plan: Plan) -> Present:
    async with Admin(settings) as admin:
        topic = await _present(admin, plan.topic, plan.subscription)
        why = None if topic.exists else await absent(admin, topic_name(topic.topic))
    return replace(topic, absent=why)


async def _present(admin: Admin, name: str, subscription: str) -> Present:
    topic = topic_name(name)
    if topic.domain not in DOMAINS:
        raise InputError(
            f"{topic} is for clients of Pulsar 5: consume and produce speak the protocol of 4.0, "
            "with which a broker takes persistent:// and non-persistent:// topics alone"
        )
    try:
        partitions = await admin.partitions(name) or 0
    except NotFound:
        return Present(str(topic), await _is_partition(admin, topic), 0, {})
    empty = Present(str(topic), True, partitions, {})
    answers = await asyncio.gather(*(_stats(admin, part) for part in empty.parts))
    held = {
        part: each[subscription]
        for part, each in zip(empty.parts, answers, strict=True)
        if each is not None and subscription in each
    }
    exists = bool(partitions) or any(each is not None for each in answers)
    return Present(str(topic), exists or await _is_partition(admin, topic), partitions, held)


async def _stats(admin: Admin, part: str) -> Mapping[str, SubscriptionStats] | None:
    """The topic's subscriptions; None: the broker has no such topic, or nobody has used it."""
    try:
        answer = await admin.topic_stats(part, precise_backlog=True)
    except NotFound:
        return None
    try:
        subscriptions = topic_stats(answer.document).subscriptions
    except InputError as error:
        raise DoctorError(f"the stats of {part} cannot be read: {error}") from error
    if subscriptions is None:
        raise DoctorError(f"the stats of {part} hold no subscriptions")
    return subscriptions


async def _is_partition(admin: Admin, topic: TopicName) -> bool:
    """Whether it is a partition that nobody has used yet: the broker has it by number only."""
    whole = topic.of_all_partitions
    if whole == topic:
        return False
    try:
        count = await admin.partitions(str(whole)) or 0
    except NotFound:
        return False
    return int(topic.local.rpartition("-")[2]) < count
