"""What is certain of the acknowledged ranges of a trace: between which their numbers lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from pulsar_doctor.stats.fields import Position

OPEN = (None, None)


@dataclass(frozen=True, slots=True)
class Certain:
    """Least and most of each number; None: no such bound. oldest_hole: its first entry."""

    mark_delete: tuple[Position | None, Position | None] = OPEN
    ranges: tuple[int | None, int | None] = OPEN
    acknowledged_entries: tuple[int | None, int | None] = OPEN
    holes: tuple[int | None, int | None] = OPEN
    hole_entries: tuple[int | None, int | None] = OPEN
    oldest_hole: tuple[Position | None, Position | None] = OPEN

    def or_else(self, other: Certain) -> Certain:
        """Where one of the two holds, and nobody knows which."""
        return Certain(
            *(_hull(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        )


def _hull(*pairs: Sequence[Any]) -> tuple[Any, Any]:
    least, most = zip(*pairs, strict=True)
    return (None if None in least else min(least)), (None if None in most else max(most))
