"""What our consumer acknowledges, and how, before a broker of ours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsar_doctor.errors import DoctorError, InputError
from tests.parts.consume.receiver.scripted_broker import (
    PLAN,
    SECOND,
    SOON,
    TOPIC,
    attached,
    batch,
    code,
    message,
)
from tests.parts.consume.receiver.scripted_broker import peer as peer  # noqa: PLC0414


def test_acknowledgements_of_a_batch_name_what_is_open_still(peer):
    payload, metadata = batch(3)
    with attached(peer, replace(PLAN, batch_index_acks=True)) as (consumer, talk):
        talk.say(message(1, payload, metadata=metadata))
        got = [consumer.receive(SECOND) for _ in range(3)]
        for one in (got[1], got[0], got[2]):
            consumer.acknowledge(one)
        acks = peer.hears("ACK", 3)
        assert [list(ack.message_id[0].ack_set) for ack in acks] == [[0b101], [0b100], []]


def test_without_batch_index_acks_a_batch_is_acknowledged_as_a_whole_at_its_end(peer):
    payload, metadata = batch(2)
    with attached(peer) as (consumer, talk):
        talk.say(message(1), message(2, payload, metadata=metadata))
        first, left, right = (consumer.receive(SECOND) for _ in range(3))
        consumer.acknowledge(left)
        consumer.acknowledge(first)
        consumer.acknowledge(right)
        assert [ack.message_id[0].entry_id for ack in peer.hears("ACK", 2)] == [1, 2]


@pytest.mark.parametrize(("by_index", "said_so"), [
    (True, [(2, [0b110]), (2, [0b100]), (2, []), (3, [])]), (False, [(1, []), (2, []), (3, [])]),
])  # fmt: skip
def test_cumulative_acknowledgements_within_a_batch(peer, by_index, said_so):
    payload, metadata = batch(3)
    plan = replace(PLAN, type="exclusive", batch_index_acks=by_index)
    with attached(peer, plan) as (consumer, talk):
        talk.say(message(1), message(2, payload, metadata=metadata), message(3))
        consumer.receive(SECOND)
        for _ in range(4):
            consumer.acknowledge_cumulative(consumer.receive(SECOND))
        acks = peer.hears("ACK", len(said_so))
        assert [(a.message_id[0].entry_id, list(a.message_id[0].ack_set)) for a in acks] == said_so
        assert {ack.ack_type for ack in acks} == {1}


def test_a_cumulative_acknowledgement_of_a_shared_subscription_is_refused_by_us(peer):
    with attached(peer) as (consumer, talk):
        talk.say(message(1))
        with pytest.raises(InputError, match="ignores cumulative"):
            consumer.acknowledge_cumulative(consumer.receive(SECOND))


def test_a_refused_acknowledgement_is_the_error_of_a_later_call(peer):
    peer.answers["ACK"] = lambda talk, ack: talk.tell(
        "ACK_RESPONSE", request_id=ack.request_id, error=code("NotAllowedError"), message="no"
    )
    with attached(peer) as (consumer, talk):
        talk.say(message(1))
        consumer.acknowledge(consumer.receive(SECOND))
        with pytest.raises(
            DoctorError, match=rf"acknowledgement of s on {TOPIC} is refused: NotAl"
        ):
            consumer.receive(SECOND)


def test_a_negative_acknowledgement_asks_again_and_forgets_the_rest_of_the_batch(peer):
    payload, metadata = batch(3)
    with attached(peer, replace(PLAN, receiver_queue_size=4)) as (consumer, talk):
        talk.say(message(1, payload, metadata=metadata), message(2))
        consumer.negative_acknowledge(consumer.receive(SECOND))
        (redeliver,) = peer.hears("REDELIVER_UNACKNOWLEDGED_MESSAGES")
        assert [one.entry_id for one in redeliver.message_ids] == [1]
        assert consumer.receive(SECOND).entry_id == 2
        assert sum(flow.message_permits for flow in peer.hears("FLOW", 2)) == 4 + 3


def test_a_negative_acknowledgement_of_an_exclusive_asks_for_all_and_waits_for_it(
    peer,
):
    with attached(peer, replace(PLAN, type="exclusive")) as (consumer, talk):
        talk.say(message(1, consumer_epoch=0), message(2, consumer_epoch=0))
        consumer.negative_acknowledge(consumer.receive(SECOND))
        peer.hears("REDELIVER_UNACKNOWLEDGED_MESSAGES")
        talk.say(message(3, consumer_epoch=0), message(1, consumer_epoch=1))
        assert consumer.receive(SECOND).entry_id == 1
        assert consumer.receive(SOON) is None
