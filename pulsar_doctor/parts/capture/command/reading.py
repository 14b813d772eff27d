"""Opens the source of packets for `capture`: files, a pipe or an interface."""

from __future__ import annotations

import heapq
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Protocol

from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.capture.command.options import PIPE, CaptureRequest
from pulsar_doctor.parts.capture.files import FileCounts, Packet, packets_of
from pulsar_doctor.parts.capture.interface import Interface

READ_BYTES = 256 * 1024
IDLE_SECONDS = 0.25


class Idle(Protocol):
    """What is done before more is waited for. quiet: nothing has come for a while."""

    def __call__(self, *, quiet: bool) -> None:
        """Now."""


@dataclass(frozen=True, slots=True)
class PacketSource:
    """Packets; and what their files, or the kernel, say of those that are not among them."""

    packets: Callable[[Idle], Iterator[Packet]]
    counts: Callable[[], FileCounts]


def source_of(request: CaptureRequest, stack: ExitStack) -> PacketSource:
    """Files, or the interface that is named; open until the stack ends. Raises DoctorError."""
    seconds = request.seconds
    if request.interface is not None:
        interface = stack.enter_context(Interface(request.interface, request.ports))
        return PacketSource(lambda idle: _of_interface(interface, idle, seconds), interface.counts)
    names = [str(file) for file in request.files]
    there = [stack.enter_context(_opened(file)) for file in request.files]
    counts = FileCounts()

    def packets(idle: Idle) -> Iterator[Packet]:
        each = [
            packets_of(_chunks(file, name, idle, seconds), name, counts)
            for file, name in zip(there, names, strict=True)
        ]
        return _by_time(each, seconds)

    return PacketSource(packets, lambda: counts)


def _opened(file: Path) -> FileIO:
    """A file, or stdin. Raises InputError."""
    if file == PIPE:
        return FileIO(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return FileIO(file, "rb")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from error


def _by_time(files: Sequence[Iterator[Packet]], seconds: float | None) -> Iterator[Packet]:
    """Packets of all of them; of the first so many seconds."""
    until_ns = None
    for packet in heapq.merge(*files, key=lambda packet: packet.time_ns):
        if seconds is not None:
            until_ns = until_ns or packet.time_ns + round(seconds * 1e9)
            if packet.time_ns > until_ns:
                return
        yield packet


def _chunks(file: FileIO, name: str, idle: Idle, seconds: float | None) -> Iterator[bytes]:
    """What is there, as it comes."""
    piped = name == str(PIPE)
    ends = None if seconds is None or not piped else time.monotonic() + seconds
    while ends is None or time.monotonic() < ends:
        idle(quiet=False)  # on another clock than ours, perhaps
        if piped and not _comes(file):
            continue
        try:
            chunk = file.read(READ_BYTES)
        except OSError as error:
            raise InputError(f"{name} cannot be read: {error.strerror}") from error
        if not chunk:
            return
        yield chunk


def _comes(file: FileIO) -> bool:
    """Whether there is something to read, or the end. Only Unix can wait for a pipe so."""
    if sys.platform == "win32":
        return True
    try:
        return bool(select.select([file], [], [], IDLE_SECONDS)[0])
    except (OSError, ValueError):
        return True


def _of_interface(interface: Interface, idle: Idle, seconds: float | None) -> Iterator[Packet]:
    """Packets as they pass, for so many seconds."""
    ends = float("inf") if seconds is None else time.monotonic() + seconds
    rested = time.monotonic()
    for packet in interface.packets():
        now = time.monotonic()
        if packet is None or now - rested >= IDLE_SECONDS:
            rested = now
            idle(quiet=packet is None)
        if packet is not None:
            yield packet
        if now >= ends:
            return
