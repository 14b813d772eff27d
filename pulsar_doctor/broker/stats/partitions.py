"""What the partitions of one topic know of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pulsar_doctor.broker.stats.observed import TopicWindow


def among_partitions(windows: Sequence[TopicWindow]) -> tuple[TopicWindow, ...]:
    """The same, and each partition knows which subscriptions have consumers on the others."""
    attended: dict[str, set[str]] = {}
    for each in windows:
        if each.partition is not None:
            attended.setdefault(each.topic, set()).update(each.attended)
    return tuple(
        replace(each, elsewhere=frozenset(attended.get(each.topic, ())))
        if each.partition is not None
        else each
        for each in windows
    )
