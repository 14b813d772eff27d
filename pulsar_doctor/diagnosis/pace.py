"""What sets the pace of a subscription, by its view, and what each remedy would bring.

A consumer without permits has a full queue: its application sets the pace, or the round trip, if
that is longer than half of the queue lasts. The statistics do not tell these two apart; a trace
does, by the time from a FLOW to its first message. A consumer at its limit of unacknowledged
messages waits for its own acknowledgements. On Key_Shared a full consumer beside others that rest
has the busy keys. Where consumers have permits and messages wait, a rate limit of the broker holds
them back, or its reads. The arithmetic, and what it assumes, is in `model/levers.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pulsar_doctor.evidence.balance import Balance, balance_of
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least, most, told
from pulsar_doctor.model.clients import refill_threshold
from pulsar_doctor.model.levers import Lever, LimitName, Workload, levers, sets_the_pace
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import listed

MOSTLY = 0.5  # of the samples
AGAIN_LEAST = 0.1  # of the deliveries: fewer redeliveries do not set the pace
LONGEST_TRIP = 1.0  # seconds: no round trip between a client and its broker is longer
NEAR = 0.8  # of a round
MANY = 20  # messages of a window, before it shows a share
SECONDS_BEHIND = 1.0  # of arrivals that wait: less is on its way
NAMED_MOST = 3

SetBy = Literal[LimitName, "arrivals", "redeliveries", "broker", "not-known"]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One possible limit, and whether it sets the pace."""

    limit: str
    most: float | None  # messages a second that it allows; None: not known, or it is no limit
    why: str  # what was seen


@dataclass(frozen=True, slots=True)
class SubscriptionPace:
    """What sets the pace, the evidence for each possible limit, and what each remedy brings."""

    set_by: SetBy
    who: tuple[str, ...]  # consumers that are at this limit
    rate: float  # messages finished a second now
    arrivals: float | None  # messages a second
    ceilings: tuple[Ceiling, ...]
    levers: tuple[Lever, ...]
    assumptions: tuple[str, ...]
    summary: str


@dataclass(frozen=True, slots=True)
class _Case:
    """One subscription while its pace is looked for."""

    view: SubscriptionView
    balance: Balance
    full: tuple[ConsumerView, ...]
    limited: tuple[ConsumerView, ...]
    rest: tuple[ConsumerView, ...]
    rate: float  # messages finished a second
    again: float  # share of redeliveries

    @property
    def waits(self) -> bool:
        """Whether anything could be sent."""
        least_waits = max(least(self.view.left) or 0, least(self.view.replay) or 0)
        return least_waits > SECONDS_BEHIND * (self.rate if self.view.delivered else 0)


def pace_of(view: SubscriptionView) -> SubscriptionPace | None:
    """None where nobody takes messages, or nothing tells how fast."""
    served = tuple(each for each in view.served if not each.closed)
    if not served or view.gap or view.refused or view.own or view.hides_partitions:
        return None
    balance = balance_of(view)
    limited = tuple(each for each in served if _at_limit(each))
    full = tuple(each for each in served if each not in limited and _full(each))
    rest = tuple(each for each in served if each not in (*limited, *full))
    full = tuple(each for each in full if each.works or each.moved)  # others hang
    rate, again = _rate(view, balance, full or limited), _again(view, balance)
    if not rate:
        return None
    case = _Case(view, balance, full, limited, rest, rate, again)
    set_by, work = _found(case)
    work = work and replace(work, arrivals=_about(balance), backlog=_backlog(case))
    tried = levers(work) if work else ()
    return SubscriptionPace(
        set_by, _who(case, set_by), rate, _about(balance), _ceilings(case, set_by, work),
        tried, _assumed(case, set_by), _summary(case, set_by, work),
    )  # fmt: skip


def _full(consumer: ConsumerView) -> bool:
    if consumer.full_share is not None:
        return consumer.full_share >= MOSTLY
    return consumer.without_permits


def _at_limit(consumer: ConsumerView) -> bool:
    by_samples = consumer.blocked_share >= MOSTLY
    return by_samples or (consumer.full_share is None and _blocked(consumer))


def _blocked(consumer: ConsumerView) -> bool:
    return bool(consumer.blocked_consumer_on_unacked_msgs)


def _about(balance: Balance) -> float | None:
    return None if balance.comes_in is None else balance.comes_in.about


def _backlog(case: _Case) -> int | None:
    """Messages that wait, those included that consumers hold."""
    waits, held = case.balance.waits_messages, most(case.view.unacked) or 0
    if waits is None:
        return None
    return (least(waits) or 0) + held


