"""Many Python clients in one process: how many messages all their consumers took, and twice."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter

import pulsar


def main() -> None:
    """Arguments: service URL, topics (joined by commas), clients, consumers of each client.

    Says `ready` when all have subscribed; each line of stdin is a number of messages to wait for.
    """
    url, topics, clients, consumers = sys.argv[1], sys.argv[2].split(","), *map(int, sys.argv[3:5])
    taken: Counter[str] = Counter()
    news = threading.Condition()

    def take(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        consumer.acknowledge(message)
        with news:
            taken[f"{message.topic_name()} {message.data().decode()}"] += 1
            news.notify()

    quiet = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/stderr")
    crowd = [pulsar.Client(url, io_threads=1, logger=quiet) for _ in range(clients)]
    for number in range(clients * consumers):
        crowd[number % clients].subscribe(
            topics[number % len(topics)],
            "crowd",
            pulsar.ConsumerType.Shared,
            receiver_queue_size=10,
            consumer_name=f"c{number}",
            message_listener=take,
        )
    print("ready", flush=True)
    for line in sys.stdin:
        with news:
            news.wait_for(lambda: len(taken) >= int(line), timeout=120)  # noqa: B023
            answer = {"messages": len(taken), "twice": sum(taken.values()) - len(taken)}
        print(json.dumps(answer), flush=True)
    for client in crowd:
        client.close()


if __name__ == "__main__":
    main()
