"""What the kernel says of a process (Linux): memory, open files, the sockets that it listens on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import pytest

from tests.support.wanting import wanting

linux = pytest.mark.skipif(not Path("/proc/self").exists(), reason=wanting("/proc"))
LISTEN = "0A"


def resident_bytes(pid: int, which: str = "VmRSS") -> int:
    """VmRSS: now; VmHWM: the most it ever was."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{which}:")[2].split()[0]) * 1024


def most_of(pid: int) -> int:
    """Forgets the most that it ever held, so that VmHWM counts from now on; what it holds now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return resident_bytes(pid)


def descriptors(pid: int) -> int:
    """How many files and sockets it has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def family(pid: int) -> list[int]:
    """The process and all that it started, and they in turn."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            for child in (task / "children").read_text().split():
                found += family(int(child))
    return found


def told_to(pid: int) -> bytes:
    """Its arguments and its environment: what other processes of this user may read."""
    return b"".join(Path(f"/proc/{pid}/{what}").read_bytes() for what in ("cmdline", "environ"))


def listening(pid: int) -> list[IPv4Address | IPv6Address]:
    """The addresses that it accepts connections at."""
    return [_address(local.partition(":")[0]) for local, _, state in _tcp(pid) if state == LISTEN]


def listening_ports(pid: int) -> set[int]:
    """The ports that it accepts connections at."""
    return {_port(local) for local, _, state in _tcp(pid) if state == LISTEN}


def remote_ports(pid: int) -> set[int]:
    """The ports at the other end of all its TCP connections; none once it is gone."""
    return {_port(remote) for _, remote, state in _tcp(pid) if state != LISTEN}


def local_ports(pid: int) -> set[int]:
    """The ports at this end of all its TCP connections; none once it is gone."""
    return {_port(local) for local, _, state in _tcp(pid) if state != LISTEN}


def _tcp(pid: int) -> Iterator[tuple[str, str, str]]:
    """Its own and the other address, and the state, of its sockets, as the kernel has them."""
    own = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                own.add(os.readlink(entry.path))  # noqa: PTH115
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if f"socket:[{fields[9]}]" in own:
                    yield fields[1], fields[2], fields[3]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _address(words: str) -> IPv4Address | IPv6Address:
    """Words of 32 bits, each as the machine keeps it."""
    parts = [bytes.fromhex(words[at : at + 8])[::-1] for at in range(0, len(words), 8)]
    return ip_address(b"".join(parts))
