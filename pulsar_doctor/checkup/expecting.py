"""Checks what the user of a tap expects of its clients (--expect-consumers, --expect-acked).

An expectation is met only where the trace proves it, and failed only where the trace disproves it:
of commands that are missing, or of a transaction, nobody knows.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pulsar_doctor.checkup.expected import Expectation, Expected
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.ledger.acks.acked import Acked
from pulsar_doctor.ledger.acks.subscription import of_rows
from pulsar_doctor.ledger.consumers import Consumer
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.ledger.topics import NON_PERSISTENT
from pulsar_doctor.trace.reading import Trace
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import OPEN
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import many, printable

ADDRESS = (
    "give the client the address of the tap: PULSAR_SERVICE_URL, or {service_url} in its arguments"
)
NAMELESS = "messages of a non-persistent topic have no ids: nobody knows which are acknowledged"
GIVE_BACK = "REDELIVER_UNACKNOWLEDGED_MESSAGES"
MESSAGES = "let its subscription have messages: pulsar-doctor produce TOPIC -n 200 -s SUB"


@dataclass(frozen=True, slots=True)
class TraceSeen:
    """What a trace shows, as of now."""

    trace: Trace
    timeline: Timeline
    begun_us: int  # when clients could come
    now_us: int
    lost: bool  # commands are missing
    # the tap has ended; before, a young message need not be acknowledged yet
    is_over: bool = True

    def until_us(self, expected: Expected) -> int | None:
        """When it has to be so; None: at the end."""
        within = expected.within_seconds
        return None if within is None else self.begun_us + int(within * 1e6)

    def acked(self, until_us: int | None) -> dict[tuple[str, str], Acked]:
        """By topic and subscription."""
        index_acks = self.trace.meta.storing.batch_index_acks
        found = of_rows(self.trace.rows(), until_us=until_us, batch_index_acks=index_acks)
        return {key: each.acked() for key, each in found.items()}


def seen_in(folder: Path, begun_us: int, *, lost: bool = False, is_over: bool = True) -> TraceSeen:
    """What the trace in this folder shows by now. lost: commands are known to be missing."""
    trace = open_trace(folder)
    timeline = trace.timeline()
    lost = lost or trace.missing(timeline.set_aside).is_loss
    return TraceSeen(trace, timeline, begun_us, time.time_ns() // 1000, lost, is_over)


def unreadable(expected: Expected, why: str) -> list[Expectation]:
    """Each that there is, where the trace cannot be read."""
    options = []
    if expected.consumers is not None:
        options.append(f"--expect-consumers {expected.consumers}")
    if expected.acked is not None:
        options.append(f"--expect-acked {expected.acked}")
    return [Expectation(option, None, why) for option in options]


def expectations(
    expected: Expected, seen: TraceSeen, diagnoses: Sequence[Diagnosis] = ()
) -> list[Expectation]:
    """Each that there is. diagnoses: what is found may say what to do first."""
    found = []
    if expected.consumers is not None:
        found.append(_consumers(expected, seen, expected.consumers))
    if expected.acked == "all":
        found.append(_all(expected, seen))
    elif expected.acked is not None:
        found.append(_so_many(expected, seen, expected.acked))
    return [_advised(each, diagnoses, seen.trace) for each in found]


def _consumers(expected: Expected, seen: TraceSeen, wanted: int) -> Expectation:
    most = most_at_once(seen.timeline.consumers, seen.until_us(expected))
    option, came = f"--expect-consumers {wanted}", f"{most} of {many(wanted, 'consumer')} came"
    if most >= wanted:
        return Expectation(option, True, f"{many(most, 'consumer')} came{expected.in_time}")
    text = came if most else "; ".join(_why_nobody(seen))
    return Expectation(option, None if seen.lost else False, f"{text}{expected.in_time}", ADDRESS)


def most_at_once(consumers: Sequence[Consumer], until_us: int | None) -> int:
    """Most consumers that were attached at one time; a name is one, on however many partitions."""
    there = [
        each
        for each in consumers
        if each.ledger.ready and (until_us is None or each.opened_us <= until_us)
    ]
    moves = [(each.opened_us, 1, each) for each in there]
    moves += [(each.closed_us, 0, each) for each in there if each.closed_us is not None]
    attached: dict[tuple[str, str], int] = {}
    most = 0
    for _, comes, each in sorted(moves, key=lambda move: move[:2]):
        name = (each.subscription, each.label)
        attached[name] = attached.get(name, 0) + (1 if comes else -1)
        if not attached[name]:
            del attached[name]
        most = max(most, len(attached))
    return most


def _why_nobody(seen: TraceSeen) -> Iterator[str]:
    connected, topics = 0, dict[str, None]()
    for row in seen.trace.rows():
        connected += row.command == OPEN
        if row.command == "LOOKUP" and row.topic:
            topics[row.topic] = None
    yield from (f"the broker refused: {each}" for each in seen.timeline.refusals.by_reason)
    if not connected:
        yield "no client connected to the tap"
    elif topics:
        yield f"a client looked {printable(next(iter(topics)))} up, and none subscribed"
    else:
        yield f"{many(connected, 'connection')} came, and no client subscribed"


def _all(expected: Expected, seen: TraceSeen) -> Expectation:
    accounts = seen.acked(None)
    late_us = None if expected.within_seconds is None else int(expected.within_seconds * 1e6)
    least = sum(each.open_least for each in accounts.values())
    most = sum(each.open_most for each in accounts.values())
    delay_us = max((row.ack_delay_us or 0 for row in seen.trace.rows()), default=0)
    expectation = _counted("--expect-acked all", accounts, seen)
    if expectation.seen == NAMELESS:
        return expectation
    if not expectation.delivered:
        nothing = "no message was delivered"
        return replace(expectation, met=None if seen.lost else False, seen=nothing, action=MESSAGES)
    if late_us is not None and delay_us > late_us:
        text = f"a message was acknowledged {duration(delay_us / 1e6)} after its delivery"
        return replace(expectation, met=False, seen=f"{text}, not{expected.in_time}")
    if not seen.is_over and late_us is not None:
        since = [each.since_us for each in accounts.values() if each.since_us is not None]
        if min(since, default=seen.now_us) > seen.now_us - late_us:
            return replace(expectation, met=True)
    if most == 0 and not seen.lost:
        return replace(expectation, met=True)
    return replace(expectation, met=False if least and not seen.lost else None)


def _so_many(expected: Expected, seen: TraceSeen, wanted: int) -> Expectation:
    expectation = _counted(f"--expect-acked {wanted}", seen.acked(seen.until_us(expected)), seen)
    if expectation.seen == NAMELESS:
        return expectation
    expectation = replace(expectation, seen=f"{expectation.seen}{expected.in_time}")
    assert expectation.acknowledged_least is not None
    assert expectation.acknowledged_most is not None
    if expectation.acknowledged_least >= wanted:
        return replace(expectation, met=True)
    unknown = seen.lost or expectation.acknowledged_most >= wanted
    return replace(expectation, met=None if unknown else False)


def _counted(
    option: str, accounts: Mapping[tuple[str, str], Acked], seen: TraceSeen
) -> Expectation:
    """The numbers, and where most is missing."""
    if any(topic.startswith(NON_PERSISTENT) for topic, _ in accounts):
        return Expectation(option, None, NAMELESS)
    delivered = sum(each.delivered for each in accounts.values())
    least = delivered - sum(each.open_most for each in accounts.values())
    most = delivered - sum(each.open_least for each in accounts.values())
    number = str(least) if least == most else f"{least} to {most}"
    text = f"{number} of {many(delivered, 'delivered message')} acknowledged"
    expectation = Expectation(
        option, None, text, delivered=delivered, acknowledged_least=least, acknowledged_most=most
    )
    key = max(
        accounts, key=lambda key: (accounts[key].open_least, accounts[key].open_most), default=None
    )
    if key is None or not accounts[key].open_most:
        return expectation
    topic, subscription = key
    holders = accounts[key].holders
    holder = max(holders, key=lambda name: holders[name], default=None)
    who = "" if holder is None else f"{holder} of "
    has = accounts[key].open_least if holder is None else holders[holder]
    where = printable(f"{who}{subscription} on {topic}")
    how = _how(seen, key, holder) if has else ""
    return replace(
        expectation,
        seen=f"{text}; {where} holds {has}{how}" if has else f"{text}; see {where}",
        topic=topic,
        subscription=subscription,
        consumer=holder,
    )


def _how(seen: TraceSeen, key: tuple[str, str], holder: str | None) -> str:
    """Whether a consumer gives messages back, takes more and more, or may hang in one."""
    there = [
        each
        for each in seen.timeline.consumers
        if (each.topic, each.subscription) == key and each.label == holder
    ]
    numbers = {each.incarnation for each in there}
    given_back = sum(
        row.command == GIVE_BACK and row.incarnation in numbers for row in seen.trace.rows()
    )
    taken = sum(each.ledger.granted - (each.ledger.first_flow or 0) for each in there)
    if given_back:
        return f": it gives messages back ({many(given_back, 'REDELIVER command')})"
    if taken:
        return f": it took {taken} or more of its messages, and does not acknowledge them"
    if all(each.ledger.messages >= each.ledger.granted for each in there):
        return ": it requests no more messages, so it hangs in one, or is slow"
    return (
        ": it hangs in one, or acknowledges none (its first FLOW was for more than came; more "
        "messages, or a smaller receiver queue, show which)"
    )


def _advised(each: Expectation, diagnoses: Sequence[Diagnosis], trace: Trace) -> Expectation:
    """With what to do first: what a finding on this subscription says, else where to look."""
    if each.met or each.action:
        return each
    for diagnosis in diagnoses:
        there = diagnosis.key
        if there == (each.topic, each.subscription) and diagnosis.findings:
            return replace(each, action=diagnosis.findings[0].remedy)
    shown = f"pulsar-doctor trace summary {shlex.quote(str(trace.path))}"
    return replace(each, action=f"see what each consumer did: {shown}")
