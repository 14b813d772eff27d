"""Redirected lookups, which the tap follows itself: what is said, and what the client gets."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from pulsar_doctor.parts.tap.relay.errands import Dial, Follow, Name, SayAloud
from pulsar_doctor.parts.tap.relay.lookups import (
    HOPS_MOST,
    Following,
    Inquiry,
    Unfollowed,
)
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from tests.parts.tap.relay.looked_up import answer, kept, lookup, redirect
from tests.parts.tap.relay.transcripts import Talk, connected
from tests.parts.tap.tapped import (
    AUTH,
    CONNECT,
    CONNECTED,
    SECRET,
    command_frame,
    connect_frame,
    flow,
    frame,
    message,
)

SECOND, THIRD = "10.1.1.2:6650", "10.1.1.3:6650"
NO_TLS = "the broker that the lookup found reported no address without TLS"


def address(url: str) -> tuple[str, int]:
    host, _, port = url.rpartition(":")
    return host, int(port)


def failed(told: bytes, request_id: int) -> str:
    """What a client is told when its lookup failed: it is to ask again."""
    assert len(told) == 4 + struct.unpack(">I", told[:4])[0]
    answered = wire.BaseCommand.FromString(told[8:]).lookup_response
    assert (answered.request_id, answered.response, answered.error) == (request_id, 2, 6)
    return answered.message


def redirected(request_id: int, url: str = SECOND, **how: Any) -> tuple[Talk, Follow]:
    """A client whose lookup its broker has answered with a redirect."""
    talk = connected(**how)
    talk.client.says(lookup(request_id))
    assert talk.broker.hears() == lookup(request_id)
    talk.broker.says(redirect(url, request_id))
    assert talk.client.hears() == b""
    (errand,) = talk.asked()
    assert isinstance(errand, Follow)
    return talk, errand


def following(talk: Talk, errand: Follow) -> Following:
    return talk.conversation.following(errand)


def asked_aside(route: Following, url: str, said: bytes) -> Inquiry:
    """The tap comes with the client's CONNECT, and asks when it is let in."""
    broker, inquiry = route.next()
    assert broker == address(url)
    assert inquiry.greeting == CONNECT
    assert inquiry.receive(CONNECTED[:7]) == b""
    asked = inquiry.receive(CONNECTED[7:])
    assert sorted(asked) == sorted(said)  # protobuf may reorder what it kept
    assert inquiry.outcome is None
    return inquiry


def found(talk: Talk, answered: bytes) -> None:
    """A redirect was followed, and this is the answer."""
    talk.conversation.followed(wire.BaseCommand.FromString(answered[8:]), (1, 1))
    talk.carry_out()


def not_found(talk: Talk, errand: Follow, why: str) -> None:
    talk.conversation.unfollowed(errand, why, (1, 1))
    talk.carry_out()


def test_an_answer_of_the_taps_own_waits_for_the_end_of_a_frame_that_is_passing():
    talk, _ = redirected(5)
    big = message(1, b"x" * 100_000)
    talk.broker.says(big[:60_000])
    assert talk.client.hears() == big[:60_000]
    found(talk, answer(SECOND, 5))
    assert talk.client.hears() == b""
    talk.broker.says(big[60_000:] + flow(1) + flow(2)[:5])
    assert talk.client.hears() == big[60_000:] + kept(SECOND, 5) + flow(1)
    talk.broker.says(flow(2)[5:])
    assert talk.client.hears() == flow(2)


def test_several_answers_wait_in_their_order_and_stand_between_rewritten_frames():
    talk, _ = redirected(5)
    talk.broker.says(message(1, b"x" * 100)[:90])
    assert talk.client.hears() == message(1, b"x" * 100)[:90]
    found(talk, answer(SECOND, 5))
    found(talk, answer(THIRD, 6))
    talk.broker.says(message(1, b"x" * 100)[90:] + answer("b:1", 3))
    assert talk.client.hears() == (
        message(1, b"x" * 100)[90:] + kept(SECOND, 5) + kept(THIRD, 6) + kept("b:1", 3)
    )


def test_an_answer_of_the_taps_own_goes_before_a_frame_whose_type_is_not_known_yet():
    talk, _ = redirected(5)
    talk.broker.says(flow(1)[:9])
    found(talk, answer(SECOND, 5))
    assert talk.client.hears() == kept(SECOND, 5)
    talk.broker.says(flow(1)[9:])
    assert talk.client.hears() == flow(1)


@pytest.mark.parametrize("said", ["message", "lookup"])
@pytest.mark.parametrize("cut", [1, 9, 30, 60])
def test_an_answer_of_the_taps_own_finds_its_place_wherever_it_comes(said, cut):
    one = message(1, b"x" * 100) if said == "message" else answer("b:1", 3)
    through = one if said == "message" else kept("b:1", 3)
    talk, _ = redirected(5)
    talk.broker.says(one + one[:cut])
    found(talk, answer(SECOND, 5))
    talk.broker.says(one[cut:] + one)
    heard = talk.client.hears()
    assert len(heard) == 3 * len(through) + len(kept(SECOND, 5))
    at = heard.index(kept(SECOND, 5))
    assert at % len(through) == 0
    assert heard.replace(kept(SECOND, 5), b"", 1) == through * 3


