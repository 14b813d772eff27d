"""A consumer's pace over its whole life, where the stats show that it was busy.

A window of a few seconds shows one message of a slow worker, or none: what it shows changes with
the moment at which it was asked, and the worker does not. Its life does not change with the moment.
But idle times are in it too, so it counts only

- where the queue has not been empty for most of it; or the last delivery came upon a FLOW, which
  shows that messages had been waiting for permits, and the last full minute, or the window, has as
  many acks as that; and
- as long as nothing contradicts it: acks of the window, or of the last full minute, that are closer
  together or further apart, or an ack too soon after the last delivery.
"""

from __future__ import annotations

from pulsar_doctor.broker.stats.observed import Between
from pulsar_doctor.evidence.paces import SLACK, fits, not_too_few, not_too_many
from pulsar_doctor.evidence.standing import Standing

PACE_NEEDS = 2  # messages, before a life says anything of a pace
MINUTE_NEEDS = 4  # messages of a minute: with fewer its pace may be twice as long as it seems
MINUTE = 60.0  # seconds, of which the broker's rates are
MINUTE_OVER = 120.0  # seconds, after which the last full minute lies within
MINUTE_MOSTLY = 90.0  # seconds of life, after which half of it does
UPON_FLOW_MS = 1000
SURE = 1.5  # times: bounds of what was done, between which one pace is as good as another


class Life(Standing):
    """A consumer by all of its life."""

    def life_pace(self, life_done: Between | None, done: int | None) -> float | None:
        """Seconds for a message; None where its life does not tell. done: in the window."""
        life = self.since(self.now.connected_since_ms)
        if life is None or not life.exact or life_done is None or life_done.most < 1:
            return None
        if life_done.least * SURE < life_done.most:
            return None
        pace = self._working(life.seconds, life_done.most) / life_done.most
        busy = self._full_for_most_of
        if not busy and life_done.most >= PACE_NEEDS and self._sent_upon_a_flow:
            busy = self._confirmed(life.seconds, pace, done)
        return pace if busy and not self._contradicted(pace, done) else None

    @property
    def minute_pace(self) -> float | None:
        """Seconds for a message by the last full minute, if its queue was not empty within it."""
        rate, full = self.now.message_ack_rate, self.since(self.now.last_consumed_timestamp_ms)
        if not rate or full is None or not full.exact or full.seconds < MINUTE_OVER:
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

    def _confirmed(self, life: float, pace: float, done: int | None) -> bool:
        """Whether the last full minute, or the window, has as many acks as that pace gives.

        Of that minute it was there for all but what its life is shorter than two of them.
        """
        rate, span_ms = self.now.message_ack_rate, self.span_ms
        each = self.messages_an_ack
        if rate is not None and life >= MINUTE_MOSTLY:
            acked = round(rate * MINUTE)
            there = min(MINUTE, life - MINUTE)
            return not_too_many(pace, acked, MINUTE, each) and not_too_few(pace, acked, there, each)
        return bool(done and span_ms and fits(pace, done, span_ms / 1000, each))

    def _contradicted(self, pace: float, done: int | None) -> bool:
        span_ms = self.span_ms
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
