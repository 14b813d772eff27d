"""Holds the ledger of each consumer against the permits that the broker says it has.

Both sides are right about different moments: a FLOW passes the tap before it reaches the broker, a
MESSAGE after it has left. So a sample counts only where the consumer was quiet: no FLOW and no
MESSAGE of it passed from a little before the broker was asked until a little after it answered.
Two such samples in a row that differ are a parting, which is told once.

Where FLOWs may have been parked (see permits.py) the ledger is an upper bound, and only a broker
that says more has parted from it. The wire does not show the limit that parks them; who knows it
from the broker says so with the sample. A consumer that never came near it has nothing parked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pulsar_doctor.ledger.consumers import Consumer, split_partition
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.wire.columns import Row

MARGIN_NS = 200_000_000  # on the way between tap and broker
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
class ComparedConsumer:
    """One incarnation since both sides agreed."""

    agreed_seq: int | None
    moves: list[Move] = field(default_factory=list)
    moves_left_out: int = 0
    last_seq: int = 0
    last_ns: int = 0
    unacked_most: int = 0
    differed: Parted | None = None  # in the sample before
    told: bool = False

    def agree(self) -> None:
        """Both sides have the same number after the last move."""
        self.agreed_seq = self.last_seq
        self.moves.clear()
        self.moves_left_out, self.differed = 0, None


class Comparison:
    """All consumers. Changed in place: `add` sees every row."""

    def __init__(self) -> None:
        self._accounts: dict[int, ComparedConsumer] = {}
        self.compared: set[int] = set()  # incarnations of which a sample counted

    def add(self, row: Row) -> None:
        """A row with its ledger, in the order of the trace."""
        if row.incarnation is None or row.command not in MOVERS:
            return
        account = self._accounts.get(row.incarnation)
        if account is None:
            began = row.seq if row.command == "SUBSCRIBE" else None
            account = self._accounts[row.incarnation] = ComparedConsumer(began)
        account.last_seq, account.last_ns = row.seq, row.mono_ns
        if row.command == "SUBSCRIBE":
            return
        account.unacked_most = max(account.unacked_most, row.unacked_messages or 0)
        if len(account.moves) < MOVES_KEPT_MOST:
            account.moves.append(Move(row.seq, row.command, row.permits or 0))
        else:
            account.moves_left_out += 1

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
        for sample in _unique(samples):
            consumers = named.get((sample.topic, sample.subscription, sample.consumer_name), [])
            if len(consumers) == 1:
                partings += self._held_against(consumers[0], sample)
        return [replace(parted, at_us=timeline.now_us) for parted in partings]

    def _held_against(self, consumer: Consumer, sample: ConsumerSample) -> list[Parted]:
        account = self._accounts.get(consumer.incarnation)
        ledger = consumer.ledger
        if account is None or account.told or ledger.uncertain or not ledger.ready:
            return []
        if account.last_ns > sample.from_ns - MARGIN_NS:
            return []  # it was not quiet, or went on since
        self.compared.add(consumer.incarnation)
        difference = sample.available_permits - ledger.available_permits
        if difference == 0:
            account.agree()
            return []
        if difference < 0 and not _is_exact(consumer, account, sample):
            account.differed = None
            return []
        if account.differed is None:
            account.differed = self._parted(consumer, account, sample)
            return []
        account.told = True
        return [account.differed]

    def _parted(
        self, consumer: Consumer, account: ComparedConsumer, sample: ConsumerSample
    ) -> Parted:
        topic, partition = split_partition(consumer.topic)
        difference = sample.available_permits - consumer.ledger.available_permits
        alike = [move for move in account.moves if move.permits == abs(difference)]
        known = account.agreed_seq is not None
        whole = known and not account.moves_left_out
        return Parted(
            at_us=0,  # not certain yet
            incarnation=consumer.incarnation,
            consumer_name=consumer.consumer_name,
            topic=topic,
            partition=partition,
            subscription=consumer.subscription,
            tap_available_permits=consumer.ledger.available_permits,
            broker_available_permits=sample.available_permits,
            difference=difference,
            agreed_seq=account.agreed_seq,
            parted_seq=account.last_seq,
            first_command=account.moves[0] if known and account.moves else None,
            same_size_command=alike[0] if whole and len(alike) == 1 else None,
        )


MOVERS = frozenset({"SUBSCRIBE", "FLOW", "MESSAGE"})


def _unique(samples: Iterable[ConsumerSample]) -> list[ConsumerSample]:
    """Without consumers of the same name, which nothing tells apart: the broker sees the tap's
    address in place of the client's.
    """
    by_name: dict[tuple[str, str, str], list[ConsumerSample]] = {}
    for sample in samples:
        key = (sample.topic, sample.subscription, sample.consumer_name)
        by_name.setdefault(key, []).append(sample)
    return [those[0] for those in by_name.values() if len(those) == 1]


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
