"""Turns the options of `consume` into a plan for each consumer, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.consume.engines import SHARING, WIRE, Behaviour, Plan

if TYPE_CHECKING:
    from pulsar_doctor.parts.consume.command.options import ConsumeRequest

DEFAULT_QUEUE = 1000


def check(run: ConsumeRequest) -> None:
    """Raises InputError for the first options that do not go together."""
    for wrong, sentence in _wrong(run):
        if wrong:
            raise InputError(sentence)


def _wrong(run: ConsumeRequest) -> Iterator[tuple[bool, str]]:
    sized = run.queue_size is not None
    zero = run.zero_queue or run.queue_size == 0
    type_, ack = run.type, run.ack
    yield from _wrong_visit(run)
    yield (
        bool(run.zero_queue and run.queue_size),
        "--zero-queue and --receiver-queue-size exclude each other",
    )
    yield (
        type_ == "exclusive" and run.consumers > 1,
        "an exclusive subscription takes one consumer; see --type",
    )
    yield (
        ack == "cumulative" and type_ in SHARING,
        f"the broker ignores cumulative acknowledgements on {type_} subscriptions; "
        "use --type exclusive or failover",
    )
    yield from _wrong_acks(run)
    manual = run.permits == "manual"
    yield (
        manual and run.engine != WIRE,
        "pulsar-client grants permits by itself: --permits manual needs --engine wire",
    )
    yield (
        manual and (sized or zero),
        "with --permits manual there is no queue size: you grant what is sent",
    )
    yield (
        manual and run.consumers > 1,
        "--permits manual grants to one consumer: leave --consumers out",
    )


def _wrong_visit(run: ConsumeRequest) -> Iterator[tuple[bool, str]]:
    yield (
        run.take_messages and (run.topic is None or run.subscription is None),
        "--take-messages takes those of a subscription: name it, TOPIC -s SUB",
    )
    yield run.create and run.topic is None, "--create needs a TOPIC: the one to be created"


def _wrong_acks(run: ConsumeRequest) -> Iterator[tuple[bool, str]]:
    share, ack = run.nack_share, run.ack
    yield (
        run.ack_every > 1 and ack == "none",
        "--ack none acknowledges nothing: leave --ack-every out",
    )
    yield (
        bool(share) and ack == "cumulative",
        "a cumulative acknowledgement covers what was refused before it too: "
        "--nack-rate goes with --ack individual or none",
    )


def plans(topic: str, subscription: str, run: ConsumeRequest) -> list[Plan]:
    """One for each consumer."""
    size = DEFAULT_QUEUE if run.queue_size is None else run.queue_size
    work = {each.name: getattr(run, each.name) for each in fields(Behaviour)}
    return [
        Plan(f"consumer-{number}", topic, subscription, 0 if run.zero_queue else size, **work)
        for number in range(1, run.consumers + 1)
    ]
