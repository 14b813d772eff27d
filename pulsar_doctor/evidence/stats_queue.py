"""The receiver queue of one consumer by the broker's stats, and when its next FLOW comes.

*The queue*: permits, queued and unsent messages together are the receiver queue size (RQS), and
fewer than half of it are unsent. So at 0 permits more than half of a queue is queued: RQS is below
twice the unacknowledged messages, and the next FLOW comes after at most half of them. All that was
ever granted is the first FLOW and the refills, so that RQS is no more than that. It is RQS itself
where no refill has come. Acks do not tell that: a refill follows from what the application takes,
acknowledged or not. The moment of the last FLOW does: the first comes as soon as the consumer has
connected (seen: within 5 ms), and as long as none follows that moment stays.

The next FLOW comes when the application has taken so many messages that half of the receiver queue
(RQS) is unsent. With permits a (0 or less), u messages unacknowledged and k taken since the last
FLOW, a + u + k is RQS, so that (a + u - k) / 2 more are needed, and never more than (a + u) / 2.
k is the time since the last FLOW by the pace of the window. Where RQS is known (no refill came
yet), k is what was acknowledged since the consumer connected.

With at most 2 messages in a + u, RQS may be 0 or 1: then it asks after each message anyway.
"""

from __future__ import annotations

from itertools import pairwise

from pulsar_doctor.broker.stats.age import FIRST_FLOW_MOST_MS, Age
from pulsar_doctor.broker.stats.observed import Between
from pulsar_doctor.evidence.stats_moved import ConsumerWindow, granted_in_life
from pulsar_doctor.evidence.values import Count, at_most, exactly
from pulsar_doctor.ledger.clients import client_of

UPON_CONNECTING_MS = 20  # so soon comes a first FLOW; of a later one only a bound is known


def known_queue_size(of: ConsumerWindow) -> int | None:
    """The consumer's queue size where its first FLOW was its only one; None: not known.

    A queue of 0 or 1 asks again as soon as a message arrives: two permits may be two FLOWs.
    """
    granted = of.granted_in_life
    if granted is None or granted < 1 or granted == 2:
        return None
    only = _first_flow_only(of) and _little_returned(of) is not False
    return granted if granted == 1 or only else None


