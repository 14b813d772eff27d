"""Subscriptions as in production: connected for days, millions of messages, many consumers.

Nothing is played here: each consumer works at its pace, or stopped at some moment, and what the
broker would count follows from that. So it has documents and a truth, and no wire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, sqrt
from random import Random
from typing import Any, Literal

from pulsar_doctor.broker.stats.window import MINUTE
from pulsar_doctor.diagnosis.answers import HEALTHY
from pulsar_doctor.evidence.balance import LONGEST_BURST
from pulsar_doctor.model.made_rows import SUBSCRIPTION, TYPES
from tests.incidents.causes import EXPLAINS, Cause
from tests.incidents.documents import THROTTLED, Document, iso
from tests.incidents.making import log
from tests.incidents.moments import OFFSETS, Incident, Moment, Taken, Truth
from tests.incidents.playing import VERSIONS, wall_us
from tests.incidents.script import SECOND, Face, Script

DAY = 24 * 3600.0
AT_NS = 10_000 * SECOND + 137_111
SLOW, LONG = 30.0, 300.0  # seconds until the next FLOW: longer is slow, and too long by silence
NOTHING_NEW = 3600.0  # and too long for who works while nobody else has nothing to do
NEAR = 1.5
LIMIT = 50_000  # unacknowledged messages, as set where nobody set it
RANGES = 10_000  # persisted, likewise
LEDGER = 50_000  # entries
FEW = 0.02  # of what comes again and again: acknowledged, where anything is
Doing = Literal["works", "hangs", "never acks", "leaks", "gives back", "idle"]


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer. pace: messages a second while it works. group: messages that share an ACK.

    stopped: seconds before the moment at which it stopped, for good. connected: likewise.
    """

    name: str
    queue: int
    pace: float
    batch: int
    connected: float
    doing: Doing = "works"
    stopped: float = 0.0
    group: int = 1


@dataclass(frozen=True, slots=True)
class Case:
    """A subscription. waiting: entries that nobody was sent, at the moment; rate_in: that come.

    past: entries that were consumed before anybody of these came. holes: acknowledged ranges.
    throttled: reads that a limit holds back, one more each second; once_throttled: that it held
    back some time.
    """

    type: str
    members: tuple[Member, ...]
    kind: str = ""
    waiting: int = 0
    rate_in: float = 0.0
    past: int = 0
    holes: int = 0
    stuck: float = 0.0
    face: Face | None = None
    throttled: int = 0
    once_throttled: int = 0
    delayed: int = 0
    drift: int = 0
    alone: float = 0.0


@dataclass(frozen=True, slots=True)
class _Counts:
    """What is counted of a member, in messages, and when something was last done, in seconds."""

    permits: int
    out: int
    unacked: int
    flow: float
    sent: float | None = None
    acked: float | None = None
    pace: float = 0.0
    blocked: bool = False
    again: int = 0


