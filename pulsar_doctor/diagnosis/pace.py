"""What sets the pace of a subscription, by its view, and what each remedy would bring.

A consumer without permits has a full queue: its application sets the pace, or the round trip, if
that is longer than half of the queue lasts. The statistics do not tell these two apart; a trace
does, by the time from a FLOW to its first message. A consumer at its limit of unacknowledged
messages waits for its own acknowledgements. On Key_Shared a full consumer beside others that rest
has the busy keys. Where consumers have permits and messages wait, a rate limit of the broker holds
them back, or its reads. The arithmetic, and what it assumes, is in `model/levers.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pulsar_doctor.evidence.balance import Balance
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import exact, least, most
from pulsar_doctor.model.levers import (
    Lever,
    LimitName,
    Workload,
    levers,
    rounds,
    sets_the_pace,
)
from pulsar_doctor.wording.durations import duration, per_second
from pulsar_doctor.wording.printable import listed

MOSTLY = 0.5  # of the samples
AGAIN_LEAST = 0.1  # of the deliveries: fewer redeliveries do not set the pace
AGAIN_MOST = 0.95  # with more nothing gets done, and no rate follows
MANY = 20  # messages of a window, before it shows a share
LONGEST_TRIP = 1.0  # seconds: no round trip between a client and its broker is longer
NEAR = 0.8  # of a round
QUEUE_LASTS = 30.0  # seconds: who holds so much is full, with whatever permits
AT_ONCE_MOST = 100  # messages: no pool works on more
SECONDS_BEHIND = 1.0  # of messages that wait: fewer are on their way

SetBy = Literal[LimitName, "arrivals", "redeliveries", "broker", "moving-keys", "not-known"]
BY_NO_LIMIT = {
    "arrivals": "nothing waits: producers set the pace",
    "broker": "consumers could receive and messages wait: the broker's reads set the pace",
    "moving-keys": "what waits does so until its keys' earlier consumer acknowledges",
    "not-known": "nothing tells what sets the pace",
}


@dataclass(frozen=True, slots=True)
class Limit:
    """One possible limit: how many messages a second it allows, and what was seen of it."""

    limit: str
    most: float | None  # None: not known, or it is no limit
    why: str


@dataclass(frozen=True, slots=True)
class SubscriptionPace:
    """What sets the pace, the evidence for each possible limit, and what each remedy brings."""

    set_by: SetBy
    who: tuple[str, ...]  # consumers that are at this limit
    rate: float  # messages finished a second now
    arrivals: float | None  # messages a second
    summary: str
    limits: tuple[Limit, ...]  # the one that sets the pace first
    assumptions: tuple[str, ...]
    work: Workload | None  # the same in numbers; None: no remedy follows from them

    @property
    def levers(self) -> tuple[Lever, ...]:
        """What each remedy would bring; computed where somebody wants it."""
        return levers(self.work) if self.work else ()


@dataclass(frozen=True, slots=True)
class _Case:
    """One subscription while its pace is looked for: who has a full queue, is at its limit, or
    neither; messages finished a second, and the share of redeliveries."""

    view: SubscriptionView
    full: tuple[ConsumerView, ...]
    limited: tuple[ConsumerView, ...]
    rest: tuple[ConsumerView, ...]
    rate: float
    again: float

    @property
    def waits(self) -> bool:
        """Whether more could be sent than what is on its way."""
        waits = max(least(self.view.left) or 0, least(self.view.replay) or 0)
        return waits > SECONDS_BEHIND * (self.rate if self.view.delivered else 0)

    @property
    def for_keys(self) -> bool:
        """Whether nearly all that waits was read, and may wait for a key's earlier consumer."""
        keys, left = self.view.key_order, most(self.view.left)
        draining = any(each.keys_wait for each in self.view.served)
        read = left is not None and (least(self.view.replay) or 0) >= NEAR * left
        return bool(keys and not keys.out_of_order and draining and read)

    @property
    def size(self) -> int | None:
        """The receiver queue size of those that are busy; otherwise what the fullest holds."""
        busy = self.full or self.rest
        sizes = [exact(each.receiver_queue_size) for each in busy]
        held = [most(each.unacked_messages) for each in busy]
        return max(filter(None, sizes), default=None) or max(filter(None, held), default=None)

    @property
    def trip(self) -> float | None:
        """Seconds of a round trip; None: not reported."""
        trips = [each.round_trip_seconds for each in self.full or self.rest]
        return min((trip for trip in trips if trip), default=None)

    @property
    def trip_bound(self) -> float | None:
        """From which round trip on the queue sets the pace; None where the trip is known."""
        known = self.trip is not None or not self.size
        return None if known else (self.size or 0) * len(self.full) / (2 * self.rate)

    def plain(self, **limits: Any) -> Workload:
        """Without any limit that is not given."""
        kind = (self.view.type or "shared").lower()
        return replace(Workload(type=kind, consumers=len(self.view.served)), **limits)