@pytest.mark.parametrize("end", ["the broker ended", "nothing is cut any more", "it is over"])
def test_an_answer_that_comes_too_late_is_not_said(end):
    talk, _ = redirected(5)
    if end == "the broker ended":
        talk.broker.ends()
    elif end == "nothing is cut any more":
        talk.broker.says(b"\xff" * 20)
        assert talk.client.hears() == b"\xff" * 20
    else:
        talk.client.goes()
    rows = len(talk.rows())
    found(talk, answer(SECOND, 5))
    assert talk.client.hears() == b""
    assert len(talk.rows()) == rows


# When it cannot be followed.


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (command_frame(14, "error", request_id=0, error=3, message=SECRET.decode()), "refused the"),
        (frame(b"\x08\x24\xa2\x02\x00"), "wants other credentials"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "with nonsense"),
        (frame(b"\x08\x18\xc2\x01\x7f"), "with nonsense"),
        (message(1, bytes(1_100_000)), "talks without answering"),
        (b"", "closed the connection before"),
    ],
)
def test_whatever_the_other_broker_says_instead_is_told_in_one_sentence(said, told):
    route = following(*redirected(2))
    _, inquiry = route.next()
    assert inquiry.receive(said) == b""
    inquiry.ended()
    with pytest.raises(Unfollowed) as raised:
        route.heard(inquiry)
    why = str(raised.value)
    assert why.startswith(f"the broker {SECOND} ")
    assert told in why
    assert SECRET.decode() not in why


def test_what_comes_behind_an_answer_does_not_change_it():
    route = following(*redirected(2))
    _, inquiry = route.next()
    inquiry.receive(CONNECTED + answer(THIRD, 2) + answer("b:1", 2))
    inquiry.receive(b"\xff" * 20)
    inquiry.ended()
    route.heard(inquiry)
    assert route.answer.lookup_response.broker_service_url == f"pulsar://{THIRD}"


def test_a_redirect_without_end_is_given_up():
    route = following(*redirected(2))
    for _ in range(HOPS_MOST):
        aside = asked_aside(route, SECOND, lookup(2, authoritative=True))
        aside.receive(redirect(SECOND, 2))
        route.heard(aside)
    with pytest.raises(Unfollowed, match=r"^this lookup was redirected more than 20 times$"):
        route.next()


def test_a_redirect_to_nowhere_is_given_up():
    route = following(*redirected(2, url="nonsense"))
    with pytest.raises(Unfollowed, match=r"^a redirect of this lookup names no broker to dial$"):
        route.next()
    assert str(route.late()).startswith("another broker did not answer")


def test_a_broker_that_takes_too_long_is_named():
    route = following(*redirected(2))
    route.next()
    why = f"the broker {SECOND} did not answer a redirected lookup in time"
    assert str(route.late()) == why


def test_a_redirect_that_nobody_had_asked_for_is_answered_too():
    talk = connected()
    talk.broker.says(redirect(SECOND, 99))
    (errand,) = talk.asked()
    with pytest.raises(Unfollowed, match="of a lookup it did not see"):
        following(talk, errand)
    not_found(talk, errand, "the tap cannot follow it")
    assert failed(talk.client.hears(), 99) == "the tap cannot follow it"


def test_a_question_is_answered_once():
    talk, _ = redirected(2)
    talk.broker.says(redirect(SECOND, 2))
    (errand,) = talk.asked()
    assert errand.question is None


def test_a_lookup_that_failed_at_the_other_broker_has_failed():
    talk, _ = redirected(2)
    refusal = command_frame(24, "lookup_response", response=2, request_id=2, error=4, message="no")
    found(talk, refusal)
    assert talk.client.hears() == refusal


def test_a_broker_may_ping_before_it_answers():
    route = following(*redirected(2))
    aside = asked_aside(route, SECOND, lookup(2, authoritative=True))
    assert aside.receive(command_frame(18, "ping")) == command_frame(19, "pong")
    assert aside.outcome is None


# What is kept of a client.


def test_newer_credentials_take_the_place_of_the_first_ones():
    talk = connected()
    challenge = frame(b"\x08\x24\xa2\x02\x02\x0a\x00")
    talk.broker.says(challenge)
    assert talk.client.hears() == challenge
    fresh = b"\x12\x0e\x0a\x05token\x12\x05fresh"
    body = b"\x0a\x01v" + fresh
    response = frame(b"\x08\x25\xaa\x02" + bytes([len(body)]) + body)
    talk.client.says(response + lookup(2))
    assert talk.broker.hears() == response + lookup(2)
    talk.broker.says(redirect(SECOND, 2))
    (errand,) = talk.asked()
    _, inquiry = following(talk, errand).next()
    again = inquiry.greeting
    assert again.rindex(b"\x1a\x05fresh") > again.index(AUTH)


