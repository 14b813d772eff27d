"""Finds the process of a container, by the container's id or host name.

No daemon is queried, and nothing that a container reports of itself is believed. The id is in the
cgroups of each of its processes, whether Docker, containerd, CRI-O or Podman runs it: the last 64
hexadecimal digits of a line of /proc/PID/cgroup. It counts where the cgroup with that name could
only be made by root or by us. The host name, which is that of the pod in Kubernetes, is the one
that the kernel keeps for the container, in its UTS namespace. It counts where that namespace is of
our user namespace: then only root here, as a container runtime is, could set it.

Source: user_namespaces(7), "Interaction of user namespaces and other types of namespaces".
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pulsar_doctor.errors import InputError
from pulsar_doctor.owners import belongs_to
from pulsar_doctor.parts.examine.child import in_time
from pulsar_doctor.parts.examine.identity import Process, process

ID = re.compile(r"[0-9a-f]{64}")
SHORTEST_ID = 6
KINDS = ("jvm", "python")  # which of several is meant; beside a client run shells and agents
CGROUPS = Path("/sys/fs/cgroup")
CLONE_NEWUTS, NS_GET_USERNS = 0x04000000, 0xB701


class _HostName(NamedTuple):
    """The host name in a UTS namespace."""

    name: str
    is_ours: bool  # only root of our own user namespace could set it


def in_container(named: str) -> Process:
    """The process that is meant. InputError where there is none, or more than one may be."""
    found = list(_processes(named))
    there = [each for each, is_confirmed in found if is_confirmed]
    if not there and found:
        those = listed_processes([each for each, _ in found])
        raise InputError(
            f"that a container {named!r} is here cannot be confirmed from outside; "
            f"if you trust what says so, give its PID: {those}"
        )
    if not there:
        raise InputError(
            f"no process that may be seen from here is in a container {named!r}: "
            "give its id, its host name (the pod's name), or the PID"
        )
    for kind in KINDS:
        if meant := [each for each in there if each.kind == kind]:
            break
    else:
        meant = there
    if len(meant) > 1:
        raise InputError(
            f"container {named!r} has several processes, give a PID: {listed_processes(meant)}"
        )
    return meant[0]


def listed_processes(processes: list[Process]) -> str:
    """`4711 (java), 4712 (python3)`."""
    return ", ".join(f"{each.pid} ({each.name})" for each in processes)


def with_id(cgroups: str, named: str) -> Iterator[Path]:
    """Below /sys/fs/cgroup: the folder in which the cgroup with the id lies."""
    if len(named) < SHORTEST_ID or not re.fullmatch(r"[0-9a-f]+", named):
        return
    for line in cgroups.splitlines():
        _, controllers, path = line.split(":", 2)
        ids = list(ID.finditer(path))
        if ids and ids[-1][0].startswith(named):
            above = path[: path.rindex("/", 0, ids[-1].start())].lstrip("/")
            yield CGROUPS / controllers.removeprefix("name=") / above


def _processes(named: str) -> Iterator[tuple[Process, bool]]:
    """Each that is, or says to be, in that container, and whether that is confirmed."""
    names: dict[Path, _HostName | None] = {}  # many processes share one namespace
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            cgroups = (folder / "cgroup").read_text("utf-8", "replace")
            by_id = [_is_roots(each) for each in with_id(cgroups, named)]
            namespace = (folder / "ns/uts").readlink()
            if namespace not in names:
                names[namespace] = _host_name(namespace, int(folder.name))
            host = names[namespace]
            by_name = [] if host is None or host.name != named else [host.is_ours]
            if by_id or by_name:
                yield process(int(folder.name)), any(by_id + by_name)
        except (OSError, InputError):  # it has ended meanwhile, or is somebody else's
            continue


def _is_roots(folder: Path) -> bool:
    """Whether nobody but root or us may make cgroups in this one, as far as can be seen here."""
    if ".." in folder.parts:  # outside of our cgroup namespace
        return False
    for each in (folder, CGROUPS / "unified" / folder.relative_to(CGROUPS)):
        try:
            there = each.stat()
        except OSError:
            continue
        return belongs_to(there, os.geteuid())
    return False


def _host_name(namespace: Path, pid: int) -> _HostName | None:
    """The host name of a process's namespace; None: it is our own, or may not be seen."""
    if namespace == Path("/proc/self/ns/uts").readlink():
        return None
    try:
        answer = in_time(lambda: _entered(pid))
    except OSError:
        return None
    return _HostName(answer[1:].decode("utf-8", "replace"), answer[:1] == b"+")


def _entered(pid: int) -> bytes:
    """In a child, which enters that namespace: its host name, after + where it is of ours."""
    namespace = os.open(f"/proc/{pid}/ns/uts", os.O_RDONLY | os.O_CLOEXEC)
    owner = os.fstat(fcntl.ioctl(namespace, NS_GET_USERNS))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWUTS) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    is_ours = os.path.samestat(owner, Path("/proc/self/ns/user").stat())
    return (b"+" if is_ours else b"-") + os.uname().nodename.encode()
