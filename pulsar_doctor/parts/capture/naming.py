"""Finds out which consumers are on captured connections, from the broker's stats.

The stats name the address of each consumer, and not its number on that connection. A consumer that
is alone at its address is the one that speaks there: known by `address`, where all topics were read
that may have one there, and only `likely` otherwise. Where several are, each is held against each
number: between two samples its permits and the count of its messages must have moved as the frames
of that number say. A pair that did not is out, for good; who is left with one number that nobody
else can have is known by `movement`. Where internal stats tell the ledgers of topics, those that a
number's messages are of say its topic: the only consumer of that topic there is known by `ledger`.
One with its SUBSCRIBE in the capture is known by `name`. Who cannot be distinguished stays a
number.

A name is taken back where a later sample rules it out, and one that was only likely also where
another turns up who may have that number: a STATS that is known_by `mistaken`.

A sample says something of a ledger only where it is *settled*: none of its frames is being missed.
Where frames passed between MARGIN_NS before the question and as long after the answer it tells
bounds (see bounds.py). Frames that are only likely are taken back where statistics contradict them:
where what moved is not what the broker says, or there are more numbers than consumers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pulsar_doctor.evidence.values import Count
from pulsar_doctor.parts.capture.bounds import MARGIN_NS, PermitBalance
from pulsar_doctor.parts.capture.connections import CapturedConnection
from pulsar_doctor.parts.capture.listening import CaptureListener
from pulsar_doctor.parts.capture.moves import (
    LIKELY,
    OF_CONSUMERS,
    Moves,
    Named,
    SeenConnection,
    move,
    rule_out_by_moves,
)
from pulsar_doctor.parts.capture.packets import address_text
from pulsar_doctor.parts.capture.reported import ConsumerSample, StatsConsumer, plain_address
from pulsar_doctor.wire.columns import (
    CLOSE,
    JOINED,
    LIKELY_BY,
    MISTAKEN,
    OPEN,
    RETRACTED,
    STATS,
    UNPARSED,
)
from pulsar_doctor.wire.framing import Frames

SHARING = ("Shared", "Key_Shared")
CONTRADICTED = "the broker's statistics contradict it"


class ContradictionError(Exception):
    """What the broker says cannot be, if these frames were its consumer's."""


