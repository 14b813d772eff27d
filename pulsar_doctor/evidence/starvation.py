"""When a consumer without permits is sent messages again, as far as the broker's stats tell.

The next FLOW comes when the application has taken so many messages that half of the receiver queue
(RQS) is unsent. With permits a (0 or less), u messages unacknowledged and k taken since the last
FLOW, a + u + k is RQS, so that (a + u - k) / 2 more are needed, and never more than (a + u) / 2.
k is the time since the last FLOW by the pace of the window. Where RQS is known (no refill came
yet), k is what was acknowledged since the consumer connected.

With at most 2 messages in a + u, RQS may be 0 or 1: then it asks after each message anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pulsar_doctor.broker.stats.cursors import COMPACTION, owner_of
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Between, Observed
from pulsar_doctor.evidence.consumer import JUST_NOW_MS
from pulsar_doctor.evidence.standing import Standing, gone_by_backlog, granted_in_life
from pulsar_doctor.evidence.stats_life import life_pace, minute_pace
from pulsar_doctor.ledger.balance import AHEAD, PACE_NEEDS

GO = "Pulsar-Go"
MANY = 50  # messages of a window, which tell a pace better than a life


@dataclass(frozen=True, slots=True)
class Starving:
    """One consumer by what it was sent and has finished. held: messages; None: not told."""

    standing: Standing
    permits: int
    held: Between | None

    @property
    def holds_nothing(self) -> bool:
        """Whether all that was sent to it is acknowledged."""
        return self.held is not None and self.held.most == 0

    @property
    def one_by_one(self) -> bool:
        """Whether its RQS may be 0 or 1, so that it waits for the message in hand only."""
        return self.held is not None and 0 <= self.held.most + self.permits <= 2

    @property
    def asked(self) -> bool:
        """Whether a FLOW came within the window."""
        came = self.standing.course.passed("last_consumed_flow_timestamp_ms")
        return bool(came or self.standing.granted)

    @property
    def working(self) -> bool:
        """Whether it acknowledged something within the window, or just now where that is open.

        Without a clock: within the last full minute, of which the rates are.
        """
        standing = self.standing
        if standing.acked or standing.returned:
            return True
        since = standing.since(standing.now.last_acked_timestamp_ms)
        if since is None or not since.exact:
            return bool(standing.now.message_ack_rate)
        return standing.moved is None and since.ms < JUST_NOW_MS

    @property
    def pace_seconds(self) -> float | None:
        """Seconds for a message.

        Of its life, as long as nothing contradicts that it was busy all the time: a window of a
        few messages tells less. Otherwise of the window, or of the last full minute.
        """
        done, span_ms = self.done, self.standing.observed.window.span_ms
        if done is not None and done >= MANY and span_ms:
            return span_ms / done / 1000
        life = life_pace(self.standing, self.done_in_life, done)
        if life is not None:
            return life
        if done is not None and done >= PACE_NEEDS and span_ms:
            return span_ms / done / 1000
        between = self._pace_between_acks if span_ms is None else None
        return minute_pace(self.standing) if between is None else between

    @property
    def until_flow(self) -> int | None:
        """Messages to take until the next FLOW, at most; None where what it holds is not told."""
        if self.held is None:
            return None
        known = self._messages_by_queue
        if known is not None:
            return known
        if self.refill is not None:
            return self.refill
        asked = self._until_flow_by_pace
        return min(asked, self.standing.granted) if self.standing.granted else asked

    @property
    def _until_flow_by_pace(self) -> int:
        """By what it holds and has finished since its last FLOW."""
        assert self.held is not None
        queued, pace = self.held.most - self.ahead, self.pace_seconds
        most = max(1, queued + self.permits)
        starved = self.standing.starved
        told = starved is not None and starved.exact and pace is not None and pace > 0
        since_flow = min(most, int(starved.ms / 1000 / pace)) if starved and told and pace else 0
        return max(1, (most - since_flow) // 2)

    @property
    def ahead(self) -> int:
        """Messages that left its queue before its application has them: Go's channel is full of
        them as long as the queue is not empty, but the partitions of a topic share it."""
        go = (self.standing.now.client_version or "").startswith(GO)
        return AHEAD if go and self.standing.observed.partition is None else 0

    @property
    def refill(self) -> int | None:
        """Permits of a FLOW, at most: the least by which they rose below zero, where nothing is
        sent between two samples and each FLOW is half of a queue."""
        if self.permits >= 0 or self.standing.delivered != 0:
            return None
        told = [granted_in_life(c) for c in self.standing.course.values if c is not None]
        rises = [later - earlier for earlier, later in pairwise(told) if earlier and later]
        return min((rise for rise in rises if rise > 0), default=None)

    @property
    def _messages_by_queue(self) -> int | None:
        """Until half of a queue that is known is taken."""
        size, returned = self.standing.receiver_queue_size, self.standing.returned_in_life
        if size is None or returned is None or size < 2:
            return None
        return max(1, size // 2 - returned)

    @property
    def done(self) -> int | None:
        """Messages finished within the window."""
        if self.standing.unacked is not None:
            return self.standing.returned
        observed = self.standing.observed
        entries = observed.cursor.growth(lambda cursor: cursor.messages_consumed_counter)
        each = self.standing.messages_an_ack
        if entries is None and each == 1 and observed.unread is not None:
            entries = gone_by_backlog(observed)
        return None if entries is None else entries * each

    @property
    def _pace_between_acks(self) -> float | None:
        """Only where it held all of it from the beginning: then it was never idle in between."""
        first, done = self.standing.course.values[0], self.standing.returned
        if first is None or done is None or done > (first.unacked_messages or 0):
            return None
        return between_acks(self.standing)

    @property
    def done_in_life(self) -> Between | None:
        """Messages finished since it connected."""
        sent, held = self.standing.now.msg_out_counter, self.held
        if sent is None or held is None:
            return None
        return Between(max(0, sent - held.most), max(0, sent - held.least))


def between_acks(standing: Standing) -> float | None:
    """Seconds for a message, idle times included, from the first reading's last ack to the last's.

    That needs no clock: both moments are the broker's.
    """
    course, done = standing.course, standing.returned
    first, last = course.values[0], standing.now
    if course.broken or first is None or done is None or done < PACE_NEEDS:
        return None
    since, until = first.last_acked_timestamp_ms, last.last_acked_timestamp_ms
    if since is None or until is None or until <= since:
        return None
    return (until - since) / done / 1000


def quiet_is_fine(observed: Observed) -> bool:
    """Whether nothing needs to move: all is consumed, or nobody promised to consume it."""
    if observed.durable is False or owner_of(observed.subscription).kind == COMPACTION:
        return True
    return observed.backlog.empty is True or observed.nothing_waits


def held_by(standing: Standing) -> Between | None:
    """Messages that this consumer holds."""
    if standing.unacked is not None:
        messages = max(0, standing.unacked)
        return Between(messages, messages)
    held = standing.observed.held
    if held is None or standing.observed.type not in SINGLE_ACTIVE:
        return None
    each = standing.now.avg_messages_per_entry
    sent = standing.now.msg_out_counter
    if sent == 0:
        return Between(0, 0)
    most = held.most * 2 * each if each and each > 1 else held.most
    return Between(held.least, most if sent is None else min(most, sent))
