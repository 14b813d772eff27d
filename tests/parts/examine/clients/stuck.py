"""A Python worker that takes three messages and then works on the third for good.

Arguments: service URL, topic, and how: `receive`, `listener`, `shared` (a second consumer on
TOPIC-other has its listener called by the same thread) or `pool` (it goes on receiving, and two
threads of a pool work).
"""

import concurrent.futures
import sys
import threading
import time

import pulsar

QUIET = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
taken = threading.Semaphore(0)


def charge() -> None:
    time.sleep(3600)


def received(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
    taken.release()
    charge()


def main() -> None:
    url, topic, how = sys.argv[1:]
    client = pulsar.Client(url, logger=QUIET)
    listener = received if how in ("listener", "shared") else None
    consumer = client.subscribe(
        topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=10, consumer_name="worker",
        message_listener=listener, initial_position=pulsar.InitialPosition.Earliest,
    )  # fmt: skip
    if how == "pool":
        pool = concurrent.futures.ThreadPoolExecutor(2)
        print("ready", flush=True)
        while True:
            consumer.receive()
            pool.submit(charge)
    if listener:
        taken.acquire()
        if how == "shared":
            client.subscribe(
                f"{topic}-other", "s", pulsar.ConsumerType.Shared, receiver_queue_size=10,
                consumer_name="other", message_listener=listener,
                initial_position=pulsar.InitialPosition.Earliest,
            )  # fmt: skip
        print("ready", flush=True)
        threading.Event().wait()
    for _ in range(3):
        consumer.receive()
    print("ready", flush=True)
    charge()


main()
