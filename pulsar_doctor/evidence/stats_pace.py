"""How fast a consumer works, and when it is sent messages again, as far as the broker's stats tell.

A pace is measured in the window or not at all; its bounds come from the consumer's whole life.
"""

from __future__ import annotations

from itertools import pairwise

from pulsar_doctor.evidence.standing import Standing
from pulsar_doctor.evidence.starvation import Starving, between_acks
from pulsar_doctor.evidence.values import Count

RHYTHM_NEEDS = 3  # messages, before a life says anything of a rhythm
RHYTHM_MOST_MS = 150_000


def in_rhythm(starving: Starving) -> bool:
    """Whether its silence is no longer than twice the time of a message over its life.

    That average has idle times in it, so it excuses no silence of RHYTHM_MOST_MS. Where only bounds
    are told of what it has done, it may be no more than twice the shortest average.
    """
    standing, life_done = starving.standing, starving.done_in_life
    done = 0
    if life_done is not None and standing.now.last_acked_timestamp_ms is not None:
        done = max(life_done.least, life_done.most - starving.ahead)
    quiet, life = standing.silence, standing.since(standing.now.connected_since_ms)
    if quiet is None or life is None or not (quiet.exact and life.exact) or done < RHYTHM_NEEDS:
        return False
    return quiet.ms <= min(2 * life.ms / done, RHYTHM_MOST_MS)


def _done_in_life(starving: Starving) -> int:
    """Messages that it finished since it connected, at least."""
    done = starving.done_in_life
    return 0 if done is None else done.least


def pace_of_flows(standing: Standing) -> float | None:
    """Seconds for a message below zero, by the permits that came back in the window."""
    granted, span_ms = standing.granted, standing.observed.window.span_ms
    below = (standing.permits or 0) < 0
    return span_ms / granted / 1000 if below and granted and span_ms else None


def pace_most(starving: Starving) -> float | None:
    """By its life, or by the rate of its acks within the last full minute.

    On Exclusive and Failover one ack may stand for many messages: it is no faster than that.
    """
    standing, done = starving.standing, _done_in_life(starving)
    rate, life = standing.now.message_ack_rate, standing.since(standing.now.connected_since_ms)
    paces = [life.seconds / done] if life is not None and life.exact and done > 0 else []
    paces += [1 / rate] if rate and rate > 0 else []
    between = between_acks(standing)
    return min([*paces, *([] if between is None else [between])], default=None)


def until_sending(starving: Starving) -> Count | None:
    """Below zero each message gives one permit back, and FLOWs come by half a queue.

    At most: only where one came in the window; then it is not the next FLOW that is waited for.
    """
    permits, until = starving.permits, starving.until_flow
    if permits >= 0 or starving.standing.now.blocked_consumer_on_unacked_msgs:
        return None
    most = until - permits if until and starving.asked else None
    return Count(max(1, 1 - permits - _unsent_most(starving)), most)


def _unsent_most(starving: Starving) -> int:
    """Taken and not asked for again: less than half of a queue.

    That is no larger than what was ever granted, and less than twice what is left of it.
    """
    sizes = [starving.standing.granted_in_life]
    if starving.held is not None:
        sizes.append(2 * (starving.held.most + starving.permits) - 1)
    refills = [starving.refill, *(size // 2 for size in sizes if size is not None)]
    told = [refill for refill in refills if refill is not None]
    return max(0, min(told) - 1) if told else -starving.permits


def delivered_again(standing: Standing) -> bool:
    """Whether messages came in more than one step of the window."""
    told = [consumer.msg_out_counter for consumer in standing.course.values if consumer is not None]
    steps = [later > earlier for earlier, later in pairwise(n for n in told if n is not None)]
    return sum(steps) > 1
