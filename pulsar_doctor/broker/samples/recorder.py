"""Writes samples to a file line by line, so that a crash loses nothing that was written.

Every line is compressed up to a point from which the rest can be missing, and handed to the
operating system at once.
"""

from __future__ import annotations

import json
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from pulsar_doctor import __version__
from pulsar_doctor.broker.samples.files import first_line, opened, schema_of
from pulsar_doctor.broker.samples.reading import SCHEMA, VERSION, StatsAnswer
from pulsar_doctor.broker.stats.observed import ClusterLimits, TopicWindow
from pulsar_doctor.broker.stats.transactions import NO_TRANSACTIONS
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.wording.typed_json import to_json

GZIP = 16 + zlib.MAX_WBITS  # zlib's way to say: with the header and the end of gzip
LEVEL = 6
OWNER_ONLY = 0o600


class Recorder:
    """`--save FILE`, to be used in a `with`; it keeps nothing in memory.

    A samples file that is there is replaced; any other file is an InputError. A full disk or a
    missing permission is a DoctorError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)

    def __enter__(self) -> Recorder:
        check_replaceable(self.path)
        with self._to_disk():
            self._file = open(self.path, "wb", buffering=0, opener=_for_the_owner)
        try:
            self._add({"schema": f"{SCHEMA}{VERSION}", "program_version": __version__})
        except DoctorError:
            self._file.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._file is not None
        try:
            # What is already on its way out is the news, not a second failure here.
            if not isinstance(error, DoctorError):
                self._write(self._compressor.flush(zlib.Z_FINISH))
        finally:
            with self._to_disk():
                self._file.close()

    def add(self, reading: StatsAnswer) -> None:
        """Keeps one reading, without what users attach to consumers and producers."""
        self._add(reading.line())

    def limits(
        self,
        topic: str,
        limits: ClusterLimits,
        broker: str | None = None,
        window: TopicWindow | None = None,
    ) -> None:
        """Keeps what the cluster allows on a topic or partition, and its broker's version.

        topic: full name. window: with open transactions, and the place of a segment; the other
        segments are kept as topics of their own.
        """
        known = asdict(limits)
        del known["unacked_ranges_by_default"]  # which follows from the version
        line: dict[str, Any] = {"topic": topic, "limits": known, "broker_version": broker}
        if window and window.transactions != NO_TRANSACTIONS:
            line["transactions"] = to_json(window.transactions)
        if window and (place := window.place):
            segments = (*place.segments.values(), *place.unlisted)
            line["segments"] = [to_json(each) for each in segments]
            line["loaded"] = [*place.stats]
        self._add(line)

    def _add(self, document: Mapping[str, Any]) -> None:
        line = json.dumps(document, separators=(",", ":")).encode() + b"\n"
        self._write(self._compressor.compress(line) + self._compressor.flush(zlib.Z_SYNC_FLUSH))

    def _write(self, chunk: bytes) -> None:
        assert self._file is not None
        rest = memoryview(chunk)
        with self._to_disk():
            while rest:
                rest = rest[self._file.write(rest) :]

    @contextmanager
    def _to_disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DoctorError(
                f"cannot write {self.path}: {error.strerror}; "
                "name another file with --save, or make room for this one"
            ) from None


def _for_the_owner(path: str, flags: int) -> int:
    """Opens a file that nobody else may read: roles and addresses stand in it.

    So it is where a file with other rights is replaced; a pipe or a device stays as it is.
    """
    descriptor = os.open(path, flags, OWNER_ONLY)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode) and hasattr(os, "fchmod"):
            os.fchmod(descriptor, OWNER_ONLY)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_replaceable(path: Path) -> None:
    """Raises InputError where something lies there that is no samples file."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; --save takes the name of a file")
    if not path.is_file() or path.stat().st_size == 0:  # nothing there, or a pipe or device
        return
    try:
        with opened(str(path), "") as stream:
            schema = schema_of(first_line(stream)) or ""
    except InputError:
        schema = ""
    if not schema.startswith(SCHEMA):
        raise InputError(f"{path} is there and holds no samples; name another file with --save")
