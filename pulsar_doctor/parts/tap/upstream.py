"""Checks where a tap listens and connects: what cannot be used is reported before anything starts.

A PING, without credentials, finds out whether an address is a broker. A broker and a proxy answer
PONG before anybody has sent CONNECT, and write nothing into their logs but that a connection came
and went. A web server reads lines: the PING has a field that no broker knows and with the form of
the end of a request, so that it does not wait for one.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from pulsar_doctor.broker.input_files import require_files
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.tap.relay import tls
from pulsar_doctor.parts.tap.relay.addresses import PORTS, Address, address_of, service_addresses
from pulsar_doctor.parts.tap.relay.dialling import TargetUnreachable
from pulsar_doctor.wording.addresses import shown

PROBE_SECONDS = 5.0
ALERT_SECONDS = 0.5
ELSEWHERE = "; give --service-url, or --sandbox to run a real one on this machine"
# A frame: its length, that of the command, BaseCommand{type: PING, ping: {15: "\r\n\r\n"}}.
PING = b"\x00\x00\x00\x0f\x00\x00\x00\x0b\x08\x12\x92\x01\x06\x7a\x04\r\n\r\n"
HEAD_BYTES = 9  # of an answer: two lengths, and the tag of the command's type
TYPE_TAG = 0x08
FRAME_BYTES_MOST = 1 << 24
WEB = (b"HTTP/", b"<!DOCTYPE", b"<html")
TLS_ALERT = b"\x15\x03"


@dataclass(frozen=True, slots=True)
class Upstream:
    """The brokers that the relay connects to first, the one to be tried first in front."""

    brokers: tuple[Address, ...]
    tls: bool = False

    def __str__(self) -> str:
        return shown(self.brokers[0])


def upstream_of(service_url: str) -> Upstream:
    """The brokers of a service URL, `pulsar://a:6650,b:6650`, that can be read.

    Raises InputError for other schemes, where none can, and where a password may stand in it.
    """
    scheme, _, rest = service_url.strip().partition("://")
    if scheme in ("http", "https"):
        raise InputError(
            f"{scheme}:// looks topics up over HTTP, past the tap: give a pulsar:// service URL"
        )
    if "@" in rest:  # command lines can be read by others, and the password would not be used
        raise InputError("no credentials in the service URL: use --auth-plugin and --auth-params")
    brokers = service_addresses(scheme, rest) if scheme in PORTS else ()
    if not brokers:
        raise InputError(f"{scheme}://{rest} is not a service URL; write pulsar://host:6650")
    return Upstream(brokers, tls=scheme == "pulsar+ssl")


def broker_of(text: str) -> Address:
    """A broker that the user allows, `host:port`. Raises InputError."""
    address = address_of(text)
    if address is None:
        raise InputError(f"--allow-broker takes HOST:PORT, such as broker-2:6650, not {text!r}")
    return address


def listen_address(listen: str, *, allow_remote: bool = False) -> tuple[str, int]:
    """Host and port to listen on. Raises InputError if not on loopback, unless allow_remote."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"--listen takes HOST:PORT, such as 127.0.0.1:6651, not {listen!r}")
    host = host.strip("[]")
    try:
        loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not host or not (loopback or allow_remote):
        raise InputError(
            f"{host!r} is not on loopback: the tap listens on this machine only, unless "
            "--allow-remote lets others in"
        )
    return host, int(port)


def require_reachable(service_url: str, settings: Settings) -> None:
    """Sees that one of the brokers of service_url answers, and says what is in the way.

    With TLS its certificate and its name are held against what the relay will ask for. Raises
    Unreachable, one sentence, where none of them answers, or TLS fails with all.
    """
    upstream = upstream_of(service_url)
    files = upstream_tls(upstream, settings)
    context = tls.towards_brokers(files) if files else None
    failed: list[str] = []
    of_tls = advised = False
    for broker in upstream.brokers:
        try:
            wrong = _probe(broker, context)
        except (OSError, UnicodeError) as error:  # SSLError is one
            wrong = tls.why_not(error, broker)
            of_tls |= wrong is not None
            advised |= of_tls
            failed.append(wrong or f"the broker {shown(broker)} cannot be reached: {_why(error)}")
            continue
        if wrong is None:
            return
        advised = True
        failed.append(wrong)
    raise TargetUnreachable("; ".join(failed) + ("" if advised else ELSEWHERE), of_tls=of_tls)


