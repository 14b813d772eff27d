"""The Python client under orders: one JSON line in, one JSON line out; see clients/__init__.py."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pulsar
from payloads import payload

COMPRESSIONS = {
    "NONE": pulsar.CompressionType.NONE,
    "LZ4": pulsar.CompressionType.LZ4,
    "ZLIB": pulsar.CompressionType.ZLib,
    "ZSTD": pulsar.CompressionType.ZSTD,
    "SNAPPY": pulsar.CompressionType.SNAPPY,
}
TYPES = {
    "Exclusive": pulsar.ConsumerType.Exclusive,
    "Shared": pulsar.ConsumerType.Shared,
    "Failover": pulsar.ConsumerType.Failover,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
}


class Orders:
    """What it is told, done with the client."""

    def __init__(self, hello: dict[str, Any]) -> None:
        options: dict[str, Any] = {"logger": pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn)}
        if token_file := hello.get("token_file"):
            options["authentication"] = pulsar.AuthenticationToken(lambda: read(token_file))
        if trust := hello.get("trust"):
            options["tls_trust_certs_file_path"] = trust
            options["tls_validate_hostname"] = True
        self.client = pulsar.Client(hello["service_url"], **options)
        self.consumers: dict[str, pulsar.Consumer] = {}
        self.producers: dict[str, pulsar.Producer] = {}

    def subscribe(self, order: dict[str, Any]) -> dict[str, Any]:
        self.consumers[order["name"]] = self.client.subscribe(
            order["topic"],
            order["subscription"],
            TYPES[order.get("type", "Exclusive")],
            receiver_queue_size=order.get("queue", 1000),
            consumer_name=order["name"],
            negative_ack_redelivery_delay_ms=200,
            initial_position=pulsar.InitialPosition.Earliest,
        )
        return {}

    def produce(self, order: dict[str, Any]) -> dict[str, Any]:
        key = producer_of(order)
        if key not in self.producers:
            self.producers[key] = self.client.create_producer(
                order["topic"],
                compression_type=COMPRESSIONS[order.get("compression", "NONE")],
                batching_enabled=order.get("batched", False),
                batching_max_publish_delay_ms=20,
                chunking_enabled=order.get("chunked", False),
                block_if_queue_full=True,
                max_pending_messages=100 if order["bytes"] > 10_000 else 1000,
            )
        producer = self.producers[key]
        failures: list[str] = []

        def sent(result: pulsar.Result, _: pulsar.MessageId) -> None:
            if result != pulsar.Result.Ok:
                failures.append(str(result))

        digest = hashlib.sha256()
        for number in range(order["first"], order["first"] + order["count"]):
            data = payload(number, order["bytes"])
            digest.update(data)
            producer.send_async(data, sent)
        producer.flush()
        if failures:
            raise RuntimeError(f"{len(failures)} sends failed: {failures[0]}")
        return {"sha256": digest.hexdigest()}

    def receive(self, order: dict[str, Any]) -> dict[str, Any]:
        consumer = self.consumers[order["name"]]

        def take() -> tuple[pulsar.Message, bytes]:
            message = consumer.receive(timeout_millis=order.get("timeout_ms", 15_000))
            return message, message.data()

        return received(order, take, ACKS, consumer)

    def seek(self, order: dict[str, Any]) -> dict[str, Any]:
        self.consumers[order["name"]].seek(pulsar.MessageId.earliest)
        return {}

    def close(self, order: dict[str, Any]) -> dict[str, Any]:
        self.client.close()
        return {}


ACKS: dict[str, Callable[[Any, Any], None]] = {
    "individual": lambda consumer, message: consumer.acknowledge(message),
    "nack": lambda consumer, message: consumer.negative_acknowledge(message),
    "cumulative": lambda consumer, message: consumer.acknowledge_cumulative(message),
}


def received(
    order: dict[str, Any],
    take: Callable[[], tuple[Any, bytes]],
    acks: Mapping[str, Callable[[Any, Any], None]],
    consumer: Any,
) -> dict[str, Any]:
    """Takes messages and acknowledges each as ordered; the answer."""
    how = order.get("ack", "individual")
    acknowledge = acks.get(how) if how != "cumulative" else None
    digest = hashlib.sha256()
    numbers: list[int] = []
    first = order.get("every_from")
    missing = set(range(first, first + order["count"])) if first is not None else set()
    while missing if first is not None else len(numbers) < order["count"]:
        message, data = take()
        digest.update(data)
        numbers.append(int(data[:12]))
        missing.discard(numbers[-1])
        if acknowledge is not None:
            acknowledge(consumer, message)
    if how == "cumulative":
        acks["cumulative"](consumer, message)
    return answer_of(numbers, digest.hexdigest())


def answer_of(numbers: list[int], sha256: str) -> dict[str, Any]:
    in_order = all(b == a + 1 for a, b in pairwise(numbers))
    short = numbers if len(numbers) <= 2000 else []
    return {"sha256": sha256, "in_order": in_order, "numbers": short}


def producer_of(order: dict[str, Any]) -> str:
    """Orders of one kind share a producer."""
    return json.dumps([order.get(name) for name in ("topic", "batched", "compression", "chunked")])


def read(file: str) -> str:
    with open(file, encoding="utf-8") as lines:  # noqa: PTH123
        return lines.read().strip()


ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # the client's own logger writes to stdout


def say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), file=ANSWERS, flush=True)


def main() -> None:
    orders = Orders(json.loads(sys.stdin.readline()))
    say({"pid": os.getpid()})
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = getattr(orders, order["do"])(order)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        say(answer)
    with contextlib.suppress(Exception):
        orders.client.close()


if __name__ == "__main__":
    main()
