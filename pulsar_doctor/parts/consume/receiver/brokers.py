"""Finds the broker of a topic (partitions, lookups, redirects), and keeps connections."""

from __future__ import annotations

import asyncio
from typing import Any

from pulsar_doctor.parts.consume.receiver.connection import WireConnection, dialled
from pulsar_doctor.parts.consume.receiver.door import Door
from pulsar_doctor.parts.consume.receiver.refusals import Lost
from pulsar_doctor.parts.tap.relay.addresses import Address
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.commands import CODES

REDIRECTS_MOST = 20
REDIRECT = 0  # CommandLookupTopicResponse.LookupType
PARTITIONS_MOST = 100_000

BrokerRoute = tuple[Address, Address | None]  # whom we dial, whom a proxy shall connect us with


class Brokers:
    """The connections of one engine, one for each broker."""

    def __init__(self, door: Door, patience_seconds: float) -> None:
        self.patience_seconds = patience_seconds  # with what is lost
        self._door = door
        self._kept: dict[BrokerRoute, WireConnection] = {}
        self._lock = asyncio.Lock()

    async def partitions(self, topic: str) -> int:
        """How many the topic has; 0: it is not partitioned. Raises Lost, Refused, DoctorError."""

        def question(number: int) -> Any:
            request = wire.PartitionedMetadata(topic=topic, request_id=number)
            return wire.BaseCommand(
                type=CODES["PARTITIONED_METADATA"], partitioned_metadata=request
            )

        answer = await (await self._service()).request(question)
        if answer.partitions > PARTITIONS_MOST:
            raise Lost(f"the broker tells of {answer.partitions} partitions")
        return int(answer.partitions)

    async def of(self, topic: str) -> WireConnection:
        """The connection to the broker that has the topic. Raises Lost, Refused, DoctorError."""
        connection = await self._service()
        authoritative = False
        for _ in range(REDIRECTS_MOST):

            def question(number: int, authoritative: bool = authoritative) -> Any:
                lookup = wire.Lookup(topic=topic, request_id=number, authoritative=authoritative)
                return wire.BaseCommand(type=CODES["LOOKUP"], lookup=lookup)

            answer = await connection.request(question)
            url = answer.broker_service_url_tls if self._door.tls else answer.broker_service_url
            broker = self._door.address_of(url)
            if broker is None:
                raise Lost(
                    f"{connection.where} names no broker {'with TLS ' * self._door.tls}for it"
                )
            if answer.response == REDIRECT:
                connection = await self._connection((broker, None))
                authoritative = answer.authoritative
            elif answer.proxy_through_service_url:
                return await self._through_service(broker)
            else:
                return await self._connection((broker, None))
        raise Lost(f"its brokers send us on and on; the last was {connection.where}")

    async def close(self) -> None:
        """Ends all connections."""
        for connection in self._kept.values():
            await connection.close()

    async def _service(self) -> WireConnection:
        return await self._through_service(None)

    async def _through_service(self, proxy_to: Address | None) -> WireConnection:
        """Through the first address of the service URL that answers."""
        failed = []
        for address in self._door.addresses:
            try:
                return await self._connection((address, proxy_to))
            except Lost as error:
                failed.append(str(error))
        raise Lost("; ".join(failed))

    async def _connection(self, place: BrokerRoute) -> WireConnection:
        async with self._lock:
            known = self._kept.get(place)
            if known is None or known.over:
                if known is not None:
                    await known.close()
                known = self._kept[place] = await dialled(self._door, *place)
            return known
