"""Captures packets of a network interface with Linux's AF_PACKET, filtered by port.

The kernel filters by the ports, so that nothing else wakes us. What it had to drop, since we were
too slow, is counted (PACKET_STATISTICS). On loopback every packet passes twice, out and in; the
first is left out. Reading only: nothing is sent, and no interface is set to another mode.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import struct
import time
from collections.abc import Collection, Iterator

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.capture.files import FileCounts, Packet
from pulsar_doctor.parts.capture.packets import RAW

ANY = "any"
ALL_PROTOCOLS = 3  # ETH_P_ALL
LOOPBACK, OUTGOING = 772, 4  # ARPHRD_LOOPBACK, PACKET_OUTGOING
SOL_PACKET, STATISTICS = 263, 6
ATTACH_FILTER, TIMESTAMP_NS, RECEIVE_FORCED = 26, 35, 33  # of SOL_SOCKET
PACKET_BYTES_MOST = 1 << 18
BUFFER_BYTES = 64 << 20
IDLE_SECONDS = 0.25
PORTS_MOST = 30
TCP, FRAGMENT, EXTENSIONS = 6, 44, (0, 43, 60)
_TIME = struct.Struct("@ll")
# Operations of the kernel's filter (linux/filter.h, BPF).
LOAD_BYTE, LOAD_HALF, LOAD_HALF_X, LOAD_X_HEADER = 0x30, 0x28, 0x48, 0xB1
AND, JUMP_EQUAL, RETURN = 0x54, 0x15, 0x06
HELP = (
    "capturing on {0} needs the right CAP_NET_RAW: run this as root, or in a container with "
    "`--cap-add NET_RAW`; without it: sudo tcpdump -i {0} -U -w - 'tcp port {1}' | "
    "pulsar-doctor capture - --trace DIR"
)


class Interface:
    """An open interface; a context manager."""

    def __init__(self, name: str, ports: Collection[int]) -> None:
        """On Linux. Raises DoctorError without the right to it, InputError where there is none."""
        if len(ports) > PORTS_MOST:
            raise InputError(f"{len(ports)} ports are too many for one filter: {PORTS_MOST}")
        self.drops = 0  # packets that the kernel dropped
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        except PermissionError:
            raise DoctorError(HELP.format(name, " or ".join(map(str, ports)))) from None
        try:
            self._filter(ports)
            self._socket.setsockopt(socket.SOL_SOCKET, TIMESTAMP_NS, 1)
            self._widen()
            if name == ANY:
                self._bind_to_all()
            else:
                self._socket.bind((name, ALL_PROTOCOLS))
        except OSError as error:
            self._socket.close()
            there = ", ".join([*(each for _, each in socket.if_nameindex()), ANY])
            raise InputError(f"cannot read {name}: {error.strerror}; there are {there}") from error
        self._socket.setblocking(False)
        self._into = bytearray(PACKET_BYTES_MOST)

    def __enter__(self) -> Interface:
        return self

    def __exit__(self, *exception: object) -> None:
        self.counts()
        self._socket.close()

    def packets(self) -> Iterator[Packet | None]:
        """The packets as they come; None where none came for a quarter of a second."""
        view, ancillary = memoryview(self._into), socket.CMSG_SPACE(_TIME.size)
        while True:
            try:
                size, ancillary_data, _, where = self._socket.recvmsg_into(
                    [view], ancillary, socket.MSG_TRUNC
                )
            except BlockingIOError:
                if not select.select([self._socket], [], [], IDLE_SECONDS)[0]:
                    yield None
                continue
            except OSError as error:
                raise DoctorError(f"the interface cannot be read: {error.strerror}") from error
            if where[2] == OUTGOING and where[3] == LOOPBACK:
                continue
            yield Packet(_time_ns(ancillary_data), RAW, bytes(view[: min(size, len(view))]), size)

    def counts(self) -> FileCounts:
        """What the kernel has dropped; it begins again with each answer."""
        statistics = self._socket.getsockopt(SOL_PACKET, STATISTICS, 8)
        self.drops += struct.unpack("@II", statistics)[1]
        return FileCounts(self.drops)

    def _filter(self, ports: Collection[int]) -> None:
        code = b"".join(struct.pack("@HBBI", *each) for each in filter_of(ports))
        held = ctypes.create_string_buffer(code)
        program = struct.pack("@HP", len(code) // 8, ctypes.addressof(held))
        self._socket.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, program)

    def _bind_to_all(self) -> None:
        """Interface 0 (packet(7)), for which Python's own bind has no name. Raises OSError."""
        protocol = socket.htons(ALL_PROTOCOLS)
        where = struct.pack("@HHiHBB8x", socket.AF_PACKET, protocol, 0, 0, 0, 0)
        if ctypes.CDLL(None, use_errno=True).bind(self._socket.fileno(), where, len(where)):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def _widen(self) -> None:
        for option in (RECEIVE_FORCED, socket.SO_RCVBUF):
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
                return
            except PermissionError:
                continue


def _time_ns(ancillary: list[tuple[int, int, bytes]]) -> int:
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == TIMESTAMP_NS:
            seconds, rest = _TIME.unpack_from(value)
            return int(seconds) * 10**9 + int(rest)
    return time.time_ns()


Line = tuple[int, int, str, str]  # operation, value, where to go if it is equal, and if not


def filter_of(ports: Collection[int]) -> list[tuple[int, int, int, int]]:
    """A filter for TCP of these ports, on packets that begin with their IP header.

    Instructions: operation, jump if true, jump if false, value. What has a header between that of
    IPv6 and TCP is let through, and looked at by us.
    """
    parts: dict[str, list[Line]] = {
        "begin": [
            (LOAD_BYTE, 0, "", ""),
            (AND, 0xF0, "", ""),
            (JUMP_EQUAL, 0x40, "four", ""),
            (JUMP_EQUAL, 0x60, "six", "drop"),
        ],
        "four": [
            (LOAD_BYTE, 9, "", ""),
            (JUMP_EQUAL, TCP, "", "drop"),
            (LOAD_X_HEADER, 0, "", ""),
            *_of_ports(LOAD_HALF_X, 0, ports),
        ],
        "six": [
            (LOAD_BYTE, 6, "", ""),
            *((JUMP_EQUAL, each, "take", "") for each in (*EXTENSIONS, FRAGMENT)),
            (JUMP_EQUAL, TCP, "", "drop"),
            *_of_ports(LOAD_HALF, 40, ports),
        ],
        "drop": [(RETURN, 0, "", "")],
        "take": [(RETURN, PACKET_BYTES_MOST, "", "")],
    }
    begins, lines = {}, list[Line]()
    for name, part in parts.items():
        begins[name] = len(lines)
        lines += part
    return [
        (
            operation,
            begins[then] - at - 1 if then else 0,
            begins[otherwise] - at - 1 if otherwise else 0,
            value,
        )
        for at, (operation, value, then, otherwise) in enumerate(lines)
    ]


def _of_ports(load: int, at: int, ports: Collection[int]) -> Iterator[Line]:
    for side in (0, 2):
        yield (load, at + side, "", "")
        for port in ports:
            yield (JUMP_EQUAL, port, "take", "")
    yield (RETURN, 0, "", "")
