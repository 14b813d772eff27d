"""How long a consumer has stood still without permits, and when it will be sent messages again.

Three questions that several rules ask of a ledger. All of them also answer for a consumer that has
been closed, as of the moment of judgement.

*Quiet*: for how long has nothing shown that the application works? Measured from the last message,
FLOW, ack or take, whichever came last.

*Pace*: how long does it take for one message now? The average of its whole life hides that a fast
consumer has become slow, or that a slow one has recovered. So the last minute decides where it has
two acks, otherwise the time since the broker stopped sending (one ack will do after two minutes),
otherwise the average, otherwise what was told.

*Wait*: when does it get permits again? So many messages as the ledger says, at that pace.
"""

from __future__ import annotations

from dataclasses import replace

from pulsar_doctor.consumers import Consumer
from pulsar_doctor.diagnosis import Measure, Threshold, next_flow
from pulsar_doctor.ledger import BUCKET_NS, PACE_NEEDS, Forecast, Ledger, Pace

MINUTE_NS = 60_000_000_000

# Rules that speak of the same waiting share these names, each with a value of its own.
REFILL_WAIT = Threshold(
    "refill_wait", 300.0, "seconds", "a next FLOW further away than this is a stall"
)
SLOW_WAIT = Threshold("slow_wait", 30.0, "seconds", "a next FLOW nearer than this is healthy")
QUIET_AFTER = Threshold(
    "quiet_after", 5.0, "seconds", "below this age a standstill is not spoken of"
)


def without_permits(ledger: Ledger) -> bool:
    """Whether the broker may not send to it: at 0 or less, once its SUBSCRIBE has succeeded."""
    return ledger.ready and ledger.available_permits <= 0


def zero_or_one(ledger: Ledger) -> bool:
    """Whether the wire shows a queue of 0 or 1; one that Java scales up asks for more later."""
    return ledger.one_by_one and ledger.granted == ledger.flow_count


def asks_singly(ledger: Ledger) -> bool:
    """Whether its queue is 1, or 0 or 1: it asks after each message, a smaller queue is no help."""
    return zero_or_one(ledger) or ledger.told_receiver_queue_size == 1


def queued_min(ledger: Ledger) -> int:
    """Messages in the client's queue, at least; what was given back is not there any more."""
    return min(ledger.queued_min, ledger.unacked)


def resting(ledger: Ledger, now_ns: int) -> bool:
    """Whether it holds messages back, as told, and the last that came is not due yet."""
    return now_ns < ledger.due_ns


def quiet_seconds(ledger: Ledger, now_ns: int) -> float:
    """How long it has held messages and no permits without a sign of work; 0 where it does not."""
    if not without_permits(ledger) or not ledger.unacked:
        return 0.0
    last = max(ledger.last_message_ns or 0, ledger.last_work_ns or 0, ledger.due_ns)
    return max(0, now_ns - last) / 1e9


def in_rhythm(ledger: Ledger, now_ns: int) -> bool:
    """Whether it works on as it did; however long that may take."""
    return ledger.in_rhythm(now_ns)


def pace(ledger: Ledger, now_ns: int) -> Pace | None:
    """Seconds per message as it works now; None while nothing tells."""
    return (
        _pace_since(ledger, now_ns - MINUTE_NS, now_ns)
        or _pace_since(ledger, ledger.last_message_ns or now_ns, now_ns)
        or ledger.pace()
    )


def _pace_since(ledger: Ledger, since_ns: int, now_ns: int) -> Pace | None:
    """From the acks of half a minute or more, all of it with messages to work on.

    Acks are counted in buckets, so a bucket that began earlier is left out.
    """
    since_ns = max(since_ns, ledger.busy_since_ns or now_ns)
    first = -(-since_ns // BUCKET_NS)
    watched_ns = now_ns - first * BUCKET_NS
    acknowledged = sum(acked for bucket, _, _, acked in ledger.recent if bucket >= first)
    needs = 1 if watched_ns >= 2 * MINUTE_NS else PACE_NEEDS
    if watched_ns < MINUTE_NS // 2 or acknowledged < needs:
        return None
    return Pace(watched_ns / acknowledged / 1e9, "measured")


def forecast(ledger: Ledger, now_ns: int) -> Forecast | None:
    """When the next FLOW comes, at the pace of now; None before the first one."""
    known = ledger.forecast()
    return None if known is None else replace(known, pace=pace(ledger, now_ns))


def outlook(ahead: Forecast | None) -> str:
    """The forecast as a person says it, and when the broker sends where one FLOW is not enough."""
    if ahead is None:
        return "no FLOW yet"
    if ahead.until_positive <= ahead.messages:
        return next_flow(ahead)
    return f"{next_flow(ahead)}; above 0 permits after {ahead.until_positive} more"


def waiting_measures(consumer: Consumer, now_ns: int) -> tuple[Measure, ...]:
    """The numbers of a consumer that waits for its next FLOW."""
    ledger = consumer.ledger
    ahead = forecast(ledger, now_ns)
    now = pace(ledger, now_ns)
    size = "0 or 1" if ledger.one_by_one else ledger.receiver_queue_size
    return (
        Measure("available_permits", ledger.available_permits, "permits"),
        Measure("unacked_messages", ledger.unacked, "messages"),
        Measure("queued_min", queued_min(ledger), "messages"),
        Measure("receiver_queue_size", size, "messages"),
        Measure("flows", ledger.flow_count, "commands"),
        Measure("next_flow_after", ahead.messages if ahead else None, "messages"),
        Measure("next_flow_in", ahead.seconds if ahead else None, "seconds"),
        Measure("permits_after", ahead.until_positive if ahead else None, "messages"),
        Measure("pace", now.seconds if now else None, "seconds/message"),
        Measure("pace_source", now.source if now else "cannot tell", ""),
        Measure("quiet_for", round(quiet_seconds(ledger, now_ns), 3), "seconds"),
    )
