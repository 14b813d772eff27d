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

from pulsar_doctor.broker.stats.observed import COMPACTION, SINGLE_ACTIVE, Between, Observed
from pulsar_doctor.broker.stats.sample import Age
from pulsar_doctor.evidence.answers import Limits, Measure, Threshold
from pulsar_doctor.evidence.standing import Standing
from pulsar_doctor.wording.durations import duration

RECEIVER_QUEUE_SIZE = Threshold(
    "receiver_queue_size", -1, "messages", "of the consumers, where you know it; -1: not told"
)
PACE_NEEDS = 2  # messages, before the window's pace says anything
JUST_NOW_MS = 5000


@dataclass(frozen=True, slots=True)
class Wait:
    """Messages to take until the next FLOW, at most: it may come sooner."""

    messages: int
    pace_seconds: float

    @property
    def seconds(self) -> float:
        """How long that takes at the pace."""
        return self.messages * self.pace_seconds


@dataclass(frozen=True, slots=True)
class Starving:
    """One consumer that has messages to work on, or a backlog before it, and no permits."""

    standing: Standing
    permits: int
    held: Between | None  # messages it holds; None: not told
    told_size: int | None = None  # its RQS, where the user told it

    @property
    def receiver_queue_size(self) -> int | None:
        """As told, or as the counters show; None where nothing tells."""
        known = self.standing.receiver_queue_size
        return known if self.told_size is None else self.told_size

    @property
    def holds_nothing(self) -> bool:
        """Whether all that was sent to it is acknowledged."""
        return self.held is not None and self.held.most == 0

    @property
    def certainly_holds(self) -> bool:
        """Whether several messages are with it for sure, so that its queue is not 0 or 1."""
        return self.held is not None and self.held.least + self.permits > 2

    @property
    def one_by_one(self) -> bool:
        """Whether its RQS may be 0 or 1, so that it waits for the message in hand only."""
        if self.told_size is not None:
            return self.told_size == 0
        return self.held is not None and 0 <= self.held.most + self.permits <= 2

    @property
    def never_asked(self) -> bool:
        """Whether no FLOW ever came: nothing was delivered, and no permits are left."""
        return self.standing.now.msg_out_counter == 0 and self.permits == 0

    @property
    def quiet(self) -> Age | None:
        """Since the last ack, FLOW or delivery."""
        return self.standing.silence

    @property
    def asked(self) -> bool:
        """Whether a FLOW came within the window."""
        came = self.standing.course.passed("last_consumed_flow_timestamp_ms")
        return bool(came or self.standing.granted)

    @property
    def working(self) -> bool:
        """Whether it acknowledged something within the window, or just now where that is open."""
        standing = self.standing
        if standing.moved is not None:
            return bool(standing.acked or standing.returned)
        since = standing.observed.window.last.age(standing.now.last_acked_timestamp_ms)
        return since is not None and since.exact and since.ms < JUST_NOW_MS

    def sure(self, confidence: float) -> float:
        """Less, where one sample is all there is."""
        return round(confidence - (0.2 if self.standing.moved is None else 0), 2)

    @property
    def pace_seconds(self) -> float | None:
        """Seconds for a message, in the window; or in all its life, if most of that was busy."""
        done, span_ms = self._done, self.standing.observed.window.span_ms
        if done is not None and done >= PACE_NEEDS and span_ms:
            return span_ms / done / 1000
        return self._life_pace

    @property
    def wait(self) -> Wait | None:
        """When the next FLOW comes; None while no pace is known."""
        pace, until = self.pace_seconds, self.until_flow
        return None if pace is None or until is None else Wait(until, pace)

    @property
    def until_flow(self) -> int | None:
        """Messages to take until the next FLOW, at most; None where what it holds is not told."""
        if self.held is None:
            return None
        known = self._messages_by_queue
        if known is not None:
            return known
        most, pace = max(1, self.held.most + self.permits), self.pace_seconds
        starved = self.standing.starved
        told = starved is not None and starved.exact and pace is not None and pace > 0
        since_flow = min(most, int(starved.ms / 1000 / pace)) if starved and told and pace else 0
        return max(1, (most - since_flow) // 2)

    @property
    def _messages_by_queue(self) -> int | None:
        """Until half of a queue that is known is taken."""
        if self.told_size is not None and self.held is not None:
            taken = max(0, self.told_size - self.permits - self.held.most)
            return max(1, self.told_size // 2 - taken)
        size, returned = self.standing.receiver_queue_size, self._returned_in_life
        if size is None or returned is None or size < 2:
            return None
        return max(1, size // 2 - returned)

    @property
    def _done(self) -> int | None:
        """Messages finished within the window."""
        if self.standing.unacked is not None:
            return self.standing.returned
        entries = self.standing.observed.cursor.growth(lambda c: c.messages_consumed_counter)
        each = max(1, self.standing.now.avg_messages_per_entry or 1)
        if entries is None and each == 1:
            entries = self._done_by_backlog
        return None if entries is None else entries * each

    @property
    def _done_by_backlog(self) -> int | None:
        """Single messages by which the backlog fell, and that came in; where all are counted."""
        observed = self.standing.observed
        added = observed.window.topic().growth(lambda topic: topic.msg_in_counter)
        risen = observed.course.change(lambda subscription: subscription.msg_backlog)
        if observed.unread is None or added is None or risen is None:
            return None
        return max(0, added - risen)

    @property
    def _returned_in_life(self) -> int | None:
        sent, unacked = self.standing.now.msg_out_counter, self.standing.unacked
        return None if sent is None or unacked is None else sent - unacked

    @property
    def _life_pace(self) -> float | None:
        now, returned = self.standing.now, self._returned_in_life
        if not returned or self.standing.receiver_queue_size is None:
            return None
        since, full = now.connected_since_ms, now.last_consumed_timestamp_ms
        life = self.standing.observed.window.last.age(since)
        if life is None or not life.exact or since is None or full is None:
            return None
        # Only where its queue was full most of the time; otherwise it was idle, not slow.
        return life.ms / returned / 1000 if full - since < life.ms / 2 else None

    @property
    def outlook(self) -> str:
        """When the next FLOW comes, as a person says it."""
        wait = self.wait
        if wait is None:
            return "cannot tell when its next FLOW comes"
        more = "message" if wait.messages == 1 else "messages"
        return (
            f"next FLOW after at most {wait.messages} more {more}, in about "
            f"{duration(wait.seconds)} at {duration(wait.pace_seconds)} each"
        )

    def measures(self) -> tuple[Measure, ...]:
        """The numbers of a consumer that waits."""
        now, wait, quiet = self.standing.now, self.wait, self.quiet
        starved = self.standing.starved
        return (
            Measure("available_permits", self.permits, "permits"),
            Measure("unacked_messages", self.standing.unacked, "messages"),
            Measure("held_entries_most", held_entries(self.standing), "entries"),
            Measure("receiver_queue_size", self.receiver_queue_size, "messages"),
            Measure("msg_out_counter", now.msg_out_counter, "messages"),
            Measure("next_flow_after", wait.messages if wait else None, "messages"),
            Measure("next_flow_in", round(wait.seconds, 3) if wait else None, "seconds"),
            Measure("pace", wait.pace_seconds if wait else None, "seconds/message"),
            Measure("quiet_for", quiet.ms / 1000 if quiet else None, "seconds"),
            Measure("since_last_flow", starved.ms / 1000 if starved else None, "seconds"),
        )


def starving(standing: Standing, limits: Limits | None = None) -> Starving | None:
    """The consumer, where the broker may not send to it though something is not consumed.

    limits: of a rule, which may tell RECEIVER_QUEUE_SIZE. None too for whom silence is nothing:
    standbys, readers and other non-durable subscriptions, and where nothing is left in the backlog.
    """
    permits = standing.permits
    if permits is None or permits > 0 or not standing.active or quiet_is_fine(standing.observed):
        return None
    size = int((limits or {}).get(RECEIVER_QUEUE_SIZE.name, RECEIVER_QUEUE_SIZE.default))
    return Starving(standing, permits, held_by(standing), None if size < 0 else size)


def quiet_is_fine(observed: Observed) -> bool:
    """Whether nothing needs to move: all is consumed, or nobody promised to consume it."""
    if observed.now.is_durable is False or observed.subscription == COMPACTION:
        return True
    return observed.backlog.empty is True


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


def held_entries(standing: Standing) -> int | None:
    held = standing.observed.held
    return None if held is None or standing.unacked is not None else held.most