def pace_of(view: SubscriptionView, balance: Balance) -> SubscriptionPace | None:
    """None where nothing waits, nobody takes messages, or nothing tells how fast."""
    served = [each for each in view.served if not each.closed]
    if not served or view.gap or view.refused or view.own or view.hides_partitions:
        return None
    limited = tuple(each for each in served if _at_limit(each))
    even = _even(view, balance)
    full = tuple(each for each in served if _full(view, each, even) and not _at_limit(each))
    if view.nothing_left and not (full or limited):
        return None
    rest = tuple(each for each in served if not (_full(view, each, even) or _at_limit(each)))
    full = tuple(each for each in full if each.works or each.moved)  # others hang
    again = _again(view, balance)
    alone = not any(each.delivered for each in rest)
    out = balance.sent_out.about if again and balance.sent_out else 0.0
    rate = (out or _deliveries(balance, (full or limited) if alone else ())) * (1 - again)
    if not rate or again > AGAIN_MOST:
        return None
    if full and view.nothing_left and view.type == "Shared" and not alone:
        return None  # most of that rate is of others: it tells nothing of the full ones' work
    case = _Case(view, full, limited, rest, rate, again)
    set_by, work = _found(case)
    arrivals = None if balance.comes_in is None else balance.comes_in.about
    waits = balance.waits_messages
    backlog = None if waits is None else (least(waits) or 0) + (most(view.unacked) or 0)
    work = work and replace(work, arrivals=arrivals, backlog=backlog)
    at_it = {"acknowledgements": limited, "dispatch": ()}.get(set_by, full)
    return SubscriptionPace(
        set_by,
        tuple(each.label for each in at_it),
        rate,
        arrivals,
        _summary(case, set_by, work, at_it),
        tuple(sorted(_limits(case, work), key=lambda each: each.limit != set_by)),
        tuple(_assumed(case, set_by)),
        work,
    )


def _full(view: SubscriptionView, consumer: ConsumerView, even: bool) -> bool:
    """Without permits in most samples, or with a queue that lasts for long, unless it is even.

    A sole consumer forgot what remains between acknowledged ranges: that waits for no work. Nor
    does what was taken, if that is more than anybody works on at once and does not pile up: it was
    given back, and only its client holds it until it is due again.
    """
    share, held = consumer.full_share, most(consumer.unacked_messages)
    full = consumer.without_permits if share is None else share >= MOSTLY
    forgot = view.ranges.count if view.ranges and len(view.served) == 1 else 0
    own = consumer.in_hand
    held_back = own is not None and not own.piles_up and own.messages > AT_ONCE_MOST
    queued = max(0.0, 1 - forgot / held) if held else 1.0
    return full or (
        not (even or held_back) and (consumer.drain_seconds or 0) * queued > QUEUE_LASTS
    )


def _even(view: SubscriptionView, balance: Balance) -> bool:
    """Whether all is sent, and about as much is finished as comes in: then producers set the pace,
    however much is held."""
    came, done = balance.comes_in, balance.acknowledged
    if not (view.nothing_left and came and done and came.about):
        return False
    return NEAR * came.about <= done.about <= came.about


