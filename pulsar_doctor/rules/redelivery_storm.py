"""The same messages come again and again, and little of what is delivered gets acknowledged.

Negative acknowledgements, an acknowledgement timeout shorter than the work, or an application that
fails on its messages send them back to the broker, which delivers them again. Deliveries look busy,
permits flow, and the backlog does not shrink.

The rule looks at the last `window` of a subscription: of at least `least` deliveries, `share` or
more had been delivered before, some of them at least three times in all, and fewer than `acked`
of the deliveries were acknowledged.

By the broker's stats the window is that of the samples. What came back is what was sent, less what
is unacknowledged or acknowledged since; messages came three times where more than twice as many
were sent as there are. A negative acknowledgement may wait longer than a window: where consumers
have never acknowledged anything, all their life counts, unless the same message comes less often
than once in `round`. Where messages came back, but perhaps only once, it is unknown; so it is where
consumers come and go within the window, are sent messages, and nobody acknowledges any.

Source: CommandMessage.redelivery_count counts on Shared and Key_Shared. On Exclusive and Failover
it stays 0: there a message at or below the highest position seen counts as delivered again, and
"three times in all" is two such deliveries for each message that is out. In the stats,
Consumer.sendMessages adds to msgOutCounter and unackedMessages and a redelivery takes from the
latter; PersistentDispatcherSingleActiveConsumer rewinds the cursor.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.circulation import (
    Sent,
    at_most_twice,
    came_and_left,
    sent_in_life,
    sent_in_window,
)
from pulsar_doctor.consumers import Subscription
from pulsar_doctor.diagnosis import (
    CLEAR,
    STATS,
    WIRE,
    Evidence,
    Finding,
    Found,
    Limits,
    Measure,
    NotTold,
    Outcome,
    Threshold,
    Unknown,
    found,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.ledger import BUCKET_NS
from pulsar_doctor.standing import standings
from pulsar_doctor.stats.observed import Observed
from pulsar_doctor.stats.sample import Age

THRESHOLDS = (
    Threshold("window", 60.0, "seconds", "how far back deliveries are counted, at most 10m"),
    Threshold("least", 20.0, "messages", "fewer deliveries in the window are no storm"),
    Threshold("share", 0.5, "of deliveries", "that had been delivered before"),
    Threshold("acked", 0.5, "of deliveries", "acknowledged: as many or more is progress"),
    Threshold("round", 300.0, "seconds", "a message that comes again later makes no storm"),
)
NEEDS = frozenset({WIRE, STATS})
EXPLAINS = frozenset({"ack-hole"})
REMEDY = (
    "Find out why the application gives messages back: errors, a negative-ack delay that is too "
    "short, or an ack timeout below its processing time. A dead-letter policy ends the circle."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for the subscription as a whole."""
    if evidence.wire is not None:
        return _by_wire(evidence.wire, limits)
    assert evidence.stats is not None
    return found(_by_stats(evidence.stats, limits))


def _by_wire(wire: Subscription, limits: Limits) -> Outcome:
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


def _by_stats(observed: Observed, limits: Limits) -> Iterator[Finding | Unknown | NotTold]:
    sent, gone = sent_in_window(observed), came_and_left(observed)
    if _nothing_comes_again(observed, limits):
        return
    if gone:
        yield Unknown(
            f"{gone} of its consumers came and left within the window, were sent messages and "
            "acknowledged none: see why the application stops"
        )
    if sent is not None and sent.in_circles and _comes_back(sent, limits):
        span_ms = observed.window.span_ms
        within = f"in {duration(span_ms / 1000)}" if span_ms else "in the window"
        yield _stats_finding(sent, within, 0.9 if sent.acknowledged == 0 else 0.7)
        return
    life, last = sent_in_life(observed), _last_delivery(observed)
    if life is not None and life.in_circles and _comes_back(life, limits):
        yield from _by_life(observed, life, last, limits)
    elif sent is None:
        yield from _movement_not_told(observed, limits)
    elif _comes_back(sent, limits) and not at_most_twice(observed):
        yield Unknown(
            f"{sent.again} of {sent.messages} messages came back unacknowledged in the window; "
            "whether they come again and again a longer window tells"
        )


def _comes_back(sent: Sent, limits: Limits) -> bool:
    return (
        sent.messages >= limits["least"]
        and sent.again >= limits["share"] * sent.messages
        and sent.acknowledged < limits["acked"] * sent.messages
    )


def _nothing_comes_again(observed: Observed, limits: Limits) -> bool:
    """Whether there is nobody to send to, nothing to send again, or no need to send it."""
    now, last = observed.now, _last_delivery(observed)
    if now.is_durable is False or _ever_sent(observed) < limits["least"]:
        return True
    if observed.backlog.empty:
        return True
    return last is not None and last.ms > limits["round"] * 1000


def _ever_sent(observed: Observed) -> float:
    """Messages that the consumers were sent since they connected; infinite where not told."""
    told = [standing.now.msg_out_counter for standing in standings(observed)]
    return float("inf") if None in told else sum(number or 0 for number in told)


def _last_delivery(observed: Observed) -> Age | None:
    told = [standing.now.last_consumed_timestamp_ms for standing in standings(observed)]
    moments = [moment for moment in told if moment is not None]
    return observed.window.last.age(max(moments, default=None))


def _by_life(
    observed: Observed, life: Sent, last: Age | None, limits: Limits
) -> Iterator[Finding | Unknown]:
    """Where nothing was ever acknowledged: a storm, if the last round was just now."""
    since = [standing.now.connected_since_ms for standing in standings(observed)]
    begun = observed.window.last.age(min((s for s in since if s is not None), default=None))
    if last is None or begun is None:
        return
    rounds = life.messages / max(1, life.messages - life.again)
    if (begun.ms - last.ms) / rounds > limits["round"] * 1000:
        return
    if not last.exact:
        yield Unknown(
            f"{life.messages} messages were sent and none was acknowledged, but whether that still "
            "goes on is not known: when these stats were taken is not told, give --at"
        )
        return
    rate = observed.now.msg_rate_redeliver
    within = f"in {duration(begun.ms / 1000)}"
    yield _stats_finding(life, within, 0.7 if rate is not None and rate > 0 else 0.6)


def _movement_not_told(observed: Observed, limits: Limits) -> Iterator[Unknown | NotTold]:
    if at_most_twice(observed):
        return
    rate, out = observed.now.msg_rate_redeliver, observed.now.msg_rate_out
    needs = "two samples with the same consumers and their counters tell"
    if rate is not None and out is not None and rate > 0 and rate >= limits["share"] * out:
        yield Unknown(
            f"messages came back within the last minutes ({rate:.3g}/s by the broker's rate); "
            f"whether they come again and again {needs}"
        )
    else:
        yield NotTold(f"whether messages come again and again {needs}")


def _stats_finding(sent: Sent, within: str, confidence: float) -> Finding:
    acknowledged = f"at most {sent.acknowledged}" if sent.acknowledged else "none"
    return Finding(
        code="redelivery-storm",
        severity="warning",
        confidence=confidence,
        consumer=None,
        summary=(
            f"of {sent.messages} messages delivered {within} at least {sent.again} came back "
            f"unacknowledged, and {acknowledged} were acknowledged"
        ),
        evidence=(
            Measure("messages_delivered", sent.messages, "messages"),
            Measure("messages_redelivered", sent.again, "messages"),
            Measure("messages_acknowledged", sent.acknowledged, "messages"),
        ),
        remedy=REMEDY,
    )
