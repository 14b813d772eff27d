"""Sends test messages at a chosen rate, and counts those that the broker acknowledged."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import DoctorError, InputError, needing
from pulsar_doctor.parts.consume.engines import Plan
from pulsar_doctor.parts.consume.visiting.leavings import PERHAPS, Left
from pulsar_doctor.parts.consume.visiting.presence import look

with needing("consume", "sending messages"):
    import _pulsar
    import pulsar

BATCH_BYTES = 4 << 20  # below what a broker takes as one message
BATCH_WAIT_MS = 3_600_000  # a batch is sent when it is full, or at the end


@dataclass(frozen=True, slots=True)
class Sending:
    """What is sent. Messages of one batch have one key, so that none is split."""

    messages: int
    per_second: float | None = None  # None: as fast as the broker takes them
    keys: int = 0  # different ones, in turn; 0: none
    payload_bytes: int | None = None  # None: as long as its text
    batch_size: int = 1  # 1: no batches
    delay_seconds: float = 0.0

    def key(self, number: int) -> str | None:
        """That of the message with this number."""
        return f"key {number // self.batch_size % self.keys}" if self.keys else None

    def payload(self, number: int) -> bytes:
        """Filler that holds nothing of anybody."""
        text = b"message %d" % number
        size = self.payload_bytes
        return text if size is None else text[:size].ljust(size, b".")

    def due(self, number: int) -> float:
        """Seconds after the first one at which its batch begins."""
        first = number // self.batch_size * self.batch_size
        return first / self.per_second if self.per_second else 0.0


@dataclass(slots=True)
class SentSoFar:
    """How far it is. Changed in place, by the client's thread too."""

    given: int = 0  # to the client
    acknowledged: int = 0
    failed: int = 0
    error: str | None = None  # the first one

    @property
    def in_flight(self) -> int:
        """How many messages are in flight: nobody knows whether the broker has them."""
        return self.given - self.acknowledged - self.failed

    def count(self, result: Any, _: Any) -> None:
        """What became of one message."""
        if result == pulsar.Result.Ok:
            self.acknowledged += 1
        else:
            self.failed += 1
            self.error = self.error or str(result)


def send(
    client: Any,
    topic: str,
    sending: Sending,
    sent: SentSoFar,
    progress: Callable[[int], object] = lambda done: None,
) -> None:
    """Sends all of them and waits until the broker has them. Raises DoctorError where it has not.

    progress: called with how many the broker has.
    """
    try:
        producer = client.create_producer(topic, block_if_queue_full=True, **_batching(sending))
        began = time.monotonic()
        for number in range(sending.messages):
            wait = began + sending.due(number) - time.monotonic()
            if wait > 0:
                progress(sent.acknowledged)
                time.sleep(wait)
            sent.given += 1
            producer.send_async(
                sending.payload(number),
                sent.count,
                partition_key=sending.key(number),
                deliver_after=timedelta(seconds=sending.delay_seconds) or None,
            )
        producer.flush()
        producer.close()
        progress(sent.acknowledged)
    except _pulsar.PulsarException as error:
        if not sent.failed:
            raise DoctorError(f"cannot send messages to {topic}: {error}") from error
    if sent.failed:
        failed = f"{sent.failed} of {sending.messages} messages to {topic} failed"
        raise DoctorError(f"{failed}: {sent.error}")


def _batching(sending: Sending) -> dict[str, Any]:
    if sending.batch_size == 1:
        return {"batching_enabled": False}
    return {
        "batching_enabled": True,
        "batching_max_messages": sending.batch_size,
        "batching_max_allowed_size_in_bytes": BATCH_BYTES,
        "batching_max_publish_delay_ms": BATCH_WAIT_MS,
        "batching_type": pulsar.BatchingType.KeyBased
        if sending.keys
        else pulsar.BatchingType.Default,
    }


def visit(settings: Settings, topic: str, *, existing: bool) -> Left | None:
    """Checks whether the topic is there; what sending will create, and nobody removes.

    existing: messages may go to a topic that is somebody's. Raises InputError where they may not,
    DoctorError where there is no such topic, or that is not known without the user's consent.
    """
    try:
        there = look(settings, Plan("producer", topic, ""))
    except InputError:
        raise
    except DoctorError as error:
        if existing:
            return Left(topic, why=PERHAPS)
        raise DoctorError(
            f"the REST API (--admin-url) does not tell whether there is a topic {topic}: {error}; "
            "or give --existing if messages may go to it"
        ) from error
    if there.exists and not existing:
        raise InputError(
            f"{there.topic} exists, and its consumers would get the messages: "
            "give --existing if they may, or name a new topic"
        )
    if existing and not there.exists:
        raise DoctorError(f"{there.absent or f'there is no topic {topic}'} (see --existing)")
    return None if existing else Left(there.topic)


def is_there(settings: Settings, topic: str) -> bool:
    """Whether a topic to which nothing was sent exists; True where the REST API does not tell."""
    try:
        return look(settings, Plan("producer", topic, "")).exists
    except DoctorError:
        return True


def subscribe(settings: Settings, topic: str, subscription: str) -> None:
    """Creates a subscription that keeps all messages from here on; asks for none of them."""
    from pulsar_doctor.parts.consume import receiver

    plan = Plan("pulsar-doctor", topic, subscription, permits="manual")
    with receiver.connected(settings.service_url, settings) as engine:
        engine.subscribe(plan).close()
