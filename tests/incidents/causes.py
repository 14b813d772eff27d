"""What is true of a moment in the codes of the rules: every cause that the model knows of, by name.

The rules are not used. Several may be true at once: a consumer that hangs without permits, holds
messages that idle consumers could process, and acknowledges nothing. What has only just begun may
be called healthy as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis.answers import HEALTHY
from pulsar_doctor.diagnosis.causes import load
from tests.incidents.moments import Moment, OfConsumer
from tests.incidents.script import SECOND
from tests.incidents.truth import (
    FIRST_ACK_NS,
    MANY,
    NOTHING_NEW_NS,
    REFILL_WAIT_NS,
    SLOW_WAIT_NS,
)

Cause = tuple[str, str | None]  # a code, and the consumer that is to blame
EXPLAINS = {HEALTHY: frozenset[str](), **{rule.code: rule.explains for rule in load()}}
FACTS = frozenset({"delayed-messages", "backlog-counter-wrong", "holes-over-limit", "ack-hole"})
STORM_NS, STORM_LEAST = 300 * SECOND, 10  # deliveries within this time; fewer are no storm
SURE_NS, SURE_LEAST = 60 * SECOND, 20  # so many within this time nobody calls healthy
NEAR = 1.5  # times: so close to a threshold both sides of it are right


def causes(moment: Moment) -> frozenset[Cause]:
    """All that is true; that it is healthy where nothing is, or where all of it is young."""
    found = dict(_found(moment))
    if all(age < _patience(code) for (code, _), age in found.items()):
        found[HEALTHY, None] = 0
    return frozenset(found)


def roots(moment: Moment) -> frozenset[Cause]:
    """Of these the ones that explain the others on the same consumer, or on everybody's.

    While all of it is young, that it is healthy, and what is so without being a fault.
    """
    found = causes(moment)
    if (HEALTHY, None) in found:
        return frozenset((code, who) for code, who in found if code == HEALTHY or code in FACTS)
    return frozenset(
        (code, who)
        for code, who in found
        if not any(
            code in _explained(moment, cause, whom) and (who == whom or None in (who, whom))
            for cause, whom in found
        )
    )


def _explained(moment: Moment, code: str, who: str | None) -> frozenset[str]:
    """Codes that are only what follows from this one."""
    each = moment.truth.consumers.get(who or "")
    explained = EXPLAINS[code]
    if each is not None and _is_slow(moment, each):  # the root is that it is slow
        explained -= {"slow-but-progressing"} if code == "permits-exhausted" else frozenset()
        explained |= {"permits-exhausted"} if code == "slow-but-progressing" else frozenset()
    if code == "permits-exhausted" and each is not None and each.app.worker.acks != "never":
        explained |= {"not-acknowledging"}  # it hangs with a full queue
    if code == "not-acknowledging" and each is not None and each.app.worker.acks == "never":
        explained |= {"permits-exhausted", "slow-but-progressing"}
    if code == "exclusive-zombie":
        explained |= {"permits-exhausted", "prefetch-hogging", "negative-permits"}
    if code in ("permits-exhausted", "slow-but-progressing") and not _deep(each):
        explained |= {"negative-permits"}
    return explained


def _deep(each: OfConsumer | None) -> bool:
    """Whether a batch took it further below zero than its queue is long."""
    return each is not None and each.permits < -max(1, each.app.worker.queue)


def _patience(code: str) -> int:
    """While it holds something and may be sent more, its first ack may take a little longer."""
    return int((FIRST_ACK_NS if code == "not-acknowledging" else SLOW_WAIT_NS) * NEAR)


def _found(moment: Moment) -> Iterator[tuple[Cause, int]]:
    """Each cause with its age in nanoseconds."""
    truth, script = moment.truth, moment.incident.script
    yield from _of_broker(moment)
    given_back = [each.app.worker.nacks for each in truth.consumers.values() if each.unacked]
    if _storms(moment) or max(given_back, default=0) == 1:
        lately = sum(1 for at, _ in truth.sent if at >= moment.at_ns - SURE_NS)
        yield ("redelivery-storm", None), moment.at_ns if lately >= SURE_LEAST else 0
    elif max(given_back, default=0) >= 0.5:  # half is acknowledged each time: no storm yet
        yield ("redelivery-storm", None), 0
    if any(each.stays_ns and moment.at_ns > 2 * each.stays_ns for each in script.workers):
        yield ("consumers-come-and-go", None), 0  # they crash in a loop, and may be gone now
    if not truth.consumers:
        if truth.waiting:
            yield ("no-consumer", None), moment.at_ns - truth.since
        return
    for each in truth.consumers.values():
        for code, age in _of_consumer(moment, each):
            yield (code, each.app.worker.name), age
    if _has_hole(moment):
        yield ("ack-hole", None), 0  # it is told, and nothing has to be wrong
    if script.subscription_limit:
        blocked = [each for each in truth.consumers.values() if each.blocked and _stands(each)]
        if blocked:
            yield ("blocked-on-unacked-subscription", None), max(each.stood for each in blocked)


def _of_broker(moment: Moment) -> Iterator[tuple[Cause, int]]:
    """What is its doing, or is set there."""
    truth, at_ns = moment.truth, moment.at_ns
    asks = any(each.ready for each in truth.consumers.values())
    if truth.stuck and asks and truth.waiting > 0:
        yield ("broker-read-stuck", None), at_ns - truth.since
    if truth.throttled and asks and truth.waiting > 0:
        yield ("dispatch-throttled", None), at_ns
    if truth.gone is not None and truth.waiting > 0:
        yield ("inactive-failover", None), at_ns - truth.gone
    if truth.delayed:
        yield ("delayed-messages", None), 0
    if truth.miscounts:
        yield ("backlog-counter-wrong", None), 0


def _storms(moment: Moment) -> bool:
    """Whether most of what was sent lately had been sent before, and little is acknowledged."""
    since = moment.at_ns - STORM_NS
    sent = [times for at, times in moment.truth.sent if at >= since]
    acks = (ack for app in moment.incident.apps for ack in app.attached.acks)
    acked = sum(messages for at, messages in acks if since <= at <= moment.at_ns)
    again = sum(1 for times in sent if times > 1)
    truth = moment.truth
    left = truth.waiting or any(each.unacked for each in truth.consumers.values())
    enough = len(sent) >= STORM_LEAST and max(sent) > 2
    return bool(left) and enough and 2 * again > len(sent) > 2 * acked


def _of_consumer(moment: Moment, each: OfConsumer) -> Iterator[tuple[str, int]]:
    script, held_for = moment.incident.script, _held_for(moment, each)
    stuck, several = each.hangs or each.paused, len(moment.truth.consumers) > 1
    if each.app.dead(moment.at_ns) and _keeps(moment, each):
        yield "exclusive-zombie", moment.at_ns - _successor_ns(moment, each)
    if each.lost and _never_asks(each):
        yield "permit-leak", each.stood if moment.truth.waiting else 0
        if script.type == "failover" and several and moment.truth.waiting:
            yield "inactive-failover", each.stood
    if each.blocked and script.consumer_limit and _stands(each):
        yield "blocked-on-unacked-consumer", each.stood
    if _asks_no_more(moment, each) and _stands(each):
        stood = 0 if _asks_on(moment, each) else each.stood
        for code in _by_length(moment, each):
            yield code, stood
        if each.permits < -1:
            yield "negative-permits", stood
        if script.type == "failover" and several:
            yield "inactive-failover", stood
    if each.unacked and (stuck or each.app.worker.acks == "never"):
        yield "not-acknowledging", min(held_for, _since_ack(moment, each))
    elif each.unacked and _silent(moment, each, held_for):
        yield "not-acknowledging", 0  # so it is, though it may be work
    keeps = each.unacked and several and not moment.truth.waiting and script.type == "shared"
    if keeps and _silent(moment, each, held_for):
        yield "prefetch-hogging", 0  # nobody can tell a queue from what is done and not acked
    if _hogs(moment, each):
        yield "prefetch-hogging", held_for
    if script.type == "key_shared" and several and moment.truth.waiting and _long_to_drain(each):
        yield "key-shared-blocked", held_for
    if not each.app.worker.queue and each.permits < 0 and _stands(each):
        yield "zero-queue-unsupported", each.stood
        yield "permits-exhausted", each.stood


def _silent(moment: Moment, each: OfConsumer, held_for: int) -> bool:
    """Whether it has held something for long without an ack; or many since it came, and none."""
    if min(held_for, _since_ack(moment, each)) >= REFILL_WAIT_NS:
        return True
    never = not [at for at, _ in each.app.attached.acks if at <= moment.at_ns]
    return never and each.unacked >= MANY and held_for >= SLOW_WAIT_NS


def _keeps(moment: Moment, each: OfConsumer) -> bool:
    """Whether one of its name has come since, and it keeps messages from that one, or its place."""
    active = moment.incident.script.type != "failover" or each.app.attached.index == min(
        other.app.attached.index for other in moment.truth.consumers.values()
    )
    return bool(each.holds) and active and _successor_ns(moment, each) > 0


def _successor_ns(moment: Moment, each: OfConsumer) -> int:
    """Since when another one of its name is there; 0 for never."""
    return max(
        (
            other.app.attached.since_ns
            for other in moment.truth.consumers.values()
            if other is not each and other.app.worker.name == each.app.worker.name
        ),
        default=0,
    )


def _never_asks(each: OfConsumer) -> bool:
    """Whether all that it may still take does not add up to a FLOW."""
    client = each.app.client
    owed = each.unsent + each.queued - each.credited
    if client.client.credits == "finished":
        owed += each.in_hand
    return each.permits <= 0 and owed < client.threshold


def _asks_no_more(moment: Moment, each: OfConsumer) -> bool:
    """Whether it is out of permits with something to do, or has never asked though some wait."""
    if not each.app.attached.flows and each.paused:
        return moment.truth.waiting > 0
    return each.unacked > 0 and each.permits <= 0 and not _works_singly(each)


def _asks_on(moment: Moment, each: OfConsumer) -> bool:
    """Whether its FLOWs keep coming: after a batch they bring its permits back from below zero."""
    flows = [at for at, _ in each.app.attached.flows if at <= moment.at_ns]
    last = moment.at_ns - max(flows, default=0)
    return each.flow_in is not None and last + each.flow_in <= SLOW_WAIT_NS


def _stands(each: OfConsumer) -> bool:
    """Whether the broker may not send to it, for as long in all as somebody may call too long."""
    whole = None if each.ready_in is None else each.stood + each.ready_in
    return not each.ready and (whole is None or whole > SLOW_WAIT_NS / NEAR)


def _works_singly(each: OfConsumer) -> bool:
    """Whether no smaller queue could do better: it works on all it has, however long that takes."""
    stops = each.hangs or each.paused or each.app.worker.acks == "never"
    return not each.queued and not stops


def _by_length(moment: Moment, each: OfConsumer) -> Iterator[str]:
    """Also slow where its FLOW comes as soon as it must, or not much later."""
    yield "permits-exhausted"
    if _is_slow(moment, each, NEAR):
        yield "slow-but-progressing"


def _is_slow(moment: Moment, each: OfConsumer, times: float = 1) -> bool:
    """Whether its FLOW comes in time. Nobody else could take what it holds, unless one is idle."""
    others = (other for other in moment.truth.consumers.values() if other is not each)
    idle = any(other.ready and not other.unacked for other in others)
    in_time = REFILL_WAIT_NS if idle else NOTHING_NEW_NS
    return each.ready_in is not None and each.ready_in <= in_time * times


def _hogs(moment: Moment, each: OfConsumer) -> bool:
    truth = moment.truth
    idle = any(other.ready and not other.unacked for other in truth.consumers.values())
    shared = moment.incident.script.type == "shared"
    return shared and idle and not truth.waiting and each.queued > 0 and _long_to_drain(each)


def _long_to_drain(each: OfConsumer) -> bool:
    return each.unacked > 0 and (each.drained_in is None or each.drained_in > SLOW_WAIT_NS)


def _held_for(moment: Moment, each: OfConsumer) -> int:
    return moment.at_ns - min((hold.since_ns for hold in each.holds), default=moment.at_ns)


def _since_ack(moment: Moment, each: OfConsumer) -> int:
    acks = [at for at, _ in each.app.attached.acks if at <= moment.at_ns]
    return moment.at_ns - (acks[-1] if acks else 0)


def _has_hole(moment: Moment) -> bool:
    """Whether the model's broker keeps acknowledged ranges behind an entry that is not."""
    [cursor] = moment.taken[-1].internal["cursors"].values()
    return bool(cursor["totalNonContiguousDeletedMessagesRange"])


def is_right(said: Cause, true: frozenset[Cause]) -> bool:
    """Whether what was said is among it. Who is to blame counts where both name somebody.

    By name: what is true has no address, which the label of one of several namesakes has.
    """
    code, who = said[0], said[1] and said[1].partition(" at ")[0]
    return any(code == known and (who == whom or None in (who, whom)) for known, whom in true)
