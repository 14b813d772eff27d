"""Turns the options of `consume` into a plan for each consumer, or an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pulsar_doctor.consume.engines import SHARING, Plan
from pulsar_doctor.errors import InputError

PULSAR_CLIENT, WIRE = "pulsar-client", "wire"
DEFAULT_QUEUE = 1000
# What std::regex of pulsar-client has and Python has not, or the other way round: groups such as
# (?i), at which the library ends the process, and classes such as [[:alpha:]].
FOREIGN = re.compile(r"\(\?(?![:=!]).?|\[\^?[^]]*\[[:.=]")


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
    pattern: bool
    receive: Literal["call", "listener", "batch"]
    pause_after: int | None
    pause_for: float | None
    process_time: float | None
    ack: Literal["individual", "cumulative", "none"]
    ack_every: int
    batch_index_acks: bool
    nack_rate: float | None
    nack_delay: float
    ack_corrupt: bool
    dead_letter_after: int | None
    dead_letter_topic: str | None
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
    type_, ack, wire = asked.type_, asked.ack, asked.engine == WIRE
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
    yield from _wrong_acks(asked, wire)
    yield from _wrong_receiving(asked, wire, zero)
    manual = asked.permits == "manual"
    yield (
        manual and not wire,
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
    yield (
        manual and asked.receive == "listener",
        "--permits manual goes with --receive call or batch",
    )


def _wrong_visit(asked: Asked) -> Iterator[tuple[bool, str]]:
    yield (
        asked.take_messages and (asked.topic is None or asked.subscription is None),
        "--take-messages takes those of a subscription: name it, TOPIC -s SUB",
    )
    yield asked.create and asked.topic is None, "--create needs a TOPIC: the one to be created"
    yield asked.create and asked.pattern, "a pattern creates no topic: leave --create out"
    yield asked.pattern and asked.topic is None, "--pattern needs a TOPIC: the regular expression"
    yield (
        asked.pattern and str(asked.topic).startswith("non-persistent://"),
        "pulsar-client looks for a pattern among persistent topics only",
    )
    fault = _fault(str(asked.topic)) if asked.pattern else ""
    yield bool(fault), f"{asked.topic} is not a usable pattern: {fault}"


def _wrong_acks(asked: Asked, wire: bool) -> Iterator[tuple[bool, str]]:
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
    yield (
        asked.ack_corrupt and not wire,
        "pulsar-client acknowledges corrupt messages by itself: --ack-corrupt needs --engine wire",
    )
    letters = asked.dead_letter_after is not None
    yield (
        asked.dead_letter_topic is not None and not letters,
        "--dead-letter-topic needs --dead-letter-after",
    )
    yield (
        letters and asked.topic is None,
        "--dead-letter-after leaves a topic behind: it needs a TOPIC",
    )
    yield (
        letters and wire,
        "dead letters are the library's work: --dead-letter-after needs --engine pulsar-client",
    )
    yield (
        letters and asked.type_ not in SHARING,
        "the broker counts redeliveries on shared and key_shared subscriptions only: "
        "--dead-letter-after goes with these types",
    )
    yield (
        letters and not share,
        "a message becomes a dead letter when it is refused again and again: add --nack-rate",
    )


def _wrong_receiving(asked: Asked, wire: bool, zero: bool) -> Iterator[tuple[bool, str]]:
    receive, delays = asked.receive, asked.receiver_delay
    yield (
        asked.pause_after is not None and receive != "listener",
        "only a listener can be paused: --pause-after goes with --receive listener",
    )
    yield (
        asked.pause_for is not None and asked.pause_after is None,
        "--pause-for needs --pause-after",
    )
    yield (
        receive == "batch" and zero and not wire,
        "pulsar-client receives no batches with a zero queue: use --engine wire, or a queue size",
    )
    yield (
        receive == "batch" and bool(delays),
        "a batch receive takes all messages at once, also those that are not due: "
        "--receiver-delay goes with --receive call or listener",
    )
    yield (
        asked.pattern and bool(delays),
        "the topics of a pattern have one queue, in which messages of one would hold up those of "
        "another: --receiver-delay takes one topic",
    )
    yield (
        asked.delay_from != "publish" and not delays,
        "--delay-from needs --receiver-delay",
    )
    yield (
        asked.pattern and wire,
        "--engine wire takes one topic after another: --pattern needs --engine pulsar-client",
    )
    yield (
        asked.pattern and zero,
        "pulsar-client refuses a zero queue on several topics: attach to one of them",
    )


def _fault(pattern: str) -> str:
    """Why pulsar-client cannot use this regular expression, or would understand another one."""
    if foreign := FOREIGN.search(pattern):
        return f"pulsar-client does not read {foreign[0]!r} as others do"
    try:
        re.compile(pattern)
    except re.error as error:
        return str(error)
    return ""


def plans(topic: str, subscription: str, asked: Asked) -> list[Plan]:
    """One for each consumer."""
    size = asked.receiver_queue_size
    if asked.zero_queue or size is None:
        size = 0 if asked.zero_queue else DEFAULT_QUEUE
    return [
        Plan(
            name=f"consumer-{number}",
            topic=_pattern(topic) if asked.pattern else topic,
            subscription=subscription,
            type=asked.type_,
            receiver_queue_size=size,
            process_seconds=asked.process_time,
            ack=asked.ack,
            ack_every=asked.ack_every,
            nack_share=asked.nack_rate or 0.0,
            nack_delay_seconds=asked.nack_delay,
            batch_index_acks=asked.batch_index_acks,
            receive=asked.receive,
            pause_after=asked.pause_after,
            pause_seconds=asked.pause_for,
            dead_letter_after=asked.dead_letter_after,
            dead_letter_topic=asked.dead_letter_topic,
            pattern=asked.pattern,
            permits=asked.permits,
            ack_corrupt=asked.ack_corrupt,
            receiver_delay_seconds=asked.receiver_delay,
            delay_from=asked.delay_from,
        )
        for number in range(1, asked.consumers + 1)
    ]


def _pattern(topic: str) -> str:
    """With the namespace before it, as the library wants it."""
    if "://" in topic:
        return topic
    return (
        f"persistent://{topic}" if topic.count("/") == 2 else f"persistent://public/default/{topic}"
    )
