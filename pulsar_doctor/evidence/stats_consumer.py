"""The numbers of one consumer in the broker's stats, under the names of `numbers`.

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

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Between, Observed
from pulsar_doctor.evidence.ack_wait import Acks
from pulsar_doctor.evidence.standing import granted_in_life, returned_in_life
from pulsar_doctor.evidence.stats_pace import Paced
from pulsar_doctor.evidence.values import Count, at_most, exactly

# Why a silence is only a bound.
FLOW_UNSEEN = "its last FLOW is not reported, only that of all consumers together"
CLOCK_UNSEEN = "the broker's clock is not reported (see --at)"


class ConsumerFacts(Paced):
    """One consumer of the last sample."""

    @property
    def unacked_entries(self) -> Count | None:
        held = self.observed.held
        return Count(*held) if held and self.unacked is None else None

    @property
    def queued(self) -> Count:
        """Some are queued while fewer than half of a queue are permits: fewer than half are unsent.

        A queue that is not known holds as many as it had permits for in the window, at least.
        """
        if self.permits is None:
            return Count(0, None)
        if self.permits <= 0:
            return Count(1 if (self.unacked or 0) > 1 else 0, None)
        had = [each.available_permits or 0 for each in self.course.values if each is not None]
        size = self.known_queue_size or max(had)
        held = 0 if self.held is None else self.held.most
        return Count(min(held, max(0, size // 2 - self.permits)), None)

    @property
    def receiver_queue_size(self) -> Count | None:
        """A single permit ever granted is that of a queue of 1, or of a zero queue's receive."""
        if self.granted_in_life == 1 and not self.now.blocked_consumer_on_unacked_msgs:
            return Count(0, 1)
        size, granted = self.known_queue_size, self.granted_in_life
        if size is None and granted is not None and granted > 0 and self.little_returned:
            return at_most(granted)  # all that was ever granted, which says nothing later on
        return exactly(size)

    @property
    def done(self) -> int | None:
        """Messages that it acknowledged in the window; None where not told."""
        return None if self.acked is False else self.course.change(returned_in_life)

    @property
    def drain_seconds(self) -> float | None:
        done, span_ms = self.done, self.span_ms
        held = max(0, self.unacked or 0)
        return held * span_ms / (done + 1) / 1000 if done and done > 0 and span_ms else None

    @property
    def blocked_share(self) -> float:
        reported = [bool(c.blocked_consumer_on_unacked_msgs) for c in self.course.values if c]
        return sum(reported) / len(reported)

    @property
    def full_share(self) -> float | None:
        known = [c for c in self.course.values if c and c.available_permits is not None]
        full = [c for c in known if (c.available_permits or 0) <= 0]
        full = [c for c in full if not c.blocked_consumer_on_unacked_msgs]
        return len(full) / len(known) if known else None

    @property
    def never_acked(self) -> bool | None:
        """By the moment of its last ack; else where it holds all that it was ever sent."""
        now = self.now
        if now.last_acked_timestamp_ms is not None:
            return False
        if "last_acked_timestamp_ms" in now.never:
            return True
        singles = (now.avg_messages_per_entry or 1) <= 1  # of a batch a part may be acknowledged
        none_came_back = self.returned_in_life == 0 or self._holds_all
        return True if singles and none_came_back and now.msg_out_counter else None

    @property
    def _holds_all(self) -> bool:
        """Whether published, sent and not acknowledged are one number, with nothing left to send.

        Exclusive and Failover do not count what a consumer holds. All that was published since the
        topic was loaded was sent, and nothing else was; and as much is not acknowledged.
        """
        observed, out = self.observed, self.now.msg_out_counter
        if observed.type not in SINGLE_ACTIVE or len(observed.consumers) > 1:
            return False
        left, topic = observed.left, observed.window.last.topic
        return (
            left is not None
            and left.most == 0
            and out
            == topic.msg_in_counter
            == observed.now.msg_out_counter
            == observed.backlog.entries
        )

    @property
    def holds_since(self) -> Age | None:
        """What it was sent first is no younger than what it was sent last."""
        since = self.since(self.now.last_consumed_timestamp_ms)
        return None if since is None else Age(since.ms, exact=False)

    @property
    def unseen(self) -> str | None:
        quiet = self.silence
        if quiet is None or quiet.exact:
            return None
        if self.flow_unseen:
            return FLOW_UNSEEN
        return CLOCK_UNSEEN

    @property
    def connection_sign(self) -> Age | None:
        """Since anybody on its connection acknowledged, asked for more or connected."""
        window, address = self.observed.window, self.now.address
        return window.last.age(None if address is None else window.signs.get(address))

    @property
    def may_receive_throughout(self) -> bool:
        values = self.course.values
        if len(values) != len(self.observed.window.samples):
            return False
        return all(
            each is not None
            and (each.available_permits or 0) > 0
            and not each.blocked_consumer_on_unacked_msgs
            for each in values
        )

    @property
    def since_request(self) -> Age | None:
        """Not by that of all consumers together: an older broker does not tell whose it was."""
        now = self.now
        return self.since(now.connected_since_ms, now.last_consumed_flow_timestamp_ms)

    @property
    def msg_rate_out(self) -> float | None:
        """By the window; otherwise the broker's, which is 0 until its first full minute is over."""
        delivered = self.delivered
        seconds = None if delivered is None else self.observed.watched_seconds
        if delivered is None or not seconds:
            return self.now.msg_rate_out or None
        return round(delivered / seconds, 3)

    @property
    def _asked_after_the_batch(self) -> bool:
        """Whether its last FLOW came after what it was sent; RQS 2 asks for both before."""
        flow, sent = self.last_flow_ms, self.now.last_consumed_timestamp_ms
        return flow is not None and sent is not None and flow >= sent

    @property
    def asked_lately(self) -> Age | None:
        lately = self.observed.window.is_short or self.now.msg_rate_out
        if not self.flow_came or not (lately or (self.starved and self.starved.exact)):
            return None
        return self.starved or Age(0, False)

    @property
    def batch_for_one(self) -> bool:
        """Whether a batch went to a queue of 0 or 1: all permits granted are one for a receive."""
        batches = (self.now.avg_messages_per_entry or 0) > 1
        permits = self._permits
        if permits > 0 or (permits == 0 and not batches) or self.holds_nothing:
            return False
        if self.unacked is not None:
            return 0 <= self.unacked + permits <= 2
        granted = self.granted_in_life
        return granted == 1 or (granted == 2 and self._asked_after_the_batch)

    @property
    def acks(self) -> Acks:
        """How its acks come."""
        return Acks(
            self.returned,
            self.acked,
            self.span_ms,
            self.without_ack,
            an_ack=self.messages_an_ack,
            apart_ms=self.acks_apart_ms,
            rhythm_seconds=self.rhythm,
            may_fit=self.may_fit,
            never="last_acked_timestamp_ms" in self.now.never,
        )

    @property
    def without_ack(self) -> Age | None:
        """Since its last ack or, if later, delivery or connection; None where nothing tells.

        At least the window, where it held messages all the time and none was acknowledged.
        """
        now, first = self.now, self.course.values[0]
        signs = (
            now.last_acked_timestamp_ms,
            now.last_consumed_timestamp_ms,
            now.connected_since_ms,
        )
        told = self.tells("last_acked_timestamp_ms", "last_consumed_timestamp_ms")
        age = self.since(*signs) if told else None
        span_ms = self.observed.window.span_least_ms
        held = first is not None and (first.unacked_messages or 0) > 0
        none = self.returned == 0 or self.acked is False  # an ack may count for nothing
        if held and none and span_ms and (age is None or age.ms < span_ms):
            return Age(span_ms, False)
        return age

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
        asked = self._until_flow_by_pace(self.held)
        return min(asked, self.granted) if self.granted else asked

    def _until_flow_by_pace(self, held: Between) -> int:
        """By what it holds and has finished since its last FLOW."""
        queued, pace = held.most - self.ahead, self.pace_seconds
        most = max(1, queued + self._permits)
        starved = self.starved
        told = starved is not None and starved.exact and pace is not None and pace > 0
        since_flow = min(most, int(starved.ms / 1000 / pace)) if starved and told and pace else 0
        return max(1, (most - since_flow) // 2)

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

    @property
    def flow_came(self) -> bool:
        """Whether a FLOW came within the window."""
        came = self.course.passed("last_consumed_flow_timestamp_ms")
        return bool(came or self.granted)

    @property
    def one_by_one(self) -> bool:
        """Whether its RQS may be 0 or 1, so that it waits for the message in hand only."""
        return self.held is not None and 0 <= self.held.most + self._permits <= 2

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
    def _permits(self) -> int:
        return self.permits or 0

    @property
    def delivered_again(self) -> bool:
        """Whether messages came in more than one step of the window."""
        told = [consumer.msg_out_counter for consumer in self.course.values if consumer is not None]
        steps = [later > earlier for earlier, later in pairwise(n for n in told if n is not None)]
        return sum(steps) > 1


def facts_of(observed: Observed) -> tuple[ConsumerFacts, ...]:
    """The consumers of a subscription, in the broker's order."""
    return tuple(
        ConsumerFacts(observed, course, number) for number, course in enumerate(observed.consumers)
    )
