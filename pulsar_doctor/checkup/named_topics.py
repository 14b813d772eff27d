"""Samples named topics, and explains those that have no verdict.

A topic that does not exist gets the names that are written alike; one that exists and has no
subscription is distinguished from one with partitions that nobody has used, and from one that keeps
nothing. Nothing but what was named is loaded for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pulsar_doctor.broker.admin import Admin, NotFound, TopicName, absent, topic_name
from pulsar_doctor.broker.admin.topics import DOMAINS, SCALABLE
from pulsar_doctor.broker.sampling import Sampled, SamplingPlan, Unread, Watch, sample
from pulsar_doctor.broker.sampling.part import DURING
from pulsar_doctor.broker.sampling.run import NOBODY
from pulsar_doctor.checkup.topic_notes import without_subscription
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.ledger.topics import NON_PERSISTENT, split_partition, split_segment

NOT_USED = "is not loaded: nobody has used it so far"
KEEPS_NOTHING = (
    "is non-persistent and keeps nothing: there is no backlog, and no acknowledgement is waited "
    "for; a message goes to consumers that can receive at that moment, or is dropped"
)


async def sample_named(
    admin: Admin, topics: Sequence[str], plan: SamplingPlan, watch: Watch = NOBODY
) -> Sampled:
    """Samples topics as `sampling.sample` does; the reason for a missing topic names similar ones.

    A scalable topic is read segment by segment, also where only its plain name was given.
    """
    names = dict.fromkeys(map(topic_name, topics))
    scalable = [name for name in names if name.domain == SCALABLE]
    parts, missing = await _segments_of(admin, scalable)
    plain = [str(name) for name in names if name.domain != SCALABLE]
    sampled = await sample(admin, [*plain, *parts], plan, watch)
    gone = [topic_name(each.topic) for each in sampled.unread if each.gone]
    more, _ = await _segments_of(admin, [each for each in gone if each.domain == DOMAINS[0]])
    if more:
        found = {str(replace(topic_name(each).of_all_segments, domain=DOMAINS[0])) for each in more}
        plain = [topic for topic in plain if topic not in found]
        sampled = await sample(admin, [*plain, *parts, *more], plan, watch)
    unread = await asyncio.gather(*(_explained(admin, each) for each in sampled.unread))
    return replace(sampled, unread=(*missing, *unread))


async def _segments_of(admin: Admin, names: Sequence[TopicName]) -> tuple[list[str], list[Unread]]:
    """The segments of scalable topics, and the topics that are none. Loads nothing."""
    found: list[str] = []
    missing: list[Unread] = []
    for name in names:
        full = replace(name, domain=SCALABLE)
        try:
            segments = await admin.scalable_topic(str(full))
            found += [each.name for each in segments.values() if each.name is not None]
        except NotFound:
            reason = f"there is no scalable topic {full} at {admin.place}"
            missing.append(Unread(str(full), reason, gone=True))
        except DoctorError as error:
            missing.append(Unread(str(full), str(error)))
    return found, missing


async def _explained(admin: Admin, unread: Unread) -> Unread:
    name = topic_name(unread.topic)
    if not unread.gone or unread.reason.startswith(DURING) or name.domain not in DOMAINS:
        return unread
    reason = await absent(admin, name)
    return unread if reason is None else replace(unread, reason=reason)


def kinds(sampled: Sampled) -> Iterator[tuple[str, str]]:
    """Topics that need a sentence beside their verdicts: the full name, and the sentence."""
    unread = {each.topic for each in sampled.unread}
    unread |= {split_partition(topic)[0] for topic in unread}
    for topic, partitions in sampled.partitions.items():
        if (scalable := split_segment(topic)[0]) != topic:
            if not unread & {topic, scalable} and not _has_any(sampled, scalable):
                unread.add(scalable)  # once, and not of each segment
                yield scalable, f"{scalable} exists and has no subscription"
            continue
        text = "" if topic in unread else "; it ".join(_kind(sampled, topic, partitions))
        if text:
            yield topic, f"{topic} {text}"


def _has_any(sampled: Sampled, scalable: str) -> bool:
    """Whether any segment of a scalable topic has a subscription."""
    own = (each for each in sampled.windows if split_segment(each.topic)[0] == scalable)
    return any(True for window in own for _ in window.judged())


def _kind(sampled: Sampled, topic: str, partitions: int | None) -> Iterator[str]:
    whole, number = split_partition(topic)
    read = [w for w in sampled.windows if w.topic == whole and number in (None, w.partition)]
    if not any(True for window in read for _ in window.judged()):
        unused = _unused(partitions, len(read)) if partitions else "exists and has no subscription"
        became = without_subscription(read) if read else None
        yield unused if became is None else f"{unused}: {became}"
    if topic.startswith(NON_PERSISTENT):
        yield KEEPS_NOTHING


def _unused(partitions: int, read: int) -> str:
    """Explains a topic without any subscription. read: partitions that have more than a name."""
    if partitions == 1:
        return f"has 1 partition, which {'has no subscription' if read else NOT_USED}"
    if not read:
        return f"has {partitions} partitions, none of which is loaded: nobody has used them so far"
    unused = f"; {partitions - read} of them nobody has used so far" if read < partitions else ""
    return f"has {partitions} partitions, none of which has a subscription{unused}"
