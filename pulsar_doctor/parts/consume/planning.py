"""Turns the options of `consume` into a plan for each consumer, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.consume.engines import SHARING, Plan

PULSAR_CLIENT, WIRE = "pulsar-client", "wire"
DEFAULT_QUEUE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user wants of all consumers together. What a field means, `Plan` says.

    zero_queue is a receiver_queue_size of 0; None: nothing is told. Times are in seconds.
    """

    topic: str | None
    subscription: str | None
    take_messages: bool
    create: bool
    type_: Literal["exclusive", "shared", "failover", "key_shared"]
    consumers: int
    zero_queue: bool
    receiver_queue_size: int | None
    engine: Literal["pulsar-client", "wire"]
    permits: Literal["auto", "manual"]
    process_time: float | None
    ack: Literal["individual", "cumulative", "none"]
    ack_every: int
    batch_index_acks: bool
    nack_rate: float | None
    nack_delay: float
    receiver_delay: tuple[float, ...]
    delay_from: Literal["publish", "receipt"]


def check(asked: Asked) -> None:
    """Raises InputError for the first options that do not go together."""
    for wrong, sentence in _wrong(asked):
        if wrong:
            raise InputError(sentence)


def _wrong(asked: Asked) -> Iterator[tuple[bool, str]]:
    sized = asked.receiver_queue_size is not None
    zero = asked.zero_queue or asked.receiver_queue_size == 0
    type_, ack = asked.type_, asked.ack
    yield from _wrong_visit(asked)
    yield (
        bool(asked.zero_queue and asked.receiver_queue_size),
        "--zero-queue and --receiver-queue-size exclude each other",
    )
    yield (
        type_ == "exclusive" and asked.consumers > 1,
        "an exclusive subscription takes one consumer; see --type",
    )
    yield (
        ack == "cumulative" and type_ in SHARING,
        f"the broker ignores cumulative acknowledgements on {type_} subscriptions; "
        "use --type exclusive or failover",
    )
    yield from _wrong_acks(asked)
    yield (
        asked.delay_from != "publish" and not asked.receiver_delay,
        "--delay-from needs --receiver-delay",
    )
    manual = asked.permits == "manual"
    yield (
        manual and asked.engine != WIRE,
        "pulsar-client grants permits by itself: --permits manual needs --engine wire",
    )
    yield (
        manual and (sized or zero),
        "with --permits manual there is no queue size: you grant what is sent",
    )
    yield (
        manual and asked.consumers > 1,
        "--permits manual grants to one consumer: leave --consumers out",
    )


def _wrong_visit(asked: Asked) -> Iterator[tuple[bool, str]]:
    yield (
        asked.take_messages and (asked.topic is None or asked.subscription is None),
        "--take-messages takes those of a subscription: name it, TOPIC -s SUB",
    )
    yield asked.create and asked.topic is None, "--create needs a TOPIC: the one to be created"


def _wrong_acks(asked: Asked) -> Iterator[tuple[bool, str]]:
    share, ack = asked.nack_rate, asked.ack
    yield (
        asked.ack_every > 1 and ack == "none",
        "--ack none acknowledges nothing: leave --ack-every out",
    )
    yield (
        bool(share) and ack == "cumulative",
        "a cumulative acknowledgement covers what was refused before it too: "
        "--nack-rate goes with --ack individual or none",
    )


def plans(topic: str, subscription: str, asked: Asked) -> list[Plan]:
    """One for each consumer."""
    size = asked.receiver_queue_size
    if asked.zero_queue or size is None:
        size = 0 if asked.zero_queue else DEFAULT_QUEUE
    return [
        Plan(
            name=f"consumer-{number}",
            topic=topic,
            subscription=subscription,
            type=asked.type_,
            receiver_queue_size=size,
            process_seconds=asked.process_time,
            ack=asked.ack,
            ack_every=asked.ack_every,
            nack_share=asked.nack_rate or 0.0,
            nack_delay_seconds=asked.nack_delay,
            batch_index_acks=asked.batch_index_acks,
            permits=asked.permits,
            receiver_delay_seconds=asked.receiver_delay,
            delay_from=asked.delay_from,
        )
        for number in range(1, asked.consumers + 1)
    ]
