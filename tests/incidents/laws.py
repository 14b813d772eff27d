"""The laws of a verdict, asked of one incident: who says what of it, and what of that cannot be.

1 never opposite · 2 more evidence never moves back · 4 no clock needed · 5 bounds instead of null ·
truth: never wrong against what the model knows. (3 steady has incidents of its own: see rhythm.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from pulsar_doctor.diagnosis.answers import HEALTHY, Finding
from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.evidence.values import Count
from tests.incidents.asking import CODES, untellable
from tests.incidents.moments import Moment, OfConsumer
from tests.incidents.questions import INTERNAL, WIRE, Asked
from tests.incidents.script import SECOND
from tests.incidents.truth import (
    QUIET_AFTER_NS,
    RATE_NS,
    REFILL_WAIT_NS,
    SLOW_WAIT_NS,
    never_acknowledges,
    stands_for_good,
    why,
)

DECIDED = ("stalled", "warning", "healthy")

# Causes that lie wholly outside of what a source can see.
OUTSIDE: dict[str, frozenset[str]] = {
    "wire": frozenset(
        {
            "backlog-counter-wrong",
            "broker-read-stuck",
            "delayed-messages",
            "dispatch-throttled",
            "holes-over-limit",
            "key-shared-blocked",  # no key reaches a trace
            "blocked-on-unacked-subscription",  # its limit is not visible on the wire
            "no-consumer",
        }
    ),
    "stats": frozenset({"lost-to-redeliver-race", "permit-leak"}),
    "internal": CODES - {"ack-hole", "backlog-counter-wrong", "broker-read-stuck"},
}
BY_LIMIT = ("blocked-on-unacked-consumer",)
# What these look at is all that a consumer holds, not when it is sent more.
LOOPS = ("redelivery-storm", "consumers-come-and-go")
HOLDERS = ("prefetch-hogging", "key-shared-blocked", "exclusive-zombie", "not-acknowledging")


@dataclass(frozen=True, slots=True)
class Broken:
    """A law that is broken: by which rule, between whom, and where."""

    law: str
    code: str
    pair: str
    text: str = ""
    excluded: bool = False


def broken_at(moment: Moment, said: list[Asked]) -> Iterator[Broken]:
    """Every law that is broken by what is said of this moment."""
    for law in (opposite, backwards, without_clock, nulls, untrue):
        yield from law(moment, said)


def _broken(law: str, code: str, pair: str, text: str = "", *, excluded: bool = False) -> Broken:
    return Broken(law, code, pair, text, excluded)


# 1: never opposite.


def opposite(moment: Moment, said: list[Asked]) -> Iterator[Broken]:
    """Two that say stalled and healthy of one moment; each rule and pair of sources once."""
    seen = set()
    healthy = [each for each in said if each.status == "healthy"]
    for stalled in (each for each in said if each.status == "stalled"):
        for other in healthy:
            codes = {f.code for f in stalled.said.findings if f.severity == "stalled"}
            excluded = codes <= _outside(moment, other) or _is_told_to_wait(moment, other)
            for code in codes:
                pair = f"{stalled.who} stalled, {other.who} healthy"
                if (code, pair, excluded) not in seen:
                    seen.add((code, pair, excluded))
                    text = f"{stalled.samples} against {other.samples}"
                    yield _broken("1 opposite", code, pair, text, excluded=excluded)


def _is_told_to_wait(moment: Moment, asked: Asked) -> bool:
    """Whether it alone knows that the application holds messages back on purpose."""
    return asked.samples.told and "wire" in asked.sources and moment.incident.script.delay_ns > 0


def _outside(moment: Moment, asked: Asked) -> frozenset[str]:
    """Codes that these sources name as not told, and that they could not see at all."""
    named = {text.partition(":")[0] for text in asked.said.unknowns} | untellable(asked.sources)
    outside = frozenset.intersection(*(OUTSIDE[source] for source in asked.sources))
    if asked.sources == WIRE and not asked.samples.told:
        outside |= set(BY_LIMIT)  # no limit is part of the wire
    return outside & named


# 2: more evidence never moves back.


def backwards(moment: Moment, said: list[Asked]) -> Iterator[Broken]:
    """More that shows nothing new made a verdict less sure. (Opposites are law 1's.)"""
    for less, more in combinations(said, 2):
        few, many = (less, more) if _within(less, more) else (more, less)
        if not _within(few, many) or not _nothing_new(moment, few, many):
            continue
        if _is_told_to_wait(moment, many) and not few.samples.told:
            continue
        pair = f"{few.who} -> {many.who}"
        if few.status in DECIDED and many.status == "unknown":
            reason = many.said.unknowns[0] if many.said.unknowns else ""
            code = reason.partition(":")[0]
            # What lies outside is news, not doubt; and the weaker statement wins over a healthy
            # one that is not earned any more.
            unseen = code in _outside(moment, few) or code == HEALTHY
            text = f"{few.status}: {reason}"
            yield _broken("2 decided -> unknown", code, pair, text, excluded=unseen)
        yield from _less_sure(few, many, pair)


def _within(few: Asked, many: Asked) -> bool:
    """Whether one has all that the other has, and more."""
    a, b = few.samples, many.samples
    if (few.sources, a) == (many.sources, b) or not few.sources <= many.sources:
        return False
    if "wire" in few.sources and few.sources != WIRE and a.offsets != b.offsets:
        return False
    same = (a.version, a.interval, a.internal_last) == (b.version, b.interval, b.internal_last)
    known = a.clock <= b.clock and a.told <= b.told
    if few.sources == WIRE:
        return known
    return same and known and set(a.offsets) <= set(b.offsets)


def _nothing_new(moment: Moment, few: Asked, many: Asked) -> bool:
    """Whether nothing moved within the readings that the larger one has.

    A clock that tells that all of it is young is news. So is whatever tells more than a rate, which
    is all that shows movement without a clock.
    """
    offsets = many.samples.offsets or (0,)
    since = moment.at_ns - max(offsets) * SECOND
    if many.samples.clock and not few.samples.clock:
        since = min(since, moment.at_ns - QUIET_AFTER_NS)
    if not few.samples.clock and (few.seen.msg_rate_out or few.seen.message_ack_rate):
        since = min(since, moment.at_ns - RATE_NS)
    return moment.truth.since < since - SECOND


def _less_sure(few: Asked, many: Asked, pair: str) -> Iterator[Broken]:
    sure = {(f.code, f.consumer): f for f in many.said.findings}
    for finding in few.said.findings:
        after = sure.get((finding.code, finding.consumer))
        if after is not None and after.confidence < finding.confidence - 0.001:
            text = f"{finding.consumer}: {finding.confidence} -> {after.confidence}"
            yield _broken("2 less sure", finding.code, pair, text)


# 4: no clock needed for what needs none.


def without_clock(moment: Moment, said: list[Asked]) -> Iterator[Broken]:
    """Facts that decide by themselves, or make a stall likely."""
    truth = moment.truth
    read = moment.taken[-1]
    subscription = next(iter(read.stats["subscriptions"].values()))
    nothing = truth.waiting == 0 and subscription["msgBacklog"] == 0
    never = [each for each in truth.consumers.values() if _never_in_its_life(each)]
    for asked in said:
        if asked.samples.clock and asked.sources != INTERNAL:
            continue
        if nothing and asked.status != "healthy" and asked.samples.version == "4.0.8":
            code = _first_code(asked)
            yield _broken("4 nothing waits", code, f"{asked.who}: {asked.status}")
        lives = asked.seen.consumers is not None  # internal stats alone tell nobody's life
        suspected = asked.status == "unknown" and asked.said.stall_is_likely
        undecided = asked.status in ("healthy", "unknown") and not suspected
        if never and lives and not moment.truth.moves_in and undecided:
            code = _first_code(asked)
            yield _broken("4 never in its life", code, f"{asked.who}: {asked.status}")
        if subscription["messageAckRate"] and _stalled_as_a_whole(asked):
            yield _broken("4 a rate above 0", _first_code(asked), f"{asked.who}: stalled")


def _never_in_its_life(each: OfConsumer) -> bool:
    """Full once, nothing back, one FLOW ever, and hung for longer than anybody would wait."""
    told = each.app.attached
    return (
        each.app.worker.queue > 2
        and told.out >= each.app.worker.queue
        and not told.acks
        and len(told.flows) == 1
        and each.queued > 1
        and (each.hangs or each.paused)
        and each.stood >= REFILL_WAIT_NS
    )


def _stalled_as_a_whole(asked: Asked) -> bool:
    """Not only one of several consumers, which may stand while others work."""
    return any(f.consumer is None and f.severity == "stalled" for f in asked.said.findings)


def _first_code(asked: Asked) -> str:
    if asked.said.findings:
        return asked.said.findings[0].code
    return asked.said.unknowns[0].partition(":")[0] if asked.said.unknown else "(none)"


# 5: bounds instead of null.


def nulls(moment: Moment, said: list[Asked]) -> Iterator[Broken]:
    """A count that the view knows from one side at least, and the evidence tells as null."""
    seen = set()
    for asked in said:
        for finding in asked.said.findings:
            for measure in finding.evidence:
                key = (finding.code, measure.name, asked.who)
                if measure.value is None and key not in seen and _bounded(asked, finding, measure):
                    seen.add(key)
                    yield _broken("5 null", finding.code, f"{measure.name} by {asked.who}")


def _bounded(asked: Asked, finding: Finding, measure: Measure) -> bool:
    of = [c for c in asked.seen.consumers or () if c.label == finding.consumer]
    count = getattr(of[0], COUNTS.get(measure.name, ""), None) if len(of) == 1 else None
    return isinstance(count, Count) and (count.least, count.most) != (None, None)


# A measure, and the view's count that it tells.
COUNTS = {
    "available_permits": "available_permits",
    "unacked_messages": "unacked_messages",
    "receiver_queue_size": "receiver_queue_size",
    "msg_out_counter": "msg_out_counter",
    "next_flow_after": "next_flow_after",
    "sending_after": "sending_after",
    "permits_granted": "permits_granted",
    "parked_permits": "parked_permits",
    "permits_refilled": "permits_refilled",
}


# Never wrong against the truth.


def untrue(moment: Moment, said: list[Asked]) -> Iterator[Broken]:
    """Healthy where it stands still for good; stalled where it goes on by itself."""
    for_good, forgets = stands_for_good(moment), never_acknowledges(moment)
    held_back = moment.at_ns - moment.truth.since < moment.incident.script.delay_ns
    for asked in said:
        if asked.status == "healthy" and forgets:
            yield _broken("truth: healthy, never acknowledges", "(none)", asked.who)
        waits, early = held_back and _is_told_to_wait(moment, asked), _judged_earlier(moment, asked)
        if asked.status == "healthy" and for_good and not (waits or early):
            yield _broken("truth: healthy, stands still", why(moment), asked.who)
        for finding in asked.said.findings:
            if finding.severity == "stalled":
                yield from _goes_on(moment, asked, finding)


def _judged_earlier(moment: Moment, asked: Asked) -> bool:
    """A trace in which everybody is gone is judged as of the moment before they went."""
    return "wire" in asked.sources and not moment.truth.consumers


def _goes_on(moment: Moment, asked: Asked, finding: Finding) -> Iterator[Broken]:
    if _judged_earlier(moment, asked):
        return
    soon, stood = _relief(moment, finding)
    if soon is None or soon > SLOW_WAIT_NS:
        return
    law = "truth: stalled, goes on soon"
    if stood + soon >= REFILL_WAIT_NS:
        law = "(late: stalled, at the end of a long wait)"
    text = f"{finding.consumer}: in {soon / SECOND:.0f} s after {stood / SECOND:.0f} s"
    yield _broken(law, finding.code, asked.who, f"{text} {asked.samples}")


def _relief(moment: Moment, finding: Finding) -> tuple[int | None, int]:
    """How soon what was found is over by itself, and for how long it has lasted.

    Nothing shows that somebody who has left will come back.
    """
    truth = moment.truth
    each = truth.consumers.get(finding.consumer or "")
    if finding.code in LOOPS:  # to be sent the same again is no progress: an ack is
        everybody = truth.consumers.values()
        soon = min((one.ack_in for one in everybody if one.ack_in is not None), default=None)
        acks = [at for one in everybody for at, _ in one.app.attached.acks if at <= moment.at_ns]
        return soon, moment.at_ns - max(acks, default=0)
    if each is None:
        soon = None if finding.code == "no-consumer" else truth.sent_in
        return soon, moment.at_ns - truth.since
    if finding.code in HOLDERS:
        oldest = min((hold.since_ns for hold in each.holds), default=moment.at_ns)
        return each.drained_in, moment.at_ns - oldest
    return each.ready_in, each.stood
