"""Attaches real consumers (pulsar-client) with a chosen receiver queue and works on what they get.

A worker takes a message, tells so, works for the time it was given, acknowledges. It stops between
two messages or in the middle of its work, never in the middle of a call: closing the consumer ends
a waiting receive (pulsar-client raises AlreadyClosed), which is the only way at a zero queue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pulsar_doctor.consuming import Plan
from pulsar_doctor.credentials import token_source
from pulsar_doctor.errors import DoctorError, InputError, MissingExtra
from pulsar_doctor.settings import Settings

try:
    import _pulsar
    import pulsar
except ImportError as error:
    raise MissingExtra("consume", "attaching consumers") from error

TYPES = {
    "exclusive": pulsar.ConsumerType.Exclusive,
    "shared": pulsar.ConsumerType.Shared,
    "failover": pulsar.ConsumerType.Failover,
    "key_shared": pulsar.ConsumerType.KeyShared,
}
OPERATION_SECONDS = 15
RECEIVE_MILLISECONDS = 200  # how long a worker waits before it looks whether it shall stop


class Budget:
    """How many messages the workers may still take together; None is no limit."""

    def __init__(self, messages: int | None) -> None:
        self._left = messages
        self._lock = threading.Lock()

    def spend(self) -> bool:
        """Takes one; False where none is left."""
        with self._lock:
            if self._left is None:
                return True
            self._left -= 1
            return self._left >= 0

    @property
    def spent(self) -> bool:
        """Whether none is left."""
        return self._left is not None and self._left <= 0

    @property
    def missing(self) -> int:
        """Messages that were asked for and have not come."""
        return max(0, self._left or 0)


class Worker:
    """One consumer with a thread of its own.

    taken: called with the message, right after it was received. batch: called at a zero queue for
    a message out of a batch; False stops the worker before it works on the message.
    """

    def __init__(
        self,
        plan: Plan,
        budget: Budget,
        *,
        taken: Callable[[Plan, Any], None],
        batch: Callable[[Plan], bool],
    ) -> None:
        self.plan = plan
        self.error: DoctorError | None = None
        self.acknowledged = 0  # messages that it has acknowledged
        self._budget = budget
        self._taken = taken
        self._batch = batch
        self._stop = threading.Event()
        self._consumer: Any = None
        self._thread = threading.Thread(target=self._run, name=plan.name, daemon=True)

    def start(self, client: Any) -> None:
        """Subscribes, then works in the background. Raises DoctorError where it is refused."""
        plan = self.plan
        try:
            self._consumer = client.subscribe(
                plan.topic,
                plan.subscription,
                TYPES[plan.type],
                receiver_queue_size=plan.receiver_queue_size,
                consumer_name=plan.name,
                initial_position=pulsar.InitialPosition.Earliest,
            )
        except _pulsar.PulsarException as error:
            raise refused(error, plan) from error
        self._thread.start()

    @property
    def working(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    def stop(self, *, unsubscribe: bool = False) -> None:
        """Ends its work and closes the consumer; what it did not acknowledge goes back.

        unsubscribe: removes the subscription too, for a topic that nobody else knows.
        """
        self._stop.set()
        if self._consumer is not None:
            try:
                if unsubscribe:
                    self._consumer.unsubscribe()
                self._consumer.close()
            except _pulsar.PulsarException as error:
                self.error = self.error or DoctorError(f"{self.plan.name} did not close: {error}")
        if self._thread.ident is not None:
            self._thread.join(OPERATION_SECONDS)

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and not self._budget.spent:
                if not self._one():
                    return
        except _pulsar.AlreadyClosed:
            return
        except Exception as error:
            self.error = DoctorError(f"{self.plan.name} stopped receiving: {error}")

    def _one(self) -> bool:
        """Takes and works on one message; False where the worker is to end."""
        message = self._receive()
        if message is None:
            return True
        self._taken(self.plan, message)
        in_batch = message.message_id().batch_index() >= 0
        if in_batch and not self.plan.receiver_queue_size and not self._batch(self.plan):
            return False
        if self.plan.receiver_queue_size and not self._budget.spend():
            return False
        if self._stop.wait(self.plan.process_seconds or 0):
            return False
        self._acknowledge(message)
        return True

    def _receive(self) -> Any:
        if self.plan.receiver_queue_size:
            try:
                return self._consumer.receive(timeout_millis=RECEIVE_MILLISECONDS)
            except _pulsar.Timeout:
                return None
        # Each receive asks the broker for one message: ask for no more than may be taken.
        if not self._budget.spend():
            self._stop.set()
            return None
        return self._consumer.receive()

    def _acknowledge(self, message: Any) -> None:
        if self.plan.ack == "none":
            return
        if self.plan.ack == "individual":
            self._consumer.acknowledge(message)
        else:
            self._consumer.acknowledge_cumulative(message)
        self.acknowledged += 1


@contextmanager
def connected(service_url: str, settings: Settings, log: Path) -> Iterator[Any]:
    """A pulsar.Client; its own log goes to the file `log`, so that stdout stays clean."""
    client = pulsar.Client(
        service_url,
        authentication=authentication(settings),
        operation_timeout_seconds=OPERATION_SECONDS,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(log)),
    )
    try:
        yield client
    finally:
        try:
            client.close()
        except _pulsar.PulsarException:
            client.shutdown()


def authentication(settings: Settings) -> Any:
    """The credentials in pulsar-client's terms; None where there are none.

    auth_plugin: a short name or a Java class name. Raises InputError where it is not supported.
    """
    plugin = settings.auth_plugin
    if plugin is None:
        return None
    name = plugin.rpartition(".")[2].lower().removeprefix("authentication")
    params = settings.auth_params or ""
    if name == "token":
        read = token_source(params)
        read()  # what cannot be read is told before anything is asked
        return pulsar.AuthenticationToken(read)
    if name == "basic":
        user, colon, password = params.removeprefix("basic:").partition(":")
        if colon:
            return pulsar.AuthenticationBasic(user, password)
        raise InputError("basic authentication takes --auth-params user:password")
    if name == "oauth2":
        return pulsar.AuthenticationOauth2(params)
    raise InputError(f"authentication {plugin!r} is not supported; token, basic and oauth2 are")


def partitions_of(client: Any, topic: str) -> list[str]:
    """The names of a topic's partitions; the topic alone where it has none."""
    try:
        return [str(name) for name in client.get_topic_partitions(topic)]
    except _pulsar.PulsarException as error:
        raise DoctorError(f"the broker says nothing of {topic}: {error}") from error


