"""The numbers of one consumer in the broker's stats, under the names of `numbers`."""

from __future__ import annotations

from functools import cached_property

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.evidence.ack_wait import Acks, in_rhythm, may_be_rhythm
from pulsar_doctor.evidence.standing import returned_in_life
from pulsar_doctor.evidence.starvation import Starving
from pulsar_doctor.evidence.values import Count, at_most, exactly

# Why a silence is only a bound.
FLOW_UNSEEN = "its last FLOW is not reported, only that of all consumers together"
CLOCK_UNSEEN = "the broker's clock is not reported (see --at)"


class ConsumerFacts(Starving):
    """One consumer of the last sample."""

    @property
    def unacked_entries(self) -> Count | None:
        held = self.observed.held
        return Count(*held) if held and self.unacked is None else None

    @property
    def queued(self) -> Count:
        """Some are queued without permits: fewer than half of a queue are unsent."""
        full = self.permits is not None and self.permits <= 0
        return Count(1 if full and (self.unacked or 0) > 1 else 0, None)

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
    def blocked_throughout(self) -> bool:
        values = self.course.values
        return all(c.blocked_consumer_on_unacked_msgs for c in values if c is not None)

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

    @cached_property
    def rhythm(self) -> float | None:
        """Seconds for a message over its life, where its last ack is no older than twice that."""
        now, returned = self.now, self.returned_in_life
        life = self.since(now.connected_since_ms)
        acked = self.since(now.last_acked_timestamp_ms)
        if returned is None or returned < 2 or life is None or acked is None:
            return None
        seconds = life.ms / returned / 1000
        exact = life.exact and acked.exact and seconds > 0
        return seconds if exact and in_rhythm(acked.ms, seconds * self.messages_an_ack) else None

    @cached_property
    def may_fit(self) -> bool:
        """Whether its last ack may be as old as usual, by its pace until then; needs no clock."""
        now, returned = self.now, self.returned_in_life
        began_ms, acked_ms = now.connected_since_ms, now.last_acked_timestamp_ms
        acked = self.since(acked_ms)
        if not returned or acked is None or acked_ms is None or began_ms is None:
            return False
        seconds = (acked_ms - began_ms) / returned / 1000
        return returned >= 2 and may_be_rhythm(acked.ms, seconds * self.messages_an_ack)

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


def facts_of(observed: Observed) -> tuple[ConsumerFacts, ...]:
    """The consumers of a subscription, in the broker's order."""
    return tuple(
        ConsumerFacts(observed, course, number) for number, course in enumerate(observed.consumers)
    )
