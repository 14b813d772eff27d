"""What the tap changes on the wire, so that a client stays on it; all other bytes pass as they are.

- LOOKUP_RESPONSE: `proxy_through_service_url` is set. The client then connects to the tap again and
  names the broker it wants in CONNECT, as it does with Pulsar's own proxy (PIP-14 and the binary
  protocol, "Topic lookup").
- CONNECT: `proxy_to_broker_url` is taken off: no broker is meant to see it.
- CLOSE_CONSUMER, CLOSE_PRODUCER: the broker that they point to is taken off (PIP-307): the client
  looks the topic up instead.

Fields that pulsar_wire.proto does not name (credentials, feature flags) stay as they were: protobuf
keeps what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsar_doctor import pulsar_wire_pb2 as wire
from pulsar_doctor.framing import Frame

CONNECT, CLOSE_PRODUCER, CLOSE_CONSUMER, LOOKUP_RESPONSE = 2, 15, 16, 24
HELD_TO_BROKER = frozenset({CONNECT})
HELD_TO_CLIENT = frozenset({LOOKUP_RESPONSE, CLOSE_CONSUMER, CLOSE_PRODUCER})

Address = tuple[str, int]


def rewritten(frame: Frame, original: bytes, brokers: set[Address]) -> bytes:
    """The bytes to send instead of this frame: its own, where nothing is to be changed.

    brokers: those that the cluster has named; a lookup's answer adds one.
    """
    try:
        command = wire.BaseCommand.FromString(frame.command)
        changed = REWRITES[frame.code](command, brokers)
    except Exception:  # upb's DecodeError, a code of none of these: not ours to judge
        return original
    if not changed:
        return original
    return framed(command.SerializeToString(), original[8 + len(frame.command) :])


def framed(command: bytes, behind: bytes = b"") -> bytes:
    """A command with its two sizes. behind: its payload part."""
    total = 4 + len(command) + len(behind)
    return b"".join((total.to_bytes(4, "big"), len(command).to_bytes(4, "big"), command, behind))


def wanted_broker(command: bytes) -> str:
    """The broker that a CONNECT asks for; "" where it asks for none, or is no CONNECT."""
    try:
        return str(wire.BaseCommand.FromString(command).connect.proxy_to_broker_url)
    except Exception:  # upb's DecodeError
        return ""


def longest_message(connected: Frame) -> int:
    """Bytes of the longest message that a CONNECTED allows; 0 where it does not say."""
    try:
        return int(wire.BaseCommand.FromString(connected.command).connected.max_message_size)
    except Exception:  # upb's DecodeError
        return 0


def address_of(url: str) -> Address | None:
    """Host and port of `pulsar://host:port` or `host:port`; None where it is neither."""
    host, colon, port = url.rpartition("://")[2].rstrip("/").rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        return None
    return host.strip("[]").lower(), int(port)


def _connect(command: Any, brokers: set[Address]) -> bool:
    named = command.connect.HasField("proxy_to_broker_url")
    command.connect.ClearField("proxy_to_broker_url")
    return bool(named)


def _lookup_response(command: Any, brokers: set[Address]) -> bool:
    answer = command.lookup_response
    broker = address_of(answer.broker_service_url)
    if broker is None:
        return False
    brokers.add(broker)
    answer.proxy_through_service_url = True
    return True


def _without_broker(field: str) -> Callable[[Any, set[Address]], bool]:
    names = ("assigned_broker_service_url", "assigned_broker_service_url_tls")

    def rewrite(command: Any, brokers: set[Address]) -> bool:
        closing = getattr(command, field)
        named = [name for name in names if closing.HasField(name)]
        for name in named:
            closing.ClearField(name)
        return bool(named)

    return rewrite


REWRITES: dict[int, Callable[[Any, set[Address]], bool]] = {
    CONNECT: _connect,
    LOOKUP_RESPONSE: _lookup_response,
    CLOSE_CONSUMER: _without_broker("close_consumer"),
    CLOSE_PRODUCER: _without_broker("close_producer"),
}
