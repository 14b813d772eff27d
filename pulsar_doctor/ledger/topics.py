"""How topics are named: with a partition, or as a segment of a scalable topic."""

from __future__ import annotations

import re

NON_PERSISTENT = "non-persistent://"
PERSISTENT = "persistent://"  # what is left out where a line is short
UNNAMED_TOPIC = "unknown"  # of which no file tells the name
PARTITION = re.compile(r"(.+)-partition-([0-9]{1,9})", re.DOTALL)
SEGMENT = re.compile(r"segment://(.+)/[0-9a-f]+-[0-9a-f]+-([0-9]{1,18})", re.DOTALL)


class AboutTopic:
    """A value about a topic, or about one partition of it: both are fields of it."""

    __slots__ = ()
    topic: str
    partition: int | None

    @property
    def full_topic(self) -> str:
        """The topic as the broker names it, with its partition."""
        return full_name(self.topic, self.partition)


class AboutSubscription(AboutTopic):
    """A value about a subscription of it, by its name."""

    __slots__ = ()
    subscription: str

    @property
    def key(self) -> tuple[str, str]:
        """The full name of its topic or partition, and of the subscription."""
        return self.full_topic, self.subscription


def split_partition(topic: str) -> tuple[str, int | None]:
    """A topic's name without its partition, and the partition; None where it has none."""
    match = PARTITION.fullmatch(topic)
    return (match[1], int(match[2])) if match else (topic, None)


def split_segment(topic: str) -> tuple[str, int | None]:
    """The scalable topic of a segment, and the segment's number; None where it is none."""
    match = SEGMENT.fullmatch(topic)
    return (f"topic://{match[1]}", int(match[2])) if match else (topic, None)


def full_name(topic: str, partition: int | None) -> str:
    """The other way round: the name of a topic or of one of its partitions."""
    return topic if partition is None else f"{topic}-partition-{partition}"
