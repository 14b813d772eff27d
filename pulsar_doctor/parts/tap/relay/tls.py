"""TLS of the tap: trusted authorities, its certificate, and why a handshake failed."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from pulsar_doctor.broker import tls
from pulsar_doctor.parts.tap.relay.addresses import Address
from pulsar_doctor.wording.addresses import shown

WRONG_HOST = frozenset({62, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
HOST_NAME = re.compile(r"[A-Za-z0-9.-]{1,253}")
OUT_OF_TIME = {9: "is not valid yet", 10: "has expired"}


def towards_brokers(files: Mapping[str, Any]) -> ssl.SSLContext:
    """How brokers are spoken to. Raises InputError.

    files: paths `trust` (None: the system's store), `certificate` and `key` (None: we show none),
    and `insecure`: trust any certificate, for any host name.
    """
    certificate = (files["certificate"], files["key"]) if files.get("certificate") else None
    return tls.towards_brokers(
        files.get("trust"), certificate, insecure=bool(files.get("insecure"))
    )


def towards_clients(
    files: Mapping[str, Any], failed: Callable[[ssl.SSLError], object] = lambda error: None
) -> ssl.SSLContext:
    """How clients are answered. files: paths `certificate`, `key`. Raises InputError.

    failed: hears of each handshake that fails, which no event loop does.
    """

    class Handshake(ssl.SSLObject):
        """The server's side of one connection."""

        requested_host: str | None = None

        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                failed(error)
                raise

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.sslobject_class = Handshake
    context.sni_callback = _keep_name
    tls.show(context, (files["certificate"], files["key"]), "certificate of the tap")
    return context


def _keep_name(handshake: Any, name: str | None, context: ssl.SSLContext) -> None:
    handshake.requested_host = name


def requested_host(client: asyncio.BaseTransport | None) -> str | None:
    """The host name by which a client has called us (SNI); None where it gave none."""
    handshake = client.get_extra_info("ssl_object") if client is not None else None
    name = getattr(handshake, "requested_host", None)
    return name if name and HOST_NAME.fullmatch(name) else None


def why_not_client(error: ssl.SSLError) -> str:
    """What is wrong between a client and the tap's TLS, and what to do."""
    reason = str(error.reason or error).replace("_", " ").lower()
    if "http request" in reason or "wrong version" in reason or "unknown protocol" in reason:
        return (
            f"a client does not speak TLS to the tap ({reason}); give it the address with "
            f"pulsar+ssl"
        )
    if "alert" in reason:
        return (
            f"a client does not accept the certificate of the tap ({reason}); it must trust its "
            "authority, and the certificate must be for the host that the client connects to"
        )
    return f"TLS with a client failed ({reason})"


def why_not(error: BaseException, broker: Address) -> str | None:
    """What is wrong between us and a TLS broker, and what to do; None where it is not TLS."""
    where = shown(broker)
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in WRONG_HOST:
            return (
                f"the certificate of the broker {where} is for another host name; name the broker "
                "as in its certificate, in --service-url or in the broker's advertised address"
            )
        if error.verify_code in OUT_OF_TIME:
            return f"the certificate of the broker {where} {OUT_OF_TIME[error.verify_code]}"
        return (
            f"the certificate of the broker {where} is not trusted ({error.verify_message}); give "
            "its authority with --tls-trust-certs"
        )
    if not isinstance(error, ssl.SSLError):
        return None
    reason = str(error.reason or error).replace("_", " ").lower()
    if "certificate required" in reason or "handshake failure" in reason:
        return (
            f"the broker {where} wants a client certificate ({reason}); give --auth-plugin tls and "
            "--auth-params tlsCertFile:FILE,tlsKeyFile:FILE"
        )
    if "alert" in reason:
        return f"the broker {where} does not accept the client certificate of the tap ({reason})"
    return f"the broker {where} does not speak TLS here ({reason}); use pulsar:// or its TLS port"
