"""Addresses of the tap that stand for brokers: who comes there, and whom the tap then dials."""

from __future__ import annotations

from pulsar_doctor.parts.tap.relay.addresses import Way
from pulsar_doctor.parts.tap.relay.errands import Dial, Name
from pulsar_doctor.trace.folder import read_meta
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from tests.parts.tap.relay.looked_up import answer, kept, lookup, stand_in
from tests.parts.tap.relay.transcripts import Talk, connected
from tests.parts.tap.tapped import CONNECT, CONNECTED, connect_frame, tapping

BROKER, STANDS_FOR_IT = ("b", 6650), ("127.0.0.1", 7001)
INNER = "127.0.0.1:9"  # nobody listens there


def through_me(url: str, request_id: int) -> bytes:
    """As Pulsar's own proxy answers: the same in both URLs, and that it is to be asked."""
    return answer(
        url, request_id, broker_service_url_tls=f"pulsar://{url}", proxy_through_service_url=True
    )


def test_a_lookup_is_answered_with_an_address_of_the_tap():
    asked = []
    talk = connected(stand_in=lambda way: asked.append(way) or STANDS_FOR_IT)
    talk.client.says(lookup(1))
    talk.broker.says(answer("b:6650", 1))
    assert talk.client.hears() == kept("127.0.0.1:7001", 1)
    assert asked == [Way(BROKER)]
    assert talk.asked() == [Name(BROKER)]


def test_a_proxy_that_answers_is_kept_and_told_the_broker():
    ways = {STANDS_FOR_IT: Way(None, "b:6650")}
    asked = []
    talk = connected(stand_in=lambda way: asked.append(way) or STANDS_FOR_IT)
    talk.client.says(lookup(1))
    talk.broker.says(through_me("b:6650", 1))
    assert talk.client.hears() == kept("127.0.0.1:7001", 1)
    assert asked == [ways[STANDS_FOR_IT]]
    assert talk.asked() == [Name(BROKER, behind=True)]
    comes = Talk(way_to=ways.__getitem__)
    comes.client.says(connect_frame("127.0.0.1:7001"))
    assert comes.asked() == [Dial(None)]
    comes.broker_comes()
    heard = comes.broker.hears()
    assert wire.BaseCommand.FromString(heard[8:]).connect.proxy_to_broker_url == "b:6650"
    knows_nothing = Talk(home=ways[STANDS_FOR_IT])
    knows_nothing.client.says(CONNECT)
    assert knows_nothing.asked() == [Dial(None)]
    knows_nothing.broker_comes()
    assert knows_nothing.broker.hears() == heard


def test_a_proxys_answer_passes_as_it_is_where_no_address_is_left():
    talk = connected()
    talk.broker.says(through_me("b:6650", 1))
    assert talk.client.hears() == through_me("b:6650", 1)
    assert talk.asked() == [Name(BROKER, behind=True)]


def test_one_broker_has_one_address_and_each_its_own(tapped):
    client, broker = tapped.connected()
    (first, _), (second, _) = tapped.another_broker(), tapped.another_broker()
    places = []
    for number, url in enumerate((first, second, first)):
        client.send(lookup(number))
        broker.read(len(lookup(number)))
        broker.send(answer(url, number))
        places.append(stand_in(client.read_frame(), url, number))
    assert places[0] == places[2] != places[1]


def test_behind_a_proxy_nobody_is_dialled_but_the_proxy(tapped):
    client, proxy = tapped.connected()
    client.send(lookup(1))
    proxy.read(len(lookup(1)))
    proxy.send(through_me(INNER, 1))
    place = stand_in(client.read_frame(), INNER, 1)
    comes = [(None, connect_frame(place)), (None, connect_frame(INNER)), (place, CONNECT)]
    for where, says in (*comes, (place, connect_frame(place))):
        comer = tapped.client(where).send(says)
        arrived = tapped.accept()
        said = wire.BaseCommand.FromString(arrived.read_frame()[8:])
        assert said.connect.proxy_to_broker_url == INNER
        arrived.send(CONNECTED)
        assert comer.read(len(CONNECTED)) == CONNECTED
    assert tapped.relay.counters()["unreachable"] == 0


def test_what_no_lookup_named_is_refused_at_such_an_address_too(tapped):
    client, broker = tapped.connected()
    url, _ = tapped.another_broker()
    client.send(lookup(1))
    broker.read(len(lookup(1)))
    broker.send(answer(url, 1))
    place = stand_in(client.read_frame(), url, 1)
    assert tapped.client(place).send(connect_frame(INNER)).rest() == b""
    assert tapped.relay.counters()["targets_refused"] == 1


def test_a_tap_that_was_told_a_name_is_called_by_it(tmp_path):
    """Its certificate may be good for nothing else."""
    with tapping(tmp_path / "t", listen="localhost:0") as tapped:
        address = tapped.relay.service_url.removeprefix("pulsar://")
        assert address.startswith("localhost:")
        assert read_meta(tmp_path / "t").tap_address == address
        client, broker = tapped.connected()
        url, server = tapped.another_broker()
        client.send(lookup(1))
        broker.read(len(lookup(1)))
        broker.send(answer(url, 1))
        place = stand_in(client.read_frame(), url, 1, host="localhost")
        for says in (connect_frame(place), CONNECT):  # whether or not it says where it wants to go
            comer = tapped.client(place).send(says)
            arrived = tapped.accept(server)
            assert arrived.read(len(CONNECT)) == CONNECT
            arrived.send(CONNECTED)
            assert comer.read(len(CONNECTED)) == CONNECTED
