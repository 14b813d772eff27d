"""The pace at which a consumer finishes messages, by the broker's stats.

A window of a few seconds shows one message of a slow worker, or none: what it shows changes with
the moment at which it was asked, and the worker does not. Its whole life does not change with the
moment. But idle times are in it too, so it counts only

- where the queue has not been empty for most of it; or the last delivery came upon a FLOW, which
  shows that messages had been waiting for permits, and the last full minute, or the window, has as
  many acks as that; and
- as long as nothing contradicts it: acks of the window, or of the last full minute, that are closer
  together or further apart, or an ack too soon after the last delivery.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

from pulsar_doctor.broker.stats.observed import Between
from pulsar_doctor.broker.stats.window import RATE_SECONDS, SHORT_MS
from pulsar_doctor.evidence import ack_wait
from pulsar_doctor.evidence.consumer import JUST_NOW_MS, RHYTHM_MOST, RHYTHM_NEEDS
from pulsar_doctor.evidence.paces import SLACK, fits, not_too_few, not_too_many
from pulsar_doctor.evidence.standing import Standing
from pulsar_doctor.ledger.balance import PACE_NEEDS
from pulsar_doctor.ledger.clients import client_of

ACKS_NEEDED = 3  # moments, before a window says how far apart they are
MANY = 50  # messages of a window, which tell a pace better than a life
MINUTE_NEEDS = 4  # messages of a minute: with fewer its pace may be twice as long as it seems
MINUTE = 60.0  # seconds, of which the broker's rates are
MINUTE_MOSTLY = 90.0  # seconds of life, after which half of it does
UPON_FLOW_MS = 1000
BURSTS_SECONDS = 30.0  # of silence, which a burst of acks may be followed by
SURE = 1.5  # times: bounds of what was done, between which one pace is as good as another


class Paced(Standing):
    """A consumer by what it has finished, and how fast."""

    @cached_property
    def pace_seconds(self) -> float | None:
        """Seconds for a message.

        Of its life, as long as nothing contradicts that it was busy all the time: a window of a
        few messages tells less. Otherwise of the window, or of the last full minute.
        """
        done, span_ms = self.finished, self.span_ms
        if done is not None and done >= MANY and span_ms:
            return span_ms / done / 1000
        if self._life_pace is not None:
            return self._life_pace
        if done is not None and done >= PACE_NEEDS and span_ms:
            return span_ms / done / 1000
        between = self._pace_between_acks if span_ms is None else None
        return self.minute_pace if between is None else between

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
    def finished_in_life(self) -> Between | None:
        """Messages finished since it connected."""
        sent, held = self.now.msg_out_counter, self.held
        if sent is None or held is None:
            return None
        return Between(max(0, sent - held.most), max(0, sent - held.least))

    @property
    def working(self) -> bool:
        """Whether it acknowledged something within the window, or just now where that is open.

        Without a clock: within a short window, or the last full minute, of which the rates are.
        """
        since, moved = self.since(self.now.last_acked_timestamp_ms), self.acked or self.returned
        if since is not None and since.exact:
            return not self._acks_ended if moved else self.moved is None and since.ms < JUST_NOW_MS
        return bool(self.now.message_ack_rate or (moved and self.observed.window.is_short))

    @property
    def _ack_moments(self) -> list[int]:
        """The last ack of each sample, epoch milliseconds; each moment once."""
        seen = (each.last_acked_timestamp_ms for each in self.course.values if each is not None)
        return [moment for moment in dict.fromkeys(seen) if moment is not None]

    @property
    def ack_gap(self) -> float | None:
        """At most: between two samples that differ there may have been more acks."""
        return ack_wait.longest_gap([moment / 1000 for moment in self._ack_moments])

    @cached_property
    def acks_apart_ms(self) -> int | None:
        """The longest time between two acks that follow in the window; None: too few are known."""
        moments = self._ack_moments
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
        return apart_ms is not None and not ack_wait.in_rhythm(last.ms, apart_ms / 1000)

    @cached_property
    def _life_pace(self) -> float | None:
        """Seconds for a message; None where its life does not tell."""
        life, done = self.since(self.now.connected_since_ms), self.finished_in_life
        if life is None or not life.exact or done is None or done.most < 1:
            return None
        if done.least * SURE < done.most:
            return None
        pace = self._working(life.seconds, done.most) / done.most
        busy = self._full_for_most_of
        if not busy and done.most >= PACE_NEEDS and self._sent_upon_a_flow:
            busy = self._confirmed(life.seconds, pace)
        return pace if busy and not self._contradicted(pace) else None

    @property
    def minute_pace(self) -> float | None:
        """Seconds for a message by the last full minute, if its queue was not empty within it."""
        rate, full = self.now.message_ack_rate, self.since(self.now.last_consumed_timestamp_ms)
        if not rate or full is None or not full.exact or full.seconds < RATE_SECONDS:
            return None
        return 1 / rate if rate * MINUTE >= MINUTE_NEEDS else None

    @property
    def _full_for_most_of(self) -> bool:
        """Whether it has had no permits, and so something to do, for half of its life or more."""
        life, full = (
            self.since(self.now.connected_since_ms),
            self.since(self.now.last_consumed_timestamp_ms),
        )
        return life is not None and full is not None and 2 * full.ms >= life.ms

    @property
    def _sent_upon_a_flow(self) -> bool:
        """Whether the last delivery came upon a FLOW, or not even that sufficed for one."""
        flow, sent = self.last_flow_ms, self.now.last_consumed_timestamp_ms
        refilled = flow is not None and flow - (self.now.connected_since_ms or 0) > UPON_FLOW_MS
        return refilled and flow is not None and sent is not None and sent - flow <= UPON_FLOW_MS

    def _working(self, life: float, done: int) -> float:
        """Seconds of its life until its last ack: what it works on since then is not done.

        All of its life, where that ack is old: then what it did since was not acknowledged.
        """
        acked, since = self.now.last_acked_timestamp_ms, self.now.connected_since_ms
        if acked is None or since is None or acked <= since:
            return life
        until = (acked - since) / 1000
        each = self.messages_an_ack
        return until if life - until <= 2 * until / done * each else life

    def _confirmed(self, life: float, pace: float) -> bool:
        """Whether the last full minute, or the window, has as many acks as that pace gives.

        Of that minute it was there for all but what its life is shorter than two of them.
        """
        rate, done, span_ms = self.now.message_ack_rate, self.finished, self.span_ms
        each = self.messages_an_ack
        if rate is not None and life >= MINUTE_MOSTLY:
            acked = round(rate * MINUTE)
            there = min(MINUTE, life - MINUTE)
            return not_too_many(pace, acked, MINUTE, each) and not_too_few(pace, acked, there, each)
        return bool(done and span_ms and fits(pace, done, span_ms / 1000, each))

    def _contradicted(self, pace: float) -> bool:
        done, span_ms = self.finished, self.span_ms
        each = self.messages_an_ack  # messages of one ack
        if done is not None and span_ms and not fits(pace, done, span_ms / 1000, each):
            return True
        rate = self.now.message_ack_rate
        if rate and pace * (rate * MINUTE - each) > MINUTE * SLACK:
            return True
        return self._acked_too_soon(pace * each)

    def _acked_too_soon(self, pace: float) -> bool:
        """Whether an ack came after the last delivery, sooner than in half the usual time."""
        acked, sent = self.now.last_acked_timestamp_ms, self.now.last_consumed_timestamp_ms
        if acked is None or sent is None or acked <= sent + UPON_FLOW_MS:
            return False
        return acked - sent < 500 * pace

    @property
    def _pace_between_acks(self) -> float | None:
        """Only where it held all of it from the beginning: then it was never idle in between."""
        first, done = self.course.values[0], self.returned
        if first is None or done is None or done > (first.unacked_messages or 0):
            return None
        return self.between_acks

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
    def in_rhythm(self) -> bool:
        """Whether its silence is no longer than twice the time of a message over its life.

        That average has idle times in it, so it excuses no silence of RHYTHM_MOST. Where only
        bounds are told of what it has done, it may be no more than twice the shortest average.
        """
        life_done, done = self.finished_in_life, 0
        if life_done is not None and self.now.last_acked_timestamp_ms is not None:
            done = max(life_done.least, life_done.most - self.ahead)
        quiet, life = self.silence, self.since(self.now.connected_since_ms)
        if quiet is None or life is None or not (quiet.exact and life.exact) or done < RHYTHM_NEEDS:
            return False
        return quiet.ms <= min(2 * life.ms / done, 1000 * RHYTHM_MOST)

    @property
    def ahead(self) -> int:
        """Messages that left its queue before its application has them: Go's channel is full of
        them as long as the queue is not empty, but the partitions of a topic share it."""
        single = self.observed.partition is None
        return client_of(self.now.client_version).ahead if single else 0

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
        return (
            seconds
            if exact and ack_wait.in_rhythm(acked.ms, seconds * self.messages_an_ack)
            else None
        )

    @cached_property
    def may_fit(self) -> bool:
        """Whether its last ack may be as old as usual, by its pace until then; needs no clock.

        One sample shows no gaps: who acknowledges in bursts is silent for longer than on average.
        """
        now, returned = self.now, self.returned_in_life
        began_ms, acked_ms = now.connected_since_ms, now.last_acked_timestamp_ms
        acked = self.since(acked_ms)
        if not returned or acked is None or acked_ms is None or began_ms is None:
            return False
        if returned >= 2 and self.acked is None and acked.seconds < BURSTS_SECONDS:
            return True
        seconds = (acked_ms - began_ms) / returned / 1000
        return returned >= 2 and ack_wait.may_be_rhythm(acked.ms, seconds * self.messages_an_ack)
