"""The segments of the traces, without copies of the same rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pulsar_doctor.errors import InputError


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of rows."""

    path: str
    trace_id: str
    first_seq: int
    last_seq: int
    first_us: int  # least `ts` of its rows, UTC
    last_us: int  # greatest `ts` of its rows, UTC
    trace: str  # its folder
    captured: bool = False  # made from a packet capture, so some rows may be only likely

    @property
    def rows(self) -> int:
        """How many it has."""
        return self.last_seq - self.first_seq + 1


class OverlapError(InputError):
    """Two segments of one trace_id share some rows, and neither has all of the other's."""

    def __init__(self, one: Segment, other: Segment) -> None:
        super().__init__(
            f"{one.path} has rows of {other.path} and others: one of them is damaged; "
            "`pulsar-doctor trace verify` tells which"
        )
        self.trace_id = one.trace_id


def each_once(segments: Iterable[Segment]) -> list[Segment]:
    """Leaves out what is there twice, so that each row of a trace comes once. OverlapError."""
    kept: list[Segment] = []
    for segment in sorted(segments, key=lambda s: (s.trace_id, s.first_seq, -s.last_seq)):
        before = kept[-1] if kept and kept[-1].trace_id == segment.trace_id else None
        if before is None or segment.first_seq > before.last_seq:
            kept.append(segment)
        elif segment.last_seq > before.last_seq:
            raise OverlapError(segment, before)
    return kept
