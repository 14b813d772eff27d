"""Messages that an application has taken from its client and not finished.

A client asks again for what was taken from its queue. So permits beyond the first FLOW, less what
came back, are messages that the application has in hand, at least. By the stats the first FLOW is
not reported: once a second one has come, which asks for half a queue or more, a queue is no more
than two thirds of all permits ever granted, and no more than twice what was granted in a window in
which one came.

By a trace, what it finished since the oldest of them came is counted. By the stats all that it
finished in its life counts as that, which is no less.
"""

from __future__ import annotations

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.window import MINUTE
from pulsar_doctor.evidence.in_hand import InHand
from pulsar_doctor.evidence.stats_moved import ConsumerWindow
from pulsar_doctor.evidence.stats_queue import most_queue_size
from pulsar_doctor.evidence.stats_rhythm import BURSTS_SECONDS, may_fit
from pulsar_doctor.ledger.balance import BUCKET_NS, Ledger


def by_wire(ledger: Ledger, now_ns: int) -> InHand | None:
    """None where it may have none in hand, or its queue is not known."""
    if ledger.joined or ledger.asks_on_arrival or not ledger.deliveries:
        return None
    messages = min(ledger.unacked, ledger.refilled - (ledger.messages - ledger.unacked))
    oldest_ns = next(iter(ledger.deliveries.values())).at_ns
    if messages <= 0:
        return None
    since = [each for each in ledger.recent if (each[0] + 1) * BUCKET_NS > oldest_ns]
    began_ns = max(oldest_ns, since[0][0] * BUCKET_NS) if since else now_ns
    finished, seconds = sum(each[3] for each in since), (now_ns - began_ns) / 1e9
    whole = began_ns < oldest_ns + BUCKET_NS
    return InHand(
        messages,
        messages,
        Age(max(0, now_ns - oldest_ns) // 1_000_000, True),
        finished if whole else ledger.messages - ledger.unacked,  # older ones are not kept
        one_by_one=(ledger.last_ack_ns or 0) > oldest_ns + BUCKET_NS,
        pace=seconds / finished if finished and seconds > 0 else None,
        growth=_growth_by_wire(ledger, now_ns),
    )


def _growth_by_wire(ledger: Ledger, now_ns: int) -> float | None:
    """The growth in the last minute, by its whole buckets."""
    first = -int((MINUTE * 1e9 - now_ns) // BUCKET_NS)
    minute = [each for each in ledger.recent if each[0] >= first]
    more, seconds = sum(each[1] - each[3] for each in minute), (now_ns - first * BUCKET_NS) / 1e9
    return max(0, more) / seconds if seconds > 0 else None


def by_stats(consumer: ConsumerWindow) -> InHand | None:
    """Messages taken, by the stats: of Exclusive and Failover where positions tell what is held."""
    held, life = consumer.held, consumer.finished_in_life
    if held is None or life is None or not held.least:
        return None
    finished = life.most if consumer.returned_in_life is None else consumer.returned_in_life
    queue = most_queue_size(consumer)
    taken = 0 if queue is None else (consumer.granted_in_life or 0) - queue
    messages = min(held.least, taken - finished)
    if messages <= 0:
        return None
    acks, growth = _acks(consumer), _growth(consumer)
    grown = 0 if growth is None or acks is None else growth * acks[1]
    return InHand(
        messages,
        held.most,
        _oldest(consumer, messages),
        finished,
        one_by_one=None if acks is None else acks[0] * 2 <= max(messages, grown),
        pace=None if acks is None else acks[1] / acks[0],
        growth=growth,
    )


def _oldest(consumer: ConsumerWindow, messages: int) -> Age:
    """No younger than the last that was sent, nor than the window where fewer came in it."""
    sent = consumer.since(consumer.now.last_consumed_timestamp_ms)
    span_ms = consumer.observed.window.span_ms
    before = consumer.delivered is not None and consumer.delivered < messages
    ages = (0 if sent is None else sent.ms, span_ms if before and span_ms else 0)
    return Age(max(ages), exact=False)


def _acks(consumer: ConsumerWindow) -> tuple[int, float] | None:
    """Messages that were finished, and in how many seconds: of the window or the last minute.

    One acknowledgement of a single active consumer may be of many messages: its rate tells nothing.
    Nor does that of a sink, which may have split its last acks between two minutes and rests since.
    """
    done, span_ms = consumer.finished, consumer.observed.window.span_ms
    if done and done > 0 and span_ms and consumer.acked:
        return done, span_ms / 1000
    acked = consumer.since(consumer.now.last_acked_timestamp_ms)
    rests = acked is not None and acked.seconds >= BURSTS_SECONDS and not may_fit(consumer)
    rate = 0 if consumer.unacked is None or rests else consumer.now.message_ack_rate or 0
    minute = round(rate * MINUTE)
    return (minute, MINUTE) if minute > 0 else None


def _growth(consumer: ConsumerWindow) -> float | None:
    """By how much more is sent than finished, in the window or in the last minute."""
    sent, done, span_ms = consumer.delivered, consumer.finished, consumer.observed.window.span_ms
    if sent is not None and done is not None and span_ms:
        return max(0, sent - done) / (span_ms / 1000)
    out, acked = consumer.now.msg_rate_out, consumer.now.message_ack_rate
    return max(0.0, out - acked) if out and acked else None
