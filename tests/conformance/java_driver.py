"""The Java client of the distribution, in a Java process of its own, driven through py4j."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from tests.conformance.driver import Consumer, Gate, Held, Refused, Taken, Wanted

API = "org.apache.pulsar.client.api"
TYPES = {
    "exclusive": "Exclusive", "shared": "Shared", "failover": "Failover",
    "key_shared": "Key_Shared",
}  # fmt: skip


def missing() -> str | None:
    """Why the Java client cannot be driven here; None where it can."""
    try:
        import py4j.java_gateway  # noqa: F401
    except ImportError:
        return "py4j is not installed; it comes with pyspark"
    return None if py4j_jar() else "py4j has no jar here"


def py4j_jar() -> Path | None:
    """py4j's Java half."""
    with contextlib.suppress(ImportError):
        import pyspark

        for jar in (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"):
            return jar
    from py4j.java_gateway import find_jar_path

    found = Path(find_jar_path())
    return found if found.is_file() else None


class Listener:
    """Called by Java for each message."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def received(self, consumer: Any, message: Any) -> None:
        self._gate.pass_one()
        with contextlib.suppress(Exception):  # the consumer may be closed by now
            consumer.acknowledge(message.getMessageId())

    class Java:
        implements = [f"{API}.MessageListener"]  # noqa: RUF012


class JavaConsumer(Held):
    def __init__(self, java: Java, consumer: Any, queue: int, gate: Gate) -> None:
        super().__init__(consumer, queue, gate)
        self._java = java

    def taken(self, message: Any) -> Taken:
        at = message.getMessageId()
        # Every class that the client gives has these; of a topic's id it is the inner one.
        return Taken(at, at.getLedgerId(), at.getEntryId(), at.getBatchIndex())

    def words(self, error: Exception) -> str:
        return _words(error)

    def next(self, seconds: float) -> Any:
        return self._consumer.receive(int(seconds * 1000), self._java.milliseconds)

    def nack(self, taken: list[Taken]) -> None:
        for each in taken:
            self._consumer.negativeAcknowledge(each.handle)

    def seek(self, to: Taken) -> None:
        self._consumer.seek(to.handle)

    def pause(self) -> None:
        self._consumer.pause()

    def resume(self) -> None:
        self._consumer.resume()


class JavaReader(JavaConsumer):
    def _one(self, seconds: float) -> Any:
        return self._consumer.readNext(int(seconds * 1000), self._java.milliseconds)


class Java:
    """One Java process that holds the client's classes."""

    def __init__(self, home: Path, java_home: Path) -> None:
        from py4j.java_gateway import (
            CallbackServerParameters,
            GatewayParameters,
            JavaGateway,
            launch_gateway,
        )

        port, token = launch_gateway(
            jarpath=str(py4j_jar()),
            classpath=f"{home}/lib/*",
            javaopts=["-Xmx384m", "-Dlog4j2.level=OFF", "-XX:+UseSerialGC", *OPEN],
            java_path=str(java_home / "bin" / "java"),
            die_on_exit=True,
            enable_auth=True,
        )
        self.gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True),
            callback_server_parameters=CallbackServerParameters(
                port=0, daemonize=True, daemonize_connections=True
            ),
        )
        self.jvm = self.gateway.jvm
        self.api = self.jvm.org.apache.pulsar.client.api
        self.milliseconds = self.jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        listening = self.gateway.get_callback_server().get_listening_port()
        server = self.gateway.java_gateway_server
        server.resetCallbackClient(server.getCallbackClient().getAddress(), listening)

    def strings(self, *values: str) -> Any:
        """A String[]."""
        array = self.gateway.new_array(self.jvm.java.lang.String, len(values))
        for at, value in enumerate(values):
            array[at] = value
        return array

    def close(self) -> None:
        self.gateway.shutdown(raise_exception=False)


OPEN = (
    "--add-opens=java.base/sun.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
)


class JavaClient:
    name = "java"
    package = None
    can = frozenset(
        {"listener", "pause", "listener_pause", "start_paused", "auto", "max_total", "zero"}
        | {"crypto", "expire", "reader"}
    )

    def __init__(self, service_url: str, java: Java) -> None:
        self._java = java
        self._client = java.api.PulsarClient.builder().serviceUrl(service_url).build()

    def subscribe(self, wanted: Wanted) -> Consumer:
        api, gate = self._java.api, Gate()
        builder = (
            self._client.newConsumer()
            .topic(self._java.strings(wanted.topic))
            .subscriptionName("s")
            .subscriptionType(getattr(api.SubscriptionType, TYPES[wanted.type]))
            .subscriptionInitialPosition(api.SubscriptionInitialPosition.Earliest)
            .consumerName(wanted.name)
            .receiverQueueSize(wanted.queue)
            .enableBatchIndexAcknowledgment(True)
            .negativeAckRedeliveryDelay(wanted.nack_ms, self._java.milliseconds)
        )
        if wanted.listener:
            builder = builder.messageListener(Listener(gate))
        if wanted.paused:
            builder = builder.startPaused(True)
        if wanted.auto:
            builder = builder.autoScaledReceiverQueueSizeEnabled(True)
        if wanted.max_total is not None:
            builder = builder.maxTotalReceiverQueueSizeAcrossPartitions(wanted.max_total)
        if wanted.crypto:
            action = getattr(api.ConsumerCryptoFailureAction, wanted.crypto.upper())
            builder = builder.cryptoFailureAction(action)
        if wanted.chunks_most is not None:
            builder = builder.maxPendingChunkedMessage(wanted.chunks_most)
        if wanted.expire_chunks_ms is not None:
            builder = builder.expireTimeOfIncompleteChunkedMessage(
                wanted.expire_chunks_ms, self._java.milliseconds
            )
        try:
            consumer = builder.subscribe()
        except Exception as error:
            raise Refused(_words(error)) from error
        return JavaConsumer(self._java, consumer, wanted.queue, gate)

    def reader(self, topic: str, start: Taken, queue: int, *, inclusive: bool = False) -> Consumer:
        builder = self._client.newReader().topic(topic).startMessageId(start.handle)
        if inclusive:
            builder = builder.startMessageIdInclusive()
        return JavaReader(self._java, builder.receiverQueueSize(queue).create(), queue, Gate())

    def at(self, ledger_id: int, entry_id: int, batch_index: int) -> Taken:
        impl = self._java.jvm.org.apache.pulsar.client.impl
        if batch_index < 0:
            written = impl.MessageIdImpl(ledger_id, entry_id, -1)
        else:
            written = impl.BatchMessageIdImpl(ledger_id, entry_id, -1, batch_index)
        return Taken(written, ledger_id, entry_id, batch_index)

    def another(self, service_url: str) -> JavaClient:
        return JavaClient(service_url, self._java)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._client.close()


def _words(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    return str(java.getMessage()) if java is not None else str(error)
