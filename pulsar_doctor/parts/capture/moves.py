"""Counts what was sent to each consumer of a connection, to find out which one it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pulsar_doctor.broker.stats.topic import ConsumerStats
from pulsar_doctor.parts.capture.bounds import FramesMoved, PermitBalance, RecentFrames
from pulsar_doctor.parts.capture.reported import ConsumerIdentity, StatsConsumer
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.framing import Frame

SUBSCRIBE, FLOW, MESSAGE, ACK, CLOSE_CONSUMER, REDELIVER = 4, 11, 9, 10, 16, 20
OF_CONSUMERS = {SUBSCRIBE: "subscribe", FLOW: "flow", MESSAGE: "message", ACK: "ack",
                REDELIVER: "redeliver", CLOSE_CONSUMER: "close_consumer"}  # fmt: skip
NOTHING = FramesMoved(0, 0, 0)
LIKELY = "likely"  # known only as nobody else is reported
LEDGERS_MOST = 1_000  # of one number, with a topic that nobody has reported
NUMBERS_MOST = 10_000  # of one connection; what a payload holds may have any
NOT_SEEN = -1  # for every number that had sent nothing at the last sample


@dataclass(slots=True)
class Moves:
    """What passed of one number on a connection."""

    subscribed: tuple[str, str] | None = None  # topic and subscription
    topics: set[str] = field(default_factory=set)  # that its messages are from, by their ledgers
    ledgers: set[int] = field(default_factory=set)  # of messages; their topic is not known
    granted: int = 0
    sent: int = 0
    last_ns: int = 0
    begun_ns: int | None = None  # first frame since nothing is missing
    largest: int = 1  # messages of one entry, at most
    named: bool = False
    likely: bool = False  # some of it is not proven
    recent: RecentFrames = field(default_factory=RecentFrames)
    permits: PermitBalance = field(default_factory=PermitBalance)

    @property
    def balance(self) -> int:
        """By how much its frames have moved its permits."""
        return self.granted - self.sent


class Before(NamedTuple):
    """An earlier sample, of a moment when a number rested, and how far it had moved then."""

    of: ConsumerStats
    moved: tuple[int, int]


UNKNOWN = Before(ConsumerStats(), (0, 0))  # of a number that had spoken, and did not rest


class Named(NamedTuple):
    """A name that was given to a number."""

    columns: dict[str, Any]
    identity: ConsumerIdentity


@dataclass(slots=True)
class SeenConnection:
    """One connection as its frames show it, and what is concluded of it."""

    numbers: dict[int, Moves] = field(default_factory=dict)
    before: dict[ConsumerIdentity, dict[int, Before]] = field(default_factory=dict)
    out: set[tuple[int, ConsumerIdentity]] = field(default_factory=set)  # pairs that are impossible
    reported: set[ConsumerIdentity] = field(
        default_factory=set
    )  # those that a STATS event is about
    named: dict[int, Named] = field(default_factory=dict)  # the current names
    # topic -> its consumers in the broker's last report
    met: dict[str, list[StatsConsumer]] = field(default_factory=dict)
    # by direction: its frames are only likely
    likely: list[bool] = field(default_factory=lambda: [False, False])

    def meet(self, consumers: Sequence[StatsConsumer], *, all_of_them: bool) -> None:
        """Meets consumers of some topics, all that each has at this address; or of all topics."""
        if all_of_them:
            self.met.clear()
        for topic in {each.topic for each in consumers}:
            self.met[topic] = [each for each in consumers if each.topic == topic]

    @property
    def unnamed(self) -> list[int]:
        """Numbers without a SUBSCRIBE in the capture."""
        return [number for number, moves in self.numbers.items() if moves.subscribed is None]

    @property
    def left(self) -> list[StatsConsumer]:
        """Consumers who may have one of those."""
        met = [each for group in self.met.values() for each in group]
        return [each for each in met if self.subscribed(each) is None]

    def subscribed(self, consumer: StatsConsumer) -> int | None:
        """The consumer's number, if its SUBSCRIBE was seen and no other has its name there."""
        names = consumer.topic, consumer.subscription
        found = [n for n, moves in self.numbers.items() if moves.subscribed == names]
        return found[0] if len(found) == 1 else None

    def proven(self, identity: ConsumerIdentity) -> int | None:
        """The consumer's number, where a name that is more than likely is set."""
        for number, named in self.named.items():
            if named.identity == identity and named.columns["known_by"] != LIKELY:
                return number
        return None

    @property
    def free(self) -> list[int]:
        """The numbers of `unnamed` that nobody is proven to have."""
        taken = {self.proven(each.identity) for each in self.left}
        return [number for number in self.unnamed if number not in taken]

    def forget_moves(self) -> None:
        """Frames were missed: what moved is not known."""
        self.before.clear()
        for moves in self.numbers.values():
            moves.permits, moves.begun_ns = PermitBalance(), None


