"""Which files of broker statistics the user wants to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SampleFiles:
    """Files of a broker's statistics, as they are to be read; `-` is standard input."""

    # One that `--save` wrote, or what pulsar-admin printed at several moments, the oldest first.
    stats_files: Sequence[str] = ()
    # Internal statistics of the last of these moments; without stats, of moments of their own.
    internal_files: Sequence[str] = ()
    at: str | None = None  # when the last was taken, as people write it; None: not known
    named: Sequence[str] = ()  # topics to be read; all where empty
    apart_seconds: float | None = None  # from one to the next; None: not known

    @property
    def names(self) -> tuple[str, ...]:
        """Every file name."""
        return (*self.stats_files, *self.internal_files)

    def __bool__(self) -> bool:
        return bool(self.names)