def _at_limit(consumer: ConsumerView) -> bool:
    flag = consumer.full_share is None and bool(consumer.blocked_consumer_on_unacked_msgs)
    return flag or consumer.blocked_share >= MOSTLY


def _again(view: SubscriptionView, balance: Balance) -> float:
    """The share of the deliveries that are redeliveries, by the window or the last minute."""
    sent = view.circulation.window if view.circulation else None
    again, out = balance.redelivered, balance.sent_out
    share = again.about / out.about if again and out and out.about else 0.0
    if sent is not None and sent.messages >= MANY:
        share = max(share, sent.again / sent.messages, sent.given_back / sent.messages)
        if share >= AGAIN_LEAST:  # then what is sent and does not end the backlog is done twice
            share = max(share, 1 - sent.acknowledged / sent.messages)
    return min(share, 1.0) if share >= AGAIN_LEAST else 0.0


def _deliveries(balance: Balance, busy: Sequence[ConsumerView]) -> float:
    """Messages a second that came back: by the paces of all that are busy, or as counted."""
    paces = [each.pace.seconds if each.pace else 0.0 for each in busy]
    by_paces = sum(1 / pace for pace in paces) if paces and all(paces) else 0.0
    acked, out = balance.acknowledged, balance.sent_out
    if acked is None or not acked.about:
        return by_paces or (0.0 if out is None else out.about)
    fits = (acked.least or 0) <= by_paces and (acked.most is None or by_paces <= acked.most)
    return by_paces if fits and by_paces else acked.about


def _found(case: _Case) -> tuple[SetBy, Workload | None]:
    """What sets the pace, and the numbers from which its remedies follow."""
    throttling, by_queue = case.view.throttling, _queued(case)
    if throttling and throttling.lately and throttling.ready >= MOSTLY and case.waits:
        return "dispatch", case.plain(dispatch_rate=case.rate)
    if case.again:
        return "redeliveries", _application(case)
    if len(case.limited) * 2 >= len(case.view.served):
        return "acknowledgements", _acknowledging(case)
    if case.full and case.rest and case.view.type == "Key_Shared" and case.waits:
        return "key", _keyed(case)
    if by_queue is not None:
        return "queue", by_queue
    if case.full:
        return "application", _application(case)
    if not case.waits and case.view.left is not None:
        return "arrivals", None
    if case.for_keys:
        return "moving-keys", None
    ready = len(case.rest) == len(case.view.served) and any(c.may_receive for c in case.rest)
    return ("broker" if ready and case.waits and case.view.watched else "not-known"), None


def _application(case: _Case) -> Workload:
    """The consumers have full queues: each has as many workers as it holds taken messages, unless
    these pile up."""
    busy = case.full or case.view.served
    taken = [each.in_hand for each in busy]
    hands = [own.messages if own and not own.piles_up else 1 for own in taken]
    at_once = max(1, min(hands))
    alone = case.waits or case.view.type != "Shared"
    return case.plain(
        consumers=len(busy),
        at_once=at_once,
        process_seconds=at_once * len(busy) * (1 - case.again) / case.rate,
        again_share=case.again,
        receiver_queue_size=case.size,
        round_trip_seconds=case.trip or 0.0,
        idle=0 if alone else len(case.rest),
    )


def _acknowledging(case: _Case) -> Workload:
    limits = [
        each.max_unacked_messages_per_consumer or most(each.unacked_messages) or 1
        for each in case.limited
    ]
    held = min(limits) * len(limits) / case.rate
    return case.plain(unacked_limit=min(limits), held_seconds=held)


def _keyed(case: _Case) -> Workload:
    """The busiest consumer's share of all messages is that of the key and of an even rest."""
    share, many, work = _hot_share(case), len(case.view.served), _application(case)
    key = max(0.0, (share - 1 / many) / (1 - 1 / many))
    return replace(
        work, consumers=many, key_share=key, process_seconds=work.at_once / (case.rate * share)
    )


