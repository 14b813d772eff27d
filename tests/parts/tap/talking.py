"""A client of our own that says single commands to a real broker, or to the tap in front of it."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import Any

from tests.made.frames import command_frame, command_of, field, frame, frames_from
from tests.parts.tap.tapped import CONNECT

REDIRECT, CONNECT_TO = 0, 1  # CommandLookupTopicResponse.LookupType
CONNECTED, SUCCESS, LOOKUP, LOOKUP_ANSWER = 3, 13, 23, 24


def connecting(*, broker: str = "", token: str = "") -> bytes:
    """CONNECT as a client writes it. broker: the one it wants behind a proxy."""
    body = b"\x0a\x04test" + b"\x20\x15"  # client_version, protocol_version 21
    if token:
        body += field(3, token) + field(5, "token")
    if broker:
        body += field(6, broker)
    return frame(command_of(2, body))


@contextlib.contextmanager
def talking(
    url: str, connect: bytes, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[socket.socket, Iterator[Any]]]:
    """A connection of our own: the socket and the commands that come, CONNECTED was the first."""
    host, _, port = url.rpartition("/")[2].rpartition(":")
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(socket.create_connection((host, int(port)), 30))
        if tls is not None:
            sock = stack.enter_context(tls.wrap_socket(sock, server_hostname=host))
        sock.sendall(connect)
        commands = (command for _, command in frames_from(sock))
        assert next(commands).type == CONNECTED
        yield sock, commands


def subscribed(topic: str) -> bytes:
    """A SUBSCRIBE, Shared."""
    return command_frame(
        4, "subscribe", topic=topic, subscription="s", sub_type=1, consumer_id=3, request_id=1
    )


def looked_up(
    url: str, topic: str, connect: bytes = CONNECT, tls: ssl.SSLContext | None = None
) -> Any:
    """The first answer to a LOOKUP, as it comes from there. connect: the frame that lets us in."""
    with talking(url, connect, tls) as (sock, commands):
        sock.sendall(command_frame(LOOKUP, "lookup", topic=topic, request_id=1))
        return next(one for one in commands if one.type == LOOKUP_ANSWER).lookup_response
