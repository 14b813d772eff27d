"""A process's user, namespaces and program, from /proc. Nothing is written or sent.

A process of a container has another pid there, and its files lie below /proc/PID/root.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.evidence.process_report import ProcessKind
from pulsar_doctor.parts.examine.child import in_time

STOPPED = frozenset("tT")
DEAD = frozenset("ZX")
SECTION_NAMES_BYTES = 1 << 16
MAPS_BYTES = 32 << 20  # 65,530 mappings with names of 400 bytes
BUILT_BY: dict[bytes, ProcessKind] = {
    b"\0.svm_heap\0": "native-image",
    b"\0.go.buildinfo\0": "go",
    b"": "other",
}


@dataclass(frozen=True, slots=True)
class Process:
    """One process."""

    pid: int
    inner_pid: int  # in its own namespace
    name: str
    uid: int  # effective
    gid: int  # effective
    state: str  # the kernel's letter
    started: int  # ticks since boot; differs in a later process with this pid
    caught: int  # mask of the signals that it has handlers for
    kind: ProcessKind

    @property
    def root(self) -> Path:
        """The process's root folder, as it is reached from here."""
        return Path(f"/proc/{self.pid}/root")

    def catches(self, signal: int) -> bool:
        """Whether it has a handler for this signal."""
        return bool(self.caught >> (signal - 1) & 1)

    @property
    def is_there(self) -> bool:
        """Whether it is still the same process, and no other one of its pid."""
        try:
            return _started(self.pid) == self.started
        except OSError:
            return False


def process(pid: int) -> Process:
    """The process of this pid. InputError where there is none; DoctorError without a /proc."""
    if not Path("/proc/self/status").exists():
        raise DoctorError("a process can be examined on Linux only: there is no /proc here")
    try:
        status = _status(pid)
        started = _started(pid)
    except OSError:
        raise InputError(f"there is no process {pid} (any more)") from None
    return Process(
        pid=pid,
        inner_pid=int(status.get("NSpid", str(pid)).split()[-1]),
        name=status["Name"],
        uid=int(status["Uid"].split()[1]),
        gid=int(status["Gid"].split()[1]),
        state=status["State"][:1],
        started=started,
        caught=int(status["SigCgt"], 16),
        kind=_kind(pid),
    )


def mapped(pid: int) -> list[str] | None:
    """The files that it has mapped; None where we may not see them, or it holds them back."""
    try:
        lines = in_time(lambda: _head(f"/proc/{pid}/maps", MAPS_BYTES)).splitlines()
    except OSError:
        return None
    files = {line.split(maxsplit=5)[5] for line in lines if line.count(b"/") and b" " in line}
    return sorted(file.decode("utf-8", "replace") for file in files)


def _head(file: str, most: int) -> bytes:
    with Path(file).open("rb") as opened:
        return opened.read(most)


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _started(pid: int) -> int:
    # The name in brackets may hold anything, brackets too.
    return int(
        Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    )


def _kind(pid: int) -> ProcessKind:
    files = mapped(pid) or []
    names = [os.path.basename(file.removesuffix(" (deleted)")) for file in files]  # noqa: PTH119
    if "libjvm.so" in names:
        return "jvm"
    try:
        program = os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115
    except OSError:
        return "other"
    base = program.rpartition("/")[2]
    if re.match(r"(python|pypy)[\d.]*", base) or any(n.startswith("libpython") for n in names):
        return "python"
    try:
        return BUILT_BY[in_time(lambda: _built_by(pid))]
    except OSError:
        return "other"


def _built_by(pid: int) -> bytes:
    """In a child, since its program may lie in another file system.

    native-image builds in a section with its heap, and Go one that tells how it was built.
    """
    try:
        with Path(f"/proc/{pid}/exe").open("rb") as program:
            names = _section_names(program)
    except (OSError, OverflowError, struct.error):
        return b""
    return next(section for section in BUILT_BY if section in names)


def _section_names(program: BinaryIO) -> bytes:
    """Each between zero bytes; none where it is no ELF file of 64 bits, little-endian.

    Source: elf(5), e_shoff to e_shstrndx, and sh_offset and sh_size of that section.
    """
    header = program.read(64)
    if header[:6] != b"\x7fELF\2\1":
        return b""
    sections, size, _, names = struct.unpack("<Q10xHHH", header[40:])
    program.seek(sections + names * size)
    offset, length = struct.unpack("<24xQQ24x", program.read(64))
    program.seek(offset)
    return program.read(min(length, SECTION_NAMES_BYTES))
