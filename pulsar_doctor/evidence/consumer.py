"""One consumer as the checks see it: its numbers, and what follows from them.

Some rules of counting hold for all sources:

*The queue*: permits, queued and unsent messages together are the receiver queue size (RQS), and
fewer than half of it are unsent. So without permits more than half of a queue is queued, and the
next FLOW comes after at most half of what permits and held messages are together.

*One by one*: a queue of 0 or 1 asks after each message. It may stand without permits for as long
as one message takes, and no smaller queue would do better.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from pulsar_doctor.broker.stats.age import FIRST_FLOW_MOST_MS, Age
from pulsar_doctor.broker.stats.window import MINUTE
from pulsar_doctor.evidence.ack_wait import UNUSUAL
from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.evidence.numbers import Facts, measured
from pulsar_doctor.evidence.paces import ended
from pulsar_doctor.evidence.values import Count, at_most, exact, exactly, least, most
from pulsar_doctor.evidence.whereabouts import Whereabouts
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import say

JUST_NOW_MS = 5000
COMES_AGAIN = 3  # times what it holds: some of it was sent three times, or went to others
RHYTHM_NEEDS = 3  # messages, before a life says anything of a rhythm
RHYTHM_MOST = 150.0  # seconds, beyond which a life excuses no silence
ABOUT = 1.5  # times: bounds that differ by no more tell about as much as a number


@dataclass(frozen=True)  # no slots: what follows is kept after its first use
class ConsumerView(Facts):
    """What is known of one consumer now, and what follows from it."""

    @property
    def whereabouts(self) -> Whereabouts | None:
        """Where it is; None where nothing of that is reported."""
        known = self.address, self.client_version, self.connected_since, self.connected_for
        return Whereabouts(*known) if any(part is not None for part in known) else None

    @property
    def client(self) -> str | None:
        """What its settings are called by: its client's version, or Pulsar's own framework."""
        return self.client_version if self.function is None else f"pulsar-{self.function.kind}"

    @property
    def without_permits(self) -> bool:
        """Whether the broker may certainly not send to it."""
        permits = most(self.available_permits)
        return permits is not None and permits <= 0

    @property
    def below_zero(self) -> bool:
        """Whether permits are certainly below zero, which is ordinary after batches."""
        permits = most(self.available_permits)
        return permits is not None and permits < 0

    @property
    def beyond_help(self) -> bool:
        """Whether permits stay below zero when all that it holds is taken.

        Permits, queued and unsent messages together are the receiver queue size, so that permits
        and unacknowledged messages are never below zero together unless the two sides counted
        differently (or FLOWs are set aside, while it is blocked on unacknowledged messages).
        """
        held, permits = exact(self.unacked_messages), most(self.available_permits)
        if not self.below_zero or self.zero_queue or self.receiver_queue_size == Count(0, 1):
            return False
        if self.holds_nothing or self.queued.most == 0:
            return True
        if held is None or permits is None or self.blocked_consumer_on_unacked_msgs:
            return False
        return held + permits < 0

    @property
    def may_receive(self) -> bool:
        """Whether it certainly has permits, and no limit of unacknowledged messages holds it."""
        has = (least(self.available_permits) or 0) > 0
        return has and not self.blocked_consumer_on_unacked_msgs

    @property
    def tells_something(self) -> bool:
        """Whether anything is reported of it; nothing is of a placeholder for who is left out."""
        reported = (
            self.name,
            self.address,
            self.available_permits,
            self.unacked_messages,
            self.msg_out_counter,
            self.msg_rate_out,
        )
        return any(each is not None for each in reported)

    @property
    def holds(self) -> int:
        """Messages that it holds for certain."""
        return least(self.unacked_messages) or 0

    @property
    def holds_nothing(self) -> bool:
        """Whether all that was sent to it is acknowledged."""
        return most(self.unacked_messages) == 0

    @property
    def zero_queue(self) -> bool:
        """Whether its RQS is known to be 0: it asks when the application does."""
        return most(self.receiver_queue_size) == 0

    @property
    def surely_singly(self) -> bool:
        """Whether its RQS is known to be 0 or 1."""
        size = most(self.receiver_queue_size)
        return size is not None and size <= 1

    @property
    def asks_singly(self) -> bool:
        """Whether it asks after each message, so that no smaller queue could do better."""
        return self.one_by_one or self.surely_singly

    @property
    def never_sent_flow(self) -> bool:
        """Whether no FLOW ever came."""
        return most(self.permits_granted) == 0

    @property
    def gave_back(self) -> int:
        """Messages that it was sent and holds no more, at least, where it never acknowledged any.

        0 where all of them may have come twice: one redelivery of all is no failure.
        """
        sent, held = least(self.msg_out_counter) or 0, most(self.unacked_messages)
        in_vain = self.never_acked is True and held is not None and sent >= COMES_AGAIN * held
        return sent - (held or 0) if in_vain else 0

    @property
    def sent_for(self) -> float | None:
        """Seconds in which it was sent all that it was, at the pace of now; None: not known.

        No more than its life. The pace is that of a full minute, which ended up to a minute ago.
        """
        sent, rate, there = least(self.msg_out_counter), self.msg_rate_out, self.connected_for
        return min(there.seconds, sent / rate) if there is not None and sent and rate else None

    @property
    def in_batches(self) -> bool:
        """Whether it is sent batches: a client sends no ack before all of a batch is done."""
        return max(self.entry_messages_most or 0, self.largest_batch or 0) > 1

    @property
    def none_of(self) -> str:
        """How much of what it was sent is acknowledged, where no ack has arrived."""
        return "no whole batch among" if self.in_batches else "none of"

    @property
    def sent_another_flow(self) -> bool:
        """Whether it has sent a FLOW beyond its first, which comes as it connects."""
        if self.flows is not None:
            return self.flows > 1
        there, flow = self.connected_for, self.since_last_flow
        return bool(
            self.flow_reported and there and flow and there.ms - flow.ms > FIRST_FLOW_MOST_MS
        )

    @property
    def never_gave_back(self) -> bool:
        """Whether it was given more than a queue of 1 takes, and never acknowledged any of it.

        All its life it has looked as it does now, so that no clock is needed to see it.
        """
        held, granted = (
            max(least(self.unacked_messages) or 0, least(self.msg_out_counter) or 0),
            least(self.permits_granted),
        )
        full = self.without_permits and not (
            self.moved or self.blocked_consumer_on_unacked_msgs or self.resting
        )
        never = self.never_acked is True and not self.sent_another_flow
        return full and never and min(held, granted or 0) > 2

    @cached_property
    def idle_for(self) -> Age | None:
        """Since it has had permits and nothing to work on; None where it has, or nothing tells."""
        if not (self.may_receive and self.holds_nothing):
            return None
        if self.since_last_delivery is None and most(self.msg_out_counter) != 0:
            return None
        return _latest((self.connected_for, self.since_last_ack, self.since_last_delivery))

    @property
    def done_in_life(self) -> int | None:
        """Messages finished since it connected; None where only bounds are known.

        What was given back is not finished, so who never acknowledged any has finished none.
        """
        if self.never_acked:
            return 0
        sent, held = exact(self.msg_out_counter), exact(self.unacked_messages)
        return None if sent is None or held is None else sent - held

    @property
    def acked_for(self) -> float | None:
        """Seconds from its start to its last acknowledgement; None where nothing tells."""
        life, acked = self.connected_for, self.since_last_ack
        if life is None or acked is None or not (life.exact and acked.exact):
            return None
        return max(0.0, life.seconds - acked.seconds)

    @property
    def seconds_a_message(self) -> float | None:
        """From one finished message to the next, on average, until the last ack."""
        done, acked_for = self.done_in_life, self.acked_for
        return None if acked_for is None or not done else acked_for / done

    @property
    def pace_has_ended(self) -> bool:
        """Whether no ack came for longer than its pace until the last one explains."""
        silence, each = self.since_last_ack, self.seconds_a_message
        if silence is None or each is None:
            return False
        return ended(silence.seconds, each * self.acks.an_ack)

    @property
    def keys_wait(self) -> bool:
        """Whether others wait for keys of what it holds."""
        keys = self.draining_hashes
        return keys is not None and bool(keys.entries and keys.attempts)

    def quiet_at_least(self, seconds: float) -> bool:
        """Whether it has certainly been quiet for so long."""
        return self.quiet_for is not None and self.quiet_for.ms >= seconds * 1000

    def left_untaken(self, seconds: float) -> int:
        """Messages that have been in its client's queue for so long, at least.

        With fewer permits than half of the queue some are there. A queue is no smaller than its
        permits and what it was sent since its last FLOW together: so much at its usual pace, of its
        life and of now. What comes at that pace in these seconds is younger; where none comes now,
        nothing tells how old a burst is. Who has just been sent the last that it may have is sent
        them until now.
        """
        permits, held = least(self.available_permits), most(self.unacked_messages)
        sent, life, flow = least(self.msg_out_counter), self.connected_for, self.since_last_flow
        rate, known, last = self.msg_rate_out, least(self.queued) or 0, self.since_last_delivery
        if permits is None or held is None or not rate:
            return 0
        if permits <= 0 and (last is None or not last.exact or last.seconds >= seconds):
            return 0
        if sent and life and flow and flow.exact:
            since = flow.seconds * min(rate, sent / life.seconds) / ABOUT
            known = max(known, math.floor(since - max(0, permits)) // 2)
        return max(0, min(held, known) - math.ceil(seconds * rate))

    def held_in_silence(self, seconds: float) -> int:
        """Messages that it has held for so long, at least, while it took and acknowledged none.

        It was sent them at its average pace or at its present one, whichever is faster.
        """
        held, sent = least(self.unacked_messages), exact(self.msg_out_counter)
        worked = self.since_work
        if held is None or sent is None or worked is None or self.connected_for is None:
            return 0
        if self.closed or self.resting or worked.seconds < max(seconds, self.usual_silence):
            return 0
        pace = max(self.msg_rate_out or 0.0, sent / max(1.0, self.connected_for.seconds))
        return max(0, held - math.ceil(seconds * pace))

    @property
    def unusual_after(self) -> float | None:
        """Seconds of silence that would be unusual for it; None where it shows no rhythm.

        Ten times its longest gap, where the window shows three acks or more; without a window two
        minutes, where its rates are of one. Not where it acknowledges more than twice what it is
        sent: that is a burst, as of a checkpoint.
        """
        if self.watched:
            done, sent, apart = self.done, self.delivered, self.acks.apart_ms
            usual = None if apart is None else UNUSUAL * apart / 1000
            return usual if self.works and _steady(done, sent) else None
        steady = _steady(self.message_ack_rate, self.msg_rate_out)
        return 2 * MINUTE if self.works and steady else None

    @property
    def usual_silence(self) -> float:
        """Seconds in which it finishes two messages, or batches, by its life; 0: nothing tells."""
        sent, held = least(self.msg_out_counter), most(self.unacked_messages)
        done = 0 if sent is None or held is None else sent - held
        if done < RHYTHM_NEEDS or self.connected_for is None or not self.connected_for.exact:
            return 0.0
        return min(2 * self.acks.an_ack * self.connected_for.seconds / done, RHYTHM_MOST)

    @property
    def seconds_until_flow(self) -> float | None:
        """Until the next FLOW, at most, at its pace; None where nothing tells."""
        return self._seconds(self.next_flow_after)

    @property
    def flow_expected(self) -> float | None:
        """Seconds until the next FLOW, at most; None where no pace is known, or it is overdue."""
        seconds, quiet = self.seconds_until_flow, self.quiet_for
        is_late = seconds is not None and quiet is not None and quiet.seconds > seconds
        return None if is_late else seconds

    @property
    def seconds_until_sending(self) -> float | None:
        """Until the broker may send to it, at most; None where nothing tells."""
        return self._seconds(self._until_sending)

    @property
    def pace_least(self) -> float | None:
        """Seconds for a message, at least; None where nothing tells.

        Without permits its queue has not been empty since the last delivery, and what it took since
        then is no more than was ever granted.
        """
        granted, since = exact(self.permits_granted), self.since_last_delivery
        if not self.without_permits or not granted or granted < 1 or since is None:
            return None
        return since.seconds / granted

    @property
    def seconds_until_sending_least(self) -> float:
        """The same, at least: 0 where nothing tells. The message in hand may be done any moment."""
        return max(0, (least(self.sending_after) or 0) - 1) * (self.pace_least or 0)

    @property
    def seconds_until_sending_most(self) -> float | None:
        """The same, if it works no slower than it did on the whole; None where nothing tells."""
        until = most(self._until_sending)
        return None if until is None or self.pace_most is None else until * self.pace_most

    @property
    def seconds_of_waiting(self) -> float | None:
        """The whole of this time without permits, what is over included; None: nothing tells.

        It is the same at each moment of it, while what is left of it becomes less. Below zero, as
        batches leave it, FLOWs come meanwhile: only what is left counts.
        """
        left = self.seconds_until_sending
        if left is None or self.pace is None or not self.holds_about:
            return None
        return self._whole(left, self.pace.seconds)

    @property
    def seconds_of_waiting_over(self) -> float:
        """What is over of it, at least: 0 where nothing tells.

        Without permits nothing can have been sent since the last delivery. Below zero FLOWs that
        are not enough come meanwhile, which is ordinary after batches.
        """
        full = self.since_last_delivery
        return full.seconds if full and self.without_permits and not self.below_zero else 0.0

    @property
    def holds_about(self) -> bool:
        """Whether it is known, by and large, how many messages it holds."""
        fewest, at_most = least(self.unacked_messages), most(self.unacked_messages)
        return at_most is not None and at_most <= ABOUT * (fewest or 0)

    @property
    def seconds_of_waiting_most(self) -> float | None:
        """The same, if it works no slower than it did on the whole; None where nothing tells.

        Where no clock tells what is over: fewer than it holds were taken since the last FLOW. Below
        zero each message gives one permit back.
        """
        left, pace, full = self.seconds_until_sending_most, self.pace_most, self.since_last_delivery
        if left is None or pace is None:
            return None
        if self.below_zero and most(self.sending_after) is None:
            return left - (least(self.available_permits) or 0) * pace
        if full is None or full.exact or self.below_zero:
            return self._whole(left, pace)
        return max(left, (most(self.unacked_messages) or 0) * pace)

    def _whole(self, left: float, pace: float) -> float:
        """With what is over, but no more than a whole threshold takes at that pace.

        Without a clock what is left is not distinguished from it: it is as long as either, at
        least.
        """
        full, size = self.since_last_delivery, exact(self.receiver_queue_size)
        if full is None or self.below_zero or not self.without_permits:
            return left
        threshold = self.refill_threshold if size is None else max(1, size // 2)
        whole = left + full.seconds if full.exact else max(left, full.seconds)
        return whole if threshold is None else max(left, min(whole, threshold * pace))

    @property
    def _until_sending(self) -> Count | None:
        """Above zero it is sent more with its next FLOW."""
        return self.next_flow_after if most(self.sending_after) is None else self.sending_after

    def _seconds(self, until: Count | None) -> float | None:
        if self.pace is None or until is None or until.most is None:
            return None
        return until.most * self.pace.seconds

    def sure(self, confidence: float) -> float:
        """Less, where there was no time to see it move."""
        return round(confidence - (0 if self.watched else 0.2), 2)

    def sized(self, size: int) -> ConsumerView:
        """The same with an RQS that somebody knows."""
        held, permits = self.unacked_messages, self.available_permits
        until = self.next_flow_after
        if held is not None and held.most is not None and permits is not None:
            taken = max(0, size - (permits.most or 0) - held.most)
            until = at_most(max(1, size // 2 - taken))
        return replace(
            self,
            receiver_queue_size=exactly(size),
            one_by_one=size == 0,
            all_in_hand=size == 0,
            next_flow_after=until,
            sending_after=None,
        )

    @property
    def outlook(self) -> str:
        """When its next FLOW comes, as a person says it, and when the broker sends after more."""
        until, sending = self.next_flow_after, self.sending_after
        if self.never_sent_flow:
            return "no FLOW yet"
        if until is None or until.most is None or (self.without_permits and self.holds_nothing):
            return "nothing tells when it asks again"
        text = say("{}{}", next_flow(until), self._when)
        if sending is None or sending.most is None or sending.most <= until.most:
            return text
        return say("{}; above 0 permits after {} more", text, sending.most)

    @property
    def _when(self) -> str:
        if self.pace is None or self.pace.at_once or self.flow_expected is None:
            return ""
        origin = ", as given" if self.pace.source == "as told" else ""
        each = duration(self.pace.seconds)
        return say(", in about {} at {} each{}", duration(self.flow_expected), each, origin)

    def measure(self, *names: str) -> tuple[Measure, ...]:
        """Some of its numbers as a finding reports them."""
        return tuple(measured(name, getattr(self, name)) for name in names)

    def measures(self) -> tuple[Measure, ...]:
        """The numbers of a consumer that waits for its next FLOW."""
        zero_or_one = (Measure("receiver_queue_size", "0 or 1", "messages"),)
        size = self.receiver_queue_size
        return (
            *self.measure("available_permits", "unacked_messages", "unacked_entries", "queued"),
            *(zero_or_one if size == Count(0, 1) else self.measure("receiver_queue_size")),
            *self.measure("flows", "msg_out_counter", "next_flow_after"),
            Measure("next_flow_in", rounded(self.seconds_until_flow), "seconds"),
            *self.measure("sending_after", "pace"),
            Measure("pace_source", self.pace.source if self.pace else "cannot tell", ""),
            *self.measure("quiet_for", "since_last_flow"),
        )


def next_flow(until: Count) -> str:
    """After how many messages the next FLOW comes, as a person says it."""
    bound = "at most " if until.exact is None and until.most != 1 else ""
    more = "{:more message}" if until.most == 1 else "{:more messages}"
    return say(f"next FLOW after {{}}{more}", bound, until.most)


def rounded(number: float | None) -> float | None:
    """To the thousandth."""
    return None if number is None else round(number, 3)


def since_last_request(consumers: Iterable[ConsumerView]) -> Age | None:
    """Since the last of them connected or sent a FLOW; None where it is not reported."""
    return _latest(consumer.since_request for consumer in consumers)


def since_last_delivery(consumers: Iterable[ConsumerView]) -> Age | None:
    """Since anything was sent to one of them, or tried to; None where nothing tells."""
    return _latest(consumer.since_last_delivery for consumer in consumers)


def _latest(ages: Iterable[Age | None]) -> Age | None:
    return min((age for age in ages if age is not None), key=lambda age: age.ms, default=None)


def _steady(done: float | None, sent: float | None) -> bool:
    """Whether it acknowledges as much as it is sent, or up to twice as much."""
    return done is not None and sent is not None and 0 < done <= 2 * sent
