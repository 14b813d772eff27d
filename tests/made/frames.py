"""Frames and fields as a test says them, such as no library would write included."""

from __future__ import annotations

import socket
import struct
from collections.abc import Generator
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


def number(number: int, value: int) -> bytes:
    """A field that is a number."""
    return varint(number << 3) + varint(value)


def frames_from(sock: socket.socket) -> Generator[tuple[bytes, wire.BaseCommand]]:
    """Each frame that comes, and its command; ends where no more comes."""
    with sock.makefile("rb") as stream:
        while len(head := stream.read(8)) == 8:
            total, size = struct.unpack(">II", head)
            if len(rest := stream.read(total - 4)) < total - 4:
                return
            yield head + rest, wire.BaseCommand.FromString(rest[:size])
