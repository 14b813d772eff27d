"""A bundle: a few files in one compressed tar, the first of which says what it contains.

It is read in memory and within limits; only a trace is unpacked, into a folder of our own. What a
bundle never has, such as a link or another path, is an error.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from pulsar_doctor.errors import InputError
from pulsar_doctor.wording.printable import printable

README, CASE, SAMPLES = "README.txt", "case.json", "samples.jsonl.gz"
VERSIONS, CONFIGURATION = "versions.json", "configuration.json"
FILES = (README, CASE, SAMPLES, VERSIONS, CONFIGURATION)
TRACE = "capture.ptrace"  # a folder in it
OF_TRACE = re.compile(rf"{re.escape(TRACE)}/([._]?[a-z][a-z0-9._-]{{0,60}})")
BUNDLE_BYTES = 128 << 20  # unpacked
BLOCK = 512
OCTAL = re.compile(rb"[0-7]{1,12}[\0 ]*")


def packed(files: Mapping[str, bytes]) -> bytes:
    """The bundle of these files, in this order."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def is_bundle(beginning: bytes) -> bool:
    """Whether the first block of an unpacked file is that of a tar."""
    return beginning[257:262] == b"ustar"


def member_of(stream: BinaryIO, name: str, member: str) -> BinaryIO:
    """One file of a bundle, unpacked. name: of the bundle. Raises InputError.

    What is behind it is looked at, too: a bundle is refused by every command or by none.
    """
    found = [content for each, content in members(stream, name) if each == member]
    if not found:
        raise InputError(f"{name} is a bundle without {member or 'what is read here'}")
    file = io.BytesIO(found[0])
    return gzip.GzipFile(fileobj=file) if member.endswith(".gz") else file  # type: ignore[return-value]


def trace_unpacked(files: Mapping[str, bytes], folder: Path) -> Path | None:
    """The trace in a bundle, in this folder; None where it has none."""
    inside = {match[1]: files[name] for name in files if (match := OF_TRACE.fullmatch(name))}
    if not inside:
        return None
    trace = folder / TRACE
    trace.mkdir(mode=0o700)
    for name, content in inside.items():
        (trace / name).write_bytes(content)
    return trace


def members(stream: BinaryIO, name: str) -> Iterator[tuple[str, bytes]]:
    """The files of a bundle, in their order. Raises InputError."""
    left, seen = BUNDLE_BYTES, set[str]()
    while (header := _read(stream, BLOCK, name)).strip(b"\0"):
        member, kind = header[:100].rstrip(b"\0").decode("utf-8", "replace"), header[156:157]
        is_known = member in FILES or OF_TRACE.fullmatch(member)
        if not is_known or kind != tarfile.REGTYPE:
            raise InputError(f"{name} is not a bundle: it contains {printable(repr(member))}")
        if member in seen:
            raise InputError(f"{name} is not a bundle: it contains {member} twice")
        seen.add(member)
        size = OCTAL.fullmatch(header[124:136])
        if size is None:
            raise InputError(f"{name} is a damaged bundle: {member} has no size")
        length = int(size[0].strip(b"\0 "), 8)
        left -= BLOCK + length
        if left < 0:
            raise InputError(
                f"{name} is longer than any bundle: more than {BUNDLE_BYTES >> 20} MiB"
            )
        yield member, _read(stream, -(-length // BLOCK) * BLOCK, name)[:length]


def _read(stream: BinaryIO, length: int, name: str) -> bytes:
    content = stream.read(length)
    if len(content) < length:
        raise InputError(f"{name} is a bundle that is cut off")
    return content
