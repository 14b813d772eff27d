"""A client that takes three messages, says so, and does nothing more; to be stopped by a signal."""

from __future__ import annotations

import os
import sys
import time

import pulsar

from pulsar_doctor.parts.consume.attach import TYPES


def main(service_url: str, topic: str, kind: str) -> None:
    """Subscribes as `billing` with a queue of 10 and holds on."""
    quiet = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    client = pulsar.Client(service_url, logger=quiet)
    consumer = client.subscribe(
        topic, "s", TYPES[kind], receiver_queue_size=10, consumer_name="billing"
    )
    for _ in range(3):
        consumer.receive(timeout_millis=60_000)
    print("holding", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
