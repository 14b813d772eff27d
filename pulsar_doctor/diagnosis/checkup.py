"""What one run of stall-check examined, and how many of each verdict it came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from pulsar_doctor.diagnosis.weighing import Diagnosis, Status

Source = Literal["broker", "files", "trace", "broker and trace", "files and trace"]
STATUSES: tuple[Status, ...] = ("stalled", "unknown", "warning", "healthy")  # worst first


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Who was asked. admin_url: without credentials; name, broker_version: None: not told."""

    name: str | None
    admin_url: str
    broker_version: str | None


@dataclass(frozen=True, slots=True)
class Taken:
    """When files were taken, epoch ms by the broker's clock. exact: False: no sooner than that."""

    first_ms: int
    last_ms: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Tally:
    """How many subscriptions have which verdict, each partition apart, and what was not read."""

    counts: Mapping[Status, int]
    unreachable: int = 0
    not_loaded: int = 0

    @property
    def subscriptions(self) -> int:
        """All that were judged."""
        return sum(self.counts.values())


@dataclass(slots=True)
class Checkup:
    """One run. The verdicts are read once, through `examined`; the rest is whole after that.

    not_loaded: full names of topics. unreachable: (full name, reason). samples: 0 for a trace.
    notes: (full name, sentence), of topics that were named and of which verdicts do not say all.
    cluster: None where none was asked. files: names of what was read; taken: None: not told.
    """

    source: Source
    diagnoses: Iterable[Diagnosis]  # may be a generator over very many
    window_seconds: float = 0.0
    samples: int = 0
    not_loaded: list[str] = field(default_factory=list)
    unreachable: list[tuple[str, str]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    checked_at: datetime = field(default_factory=_now)
    cluster: Cluster | None = None
    files: tuple[str, ...] = ()
    taken: Taken | None = None
    _counts: Counter[Status] = field(default_factory=Counter)

    def examined(self) -> Iterator[Diagnosis]:
        """The verdicts, one by one, each counted as it goes by."""
        for diagnosis in self.diagnoses:
            self._counts[diagnosis.status] += 1
            yield diagnosis

    @property
    def tally(self) -> Tally:
        """What was seen up to now."""
        counts = {status: self._counts[status] for status in STATUSES}
        return Tally(counts, len(self.unreachable), len(self.not_loaded))