def _again(view: SubscriptionView, balance: Balance) -> float:
    """The share of the deliveries that are redeliveries, by the window or the last minute."""
    sent = view.circulation.window if view.circulation else None
    again, out = balance.redelivered, balance.goes_out
    share = again.about / out.about if again and out and out.about else 0.0
    if sent is not None and sent.messages >= MANY:
        share = max(share, sent.again / sent.messages, sent.given_back / sent.messages)
    return min(share, 0.99) if share >= AGAIN_LEAST else 0.0


def _rate(view: SubscriptionView, balance: Balance, busy: tuple[ConsumerView, ...]) -> float:
    """Messages finished a second: what each busy one does, or what is acknowledged, or sent."""
    useful = 1 - _again(view, balance)
    paces = [each.pace.seconds if each.pace else None for each in busy]
    done = sum(1 / pace for pace in paces if pace)
    acked, out = balance.acknowledged, balance.goes_out
    if acked is not None and acked.about and acked.about * acked.seconds >= len(busy):
        return acked.about * useful  # what came back is counted with it
    if done and None not in paces:
        return done * useful
    return out.about * useful if out is not None else 0.0


def _found(case: _Case) -> tuple[SetBy, Workload | None]:
    """What sets the pace, and the numbers from which its remedies follow."""
    throttling = case.view.throttling
    if throttling and throttling.lately and throttling.ready >= MOSTLY and case.waits:
        return "dispatch", _plain(case, dispatch_rate=case.rate)
    if case.again:
        return "redeliveries", _application(case)
    if len(case.limited) * 2 >= len(case.view.served):
        return "acknowledgements", _acknowledging(case)
    if case.full and case.rest and case.view.type == "Key_Shared" and case.waits:
        return "key", _keyed(case)
    return _by_queues(case)


def _by_queues(case: _Case) -> tuple[SetBy, Workload | None]:
    by_queue = _queued(case)
    if by_queue is not None:
        return "queue", by_queue
    if case.full:
        return "application", _application(case)
    if not case.waits:
        return ("arrivals" if case.view.left is not None else "not-known"), None
    return ("broker" if case.view.watched else "not-known"), None


def _plain(case: _Case, **more: float) -> Workload:
    """Without any limit that is not given."""
    kind = (case.view.type or "shared").lower()
    return replace(Workload(type=kind, consumers=len(case.view.served)), **more)


def _application(case: _Case) -> Workload:
    """Its consumers have full queues: each has as many workers as it holds taken messages."""
    busy = case.full or case.view.served
    at_once = _at_once(busy)
    out = case.rate / (1 - case.again)
    work = _plain(
        case,
        consumers=len(busy),
        at_once=at_once,
        process_seconds=at_once * len(busy) / out,
        again_share=case.again,
    )
    size, trip = _size(busy), _trip(busy)
    waits = () if case.waits or case.view.type != "Shared" else case.rest
    return replace(work, receiver_queue_size=size, round_trip_seconds=trip or 0.0, idle=len(waits))


def _at_once(busy: tuple[ConsumerView, ...]) -> int:
    """Messages that each works on, at least; 1 where nothing shows more."""
    known = [each.in_hand.messages for each in busy if each.in_hand is not None]
    return max(1, min(known)) if len(known) == len(busy) else 1


def _acknowledging(case: _Case) -> Workload:
    limits = [_limit(each) for each in case.limited]
    limit = max(1, min(limits, default=1))
    each = case.rate / max(1, len(case.limited))
    return _plain(case, unacked_limit=limit, held_seconds=limit / each)


def _limit(consumer: ConsumerView) -> int:
    """As the broker has it; otherwise what is held at it."""
    return consumer.max_unacked_messages_per_consumer or most(consumer.unacked_messages) or 0


def _keyed(case: _Case) -> Workload:
    """The busiest consumer's share of all messages is that of its key and of an even rest."""
    share, many = _hot_share(case), len(case.view.served)
    key = max(0.0, (share - 1 / many) / (1 - 1 / many))
    work = _application(case)
    each = case.rate * share  # of the full one; others are sent the rest
    return replace(work, consumers=many, key_share=key, process_seconds=work.at_once / each, idle=0)


