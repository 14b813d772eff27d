"""Traces without a relay: folders as one leaves them, with the journals of made.wire in them."""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pulsar_doctor.trace.folder import RELAY_LOCK, Meta, journal_name
from pulsar_doctor.wire.columns import Row, values_of
from pulsar_doctor.wire.journal import FILE_HEADER


def write_trace(folder: Path, blocks: Sequence[bytes], *, parts: int = 1, **meta: Any) -> Path:
    """A trace as a relay leaves it: the blocks in so many journals, nothing sealed."""
    folder.mkdir(parents=True, exist_ok=True)
    Meta(**{"trace_id": "trace-1", **meta}).write(folder)
    size = -(-len(blocks) // parts)
    for number in range(1, parts + 1):
        inside = blocks[(number - 1) * size : number * size]
        (folder / journal_name(number)).write_bytes(FILE_HEADER + b"".join(inside))
    return folder


def values(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Rows as values that can be compared."""
    return [values_of(row) for row in rows]


@contextmanager
def relay_alive(folder: Path) -> Iterator[None]:
    """The lock that a relay holds for its life."""
    with (folder / RELAY_LOCK).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def rotating(folder: Path, blocks: Sequence[bytes], *, parts: int) -> Iterator[int]:
    """Writes a journal after the other, as a relay does; each yield is a moment to look."""
    size = -(-len(blocks) // parts)
    for number in range(1, parts + 1):
        path = folder / journal_name(number)
        path.write_bytes(FILE_HEADER)
        for block in blocks[(number - 1) * size : number * size]:
            with path.open("ab") as file:
                file.write(block)
            yield number
