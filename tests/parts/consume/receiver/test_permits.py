"""Our consumer asks a broker of ours for messages, and hands them out."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.consume.engines import Closed
from pulsar_doctor.parts.consume.receiver import BlockingConsumer
from pulsar_doctor.parts.consume.receiver.spoken_pb2 import MessageMetadata
from tests.parts.consume.receiver.scripted_broker import (
    PLAN,
    SECOND,
    TOPIC,
    ZERO,
    attached,
    batch,
    chunk,
    message,
)
from tests.parts.consume.receiver.scripted_broker import peer as peer  # noqa: PLC0414


def test_it_greets_looks_up_subscribes_and_asks_for_its_queue(peer):
    with attached(peer) as (consumer, talk):
        assert peer.hears("FLOW")[0].message_permits == 10
        (subscribe,) = peer.all_of("SUBSCRIBE")
        assert (subscribe.topic, subscribe.subscription, subscribe.sub_type) == (TOPIC, "s", 1)
        assert (subscribe.consumer_name, subscribe.initial_position) == ("c", 1)
        talk.say(message(5, redelivery_count=3))
        got = consumer.receive(SECOND)
        assert (got.topic, got.partition, got.ledger_id, got.entry_id) == (TOPIC, None, 7, 5)
        assert (got.published_ms, got.redelivery_count) == (1_790_000_000_000, 3)
        assert (got.batch_index, got.batch_size, got.corrupt) == (None, None, None)
    assert len(peer.all_of("CLOSE_CONSUMER")) == 1


def test_no_payload_of_a_message_is_kept(peer):
    with attached(peer) as (consumer, talk):
        talk.say(message(1, b"a secret of a customer"))
        got = consumer.receive(SECOND)
        entry = got.handle.entry
        told = [repr(got), repr(got.handle), *(repr(getattr(entry, n)) for n in entry.__slots__)]
        assert "secret" not in "".join(told)


def test_a_zero_queue_asks_for_one_when_somebody_waits_and_never_for_a_second(peer):
    with attached(peer, ZERO) as (consumer, talk):
        for _ in range(3):
            assert consumer.receive(0.05) is None
        assert peer.hears("FLOW")[0].message_permits == 1
        talk.say(message(1))
        assert consumer.receive(SECOND).entry_id == 1
        assert peer.flows == [1]
        assert consumer.receive(0) is None
        peer.hears("FLOW", 2)
        assert peer.flows == [1, 1]


def test_a_zero_queue_hands_out_a_batch_before_it_asks_again(peer):
    payload, metadata = batch(100)
    with attached(peer, ZERO) as (consumer, talk):
        assert consumer.receive(0) is None
        peer.hears("FLOW")
        talk.say(message(1, payload, metadata=metadata))
        assert [consumer.receive(SECOND).batch_index for _ in range(100)] == list(range(100))
        assert peer.flows == [1]
        assert consumer.receive(0) is None
        peer.hears("FLOW", 2)
        assert peer.flows == [1, 100]


def test_a_zero_queue_on_partitions_hands_out_what_is_there_before_it_asks_any(peer):
    peer.partitions = 3
    with attached(peer, ZERO) as (consumer, talk):
        assert consumer.receive(0) is None
        assert len(peer.hears("FLOW", 3)) == 3
        talk.say(*(message(each, consumer_id=each) for each in (0, 2)))
        got = [consumer.receive(SECOND) for _ in range(2)]
        assert sorted(one.partition for one in got) == [0, 2]
        assert peer.flows == [1, 1, 1]
        assert consumer.receive(0) is None
        peer.hears("FLOW", 5)
        assert [flow.consumer_id for flow in peer.all_of("FLOW")[3:]] == [0, 2]


def test_indexes_that_were_acknowledged_are_skipped_and_not_paid_twice(peer):
    payload, metadata = batch(4)
    with attached(peer, replace(PLAN, receiver_queue_size=2)) as (consumer, talk):
        talk.say(message(1, payload, metadata=metadata, ack_set=[0b1010]))
        assert [consumer.receive(SECOND).batch_index for _ in range(2)] == [1, 3]
        assert consumer.receive(0) is None
        peer.hears("FLOW", 3)
        assert peer.flows == [2, 1, 1]


def test_an_entry_of_which_nothing_is_open_gives_its_permits_back_by_itself(peer):
    payload, metadata = batch(4)
    fields = {"metadata": metadata, "ack_set": [1 << 62], "message_permits": 4}
    with attached(peer, replace(PLAN, receiver_queue_size=4)) as (consumer, talk):
        talk.say(message(1, payload, **fields), message(2))
        assert consumer.receive(SECOND).entry_id == 2
        assert peer.hears("FLOW", 2)[1].message_permits == 4


def test_each_chunk_gives_its_permit_back_and_the_message_is_one(peer):
    with attached(peer, ZERO) as (consumer, talk):
        assert consumer.receive(0) is None
        peer.hears("FLOW")

        def rest() -> None:
            for number in range(3):
                peer.hears("FLOW", number + 1)
                talk.say(message(number, metadata=chunk(number, 3)))

        thread = threading.Thread(target=rest)
        thread.start()
        got = consumer.receive(5)
        thread.join()
        assert (got.entry_id, got.corrupt) == (2, None)
        assert peer.flows == [1, 1, 1]
        consumer.acknowledge(got)
        (ack,) = peer.hears("ACK")
        assert [one.entry_id for one in ack.message_id] == [0, 1, 2]


BROKEN = {
    "ChecksumMismatch": {"spoil": 1},
    "DecompressionError": {"metadata": MessageMetadata(compression=9, num_messages_in_batch=5)},
    "UncompressedSizeCorruption": {
        "metadata": MessageMetadata(compression=1, uncompressed_size=2**31)
    },
    "BatchDeSerializeError": {"metadata": MessageMetadata(num_messages_in_batch=5)},
    "DecryptionError": {"metadata": MessageMetadata(encryption_keys=[{}])},
    "ChunksMissing": {"metadata": chunk(1, 3)},
}


@pytest.mark.parametrize("why", BROKEN)
def test_what_is_corrupt_is_shown_and_not_acknowledged(peer, why):
    with attached(peer, ZERO) as (consumer, talk):
        assert consumer.receive(0) is None
        peer.hears("FLOW")
        talk.say(message(1, **BROKEN[why]))
        got = consumer.receive(SECOND)
        assert got.corrupt == why
        consumer.acknowledge(got)
        assert consumer.receive(0) is None
        cost = BROKEN[why].get("metadata", MessageMetadata()).num_messages_in_batch or 1
        assert peer.hears("FLOW", 2)[1].message_permits == cost
        assert peer.all_of("ACK") == []


def test_by_hand_only_what_is_granted_is_asked_for(peer):
    with attached(peer, replace(PLAN, permits="manual")) as (consumer, talk):
        assert consumer.receive(0.05) is None
        consumer.grant(7)
        talk.say(message(1))
        consumer.receive(SECOND)
        consumer.grant(1)
        peer.hears("FLOW", 2)
        assert peer.flows == [7, 1]
        with pytest.raises(InputError, match="0 permits cannot be granted"):
            consumer.grant(0)


def test_who_waits_is_told_when_it_is_closed(peer):
    seen: list[type[BaseException]] = []

    def wait(consumer: BlockingConsumer) -> None:
        try:
            consumer.receive(None)
        except BaseException as error:
            seen.append(type(error))

    with attached(peer) as (consumer, _):
        thread = threading.Thread(target=wait, args=(consumer,))
        thread.start()
        consumer.close()
        thread.join(5)
        with pytest.raises(Closed):
            consumer.receive(0)
    with pytest.raises(Closed):
        consumer.receive(0)
    assert seen == [Closed]
