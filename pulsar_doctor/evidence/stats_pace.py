"""The pace at which a consumer finishes messages, by the broker's stats.

A window of a few seconds shows one message of a slow worker, or none: what it shows changes with
the moment of the sample, and the worker does not. Its whole life does not change with the
moment. But idle times are in it too, so it counts only

- where the queue has not been empty for most of it; or the last delivery came upon a FLOW, which
  shows that messages had been waiting for permits, and the last full minute, or the window, has as
  many acks as that; and
- as long as nothing contradicts it: acks of the window, or of the last full minute, that are closer
  together or further apart, an ack too soon after the last delivery, or a silence that it does not
  explain.

It is counted up to the last ack: the silence since then is no part of it. Nor are the times of a
window in which it held nothing.
"""

from __future__ import annotations

from pulsar_doctor.broker.stats.window import MINUTE, RATE_SECONDS
from pulsar_doctor.evidence.consumer import RHYTHM_NEEDS
from pulsar_doctor.evidence.paces import SLACK, ended, fits, not_too_few, not_too_many
from pulsar_doctor.evidence.stats_moved import ConsumerWindow
from pulsar_doctor.evidence.stats_queue import most_queue_size
from pulsar_doctor.ledger.balance import PACE_NEEDS

MANY = 50  # messages of a window, which tell a pace better than a life
MINUTE_NEEDS = 4  # messages of a minute: with fewer its pace may be twice as long as it seems
MINUTE_MOSTLY = 90.0  # seconds of life, after which half of it does
UPON_FLOW_MS = 1000
SURE = 1.5  # times: bounds of what was done, between which one pace is as good as another


def pace_seconds(of: ConsumerWindow) -> float | None:
    """Seconds for a message; None where nothing tells, or its pace has ended.

    Of its life, as long as nothing contradicts that it was busy all the time: a window of a
    few messages tells less. Otherwise of the window, or of the last full minute.
    """
    pace = _pace(of)
    return None if pace is None or _has_ended(of, pace) else pace


def _pace(of: ConsumerWindow) -> float | None:
    done, span_ms = of.finished, of.busy_ms
    if done is not None and done >= MANY and span_ms:
        return span_ms / done / 1000
    if (life := _life_pace(of)) is not None:
        return life
    if done is not None and done >= PACE_NEEDS and span_ms:
        return span_ms / done / 1000
    between = _pace_between_acks(of) if span_ms is None else None
    return _minute_pace(of) if between is None else between


def _has_ended(of: ConsumerWindow, pace: float) -> bool:
    silence = of.since(of.now.last_acked_timestamp_ms)
    return silence is not None and ended(silence.seconds, pace * of.messages_an_ack)


def _life_pace(of: ConsumerWindow) -> float | None:
    """Seconds for a message; None where its life does not tell."""
    life, done = of.since(of.now.connected_since_ms), of.finished_in_life
    if life is None or not life.exact or done is None or done.most < 1:
        return None
    if done.least * SURE < done.most:
        return None
    pace = _working(of, life.seconds) / done.most
    busy = _full_for_most_of(of)
    if not busy and done.most >= PACE_NEEDS and _sent_upon_a_flow(of):
        busy = _confirmed(of, life.seconds, pace)
    return pace if busy and not _contradicted(of, pace) else None


def _minute_pace(of: ConsumerWindow) -> float | None:
    """Seconds for a message by the last full minute, if its queue was not empty within it."""
    rate, full = of.now.message_ack_rate, of.since(of.now.last_consumed_timestamp_ms)
    if not rate or full is None or not full.exact or full.seconds < RATE_SECONDS:
        return None
    return 1 / rate if rate * MINUTE >= MINUTE_NEEDS else None


def _full_for_most_of(of: ConsumerWindow) -> bool:
    """Whether it has had no permits, and so something to do, for half of its life or more."""
    life, full = (
        of.since(of.now.connected_since_ms),
        of.since(of.now.last_consumed_timestamp_ms),
    )
    return life is not None and full is not None and 2 * full.ms >= life.ms


def _sent_upon_a_flow(of: ConsumerWindow) -> bool:
    """Whether the last delivery came upon a FLOW, or not even that sufficed for one."""
    flow, sent = of.last_flow_ms, of.now.last_consumed_timestamp_ms
    refilled = flow is not None and flow - (of.now.connected_since_ms or 0) > UPON_FLOW_MS
    return refilled and flow is not None and sent is not None and sent - flow <= UPON_FLOW_MS


