"""A client that acknowledges all it gets and has forgotten to give the permits back.

No released client does this on demand, so this one speaks on the wire for itself: SUBSCRIBE, one
FLOW, an ACK for each entry, a PONG for each PING, and never another FLOW.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from tests.parts.tap.tapped import command_frame
from tests.scenarios.scene import SUBSCRIPTION, Scene
from tests.scenarios.table import SHORT, scenario, stalled
from tests.support import eventually

CONNECT, CONNECTED, SUBSCRIBE, MESSAGE, ACK, FLOW, SUCCESS, PING, PONG = (
    2, 3, 4, 9, 10, 11, 13, 18, 19,
)  # fmt: skip
SHARED = 1


@scenario("negative-permits", stalled("negative-permits"), settings=SHORT)
def _negative(scene: Scene) -> None:
    """It holds nothing, the broker counts far below zero, and no FLOW will come."""
    scene.begin()
    scene.produce(2_000, 100)
    host = urlsplit(scene.service_url)
    link = socket.create_connection((host.hostname, host.port), timeout=20)
    scene.stack.callback(link.close)
    scene.stack.callback(link.shutdown, socket.SHUT_RDWR)
    heard = link.makefile("rb")
    subscribe(link, heard, scene.topic)
    link.settimeout(None)
    scene.background(lambda: acknowledge_all(link, heard))
    eventually(lambda: scene.consumer("miscounts")["availablePermits"] < 0, 20)
    scene.until(lambda: scene.consumer("miscounts")["unackedMessages"] == 0)
    scene.until_quiet()


def subscribe(link: socket.socket, heard: BinaryIO, topic: str) -> None:
    """Connects, subscribes as `miscounts` and asks for ten messages, once."""
    say(link, CONNECT, "connect", client_version="miscounts", protocol_version=19)
    assert hear(heard).type == CONNECTED
    say(
        link, SUBSCRIBE, "subscribe", topic=topic, subscription=SUBSCRIPTION, sub_type=SHARED,
        consumer_id=1, request_id=1, consumer_name="miscounts",
    )  # fmt: skip
    assert hear(heard).type == SUCCESS
    say(link, FLOW, "flow", consumer_id=1, message_permits=10)


def acknowledge_all(link: socket.socket, heard: BinaryIO) -> None:
    """Answers until the connection is closed."""
    with contextlib.suppress(OSError, EOFError, ValueError):
        while True:
            command = hear(heard)
            if command.type == PING:
                say(link, PONG, "pong")
            if command.type == MESSAGE:
                ids = [command.message.message_id]
                say(link, ACK, "ack", consumer_id=1, ack_type=0, message_id=ids)


def say(link: socket.socket, code: int, field: str, **values: Any) -> None:
    """Sends one command."""
    link.sendall(command_frame(code, field, **values))


def hear(heard: BinaryIO) -> wire.BaseCommand:
    """The next command; what is behind it is skipped. Raises EOFError at the end."""
    header = heard.read(8)
    if len(header) < 8:
        raise EOFError
    total, size = struct.unpack(">II", header)
    command = wire.BaseCommand.FromString(heard.read(size))
    heard.read(total - size - 4)
    return command
