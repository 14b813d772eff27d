"""Cross-checks the ledger of each consumer against the permits that the broker reports for it.

Both sides are right about different moments: a FLOW passes the tap before it reaches the broker, a
MESSAGE after it has left, each by up to MARGIN_NS. So a sample is held against all that the broker
can have had between the question and its answer. Where nothing moved that is one number, and both
sides *agree* or do not; otherwise it is an interval, and a number *inside* of it contradicts
nothing. Two samples in a row that lie outside are a *parting*, which is told once. A sample is
*skipped* where nothing can be said: commands are missing, several consumers have one name, the
ledger is an upper bound and the broker says less, or messages that the broker has debited may still
be on their way, since others of that consumer keep coming.

Where FLOWs may have been parked (see permits.py) the ledger is an upper bound, and only a broker
that says more has parted from it. The wire does not show the limit that parks them; who knows it
from the broker says so with the sample. A consumer that never came near it has nothing parked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pulsar_doctor.ledger.consumers import Consumer
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.ledger.topics import split_partition
from pulsar_doctor.wire.columns import Row
from tests.parts.tap.passing import Passing, PossiblePermits

MOVES_KEPT_MOST = 1000  # since both sides agreed, of each consumer


@dataclass(frozen=True, slots=True)
class ConsumerSample:
    """What the broker said of one consumer. topic: with its partition. from_ns, until_ns: of the
    question and its answer, by the relay's monotonic clock.

    unacked_limit: of its unacknowledged messages, 0 for none, None where that is not known.
    """

    topic: str
    subscription: str
    consumer_name: str
    available_permits: int
    unacked_messages: int | None
    blocked: bool | None
    unacked_limit: int | None
    from_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class Move:
    """A command that moves permits: a FLOW grants, a MESSAGE spends."""

    seq: int
    command: str
    permits: int


@dataclass(frozen=True, slots=True)
class Parted:
    """Tap and broker differ. They agreed up to row agreed_seq and do not at row parted_seq.

    tap_available_permits: where permits moved meanwhile, the nearest that the broker can have had.
    difference: how many permits more the broker says. agreed_seq: None where nothing is known of
    the time before. first_command: the first FLOW or MESSAGE after that row. same_size_command: the
    only one since then that is as large as the difference. at_us: when that was certain.
    """

    at_us: int
    incarnation: int
    consumer_name: str | None
    topic: str
    partition: int | None
    subscription: str
    tap_available_permits: int
    broker_available_permits: int
    difference: int
    agreed_seq: int | None
    parted_seq: int
    first_command: Move | None
    same_size_command: Move | None


@dataclass(slots=True)
class SampleCounts:
    """Samples of all consumers, by what they came to."""

    agreed: int = 0
    inside: int = 0
    skipped: int = 0
    parted: int = 0


@dataclass(slots=True)
class ComparedConsumer:
    """One incarnation since both sides agreed."""

    agreed_seq: int | None
    passing: Passing
    moves: list[Move] = field(default_factory=list)
    moves_left_out: int = 0
    unacked_most: int = 0
    differed: Parted | None = None  # in the sample before
    told: bool = False

    def agree(self, seq: int) -> None:
        """Both sides have the same number after the move of this row."""
        self.agreed_seq = seq
        self.moves = [move for move in self.moves if move.seq > seq]
        if self.passing.last_seq == seq:
            self.moves_left_out = 0
        self.differed = None

    def moved(self, move: Move) -> None:
        """One command more."""
        if len(self.moves) < MOVES_KEPT_MOST and not self.moves_left_out:
            self.moves.append(move)
        else:
            self.moves_left_out += 1


class Comparison:
    """All consumers. Changed in place: `add` sees every row."""

    def __init__(self) -> None:
        self._accounts: dict[int, ComparedConsumer] = {}
        self.totals = SampleCounts()
        self.compared: set[int] = set()  # incarnations of which a sample counted

    def add(self, row: Row) -> None:
        """A row with its ledger, in the order of the trace."""
        if row.incarnation is None:
            return
        account = self._accounts.get(row.incarnation)
        if row.command not in MOVERS:
            if account is not None and row.available_permits is not None:
                account.passing.add(row, moves=False)  # an ack may set parked permits free
            return
        if account is None:
            began = row.seq if row.command == "SUBSCRIBE" else None
            account = ComparedConsumer(began, Passing(0 if began is not None else None))
            self._accounts[row.incarnation] = account
        account.passing.add(row, moves=True)
        if row.command != "SUBSCRIBE":
            account.unacked_most = max(account.unacked_most, row.unacked_messages or 0)
            account.moved(Move(row.seq, row.command, row.permits or 0))

    def compare(self, timeline: Timeline, samples: Iterable[ConsumerSample]) -> list[Parted]:
        """The consumers that have parted. To be called once all that passed until the last answer
        has been added.
        """
        living = {consumer.incarnation: consumer for consumer in timeline.living}
        for gone in self._accounts.keys() - living.keys():
            del self._accounts[gone]
        named: dict[tuple[str, str, str], list[Consumer]] = {}
        for consumer in living.values():
            name = consumer.consumer_name or ""
            named.setdefault((consumer.topic, consumer.subscription, name), []).append(consumer)
        partings: list[Parted] = []
        for those in _by_name(samples):
            first = those[0]
            consumers = named.get((first.topic, first.subscription, first.consumer_name), [])
            if len(those) == len(consumers) == 1:
                partings += self._held_against(consumers[0], first)
            else:  # the broker sees the tap's address in place of the client's
                for consumer in consumers:
                    self._count(consumer, "skipped")
        return [replace(parted, at_us=timeline.now_us) for parted in partings]

    def _count(self, consumer: Consumer, outcome: str) -> None:
        setattr(self.totals, outcome, getattr(self.totals, outcome) + 1)
        if outcome != "skipped":
            self.compared.add(consumer.incarnation)

    def _held_against(self, consumer: Consumer, sample: ConsumerSample) -> list[Parted]:
        account = self._accounts.get(consumer.incarnation)
        ledger = consumer.ledger
        bounds = None
        if account is not None and not ledger.uncertain and ledger.ready:
            bounds = account.passing.between(sample.from_ns, sample.until_ns)
        if account is None or bounds is None:
            self._count(consumer, "skipped")
            return []
        outcome = _outcome(consumer, account, sample, bounds)
        self._count(consumer, outcome)
        if outcome == "agreed":
            account.agree(bounds.seq)
        if outcome != "parted":
            account.differed = None
            return []
        if account.told:
            return []
        if account.differed is None:
            account.differed = self._parted(consumer, account, sample, bounds)
            return []
        account.told = True
        return [account.differed]

    def _parted(
        self,
        consumer: Consumer,
        account: ComparedConsumer,
        sample: ConsumerSample,
        bounds: PossiblePermits,
    ) -> Parted:
        topic, partition = split_partition(consumer.topic)
        ours = bounds.nearest(sample.available_permits)
        difference = sample.available_permits - ours
        moves = [move for move in account.moves if move.seq <= bounds.seq]
        alike = [move for move in moves if move.permits == abs(difference)]
        known = account.agreed_seq is not None
        whole = known and not account.moves_left_out and bounds.exact
        return Parted(
            at_us=0,  # not certain yet
            incarnation=consumer.incarnation,
            consumer_name=consumer.consumer_name,
            topic=topic,
            partition=partition,
            subscription=consumer.subscription,
            tap_available_permits=ours,
            broker_available_permits=sample.available_permits,
            difference=difference,
            agreed_seq=account.agreed_seq,
            parted_seq=bounds.seq,
            first_command=moves[0] if known and moves else None,
            same_size_command=alike[0] if whole and len(alike) == 1 else None,
        )


MOVERS = frozenset({"SUBSCRIBE", "FLOW", "MESSAGE"})


def _by_name(samples: Iterable[ConsumerSample]) -> Iterable[list[ConsumerSample]]:
    by_name: dict[tuple[str, str, str], list[ConsumerSample]] = {}
    for sample in samples:
        key = (sample.topic, sample.subscription, sample.consumer_name)
        by_name.setdefault(key, []).append(sample)
    return by_name.values()


def _outcome(
    consumer: Consumer, account: ComparedConsumer, sample: ConsumerSample, bounds: PossiblePermits
) -> str:
    """What one sample says, by the name of its count."""
    if bounds.low <= sample.available_permits <= bounds.high:
        return "agreed" if bounds.exact else "inside"
    if sample.available_permits < bounds.low and (
        bounds.messages_coming or not _is_exact(consumer, account, sample)
    ):
        return "skipped"
    return "parted"


def _is_exact(consumer: Consumer, account: ComparedConsumer, sample: ConsumerSample) -> bool:
    """Whether nothing of it can be parked. Acks on their way make the broker's number larger than
    the tap's, so only half of the limit is trusted.
    """
    if consumer.ledger.parked_permits is not None:
        return True
    if sample.blocked or sample.unacked_limit is None:
        return False
    most = max(account.unacked_most, sample.unacked_messages or 0)
    return sample.unacked_limit == 0 or 2 * most < sample.unacked_limit