def _working(of: ConsumerWindow, life: float) -> float:
    """Seconds from its start to its last ack: what it works on since then is not done."""
    acked, since = of.now.last_acked_timestamp_ms, of.now.connected_since_ms
    return life if acked is None or since is None else max(1, acked - since) / 1000


def _confirmed(of: ConsumerWindow, life: float, pace: float) -> bool:
    """Whether the last full minute, or the window, has as many acks as that pace gives.

    Of that minute it was there for all but what its life is shorter than two of them.
    """
    rate, done, span_ms = of.now.message_ack_rate, of.finished, of.busy_ms
    each = of.messages_an_ack
    if rate is not None and life >= MINUTE_MOSTLY:
        acked = round(rate * MINUTE)
        there = min(MINUTE, life - MINUTE)
        return not_too_many(pace, acked, MINUTE, each) and not_too_few(pace, acked, there, each)
    return bool(done and span_ms and fits(pace, done, span_ms / 1000, each))


def _contradicted(of: ConsumerWindow, pace: float) -> bool:
    done, span_ms = of.finished, of.busy_ms
    each = of.messages_an_ack  # messages of one ack
    if done is not None and span_ms and not fits(pace, done, span_ms / 1000, each):
        return True
    rate = of.now.message_ack_rate
    if rate and pace * (rate * MINUTE - each) > MINUTE * SLACK:
        return True
    return _acked_too_soon(of, pace * each)


def _acked_too_soon(of: ConsumerWindow, pace: float) -> bool:
    """Whether an ack came after the last delivery, sooner than in half the usual time."""
    acked, sent = of.now.last_acked_timestamp_ms, of.now.last_consumed_timestamp_ms
    if acked is None or sent is None or acked <= sent + UPON_FLOW_MS:
        return False
    return acked - sent < 500 * pace


def _pace_between_acks(of: ConsumerWindow) -> float | None:
    """Only where it held all of it from the beginning: then it was never idle in between."""
    first, done = of.course.values[0], of.returned
    if first is None or done is None or done > (first.unacked_messages or 0):
        return None
    return _between_acks(of)


def _between_acks(of: ConsumerWindow) -> float | None:
    """Seconds for a message, idle times included, from one reading's last ack to another's.

    The readings are the first and the last. That needs no clock: both moments are the broker's.
    """
    course, done = of.course, of.returned
    first, last = course.values[0], of.now
    if course.broken or first is None or done is None or done < PACE_NEEDS:
        return None
    since, until = first.last_acked_timestamp_ms, last.last_acked_timestamp_ms
    if since is None or until is None or until <= since:
        return None
    return (until - since) / done / 1000


def pace_of_flows(of: ConsumerWindow) -> float | None:
    """Seconds for a message below zero, by the permits that came back in the window."""
    granted, span_ms = of.granted, of.busy_ms
    below = (of.permits or 0) < 0
    return span_ms / granted / 1000 if below and granted and span_ms else None


def pace_most(of: ConsumerWindow) -> float | None:
    """By its life, or by the rate of its acks within the last full minute.

    On Exclusive and Failover one ack may stand for many messages, and what it holds is a bound:
    it is no faster than that, nor than its FLOWs say. None where that has ended.
    """
    done = 0 if of.finished_in_life is None else of.finished_in_life.least
    rate, life = of.now.message_ack_rate, of.since(of.now.connected_since_ms)
    paces = [_working(of, life.seconds) / done] if life and life.exact and done > 0 else []
    paces += [1 / rate] if rate and rate > 0 else []
    queue, began = most_queue_size(of), of.now.connected_since_ms
    taken = 0 if queue is None or of.unacked is not None else (of.granted_in_life or 0) - queue
    if taken >= RHYTHM_NEEDS and began is not None:
        until = max(of.last_flow_ms or 0, of.now.last_acked_timestamp_ms or 0)
        paces.append(max(1, until - began) / taken / 1000)
    fastest = min((*paces, *filter(None, (_between_acks(of),))), default=None)
    return None if fastest is None or _has_ended(of, fastest) else fastest