def produce(client: Any, topic: str, messages: int) -> None:
    """Sends so many small single messages, unbatched, and waits until the broker has them all."""
    failed: list[Any] = []

    def sent(result: Any, _: Any) -> None:
        if result != pulsar.Result.Ok:
            failed.append(result)

    try:
        producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
        for number in range(messages):
            producer.send_async(b"message %d" % number, sent)
        producer.flush()
        producer.close()
    except _pulsar.PulsarException as error:
        raise DoctorError(f"cannot send messages to {topic}: {error}") from error
    if failed:
        raise DoctorError(f"{len(failed)} of {messages} messages to {topic} failed: {failed[0]}")


def refused(error: Exception, plan: Plan) -> DoctorError:
    """What the library or the broker refused, as a sentence that says what to do."""
    what = f"{plan.subscription} on {plan.topic}"
    if isinstance(error, _pulsar.ConsumerBusy):
        return DoctorError(f"{what} has an exclusive consumer already: close it, or use --type")
    if isinstance(error, _pulsar.Timeout | _pulsar.ConnectError):
        return DoctorError(f"the broker did not answer while subscribing {what}: {error}")
    if isinstance(error, _pulsar.AuthenticationError | _pulsar.AuthorizationError):
        return DoctorError(f"the broker refuses access to {what}: {error}; see --auth-plugin")
    if isinstance(error, _pulsar.TopicNotFound):
        return DoctorError(f"there is no topic {plan.topic}, and the broker does not create it")
    if isinstance(error, _pulsar.InvalidConfiguration) and not plan.receiver_queue_size:
        return zero_queue_on_partitions(plan.topic)
    return DoctorError(f"cannot subscribe {what}: {error}")


def zero_queue_on_partitions(topic: str) -> InputError:
    """pulsar-client refuses a zero queue on a partitioned topic (InvalidConfiguration)."""
    return InputError(
        f"{topic} is partitioned, and pulsar-client refuses a zero queue there: a permit granted "
        "to an empty partition could not be taken back. Attach to one partition "
        f"({topic}-partition-0), or use --receiver-queue-size 1"
    )