def most_queue_size(of: ConsumerWindow) -> int | None:
    """The consumer's queue size, at most; None: not known. A FLOW is half of it or more."""
    life, came = of.granted_in_life, of.course.passed("last_consumed_flow_timestamp_ms")
    if not life or not refilled(of):
        return None
    return min(2 * life // 3, 2 * ((came and of.granted) or life))


def receiver_queue_size(of: ConsumerWindow) -> Count | None:
    """A single permit ever granted is that of a queue of 1, or of a zero queue's receive."""
    if of.granted_in_life == 1 and not of.now.blocked_consumer_on_unacked_msgs:
        return Count(0, 1)
    size, granted = known_queue_size(of), of.granted_in_life
    if size is None and granted is not None and granted > 0 and _little_returned(of):
        return at_most(granted)  # all that was ever granted, which says nothing later on
    return exactly(size)


def refilled(of: ConsumerWindow) -> bool:
    """Whether its last FLOW is not its first, which precedes all that it is sent."""
    now, flow = of.now, of.last_flow_ms
    arrives = client_of(now.client_version).asks_on_arrival
    if arrives or not of.flow_reported or flow is None:
        return False
    first = now.first_consumed_flow_timestamp_ms
    again = first is not None and flow > first
    connected, sent = now.connected_since_ms, now.last_consumed_timestamp_ms
    late = connected is not None and flow - connected > FIRST_FLOW_MOST_MS
    return again or late or (sent is not None and flow > sent)


def _little_returned(of: ConsumerWindow) -> bool | None:
    """Whether less has come back than a refill follows from, were all granted at once."""
    granted, returned = of.granted_in_life, of.returned_in_life
    if granted is None or returned is None:
        return None
    return 0 <= returned < max(1, granted // 2)


def _first_flow_only(of: ConsumerWindow) -> bool:
    """Whether its last FLOW is its first."""
    first, flow = of.now.first_consumed_flow_timestamp_ms, of.last_flow_ms
    if first is not None and flow is not None:
        return first == flow
    connected = of.now.connected_since_ms
    known = flow is not None and connected is not None
    return known and 0 <= (flow or 0) - (connected or 0) <= UPON_CONNECTING_MS


def queued(of: ConsumerWindow) -> Count:
    """Some are queued while fewer than half of a queue are permits: fewer than half are unsent.

    A queue that is not known holds as many as it had permits for in the window, at least.
    """
    if of.permits is None:
        return Count(0, None)
    if of.permits <= 0:
        return Count(1 if (of.unacked or 0) > 1 else 0, None)
    had = [each.available_permits or 0 for each in of.course.values if each is not None]
    size = known_queue_size(of) or max(had)
    held = 0 if of.held is None else of.held.most
    return Count(min(held, max(0, size // 2 - of.permits)), None)


def until_flow(of: ConsumerWindow, pace: float | None) -> int | None:
    """Messages to take until the next FLOW, at most; None where what it holds is not reported.

    pace: seconds for a message; None: not known.
    """
    if of.held is None:
        return None
    known = _messages_by_queue(of)
    if known is not None:
        return known
    if (refill := _refill(of)) is not None:
        return refill
    by_pace = _until_flow_by_pace(of, of.held, pace)
    return min(by_pace, of.granted) if of.granted else by_pace


def _until_flow_by_pace(of: ConsumerWindow, held: Between, pace: float | None) -> int:
    """By what it holds and has finished since its last FLOW."""
    most = max(1, held.most - of.ahead + (of.permits or 0))
    starved = of.starved
    known = starved is not None and starved.exact and pace is not None and pace > 0
    since_flow = min(most, int(starved.ms / 1000 / pace)) if starved and known and pace else 0
    return max(1, (most - since_flow) // 2)


def _refill(of: ConsumerWindow) -> int | None:
    """Permits of a FLOW, at most: the least by which they rose below zero, where nothing is
    sent between two samples and each FLOW is half of a queue."""
    if (of.permits or 0) >= 0 or of.delivered != 0:
        return None
    granted = [granted_in_life(c) for c in of.course.values if c is not None]
    rises = [later - earlier for earlier, later in pairwise(granted) if earlier and later]
    return min((rise for rise in rises if rise > 0), default=None)


def _messages_by_queue(of: ConsumerWindow) -> int | None:
    """Until half of a queue that is known is taken."""
    size, returned = known_queue_size(of), of.returned_in_life
    if size is None or returned is None or size < 2:
        return None
    return max(1, size // 2 - returned)


def _flow_came(of: ConsumerWindow) -> bool:
    """Whether a FLOW came within the window."""
    came = of.course.passed("last_consumed_flow_timestamp_ms")
    return bool(came or of.granted)


def one_by_one(of: ConsumerWindow) -> bool:
    """Whether its RQS may be 0 or 1, so that it waits for the message in hand only."""
    return of.held is not None and 0 <= of.held.most + (of.permits or 0) <= 2


def sending_after(of: ConsumerWindow, until: int | None) -> Count | None:
    """Below zero each message gives one permit back, and FLOWs come by half a queue.

    At most: only where one came in the window; then it is not the next FLOW that is waited for.
    until: messages until that one.
    """
    permits = of.permits or 0
    if permits >= 0 or of.now.blocked_consumer_on_unacked_msgs:
        return None
    most = until - permits if until and _flow_came(of) else None
    return Count(max(1, 1 - permits - _unsent_most(of)), most)


def _unsent_most(of: ConsumerWindow) -> int:
    """Taken and not requested again: less than half of a queue.

    That is no larger than what was ever granted, and less than twice what is left of it.
    """
    sizes = [of.granted_in_life]
    if of.held is not None:
        sizes.append(2 * (of.held.most + (of.permits or 0)) - 1)
    refills = [_refill(of), *(size // 2 for size in sizes if size is not None)]
    known = [refill for refill in refills if refill is not None]
    return max(0, min(known) - 1) if known else -(of.permits or 0)


def _requested_after_the_batch(of: ConsumerWindow) -> bool:
    """Whether its last FLOW came after what it was sent; RQS 2 asks for both before."""
    flow, sent = of.last_flow_ms, of.now.last_consumed_timestamp_ms
    return flow is not None and sent is not None and flow >= sent


def last_request(of: ConsumerWindow) -> Age | None:
    lately = of.observed.window.is_short or of.now.msg_rate_out
    if not _flow_came(of) or not (lately or (of.starved and of.starved.exact)):
        return None
    return of.starved or Age(0, False)


def batch_for_one(of: ConsumerWindow) -> bool:
    """Whether a batch went to a queue of 0 or 1: all permits granted are one for a receive."""
    batches = (of.now.avg_messages_per_entry or 0) > 1
    permits = of.permits or 0
    if permits > 0 or (permits == 0 and not batches) or of.holds_nothing:
        return False
    if of.unacked is not None:
        return 0 <= of.unacked + permits <= 2
    granted = of.granted_in_life
    return granted == 1 or (granted == 2 and _requested_after_the_batch(of))
