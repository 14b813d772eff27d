"""Our consumer on a real broker that wants TLS and tokens, directly and through the tap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pulsar
import pytest

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.consume.engines import Plan
from pulsar_doctor.parts.consume.receiver import connected
from pulsar_doctor.parts.tap.options import RelayOptions
from pulsar_doctor.parts.tap.relaying import relaying
from tests.parts.tap.test_tls import TOKEN_SECONDS, Secured, forms_of, token
from tests.parts.tap.test_tls import localhost_pem as localhost_pem  # noqa: PLC0414
from tests.parts.tap.test_tls import secured as secured  # noqa: PLC0414
from tests.support import eventually

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def with_token(secured: Secured, file: Path, seconds: float) -> Settings:
    file.write_text(token(secured.key, "admin", seconds))
    return replace(secured.settings(), auth_plugin="token", auth_params=f"file://{file}")


def send(secured: Secured, topic: str, messages: int) -> None:
    client = pulsar.Client(
        secured.service_url,
        authentication=pulsar.AuthenticationToken(token(secured.key, "admin", 60)),
        tls_trust_certs_file_path=str(secured.trust),
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    producer = client.create_producer(topic)
    for number in range(messages):
        producer.send(b"%d" % number)
    client.close()


def test_a_token_that_expires_is_renewed_on_the_same_connection(secured, topic, tmp_path):
    settings = with_token(secured, tmp_path / "token", TOKEN_SECONDS)
    with connected(secured.service_url, settings) as engine:
        consumer = engine.subscribe(Plan("c", topic, "s", receiver_queue_size=0))
        (tmp_path / "token").write_text(token(secured.key, "admin", 3600))
        assert consumer.receive(TOKEN_SECONDS + 3) is None
        send(secured, topic, 10)
        for _ in range(10):
            message = consumer.receive(10)
            consumer.acknowledge(message)
        assert message.handle.partition.incarnation == 1


def test_a_token_goes_through_the_tap_and_is_found_nowhere(secured, topic, tmp_path):
    settings = with_token(secured, tmp_path / "token", 3600)
    trace = tmp_path / "t.ptrace"
    with relaying(secured.service_url, trace, RelayOptions(settings=settings)) as relay:
        with connected(relay.service_url, settings) as engine:
            consumer = engine.subscribe(Plan("c", topic, "s", receiver_queue_size=3))
            send(secured, topic, 10)
            for _ in range(10):
                consumer.acknowledge(consumer.receive(10))
        eventually(lambda: list(trace.rglob("*")))
    files = [path for path in trace.rglob("*") if path.is_file()]
    for form in forms_of((tmp_path / "token").read_text()):
        for path in files:
            assert form not in path.read_bytes(), f"in {path.name}"


def test_who_may_not_get_in_is_told(secured, topic, tmp_path):
    for settings, sentence in (
        (secured.settings(), "see --auth-plugin"),
        (with_token(secured, tmp_path / "token", -10), "see --auth-plugin"),
        (Settings(), "see --tls-trust-certs"),
    ):
        with (
            connected(secured.service_url, settings) as engine,
            pytest.raises(DoctorError, match=sentence),
        ):
            engine.subscribe(Plan("c", topic, "s"))
