"""Finds out with a PING, without credentials, whether an address is a broker.

A broker and a proxy answer PONG before anybody has sent CONNECT, and write nothing into their logs
but that a connection came and went. A web server reads lines: the PING has a field that no broker
knows and with the form of the end of a request, so that it does not wait for one.
"""

from __future__ import annotations

import socket

from pulsar_doctor.parts.tap.relay.addresses import Address
from pulsar_doctor.wording.addresses import shown

# A frame: its length, that of the command, BaseCommand{type: PING, ping: {15: "\r\n\r\n"}}.
PING = b"\x00\x00\x00\x0f\x00\x00\x00\x0b\x08\x12\x92\x01\x06\x7a\x04\r\n\r\n"
HEAD_BYTES = 9  # of an answer: two lengths, and the tag of the command's type
TYPE_TAG = 0x08
FRAME_BYTES_MOST = 1 << 24
WEB = (b"HTTP/", b"<!DOCTYPE", b"<html")
TLS_ALERT = b"\x15\x03"


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
