"""Our consumer is lost, refused and sent elsewhere by a broker of ours."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.consume.receiver import connected, connection
from tests.parts.consume.receiver.scripted_broker import (
    PLAN,
    SECOND,
    SOON,
    TOPIC,
    ZERO,
    Talk,
    attached,
    code,
    engine,
    message,
    refusing,
    scripted,
)
from tests.parts.consume.receiver.scripted_broker import peer as peer  # noqa: PLC0414
from tests.support import eventually


@pytest.mark.parametrize("how", ["close_consumer", "connection"])
def test_a_lost_consumer_comes_again_with_a_full_queue_and_says_its_acks_first(peer, how):
    peer.answers["ACK"] = lambda talk, ack: None  # no receipt
    with attached(peer) as (consumer, talk):
        talk.say(message(1), message(2), message(3))
        consumer.acknowledge(consumer.receive(SECOND))
        peer.hears("ACK")
        if how == "connection":
            talk.close()
        else:
            talk.tell("CLOSE_CONSUMER", consumer_id=0)
        peer.hears("FLOW", 2)
        names = [command.type for command in peer.heard]
        again = names[names.index(4, names.index(4) + 1) :]
        assert again == [4, 10, 11]  # SUBSCRIBE, ACK, FLOW
        assert peer.flows == [10, 10]
        assert consumer.receive(SOON) is None  # the old queue is gone
        del peer.answers["ACK"]
        peer.talks[-1].say(message(2, redelivery_count=1))
        assert consumer.receive(SECOND).entry_id == 2
        peer.talks[-1].tell("ACK_RESPONSE", request_id=peer.all_of("ACK")[-1].request_id)


def test_a_subscription_is_not_said_to_be_gone_while_the_connection_is_lost(peer):
    with attached(peer) as (consumer, talk):
        peer.answers["SUBSCRIBE"] = lambda talk, command: None  # it does not come back
        talk.tell("CLOSE_CONSUMER", consumer_id=0)
        peer.hears("SUBSCRIBE", 2)
        with pytest.raises(DoctorError, match="the connection is lost"):
            consumer.unsubscribe()


def test_a_zero_queue_that_waits_asks_again_after_it_was_lost(peer):
    with attached(peer, ZERO) as (consumer, talk):
        got: list[Any] = []
        thread = threading.Thread(target=lambda: got.append(consumer.receive(5)))
        thread.start()
        peer.hears("FLOW")
        talk.tell("CLOSE_CONSUMER", consumer_id=0)
        peer.hears("FLOW", 2)
        talk.say(message(1))
        thread.join(5)
        assert got[0].entry_id == 1
        assert peer.flows == [1, 1]


def test_what_passes_is_tried_again_and_what_does_not_is_told(peer):
    refusals = [refusing(code("ServiceNotReady")), refusing(code("TooManyRequests"))]

    def subscribe(talk: Talk, command: Any) -> None:
        answer = refusals.pop(0) if refusals else None
        answer(talk, command) if answer else talk.tell("SUCCESS", request_id=command.request_id)

    peer.answers["SUBSCRIBE"] = subscribe
    with attached(peer) as (consumer, talk):
        assert len(peer.all_of("SUBSCRIBE")) == 3
        refusals += [refusing(code("ConsumerBusy"))]  # it takes us for somebody else
        talk.tell("CLOSE_CONSUMER", consumer_id=0)
        peer.hears("FLOW", 2)
        peer.answers["SUBSCRIBE"] = refusing(code("ConsumerBusy"))
        talk.tell("CLOSE_CONSUMER", consumer_id=0)
        with pytest.raises(DoctorError, match=f"s on {'t'} has an exclusive consumer already"):
            consumer.receive(10)


SENTENCES = [
    ("ConsumerBusy", "s on t has an exclusive consumer already: close it, or use --type"),
    ("AuthorizationError", "the broker refuses access to s on t: AuthorizationError: no"),
    ("TopicNotFound", "there is no topic for s on t"),
    ("NotAllowedError", "the broker does not allow s on t: NotAllowedError: no"),
    ("UnknownError", "the broker refuses s on t: UnknownError: no"),
]


@pytest.mark.parametrize(("error", "sentence"), SENTENCES)
def test_refusals_are_sentences(peer, error, sentence):
    peer.answers["SUBSCRIBE"] = refusing(code(error))
    with engine(peer) as running, pytest.raises(DoctorError, match=sentence):
        running.subscribe(PLAN)


def test_one_partition_that_is_refused_leaves_no_other_subscribed(peer):
    peer.partitions = 3

    def subscribe(talk: Talk, command: Any) -> None:
        if command.consumer_id == 1:
            refusing(code("ConsumerBusy"))(talk, command)
        else:
            talk.tell("SUCCESS", request_id=command.request_id)

    peer.answers["SUBSCRIBE"] = subscribe
    with engine(peer) as running:
        with pytest.raises(DoctorError, match="exclusive"):
            running.subscribe(PLAN)
        closed = {command.consumer_id for command in peer.all_of("CLOSE_CONSUMER")}
        assert {0, 2} <= closed


def test_a_consumer_that_may_come_too_late_is_closed(peer, monkeypatch):
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.1)
    peer.answers["SUBSCRIBE"] = lambda talk, command: None
    with engine(peer) as running:
        with pytest.raises(DoctorError, match="does not answer"):
            running.subscribe(PLAN)
        assert peer.hears("CLOSE_CONSUMER")


def test_a_lookup_is_followed_through_redirects_to_the_last_broker(peer):
    with scripted() as other:
        peer.answers["LOOKUP"] = lambda talk, command: talk.tell(
            "LOOKUP_RESPONSE", request_id=command.request_id, response=0, authoritative=True,
            broker_service_url=other.url,
        )  # fmt: skip
        with attached(peer):
            assert other.hears("FLOW")
            assert [lookup.authoritative for lookup in other.all_of("LOOKUP")] == [True]
            assert peer.all_of("SUBSCRIBE") == []


def test_redirects_in_a_ring_end(peer):
    peer.answers["LOOKUP"] = lambda talk, command: talk.tell(
        "LOOKUP_RESPONSE", request_id=command.request_id, response=0,
        broker_service_url=talk.broker.url,
    )  # fmt: skip
    with engine(peer) as running, pytest.raises(DoctorError, match="send us on and on"):
        running.subscribe(PLAN)


def test_through_a_proxy_it_connects_again_and_names_the_broker(peer):
    peer.answers["LOOKUP"] = lambda talk, command: talk.tell(
        "LOOKUP_RESPONSE", request_id=command.request_id, response=1,
        proxy_through_service_url=True, broker_service_url="pulsar://inside:6650",
    )  # fmt: skip
    with attached(peer):
        peer.hears("FLOW")
        wanted = [connect.proxy_to_broker_url for connect in peer.all_of("CONNECT")]
        assert wanted == ["", "inside:6650"]


def test_the_next_address_of_a_service_url_is_tried(peer):
    url = f"pulsar://127.0.0.1:1,127.0.0.1:{peer.port}"
    with connected(url, Settings()) as running:
        consumer = running.subscribe(PLAN)
        assert [command.topic for command in peer.all_of("SUBSCRIBE")] == [TOPIC]
        peer.hears("FLOW")
        peer.talks[-1].say(message(7))
        assert consumer.receive(SECOND).entry_id == 7


@pytest.mark.parametrize("url", ["http://a:8080", "pulsar://", "pulsar://a:b:c", "nonsense"])
def test_what_is_no_service_url_is_said(url):
    with (
        pytest.raises(InputError, match=r"not a service URL|over HTTP"),
        connected(url, Settings()),
    ):
        pass


@pytest.mark.usefixtures("outside")
def test_where_nobody_listens_is_said():
    with (
        connected("pulsar://127.0.0.1:1", Settings()) as running,
        pytest.raises(DoctorError, match=r"127\.0\.0\.1:1 cannot be reached .*--service-url"),
    ):
        running.subscribe(PLAN)


def test_pings_are_answered_and_sent_and_silence_is_noticed(peer, monkeypatch):
    monkeypatch.setattr(connection, "KEEPALIVE_SECONDS", 0.1)
    with attached(peer) as (consumer, talk):
        talk.tell("PING")
        peer.hears("PONG")
        peer.hears("PING", 3)
        assert len(peer.all_of("CONNECT")) == 1
        peer.answers["PING"] = lambda talk, _: None
        peer.hears("CONNECT", 2)
        assert consumer.receive(0) is None


def test_who_is_active_is_known(peer):
    with attached(peer, replace(PLAN, type="failover")) as (consumer, talk):
        assert consumer.active == {TOPIC: None}
        talk.tell("ACTIVE_CONSUMER_CHANGE", consumer_id=0, is_active=True)
        eventually(lambda: consumer.active == {TOPIC: True})
