"""What the broker's stats show of one consumer: what moved in the window, and since when not.

The stats know the broker's side only. What follows from them, and how sure it is:

*Movement* is the difference of live counters within the window: `delivered`, `granted` (permits of
FLOWs: what was delivered plus what permits rose), `returned` (acknowledged or given back, which the
broker does not count apart; Shared and Key_Shared only). None is "not reported", or not comparable.

*Silence* is the time since the last sign of life: an ack, a FLOW, a delivery. It needs the broker's
clock; without it, it is at least so long.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import attrgetter

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Between, Observed
from pulsar_doctor.broker.stats.sample import Moment
from pulsar_doctor.broker.stats.topic import ConsumerStats
from pulsar_doctor.broker.stats.window import Course
from pulsar_doctor.ledger.clients import client_of
from pulsar_doctor.wording.addresses import at

# Why a silence is only a bound.
FLOW_UNSEEN = "its last FLOW is not reported, only that of all consumers together"
CLOCK_UNSEEN = "the broker's clock is not reported (see --at)"


@dataclass(frozen=True)  # no slots: derived values are cached
class ConsumerWindow:
    """One consumer of the last sample, over the window."""

    observed: Observed
    course: Course[ConsumerStats]
    number: int

    @cached_property
    def delivered(self) -> int | None:
        """Messages sent to it within the window."""
        return self.course.growth(attrgetter("msg_out_counter"))

    @cached_property
    def granted(self) -> int | None:
        """Permits that came with FLOWs within the window, or were set free."""
        return _counted(self.course.change(granted_in_life))

    @cached_property
    def returned(self) -> int | None:
        """Messages that it acknowledged or gave back within the window; Shared, Key_Shared."""
        alone = self.observed.type in SINGLE_ACTIVE
        return None if alone else _counted(self.course.change(returned_in_life))

    @cached_property
    def acked(self) -> bool | None:
        """Whether an ack came from it within the window; None where not reported."""
        return self.course.passed("last_acked_timestamp_ms")

    @cached_property
    def moved(self) -> bool | None:
        """Whether anything of it moved within the window; None where one sample is all there is."""
        if self.delivered or self.granted or self.returned or self.acked:
            return True
        return None if self.delivered is None and self.acked is None else False

    @property
    def span_ms(self) -> int | None:
        """How long the window is."""
        return self.observed.window.span_ms

    @cached_property
    def busy_ms(self) -> int | None:
        """How long the window is without the time in which it held and was sent nothing."""
        if self.course.broken or self.span_ms is None:
            return self.span_ms
        held = [self._idle_at(number) for number in range(len(self.course.values))]
        times = [sample.now_ms for sample in self.observed.window.samples]
        steps = zip(pairwise(held), pairwise(times), strict=True)
        idle = (t - s for (a, b), (s, t) in steps if a is not None and a == b and s and t)
        return max(0, self.span_ms - sum(idle))

    def _idle_at(self, number: int) -> int | None:
        """What it was sent until a sample in which it held nothing; None: it may have held some."""
        own, whole = self.course.values[number], self.observed.course.values[number]
        if own is None or whole is None:
            return None
        held = whole.msg_backlog if self.unacked is None else own.unacked_messages
        return own.msg_out_counter if held == 0 else None

    @cached_property
    def now(self) -> ConsumerStats:
        """The consumer in the last sample."""
        last = self.course.values[-1]
        assert last is not None
        return last

    @property
    def label(self) -> str:
        """What to call it: its name, its address, or its place in the list.

        Of several with one name: `worker at 10.0.3.7:51494`.
        """
        name, address = self.now.consumer_name, self.now.address
        if name and self.observed.names[name] > 1:
            return at(name, address)
        return name or address or f"#{self.number}"

    @property
    def permits(self) -> int | None:
        """Available permits: granted, not yet spent; below 0 is ordinary with batches."""
        return self.now.available_permits

    @property
    def unacked(self) -> int | None:
        """Messages delivered and not acknowledged; None on Exclusive and Failover: not counted."""
        return None if self.observed.type in SINGLE_ACTIVE else self.now.unacked_messages

    @property
    def active(self) -> bool:
        """Whether messages go to it: not a standby of a Failover subscription."""
        if self.observed.type != "Failover" or len(self.observed.consumers) == 1:
            return True
        name = self.observed.now.active_consumer_name
        return name is None or name == self.now.consumer_name

    @property
    def messages_an_ack(self) -> int:
        """Messages for one ack: those of a batch count when all of it is acknowledged."""
        return max(1, self.now.avg_messages_per_entry or 1)

    @property
    def granted_in_life(self) -> int | None:
        """Permits of all its FLOWs since it connected."""
        return granted_in_life(self.now)

    @property
    def returned_in_life(self) -> int | None:
        """Messages that it acknowledged or gave back since it connected; Shared, Key_Shared."""
        return None if self.unacked is None else returned_in_life(self.now)

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

    @cached_property
    def silence(self) -> Age | None:
        """Since the last sign of life; None where nothing tells."""
        now = self.now
        connected = now.connected_since_ms
        if not self.tells("last_acked_timestamp_ms", "last_consumed_timestamp_ms"):
            return self._age_of()  # there may have been a later one
        signs = [now.last_acked_timestamp_ms, self.last_flow_ms, connected]
        if now.msg_out_counter != 0:  # an attempt to send leaves its moment too
            signs.append(now.last_consumed_timestamp_ms)
        age = self._age_of(*signs)
        if age is None or not self.flow_unseen:
            return age
        since = self._age_of(*signs, self.observed.now.last_consumed_flow_timestamp_ms)
        return age if since is None or since.ms >= age.ms else Age(since.ms, False)

    @property
    def last_flow_ms(self) -> int | None:
        """When its last FLOW came; older brokers tell that of the whole subscription only."""
        own = self.now.last_consumed_flow_timestamp_ms
        if self.flow_reported or len(self.observed.consumers) > 1:
            return own
        return self.observed.now.last_consumed_flow_timestamp_ms

    @property
    def flow_unseen(self) -> bool:
        """Whether a FLOW of it may have left no trace: its moment is not reported, and below 0
        permits nothing is sent upon it."""
        one_of_many = len(self.observed.consumers) > 1
        return one_of_many and not self.flow_reported and (self.permits or 0) < 0

    @property
    def flow_reported(self) -> bool:
        """Whether its own last FLOW is reported, or that none came."""
        name = "last_consumed_flow_timestamp_ms"
        return self.now.last_consumed_flow_timestamp_ms is not None or name in self.now.never

    def tells(self, *moments: Moment) -> bool:
        """Whether each of these moments is reported, or that it never came."""
        now = self.now
        return now.msg_out_counter == 0 or all(
            getattr(now, moment) is not None or moment in now.never for moment in moments
        )

    @property
    def without_work(self) -> Age | None:
        """Since it last acknowledged or requested more, or connected."""
        now = self.now
        if not self.tells("last_acked_timestamp_ms"):
            return self._age_of()
        return self._age_of(now.last_acked_timestamp_ms, self.last_flow_ms, now.connected_since_ms)

    @property
    def starved(self) -> Age | None:
        """Since the last FLOW: for so long no permit came."""
        return self._age_of(self.last_flow_ms)

    def since(self, *moments: int | None) -> Age | None:
        """Since the last of these moments; None where none is reported."""
        return self.observed.window.last.age(*moments)

    def _age_of(self, *moments: int | None) -> Age | None:
        """The same, and at least the window where nothing moved in it."""
        age, still = self.since(*moments), self.observed.window.span_least_ms
        if self.moved is False and still and (age is None or age.ms < still):
            return Age(still, False)
        return age

    @property
    def ahead(self) -> int:
        """Messages that left its queue before its application has them: Go's channel is full of
        them as long as the queue is not empty, but the partitions of a topic share it."""
        single = self.observed.partition is None
        return client_of(self.now.client_version).ahead if single else 0

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
        """Messages finished since it connected; what was given back counts, after its first ack."""
        sent, held = self.now.msg_out_counter, self.held
        if sent is None or held is None:
            return None
        if self.unacked is not None and "last_acked_timestamp_ms" in self.now.never:
            return Between(0, 0)
        return Between(max(0, sent - held.most), max(0, sent - held.least))

    @property
    def unseen(self) -> str | None:
        quiet = self.silence
        if quiet is None or quiet.exact:
            return None
        if self.flow_unseen:
            return FLOW_UNSEEN
        return CLOCK_UNSEEN


def consumers_of(observed: Observed) -> tuple[ConsumerWindow, ...]:
    """The consumers of a subscription, in the broker's order."""
    return tuple(
        ConsumerWindow(observed, course, number) for number, course in enumerate(observed.consumers)
    )


def _counted(change: int | None) -> int | None:
    """None where it fell. On the way it may: the broker counts a delivery after it has gone out."""
    return None if change is None or change < 0 else change


def granted_in_life(consumer: ConsumerStats) -> int | None:
    """Permits of all its FLOWs since it connected: spent ones, and those that are left."""
    if consumer.msg_out_counter is None or consumer.available_permits is None:
        return None
    return consumer.msg_out_counter + consumer.available_permits


def returned_in_life(consumer: ConsumerStats) -> int | None:
    """Messages that came back since it connected: acknowledged, or given back."""
    if consumer.msg_out_counter is None or consumer.unacked_messages is None:
        return None
    return consumer.msg_out_counter - consumer.unacked_messages
