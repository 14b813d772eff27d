"""Redirected lookups, which the tap follows itself, and topics that move; the brokers are ours."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

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


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tapped]:
    with tapping(tmp_path_factory.mktemp("relay") / "trace") as tapped:
        yield tapped


@pytest.fixture
def tapped(shared: Tapped) -> Iterator[Tapped]:
    with contextlib.ExitStack() as stack:
        yield Tapped(shared.relay, shared.server, stack)


def next_frame(peer: Peer) -> bytes:
    size = peer.read(4)
    return size + peer.read(struct.unpack(">I", size)[0])


def failed(peer: Peer, request_id: int) -> str:
    """What a client is told when its lookup failed: it is to ask again."""
    told = wire.BaseCommand.FromString(next_frame(peer)[8:]).lookup_response
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


def test_a_redirect_is_followed_by_the_tap_with_what_the_client_had_said(tapped):
    client, broker = tapped.connected()
    second_url, second = tapped.another_broker()
    third_url, third = tapped.another_broker()
    client.send(lookup(7))
    assert broker.read(len(lookup(7))) == lookup(7)
    broker.send(redirect(second_url, 7))
    aside = asked_aside(tapped, second, lookup(7, authoritative=True))
    assert client.silent(0.1)
    client.send(flow(3))
    assert broker.read(len(flow(3))) == flow(3)
    broker.send(message(1, b"meanwhile"))
    assert client.read(len(message(1, b"meanwhile"))) == message(1, b"meanwhile")
    aside.send(redirect(third_url, 7, authoritative=False))
    assert aside.rest() == b""
    last = asked_aside(tapped, third, lookup(7))
    last.send(answer(third_url, 7))
    stand_in(next_frame(client), third_url, 7)
    assert last.rest() == b""
    assert client.silent(0.1)
    assert tapped.commands(client) == [
        "OPEN", "CONNECT", "CONNECTED", "LOOKUP", "LOOKUP_RESPONSE", "FLOW", "MESSAGE",
        "LOOKUP_RESPONSE",
    ]  # fmt: skip
    client.send(flow(4))
    assert broker.read(len(flow(4))) == flow(4)


def test_the_broker_that_was_found_by_a_redirect_may_be_connected_to(tapped):
    url, server = tapped.another_broker()
    client, _ = redirected(tapped, url, 1)
    asked_aside(tapped, server, lookup(1, authoritative=True)).send(answer(url, 1))
    place = stand_in(next_frame(client), url, 1)
    for named in (place, url):
        tapped.client().send(connect_frame(named))
        assert AUTH in tapped.accept(server).read(len(CONNECT))
    tapped.client(place).send(CONNECT)  # a client that knows nothing of proxies
    assert tapped.accept(server).read(len(CONNECT)) == CONNECT


def test_many_redirects_at_once_find_their_own_answers(tapped):
    client, broker = tapped.connected()
    url, server = tapped.another_broker()
    server.listen(200)
    client.send(b"".join(lookup(n) for n in range(100)))
    broker.read(sum(len(lookup(n)) for n in range(100)))
    broker.send(b"".join(redirect(url, n) for n in range(100)))

    def answering(aside: Peer) -> None:
        with contextlib.suppress(OSError):
            next_frame(aside)
            aside.send(CONNECTED)
            asked = wire.BaseCommand.FromString(next_frame(aside)[8:]).lookup
            aside.send(answer(f"127.0.0.1:{10_000 + asked.request_id}", asked.request_id))
            aside.rest()

    threads = []
    for _ in range(100):
        threads.append(threading.Thread(target=answering, args=(tapped.accept(server),)))
        threads[-1].start()
    got = {}
    for _ in range(100):
        told = next_frame(client)
        number = wire.BaseCommand.FromString(told[8:]).lookup_response.request_id
        got[number] = stand_in(told, f"127.0.0.1:{10_000 + number}", number)
    assert sorted(got) == list(range(100))
    assert len(set(got.values())) == 100
    for thread in threads:
        thread.join(10)


def test_an_answer_of_the_taps_own_finds_its_place_in_a_flood(tapped):
    url, server = tapped.another_broker()
    client, broker = redirected(tapped, url, 5)
    aside = tapped.accept(server)
    next_frame(aside)
    aside.send(CONNECTED)
    next_frame(aside)
    one = message(1, b"x" * 30_001)
    thread = threading.Thread(target=broker.send, args=(one * 1000,))
    thread.start()
    seen = [next_frame(client) for _ in range(100)]
    aside.send(answer(url, 5))
    seen += [next_frame(client) for _ in range(901)]
    thread.join(10)
    (told,) = [one for one in seen if one[9:10] == b"\x18"]
    stand_in(told, url, 5)
    assert seen.count(one) == 1000
    assert client.silent(0.05)


# When it cannot be followed.


def test_a_redirect_to_a_broker_that_is_gone_has_the_client_ask_again(tapped):
    url, server = tapped.another_broker()
    server.close()
    client, broker = redirected(tapped, url, 2)
    assert failed(client, 2) == f"the broker {url} cannot be reached: Connection refused"
    client.send(flow(1))
    assert broker.read(len(flow(1))) == flow(1)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (command_frame(14, "error", request_id=0, error=3, message=SECRET.decode()), "refused the"),
        (message(1, bytes(1_100_000)), "talks without answering"),
        (b"", "closed the connection before"),
    ],
)
def test_whatever_the_other_broker_says_instead_the_client_is_told_in_one_sentence(
    tapped, said, told
):
    url, server = tapped.another_broker()
    client, _ = redirected(tapped, url, 2)
    aside = tapped.accept(server)
    aside.read(len(CONNECT))
    with contextlib.suppress(ConnectionError):
        aside.send(said)
    aside.sock.shutdown(socket.SHUT_WR)
    why = failed(client, 2)
    assert why.startswith(f"the broker {url} ")
    assert told in why
    assert SECRET.decode() not in why


def test_a_redirect_without_end_is_given_up(tapped):
    url, server = tapped.another_broker()
    client, _ = redirected(tapped, url, 2)
    for _ in range(20):
        asked_aside(tapped, server, lookup(2, authoritative=True)).send(redirect(url, 2))
    assert failed(client, 2) == "this lookup was redirected more than 20 times"
    assert tapped.relay.counters()["redirects_failed"] >= 1


def test_the_connection_aside_ends_with_the_clients(tapped):
    url, server = tapped.another_broker()
    client, broker = redirected(tapped, url, 2)
    aside = tapped.accept(server)
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


def test_a_topic_that_moves_to_another_cluster_stays_on_the_tap(tapped):
    client, broker = tapped.connected()
    url, other_cluster = tapped.another_broker()
    moved = command_frame(
        68, "topic_migrated", resource_id=3, resource_type=1, broker_service_url=f"pulsar://{url}",
    )  # fmt: skip
    broker.send(moved)
    told = wire.BaseCommand.FromString(next_frame(client)[8:]).topic_migrated
    assert (told.resource_id, told.resource_type) == (3, 1)
    place = told.broker_service_url.removeprefix("pulsar://")
    assert told.broker_service_url_tls == f"pulsar+ssl://{place}"
    assert place.startswith("127.0.0.1:")
    assert place not in (url, tapped.relay.service_url[9:])
    there = tapped.client(place).send(CONNECT + lookup(1))
    arrived = tapped.accept(other_cluster)
    assert arrived.read(len(CONNECT + lookup(1))) == CONNECT + lookup(1)
    third_url, third = tapped.another_broker()
    arrived.send(CONNECTED + answer(third_url, 1))
    assert there.read(len(CONNECTED)) == CONNECTED
    stands_for_third = stand_in(next_frame(there), third_url, 1)
    tapped.client(place).send(connect_frame(third_url))
    assert tapped.accept(third).read(10)
    tapped.client(stands_for_third).send(CONNECT)
    assert tapped.accept(third).read(10)
    broker.send(moved)  # one address for one cluster
    again = wire.BaseCommand.FromString(next_frame(client)[8:]).topic_migrated
    assert again.broker_service_url == f"pulsar://{place}"
    for named in (third_url, stands_for_third):  # that cluster named it, not this one
        assert tapped.client().send(connect_frame(named)).rest() == b""


def test_so_many_other_clusters_and_no_more(tmp_path):
    with tapping(tmp_path / "t") as tapped:
        client, broker = tapped.connected()
        places = []
        for port in range(1, 19):
            moved = command_frame(
                68, "topic_migrated", resource_id=1, broker_service_url=f"pulsar://b:{port}"
            )
            broker.send(moved)
            got = next_frame(client)
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
