"""Samples named topics, and explains those that have no verdict.

A topic that does not exist gets the names that are written alike; one that exists and has no
subscription is told apart from one whose partitions nobody has used, and from one that keeps
nothing. Nothing but what was named is loaded for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pulsar_doctor.broker.admin import Admin, absent, topic_name
from pulsar_doctor.broker.sampling import Sampled, SamplingPlan, Unread, Watch, sample
from pulsar_doctor.broker.sampling.part import DURING
from pulsar_doctor.broker.sampling.run import NOBODY
from pulsar_doctor.ledger.consumers import NON_PERSISTENT, split_partition

NOT_USED = "is not loaded: nobody has used it so far"
KEEPS_NOTHING = (
    "is non-persistent and keeps nothing: there is no backlog, and no acknowledgement is waited "
    "for; a message goes to consumers that have permits at that moment, or is dropped"
)


async def sample_named(
    admin: Admin, topics: Sequence[str], plan: SamplingPlan, watch: Watch = NOBODY
) -> Sampled:
    """As `sampling.sample`; of a topic that does not exist the reason names those written alike."""
    sampled = await sample(admin, topics, plan, watch)
    unread = await asyncio.gather(*(_told(admin, each) for each in sampled.unread))
    return replace(sampled, unread=tuple(unread))


async def _told(admin: Admin, unread: Unread) -> Unread:
    if not unread.gone or unread.reason.startswith(DURING):
        return unread
    reason = await absent(admin, topic_name(unread.topic))
    return unread if reason is None else replace(unread, reason=reason)


def kinds(sampled: Sampled) -> Iterator[tuple[str, str]]:
    """Topics of which more is to be said than verdicts: the full name, and a sentence."""
    unread = {each.topic for each in sampled.unread}
    unread |= {split_partition(topic)[0] for topic in unread}
    for topic, partitions in sampled.partitions.items():
        said = "" if topic in unread else "; it ".join(_kind(sampled, topic, partitions))
        if said:
            yield topic, f"{topic} {said}"


def _kind(sampled: Sampled, topic: str, partitions: int | None) -> Iterator[str]:
    whole, number = split_partition(topic)
    read = [w for w in sampled.windows if w.topic == whole and number in (None, w.partition)]
    if not any(True for window in read for _ in window.judged()):
        yield _unused(partitions, len(read)) if partitions else "exists and has no subscription"
    if topic.startswith(NON_PERSISTENT):
        yield KEEPS_NOTHING


def _unused(partitions: int, read: int) -> str:
    """Of a topic without any subscription. read: partitions that exist by more than their name."""
    if partitions == 1:
        return f"has 1 partition, which {'has no subscription' if read else NOT_USED}"
    if not read:
        return f"has {partitions} partitions, none of which is loaded: nobody has used them so far"
    unused = f"; {partitions - read} of them nobody has used so far" if read < partitions else ""
    return f"has {partitions} partitions, none of which has a subscription{unused}"
