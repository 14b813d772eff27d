"""Redirected lookups, which the tap follows itself, and topics that move; the brokers are ours."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from pulsar_doctor.parts.tap.relay.decisions import GREETING_BYTES_MOST, Greeting
from pulsar_doctor.parts.tap.relay.lookups import QUESTIONS_BYTES_MOST, Questions
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from tests.parts.tap.relay.looked_up import answer, lookup, redirect, stand_in
from tests.parts.tap.tapped import (
    AUTH,
    CONNECT,
    CONNECTED,
    SECRET,
    Peer,
    Tapped,
    command_frame,
    connect_frame,
    flow,
    message,
    tapping,
)
from tests.support import eventually


def failed(peer: Peer, request_id: int) -> str:
    """What a client is told when its lookup failed: it is to ask again."""
    told = wire.BaseCommand.FromString(peer.read_frame()[8:]).lookup_response
    assert (told.request_id, told.response, told.error) == (request_id, 2, 6)
    return told.message


def asked_aside(tapped: Tapped, server: socket.socket, said: bytes) -> Peer:
    """The tap comes with the client's CONNECT, and asks when it is let in."""
    aside = tapped.accept(server)
    assert aside.read(len(CONNECT)) == CONNECT
    assert aside.silent(0.05)
    aside.send(CONNECTED)
    assert sorted(aside.read(len(said))) == sorted(said)  # protobuf may reorder what it kept
    return aside


def redirected(tapped: Tapped, url: str, request_id: int) -> tuple[Peer, Peer]:
    """A client whose lookup its broker has answered with a redirect."""
    client, broker = tapped.connected()
    client.send(lookup(request_id))
    assert broker.read(len(lookup(request_id))) == lookup(request_id)
    broker.send(redirect(url, request_id))
    return client, broker


def test_a_redirect_is_followed_by_the_tap_with_what_the_client_had_said(shared):
    before = shared.relay.counters()["redirects_followed"]
    client, broker = shared.connected()
    second_url, second = shared.another_broker()
    third_url, third = shared.another_broker()
    client.send(lookup(7))
    assert broker.read(len(lookup(7))) == lookup(7)
    broker.send(redirect(second_url, 7))
    aside = asked_aside(shared, second, lookup(7, authoritative=True))
    assert client.silent(0.1)
    client.send(flow(3))
    assert broker.read(len(flow(3))) == flow(3)
    broker.send(message(1, b"meanwhile"))
    assert client.read(len(message(1, b"meanwhile"))) == message(1, b"meanwhile")
    aside.send(redirect(third_url, 7, authoritative=False))
    assert aside.rest() == b""
    last = asked_aside(shared, third, lookup(7))
    last.send(answer(third_url, 7))
    stand_in(client.read_frame(), third_url, 7)
    assert last.rest() == b""
    assert client.silent(0.1)
    assert shared.commands(client) == [
        "OPEN", "CONNECT", "CONNECTED", "LOOKUP", "LOOKUP_RESPONSE", "FLOW", "MESSAGE",
        "LOOKUP_RESPONSE",
    ]  # fmt: skip
    client.send(flow(4))
    assert broker.read(len(flow(4))) == flow(4)
    assert shared.relay.counters()["redirects_followed"] == before + 1


def test_the_broker_that_was_found_by_a_redirect_may_be_connected_to(shared):
    url, server = shared.another_broker()
    client, _ = redirected(shared, url, 1)
    asked_aside(shared, server, lookup(1, authoritative=True)).send(answer(url, 1))
    place = stand_in(client.read_frame(), url, 1)
    for named in (place, url):
        shared.client().send(connect_frame(named))
        assert AUTH in shared.accept(server).read(len(CONNECT))
    shared.client(place).send(CONNECT)  # a client that knows nothing of proxies
    assert shared.accept(server).read(len(CONNECT)) == CONNECT


def test_many_redirects_at_once_find_their_own_answers(shared):
    client, broker = shared.connected()
    url, server = shared.another_broker()
    server.listen(200)
    client.send(b"".join(lookup(n) for n in range(100)))
    broker.read(sum(len(lookup(n)) for n in range(100)))
    broker.send(b"".join(redirect(url, n) for n in range(100)))

    def answering(aside: Peer) -> None:
        with contextlib.suppress(OSError):
            aside.read_frame()
            aside.send(CONNECTED)
            asked = wire.BaseCommand.FromString(aside.read_frame()[8:]).lookup
            aside.send(answer(f"127.0.0.1:{10_000 + asked.request_id}", asked.request_id))
            aside.rest()

    threads = []
    for _ in range(100):
        threads.append(threading.Thread(target=answering, args=(shared.accept(server),)))
        threads[-1].start()
    got = {}
    for _ in range(100):
        told = client.read_frame()
        number = wire.BaseCommand.FromString(told[8:]).lookup_response.request_id
        got[number] = stand_in(told, f"127.0.0.1:{10_000 + number}", number)
    assert sorted(got) == list(range(100))
    assert len(set(got.values())) == 100
    for thread in threads:
        thread.join(10)


# When it cannot be followed.


