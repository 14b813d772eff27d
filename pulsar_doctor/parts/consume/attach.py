"""Attaches real consumers of pulsar-client, with a chosen receiver queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.tokens import token_source
from pulsar_doctor.errors import DoctorError, InputError, needing
from pulsar_doctor.parts.consume import producing
from pulsar_doctor.parts.consume.engines import Closed, Message, Plan, is_partitioned

with needing("consume", "attaching consumers"):
    import _pulsar
    import pulsar

TYPES = {
    "exclusive": pulsar.ConsumerType.Exclusive,
    "shared": pulsar.ConsumerType.Shared,
    "failover": pulsar.ConsumerType.Failover,
    "key_shared": pulsar.ConsumerType.KeyShared,
}
OPERATION_SECONDS = 15


class PulsarClient:
    """The engine of pulsar-client."""

    def __init__(self, client: Any) -> None:
        self.client = client  # a pulsar.Client, closed by whoever made it

    def subscribe(self, plan: Plan) -> PulsarConsumer:
        """Raises DoctorError where it is refused."""
        partitions = () if plan.receiver_queue_size else self.partitions_of(plan.topic)
        if is_partitioned(plan.topic, partitions):
            raise zero_queue_on_partitions(plan.topic)
        try:
            consumer = self.client.subscribe(
                plan.topic,
                plan.subscription,
                TYPES[plan.type],
                receiver_queue_size=plan.receiver_queue_size,
                consumer_name=plan.name,
                initial_position=pulsar.InitialPosition.Earliest,
                negative_ack_redelivery_delay_ms=round(plan.nack_delay_seconds * 1000),
                batch_index_ack_enabled=plan.batch_index_acks,
            )
        except _pulsar.PulsarException as error:
            raise refused(error, plan) from error
        return PulsarConsumer(consumer, zero_queue=not plan.receiver_queue_size)

    def partitions_of(self, topic: str) -> list[str]:
        """The names of a topic's partitions; the topic alone where it has none."""
        try:
            return [str(name) for name in self.client.get_topic_partitions(topic)]
        except _pulsar.PulsarException as error:
            raise DoctorError(f"the broker says nothing of {topic}: {error}") from error

    def close(self) -> None:
        """The client is closed by whoever made it."""


class PulsarConsumer:
    """One consumer of pulsar-client. What the library raises on the way is DoctorError."""

    def __init__(self, consumer: Any, *, zero_queue: bool) -> None:
        self._consumer = consumer
        self._zero_queue = zero_queue

    def receive(self, seconds: float | None) -> Message | None:
        """The next message. At a zero queue the library takes no time-out: it waits."""
        if self._zero_queue or seconds is None:
            return _message_of(_call(self._consumer.receive))
        try:
            return _message_of(_call(self._consumer.receive, max(1, round(seconds * 1000))))
        except _pulsar.Timeout:
            return None

    def acknowledge(self, message: Message) -> None:
        _call(self._consumer.acknowledge, message.handle)

    def acknowledge_cumulative(self, message: Message) -> None:
        _call(self._consumer.acknowledge_cumulative, message.handle)

    def negative_acknowledge(self, message: Message) -> None:
        _call(self._consumer.negative_acknowledge, message.handle)

    def close(self) -> None:
        """Ends a waiting receive, which is the only way at a zero queue."""
        _call(self._consumer.close)


def _call(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except _pulsar.AlreadyClosed as error:
        raise Closed from error
    except _pulsar.Timeout:
        raise
    except _pulsar.PulsarException as error:
        raise DoctorError(str(error)) from error


def _message_of(message: Any) -> Message:
    message_id = message.message_id()
    partition, batch_index = message_id.partition(), message_id.batch_index()
    return Message(
        topic=message.topic_name(),
        partition=partition if partition >= 0 else None,
        ledger_id=message_id.ledger_id(),
        entry_id=message_id.entry_id(),
        batch_index=batch_index if batch_index >= 0 else None,
        batch_size=None,
        published_ms=message.publish_timestamp(),
        redelivery_count=message.redelivery_count(),
        handle=message,
    )


@contextmanager
def connected(service_url: str, settings: Settings, log: Path) -> Iterator[Any]:
    """A pulsar.Client that logs to the file `log`."""
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
    name, plugin = settings.auth_name, settings.auth_plugin
    if plugin is None:
        return None
    params = settings.auth_params or ""
    if name == "token":
        read = token_source(params)
        read()  # what cannot be read is reported before anything is requested
        return pulsar.AuthenticationToken(read)
    if name == "basic":
        user, colon, password = params.removeprefix("basic:").partition(":")
        if colon:
            return pulsar.AuthenticationBasic(user, password)
        raise InputError("basic authentication takes --auth-params user:password")
    if name == "oauth2":
        return pulsar.AuthenticationOauth2(params)
    raise InputError(f"authentication {plugin!r} is not supported; token, basic and oauth2 are")


def produce(client: Any, topic: str, messages: int, *, keys: int = 0) -> None:
    """Sends small unbatched messages until the broker has all. keys: how many, in turn; 0: none."""
    producing.send(client, topic, producing.Sending(messages, keys=keys), producing.SentSoFar())


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
        f"({topic}-partition-0), use --receiver-queue-size 1, or --engine wire"
    )
