"""How to reach the brokers: addresses, TLS and credentials."""

from __future__ import annotations

import base64

from pulsar_doctor.broker.credentials import METHOD, credentials
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.parts.tap.relay.addresses import Address, service_addresses
from pulsar_doctor.parts.tap.relay.tls import towards_brokers
from pulsar_doctor.parts.tap.upstream import upstream_of, upstream_tls


class Door:
    """What opens every connection of one engine. Raises InputError for what cannot be used."""

    def __init__(self, service_url: str, settings: Settings) -> None:
        upstream = upstream_of(service_url)
        self.addresses = upstream.brokers
        self._credentials = credentials(settings)
        self._method = "tls" if self._credentials.certificate else ""
        self.tls = upstream.tls
        files = upstream_tls(upstream, settings)
        self.context = towards_brokers(files) if files else None

    async def credentials(self) -> tuple[str, bytes]:
        """Name of the method and fresh data, as in CONNECT. Raises DoctorError without any."""
        headers = await self._credentials.headers()
        method = headers.get(METHOD, self._method)
        _, _, value = headers.get("Authorization", "").partition(" ")
        return method, base64.b64decode(value) if method == "basic" else value.encode()

    def address_of(self, url: str) -> Address | None:
        """The address in a broker's answer; None where there is none."""
        scheme = "pulsar+ssl" if self.tls else "pulsar"
        return next(iter(service_addresses(scheme, url.rpartition("://")[2])), None)