class Naming:
    """Names consumers, passes all on to `out`; changes in place."""

    def __init__(self, out: CaptureListener) -> None:
        self._out = out
        self._seen: dict[int, SeenConnection] = {}
        self._samples: list[ConsumerSample] = []
        self._standing: list[ConsumerSample] = []
        self._stood_ns = 0  # when they were looked at
        self._topics: dict[int, str] = {}  # by ledger
        self._began_ns: int | None = None
        self.mistaken = 0  # names that were taken back

    def event(
        self, conn_id: int, command: str, now_ns: int, way: int | None = None, **columns: object
    ) -> None:
        """See CaptureListener."""
        if command == OPEN:
            self._seen[conn_id] = SeenConnection()
        elif command == JOINED:
            self._seen[conn_id].likely[way or 0] = columns["known_by"] in LIKELY_BY
        elif command == RETRACTED:
            self._forget_likely(conn_id, now_ns)
        elif command == UNPARSED:
            self._seen[conn_id].forget_moves()
        elif command == CLOSE:
            self._seen.pop(conn_id, None)
        self._out.event(conn_id, command, now_ns, way, **columns)

    def frames(self, conn_id: int, direction: int, frames: Frames, now_ns: int) -> None:
        """Frames that are all there."""
        seen = self._seen[conn_id]
        for frame in frames:
            if frame.code in OF_CONSUMERS:
                move(seen, frame, now_ns, likely=seen.likely[direction])
        self._out.frames(conn_id, direction, frames, now_ns)

    def _forget_likely(self, conn_id: int, now_ns: int) -> None:
        """Numbers that were only likely are nobody's, and so are their names."""
        seen = self._seen[conn_id]
        for number in [n for n, moves in seen.numbers.items() if moves.likely]:
            del seen.numbers[number]
            named = seen.named.pop(number, None)
            if named is not None:
                self._take_name(conn_id, seen, named, now_ns)

    def sample(self, sample: ConsumerSample) -> None:
        """What the broker says at one moment."""
        self._topics.update(sample.ledgers)
        if sample.standing:
            self._standing.append(sample)
        elif sample.consumers:
            self._samples.append(sample)
            self._samples.sort(key=lambda each: each.consumers[0].until_ns)

    def due(self, now_ns: int) -> bool:
        """Whether a sample is old enough to be read."""
        if self._began_ns is None:
            self._began_ns = now_ns
        return self._is_timed_due(now_ns) or self._is_standing_due(now_ns)

    def _is_timed_due(self, now_ns: int) -> bool:
        first = self._samples[0].consumers[0] if self._samples else None
        return first is not None and first.until_ns + MARGIN_NS <= now_ns

    def _is_standing_due(self, now_ns: int) -> bool:
        return bool(self._standing) and now_ns - self._stood_ns >= MARGIN_NS

    def read(
        self, now_ns: int, connections: Iterable[CapturedConnection], *, at_end: bool = False
    ) -> None:
        """Reads the samples that are due; at the end all, for the names that they tell."""
        by_address = {address_text(each.sides.client): each for each in connections}
        due = []
        while self._samples and (at_end or self._is_timed_due(now_ns)):
            due.append(self._samples.pop(0))
        if at_end or self._is_standing_due(now_ns):
            self._stood_ns = now_ns
            due += self._standing
        for sample in due:
            at: dict[str, list[StatsConsumer]] = {}
            for consumer in sample.consumers:
                at.setdefault(plain_address(consumer.of.address), []).append(consumer)
            for address, consumers in at.items():
                connection = by_address.get(address)
                if connection is not None:
                    conn_id = connection.open(now_ns)
                    within = (self._began_ns or 0) + MARGIN_NS <= consumers[0].from_ns
                    within = within and consumers[0].until_ns + MARGIN_NS <= now_ns
                    settled = connection.settled and within and not sample.standing
                    try:
                        self._name(
                            conn_id, consumers, now_ns, settled=settled, complete=sample.complete
                        )
                    except ContradictionError:
                        connection.retract(CONTRADICTED, now_ns)

    def _name(
        self,
        conn_id: int,
        consumers: Sequence[StatsConsumer],
        now_ns: int,
        *,
        settled: bool,
        complete: bool,
    ) -> None:
        seen = self._seen[conn_id]
        seen.meet(consumers, all_of_them=complete)
        self._rule_out_by_ledgers(seen)
        if settled:
            rule_out_by_moves(seen, consumers, MARGIN_NS)
            if complete:
                _require_room(seen, consumers)
        self._take_back(conn_id, seen, now_ns)
        left = seen.left
        for consumer in consumers:
            number, known_by = seen.subscribed(consumer), "name"
            if number is None:
                number, known_by = _number(seen, consumer)
            if number is None and not _is_silent(seen, consumer):
                continue  # it may be any of several
            if known_by == "address" and number is not None and not (complete and len(left) == 1):
                known_by = LIKELY  # others that are not reported may be there
            moves = seen.numbers.get(-1 if number is None else number)
            numbers = _numbers(moves, consumer) if settled else None
            if known_by == "name" and (numbers is None or "permits_min" in numbers):
                continue
            if numbers or consumer.identity not in seen.reported or (moves and not moves.named):
                columns = {
                    "consumer_id": number,
                    "topic": consumer.topic,
                    "subscription": consumer.subscription,
                    "subscription_type": consumer.type,
                    "consumer_name": consumer.of.consumer_name,
                    "client_version": consumer.of.client_version,
                    "permits": None,
                    "messages": None,
                    "known_by": known_by,
                    "last_sign": _us(consumer.of.last_sign_ms),
                    "last_sent": _us(consumer.of.last_consumed_timestamp_ms),
                }
                self._out.event(conn_id, STATS, now_ns, **columns | (numbers or {}))
                seen.reported.add(consumer.identity)
                if moves and number is not None:
                    moves.named = True
                    seen.named[number] = Named(columns, consumer.identity)

    def _rule_out_by_ledgers(self, seen: SeenConnection) -> None:
        """Whoever is of another topic than the messages of a number does not have it."""
        left = seen.left
        for number in seen.unnamed:
            moves = seen.numbers[number]
            found = {each for each in moves.ledgers if each in self._topics}
            moves.topics |= {self._topics[each] for each in found}
            moves.ledgers -= found
            if moves.topics:
                others = (each.identity for each in left if each.topic not in moves.topics)
                seen.out |= {(number, identity) for identity in others}

    def _take_back(self, conn_id: int, seen: SeenConnection, now_ns: int) -> None:
        """Names that cannot be; and of those that were only likely, what another may have too."""
        left, unnamed = {each.identity: each for each in seen.left}, seen.unnamed
        for number, named in list(seen.named.items()):
            wrong = (number, named.identity) in seen.out
            if named.columns["known_by"] == LIKELY and named.identity in left:
                wrong = wrong or _number(seen, left[named.identity])[0] != number
            if wrong and number in unnamed:
                del seen.named[number]
                seen.numbers[number].named = False
                seen.numbers[number].permits = PermitBalance()
                self._take_name(conn_id, seen, named, now_ns)

    def _take_name(self, conn_id: int, seen: SeenConnection, named: Named, now_ns: int) -> None:
        seen.reported.discard(named.identity)
        self.mistaken += 1
        self._out.event(conn_id, STATS, now_ns, **named.columns | {"known_by": MISTAKEN})


