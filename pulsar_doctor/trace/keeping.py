"""Keeps a copy of a ring as a trace of its own.

It lies below _kept/, where neither Spark nor this program takes it for a part of the ring, made of
hard links: see docs/trace.md. Files are counted by inode, in whole blocks of the disk.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pulsar_doctor.trace import folder
from pulsar_doctor.trace.index import Index, write_index

KEPT_MOST = 20
BLOCK_BYTES = 4096  # of the disk
NAME = re.compile(r"\d{8}T\d{6}Z-(\d{6,})\.ptrace")


def keep(trace_dir: Path, index: Index, reason: str) -> Path:
    """Makes a trace of these parts of a ring; where it is. A crash leaves it whole or not at all.

    reason: why, in a few words without secrets; it is shown to whoever reads it. Raises OSError
    where the disk refuses, or knows no hard links.
    """
    now = datetime.now(UTC)
    kept = trace_dir / folder.KEPT
    kept.mkdir(mode=0o700, exist_ok=True)
    name = f"{now:%Y%m%dT%H%M%SZ}-{index.through:06d}.ptrace"
    made = kept / f".{name}.tmp"
    _remove(made)
    made.mkdir(mode=0o700)
    for part in index.parts:
        if part.name:
            os.link(trace_dir / part.name, made / part.name)
    for number in (index.expired.through, *(part.number for part in index.parts)):
        with suppress(FileNotFoundError):  # not all ledgers need to be there
            os.link(trace_dir / folder.state_name(number), made / folder.state_name(number))
    write_index(made, index)
    why = {"reason": reason, "kept_us": int(now.timestamp() * 1e6), "through": index.through}
    folder.write_file(made / folder.WHY_KEPT, json.dumps(why).encode())
    folder.write_file(made / folder.META, (trace_dir / folder.META).read_bytes())
    _remove(kept / name)
    folder.put_in_place(made, kept / name)
    return kept / name


def kept_in(trace_dir: Path) -> list[Path]:
    """What was kept of a ring, each a trace of its own, the oldest first."""
    paths = (trace_dir / folder.KEPT).glob("*.ptrace")
    named = [match for path in paths if (match := NAME.fullmatch(path.name))]
    named.sort(key=lambda match: (int(match[1]), match[0]))  # a clock may be set back
    return [trace_dir / folder.KEPT / match[0] for match in named]


def prune(trace_dir: Path, bytes_most: int | None) -> None:
    """Removes the oldest until there are no more than 20, and no more bytes; but not the newest.

    bytes_most: of what the ring itself does not hold any more; None: no limit.
    """
    kept = kept_in(trace_dir)
    while len(kept) > KEPT_MOST:
        _remove(kept.pop(0))
    if bytes_most is None or len(kept) < 2:
        return
    ring = {path.stat().st_ino for path in trace_dir.iterdir() if path.is_file()}
    while len(kept) > 1 and _bytes_in(kept, ring) > bytes_most:
        _remove(kept.pop(0))


def sweep(trace_dir: Path) -> None:
    """Removes what a crash left of one that was being made."""
    for path in (trace_dir / folder.KEPT).glob(".*.tmp"):
        _remove(path)


def in_blocks(size: int) -> int:
    """Bytes on the disk of a file of so many."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


def _bytes_in(kept: Sequence[Path], ring: set[int]) -> int:
    """Bytes on the disk of what was kept and the ring does not hold as well."""
    seen = set(ring)
    size = 0
    for path in kept:
        size += BLOCK_BYTES
        for file in path.iterdir():
            status = file.stat()
            if status.st_ino not in seen:
                seen.add(status.st_ino)
                size += in_blocks(status.st_size)
    return size


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)  # somebody else may remove it, too
