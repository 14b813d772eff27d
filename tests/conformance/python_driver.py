"""pulsar-client, the Python wrapping of the C++ client, in this process."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Any

import _pulsar
import pulsar

from pulsar_doctor.parts.consume.attach import TYPES
from tests.conformance.driver import RECEIVE_SECONDS, Consumer, Gate, Refused, Taken, Wanted

CRYPTO = {
    "fail": pulsar.ConsumerCryptoFailureAction.FAIL,
    "discard": pulsar.ConsumerCryptoFailureAction.DISCARD,
    "consume": pulsar.ConsumerCryptoFailureAction.CONSUME,
}


class PythonConsumer:
    def __init__(self, consumer: Any, queue: int, gate: Gate) -> None:
        self._consumer = consumer
        self._queue = queue
        self._gate = gate
        self._waiting: Future[Any] | None = None

    def receive(self, count: int = 1, seconds: float = RECEIVE_SECONDS) -> list[Taken]:
        taken: list[Taken] = []
        while len(taken) < count:
            message = self._one(seconds)
            if message is None:
                break
            taken.append(_taken(message))
        return taken

    def _one(self, seconds: float) -> Any:
        if self._queue:
            try:
                return self._consumer.receive(timeout_millis=int(seconds * 1000))
            except _pulsar.Timeout:
                return None
        if self._waiting is None:  # a zero queue can only wait for ever
            self._waiting = Future()
            threading.Thread(target=self._wait, args=(self._waiting,), daemon=True).start()
        try:
            message = self._waiting.result(seconds)
        except NotYet:
            return None
        self._waiting = None
        return message

    def _wait(self, result: Future[Any]) -> None:
        try:
            result.set_result(self._consumer.receive())
        except _pulsar.PulsarException as error:
            result.set_exception(Refused(str(error)))

    def ack(self, taken: list[Taken]) -> None:
        for each in taken:
            self._consumer.acknowledge(each.handle)

    def nack(self, taken: list[Taken]) -> None:
        for each in taken:
            self._consumer.negative_acknowledge(each.handle)

    def seek(self, to: Taken) -> None:
        self._consumer.seek(_id(to))

    def pause(self) -> None:
        self._consumer.pause_message_listener()

    def resume(self) -> None:
        self._consumer.resume_message_listener()

    def let(self, count: int) -> None:
        self._gate.open.release(count)

    def begun(self) -> int:
        return self._gate.begun

    def close(self) -> None:
        self._gate.close()
        with contextlib.suppress(_pulsar.PulsarException):
            self._consumer.close()
        if self._waiting is not None:
            with contextlib.suppress(Refused):
                self._waiting.result(RECEIVE_SECONDS)  # closing it has ended the wait


class PythonReader(PythonConsumer):
    def _one(self, seconds: float) -> Any:
        try:
            return self._consumer.read_next(timeout_millis=int(seconds * 1000))
        except _pulsar.Timeout:
            return None


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


def _taken(message: Any) -> Taken:
    message_id = message.message_id()
    return Taken(message, message_id.ledger_id(), message_id.entry_id(), message_id.batch_index())
