"""The list of sealed segments, _segments.jsonl, and what a ring has dropped.

A part that had no commands has a line and no file, so that the time it covered is not lost. Of a
ring the first line tells what has expired: that and the lines of what is left change together.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pulsar_doctor.errors import TraceError
from pulsar_doctor.trace import folder
from pulsar_doctor.trace.folder import INDEX

CRC32 = b', "crc32": '


@dataclass(frozen=True, slots=True)
class Part:
    """One line of _segments.jsonl. None: no commands, or another program wrote no such number."""

    number: int
    name: str | None
    rows: int
    first_seq: int | None
    last_seq: int | None
    bytes: int
    sha256: str | None
    until_us: int  # until when it was watched
    until_ns: int  # the same moment, monotonic
    cut_bytes: int = 0  # of the journal, could not be read
    damaged: bool = False  # a checksum did not agree; False: at most the end was missing
    gaps: int | None = None  # rows that are a GAP
    dropped: int | None = None  # commands that are missing according to these
    first_us: int | None = None  # least `ts` of the rows
    last_us: int | None = None  # greatest `ts`, not always the last: a clock may be set back

    @property
    def times(self) -> tuple[int, int] | None:
        """first_us and last_us, where the list tells them."""
        if self.first_us is None or self.last_us is None:
            return None
        return self.first_us, self.last_us


@dataclass(frozen=True, slots=True)
class Expired:
    """What a ring has dropped: all parts up to `through`. The next row has the number `rows`."""

    through: int = 0
    rows: int = 0
    gaps: int = 0  # as in Part
    dropped: int = 0  # as in Part
    until_us: int = 0  # where the trace now starts
    until_ns: int = 0  # the same moment, monotonic

    def and_part(self, part: Part) -> Expired:
        """This and the next part."""
        return Expired(
            part.number,
            self.rows + part.rows,
            self.gaps + (part.gaps or 0),
            self.dropped + (part.dropped or 0),
            part.until_us,
            part.until_ns,
        )


@dataclass(frozen=True, slots=True)
class Index:
    """_segments.jsonl: what has expired, and the sealed parts behind it, in order."""

    expired: Expired
    parts: list[Part]

    @property
    def through(self) -> int:
        """The last part that was sealed; 0 where none was."""
        return self.parts[-1].number if self.parts else self.expired.through

    @property
    def until_us(self) -> int:
        """Until when it was watched, as far as it is sealed; 0 where nothing is."""
        return self.parts[-1].until_us if self.parts else self.expired.until_us

    @property
    def gaps(self) -> int:
        """How many of all rows, also of those that have expired, are a GAP."""
        return self.expired.gaps + sum(part.gaps or 0 for part in self.parts)

    @property
    def dropped(self) -> int:
        """Commands that these say are missing."""
        return self.expired.dropped + sum(part.dropped or 0 for part in self.parts)


def read_index(trace_dir: Path) -> Index:
    """The sealed parts, without a last line cut short by a crash. Raises TraceError if damaged."""
    path = trace_dir / INDEX
    try:
        return index_of(folder.read_bytes(path, folder.INDEX_BYTES_MOST), path)
    except FileNotFoundError:
        return Index(Expired(), [])


def index_of(content: bytes, path: Path | str) -> Index:
    """The list in the content of its file, wherever that lies. Raises TraceError."""
    expired, parts = Expired(), list[Part]()
    for at, line in enumerate(content.split(b"\n")[:-1], 1):
        try:
            values = _checked(line)
            if at == 1 and "expired" in values:
                expired = Expired(**values["expired"])
                sound = expired.through > 0 and expired.rows >= 0
            else:
                parts.append(Part(**values))
                before = parts[-2].number if len(parts) > 1 else expired.through
                sound = parts[-1].number > before
        except (ValueError, TypeError, AttributeError, RecursionError):
            sound = False
        if not sound:
            raise TraceError(f"line {at} of {path} is damaged")
    return Index(expired, parts)


def write_index(trace_dir: Path, index: Index) -> None:
    """Writes the whole list anew, durably: before and after a crash it is one or the other."""
    lines = [_line({"expired": asdict(index.expired)})] if index.expired.through else []
    lines += [_line(asdict(part)) for part in index.parts]
    folder.write_file(trace_dir / INDEX, b"".join(lines))


def append_part(trace_dir: Path, part: Part) -> None:
    """Adds a line to _segments.jsonl, durably; cuts off what a crash left of another."""
    path = trace_dir / INDEX
    with suppress(FileNotFoundError):
        folder.require_regular(path)
    with open(path, "ab+", opener=folder.for_owner) as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(_line(asdict(part)))
        file.flush()
        os.fsync(file.fileno())
    folder.sync_folder(trace_dir)


def _line(values: dict[str, Any]) -> bytes:
    crc32 = zlib.crc32(json.dumps(values).encode())
    return json.dumps({**values, "crc32": crc32}).encode() + b"\n"


def _checked(line: bytes) -> dict[str, Any]:
    """A line without its checksum; ValueError if that is missing or wrong."""
    values: dict[str, Any] = json.loads(line)
    crc32 = values.pop("crc32", None)
    before, _, last = line.rpartition(CRC32)  # as we write it; a month's list has 100,000 lines
    if last == f"{crc32}}}".encode() and crc32 == zlib.crc32(before + b"}"):
        return values
    if crc32 != zlib.crc32(json.dumps(values).encode()):
        raise ValueError("it does not agree with its checksum")
    return values
