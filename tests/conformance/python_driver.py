"""pulsar-client, the Python wrapping of the C++ client, in this process."""

from __future__ import annotations

import contextlib
from typing import Any

import _pulsar
import pulsar

from pulsar_doctor.parts.consume.attach import TYPES
from tests.conformance.driver import Consumer, Gate, Held, Refused, Taken, Wanted

CRYPTO = {
    "fail": pulsar.ConsumerCryptoFailureAction.FAIL,
    "discard": pulsar.ConsumerCryptoFailureAction.DISCARD,
    "consume": pulsar.ConsumerCryptoFailureAction.CONSUME,
}


class PythonConsumer(Held):
    error = _pulsar.PulsarException

    def taken(self, message: Any) -> Taken:
        at = message.message_id()
        return Taken(message, at.ledger_id(), at.entry_id(), at.batch_index())

    def next(self, seconds: float) -> Any:
        with contextlib.suppress(_pulsar.Timeout):
            return self._consumer.receive(timeout_millis=int(seconds * 1000))

    def nack(self, taken: list[Taken]) -> None:
        for each in taken:
            self._consumer.negative_acknowledge(each.handle)

    def seek(self, to: Taken) -> None:
        self._consumer.seek(_id(to))

    def pause(self) -> None:
        self._consumer.pause_message_listener()

    def resume(self) -> None:
        self._consumer.resume_message_listener()


class PythonReader(PythonConsumer):
    def _one(self, seconds: float) -> Any:
        with contextlib.suppress(_pulsar.Timeout):
            return self._consumer.read_next(timeout_millis=int(seconds * 1000))


class PythonClient:
    name = "python"
    package = f"pulsar-client {pulsar.__version__}"
    can = frozenset({"listener", "listener_pause", "max_total", "zero", "crypto", "reader"})

    def __init__(self, service_url: str) -> None:
        quiet = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
        self._client = pulsar.Client(service_url, logger=quiet, message_listener_threads=4)

    def subscribe(self, wanted: Wanted) -> Consumer:
        more: dict[str, Any] = {}
        gate = Gate()
        if wanted.listener:

            def listener(consumer: Any, message: Any) -> None:
                gate.pass_one()
                with contextlib.suppress(_pulsar.PulsarException):
                    consumer.acknowledge(message)

            more["message_listener"] = listener
        if wanted.max_total is not None:
            more["max_total_receiver_queue_size_across_partitions"] = wanted.max_total
        if wanted.crypto:
            more["crypto_failure_action"] = CRYPTO[wanted.crypto]
        if wanted.chunks_most is not None:
            more["max_pending_chunked_message"] = wanted.chunks_most
        try:
            consumer = self._client.subscribe(
                wanted.topic,
                "s",
                TYPES[wanted.type],
                receiver_queue_size=wanted.queue,
                consumer_name=wanted.name,
                initial_position=pulsar.InitialPosition.Earliest,
                batch_index_ack_enabled=True,
                negative_ack_redelivery_delay_ms=wanted.nack_ms,
                **more,
            )
        except _pulsar.PulsarException as error:
            raise Refused(str(error)) from error
        return PythonConsumer(consumer, wanted.queue, gate)

    def reader(self, topic: str, start: Taken, queue: int, *, inclusive: bool = False) -> Consumer:
        reader = self._client.create_reader(
            topic, _id(start), receiver_queue_size=queue, start_message_id_inclusive=inclusive
        )
        return PythonReader(reader, queue, Gate())

    def at(self, ledger_id: int, entry_id: int, batch_index: int) -> Taken:
        written = pulsar.MessageId(-1, ledger_id, entry_id, batch_index)
        return Taken(written, ledger_id, entry_id, batch_index)

    def another(self, service_url: str) -> PythonClient:
        return PythonClient(service_url)

    def close(self) -> None:
        self._client.close()


def _id(taken: Taken) -> Any:
    handle = taken.handle
    return handle if isinstance(handle, pulsar.MessageId) else handle.message_id()
