"""Whether a process is a HotSpot JVM that can be attached to. Only then is SIGQUIT sent.

SIGQUIT ends a process that does not catch it, and makes others (Go, PHP) do something of their own.
A JVM prints a thread dump on its stdout upon it unless it finds an attach file and may be attached
to. So four things must be there, and are looked at without touching it: libjvm.so is mapped, and no
other JVM's parts; SIGQUIT has a handler; HotSpot's thread that takes signals runs, or its file of
counters is there; and nothing says that attaching is disabled, or that it is stopped.

Sources: HotSpot's attachListener_linux.cpp, perfMemory_linux.cpp, arguments.cpp
(ReduceSignalUsage).
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from pulsar_doctor.owners import FOLDER
from pulsar_doctor.parts.examine.child import CannotAttach, in_time
from pulsar_doctor.parts.examine.identity import DEAD, STOPPED, Process, mapped
from pulsar_doctor.parts.examine.inside import inside, opened, read

TAKES_SIGNALS = "Signal Dispatch"  # 15 letters of "Signal Dispatcher" are what the kernel keeps
DISABLED = "-XX:+DisableAttachMechanism"
CAPABILITIES = b"sun.rt.jvmCapabilities\0"
COUNTERS_BYTES = 1 << 20
WORDS_BYTES = 8 << 20  # more than the kernel takes for arguments and environment
NAMES = 100_000  # of a /tmp, that are looked at


def require_attachable(process: Process) -> None:
    """Raises CannotAttach unless this is a HotSpot JVM that lets us attach."""
    pid = process.pid
    if not process.is_there or process.state in DEAD:
        raise CannotAttach(f"process {pid} is not there any more")
    ours = os.geteuid()
    if ours not in (0, process.uid):
        raise CannotAttach(
            f"process {pid} belongs to user {process.uid}; run this as that user, or as root"
        )
    _require_hotspot(process)
    if process.state in STOPPED:
        raise CannotAttach(f"process {pid} is stopped (SIGSTOP, or a debugger); it cannot answer")
    if not process.catches(signal.SIGQUIT):
        raise CannotAttach(
            f"JVM {pid} does not catch SIGQUIT (it runs with -Xrs): attaching would end it"
        )
    counters = _counters(process)
    if _disabled(process, counters):
        raise CannotAttach(f"JVM {pid} runs with {DISABLED}; it cannot be looked into")
    if counters is None and not _takes_signals(pid):
        raise CannotAttach(
            f"process {pid} has libjvm.so, but nothing shows that a HotSpot JVM runs in it"
        )


def _require_hotspot(process: Process) -> None:
    pid, files = process.pid, mapped(process.pid)
    if files is None:
        raise CannotAttach(f"process {pid} may not be seen from here (no right to its /proc/maps)")
    names = [file.removesuffix(" (deleted)").rpartition("/")[2] for file in files]
    if any(re.match(r"libj9\w*\.so", name) for name in names):
        raise CannotAttach(f"process {pid} is an OpenJ9 JVM; only HotSpot's can be looked into")
    if "libjvm.so" in names:
        return
    raise CannotAttach(f"process {pid} ({process.name}) is not a JVM")


def _takes_signals(pid: int) -> bool:
    """Whether it has HotSpot's thread for signals; Java 8 does not tell the kernel its names."""
    for task in Path(f"/proc/{pid}/task").glob("*/comm"):
        try:
            if task.read_text().strip() == TAKES_SIGNALS:
                return True
        except OSError:
            continue
    return False


def _counters(process: Process) -> bytes | None:
    """The file of counters that HotSpot keeps; None where there is none of its user."""

    def work(tmp: int) -> Iterator[bytes]:
        with os.scandir(tmp) as entries:
            names = [each.name for each in islice(entries, NAMES)]
        folders = [name for name in names if name.startswith("hsperfdata_")]
        yield next(filter(None, (_counters_in(each, tmp, process) for each in folders)), b"")

    try:
        with inside(process, work) as child:
            return child.step() or None
    except OSError:
        return None


def _counters_in(name: str, tmp: int, process: Process) -> bytes | None:
    try:
        with opened(name, FOLDER, tmp) as folder:
            if os.fstat(folder).st_uid != process.uid:
                return None
            file = str(process.inner_pid)
            found = read(file, folder, uid=process.uid, most=COUNTERS_BYTES)
    except (OSError, CannotAttach):
        return None
    return found if found.startswith(b"\xca\xfe\xc0\xc0") else None


def _disabled(process: Process, counters: bytes | None) -> bool:
    """Whether attaching is disabled: by its counters, or by what it was started with."""
    if counters is not None and CAPABILITIES in counters:
        capability = counters.partition(CAPABILITIES)[2].lstrip(b"\0")
        return capability[:1] == b"0"
    try:
        return bool(in_time(lambda: b"yes" if _says_disabled(process.pid) else b""))
    except OSError:
        return False


def _says_disabled(pid: int) -> bool:
    """Whether its own memory says so, which may be as large, and as slow to read, as it likes."""
    for where in ("cmdline", "environ"):
        with suppress(OSError), Path(f"/proc/{pid}/{where}").open("rb") as file:
            if DISABLED.encode() in file.read(WORDS_BYTES):
                return True
    return False
