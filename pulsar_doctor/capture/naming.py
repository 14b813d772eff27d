"""Finds out who the consumers of captured connections are, by what the broker's stats say.

The stats name the address of each consumer, and not its number on that connection. A consumer that
is alone at its address is the one that speaks there: known by `address`, where all topics were
asked that may have one there, and only `likely` otherwise. Where several are, each is held against
each number: between two samples its permits and the count of its messages must have moved as the
frames of that number say. A pair that did not is out, for good; who is left with one number that
nobody else can have is known by `movement`. One whose SUBSCRIBE was seen is known by `name`. Who
cannot be told apart stays a number.

A sample says something of a ledger only where it is *settled*: no frame of that consumer passed
between MARGIN_NS before the question and as long after the answer, and none is being missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pulsar_doctor.capture.connections import CapturedConnection
from pulsar_doctor.capture.listening import CaptureListener
from pulsar_doctor.capture.packets import address_text
from pulsar_doctor.capture.told import ConsumerTold, ToldIdentity, plain_address
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.framing import Frame, Frames

MARGIN_NS = 1_000_000_000
SUBSCRIBE, FLOW, MESSAGE, ACK, CLOSE_CONSUMER, REDELIVER = 4, 11, 9, 10, 16, 20
OF_CONSUMERS = {SUBSCRIBE: "subscribe", FLOW: "flow", MESSAGE: "message", ACK: "ack",
                REDELIVER: "redeliver", CLOSE_CONSUMER: "close_consumer"}  # fmt: skip
SHARING = ("Shared", "Key_Shared")


@dataclass(slots=True)
class Moves:
    """What passed of one number on a connection. subscribed: topic and subscription."""

    subscribed: tuple[str, str] | None = None
    balance: int = 0
    sent: int = 0
    last_ns: int = 0
    named: bool = False


class Before(NamedTuple):
    """An earlier sample, of a moment when a number rested, and how far it had moved then."""

    permits: int | None
    sent: int | None
    moved: tuple[int, int]


NOT_SEEN = -1  # stands for every number that had said nothing at the last sample


@dataclass(slots=True)
class SeenConnection:
    """One connection as its frames show it."""

    numbers: dict[int, Moves] = field(default_factory=dict)
    before: dict[ToldIdentity, dict[int, Before]] = field(default_factory=dict)
    out: set[tuple[int, ToldIdentity]] = field(default_factory=set)
    told: set[ToldIdentity] = field(default_factory=set)

    def forget_moves(self) -> None:
        """Frames were missed: what moved is not known."""
        self.before.clear()


Tell = Callable[[int, dict[str, Any], int], object]


class Naming:
    """Stands before a listener, passes all on, and names consumers. Changed in place.

    open_connection: gives a connection its number. tell: takes the columns of a STATS.
    """

    def __init__(self, out: CaptureListener, tell: Tell) -> None:
        self._out, self._tell = out, tell
        self._seen: dict[int, SeenConnection] = {}
        self._samples: list[tuple[tuple[ConsumerTold, ...], bool]] = []
        self._began_ns: int | None = None

    def opened(self, conn_id: int, client: str, broker: str, now_ns: int) -> None:
        """See CaptureListener; so are the next four."""
        self._seen[conn_id] = SeenConnection()
        self._out.opened(conn_id, client, broker, now_ns)

    def joined(self, conn_id: int, direction: int, known_by: str, now_ns: int) -> None:
        """Its frames are read from here on."""
        self._out.joined(conn_id, direction, known_by, now_ns)

    def frames(self, conn_id: int, direction: int, frames: Frames, now_ns: int) -> None:
        """Frames that are all there."""
        seen = self._seen[conn_id]
        for frame in frames:
            if frame.code in OF_CONSUMERS:
                _move(seen, frame, now_ns)
        self._out.frames(conn_id, direction, frames, now_ns)

    def unparsed(self, conn_id: int, direction: int, why: str, now_ns: int) -> None:
        """From here on its ledgers are not known."""
        self._seen[conn_id].forget_moves()
        self._out.unparsed(conn_id, direction, why, now_ns)

    def closed(self, conn_id: int, why: str, now_ns: int) -> None:
        """The end of a connection."""
        self._seen.pop(conn_id, None)
        self._out.closed(conn_id, why, now_ns)

    def sample(self, told: Sequence[ConsumerTold], *, complete: bool) -> None:
        """What the broker says at one moment. complete: of all topics that may be meant."""
        if told:
            self._samples.append((tuple(told), complete))
            self._samples.sort(key=lambda each: each[0][0].until_ns)

    def due(self, now_ns: int) -> bool:
        """Whether a sample is old enough to be read."""
        if self._began_ns is None:
            self._began_ns = now_ns
        return bool(self._samples) and self._samples[0][0][0].until_ns + MARGIN_NS <= now_ns

    def read(
        self,
        now_ns: int,
        connections: Iterable[CapturedConnection],
        open_connection: Callable[[CapturedConnection], int],
        *,
        at_end: bool = False,
    ) -> None:
        """Reads the samples that are due; at the end all, for the names that they tell."""
        by_address = {address_text(each.sides.client): each for each in connections}
        while self._samples and (at_end or self.due(now_ns)):
            told, complete = self._samples.pop(0)
            at: dict[str, list[ConsumerTold]] = {}
            for consumer in told:
                at.setdefault(plain_address(consumer.address), []).append(consumer)
            for address, consumers in at.items():
                connection = by_address.get(address)
                if connection is not None:
                    conn_id = open_connection(connection)
                    within = (self._began_ns or 0) + MARGIN_NS <= consumers[0].from_ns
                    within = within and consumers[0].until_ns + MARGIN_NS <= now_ns
                    settled = connection.settled and within
                    self._name(conn_id, consumers, now_ns, settled=settled, complete=complete)

    def _name(
        self,
        conn_id: int,
        consumers: Sequence[ConsumerTold],
        now_ns: int,
        *,
        settled: bool,
        complete: bool,
    ) -> None:
        seen = self._seen[conn_id]
        if settled:
            _rule_out(seen, consumers)
        unnamed = [n for n, moves in seen.numbers.items() if moves.subscribed is None]
        left = [each for each in consumers if not _subscribed(seen, each)]
        for consumer in consumers:
            number, known_by = _subscribed(seen, consumer), "name"
            if number is None:
                number, known_by = _number(seen, consumer, left, unnamed)
            if number is None and unnamed and not _is_out(seen, consumer, unnamed):
                continue  # it may be any of several
            alone = len(left) == 1 and complete
            if known_by == "address" and number is not None and not alone:
                known_by = "likely"  # others that are not told may be there
            moves = seen.numbers.get(-1 if number is None else number)
            quiet = moves is None or moves.last_ns < consumer.from_ns - MARGIN_NS
            exact = settled and quiet and consumer.permits is not None
            if known_by == "name" and not exact:
                continue
            if exact or consumer.identity not in seen.told or (moves and not moves.named):
                self._tell(conn_id, _columns(consumer, number, known_by, exact=exact), now_ns)
                seen.told.add(consumer.identity)
                if moves:
                    moves.named = True


def _columns(
    consumer: ConsumerTold, number: int | None, known_by: str, *, exact: bool
) -> dict[str, Any]:
    return {
        "consumer_id": number,
        "topic": consumer.topic,
        "subscription": consumer.subscription,
        "subscription_type": consumer.type,
        "consumer_name": consumer.name,
        "client_version": consumer.client_version,
        "permits": consumer.permits if exact else None,
        "messages": consumer.unacked if exact and consumer.type in SHARING else None,
        "known_by": known_by,
        "last_sign": consumer.last_sign_us,
    }


def _move(seen: SeenConnection, frame: Frame, now_ns: int) -> None:
    try:
        command = wire.BaseCommand.FromString(frame.command)
    except Exception:  # upb's DecodeError; masking deals with it
        return
    part = getattr(command, OF_CONSUMERS[frame.code])
    if frame.code == CLOSE_CONSUMER:
        seen.numbers.pop(part.consumer_id, None)
        return
    moves = seen.numbers.setdefault(part.consumer_id, Moves())
    moves.last_ns = now_ns
    if frame.code == SUBSCRIBE:
        seen.numbers[part.consumer_id] = Moves((part.topic, part.subscription), last_ns=now_ns)
    elif frame.code == FLOW:
        moves.balance += part.message_permits
    elif frame.code == MESSAGE:
        batch = _batch_of(frame)
        moves.balance -= batch
        moves.sent += batch


def _batch_of(frame: Frame) -> int:
    """How many messages a MESSAGE brings; one where its metadata cannot be read."""
    try:
        metadata = wire.MessageMetadata.FromString(frame.metadata or b"")
    except Exception:  # upb's DecodeError; masking deals with it
        return 1
    return max(1, metadata.num_messages_in_batch)


def _rule_out(seen: SeenConnection, consumers: Sequence[ConsumerTold]) -> None:
    """Holds what each consumer moved since an earlier sample against what each number did."""
    for consumer in consumers:
        before = seen.before.setdefault(consumer.identity, {})
        for number, moves in seen.numbers.items():
            if moves.subscribed is None:
                then = before.get(number, before.get(NOT_SEEN))
                if then is not None:
                    before[number] = then
                if moves.last_ns < consumer.from_ns - MARGIN_NS:
                    if then is not None and not _fits(then, consumer, moves):
                        seen.out.add((number, consumer.identity))
                    moved = moves.balance, moves.sent
                    before[number] = Before(consumer.permits, consumer.sent, moved)
        before[NOT_SEEN] = Before(consumer.permits, consumer.sent, (0, 0))


def _fits(then: Before, now: ConsumerTold, moves: Moves) -> bool:
    """Whether this number may be this consumer's, by what both did since then."""
    permits, sent = _change(then.permits, now.permits), _change(then.sent, now.sent)
    balance, count = moves.balance - then.moved[0], moves.sent - then.moved[1]
    return permits in (None, balance) and sent in (None, count)


def _change(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _subscribed(seen: SeenConnection, consumer: ConsumerTold) -> int | None:
    """Its number, where its SUBSCRIBE was seen and it is the only one of these names there."""
    names = consumer.topic, consumer.subscription
    found = [n for n, moves in seen.numbers.items() if moves.subscribed == names]
    return found[0] if len(found) == 1 else None


def _number(
    seen: SeenConnection,
    consumer: ConsumerTold,
    left: Sequence[ConsumerTold],
    unnamed: Sequence[int],
) -> tuple[int | None, str]:
    """Which number it has, and how that is known; None: it has said nothing, or is not known."""
    mine = [n for n in unnamed if (n, consumer.identity) not in seen.out]
    if len(left) == 1 and len(mine) == len(unnamed) == 1:
        return mine[0], "address"
    if len(mine) != 1:
        return None, "address"
    others = [each for each in left if each.identity != consumer.identity]
    taken = any((mine[0], each.identity) not in seen.out for each in others)
    return (None, "address") if taken else (mine[0], "movement")


def _is_out(seen: SeenConnection, consumer: ConsumerTold, unnamed: Sequence[int]) -> bool:
    """Whether it is none of these: it has said nothing yet."""
    return all((number, consumer.identity) in seen.out for number in unnamed)
