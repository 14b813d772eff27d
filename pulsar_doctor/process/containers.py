"""Finds the process that is meant in a container, by the container's id or its host name.

No daemon is asked. The id stands in the cgroups of each process of a container, whether Docker,
containerd, CRI-O or Podman runs it: the last 64 hexadecimal digits of a line of /proc/PID/cgroup.
The host name is that of the pod in Kubernetes, and stands in the container's own /etc/hostname.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from pulsar_doctor.errors import InputError
from pulsar_doctor.process.identity import Process, process

ID = re.compile(r"[0-9a-f]{64}")
SHORTEST_ID = 6
KINDS = ("jvm", "python")  # which of several is meant; beside a client run shells and agents


def in_container(named: str) -> Process:
    """The process that is meant. InputError where there is none, or more than one may be."""
    there = list(_processes(named))
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
        which = ", ".join(f"{each.pid} ({each.name})" for each in meant)
        raise InputError(f"container {named!r} has several processes, give a PID: {which}")
    return meant[0]


def has_id(cgroups: str, named: str) -> bool:
    """Whether the innermost container of these lines of /proc/PID/cgroup has an id like this."""
    if len(named) < SHORTEST_ID or not re.fullmatch(r"[0-9a-f]+", named):
        return False
    ids = [ID.findall(line) for line in cgroups.splitlines()]
    return any(each[-1].startswith(named) for each in ids if each)


def _processes(named: str) -> Iterator[Process]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            cgroups = (folder / "cgroup").read_text("utf-8", "replace")
            if has_id(cgroups, named) or _host_name(folder) == named:
                yield process(int(folder.name))
        except (OSError, InputError):  # it has ended meanwhile, or is somebody else's
            continue


def _host_name(folder: Path) -> str | None:
    """By the process's own files; None where these are ours, too."""
    mine, its = (os.stat(f"{each}/ns/mnt") for each in ("/proc/self", folder))  # noqa: PTH116
    if os.path.samestat(mine, its):
        return None
    return (folder / "root/etc/hostname").read_text("utf-8", "replace").strip()
