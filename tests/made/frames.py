"""Frames and fields as a test says them, such as no library would write included."""

from __future__ import annotations

import struct
from typing import Any

from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.framing import prefixed, varint


def frame(command: bytes, behind: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(command) + len(behind), len(command)) + command + behind


def command_frame(code: int, field: str, **fields: Any) -> bytes:
    command = wire.BaseCommand(type=code)
    getattr(command, field).SetInParent()
    getattr(command, field).MergeFrom(type(getattr(command, field))(**fields))
    return frame(command.SerializeToString())


def field(number: int, value: bytes | str) -> bytes:
    """A length-delimited field, as any version of the protocol may bring one."""
    return varint(number << 3 | 2) + prefixed(value.encode() if isinstance(value, str) else value)


def command_of(code: int, body: bytes, behind: bytes = b"") -> bytes:
    """A command whose own part is `body`, with further fields behind it."""
    return b"\x08" + varint(code) + field(code, body) + behind
