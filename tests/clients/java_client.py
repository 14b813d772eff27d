"""The Java client of the distribution under orders, through py4j; see clients/__init__.py."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from payloads import payload
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from python_client import producer_of, received, say

MEMORY = ["-Xms64m", "-Xmx384m", "-XX:MaxDirectMemorySize=512m"]
MEMORY += ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]  # it lives for seconds

ACKS: dict[str, Callable[[Any, Any], None]] = {
    "individual": lambda consumer, message: consumer.acknowledge(message),
    "nack": lambda consumer, message: consumer.negativeAcknowledge(message),
    "cumulative": lambda consumer, message: consumer.acknowledgeCumulative(message),
}


class Orders:
    """What it is told, done with the client."""

    def __init__(self, hello: dict[str, Any], jvm: Any) -> None:
        self.jvm = jvm
        api = jvm.org.apache.pulsar.client.api
        self.api = api
        builder = api.PulsarClient.builder().serviceUrl(hello["service_url"])
        if hello.get("transactions"):
            builder = builder.enableTransaction(True)
        if token_file := hello.get("token_file"):
            token = jvm.org.apache.pulsar.client.impl.auth.AuthenticationToken()
            token.configure(f"file://{token_file}")
            builder = builder.authentication(token)
        if trust := hello.get("trust"):
            builder = builder.tlsTrustCertsFilePath(trust).enableTlsHostnameVerification(True)
        self.client = builder.build()
        self.consumers: dict[str, Any] = {}
        self.producers: dict[str, Any] = {}
        self.open: list[Any] = []  # transactions that stay open

    def subscribe(self, order: dict[str, Any]) -> dict[str, Any]:
        seconds = self.jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        self.consumers[order["name"]] = (
            self.client.newConsumer()
            .topics(self.jvm.java.util.Collections.singletonList(order["topic"]))
            .subscriptionName(order["subscription"])
            .subscriptionType(self.api.SubscriptionType.valueOf(order.get("type", "Exclusive")))
            .receiverQueueSize(order.get("queue", 1000))
            .consumerName(order["name"])
            .negativeAckRedeliveryDelay(200, seconds)
            .subscriptionInitialPosition(self.api.SubscriptionInitialPosition.Earliest)
            .subscribe()
        )
        return {}

    def produce(self, order: dict[str, Any]) -> dict[str, Any]:
        key = producer_of(order)
        if key not in self.producers:
            milliseconds = self.jvm.java.util.concurrent.TimeUnit.MILLISECONDS
            compression = self.api.CompressionType.valueOf(order.get("compression", "NONE"))
            self.producers[key] = (
                self.client.newProducer()
                .topic(order["topic"])
                .compressionType(compression)
                .enableBatching(order.get("batched", False))
                .batchingMaxPublishDelay(20, milliseconds)
                .batchingMaxMessages(order.get("batch", 1000))
                .enableChunking(order.get("chunked", False))
                .blockIfQueueFull(True)
                .maxPendingMessages(20 if order["bytes"] > 10_000 else 1000)
                .create()
            )
        producer = self.producers[key]
        digest = hashlib.sha256()
        for number in range(order["first"], order["first"] + order["count"]):
            data = payload(number, order["bytes"])
            digest.update(data)
            last = producer.sendAsync(data)
        producer.flush()
        last.get()  # raises what went wrong
        return {"sha256": digest.hexdigest()}

    def receive(self, order: dict[str, Any]) -> dict[str, Any]:
        consumer = self.consumers[order["name"]]
        milliseconds = self.jvm.java.util.concurrent.TimeUnit.MILLISECONDS

        def take() -> tuple[Any, bytes]:
            message = consumer.receive(order.get("timeout_ms", 15_000), milliseconds)
            if message is None:
                raise TimeoutError("no message")
            return message, message.getData()

        answer: dict[str, Any] = received(order, take, ACKS, consumer)
        return answer

    def transact(self, order: dict[str, Any]) -> dict[str, Any]:
        units, seconds = self.jvm.java.util.concurrent.TimeUnit, order.get("seconds", 1800)
        building = self.client.newTransaction().withTransactionTimeout(seconds, units.SECONDS)
        transaction = building.build().get()
        if "topic" in order:
            self._send(order, transaction)
        if "name" in order:
            self._acknowledge(order, transaction)
        if order["commit"] is None:
            self.open.append(transaction)
        else:
            (transaction.commit() if order["commit"] else transaction.abort()).get()
        return {}

    def _send(self, order: dict[str, Any], transaction: Any) -> None:
        seconds = self.jvm.java.util.concurrent.TimeUnit.SECONDS
        building = self.client.newProducer().topic(order["topic"]).enableBatching(False)
        producer = building.sendTimeout(0, seconds).create()
        for number in range(order["count"]):
            producer.newMessage(transaction).value(payload(number, 100)).sendAsync().get()

    def _acknowledge(self, order: dict[str, Any], transaction: Any) -> None:
        consumer = self.consumers[order["name"]]
        milliseconds = self.jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        for _ in range(order["count"]):
            message = consumer.receive(15_000, milliseconds)
            consumer.acknowledgeAsync(message.getMessageId(), transaction).get()

    def forget(self, order: dict[str, Any]) -> dict[str, Any]:
        self.open.clear()
        return {}

    def end(self, order: dict[str, Any]) -> dict[str, Any]:
        for transaction in self.open:
            (transaction.commit() if order["commit"] else transaction.abort()).get()
        self.open.clear()
        return {}

    def leave(self, order: dict[str, Any]) -> dict[str, Any]:
        self.consumers.pop(order["name"]).close()
        return {}

    def seek(self, order: dict[str, Any]) -> dict[str, Any]:
        self.consumers[order["name"]].seek(self.api.MessageId.earliest)
        return {}

    def close(self, order: dict[str, Any]) -> dict[str, Any]:
        self.client.close()
        return {}


def main() -> None:
    home = os.environ["PULSAR_HOME"]
    with tempfile.TemporaryDirectory() as folder:
        options = [
            *MEMORY,
            f"-Dlog4j.configurationFile={home}/conf/log4j2.yaml",
            "-Dpulsar.log.appender=Console",
            "-Dpulsar.log.level=warn",
            "-Dpulsar.log.root.level=warn",
            f"-Dpulsar.log.dir={folder}",
            f"-Djava.io.tmpdir={folder}",
            "-XX:-UsePerfData",
            "-Dio.netty.tryReflectionSetAccessible=true",
            "--add-opens=java.base/java.nio=ALL-UNNAMED",
            "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
        ]
        port, secret = launch_gateway(
            classpath=os.pathsep.join(glob.glob(f"{home}/lib/*.jar")),  # noqa: PTH207
            javaopts=options,
            die_on_exit=True,
            redirect_stdout=sys.stderr,
            redirect_stderr=sys.stderr,
            java_path=f"{os.environ['JAVA_HOME']}/bin/java",
            enable_auth=True,
        )
        gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=secret, auto_convert=True)
        )
        try:
            obey(gateway.jvm)
        finally:
            with contextlib.suppress(Exception):
                gateway.shutdown()


def obey(jvm: Any) -> None:
    orders = Orders(json.loads(sys.stdin.readline()), jvm)
    say({"pid": jvm.java.lang.ProcessHandle.current().pid()})
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = getattr(orders, order["do"])(order)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        say(answer)


if __name__ == "__main__":
    main()