def _hot_share(case: _Case) -> float:
    """The hot share of full consumers: by what came in, of which others had the rest; else by what
    was sent.

    The broker reads on for the others while few entries wait for a full one (its look-ahead).
    """
    hot = sum(each.delivered or 0 for each in case.full)
    others = sum(each.delivered or 0 for each in case.rest)
    published, waits = case.view.published, most(case.view.left)
    all_read = waits is not None and (least(case.view.replay) or 0) >= NEAR * waits
    if all_read and published and others < published:
        share = 1 - others / published
    else:
        share = hot / (hot + others) if hot + others else 1.0
    return max(share, 1 / len(case.view.served))


def _queued(case: _Case) -> Workload | None:
    """The queues run empty: a round trip is longer than the rest of the queue lasts."""
    busy, size, trip = len(case.full or case.rest), case.size, case.trip
    if size is None or not trip:
        return None
    messages, works = rounds(size)
    seconds = messages * busy / case.rate  # of a round
    work = max(0.0, seconds - trip) / max(1, works)
    if NEAR * seconds <= trip:
        work = 0.0  # what is left of a round is no more than a round trip varies
    elif not works or trip <= (messages - works) * work or not case.full:
        return None
    return case.plain(
        consumers=busy,
        process_seconds=work,
        receiver_queue_size=size,
        round_trip_seconds=seconds - works * work,
    )


def _summary(
    case: _Case, set_by: SetBy, work: Workload | None, at_it: Sequence[ConsumerView]
) -> str:
    text = BY_NO_LIMIT.get(set_by) or (sets_the_pace(work) if work else "")
    if set_by == "redeliveries":
        text = f"{case.again:.0%} of the messages are sent again, which is work done twice"
    who = listed([each.label for each in at_it], 3) if work else ""
    return f"{per_second(case.rate)}: {text}{f' ({who})' if who else ''}"


def _assumed(case: _Case, set_by: SetBy) -> Iterator[str]:
    """What was not measured, and the figures rest on."""
    yield "messages and consumers are alike, and no other limit comes first"
    bound = case.trip_bound
    if set_by == "application" and bound is not None and bound < LONGEST_TRIP:
        yield (
            f"a round trip takes less than {duration(bound)}; otherwise the receiver queue sets "
            "the pace: a trace or `examine` tells"
        )
    if set_by == "acknowledgements" and not all(each.in_hand for each in case.limited):
        yield "the application works on all that it holds, not on one message at a time"
    if set_by == "key":
        yield "the busy messages have one key; several of them spread over more consumers"


def _limits(case: _Case, work: Workload | None) -> Iterator[Limit]:
    """The evidence for each limit, and against the others."""
    rates = {name: rate for name, rate in work.ceilings.items() if rate < 1e9} if work else {}
    served, bound, throttling = len(case.view.served), case.trip_bound, case.view.throttling
    full = f"{len(case.full)} of {served} consumers have a full queue"
    trip = "no queue is full" if case.trip is None else f"a round trip: {duration(case.trip)}"
    if bound is not None and case.full:
        trip = f"only if a round trip takes more than {duration(bound)}, which is not reported"
    held_back = "throttled reads are not reported"
    if throttling is not None:
        limits = listed(list(dict.fromkeys(each.limit_of for each in throttling.lately)), 3)
        held_back = f"held back by the limit of: {limits or 'none in the window'}"
    yield Limit("application", rates.get("application"), full)
    yield Limit("queue", rates.get("queue"), trip)
    at_limit = f"{len(case.limited)} of {served} consumers are at their limit"
    yield Limit("acknowledgements", rates.get("acknowledgements"), at_limit)
    if case.view.type == "Key_Shared":
        yield Limit("key", rates.get("key"), f"{full}, {len(case.rest)} rest")
    yield Limit("dispatch", rates.get("dispatch"), held_back)
    again = f"{case.again:.0%} of the deliveries" if case.again else "few or none were seen"
    yield Limit("redeliveries", case.rate if case.again else None, again)
