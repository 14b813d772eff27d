"""The TCP connections of a process: their ends, and unread bytes.

/proc/PID/net/tcp and tcp6 are those of its network namespace; its descriptors say which are its
own. When data came last and went out last, and how long a round trip takes, only sock_diag tells,
in our own namespace, without any right.

Sources: proc_net_tcp.txt; sock_diag(7); include/uapi/linux/inet_diag.h and tcp.h (struct tcp_info).
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from pulsar_doctor.evidence.process_report import Address, TcpConnection

ESTABLISHED = 1
SOCK_DIAG, BY_FAMILY, DUMP, DONE, FAILED = 4, 20, 0x301, 3, 2
INFO = 2  # the attribute that holds struct tcp_info
# Its fields tcpi_last_data_sent and tcpi_last_data_recv (ms) and tcpi_rtt (microseconds).
SENT_AT, RECEIVED_AT, TRIP_AT = 44, 52, 68

ConnectionTime = tuple[int, int, int]
ConnectionTimes = dict[tuple[Address, Address], ConnectionTime]


@dataclass(frozen=True, slots=True)
class Socket:
    """One socket as the kernel lists it."""

    inode: int
    uid: int  # the user who made it
    connection: TcpConnection


def connections(pid: int) -> list[TcpConnection] | None:
    """The process's established connections, by their ports; None where we may not see them."""
    own = inodes(pid)
    if own is None:
        return None
    found = [each.connection for each in sockets(str(pid)) if each.inode in own]
    ages = _ages() if same_network(pid) else {}
    aged = (_aged(each, ages) for each in found)
    return sorted(aged, key=lambda each: (each.remote, each.local))


def _aged(connection: TcpConnection, ages: ConnectionTimes) -> TcpConnection:
    read, written, trip = ages.get((connection.local, connection.remote), (None, None, None))
    return replace(connection, read_ms=read, written_ms=written, round_trip_us=trip)


def inodes(pid: int) -> set[int] | None:
    """The numbers of the sockets; None where we may not see its descriptors."""
    found = set()
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                target = os.readlink(entry.path)  # noqa: PTH115
                if target.startswith("socket:["):
                    found.add(int(target[8:-1]))
    except OSError:
        return None
    return found


def sockets(pid: str) -> Iterator[Socket]:
    """The established connections of the network namespace of a process, which may be `self`."""
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if int(fields[3], 16) == ESTABLISHED:
                unsent, unread = (int(each, 16) for each in fields[4].split(":"))
                ends = _address(fields[1]), _address(fields[2])
                connection = TcpConnection(*ends, unread=unread, unsent=unsent)
                yield Socket(inode=int(fields[9]), uid=int(fields[7]), connection=connection)


def _address(text: str) -> Address:
    """An address of /proc: words of 32 bits, each as the machine keeps it."""
    words, _, port = text.partition(":")
    packed = b"".join(
        struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8)
    )
    return plain(packed), int(port, 16)


def plain(packed: bytes) -> str:
    """An address as text; of IPv4 as such, also where it is mapped into IPv6."""
    if len(packed) == 4:
        return str(IPv4Address(packed))
    address = IPv6Address(packed)
    return str(address.ipv4_mapped or address)


def same_network(pid: int) -> bool:
    """Whether it is in the network namespace in which we are."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net")  # noqa: PTH115
    except OSError:
        return False


def _ages() -> ConnectionTimes:
    """For every established connection here: ms since data came and was sent; the round trip."""
    found: ConnectionTimes = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, struct.error):
            found.update(_of_family(family))
    return found


def _of_family(family: int) -> Iterator[tuple[tuple[Address, Address], ConnectionTime]]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as kernel:
        kernel.settimeout(2.0)
        wanted = struct.pack(
            "=BBBBI48x", family, socket.IPPROTO_TCP, 1 << (INFO - 1), 0, 1 << ESTABLISHED
        )
        kernel.send(struct.pack("=IHHII", 16 + len(wanted), BY_FAMILY, DUMP, 1, 0) + wanted)
        while True:
            answer = kernel.recv(1 << 18)
            at = 0
            while at + 16 <= len(answer):
                length, kind = struct.unpack_from("=IH", answer, at)
                if kind in (DONE, FAILED) or length < 16:
                    return
                yield from _one(family, answer[at + 16 : at + length])
                at += (length + 3) & ~3


def _one(family: int, message: bytes) -> Iterator[tuple[tuple[Address, Address], ConnectionTime]]:
    """struct inet_diag_msg: family, state, timer, retransmissions, then ports and addresses."""
    local_port, remote_port = struct.unpack_from(">HH", message, 4)
    size = 4 if family == socket.AF_INET else 16
    ends = (
        (plain(message[8 : 8 + size]), local_port),
        (plain(message[24 : 24 + size]), remote_port),
    )
    at = 72
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if length < 4:
            return
        if kind == INFO and length >= 4 + TRIP_AT + 4:
            info = message[at + 4 : at + length]
            (sent,) = struct.unpack_from("=I", info, SENT_AT)
            (received,) = struct.unpack_from("=I", info, RECEIVED_AT)
            yield ends, (received, sent, *struct.unpack_from("=I", info, TRIP_AT))
        at += (length + 3) & ~3
