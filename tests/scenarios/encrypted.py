"""Encrypted messages, and consumers with and without the key."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pulsar
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from tests.scenarios.acks import OLD_HOLE
from tests.scenarios.scene import Scene
from tests.scenarios.table import HEALTHY, SHORT, scenario, stalled, warning

ENCRYPTED = (4, 0)  # recorded from there on; older brokers know no more of it
FAIL = pulsar.ConsumerCryptoFailureAction.FAIL
DISCARD = pulsar.ConsumerCryptoFailureAction.DISCARD


def keys(scene: Scene) -> pulsar.CryptoKeyReader:
    """A new pair of keys, gone with the scene."""
    folder = Path(scene.stack.enter_context(tempfile.TemporaryDirectory()))
    private, public = folder / "private.pem", folder / "public.pem"
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = Encoding.PEM
    private.write_bytes(key.private_bytes(pem, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(pem, PublicFormat.SubjectPublicKeyInfo))
    return pulsar.CryptoKeyReader(str(public), str(private))


def encrypt(scene: Scene, messages: int, reader: pulsar.CryptoKeyReader) -> None:
    """Sends so many that only who has the key can read."""
    producer = scene.client.create_producer(
        scene.topic, encryption_key="k", crypto_key_reader=reader, batching_enabled=False
    )
    for number in range(messages):
        producer.send(b"secret %d" % number)
    producer.close()


@scenario(
    "permits-exhausted-cannot-decrypt",
    stalled("permits-exhausted"),
    settings=SHORT,
    since=ENCRYPTED,
)
def _no_key(scene: Scene) -> None:
    """It receives on and on, and its client keeps all that it cannot decrypt."""
    scene.begin()
    scene.work(scene.consume("no-key", crypto_failure_action=FAIL))
    encrypt(scene, 60, keys(scene))
    scene.until_quiet()


@scenario("ack-hole-cannot-decrypt-some", warning("ack-hole"), settings=OLD_HOLE, since=ENCRYPTED)
def _some(scene: Scene) -> None:
    """Five encrypted messages among others, which it acknowledges."""
    scene.begin()
    consumer = scene.consume("no-key", queue=100, crypto_failure_action=FAIL)
    scene.work(consumer)
    scene.produce(1)
    scene.until(lambda: scene.stats()["msgBacklog"] == 0)
    encrypt(scene, 5, keys(scene))
    scene.produce_on(20)
    began = scene.read().date_ms
    scene.until(lambda: scene.read().date_ms >= began + 8000)


def empties(scene: Scene, name: str, reader: pulsar.CryptoKeyReader, **settings: Any) -> None:
    """A consumer of that name and its client leave nothing of 60 encrypted messages."""
    scene.begin()
    scene.work(scene.consume(name, **settings))
    encrypt(scene, 60, reader)
    scene.until(lambda: scene.stats()["msgBacklog"] == 0 and scene.consumer(name))


@scenario("healthy-has-the-key", HEALTHY, since=ENCRYPTED)
def _has_the_key(scene: Scene) -> None:
    reader = keys(scene)
    empties(scene, "has-key", reader, crypto_key_reader=reader)


@scenario("healthy-discards-what-it-cannot-decrypt", HEALTHY, since=ENCRYPTED)
def _discards(scene: Scene) -> None:
    """Its client acknowledges what its application never gets: nothing waits, and nothing tells."""
    empties(scene, "no-key", keys(scene), crypto_failure_action=DISCARD)