def _us(moment_ms: int | None) -> int | None:
    return None if moment_ms is None else moment_ms * 1000


def _require_room(seen: SeenConnection, consumers: Sequence[StatsConsumer]) -> None:
    """Raises ContradictionError where a likely number is nobody's of those who are all there."""
    then_ns = consumers[0].from_ns - MARGIN_NS
    left = [each.identity for each in seen.left]
    spoke = {
        number: seen.numbers[number].likely
        for number in seen.unnamed
        if (seen.numbers[number].begun_ns or then_ns) < then_ns
    }
    nobodys = any(
        likely and all((number, identity) in seen.out for identity in left)
        for number, likely in spoke.items()
    )
    if nobodys or (len(spoke) > len(left) and any(spoke.values())):
        raise ContradictionError


def _numbers(moves: Moves | None, consumer: StatsConsumer) -> dict[str, Any] | None:
    """What a sample reports for its ledger; None: nothing. Raises ContradictionError.

    A number with only likely frames is likely its own, until a sample of a moment when it
    rested, or two others that agree with its frames.
    """
    counts = consumer.type in SHARING
    held = consumer.of.unacked_messages if counts else None
    reported = consumer.of.available_permits
    numbers: dict[str, Any] = {"permits": reported, "messages": held}
    if reported is None or moves is None:
        return None if reported is None else numbers
    passed = moves.recent.since(consumer.from_ns - MARGIN_NS)
    if passed is None:
        return None
    permits = Count(reported - passed.spent, reported + passed.granted)
    now = moves.permits.sampled(permits, moves.granted, moves.sent, sets_aside=counts)
    if now is None and moves.likely:
        raise ContradictionError
    if moves.last_ns < consumer.from_ns - MARGIN_NS:
        return numbers
    numbers["grade"] = LIKELY if moves.likely and not moves.permits.agreed else None
    numbers |= {"permits_min": (now or permits).least, "permits_max": (now or permits).most}
    if held is not None:
        numbers["messages_min"] = max(0, held - passed.acks * moves.largest)
        numbers["messages_max"] = held + passed.spent
    return numbers


def _number(seen: SeenConnection, consumer: StatsConsumer) -> tuple[int | None, str]:
    """Which number it has, and how that is known; None: it has sent nothing, or is not known."""
    before = seen.proven(consumer.identity)
    if before is not None and (before, consumer.identity) not in seen.out:
        return before, str(seen.named[before].columns["known_by"])
    others = [
        each.identity
        for each in seen.left
        if each.identity != consumer.identity and seen.proven(each.identity) is None
    ]
    unnamed = seen.free
    mine = [number for number in unnamed if (number, consumer.identity) not in seen.out]
    by_topic = [number for number in mine if consumer.topic in seen.numbers[number].topics]
    if len(by_topic) == 1 and all(identity[0] != consumer.topic for identity in others):
        return by_topic[0], "ledger"
    if len(seen.left) == 1 and len(mine) == len(unnamed) == 1:
        return mine[0], "address"
    if len(mine) != 1:
        return None, "address"
    taken = any((mine[0], identity) not in seen.out for identity in others)
    return (None, "address") if taken else (mine[0], "movement")


def _is_silent(seen: SeenConnection, consumer: StatsConsumer) -> bool:
    """Whether it is none of those that have spoken."""
    return all((number, consumer.identity) in seen.out for number in seen.free)
