"""How brokers are found, spoken to and told who we are: addresses, TLS, credentials."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

from pulsar_doctor.broker.credentials import METHOD, credentials
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import InputError
from pulsar_doctor.tap.relay.addresses import Address, service_addresses
from pulsar_doctor.tap.upstream import upstream_of


class Door:
    """What opens every connection of one engine. Raises InputError for what cannot be used."""

    def __init__(self, service_url: str, settings: Settings) -> None:
        upstream = upstream_of(service_url)
        self.addresses = upstream.brokers
        self._credentials = credentials(settings)
        certificate = self._credentials.certificate
        self._method = "tls" if certificate else ""
        self.tls = upstream.tls
        self.context = _context(settings, settings.certificate or certificate) if self.tls else None

    async def told(self) -> tuple[str, bytes]:
        """Name of the method and its data, as in CONNECT; fresh ones each time.

        Raises DoctorError where there are none.
        """
        headers = await self._credentials.headers()
        method = headers.get(METHOD, self._method)
        _, _, value = headers.get("Authorization", "").partition(" ")
        return method, base64.b64decode(value) if method == "basic" else value.encode()

    def address_of(self, url: str) -> Address | None:
        """The address in a broker's answer; None where there is none."""
        scheme = "pulsar+ssl" if self.tls else "pulsar"
        return next(iter(service_addresses(scheme, url.rpartition("://")[2])), None)


def _context(settings: Settings, certificate: tuple[Path, Path] | None) -> ssl.SSLContext:
    trust = settings.tls_trust_certs
    try:
        context = ssl.create_default_context(cafile=str(trust) if trust else None)
        if settings.tls_allow_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate:
            # A password would be asked for on the terminal: an encrypted key is an error here.
            context.load_cert_chain(*certificate, password="")
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(path) for path in (trust, *(certificate or ())) if path)
        raise InputError(f"cannot use {files} for TLS: {error.strerror or error}") from error
    return context
