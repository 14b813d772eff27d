"""Hashes of a Key_Shared subscription with sticky ranges that no consumer has chosen.

What comes for such a hash waits until somebody has it. Brokers from 4.0 on list the ranges of each
consumer as pairs of numbers (keyHashRangeArrays). What older ones list as text is not read: before
2.10 it was incomplete.

Source: HashRangeExclusiveStickyKeyConsumerSelector; StickyKeyConsumerSelector (65,536 hashes; 0
means that there is none, so that no message has it).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pulsar_doctor.broker.stats.values import HashRange

FIRST, LAST = 1, 65_535


def unowned_hashes(subscription: Mapping[str, Any]) -> tuple[HashRange, ...] | None:
    """The gaps between all ranges, in their order; None where they are not reported whole."""
    consumers = subscription.get("consumers")
    if subscription.get("keySharedMode") != "STICKY" or not isinstance(consumers, list):
        return None
    listed = [_ranges(each) for each in consumers]
    known = [ranges for ranges in listed if ranges is not None]
    if not known or len(known) < len(listed):
        return None
    return tuple(_gaps(sorted(one for ranges in known for one in ranges)))


def _gaps(owned: Sequence[HashRange]) -> Iterator[HashRange]:
    free = FIRST
    for first, last in owned:
        if first > free:
            yield free, first - 1
        free = max(free, last + 1)
    if free <= LAST:
        yield free, LAST


def _ranges(consumer: Any) -> list[HashRange] | None:
    """The ranges of one consumer; None where one of them is not a range."""
    ranges = consumer.get("keyHashRangeArrays") if isinstance(consumer, dict) else None
    if not isinstance(ranges, list) or not all(map(_is_range, ranges)):
        return None
    return [(first, last) for first, last in ranges]


def _is_range(ranges: Any) -> bool:
    pair = isinstance(ranges, list) and len(ranges) == 2
    return pair and all(type(one) is int for one in ranges) and 0 <= ranges[0] <= ranges[1] <= LAST
