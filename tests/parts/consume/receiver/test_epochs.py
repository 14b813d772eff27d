"""What our consumer holds after REDELIVER, against a model of the broker whose reads survive it."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.parts.consume.receiver import connected
from pulsar_doctor.parts.consume.receiver import connection as connections
from pulsar_doctor.parts.consume.receiver import partition as partitions
from pulsar_doctor.parts.consume.receiver.epochs import Epochs
from pulsar_doctor.parts.tap.relaying import relaying
from pulsar_doctor.trace.sealing import open_trace
from tests.parts.consume.receiver.scripted_broker import (
    PLAN,
    SECOND,
    SOON,
    attached,
    batch,
    chunk,
    message,
)
from tests.parts.consume.receiver.scripted_broker import peer as peer  # noqa: PLC0414
from tests.support import eventually
from tests.support.command_line import pulsar_doctor

REDELIVER = "REDELIVER_UNACKNOWLEDGED_MESSAGES"
EXCLUSIVE = replace(PLAN, type="exclusive")


@dataclass(eq=False)
class Piece:
    """An entry as Epochs sees it."""

    positions: tuple[tuple[int, int], ...]
    permits: int = 1  # that are given back when it leaves the queue


def piece(*entry_ids: int) -> Piece:
    return Piece(tuple((7, entry_id) for entry_id in entry_ids))


def ids(due: list[Piece]) -> list[int]:
    return [each.positions[-1][1] for each in due]


def epochs_after(*entry_ids: int, most: int = 100) -> Epochs:
    """These have been handed out and everything has been asked for again."""
    epochs = Epochs(most)
    for entry_id in entry_ids:
        assert ids(epochs.arrived(piece(entry_id), 0)) == [entry_id]
    epochs.again()
    return epochs


def test_what_survived_in_an_older_epoch_goes_before_the_higher_one_of_the_present():
    """The wire of seed 803: REDELIVER(1), 53 of epoch 0, 52 and 54 of epoch 1."""
    epochs = epochs_after(52)
    assert epochs.arrived(piece(53), 0) == []
    assert ids(epochs.arrived(piece(52), 1)) == [52]
    assert ids(epochs.arrived(piece(54), 1)) == [53, 54]
    assert not epochs.holds


def test_what_lay_in_the_queue_is_held_too():
    """The cursor was set behind all of it before the first new read."""
    epochs = epochs_after(50, 51, 52)
    assert epochs.arrived(piece(53), 0) == []
    assert ids(epochs.arrived(piece(54), 1)) == [50, 51, 52, 53, 54]


def test_what_comes_late_of_an_older_epoch_is_handed_out_at_once():
    epochs = epochs_after(52)
    assert ids(epochs.arrived(piece(54), 1)) == [52, 54]
    assert ids(epochs.arrived(piece(53), 0)) == [53]
    assert epochs.arrived(piece(53), 1) == []
    assert epochs.arrived(piece(54), 0) == []


def test_what_comes_twice_in_one_epoch_is_handed_out_once():
    epochs = epochs_after(1, 2)
    came = [1, 2, 1, 3, 2, 3, 4]
    assert [ids(epochs.arrived(piece(n), 1)) for n in came] == [[1], [2], [], [3], [], [], [4]]


def test_after_a_quiet_time_what_is_held_is_handed_out_once():
    epochs = epochs_after(3, 1, 2)
    assert ids(epochs.overdue()) == [1, 2, 3]
    assert [epochs.arrived(piece(n), 1) for n in (1, 2, 3)] == [[], [], []]
    assert epochs.overdue() == []


def test_what_is_acknowledged_is_not_held():
    epochs = epochs_after(1, 2, 3, 4, 5)
    epochs.acknowledged(((7, 3),))
    epochs.covered((7, 2), partly=True)
    assert ids(epochs.arrived(piece(6), 1)) == [2, 4, 5, 6]
    epochs.covered((7, 5), partly=False)
    assert [epochs.arrived(piece(n), 0) for n in (2, 3, 4, 5)] == [[], [], [], []]
    epochs.again()
    assert [ids([each]) for each in epochs.overdue()] == [[6]]


def test_another_incarnation_or_another_active_consumer_ends_the_hold():
    for ending in (Epochs.begin, Epochs.stood_by):
        epochs = epochs_after(1, 2)
        ending(epochs)
        assert not epochs.holds
        assert ids(epochs.arrived(piece(2), 1)) == [2]


def test_what_another_active_consumer_may_have_had_comes_again_in_the_same_epoch():
    epochs = Epochs(100)
    assert ids(epochs.arrived(piece(1), 0)) == [1]
    epochs.stood_by()
    assert ids(epochs.arrived(piece(1), 0)) == [1]


def test_a_message_of_chunks_comes_as_a_whole():
    epochs = Epochs(100)
    first, whole = piece(1), piece(2)
    epochs.arrived(first, 0)
    epochs.arrived(whole, 0)
    whole.positions = ((7, 1), (7, 2))
    epochs.joined(whole)
    epochs.again()
    assert epochs.arrived(piece(1), 1) == []
    assert epochs.arrived(piece(2), 1) == [whole]
    assert [epochs.arrived(piece(n), 1) for n in (1, 2)] == [[], []]
    epochs.again()
    assert epochs.arrived(piece(2), 2) == [whole], "its first chunk has not come again"
    epochs.again()
    assert epochs.arrived(piece(3), 3)[0] is whole, "no chunk of it has"


def test_beyond_its_bound_the_oldest_are_forgotten():
    epochs = epochs_after(*range(10), most=4)
    assert ids(epochs.overdue()) == [6, 7, 8, 9]
    assert ids(epochs.arrived(piece(5), 1)) == [5]


# A model of the broker.


@dataclass
class Read:
    """A read at the ledger. epoch: fixed when it began."""

    position: int
    count: int
    epoch: int


@dataclass
class Broker:
    """The cursor of one consumer. Reads that REDELIVER did not stop go on beside the new one."""

    entries: int
    acknowledged: set[int] = field(default_factory=set)
    cursor: int = 0
    epoch: int = 0
    permits: int = 0
    reads: list[Read] = field(default_factory=list)
    read_done: list[list[tuple[int, int]]] = field(default_factory=list)

    def redeliver(self, epoch: int) -> None:
        self.epoch = epoch
        self.rewind()

    def rewind(self) -> None:
        left = set(range(self.entries)) - self.acknowledged
        self.cursor = min(left, default=self.entries)

    def begin_read(self) -> None:
        if self.permits > 0 and len(self.reads) < 3:
            self.reads.append(Read(self.cursor, min(self.permits, 3), self.epoch))

    def finish_read(self, which: int) -> None:
        """It sets the cursor behind what it has read, wherever that stands now."""
        if self.reads:
            read = self.reads.pop(which % len(self.reads))
            end = min(self.entries, read.position + read.count)
            self.cursor = end
            found = set(range(read.position, end)) - self.acknowledged
            self.read_done.append([(entry_id, read.epoch) for entry_id in sorted(found)])

    def dispatch(self) -> list[tuple[int, int]]:
        sent = self.read_done.pop(0) if self.read_done else []
        self.permits -= len(sent)
        return sent


class Lives:
    """Our side: a queue, and an application that acknowledges or refuses what it takes."""

    def __init__(self, entries: int, queue: int) -> None:
        self.broker = Broker(entries, permits=queue)
        self.epochs = Epochs(1000)
        self.queue: list[Piece] = []
        self.working: list[Piece] = []  # taken, neither acknowledged nor refused
        self.handed_out: Counter[tuple[int, int]] = Counter()  # epoch, entry

    def arrive(self, entry_id: int, epoch: int) -> None:
        entry = piece(entry_id)
        due = self.epochs.arrived(entry, epoch)
        if entry not in due:
            self.give_back(entry)
        self.hand_out(due)

    def hand_out(self, due: list[Piece]) -> None:
        self.queue += due
        self.handed_out.update((self.epochs.number, each) for each in ids(due))

    def take(self) -> Piece | None:
        if not self.queue:
            return None
        entry = self.queue.pop(0)
        self.give_back(entry)
        self.working.append(entry)
        return entry

    def give_back(self, entry: Piece) -> None:
        self.broker.permits += entry.permits
        entry.permits = 0

    def acknowledge(self, *, cumulative: bool) -> None:
        if not self.working:
            return
        entry = self.working.pop(0)
        if cumulative:
            self.epochs.covered(entry.positions[-1], partly=False)
            self.broker.acknowledged |= set(range(ids([entry])[0] + 1))
        else:
            self.epochs.acknowledged(entry.positions)
            self.broker.acknowledged |= set(ids([entry]))

    def refuse(self) -> None:
        if not self.working:
            return
        for entry in self.queue:
            self.give_back(entry)
        self.queue, self.working = [], []
        self.epochs.again()
        self.broker.redeliver(self.epochs.number)


STEPS = ("read", "read", "done", "done", "arrive", "arrive", "take", "take", "ack", "ack", "refuse")
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2)), max_size=120)


def step(lives: Lives, name: str, which: int, *, cumulative: bool) -> None:
    if name == "read":
        lives.broker.begin_read()
    elif name == "done":
        lives.broker.finish_read(which)
    elif name == "arrive":
        for entry_id, epoch in lives.broker.dispatch():
            lives.arrive(entry_id, epoch)
    elif name == "take":
        lives.take()
    elif name == "ack":
        lives.acknowledge(cumulative=cumulative)
    else:
        lives.refuse()


def settle(lives: Lives) -> None:
    """Nothing is refused any more, and all is quiet in the end."""
    for _ in range(200):
        for name in ("read", "done", "arrive", "take", "ack"):
            step(lives, name, 0, cumulative=False)
    while lives.broker.reads or lives.broker.read_done:
        lives.broker.finish_read(0)
        step(lives, "arrive", 0, cumulative=False)
    lives.hand_out(lives.epochs.overdue())
    while lives.take():
        pass
    while lives.working:
        lives.acknowledge(cumulative=False)


@settings(max_examples=150, deadline=None)
@given(steps, st.integers(1, 25), st.sampled_from([1, 2, 3, 10]))
def test_whatever_read_survives_nothing_is_lost_nothing_comes_twice_and_permits_agree(
    taken, entries, queue
):
    lives = Lives(entries, queue)
    for name, which in taken:
        step(lives, name, which, cumulative=False)
    settle(lives)
    assert lives.broker.acknowledged == set(range(entries))
    assert not [place for place, times in lives.handed_out.items() if times > 1]
    assert lives.broker.permits == queue
    assert not lives.epochs.holds


@settings(max_examples=100, deadline=None)
@given(steps, st.integers(1, 25), st.sampled_from([1, 3, 10]))
def test_cumulative_acknowledgements_cover_nothing_that_was_not_handed_out(taken, entries, queue):
    lives = Lives(entries, queue)
    for name, which in taken:
        step(lives, name, which, cumulative=True)
        seen = {entry_id for _, entry_id in lives.handed_out}
        assert lives.broker.acknowledged <= seen
    settle(lives)
    assert lives.broker.acknowledged == set(range(entries))


def test_the_model_loses_what_a_client_drops_by_epoch_alone():
    """Seed 803 again, told by the model: so the properties above are about something."""
    broker = Broker(3, permits=9)
    came: list[tuple[int, int]] = []
    broker.reads.append(Read(0, 1, 0))
    broker.finish_read(0)
    came += broker.dispatch()
    broker.reads.append(Read(1, 1, 0))  # under way
    broker.redeliver(1)
    broker.reads.append(Read(broker.cursor, 1, 1))
    broker.finish_read(1)
    broker.finish_read(0)
    came += [*broker.dispatch(), *broker.dispatch()]
    broker.begin_read()
    broker.finish_read(0)
    came += broker.dispatch()
    assert came == [(0, 0), (0, 1), (1, 0), (2, 1)]


# The engine, on the wire.


def wire_of_803(talk: Any, peer: Any) -> None:
    talk.say(message(53, consumer_epoch=0))
    talk.say(message(52, consumer_epoch=1), message(54, consumer_epoch=1))


def test_the_wire_of_seed_803_loses_nothing(peer):
    with attached(peer, replace(EXCLUSIVE, receiver_queue_size=1)) as (consumer, talk):
        talk.say(message(52, consumer_epoch=0))
        consumer.negative_acknowledge(consumer.receive(SECOND))
        (redeliver,) = peer.hears(REDELIVER)
        assert redeliver.consumer_epoch == 1
        wire_of_803(talk, peer)
        got = [consumer.receive(SECOND) for _ in range(3)]
        assert [one.entry_id for one in got] == [52, 53, 54]
        eventually(lambda: sum(peer.flows) == 5)  # one, and one for each MESSAGE
        for one in got:
            consumer.acknowledge(one)
        assert [ack.message_id[0].entry_id for ack in peer.hears("ACK", 3)] == [52, 53, 54]


def test_a_zero_queue_gets_what_survived_and_asks_for_no_permit_too_many(peer):
    with attached(peer, replace(EXCLUSIVE, receiver_queue_size=0)) as (consumer, talk):
        assert consumer.receive(SOON) is None
        talk.say(message(52, consumer_epoch=0))
        consumer.negative_acknowledge(consumer.receive(SECOND))
        peer.hears(REDELIVER)
        assert consumer.receive(0) is None
        wire_of_803(talk, peer)
        assert [consumer.receive(SECOND).entry_id for _ in range(3)] == [52, 53, 54]
        assert consumer.receive(0) is None
        eventually(lambda: sum(peer.flows) == 5)  # one for each MESSAGE, and one that is out


def test_when_nothing_else_comes_what_survived_is_handed_out_after_a_while(peer, monkeypatch):
    monkeypatch.setattr(partitions, "QUIET_SECONDS", SOON)
    with attached(peer, EXCLUSIVE) as (consumer, talk):
        talk.say(message(1, consumer_epoch=0), message(2, consumer_epoch=0))
        consumer.negative_acknowledge(consumer.receive(SECOND))
        peer.hears(REDELIVER)
        talk.say(message(3, consumer_epoch=0))
        assert [consumer.receive(SECOND).entry_id for _ in range(3)] == [1, 2, 3]
        talk.say(message(3, consumer_epoch=1))
        assert consumer.receive(SOON) is None


def test_without_permits_it_waits_on(peer, monkeypatch):
    monkeypatch.setattr(partitions, "QUIET_SECONDS", SOON / 4)
    with attached(peer, replace(EXCLUSIVE, permits="manual")) as (consumer, talk):
        consumer.grant(1)
        talk.say(message(1, consumer_epoch=0))
        consumer.negative_acknowledge(consumer.receive(SECOND))
        peer.hears(REDELIVER)
        assert consumer.receive(SOON) is None
        consumer.grant(1)
        assert consumer.receive(SECOND).entry_id == 1


def test_of_a_batch_that_survived_only_what_is_not_acknowledged_is_handed_out_again(peer):
    payload, metadata = batch(3)
    with attached(peer, EXCLUSIVE) as (consumer, talk):
        talk.say(message(1, payload, metadata=metadata, consumer_epoch=0))
        first, second = consumer.receive(SECOND), consumer.receive(SECOND)
        consumer.acknowledge(first)
        consumer.negative_acknowledge(second)
        peer.hears(REDELIVER)
        talk.say(message(2, consumer_epoch=1))
        got = [consumer.receive(SECOND) for _ in range(3)]
        assert [(one.entry_id, one.batch_index) for one in got] == [(1, 1), (1, 2), (2, None)]
        for one in got:
            consumer.acknowledge(one)
        assert [list(ack.message_id[0].ack_set) for ack in peer.hears("ACK", 2)] == [[], []]


def test_an_acknowledgement_ends_the_hold(peer):
    with attached(peer, EXCLUSIVE) as (consumer, talk):
        talk.say(*(message(number, consumer_epoch=0) for number in (1, 2, 3)))
        first, second = consumer.receive(SECOND), consumer.receive(SECOND)
        consumer.negative_acknowledge(second)
        peer.hears(REDELIVER)
        consumer.acknowledge(first)
        talk.say(message(4, consumer_epoch=1))
        assert [consumer.receive(SECOND).entry_id for _ in range(3)] == [2, 3, 4]


def test_a_cumulative_acknowledgement_within_a_batch_covers_nothing_that_comes_again(peer):
    payload, metadata = batch(2)
    with attached(peer, EXCLUSIVE) as (consumer, talk):
        talk.say(*(message(number, consumer_epoch=0) for number in (1, 2, 3)))
        consumer.negative_acknowledge(consumer.receive(SECOND))
        peer.hears(REDELIVER)
        talk.say(message(1, payload, metadata=metadata, consumer_epoch=1))
        talk.say(*(message(number, consumer_epoch=1) for number in (2, 3)))
        got = [consumer.receive(SECOND) for _ in range(4)]
        consumer.acknowledge_cumulative(got[0])
        consumer.acknowledge_cumulative(got[1])
        assert [ack.message_id[0].entry_id for ack in peer.hears("ACK")] == [1]


@pytest.mark.parametrize(
    "came",
    [
        [(0, 1), (1, 1)],  # as if nothing were wrong
        [(1, 0), (0, 1), (2, 1)],  # the second chunk survived
        [(1, 0), (2, 1)],  # both were passed
        [(0, 1), (1, 0), (1, 1), (0, 1)],  # twice
    ],
    ids=str,
)
def test_chunks_survive_too(peer, came):
    with attached(peer, EXCLUSIVE) as (consumer, talk):
        talk.say(message(9, consumer_epoch=0))
        talk.say(message(10, b"one ", metadata=chunk(0, 2), consumer_epoch=0))
        consumer.negative_acknowledge(consumer.receive(SECOND))
        peer.hears(REDELIVER)
        talk.say(message(9, consumer_epoch=1))
        for number, epoch in came:
            metadata = chunk(number, 2) if number < 2 else None
            talk.say(message(10 + number, b"two", metadata=metadata, consumer_epoch=epoch))
        assert consumer.receive(SECOND).entry_id == 9
        whole = consumer.receive(SECOND)
        assert (whole.entry_id, whole.corrupt) == (11, None)
        consumer.acknowledge(whole)
        assert [one.entry_id for one in peer.hears("ACK")[0].message_id] == [10, 11]
        rest = [one.entry_id for one in iter(lambda: consumer.receive(SOON), None)]
        assert rest == [12] * ((2, 1) in came)


def test_a_corrupt_message_survives_as_what_it_is(peer):
    with attached(peer, EXCLUSIVE) as (consumer, talk):
        talk.say(message(1, consumer_epoch=0))
        consumer.negative_acknowledge(consumer.receive(SECOND))
        peer.hears(REDELIVER)
        talk.say(message(2, spoil=1, consumer_epoch=0), message(1, consumer_epoch=1))
        talk.say(message(3, consumer_epoch=1))
        got = [consumer.receive(SECOND) for _ in range(3)]
        assert [(one.entry_id, one.corrupt) for one in got] == [
            (1, None), (2, "ChecksumMismatch"), (3, None),
        ]  # fmt: skip


def test_a_standby_holds_nothing_and_counts_on(peer, monkeypatch):
    """The broker takes no notice of its REDELIVER but of the epoch, and rewinds with the change."""
    monkeypatch.setattr(partitions, "QUIET_SECONDS", SOON / 4)
    with attached(peer, replace(PLAN, type="failover")) as (consumer, talk):
        talk.say(message(1, consumer_epoch=0), message(2, consumer_epoch=0))
        first = consumer.receive(SECOND)
        talk.tell("ACTIVE_CONSUMER_CHANGE", consumer_id=0, is_active=False)
        assert consumer.receive(SECOND).entry_id == 2
        consumer.negative_acknowledge(first)
        assert peer.hears(REDELIVER)[0].consumer_epoch == 1
        assert consumer.receive(SOON) is None
        talk.tell("ACTIVE_CONSUMER_CHANGE", consumer_id=0, is_active=True)
        talk.say(message(1, consumer_epoch=1), message(2, consumer_epoch=1))
        assert [consumer.receive(SECOND).entry_id for _ in range(2)] == [1, 2]


def test_with_a_new_incarnation_everything_comes_again(peer, monkeypatch):
    monkeypatch.setattr(partitions, "QUIET_SECONDS", SOON / 4)
    with attached(peer, EXCLUSIVE) as (consumer, talk):
        talk.say(*(message(number, consumer_epoch=0) for number in (1, 2, 3)))
        first, second = consumer.receive(SECOND), consumer.receive(SECOND)
        consumer.acknowledge(first)
        consumer.negative_acknowledge(second)
        peer.hears(REDELIVER)
        talk.tell("CLOSE_CONSUMER", consumer_id=0)
        assert peer.hears("SUBSCRIBE", 2)
        assert consumer.receive(SOON) is None
        peer.talks[-1].say(*(message(number, consumer_epoch=1) for number in (2, 3)))
        assert [consumer.receive(SECOND).entry_id for _ in range(2)] == [2, 3]


def test_a_broker_without_epochs_sends_what_it_likes(peer):
    with attached(peer, EXCLUSIVE) as (consumer, talk):
        for number in itertools.repeat(1, 2):
            talk.say(message(number))
            assert consumer.receive(SECOND).entry_id == 1


def test_what_another_client_would_have_lost_is_told_from_its_trace(peer, tmp_path, monkeypatch):
    """The wire of seed 803 through the tap, to a client that is taken for one that drops it."""
    monkeypatch.setattr(connections, "CLIENT", "Pulsar-Java-v4.0.8")
    trace = tmp_path / "t.ptrace"
    with (
        relaying(peer.url, trace) as relay,
        connected(relay.service_url, Settings()) as engine,
    ):
        consumer = engine.subscribe(EXCLUSIVE)
        talk = peer.talks[-1]
        talk.say(message(52, consumer_epoch=0))
        consumer.negative_acknowledge(consumer.receive(SECOND))
        peer.hears(REDELIVER)
        wire_of_803(talk, peer)
        for _ in range(3):
            consumer.receive(SECOND)
    rows = [row for row in open_trace(trace).rows() if row.consumer_epoch is not None]
    assert [(row.command, row.entry_id, row.consumer_epoch) for row in rows] == [
        ("SUBSCRIBE", None, 0), ("MESSAGE", 52, 0), (REDELIVER, None, 1),
        ("MESSAGE", 53, 0), ("MESSAGE", 52, 1), ("MESSAGE", 54, 1),
    ]  # fmt: skip
    settled = ("--set", "lost-to-redeliver-race.settle=0")
    ran = pulsar_doctor("stall-check", "--trace", str(trace), *settled)
    assert ran.returncode == 1, ran.stderr
    assert "✖ STALLED  s on " in ran.stdout
    assert "lost-to-redeliver-race of c (" in ran.stdout
    assert "1 entry from 7:53 on" in ran.stdout
