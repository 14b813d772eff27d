"""The same messages come again and again, and little of what is delivered gets acknowledged.

Negative acknowledgements, an acknowledgement timeout shorter than the work, or an application that
fails on its messages send them back to the broker, which delivers them again. Deliveries look busy,
permits flow, and the backlog does not shrink.

The rule looks at the last `window` of a subscription: of at least `least` deliveries, `share` or
more had been delivered before, some of them at least three times in all, and fewer than `acked`
of the deliveries were acknowledged.

Source: CommandMessage.redelivery_count counts on Shared and Key_Shared. On Exclusive and Failover
it stays 0: there a message at or below the highest position seen counts as delivered again, and
"three times in all" is two such deliveries for each message that is out.
"""

from __future__ import annotations

from pulsar_doctor.consumers import Subscription
from pulsar_doctor.diagnosis import (
    CLEAR,
    WIRE,
    Evidence,
    Finding,
    Found,
    Limits,
    Measure,
    Outcome,
    Threshold,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.ledger import BUCKET_NS

THRESHOLDS = (
    Threshold("window", 60.0, "seconds", "how far back deliveries are counted, at most 10m"),
    Threshold("least", 20.0, "messages", "fewer deliveries in the window are no storm"),
    Threshold("share", 0.5, "of deliveries", "that had been delivered before"),
    Threshold("acked", 0.5, "of deliveries", "acknowledged: as many or more is progress"),
)
NEEDS = frozenset({WIRE})
EXPLAINS: frozenset[str] = frozenset()
REMEDY = (
    "Find out why the application gives messages back: errors, a negative-ack delay that is too "
    "short, or an ack timeout below its processing time. A dead-letter policy ends the circle."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for the subscription as a whole."""
    wire = evidence.wire
    assert wire is not None
    messages, redelivered, acknowledged = _recent(wire, limits["window"])
    most = max((c.ledger.redelivery_count_most for c in wire.consumers), default=0)
    if messages < limits["least"] or redelivered < limits["share"] * messages:
        return CLEAR
    if acknowledged >= limits["acked"] * messages or not _third_time(wire, redelivered, most):
        return CLEAR
    return Found((_finding(messages, redelivered, acknowledged, most, limits["window"]),))


def _third_time(wire: Subscription, redelivered: int, most: int) -> bool:
    """Whether messages have come three times or more; a single redelivery of all is no circle."""
    if any(consumer.ledger.individual for consumer in wire.consumers):
        return most >= 2
    return redelivered >= 2 * sum(consumer.ledger.unacked for consumer in wire.consumers)


def _recent(wire: Subscription, window_seconds: float) -> tuple[int, int, int]:
    """Messages, redelivered and acknowledged ones of the last seconds, in steps of a bucket."""
    since = (wire.now_ns - int(window_seconds * 1e9)) // BUCKET_NS
    counts = [
        bucket
        for consumer in wire.consumers
        for bucket in consumer.ledger.recent
        if bucket[0] >= since
    ]
    return (
        sum(bucket[1] for bucket in counts),
        sum(bucket[2] for bucket in counts),
        sum(bucket[3] for bucket in counts),
    )


def _finding(
    messages: int, redelivered: int, acknowledged: int, most: int, window: float
) -> Finding:
    return Finding(
        code="redelivery-storm",
        severity="warning",
        confidence=0.8,
        consumer=None,
        summary=(
            f"of {messages} messages delivered in the last {duration(window)} {redelivered} had "
            f"been delivered before, and {acknowledged} were acknowledged"
        ),
        evidence=(
            Measure("messages_delivered", messages, "messages"),
            Measure("messages_redelivered", redelivered, "messages"),
            Measure("messages_acknowledged", acknowledged, "messages"),
            Measure("redelivery_count_most", most, "deliveries"),
        ),
        remedy=REMEDY,
    )