def _counts(case: Case, each: Member, at: float) -> _Counts:
    """At so many seconds after the moment, or before it (below 0)."""
    if each.doing == "idle":
        return _Counts(each.queue, 0, 0, -each.connected)
    until = min(at, -each.stopped) if each.stopped else at
    taken = max(1, int(each.pace * (each.connected + until)))
    half, full = max(1, each.queue // 2), case.waiting and not case.throttled
    if each.doing == "never acks":
        taken = min(taken, LIMIT - 1)
    granted = each.queue + taken // half * half
    flow = max(-each.connected, taken // half * half / each.pace - each.connected)
    sent = flow if full else max(-each.connected, taken / each.pace - each.connected)
    out = ceil(granted / each.batch) * each.batch if full else taken
    pace = 0.0 if each.stopped else each.pace
    if each.doing == "leaks":
        return _Counts(0, taken, 0, flow, until, until)
    if each.doing == "never acks":
        out = min(out, max(LIMIT, each.batch))
        blocked = out >= LIMIT
        return _Counts(granted - out, out, out, flow, sent, None, 0.0 if blocked else pace, blocked)
    if each.doing == "gives back":
        held, done = min(out, each.queue), int(out * FEW) if each.group > 1 else 0
        last_ack = until - (taken % round(1 / FEW)) / each.pace if done else None
        again = max(0, out - held - done)
        return _Counts(granted - out, out, held, flow, sent, last_ack, pace, again=again)
    done = 1 if case.stuck else max(each.batch, each.group)
    acked = taken // done * done
    if case.stuck:
        out = acked
    elif each.doing == "hangs" and not case.waiting:
        out = min(granted, taken + each.queue // 3 + 1)
    last_ack = acked / each.pace - each.connected if acked else None
    return _Counts(granted - out, out, out - acked, flow, sent, last_ack, pace)


# The documents.


def documents(case: Case, at: float) -> tuple[Document, Document]:
    """Stats and internal stats, so many seconds after the moment, or before it (below 0)."""
    counts = [_counts(case, each, at) for each in case.members]
    numbers = _Numbers.of(case, counts, at)
    return _stats(case, counts, numbers, at), _internal(case, counts, numbers)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Entries of the topic: read, held, waiting; and mark-delete, by their number."""

    read: int
    held: int
    waiting: int
    mark_delete: int

    @classmethod
    def of(cls, case: Case, counts: list[_Counts], at: float) -> _Numbers:
        batch = _batch(case)
        news = (each.pace for each in counts if not each.again)
        more = case.rate_in - sum(news)
        waiting = case.waiting and max(1, case.waiting + int(more * at / batch))
        held = ceil(sum(each.unacked for each in counts) / batch)
        sent = sum(each.out - each.again for each in counts)
        read = case.past + ceil(sent / batch) + case.delayed
        behind = 2 * case.holes if held else 0
        return cls(read, held, waiting, max(-1, read - 1 - held - behind - case.delayed))

    @property
    def added(self) -> int:
        return self.read + self.waiting


def _stats(case: Case, counts: list[_Counts], numbers: _Numbers, at: float) -> Document:
    backlog = numbers.held + numbers.waiting + case.delayed + case.drift
    out, unacked = sum(c.out for c in counts), sum(c.unacked for c in counts)
    individual = case.type in ("shared", "key_shared")
    held_back = case.throttled + int(at) if case.throttled else case.once_throttled
    rate = sum(c.pace for c in counts)
    storm = any(each.doing == "gives back" for each in case.members)
    acks = [c.acked for c in counts if c.acked is not None]
    sent = [c.sent for c in counts if c.sent is not None]
    told: Document = {
        "type": TYPES[case.type],
        "isDurable": True,
        "isReplicated": False,
        "msgBacklog": backlog,
        "msgBacklogNoDelayed": backlog - case.delayed,
        "msgDelayed": case.delayed if case.members else 0,
        "msgInReplay": 0,
        "unackedMessages": unacked if individual else 0,
        "blockedSubscriptionOnUnackedMsgs": False,
        "msgOutCounter": out + case.past,
        "bytesOutCounter": 731 * (out + case.past),
        "msgRateOut": rate,
        "messageAckRate": sum(map(_ack_rate, counts)),
        "msgRateRedeliver": 0.97 * rate if storm else 0.0,
        "lastAckedTimestamp": _ms(max(acks, default=None)),
        "lastConsumedTimestamp": _ms(max(sent, default=None)),
        "lastConsumedFlowTimestamp": _ms(max((c.flow for c in counts), default=-case.alone)),
        "lastMarkDeleteAdvancedTimestamp": _ms(
            None if case.holes else max(acks, default=_before(case))
        ),
        "nonContiguousDeletedMessagesRanges": case.holes if numbers.held else 0,
        **dict.fromkeys(sorted(THROTTLED), 0),
        "dispatchThrottledMsgEventsByTopicLimit": held_back,
        "consumers": [
            _consumer(case, each, c) for each, c in zip(case.members, counts, strict=True)
        ],
    }
    if case.type == "failover" and case.members:
        told["activeConsumerName"] = case.members[0].name
    return {
        "msgInCounter": numbers.added * _batch(case),  # in messages
        "msgRateIn": case.rate_in,
        "msgRateOut": rate,
        "storageSize": 731 * max(1, backlog),
        "backlogSize": 731 * max(0, backlog),
        "ongoingTxnCount": 0,
        "publishers": [],
        "subscriptions": {SUBSCRIPTION: told},
    }


def _before(case: Case) -> float | None:
    """When what was consumed before these came was acknowledged; None: there is no such."""
    oldest = max((each.connected for each in case.members), default=0.0)
    return -oldest - 60.0 if case.past else None


def _consumer(case: Case, each: Member, told: _Counts) -> Document:
    individual = case.type in ("shared", "key_shared")
    storm = each.doing == "gives back"
    return {
        "consumerName": each.name,
        "address": f"/10.3.{len(each.name)}.{sum(map(ord, each.name)) % 250}:40000",
        "connectedSince": iso(AT_NS - int(each.connected * SECOND)),
        "clientVersion": VERSIONS["java"],
        "availablePermits": told.permits,
        "unackedMessages": told.unacked if individual else 0,
        "blockedConsumerOnUnackedMsgs": told.blocked and individual,
        "msgOutCounter": told.out,
        "bytesOutCounter": 731 * told.out,
        "avgMessagesPerEntry": each.batch if told.out else 0,
        "msgRateOut": told.pace,
        "messageAckRate": _ack_rate(told),
        "msgRateRedeliver": 0.97 * told.pace if storm else 0.0,
        "lastAckedTimestamp": _ms(told.acked),
        "lastConsumedTimestamp": _ms(told.sent),
        "lastConsumedFlowTimestamp": _ms(told.flow),
    }


def _internal(case: Case, counts: list[_Counts], numbers: _Numbers) -> Document:
    backlog = numbers.held + numbers.waiting + case.delayed + case.drift
    asks = any(each.permits > 0 for each in counts)
    waits = pending = asks and not numbers.waiting
    if case.face is not None:
        waits, pending = case.face == "asleep", case.face != "none"
    first = (numbers.mark_delete + 1) // LEDGER
    last = max(0, numbers.added - 1) // LEDGER
    ledgers = [{"ledgerId": _ledger(n), "entries": LEDGER, "size": 1} for n in range(first, last)]
    ledgers.append({"ledgerId": _ledger(last), "entries": 0, "size": 0})
    holes = case.holes if numbers.held else 0
    cursor: dict[str, Any] = {
        "markDeletePosition": _position(numbers.mark_delete),
        "readPosition": _position(numbers.read),
        "waitingReadOp": waits,
        "pendingReadOps": 0,
        "messagesConsumedCounter": numbers.added - backlog,
        "totalNonContiguousDeletedMessagesRange": holes,
        "subscriptionHavePendingRead": pending,
        "subscriptionHavePendingReplayRead": False,
        "state": "Open",
        "active": bool(case.members),
    }
    if not holes:
        cursor["individuallyDeletedMessages"] = "[]"
    return {
        "entriesAddedCounter": numbers.added,
        "numberOfEntries": numbers.added,
        "waitingCursorsCount": int(waits),
        "lastConfirmedEntry": _position(numbers.added - 1),
        "state": "LedgerOpened",
        "ledgers": ledgers if len(ledgers) < 500 else [],  # elided
        "cursors": {SUBSCRIPTION: cursor},
    }


def _ack_rate(told: _Counts) -> float:
    if told.acked is None:
        return 0.0
    return FEW * told.pace if told.again else told.pace


def _ledger(number: int) -> int:
    return 910_000 + 7 * number


def _position(number: int) -> str:
    if number < 0:
        return f"{_ledger(0)}:-1"
    return f"{_ledger(number // LEDGER)}:{number % LEDGER}"


def _ms(at: float | None) -> int:
    return 0 if at is None else wall_us(AT_NS + int(at * SECOND)) // 1000


# What is true of it.


@dataclass(frozen=True, slots=True)
class Large:
    """A case at its moment, with every cause and the roots of them."""

    case: Case
    moment: Moment
    causes: frozenset[Cause]
    roots: frozenset[Cause]


def large(seed: int) -> Large:
    """The case of this seed; the same one, always."""
    random = Random(f"large {seed}")
    kind = random.choice(list(KINDS))
    case = replace(KINDS[kind](random), kind=kind)
    if random.random() < 0.2:  # of a limit that was reached some time, or makes reads smaller
        case = replace(case, once_throttled=int(log(random, 1, 1e6)))
    taken = [
        Taken(AT_NS - offset * SECOND, *documents(case, -float(offset)))
        for offset in sorted(OFFSETS, reverse=True)
    ]
    moment = Moment(Incident(Script(seed, case.type, (), (), ())), AT_NS, taken, 0, Truth({}, 0, 0))
    found = dict(_found(case))
    if all(age < SLOW for age in found.values()):
        return Large(case, moment, *(frozenset({*found, (HEALTHY, None)}),) * 2)
    roots = {
        (code, who)
        for code, who in found
        if not any(code in _explained(case, c) and who in (w, None) for c, w in found)
    }
    return Large(case, moment, frozenset(found), frozenset(roots))


def _explained(case: Case, code: str) -> frozenset[str]:
    more = {"permits-exhausted": "not-acknowledging", "not-acknowledging": "permits-exhausted"}
    never = any(each.doing == "never acks" for each in case.members)
    if (code == "not-acknowledging") == never and code in more:
        return EXPLAINS[code] | {more[code]}
    return EXPLAINS[code]


def _found(case: Case) -> Iterator[tuple[Cause, float]]:
    """Each cause with its age in seconds."""
    if not case.members:
        if case.waiting:
            yield ("no-consumer", None), case.alone
        return
    for each in case.members:
        for code, age in _of_member(case, each):
            yield (code, each.name), age
    if case.stuck and case.waiting:
        yield ("broker-read-stuck", None), case.stuck
    if case.throttled:
        yield ("dispatch-throttled", None), LONG
    if any(each.doing == "gives back" for each in case.members):
        yield ("redelivery-storm", None), LONG
    held = any(_counts(case, each, 0).unacked for each in case.members)
    if case.holes and held:
        yield ("ack-hole", None), 0
    if case.holes > RANGES and held:
        yield ("holes-over-limit", None), 0
    if case.delayed:
        yield ("delayed-messages", None), 0
    if case.drift:
        yield ("backlog-counter-wrong", None), 0
    yield from _falls_behind(case)


def _falls_behind(case: Case) -> Iterator[tuple[Cause, float]]:
    """Where more comes in than is sent first, and what waits is more than a burst brings.

    So it is clearly where a minute's rates differ by more than chance.
    """
    counts = [_counts(case, each, 0) for each in case.members]
    sent = sum(each.pace * (FEW if each.again else 1) for each in counts)
    growth, by_chance = case.rate_in - sent, 2 * sqrt((case.rate_in + sent) / MINUTE)
    if sent > 0 and growth > 0:
        bursts = case.waiting * _batch(case) / growth / LONGEST_BURST
        if bursts >= 1:
            yield ("falls-behind", None), LONG if growth > by_chance and bursts >= NEAR else 0


def _batch(case: Case) -> int:
    """Messages in an entry."""
    return case.members[0].batch if case.members else 1


def _of_member(case: Case, each: Member) -> Iterator[tuple[str, float]]:
    told = _counts(case, each, 0)
    if each.doing == "leaks":
        yield "permit-leak", each.stopped
        yield from _keeps_its_place(case, each)
    elif each.doing == "never acks" or (each.doing == "gives back" and told.acked is None):
        yield "not-acknowledging", each.connected
        if told.blocked:
            yield "blocked-on-unacked-consumer", each.connected
    elif each.doing == "hangs":
        yield "not-acknowledging", each.stopped
        yield from _hangs(case, each, told)
    if (
        each.doing in ("works", "gives back")
        and case.waiting
        and not (case.stuck or case.throttled)
    ):
        half = max(1, each.queue // 2)
        taken = int(each.pace * each.connected)
        remaining = (half - taken % half) / each.pace
        silent = told.acked is None and half / each.pace > LONG / NEAR  # as if it hung
        if remaining > NOTHING_NEW / NEAR or silent:
            yield "permits-exhausted", -told.flow
        if half / each.pace > SLOW / NEAR:  # so it is at each moment of its rhythm
            yield "slow-but-progressing", -told.flow if remaining > SLOW else 0


def _hangs(case: Case, each: Member, told: _Counts) -> Iterator[tuple[str, float]]:
    others = len(case.members) > 1
    if told.permits <= 0:
        yield "permits-exhausted", each.stopped
        yield from _keeps_its_place(case, each)
    if case.type == "key_shared" and others and case.waiting:
        yield "key-shared-blocked", each.stopped
    if case.type == "shared" and others and not case.waiting:
        yield "prefetch-hogging", each.stopped


def _keeps_its_place(case: Case, each: Member) -> Iterator[tuple[str, float]]:
    """Of one that asks no more."""
    if case.type == "failover" and len(case.members) > 1:
        yield "inactive-failover", each.stopped


# What happens.


TYPES_OF = (*("shared",) * 5, "key_shared", "failover", "failover", "exclusive")
SHARED = ("shared",)


def _members(random: Random, type_: str, doing: Doing = "works") -> tuple[Member, ...]:
    alone = type_ == "exclusive"
    count = 1 if alone else random.choice((1, 1, 2, 3, 5, 10, 20, 40))
    batch = random.choice((1, 1, 1, 1, 5, 40, 500))
    queue = random.choice((1000, 1000, 1000, 1000, 500, 100, 10, 5000))
    pace, connected = log(random, 0.5, 3000), log(random, 600, 60 * DAY)
    group = random.choice((1, 10, 100)) if queue >= 500 else 1
    chars = "0123456789abcdef"
    members = tuple(
        Member(
            "".join(random.choice(chars) for _ in range(5)), queue,
            pace * random.uniform(0.8, 1.25), batch, connected * random.uniform(0.9, 1), doing,
            group=group,
        )
        for _ in range(count)
    )  # fmt: skip
    if type_ == "failover":
        members = (members[0], *(replace(each, doing="idle") for each in members[1:]))
    return members


def _case(
    random: Random, doing: Doing = "works", waiting: bool = True, types: Sequence[str] = TYPES_OF
) -> Case:
    """Messages wait, and come at a pace near to that of the consumers; or it keeps up."""
    type_ = random.choice(types)
    members = _members(random, type_, doing)
    pace = sum(each.pace for each in members if each.doing != "idle")
    many = int(log(random, 50, 100_000_000)) if waiting else 0
    past = int(log(random, 1, 100_000_000))
    rate_in = pace * random.uniform(0.3, 1.6) if waiting else pace
    return Case(type_, members, waiting=many, rate_in=rate_in, past=past)


def _busy(random: Random) -> Case:
    return _case(random)


def _keeps_up(random: Random) -> Case:
    return _case(random, waiting=False)


def _stopped(random: Random, case: Case, doing: Doing, share: float) -> Case:
    """The first one stops, and each of the others with this share."""
    ago = log(random, 20, 5 * DAY)
    members = tuple(
        replace(each, doing=doing, stopped=min(ago, each.connected * 0.98))
        if each.doing != "idle" and (number == 0 or random.random() < share)
        else each
        for number, each in enumerate(case.members)
    )
    return replace(case, members=members)


def _one_hangs(random: Random) -> Case:
    return _stopped(random, _case(random, waiting=random.random() < 0.7), "hangs", 0.1)


def _all_hang(random: Random) -> Case:
    return _stopped(random, _case(random), "hangs", 1)


def _leaks(random: Random) -> Case:
    case = _case(random)
    singles = tuple(replace(each, batch=1) for each in case.members)
    return _stopped(random, replace(case, members=singles), "leaks", random.choice((0.0, 1.0)))


def _never_acks(random: Random) -> Case:
    case = _case(random, types=SHARED)
    members = tuple(replace(each, batch=1) for each in case.members)
    members = (replace(members[0], doing="never acks", pace=members[0].pace * 10), *members[1:])
    return replace(case, members=members)


def _stuck(random: Random) -> Case:
    case = _stopped(random, _case(random), "works", 1)
    ago = min((each.stopped for each in case.members if each.stopped), default=LONG)
    face: Face = random.choice(("none", "none", "lost", "asleep"))
    return replace(case, stuck=ago, face=face)


def _nobody(random: Random) -> Case:
    alone = log(random, 60, 300 * DAY)
    return replace(_case(random), members=(), alone=alone, rate_in=random.choice((0.0, 3.0, 500.0)))


def _throttled(random: Random) -> Case:
    case = _case(random, types=SHARED)
    members = tuple(replace(each, batch=1) for each in case.members)
    return replace(case, members=members, throttled=int(log(random, 100, 1e7)))


def _storm(random: Random) -> Case:
    return _case(random, "gives back", waiting=random.random() < 0.5, types=SHARED)


def _holes(random: Random) -> Case:
    case = _case(random, waiting=random.random() < 0.5, types=SHARED)
    return replace(case, holes=int(log(random, 1, 60_000)))


def _delayed(random: Random) -> Case:
    case = _case(random, waiting=random.random() < 0.2, types=SHARED)
    return replace(case, delayed=int(log(random, 1, 1_000_000)))


def _miscounts(random: Random) -> Case:
    off = int(log(random, 1, 10_000_000)) * random.choice((1, 1, -1))
    return replace(_case(random, waiting=random.random() < 0.3), drift=off)


KINDS: dict[str, Callable[[Random], Case]] = {
    "busy": _busy,
    "keeps up": _keeps_up,
    "keeps up, too": _keeps_up,
    "one hangs": _one_hangs,
    "all hang": _all_hang,
    "leaks": _leaks,
    "never acks": _never_acks,
    "stuck": _stuck,
    "nobody": _nobody,
    "throttled": _throttled,
    "storm": _storm,
    "holes": _holes,
    "delayed": _delayed,
    "miscounts": _miscounts,
}
