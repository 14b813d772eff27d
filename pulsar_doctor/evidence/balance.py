"""What comes into a subscription and what leaves: whether it keeps up with its producers.

It falls behind where producers publish faster than messages are sent to consumers for the first
time: a consumer that is slow is sent no more than it acknowledges once its queue is full. Until
then consumers hold more and more. Between two checkpoints they do so, too; so acknowledgements
count only where they come all the time and move mark-delete.

A burst is the same from outside. So it is certain only if what waits took longer to gather, at the
pace of now, than the longest burst that is allowed for; or if a window of that length shows it. The
rates of the broker are of the last full minute, and the window may be of a few seconds: where both
are known, each flow is between both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Literal

from pulsar_doctor.broker.stats.observed import SHARING, SINGLE_ACTIVE
from pulsar_doctor.broker.stats.window import MINUTE, RATE_SECONDS
from pulsar_doctor.evidence.circulation import STEP, Sent
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import Count, least, most

LONGEST_BURST = 450.0  # seconds: five minutes, and half as much again for a burst that fades
TRACED = MINUTE + STEP / 2  # seconds of a trace that `lately` counts, about
FLOW_MOST = 1000  # messages that a consumer asks for at once: two of these parts by default
EVEN = 0.1  # of what comes in: a smaller difference is neither growth nor a fall

KeepsUp = Literal["keeps-up", "catches-up", "falls-behind", "not-known"]


@dataclass(frozen=True, slots=True)
class FlowRate:
    """How many a second, between bounds; below 0 where something falls. None: no bound there."""

    about: float
    least: float | None
    most: float | None
    seconds: float  # of which it was measured

    @property
    def rises(self) -> bool:
        """Whether it is above 0 for certain."""
        return self.least is not None and self.least > 0

    def may_be(self, a_second: float) -> bool:
        """Whether that is between the bounds."""
        return (self.least or 0.0) <= a_second <= (math.inf if self.most is None else self.most)

    @property
    def at_least(self) -> FlowRate:
        """The same without an upper bound."""
        return FlowRate(self.about, self.least, None, self.seconds)


@dataclass(frozen=True, slots=True)
class Balance:
    """Flows in messages a second, and what they make of what waits. None: not reported."""

    pace: KeepsUp = "not-known"
    comes_in: FlowRate | None = None
    sent_out: FlowRate | None = None  # sent, also again
    acknowledged: FlowRate | None = None
    redelivered: FlowRate | None = None  # sent again: work that is done twice
    expired: FlowRate | None = None
    growth: FlowRate | None = None  # of the messages that wait to be sent, or to be acknowledged
    growth_entries: FlowRate | None = None  # of the backlog without what is delayed
    waits: Count | None = None  # entries that could be sent now
    waits_messages: Count | None = None  # the same in messages; with those held, if these decide
    delayed: Count | None = None  # entries that are not due
    since_empty: float | None = None  # seconds, in which all that waits gathered at most
    # catches-up: until nothing waits. not-known: for how long to watch. Otherwise None.
    seconds: float | None = None

    @property
    def a_minute(self) -> int | None:
        """By how much the backlog grows in a minute: in the window, or by the rates.

        What was sent lets it fall only where something was acknowledged or expired. Rates of
        consumers that connected less than a minute ago bound what was sent from below only.
        """
        rate = self.growth_entries or self.growth
        if rate is None or (rate is self.growth and not self._shows_by_rates(rate)):
            return None
        return round(rate.about * MINUTE)

    def _shows_by_rates(self, growth: FlowRate) -> bool:
        return self._is_acknowledged if growth.about < 0 else growth.least is not None

    @property
    def _is_acknowledged(self) -> bool:
        """Whether anything was acknowledged, or expired, as far as reported."""
        return any(
            each is not None and each.about > 0 for each in (self.acknowledged, self.expired)
        )

    @property
    def mostly_again(self) -> bool:
        """Whether half or more of what is sent was sent before."""
        again, sent = self.redelivered, self.sent_out
        return again is not None and sent is not None and 0 < sent.about <= 2 * again.about

    @property
    def gathered_seconds(self) -> float | None:
        """In how long what waits gathers at the pace of now, at least; None: it does not grow."""
        growth, fewest = self.growth, least(self.waits_messages)
        if growth is None or not growth.rises or not growth.most or fewest is None:
            return None
        gathered = fewest / growth.most
        return gathered if self.since_empty is None else min(gathered, self.since_empty)


RATES = tuple(each.name for each in fields(Balance) if each.type == "FlowRate | None")


def balance_of(view: SubscriptionView, longest_burst: float = LONGEST_BURST) -> Balance:
    """The balance of one subscription. longest_burst: seconds that are no falling behind."""
    comes_in, out, again = _comes_in(view), _sent(view), _again(view)
    first = _less(out, again) if out and again else out
    found = Balance(
        pace="keeps-up" if most(view.left) == 0 else "not-known",
        comes_in=comes_in,
        sent_out=out,
        acknowledged=_acknowledged(view),
        redelivered=again,
        expired=_measured(view, view.msg_rate_expired, view.expired),
        growth=_growth(view, comes_in, first),
        growth_entries=_growth_entries(view),
        waits=view.left,
        waits_messages=_messages(view),
        delayed=Count(0, 0) if view.type in SINGLE_ACTIVE else view.delayed,
        since_empty=view.since_empty,
    )
    pace, seconds = _pace(found, longest_burst)
    by_acks = None if pace == "falls-behind" else _held(view, found, first)
    if by_acks is not None and (by_acks.gathered_seconds or 0.0) >= longest_burst:
        return replace(by_acks, pace="falls-behind")
    same = pace == found.pace and seconds is None
    return found if same else replace(found, pace=pace, seconds=seconds)


def _held(view: SubscriptionView, of: Balance, first: FlowRate | None) -> Balance | None:
    """The same by what consumers hold, if they acknowledge all the time, and less than comes in.

    Single active consumers do not report what they hold, and one ack may stand for many messages.
    """
    acked, comes_in, moved = of.acknowledged, of.comes_in, view.since_mark_delete
    if not view.message_ack_rate or view.unacked is None or view.type not in SHARING:
        return None
    if acked is None or acked.most is None or comes_in is None or first is None or moved is None:
        return None
    last = min((each.since_last_ack.ms for each in view.served if each.since_last_ack), default=0)
    if moved.seconds - last / 1000 > MINUTE:
        return None
    acked = _between(counted(round(view.message_ack_rate * MINUTE), MINUTE), acked)
    grows = _less(comes_in, acked)
    if not grows.rises or not _less(first, acked).rises:
        return None
    return replace(of, growth=grows, waits_messages=view.unacked)


def _pace(of: Balance, longest_burst: float) -> tuple[KeepsUp, float | None]:
    """What the flows make of what waits, and how long that takes or has to be watched."""
    growth, waits, comes_in = of.growth, of.waits_messages, of.comes_in
    if of.pace == "keeps-up":
        return of.pace, None
    if growth is None or waits is None or comes_in is None:
        return "not-known", longest_burst
    if growth.most is not None and growth.most < 0:
        return "catches-up", (most(waits) or least(waits) or 0) / -growth.about
    if growth.rises:
        most_seconds = math.inf if of.since_empty is None else of.since_empty
        shown = min(max(of.gathered_seconds or 0.0, growth.seconds), most_seconds)
        if shown < longest_burst:
            return "not-known", max(MINUTE, longest_burst - shown)
        return ("not-known", MINUTE) if _backlog_falls(of) else ("falls-behind", None)
    few = (most(waits) or math.inf) <= comes_in.about * MINUTE
    return ("keeps-up", None) if few or _even(growth, comes_in) else ("not-known", longest_burst)


def _even(growth: FlowRate, comes_in: FlowRate) -> bool:
    """Whether what waits stays about the same."""
    return (
        growth.least is not None
        and growth.most is not None
        and (max(-growth.least, growth.most) <= EVEN * comes_in.about)
    )


def _backlog_falls(of: Balance) -> bool:
    """Whether the backlog shrank in the window all the same, though nothing expired.

    In a short one not even one more batch need have come.
    """
    entries, expired, growth, waits = of.growth_entries, of.expired, of.growth, of.waits
    if entries is None or growth is None or waits is None or (expired and expired.about):
        return False
    batch = (most(of.waits_messages) or 0) / (waits.most or 1)
    few = (growth.least or 0.0) * entries.seconds < batch
    return entries.about < 0 or (entries.about == 0 and not few)


def _growth(
    view: SubscriptionView, comes_in: FlowRate | None, first: FlowRate | None
) -> FlowRate | None:
    """first: sent for the first time. No lower bound where what comes in need not be sent now."""
    if comes_in is None or first is None:
        return None
    found = _at_pace_of_now(view, _less(comes_in, first))
    delayed = view.type not in SINGLE_ACTIVE and most(view.delayed) != 0
    fewest = None if delayed or view.filtered else found.least
    return replace(found, least=fewest, seconds=min(found.seconds, first.seconds))


def _at_pace_of_now(view: SubscriptionView, window: FlowRate) -> FlowRate:
    """The same at the pace of now; of a window that grew in its last minute faster, between both:
    that may be a burst.

    What waits then gathers in less time than the window, at the pace of now.
    """
    rates = view.msg_rate_in, view.msg_rate_out
    if window.seconds <= MINUTE or None in rates:
        return window
    comes_in, out = (round((rate or 0.0) * MINUTE) for rate in rates)
    again = round((view.msg_rate_redeliver or 0.0) * MINUTE)
    now = _less(counted(comes_in, MINUTE), counted(max(0, out - again), MINUTE))
    faster = (now.least or 0.0) > (math.inf if window.most is None else window.most)
    return _between(now, window) if faster and now.rises else window


def _comes_in(view: SubscriptionView) -> FlowRate | None:
    return _measured(view, view.msg_rate_in, view.published)


def _sent(view: SubscriptionView) -> FlowRate | None:
    if view.msg_rate_out is None and view.delivered is None and (lately := _lately(view)):
        return counted(lately.messages, TRACED)
    return _of_consumers(view, view.msg_rate_out, view.delivered)


def _again(view: SubscriptionView) -> FlowRate | None:
    """Sent again: by counters at least so many."""
    if view.msg_rate_redeliver is None and (lately := _lately(view)):
        return counted(lately.again, TRACED)
    return _measured(view, view.msg_rate_redeliver, None)


def _acknowledged(view: SubscriptionView) -> FlowRate | None:
    """Acknowledged messages; one acknowledgement of a single active consumer may cover many."""
    done = [each.done for each in view.served]
    known = sum(each or 0 for each in done) if done and None not in done else None
    if view.msg_rate_redeliver and view.message_ack_rate is not None:
        known = None  # what is given back counts there, too
    if view.message_ack_rate is None and known is None and (lately := _lately(view)):
        return counted(lately.acknowledged, TRACED)
    found = _of_consumers(view, view.message_ack_rate, known)
    return found.at_least if found and view.type in SINGLE_ACTIVE else found


def _lately(view: SubscriptionView) -> Sent | None:
    """The last minute of a trace, message by message; None where it shows less."""
    if view.circulation is None or view.circulation.recent is None:
        return None
    there = (each.connected_for for each in view.served)
    long = any(each is not None and each.seconds >= TRACED for each in there)
    return view.circulation.lately(MINUTE) if long else None


def _growth_entries(view: SubscriptionView) -> FlowRate | None:
    """How the backlog changed in the window, without what is delayed."""
    change, seconds = view.backlog_change, view.watched_seconds
    if change is None or not seconds:
        return None
    if view.type not in SINGLE_ACTIVE and most(view.delayed) != 0:
        if view.delayed_change is None:
            return None
        change -= view.delayed_change
    return FlowRate(change / seconds, change / seconds, change / seconds, seconds)


def _messages(view: SubscriptionView) -> Count | None:
    """What could be sent, in messages: an entry has about as many as those that were sent lately.

    Batches differ in size, so that half as many are certain.
    """
    if view.left is None:
        return None
    batches = [each.entry_messages_most for each in view.served]
    batch = None if None in batches else max((each or 1 for each in batches), default=None)
    fewest, longest = view.left.least, view.left.most
    return Count(
        None if fewest is None else fewest * max(1, (batch or 1) // 2),
        None if batch is None or longest is None else longest * batch,
    )


def _of_consumers(view: SubscriptionView, rate: float | None, count: int | None) -> FlowRate | None:
    """The same of what consumers did, who are sent what they ask for at once.

    The rates of one that has just come, or left, leave out its past.
    """
    lives = [each.connected_for for each in view.served]
    young = not lives or any(each is None or each.seconds < RATE_SECONDS for each in lives)
    part = sum(map(_requested, view.served)) // 2 if count is not None and rate is not None else 0
    found = _measured(view, rate, count, part)
    long = (view.watched_seconds or 0.0) >= RATE_SECONDS and count is not None
    return found.at_least if found is not None and young and not long else found


def _requested(each: ConsumerView) -> int:
    """Messages that it has and may be sent, up to what is usual."""
    held, permits = most(each.unacked_messages) or 0, most(each.available_permits) or 0
    return min(FLOW_MOST, held + max(0, permits))


def _measured(
    view: SubscriptionView, rate: float | None, count: int | None, part: int = 0
) -> FlowRate | None:
    """By the broker's last full minute, or by a window that is longer; where these differ, by both.

    part: messages that may move at once.
    """
    seconds = view.watched_seconds
    window = counted(count, seconds, part) if count is not None and seconds else None
    minute = None if rate is None else counted(round(rate * MINUTE), MINUTE)
    if window is None or minute is None:
        return window or minute
    if window.seconds >= RATE_SECONDS:
        return window
    return minute if window.may_be(minute.about) else _between(minute, window)


def _between(minute: FlowRate, window: FlowRate) -> FlowRate:
    """The mean of both; about as in the window, which is newer."""
    fewest, longest = minute.least or 0.0, math.inf if window.most is None else window.most
    bounds = min(fewest, window.least or 0.0), max(minute.most or 0.0, longest)
    return FlowRate(window.about, *bounds, minute.seconds)


def counted(number: int, seconds: float, part: int = 0) -> FlowRate:
    """A count in so many seconds. Another such time would show some more, or fewer."""
    chance = 2 * math.sqrt(number) + 1 + part
    return FlowRate(
        number / seconds, max(0.0, number - chance) / seconds, (number + chance) / seconds, seconds
    )


def _less(one: FlowRate, other: FlowRate) -> FlowRate:
    """The difference of two rates."""
    fewest = None if one.least is None or other.most is None else one.least - other.most
    longest = None if one.most is None or other.least is None else one.most - other.least
    return FlowRate(one.about - other.about, fewest, longest, one.seconds)
