"""How brokers are found, spoken to and told who we are: addresses, TLS, credentials."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from pulsar_doctor.broker.credentials import METHOD, credentials
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import InputError

Address = tuple[str, int]
PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}


def shown(address: Address) -> str:
    """`host:port`; an address of IPv6 in brackets."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Door:
    """What opens every connection of one engine. Raises InputError for what cannot be used."""

    def __init__(self, service_url: str, settings: Settings) -> None:
        scheme, _, rest = service_url.strip().partition("://")
        self.addresses = _addresses(scheme, rest)
        self._credentials = credentials(settings)
        certificate = self._credentials.certificate
        self._method = "tls" if certificate else ""
        self.tls = scheme == "pulsar+ssl"
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
        return next(iter(_parsed(scheme, url.rpartition("://")[2])), None)


def _addresses(scheme: str, rest: str) -> list[Address]:
    found = _parsed(scheme, rest) if scheme in PORTS else []
    if not found:
        place = rest.rpartition("@")[2]  # it may have a password in front
        raise InputError(f"{scheme}://{place} is no service URL; write pulsar://host:6650")
    return found


def _parsed(scheme: str, rest: str) -> list[Address]:
    found = []
    for part in rest.split(","):
        try:
            address = urlsplit(f"//{part.strip()}")
            if address.hostname:
                found.append((address.hostname, address.port or PORTS[scheme]))
        except ValueError:  # a port that is none
            continue
    return found


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
