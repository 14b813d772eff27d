"""Formulas for what a simulation must come to.

p is the time for one message, h the refill threshold, D a delay; one consumer, a backlog.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf

from pulsar_doctor.simulate.clients import refill_threshold


def flow_gap_seconds(receiver_queue_size: int, process_seconds: float) -> float:
    """From one FLOW to the next: h * p. That long a consumer with a backlog has no permits."""
    return refill_threshold(receiver_queue_size) * process_seconds


def receipt_cap_per_second(
    receiver_queue_size: int,
    delay_seconds: float,
    process_seconds: float,
    *,
    by_due: bool,
    round_trip_seconds: float = 0.0,
) -> float:
    """The most that one consumer hands out where the delay counts from receipt, single messages.

    A queue in the order of due times waits as a whole. Messages come in groups of h, one group for
    each FLOW, and a group falls due at once. Of the queue, k = RQS // h groups are under way at a
    time, and r = RQS - k * h permits are owed all along (0 of an even queue, otherwise 1 from 5
    on). The FLOW leaves with the message of a group that makes h with those: D + (h - 1 - r) * p
    after the group came. So k * h / (D + (h - 1 - r) * p + round trip), about RQS / D; and never
    more than 1 / p. A client whose application receives and then waits has one message at a time:
    1 / (D + p), as has a zero queue.
    """
    threshold = refill_threshold(receiver_queue_size)
    groups, owed = divmod(receiver_queue_size, threshold)
    if not receiver_queue_size:
        return _per_second(1, delay_seconds + process_seconds + round_trip_seconds)
    if not by_due:
        return _per_second(1, delay_seconds + process_seconds)
    cycle = delay_seconds + (threshold - 1 - owed) * process_seconds + round_trip_seconds
    return min(_per_second(1, process_seconds), _per_second(groups * threshold, cycle))


def _per_second(messages: int, seconds: float) -> float:
    return messages / seconds if seconds else inf


def late_most_seconds(delays_seconds: Sequence[float]) -> float:
    """How late a message may be where delays from publish differ: the longest less the shortest.

    What is before it in the queue was published before it, and so is due at most the longest delay
    after it was published. With one constant delay this is 0, whatever the queue: due times come
    in the order of publishing, and a message leaves the broker when the one before it is taken.
    It holds while the application keeps up.
    """
    return max(delays_seconds) - min(delays_seconds) if delays_seconds else 0.0


def queue_for_delays(per_second: float, delays_seconds: Sequence[float]) -> int | None:
    """The smallest queue, in the order of due times, in which different delays make nothing late.

    A message with the shortest delay must come while all those wait that were published before it
    and are due after it: rate * mean(D - shortest D). One permit more is for itself, and up to
    h - 1 are owed: RQS - (h - 1) >= rate * mean(D - shortest D) + 1. Delays take turns. None where
    they do not differ.
    """
    if late_most_seconds(delays_seconds) == 0:
        return None
    shortest = min(delays_seconds)
    ahead = sum(delay - shortest for delay in delays_seconds) / len(delays_seconds)
    needed = ceil(round(per_second * ahead, 6)) + 1
    size = needed
    while size - (refill_threshold(size) - 1) < needed:
        size += 1
    return size