def test_credentials_that_come_while_a_redirect_waits_are_those_that_are_shown():
    talk, errand = redirected(2)
    body = b"\x0a\x01v" + b"\x12\x0e\x0a\x05token\x12\x05fresh"
    talk.client.says(frame(b"\x08\x25\xaa\x02" + bytes([len(body)]) + body))
    _, inquiry = following(talk, errand).next()
    assert b"\x1a\x05fresh" in inquiry.greeting


def test_the_name_of_its_own_broker_is_not_told_to_another():
    talk = Talk()
    talk.client.says(connect_frame(SECOND))
    talk.broker_comes()
    talk.client.says(lookup(2))
    talk.broker.says(CONNECTED + redirect(THIRD, 2))
    assert talk.asked()[0] == Dial(address(SECOND))
    talk.client.says(lookup(3))
    talk.broker.says(redirect(THIRD, 3))
    (errand,) = talk.asked()
    _, inquiry = following(talk, errand).next()
    assert SECOND.encode() not in inquiry.greeting
    assert AUTH in inquiry.greeting


def test_a_connect_that_is_too_long_to_be_kept_passes_and_is_not():
    long = frame(CONNECT[8:] + b"\xf2\x07\x80\x80\x04" + b"x" * 65536)
    talk = Talk()
    talk.client.says(long)
    talk.broker_comes()
    assert talk.broker.hears() == long
    talk.client.says(lookup(2))
    talk.broker.says(CONNECTED + redirect(SECOND, 2))
    assert talk.client.hears() == CONNECTED
    _, errand = talk.asked()
    with pytest.raises(Unfollowed, match="cannot follow"):
        following(talk, errand)


def test_nothing_is_kept_of_a_client_whose_connection_is_over():
    talk, errand = redirected(2)
    talk.client.goes()
    with pytest.raises(Unfollowed, match="cannot follow"):
        following(talk, errand)


# With TLS towards the brokers.


def with_tls(url: str, response: int = 1, **more: object) -> bytes:
    return command_frame(
        24, "lookup_response", broker_service_url_tls=f"pulsar+ssl://{url}", response=response,
        request_id=5, **more,
    )  # fmt: skip


def test_a_lookup_answer_of_a_tls_cluster_names_the_tls_port_in_both_fields():
    talk = connected(tls=True)
    talk.broker.says(with_tls(SECOND, broker_service_url="pulsar://127.0.0.1:6650"))
    expected = with_tls(
        SECOND, broker_service_url=f"pulsar://{SECOND}", proxy_through_service_url=True
    )
    assert talk.client.hears() == expected
    assert talk.asked() == [Name(address(SECOND))]


def test_a_broker_of_a_tls_cluster_without_a_tls_address_is_not_found():
    talk = connected(tls=True)
    talk.broker.says(answer("127.0.0.1:6650", 5))
    why = "the broker that the lookup found reported no TLS address"
    assert failed(talk.client.hears(), 5) == why
    assert talk.asked() == [SayAloud(why)]


def test_a_broker_without_an_address_that_needs_no_tls_is_not_found():
    talk = connected()
    talk.broker.says(with_tls(SECOND))
    assert failed(talk.client.hears(), 5) == NO_TLS
    assert talk.asked() == [SayAloud(NO_TLS)]


def test_a_close_and_a_move_name_tls_brokers():
    moved_to = []
    talk = connected(tls=True, migrate=lambda brokers: moved_to.append(brokers) or ("h", 1))
    talk.broker.says(
        command_frame(
            16, "close_consumer", assigned_broker_service_url="pulsar://b:1",
            assigned_broker_service_url_tls=f"pulsar+ssl://{SECOND}",
        )
    )  # fmt: skip
    assert talk.client.hears() == command_frame(16, "close_consumer")
    assert talk.asked() == [Name(address(SECOND))]
    talk.broker.says(
        command_frame(
            68, "topic_migrated", broker_service_url="pulsar://b:1",
            broker_service_url_tls=f"pulsar+ssl://{THIRD}",
        )
    )  # fmt: skip
    told = wire.BaseCommand.FromString(talk.client.hears()[8:]).topic_migrated
    assert told.broker_service_url_tls == "pulsar+ssl://h:1"
    assert moved_to == [(address(THIRD),)]


def test_credentials_asked_for_again_pass_untouched():
    talk = connected(tls=True)
    challenge = frame(b"\x08\x24\xa2\x02\x08\x0a\x01v\x12\x03\x0a\x01x")
    response = frame(b"\x08\x25\xaa\x02\x08\x0a\x01v\x12\x03\x12\x01" + b"y")
    talk.broker.says(challenge)
    assert talk.client.hears() == challenge
    talk.client.says(response)
    assert talk.broker.hears() == response