def _probe(broker: Address, context: ssl.SSLContext | None) -> str | None:
    """What is wrong with this broker's answer; None where nothing is. Raises OSError."""
    with socket.create_connection(broker, PROBE_SECONDS) as sock:
        if context is None:
            return why_no_broker(sock, broker, tls=False)
        with context.wrap_socket(sock, server_hostname=broker[0]) as shaken:
            _await_alert(shaken)
            return why_no_broker(shaken, broker, tls=True)


def _await_alert(sock: ssl.SSLSocket) -> None:
    """With TLS 1.3 a broker that wants a certificate says so after the handshake."""
    sock.settimeout(ALERT_SECONDS)
    with contextlib.suppress(TimeoutError):  # nothing is wrong: it waits for a client to speak
        sock.recv(1)
    sock.settimeout(PROBE_SECONDS)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {PROBE_SECONDS:g} s"
    if isinstance(error, UnicodeError) or getattr(error, "errno", None) == socket.EAI_NONAME:
        return "its name is not known"
    return getattr(error, "strerror", None) or str(error) or "no answer"


def upstream_tls(upstream: Upstream, settings: Settings) -> dict[str, Any] | None:
    """The files with which TLS is spoken to brokers; None where it is not. Raises InputError."""
    if not upstream.tls:
        return None
    certificate = settings.certificate
    if certificate is None and settings.auth_name == "tls":  # others are the client's, and pass
        from pulsar_doctor.broker.credentials import credentials

        certificate = credentials(settings).certificate
    files = {
        "trust": settings.tls_trust_certs and str(settings.tls_trust_certs.absolute()),
        "certificate": certificate and str(certificate[0].absolute()),
        "key": certificate and str(certificate[1].absolute()),
        "insecure": settings.tls_allow_insecure,
    }
    tls.towards_brokers(files)
    return files


def own_tls(certificate: Path | None, key: Path | None) -> dict[str, str] | None:
    """The files with which the tap answers clients with TLS. Raises InputError."""
    if certificate is None or key is None:
        return None
    require_files(certificate, key)
    own = {"certificate": str(certificate.absolute()), "key": str(key.absolute())}
    tls.towards_clients(own)  # what cannot be used is reported before anything starts
    return own


def why_no_broker(sock: socket.socket, broker: Address, *, tls: bool) -> str | None:
    """A sentence where it does not answer as a broker does; None where it does. tls: it speaks TLS.

    Raises OSError, also where TLS fails, and TimeoutError where nothing comes in time.
    """
    sock.sendall(PING)
    answer = _head(sock)
    if _is_frame(answer):
        return None
    where = shown(broker)
    if answer.startswith(WEB):
        port = 6651 if tls else 6650
        return (
            f"{where} is an HTTP port; the service URL is the broker's binary port, usually {port}"
        )
    if answer.startswith(TLS_ALERT) and not tls:
        return f"the broker {where} speaks TLS here; use pulsar+ssl:// or its port without TLS"
    if answer:
        return f"what listens at {where} is not a Pulsar broker: it does not speak its protocol"
    more = "" if tls else ", or does it speak TLS (pulsar+ssl://)"
    return f"{where} hangs up at once; is it the broker's binary port{more}?"


def _head(sock: socket.socket) -> bytes:
    """The first bytes of the answer; fewer where the other end hangs up."""
    head = b""
    while len(head) < HEAD_BYTES and (more := sock.recv(HEAD_BYTES - len(head))):
        head += more
    return head


def _is_frame(head: bytes) -> bool:
    """Whether a frame of the protocol begins so; which command it is does not matter."""
    total, command = int.from_bytes(head[:4]), int.from_bytes(head[4:8])
    return (
        len(head) == HEAD_BYTES
        and 0 < command <= total - 4 <= FRAME_BYTES_MOST
        and head[8] == TYPE_TAG
    )
