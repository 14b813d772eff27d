"""When a consumer without permits will be sent messages again, by the broker's stats.

The next FLOW comes when the application has taken so many messages that half of the receiver queue
(RQS) is unsent. With permits a (0 or less), u messages unacknowledged and k taken since the last
FLOW, a + u + k is RQS, so that (a + u - k) / 2 more are needed, and never more than (a + u) / 2.
k is the time since the last FLOW by the pace of the window. Where RQS is known (no refill came
yet), k is what was acknowledged since the consumer connected.

With at most 2 messages in a + u, RQS may be 0 or 1: then it asks after each message anyway.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Between
from pulsar_doctor.broker.stats.window import SHORT_MS
from pulsar_doctor.evidence.ack_wait import in_rhythm
from pulsar_doctor.evidence.consumer import JUST_NOW_MS
from pulsar_doctor.evidence.standing import granted_in_life
from pulsar_doctor.evidence.stats_life import Life
from pulsar_doctor.evidence.values import Count
from pulsar_doctor.ledger.balance import AHEAD, PACE_NEEDS

GO = "Pulsar-Go"
RHYTHM_NEEDS = 3  # messages, before a life says anything of a rhythm
RHYTHM_MOST_MS = 150_000
ACKS_NEEDED = 3  # moments, before a window says how far apart they are
MANY = 50  # messages of a window, which tell a pace better than a life


class Starving(Life):
    """A consumer by what it was sent and has finished: its pace, and when it is sent more."""

    @property
    def _permits(self) -> int:
        return self.permits or 0

    @cached_property
    def held(self) -> Between | None:
        """Messages that this consumer holds."""
        if self.unacked is not None:
            messages = max(0, self.unacked)
            return Between(messages, messages)
        held = self.observed.held
        if held is None or self.observed.type not in SINGLE_ACTIVE:
            return None
        each = self.now.avg_messages_per_entry
        sent = self.now.msg_out_counter
        if sent == 0:
            return Between(0, 0)
        most = held.most * 2 * each if each and each > 1 else held.most
        if sent is not None and sent < held.least:  # the rest was sent to nobody: it is compacted
            return Between(0, sent)
        return Between(held.least, most if sent is None else min(most, sent))

    @property
    def holds_nothing(self) -> bool:
        """Whether all that was sent to it is acknowledged."""
        return self.held is not None and self.held.most == 0

    @property
    def one_by_one(self) -> bool:
        """Whether its RQS may be 0 or 1, so that it waits for the message in hand only."""
        return self.held is not None and 0 <= self.held.most + self._permits <= 2

    @property
    def flow_came(self) -> bool:
        """Whether a FLOW came within the window."""
        came = self.course.passed("last_consumed_flow_timestamp_ms")
        return bool(came or self.granted)

    @property
    def working(self) -> bool:
        """Whether it acknowledged something within the window, or just now where that is open.

        Without a clock: within a short window, or the last full minute, of which the rates are.
        """
        since, moved = self.since(self.now.last_acked_timestamp_ms), self.acked or self.returned
        if since is not None and since.exact:
            return not self._acks_ended if moved else self.moved is None and since.ms < JUST_NOW_MS
        return bool(self.now.message_ack_rate or (moved and self.observed.window.is_short))

    @cached_property
    def acks_apart_ms(self) -> int | None:
        """The longest time between two acks that follow in the window; None: too few are known."""
        seen = (each.last_acked_timestamp_ms for each in self.course.values if each is not None)
        moments = [moment for moment in dict.fromkeys(seen) if moment is not None]
        if len(moments) < ACKS_NEEDED:
            return None
        return max(after - before for before, after in pairwise(moments))

    @property
    def _acks_ended(self) -> bool:
        """Whether it holds messages, and none was acknowledged for much longer than usual."""
        last = self.since(self.now.last_acked_timestamp_ms, self.now.last_consumed_timestamp_ms)
        apart_ms = self.acks_apart_ms
        if last is None or self.held is None or not self.held.least:
            return False
        if apart_ms is None and last.ms >= SHORT_MS and self.finished and self.span_ms:
            apart_ms = self.span_ms * self.messages_an_ack // self.finished
        return apart_ms is not None and not in_rhythm(last.ms, apart_ms / 1000)

    @cached_property
    def pace_seconds(self) -> float | None:
        """Seconds for a message.

        Of its life, as long as nothing contradicts that it was busy all the time: a window of a
        few messages tells less. Otherwise of the window, or of the last full minute.
        """
        done, span_ms = self.finished, self.span_ms
        if done is not None and done >= MANY and span_ms:
            return span_ms / done / 1000
        life = self.life_pace(self.finished_in_life, done)
        if life is not None:
            return life
        if done is not None and done >= PACE_NEEDS and span_ms:
            return span_ms / done / 1000
        between = self._pace_between_acks if span_ms is None else None
        return self.minute_pace if between is None else between

    @cached_property
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
        return min(asked, self.granted) if self.granted else asked

    @property
    def _until_flow_by_pace(self) -> int:
        """By what it holds and has finished since its last FLOW."""
        assert self.held is not None
        queued, pace = self.held.most - self.ahead, self.pace_seconds
        most = max(1, queued + self._permits)
        starved = self.starved
        told = starved is not None and starved.exact and pace is not None and pace > 0
        since_flow = min(most, int(starved.ms / 1000 / pace)) if starved and told and pace else 0
        return max(1, (most - since_flow) // 2)

    @property
    def ahead(self) -> int:
        """Messages that left its queue before its application has them: Go's channel is full of
        them as long as the queue is not empty, but the partitions of a topic share it."""
        go = (self.now.client_version or "").startswith(GO)
        return AHEAD if go and self.observed.partition is None else 0

    @property
    def refill(self) -> int | None:
        """Permits of a FLOW, at most: the least by which they rose below zero, where nothing is
        sent between two samples and each FLOW is half of a queue."""
        if self._permits >= 0 or self.delivered != 0:
            return None
        told = [granted_in_life(c) for c in self.course.values if c is not None]
        rises = [later - earlier for earlier, later in pairwise(told) if earlier and later]
        return min((rise for rise in rises if rise > 0), default=None)

    @property
    def _messages_by_queue(self) -> int | None:
        """Until half of a queue that is known is taken."""
        size, returned = self.known_queue_size, self.returned_in_life
        if size is None or returned is None or size < 2:
            return None
        return max(1, size // 2 - returned)

    @cached_property
    def finished(self) -> int | None:
        """Messages finished within the window."""
        if self.unacked is not None:
            return self.returned
        observed = self.observed
        entries = observed.cursor.growth(lambda cursor: cursor.messages_consumed_counter)
        each = self.messages_an_ack
        if entries is None and each == 1 and observed.unread is not None:
            entries = observed.backlog_lost
        return None if entries is None else entries * each

    @property
    def _pace_between_acks(self) -> float | None:
        """Only where it held all of it from the beginning: then it was never idle in between."""
        first, done = self.course.values[0], self.returned
        if first is None or done is None or done > (first.unacked_messages or 0):
            return None
        return self.between_acks

    @property
    def finished_in_life(self) -> Between | None:
        """Messages finished since it connected."""
        sent, held = self.now.msg_out_counter, self.held
        if sent is None or held is None:
            return None
        return Between(max(0, sent - held.most), max(0, sent - held.least))

    @cached_property
    def between_acks(self) -> float | None:
        """Seconds for a message, idle times included, from one reading's last ack to another's.

        The readings are the first and the last. That needs no clock: both moments are the broker's.
        """
        course, done = self.course, self.returned
        first, last = course.values[0], self.now
        if course.broken or first is None or done is None or done < PACE_NEEDS:
            return None
        since, until = first.last_acked_timestamp_ms, last.last_acked_timestamp_ms
        if since is None or until is None or until <= since:
            return None
        return (until - since) / done / 1000

    @property
    def in_rhythm(self) -> bool:
        """Whether its silence is no longer than twice the time of a message over its life.

        That average has idle times in it, so it excuses no silence of RHYTHM_MOST_MS. Where only
        bounds are told of what it has done, it may be no more than twice the shortest average.
        """
        life_done, done = self.finished_in_life, 0
        if life_done is not None and self.now.last_acked_timestamp_ms is not None:
            done = max(life_done.least, life_done.most - self.ahead)
        quiet, life = self.silence, self.since(self.now.connected_since_ms)
        if quiet is None or life is None or not (quiet.exact and life.exact) or done < RHYTHM_NEEDS:
            return False
        return quiet.ms <= min(2 * life.ms / done, RHYTHM_MOST_MS)

    @property
    def pace_of_flows(self) -> float | None:
        """Seconds for a message below zero, by the permits that came back in the window."""
        granted, span_ms = self.granted, self.span_ms
        below = (self.permits or 0) < 0
        return span_ms / granted / 1000 if below and granted and span_ms else None

    @property
    def pace_most(self) -> float | None:
        """By its life, or by the rate of its acks within the last full minute.

        On Exclusive and Failover one ack may stand for many messages: it is no faster than that.
        """
        done = 0 if self.finished_in_life is None else self.finished_in_life.least
        rate, life = self.now.message_ack_rate, self.since(self.now.connected_since_ms)
        paces = [life.seconds / done] if life is not None and life.exact and done > 0 else []
        paces += [1 / rate] if rate and rate > 0 else []
        between = self.between_acks
        return min([*paces, *([] if between is None else [between])], default=None)

    @property
    def sending_after(self) -> Count | None:
        """Below zero each message gives one permit back, and FLOWs come by half a queue.

        At most: only where one came in the window; then it is not the next FLOW that is waited for.
        """
        permits, until = self._permits, self.until_flow
        if permits >= 0 or self.now.blocked_consumer_on_unacked_msgs:
            return None
        most = until - permits if until and self.flow_came else None
        return Count(max(1, 1 - permits - self._unsent_most), most)

    @property
    def _unsent_most(self) -> int:
        """Taken and not asked for again: less than half of a queue.

        That is no larger than what was ever granted, and less than twice what is left of it.
        """
        sizes = [self.granted_in_life]
        if self.held is not None:
            sizes.append(2 * (self.held.most + self._permits) - 1)
        refills = [self.refill, *(size // 2 for size in sizes if size is not None)]
        told = [refill for refill in refills if refill is not None]
        return max(0, min(told) - 1) if told else -self._permits

    @property
    def delivered_again(self) -> bool:
        """Whether messages came in more than one step of the window."""
        told = [consumer.msg_out_counter for consumer in self.course.values if consumer is not None]
        steps = [later > earlier for earlier, later in pairwise(n for n in told if n is not None)]
        return sum(steps) > 1