def move(seen: SeenConnection, frame: Frame, now_ns: int, *, likely: bool = False) -> None:
    """Takes a frame with a code of OF_CONSUMERS. likely: whether it is not proven to be one."""
    try:
        command = wire.BaseCommand.FromString(frame.command)
    except Exception:  # upb's DecodeError; masking deals with it
        return
    part = getattr(command, OF_CONSUMERS[frame.code])
    if frame.code == CLOSE_CONSUMER:
        seen.numbers.pop(part.consumer_id, None)
        seen.named.pop(part.consumer_id, None)
        return
    moves = seen.numbers.get(part.consumer_id)
    if moves is None:
        if len(seen.numbers) >= NUMBERS_MOST:
            return
        moves = seen.numbers[part.consumer_id] = Moves()
    moves.last_ns = now_ns
    moves.begun_ns = moves.begun_ns or now_ns
    moves.likely |= likely
    if frame.code in (MESSAGE, ACK) and len(moves.ledgers) < LEDGERS_MOST:
        ids = [part.message_id] if frame.code == MESSAGE else part.message_id
        moves.ledgers.update(each.ledger_id for each in ids)
    if frame.code == SUBSCRIBE:
        seen.named.pop(part.consumer_id, None)
        names = part.topic, part.subscription
        seen.numbers[part.consumer_id] = Moves(names, last_ns=now_ns, likely=likely)
    passed = _passed(frame, part)
    moves.granted += passed.granted
    moves.sent += passed.spent
    moves.largest = max(moves.largest, passed.spent)
    moves.recent.add(now_ns, passed)


def _passed(frame: Frame, part: Any) -> FramesMoved:
    if frame.code == FLOW:
        return FramesMoved(part.message_permits, 0, 0)
    if frame.code == MESSAGE:
        return FramesMoved(0, _batch_of(frame), 0)
    if frame.code == ACK:
        return FramesMoved(0, 0, len(part.message_id))
    return NOTHING


def _batch_of(frame: Frame) -> int:
    """How many messages a MESSAGE brings; one where its metadata cannot be read."""
    try:
        metadata = wire.MessageMetadata.FromString(frame.metadata or b"")
    except Exception:  # upb's DecodeError; masking deals with it
        return 1
    return max(1, metadata.num_messages_in_batch)


def rule_out_by_moves(
    seen: SeenConnection, consumers: Sequence[StatsConsumer], margin_ns: int
) -> None:
    """Holds what each consumer moved since an earlier sample against what each number did."""
    for consumer in consumers:
        before = seen.before.setdefault(consumer.identity, {})
        for number, moves in seen.numbers.items():
            if moves.subscribed is None:
                then = before[number] = before.get(number, before.get(NOT_SEEN, UNKNOWN))
                if moves.last_ns < consumer.from_ns - margin_ns:
                    if not _fits(then, consumer, moves):
                        seen.out.add((number, consumer.identity))
                    moved = moves.balance, moves.sent
                    before[number] = Before(consumer.of, moved)
        before[NOT_SEEN] = Before(consumer.of, (0, 0))


def _fits(then: Before, now: StatsConsumer, moves: Moves) -> bool:
    """Whether this number may be this consumer's, by what both did since then."""
    permits = _change(then.of.available_permits, now.of.available_permits)
    sent = _change(then.of.msg_out_counter, now.of.msg_out_counter)
    balance, count = moves.balance - then.moved[0], moves.sent - then.moved[1]
    return permits in (None, balance) and sent in (None, count)


def _change(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before
