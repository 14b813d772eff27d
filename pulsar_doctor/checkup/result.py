"""The result of one run of stall-check: what was examined, and how many of each verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, get_args

from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.checkup.expected import Expectation
from pulsar_doctor.diagnosis import status
from pulsar_doctor.diagnosis.known.matching import on_broker
from pulsar_doctor.diagnosis.status import FailOn, Status
from pulsar_doctor.diagnosis.weighing import Diagnosis, ReportedBy, stall_is_likely
from pulsar_doctor.evidence.process_told import ProcessTold

Source = Literal["broker", "files", "trace", "broker and trace", "files and trace", "process"]
REST = "(the rest)"  # of a fleet or a file, in place of a topic's name
INTERRUPTED = 130  # the exit code after Ctrl-C
STATUSES: tuple[Status, ...] = ("stalled", "unknown", "warning", "healthy")  # worst first


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Who was asked. admin_url: without credentials; name, broker_version: None: not reported.

    context: the name of the context that gave the settings; None: there was none.
    """

    name: str | None
    admin_url: str
    broker_version: str | None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """When files were taken, epoch ms by the broker's clock. exact: False: no sooner than that."""

    first_ms: int
    last_ms: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Tally:
    """How many subscriptions have which verdict, each partition apart, and what was not read.

    suspected: of how many, whatever their verdict, a stall is likely. not_yet: how many could be
    compared with an earlier reading and are not healthy now.
    """

    counts: Mapping[Status, int]
    unreachable: int = 0
    not_loaded: int = 0
    suspected: int = 0
    not_yet: int = 0

    def exit_code(self, fail_on: FailOn, *, accept_unknown: bool = False) -> int:
        """1 where one fails; else 3 where one is not known, not read or not well yet; else 0."""
        return status.exit_code(
            self.counts,
            fail_on,
            suspected=self.suspected,
            unread=self.unreachable + self.not_yet,
            accept_unknown=accept_unknown,
        )

    @property
    def subscriptions(self) -> int:
        """All that were judged."""
        return sum(self.counts.values())


@dataclass(slots=True)
class Checkup:
    """One run. The verdicts are read once, through `examined`; the rest is whole after that.

    not_loaded: full names of topics. unreachable: (full name, reason); what has no name is called
    REST. samples: 0 for a trace.
    read_once, watched: topics of a fleet; window_seconds and samples are of those watched.
    read_once_seconds_ago: at most, where it is not known what has happened since.
    notes: (full name, sentence), of topics that were named and of which verdicts do not say all.
    trace_notes: sentences on a trace as a whole, above all what is missing from it.
    cluster: None where none was asked. files: names of what was read; taken: None: not told.
    guess_ms: when they may have been taken, by the last one's own time.
    process: what was looked at, of `examine`. skipped: codes of causes that were left out.
    stopped: by Ctrl-C within a window, so that this is what was certain by then.
    expectations: of `tap`, met or not. broker_version: where somebody told it.
    Fields that are not compared are not part of a case.
    """

    source: Source
    diagnoses: Iterable[Diagnosis] = field(default=(), compare=False)  # may be a generator
    window_seconds: float = 0.0
    samples: int = 0
    read_once: int = 0
    read_once_seconds_ago: int = 0
    watched: int = 0
    not_loaded: list[str] = field(default_factory=list)
    unreachable: list[tuple[str, str]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    trace_notes: tuple[str, ...] = ()
    checked_at: datetime = field(default_factory=_now, compare=False)
    cluster: Cluster | None = None
    files: tuple[str, ...] = ()
    taken: Taken | None = None
    guess_ms: int | None = None
    process: ProcessTold | None = None
    skipped: tuple[str, ...] = ()
    stopped: bool = False
    expectations: tuple[Expectation, ...] = field(default=(), compare=False)
    broker_version: str | None = None
    _counts: Counter[Status] = field(default_factory=Counter, init=False, compare=False)
    _suspected: int = field(default=0, init=False, compare=False)
    _not_yet: int = field(default=0, init=False, compare=False)
    _sources: set[ReportedBy] = field(default_factory=set, init=False, compare=False)

    def took(self, window: Window) -> None:
        """Notes how one topic of a fleet was read."""
        if len(window.samples) == 1:
            self.read_once += 1
            return
        self.watched += 1
        self.samples = max(self.samples, len(window.samples))
        self.window_seconds = max(self.window_seconds, (window.span_ms or 0) / 1000)

    def examined(self) -> Iterator[Diagnosis]:
        """The verdicts, one by one, each counted as it goes by; in a watch, the steady ones."""
        for diagnosis in self.diagnoses:
            steady = diagnosis.steady
            self._counts[diagnosis.status if steady is None else steady.status] += 1
            self._suspected += stall_is_likely(diagnosis)
            self._not_yet += is_not_yet_well(diagnosis)
            self._sources.update(diagnosis.sources)
            yield self._on_broker(diagnosis)

    def _on_broker(self, diagnosis: Diagnosis) -> Diagnosis:
        """Without known issues that the broker's version does not have, where it is known."""
        version = self.broker_version or (self.cluster and self.cluster.broker_version)
        if not version or not diagnosis.known_issues:
            return diagnosis
        return replace(diagnosis, known_issues=on_broker(diagnosis.known_issues, version))

    @property
    def sources(self) -> list[ReportedBy]:
        """What told something of the verdicts up to now, always in the same order."""
        return [each for each in get_args(ReportedBy) if each in self._sources]

    @property
    def tally(self) -> Tally:
        """What was seen up to now."""
        counts = {status: self._counts[status] for status in STATUSES}
        unread, asleep = len(self.unreachable), len(self.not_loaded)
        return Tally(counts, unread, asleep, self._suspected, self._not_yet)


def is_not_yet_well(diagnosis: Diagnosis) -> bool:
    """Whether it could be compared with an earlier reading, and is not healthy now."""
    after = diagnosis.after
    compared = after is not None and after.outcome != "cannot be compared"
    return compared and diagnosis.status != "healthy"
