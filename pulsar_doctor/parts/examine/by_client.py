"""Finds the process of a client, by its address as the broker reports it, or by a consumer's name.

The address is one end of a connection. The kernel lists the connections of each network namespace,
of containers too where their processes may be seen, and the descriptors of a process say which are
its own. Only Linux tells this. Behind a proxy or NAT the broker reports an address of that, and the
process found is the proxy.

Source: proc_net_tcp.txt, proc(5).
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.evidence.numbers import ReportedConsumer
from pulsar_doctor.evidence.process_report import Address
from pulsar_doctor.parts.examine.containers import listed_processes
from pulsar_doctor.parts.examine.identity import Process, process
from pulsar_doctor.parts.examine.sockets import Socket, inodes, plain, sockets
from pulsar_doctor.wording.addresses import shown
from pulsar_doctor.wording.printable import listed

NAMED_MOST = 10


def process_of(client: str, consumers: Callable[[], Iterable[ReportedConsumer]]) -> Process:
    """By its PID, its address, or a consumer's name; consumers: reads those of the broker."""
    if client.isascii() and client.isdigit():
        return process(int(client))
    address = address_of(client)
    return process(of_consumer(client, consumers()) if address is None else at_address(address))


def address_of(text: str) -> Address | None:
    """`10.0.0.7:43668`, `/10.0.0.7:43668`, `[::1]:43668` or Java's `/[0:0:0:0:0:0:0:1]:43668`.

    None where it is no address.
    """
    host, _, port = text.rpartition("/")[2].rpartition(":")
    try:
        packed = ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).packed
    except ValueError:
        return None
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        return None
    return plain(packed), int(port)


def at_address(address: Address) -> int:
    """The PID of the process at this end of a connection. InputError or DoctorError without one."""
    found = [each for each in here() if each.connection.local == address]
    if not found:
        raise InputError(
            f"no connection of this machine has the address {shown(address)} on this side: run "
            "this on the host of the client, or in its container, or give a PID"
        )
    owners = [pid for pid in _pids() if {each.inode for each in found} & (inodes(pid) or set())]
    if not owners:
        users = listed(sorted({str(each.uid) for each in found}), NAMED_MOST)
        raise DoctorError(
            f"the process at {shown(address)} may not be seen from here: it is of user {users}; "
            "run this as that user, or as root"
        )
    if len(owners) > 1:
        those = listed_processes([process(pid) for pid in owners])
        raise InputError(f"several processes have {shown(address)}, give a PID: {those}")
    return owners[0]


def of_consumer(name: str, consumers: Iterable[ReportedConsumer]) -> int:
    """The PID of the only process here that has a consumer of this name. Raises as `at_address`."""
    known = list(consumers)
    texts = {each.address for each in known if each.name == name and each.address}
    places = {address for each in texts if (address := address_of(each)) is not None}
    if not places:
        names = listed(sorted({each.name for each in known if each.name}), NAMED_MOST, ", ")
        there = f"there are: {names}" if names else "there is none at all"
        raise InputError(
            f"{name!r} is not a PID or an address, and no consumer has this name; {there}"
        )
    ours = {each.connection.local for each in here()} & places
    if not ours:
        where = listed(sorted(map(shown, places)), NAMED_MOST, ", ")
        raise InputError(
            f"consumer {name!r} is at {where}, which is not on this machine: run this on its host"
        )
    pids = {each: at_address(each) for each in sorted(ours)}
    if len(set(pids.values())) > 1:
        those = ", ".join(f"{pid} ({shown(each)})" for each, pid in pids.items())
        raise InputError(f"several processes have a consumer {name!r}, give a PID: {those}")
    return next(iter(pids.values()))


def addresses_here() -> frozenset[str]:
    """The client's end of each connection of this machine, as a broker writes it."""
    return frozenset(f"/{shown(each.connection.local)}" for each in here())


def here() -> Iterator[Socket]:
    """The established connections of each network namespace that may be seen from here."""
    yield from sockets("self")
    met = {_namespace("self")}
    for pid in _pids():
        namespace = _namespace(str(pid))
        if namespace is not None and namespace not in met:
            met.add(namespace)
            yield from sockets(str(pid))


def _pids() -> list[int]:
    return sorted(int(each.name) for each in Path("/proc").glob("[0-9]*"))


def _namespace(pid: str) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115
    except OSError:
        return None
