"""One topic of a real broker with the clients that bring it into a state and hold it there.

A scene has a topic, a subscription and a client of its own, so that many scenes stand on one broker
at the same time. What is busy goes on in threads until the scene is closed. A scene waits for what
the broker's stats say, never for a time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import _pulsar
import httpx2
import pulsar

from pulsar_doctor.parts.consume.attach import TYPES
from tests.support import eventually

SUBSCRIPTION = "s"
TICK_SECONDS = 0.02  # as often at most a producer sends what is due
RECEIVE_MILLISECONDS = 200
LOOK_EVERY_SECONDS = 0.3
PATIENCE_SECONDS = 120  # a machine may be busy; nothing waits longer than it has to
JOIN_SECONDS = 20
TIME_STAMPS = ("lastConsumedTimestamp", "lastAckedTimestamp", "lastConsumedFlowTimestamp")


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer of the broker. date_ms: the broker's clock, epoch milliseconds, whole seconds."""

    date_ms: int
    document: dict[str, Any]


@dataclass(slots=True)
class Scene:
    """What a scenario plays with. Changes in place: consumers and threads come in as it plays."""

    service_url: str
    admin: httpx2.Client
    topic: str
    client: Any = None
    subscription: str = SUBSCRIPTION
    kept: dict[str, Any] = field(default_factory=dict)  # consumers by name, for `during`
    stack: ExitStack = field(default_factory=ExitStack)
    closing: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)
    seeking: list[threading.Thread] = field(default_factory=list)
    without_queue: list[Any] = field(default_factory=list)

    # What the broker says.

    @property
    def path(self) -> str:
        """The topic's place in the REST API."""
        namespace, _, local = self.topic.removeprefix("persistent://").rpartition("/")
        return f"/admin/v2/persistent/{namespace}/{quote(local, safe='')}"

    def read(self, what: str = "stats") -> Reading:
        """`stats` or `internalStats`, as the broker answers now."""
        answer = self.admin.get(f"{self.path}/{what}")
        answer.raise_for_status()
        date = parsedate_to_datetime(answer.headers["Date"])
        return Reading(int(date.timestamp() * 1000), answer.json())

    def stats(self) -> dict[str, Any]:
        """The stats of the subscription; an empty one where the broker does not list it."""
        subscriptions = self.read().document["subscriptions"]
        return subscriptions.get(self.subscription) or {"consumers": [], "msgBacklog": 0}

    def consumer(self, name: str) -> dict[str, Any]:
        """The stats of one consumer; empty where the broker does not list it."""
        found = [each for each in self.stats()["consumers"] if each["consumerName"] == name]
        return found[0] if found else {}

    def until(self, true: Callable[[], Any], timeout: float = PATIENCE_SECONDS) -> None:
        """Waits until it holds; else the scenario has failed."""

        def look() -> bool:
            # Many scenes wait at the same time: together they must not keep the broker busy.
            return bool(true()) or self.closing.wait(LOOK_EVERY_SECONDS)

        try:
            eventually(look, timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}; the broker says {self.stats()}") from None

    def until_quiet(self, seconds: float = 6, *, name: str | None = None) -> None:
        """Waits until no message, ack or FLOW of the consumers (or of one) is younger than that."""

        def quiet() -> bool:
            reading = self.read()
            consumers = reading.document["subscriptions"][self.subscription]["consumers"]
            named = [each for each in consumers if name in (None, each["consumerName"])]
            last = max((each[stamp] for each in named for stamp in TIME_STAMPS), default=0)
            return reading.date_ms - last >= seconds * 1000

        self.until(quiet)

    # What the scenario does.

    def consume(self, name: str, kind: str = "shared", queue: int = 10, **settings: Any) -> Any:
        """Subscribes a consumer of that name with that queue; it takes nothing by itself."""
        settings.setdefault("initial_position", pulsar.InitialPosition.Earliest)
        consumer = self.client.subscribe(
            self.topic,
            self.subscription,
            TYPES[kind],
            receiver_queue_size=queue,
            consumer_name=name,
            **settings,
        )
        self.kept[name] = consumer
        if queue == 0:
            self.without_queue.append(consumer)
        return consumer

    def begin(self, kind: str = "shared") -> None:
        """Makes the topic and the durable subscription; nobody stays attached."""
        self.consume("first", kind).close()

    def on_a_partition(self) -> None:
        """Goes on with partition 0 of a topic of one partition.

        There the active consumer of a Failover subscription is the first by name (of equal names
        the older one); on a topic without partitions a hash decides.
        """
        self.admin.put(f"{self.path}/partitions", json=1).raise_for_status()
        self.topic += "-partition-0"

    def producer(self, batch: int = 1) -> Any:
        """A producer of single messages, or of batches of exactly so many."""
        settings: dict[str, Any] = {"batching_enabled": False}
        if batch > 1:
            settings = {
                "batching_enabled": True,
                "batching_max_messages": batch,
                "batching_max_publish_delay_ms": 5000,
            }
        return self.client.create_producer(self.topic, block_if_queue_full=True, **settings)

    def produce(
        self, messages: int, batch: int = 1, *, keys: Sequence[str] = (), **more: Any
    ) -> None:
        """Sends them and waits until the broker has them all; keys take turns."""
        producer, failed = self.producer(batch), []

        def sent(result: Any, _: Any) -> None:
            if result != pulsar.Result.Ok:
                failed.append(result)

        for number in range(messages):
            key = keys[number % len(keys)] if keys else None
            producer.send_async(b"message %d" % number, sent, partition_key=key, **more)
        producer.flush()
        producer.close()
        assert not failed, f"{len(failed)} messages were not sent: {failed[0]}"

    def produce_on(self, per_second: float, batch: int = 1, *, keys: Sequence[str] = ()) -> None:
        """Goes on sending at that rate in the background."""
        producer, pause = self.producer(batch), max(TICK_SECONDS, 1 / per_second)

        def run() -> None:
            began, number = time.monotonic(), 0
            while not self.closing.wait(TICK_SECONDS if number == 0 else pause):
                while number < (time.monotonic() - began) * per_second:
                    key = keys[number % len(keys)] if keys else None
                    producer.send_async(b"busy", lambda result, message_id: None, partition_key=key)
                    number += 1

        self.background(run)

    def take(self, consumer: Any, messages: int) -> list[Any]:
        """Takes so many messages and acknowledges none."""
        return [consumer.receive(timeout_millis=PATIENCE_SECONDS * 1000) for _ in range(messages)]

    def work(
        self, consumer: Any, seconds: float = 0, act: Callable[..., None] | None = None
    ) -> None:
        """Takes messages on and on in the background, so many seconds for each; then acknowledges.

        act: called with the consumer and the message instead of acknowledging.
        """

        def run() -> None:
            for message in self.messages(consumer):
                if seconds and self.closing.wait(seconds):
                    return
                (act or acknowledge)(consumer, message)

        self.background(run)

    def messages(self, consumer: Any) -> Iterator[Any]:
        """What the consumer receives until the scene closes."""
        while not self.closing.is_set():
            try:
                yield consumer.receive(timeout_millis=RECEIVE_MILLISECONDS)
            except _pulsar.Timeout:
                continue

    def background(self, run: Callable[[], None]) -> threading.Thread:
        """Runs it in a thread; closing the consumers ends it, whatever it waits for but a seek."""

        def guarded() -> None:
            try:
                run()
            except _pulsar.AlreadyClosed:  # by the end of the scene, or in the window
                return
            except _pulsar.PulsarException:
                if not self.closing.is_set():
                    raise

        thread = threading.Thread(target=guarded, name=self.topic.rpartition("/")[2], daemon=True)
        thread.start()
        self.threads.append(thread)
        return thread

    def end_waiting(self) -> None:
        """Waits for seeks, and closes consumers without a queue: nobody waits in their receive().

        A client that is closed under such a wait may forget to end it (seen, pulsar-client 3.13).
        """
        for thread in self.seeking:
            thread.join(JOIN_SECONDS)
        for consumer in self.without_queue:
            with suppress(_pulsar.PulsarException):
                consumer.close()
        if self.without_queue:
            self.join()

    def join(self) -> None:
        """Waits for the threads: pulsar-client does not bear that Python ends before they do."""
        for thread in self.threads:
            thread.join(JOIN_SECONDS)

    def policy(self, name: str, value: Any) -> None:
        """Sets a policy of the topic, which must exist, and waits until the broker tells it."""

        def set_and_seen() -> bool:
            answer = self.admin.post(f"{self.path}/{name}", json=value)
            answer.raise_for_status()
            told = self.admin.get(f"{self.path}/{name}")
            return bool(told.content) and told.json() is not None

        eventually(set_and_seen, PATIENCE_SECONDS)

    def unload(self) -> None:
        """The broker closes the topic and its consumers, who come back by themselves."""
        self.admin.put(f"{self.path}/unload").raise_for_status()


def acknowledge(consumer: Any, message: Any) -> None:
    """What a worker does with a message when it is done."""
    consumer.acknowledge(message)


@contextmanager
def scene(service_url: str, admin_url: str, topic: str) -> Iterator[Scene]:
    """An empty scene; closes its threads, consumers and processes at the end."""
    with ExitStack() as stack:
        admin = stack.enter_context(
            httpx2.Client(base_url=admin_url, timeout=PATIENCE_SECONDS, trust_env=False)
        )
        # Closing busy clients makes it complain; nobody reads that here.
        quiet = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
        client = pulsar.Client(
            service_url, logger=quiet, operation_timeout_seconds=PATIENCE_SECONDS
        )
        opened = Scene(service_url, admin, topic, client, stack=stack)
        stack.callback(opened.join)
        stack.callback(client.close)
        stack.callback(opened.end_waiting)
        stack.callback(opened.closing.set)
        yield opened
