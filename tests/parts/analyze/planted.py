"""Traces in which one thing is wrong; `says`: what is told of each, nothing where it is whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pulsar_doctor.trace.folder import INDEX, META, segment_name
from pulsar_doctor.trace.sealing import Sealer
from tests.made.traces import write_trace
from tests.made.wire import slow_consumer
from tests.parts.analyze import made_traces


@dataclass(frozen=True)
class Plant:
    make: Callable[[Path], object]
    says: str

    @property
    def __name__(self) -> str:
        return self.make.__name__

    def __str__(self) -> str:
        return self.__name__

    def __call__(self, path: Path) -> None:
        """A trace of this name, of three segments, in which it is wrong."""
        made_traces.sealed(path, slow_consumer(), path.stem, parts=3)
        self.make(path)


def unlisted(path: Path) -> None:
    shutil.copy(path / segment_name(3), path / segment_name(9))


def last_missing(path: Path) -> None:
    (path / segment_name(3)).unlink()


def cut(path: Path) -> None:
    segment = path / segment_name(2)
    segment.write_bytes(segment.read_bytes()[:-100])


def flipped(path: Path) -> None:
    segment = path / segment_name(1)
    data = bytearray(segment.read_bytes())
    data[200] ^= 1
    segment.write_bytes(data)


def without_list(path: Path) -> None:
    (path / INDEX).unlink()


def newer(path: Path) -> None:
    meta = json.loads((path / META).read_text())
    (path / META).write_text(json.dumps({**meta, "schema_version": 99}))


def listed_wrongly(path: Path) -> None:
    listed = path / INDEX
    listed.write_bytes(listed.read_bytes().replace(b'"rows": ', b'"rows": 1', 1))


PLANTED = (
    Plant(unlisted, "is not in _segments.jsonl"),
    Plant(last_missing, "is missing"),
    Plant(cut, "is damaged"),
    Plant(flipped, "does not agree with its SHA-256"),
    Plant(without_list, "is not in _segments.jsonl"),
    Plant(newer, "use a newer pulsar-doctor"),
    Plant(listed_wrongly, "line 1 of"),
)


def torn(path: Path) -> None:
    """A tap that was killed: of three journals the first is sealed."""
    write_trace(path, slow_consumer().blocks, parts=3, trace_id=path.stem)
    with Sealer(path) as sealer:
        for _ in sealer.sealing_steps([1, 2, 3]):
            pass
