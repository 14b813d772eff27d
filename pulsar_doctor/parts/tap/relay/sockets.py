"""Socket options and addresses of the tap."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

from pulsar_doctor.parts.tap.relay.addresses import Address
from pulsar_doctor.wording.addresses import shown

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset


def reset_at_close(transport: asyncio.Transport) -> None:
    """Has the peer see a reset, as the peer of the other end does, and not an orderly end."""
    with contextlib.suppress(OSError):
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def is_tls(transport: asyncio.BaseTransport) -> bool:
    """Whether this end speaks TLS; such an end has no half-close."""
    return transport.get_extra_info("ssl_object") is not None


def peer_of(transport: asyncio.BaseTransport | None) -> str | None:
    """`ip:port` of the other end of a socket."""
    name = transport.get_extra_info("peername") if transport is not None else None
    return shown(name[:2]) if name else None


def peer_address(transport: asyncio.BaseTransport | None) -> Address:
    """Host and port of the other end of a socket."""
    name = transport.get_extra_info("peername") if transport is not None else None
    return (str(name[0]), int(name[1])) if name else ("?", 0)
