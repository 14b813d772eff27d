"""Python clients of every habit: one that stays, and others that come and go under new names."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import uuid
from collections import Counter

import pulsar

QUIET = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
PAUSE_SECONDS = 0.005  # between two messages
AWAY_SECONDS = 0.25
SHARED = pulsar.ConsumerType.Shared


def produce(url: str, topic: str, over: threading.Event, done: Counter[str]) -> None:
    """A few hundred messages a second."""
    producer = pulsar.Client(url, logger=QUIET).create_producer(topic, batching_enabled=False)
    while not over.wait(PAUSE_SECONDS):
        producer.send(uuid.uuid4().bytes)
        done["sent"] += 1


def stay(url: str, topic: str, over: threading.Event, done: Counter[str]) -> None:
    """Takes all, and every hundredth twice."""
    consumer = pulsar.Client(url, logger=QUIET).subscribe(
        topic, "stays", SHARED, receiver_queue_size=100, negative_ack_redelivery_delay_ms=1000
    )
    while not over.is_set():
        try:
            message = consumer.receive(timeout_millis=1000)
        except pulsar.Timeout:
            continue
        done["taken"] += 1
        if done["taken"] % 100 or message.redelivery_count():
            consumer.acknowledge(message)
        else:
            consumer.negative_acknowledge(message)


def come_and_go(url: str, topic: str, over: threading.Event, done: Counter[str]) -> None:
    """A connection, a consumer and a producer, each under a name that nobody had before."""
    while not over.wait(AWAY_SECONDS):
        client = pulsar.Client(url, logger=QUIET)
        consumer = client.subscribe(topic, "goes", SHARED, consumer_name=uuid.uuid4().hex)
        producer = client.create_producer(f"{topic}-other", producer_name=uuid.uuid4().hex)
        producer.send(b"hello")
        with contextlib.suppress(pulsar.Timeout):
            consumer.acknowledge(consumer.receive(timeout_millis=1000))
        client.close()
        done["came and went"] += 1


def main() -> None:
    """Arguments: service URL, topic. Until the end of stdin; then says what it did."""
    over, done = threading.Event(), Counter[str]()
    url, topic = sys.argv[1:3]
    doing = [
        threading.Thread(target=habit, args=(url, topic, over, done))
        for habit in (produce, stay, come_and_go)
    ]
    for thread in doing:
        thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    over.set()
    for thread in doing:
        thread.join()
    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