def _hot_share(case: _Case) -> float:
    """Of the full ones: by what came in, of which others had the rest; else by what was sent.

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
    busy = case.full or case.rest
    size, trip = _size(busy), _trip(busy)
    if size is None or not trip or not (case.full or case.waits):
        return None
    each, threshold = case.rate / len(busy), refill_threshold(size)
    work = max(0.0, size / each - trip) / (threshold - 1) if threshold > 1 else 0.0
    near = threshold > 1 or each * trip >= NEAR * size
    if not near or trip <= (size - threshold + 1) * work:
        return None
    if size / each <= trip / NEAR:
        work = 0.0  # what is left of a round is no more than a round trip varies
    return _plain(
        case,
        consumers=len(busy),
        process_seconds=work,
        receiver_queue_size=size,
        round_trip_seconds=max(trip, size / each - (threshold - 1) * work),
    )


def _size(busy: tuple[ConsumerView, ...]) -> int | None:
    """Their receiver queue size; where only bounds are known, what the fullest holds."""
    known = [told(each.receiver_queue_size) for each in busy]
    sizes = [size for size in known if size is not None]
    held = [most(each.unacked_messages) for each in busy]
    return max(sizes or [size for size in held if size], default=None)


def _trip(busy: tuple[ConsumerView, ...]) -> float | None:
    trips = [each.round_trip_seconds for each in busy if each.round_trip_seconds is not None]
    return min(trips, default=None)


def _who(case: _Case, set_by: SetBy) -> tuple[str, ...]:
    there = {"acknowledgements": case.limited, "application": case.full, "key": case.full}
    named = there.get(set_by, case.full if set_by in ("queue", "redeliveries") else ())
    return tuple(each.label for each in named)


def _summary(case: _Case, set_by: SetBy, work: Workload | None) -> str:
    who = listed(list(_who(case, set_by)), NAMED_MOST)
    rate = f"{case.rate:.3g}/s"
    if set_by == "redeliveries":
        text = f"{case.again:.0%} of the messages are sent again, which is work done twice"
    elif set_by == "arrivals":
        text = "nothing waits: producers set the pace"
    elif set_by == "broker":
        text = "consumers have permits and messages wait: the broker's reads set the pace"
    elif work is None:
        text = "nothing tells what sets the pace"
    else:
        text = sets_the_pace(work)
    return f"{rate}: {text}{f' ({who})' if who else ''}"


def _assumed(case: _Case, set_by: SetBy) -> tuple[str, ...]:
    """What was not measured, and the figures rest on."""
    texts = ["messages and consumers are alike, and no other limit comes first"]
    bound = _trip_bound(case)
    if set_by == "application" and bound is not None and bound < LONGEST_TRIP:
        texts.append(
            f"a round trip takes less than {duration(bound)}; otherwise the receiver queue sets "
            "the pace: a trace or `examine` tells"
        )
    if set_by == "acknowledgements" and _at_once(case.limited) * 2 < (_limit(case.limited[0])):
        texts.append("the application works on all that it holds, not on one message at a time")
    if set_by == "key":
        texts.append("the busy messages have one key; several of them spread over more consumers")
    return tuple(texts)


def _trip_bound(case: _Case) -> float | None:
    """The round trip from which on the queue sets the pace; None where the trip is known."""
    size = _size(case.full)
    if not case.full or size is None or _trip(case.full) is not None:
        return None
    return size * len(case.full) / (2 * case.rate)


def _ceilings(case: _Case, set_by: SetBy, work: Workload | None) -> tuple[Ceiling, ...]:
    """The evidence for each limit, and against the others."""
    known = work.ceilings if work else {}
    found = [
        Ceiling("application", known.get("application"), _of_application(case)),
        Ceiling("queue", known.get("queue"), _of_queue(case)),
        Ceiling("acknowledgements", known.get("acknowledgements"), _of_limit(case)),
    ]
    if case.view.type == "Key_Shared":
        busy = f"{len(case.full)} of {len(case.view.served)} consumers have full queues"
        found.append(Ceiling("key", known.get("key"), busy))
    found.append(Ceiling("dispatch", known.get("dispatch"), _of_dispatch(case)))
    again = f"{case.again:.0%} of the deliveries" if case.again else "few or none were seen"
    found.append(Ceiling("redeliveries", case.rate if case.again else None, again))
    finite = [each if each.most != float("inf") else replace(each, most=None) for each in found]
    return tuple(sorted(finite, key=lambda each: each.limit != set_by))


def _of_application(case: _Case) -> str:
    if not case.full:
        return "no consumer is without permits for most of the time"
    many = f"{len(case.full)} of {len(case.view.served)} consumers"
    return f"{many} have a full queue (no permits), and acknowledge {case.rate:.3g}/s"


def _of_queue(case: _Case) -> str:
    trip, bound = _trip(case.full or case.rest), _trip_bound(case)
    if trip is not None:
        return f"a round trip takes {duration(trip)}"
    if bound is not None:
        return f"only if a round trip takes more than {duration(bound)}, which is not reported"
    return "the round trip is not reported"


def _of_limit(case: _Case) -> str:
    if not case.limited:
        return "no consumer is at its limit of unacknowledged messages"
    return f"{len(case.limited)} of {len(case.view.served)} consumers are at their limit"


def _of_dispatch(case: _Case) -> str:
    throttling = case.view.throttling
    if throttling is None:
        return "throttled reads are not reported"
    if not throttling.lately:
        return "no read was held back in the window"
    whose = listed(list(dict.fromkeys(each.whose for each in throttling.lately)), NAMED_MOST)
    return f"the limit of the {whose} held reads back"
