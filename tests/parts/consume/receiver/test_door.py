"""How our consumer gets in, and what it makes of noise."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.consume.receiver import connected, connection
from pulsar_doctor.parts.consume.receiver.spoken_pb2 import MessageMetadata
from tests.parts.consume.receiver.scripted_broker import (
    PLAN,
    Talk,
    batch,
    code,
    engine,
    message,
    said,
    scripted,
)
from tests.parts.consume.receiver.scripted_broker import peer as peer  # noqa: PLC0414


def test_a_token_is_said_and_said_anew_when_it_is_asked_for(peer, tmp_path):
    file = tmp_path / "token"
    file.write_text("first-token")
    settings = Settings(auth_plugin="token", auth_params=f"file://{file}")
    with engine(peer, settings) as running:
        running.subscribe(PLAN)
        (connect,) = [raw for raw in peer.raw if raw[1] == 2]
        assert b"first-token" in connect
        assert peer.all_of("CONNECT")[0].auth_method_name == "token"
        file.write_text("second-token")
        peer.talks[-1].tell("AUTH_CHALLENGE")
        peer.hears("AUTH_RESPONSE")
        assert b"second-token" in peer.raw[-1]
        assert b"first-token" not in peer.raw[-1]


def test_a_user_and_a_password_are_said(peer):
    settings = Settings(auth_plugin="basic", auth_params="anna:secret")
    with engine(peer, settings) as running:
        running.subscribe(PLAN)
        assert b"anna:secret" in peer.raw[0]
        assert peer.all_of("CONNECT")[0].auth_method_name == "basic"


def test_a_token_that_is_refused_is_one_sentence_without_it(peer):
    peer.answers["CONNECT"] = lambda talk, _: talk.tell(
        "ERROR", request_id=2**64 - 1, error=code("AuthenticationError"),
        message="bad token: eyJhbGciOi.secret.x",
    )  # fmt: skip
    settings = Settings(auth_plugin="token", auth_params="token:eyJhbGciOi.secret.x")
    with engine(peer, settings) as running, pytest.raises(DoctorError) as raised:
        running.subscribe(PLAN)
    assert "--auth-plugin" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_tls_trusts_whom_it_is_told_to_trust(server_side, pem):
    with scripted(server_side) as peer:
        trusting = Settings(service_url=peer.url, tls_trust_certs=pem / "cert.pem")
        with engine(peer, trusting) as running:
            running.subscribe(PLAN)
        with engine(peer) as running, pytest.raises(DoctorError, match="--tls-trust-certs"):
            running.subscribe(PLAN)
        with engine(peer, Settings(tls_allow_insecure=True)) as running:
            running.subscribe(PLAN)


def test_tls_shows_the_certificate_of_the_plugin(server_side, pem):
    server_side.verify_mode = 2  # CERT_REQUIRED
    server_side.load_verify_locations(pem / "cert.pem")
    params = f"tlsCertFile:{pem / 'cert.pem'},tlsKeyFile:{pem / 'key.pem'}"
    with scripted(server_side) as peer:
        trusting = Settings(service_url=peer.url, tls_trust_certs=pem / "cert.pem")
        ours = replace(trusting, auth_plugin="tls", auth_params=params)
        with engine(peer, ours) as running:
            running.subscribe(PLAN)
        assert peer.all_of("CONNECT")[-1].auth_method_name == "tls"
        with engine(peer, trusting) as running, pytest.raises(DoctorError):
            running.subscribe(PLAN)


def test_a_trust_file_that_is_none_is_said(tmp_path):
    settings = Settings(tls_trust_certs=Path("/nowhere.pem"))
    with (
        pytest.raises(
            InputError, match=r"cannot read certificates from /nowhere\.pem: No such file"
        ),
        connected("pulsar+ssl://127.0.0.1:1", settings),
    ):
        pass


NOISE = [
    b"\0\0\0\0", b"\xff" * 40, b"\0\0\0\x08\0\0\0\xff1234", b"\0\0\0\x06\0\0\0\x02\xff\xff",
    b"HTTP/1.1 400 Bad Request\r\n\r\n", said("PING")[:-1] + b"\xff",
]  # fmt: skip


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("when", ["CONNECT", "SUBSCRIBE"])
def test_noise_in_place_of_an_answer_is_one_sentence(peer, noise, when, monkeypatch):
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.1)
    peer.answers[when] = lambda talk, _: talk.say(noise)
    with engine(peer) as running, pytest.raises(DoctorError) as raised:
        running.subscribe(PLAN)
    assert "\n" not in str(raised.value)


def test_random_bytes_and_cut_frames_neither_hang_nor_crash(peer, monkeypatch):
    monkeypatch.setattr("pulsar_doctor.parts.consume.receiver.connection.ANSWER_SECONDS", 1.0)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    payload, metadata = batch(5)
    whole = [
        message(1), message(2, payload, metadata=metadata), said("PING"),
        message(3, ack_set=[-1, 5, 7], message_permits=2**32 - 1),
        message(4, metadata=MessageMetadata(num_messages_in_batch=-5)),
        message(5, metadata=MessageMetadata(num_messages_in_batch=2**31 - 1)),
        message(6, metadata=MessageMetadata(num_chunks_from_msg=5, chunk_id=-3, uuid="u")),
        said("CLOSE_CONSUMER", consumer_id=0), said("SUCCESS", request_id=2**64 - 1),
        said("ACK_RESPONSE", request_id=1), said("ERROR", request_id=1, error=-1),
        said("LOOKUP_RESPONSE", request_id=2), said("ACTIVE_CONSUMER_CHANGE", consumer_id=9),
    ]  # fmt: skip

    def noise(talk: Talk, command: Any) -> None:
        for _ in range(rng.randrange(6)):
            one = bytearray(rng.choice(whole))
            for _ in range(rng.choice((0, 0, 1, 3))):
                one[rng.randrange(len(one))] = rng.randrange(256)
            talk.say(bytes(one[: rng.choice((len(one), len(one), rng.randrange(len(one))))]))
        if rng.random() < 0.3:
            talk.close()

    peer.answers["FLOW"] = noise
    rounds, told = 0, []
    with connected(peer.url, Settings(), patience_seconds=0.5) as running:
        consumer = None
        while len(peer.all_of("SUBSCRIBE")) < 12 and rounds < 400:
            rounds += 1
            try:
                consumer = consumer or running.subscribe(PLAN)
                got = consumer.receive(0.02)
                if got is not None:
                    consumer.acknowledge(got)
                elif peer.talks:
                    peer.talks[-1].close()
            except DoctorError as error:  # a cut frame swallows the answer to the next request
                told.append(str(error))
                consumer = None
    assert len(peer.all_of("SUBSCRIBE")) >= 12
    assert "\n" not in "".join(told)