def test_a_redirect_to_a_broker_that_is_gone_has_the_client_ask_again(shared):
    url, server = shared.another_broker()
    server.close()
    before = shared.relay.counters()["redirects_failed"]
    client, broker = redirected(shared, url, 2)
    assert failed(client, 2) == f"the broker {url} cannot be reached: Connection refused"
    assert shared.relay.counters()["redirects_failed"] == before + 1
    assert shared.commands(client)[-1] == "LOOKUP_RESPONSE"
    client.send(flow(1))
    assert broker.read(len(flow(1))) == flow(1)


def test_the_connection_aside_ends_with_the_clients(shared):
    url, server = shared.another_broker()
    client, broker = redirected(shared, url, 2)
    aside = shared.accept(server)
    aside.read(len(CONNECT))
    client.sock.close()
    assert broker.rest() == b""
    broker.sock.close()
    assert aside.rest() == b""


# What is kept of a client.


def test_what_is_kept_of_open_questions_is_bounded_and_forgotten_when_answered():
    questions = Questions()
    one = lookup(1)[8:]
    for request_id in range(1, 60_001):
        questions.remember(lookup(request_id)[8:])
    assert len(questions) * len(one) <= QUESTIONS_BYTES_MOST
    assert questions.answered(1) is None
    newest = questions.answered(60_000)
    assert wire.BaseCommand.FromString(newest).lookup.request_id == 60_000
    for request_id in range(1, 60_001):
        questions.answered(request_id)
    assert (len(questions), questions._bytes) == (0, 0)


def test_credentials_are_forgotten_when_they_are_long_or_the_connection_is_over():
    greeting = Greeting()
    assert greeting.frame() == b""
    greeting.remember(bytes(GREETING_BYTES_MOST + 1))
    assert greeting.frame() == b""
    greeting.remember(CONNECT[8:])
    assert greeting.frame() == CONNECT
    assert SECRET.decode() not in repr(greeting)
    greeting.forget()
    assert greeting.frame() == b""


# Topics that move.


def test_a_topic_that_moves_to_another_cluster_stays_on_the_tap(shared):
    client, broker = shared.connected()
    url, other_cluster = shared.another_broker()
    moved = command_frame(
        68, "topic_migrated", resource_id=3, resource_type=1, broker_service_url=f"pulsar://{url}",
    )  # fmt: skip
    broker.send(moved)
    told = wire.BaseCommand.FromString(client.read_frame()[8:]).topic_migrated
    assert (told.resource_id, told.resource_type) == (3, 1)
    place = told.broker_service_url.removeprefix("pulsar://")
    assert told.broker_service_url_tls == f"pulsar+ssl://{place}"
    assert place.startswith("127.0.0.1:")
    assert place not in (url, shared.relay.service_url[9:])
    there = shared.client(place).send(CONNECT + lookup(1))
    arrived = shared.accept(other_cluster)
    assert arrived.read(len(CONNECT + lookup(1))) == CONNECT + lookup(1)
    third_url, third = shared.another_broker()
    arrived.send(CONNECTED + answer(third_url, 1))
    assert there.read(len(CONNECTED)) == CONNECTED
    stands_for_third = stand_in(there.read_frame(), third_url, 1)
    shared.client(place).send(connect_frame(third_url))
    assert shared.accept(third).read(10)
    shared.client(stands_for_third).send(CONNECT)
    assert shared.accept(third).read(10)
    broker.send(moved)  # one address for one cluster
    again = wire.BaseCommand.FromString(client.read_frame()[8:]).topic_migrated
    assert again.broker_service_url == f"pulsar://{place}"
    for named in (third_url, stands_for_third):  # that cluster named it, not this one
        assert shared.client().send(connect_frame(named)).rest() == b""


def test_so_many_other_clusters_and_no_more(tmp_path):
    with tapping(tmp_path / "t") as tapped:
        client, broker = tapped.connected()
        places = []
        for port in range(1, 19):
            moved = command_frame(
                68, "topic_migrated", resource_id=1, broker_service_url=f"pulsar://b:{port}"
            )
            broker.send(moved)
            got = client.read_frame()
            places.append(None if got == moved else got)
        assert [place is None for place in places] == [False] * 16 + [True] * 2
        open_to_all = wire.BaseCommand.FromString(places[0][8:]).topic_migrated.broker_service_url
        tapped.relay.stop()
        with pytest.raises(ConnectionRefusedError):
            tapped.client(open_to_all.removeprefix("pulsar://"))


# Several brokers in the service URL.


def test_another_broker_of_the_service_url_is_tried_when_one_is_gone(tmp_path):
    with (
        socket.create_server(("127.0.0.1", 0)) as gone,
        socket.create_server(("127.0.0.1", 0)) as there,
    ):
        there.settimeout(10)
        ports = [server.getsockname()[1] for server in (gone, there)]
        gone.close()
        url = f"pulsar://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
        with tapping(tmp_path / "t", service_url=url) as tapped:
            for _ in range(3):
                tapped.client().send(CONNECT)
                assert tapped.accept(there).read(len(CONNECT)) == CONNECT
            there.close()
            client = tapped.client().send(CONNECT)
            assert client.rest() == b""
            closed = eventually(lambda: [row for row in tapped.rows(client) if row.error_message])
            assert closed[0].error_message.startswith("none of 127.0.0.1:")
            assert closed[0].error_message.endswith("can be reached: Connection refused")
            assert tapped.relay.counters()["unreachable"] == 1
