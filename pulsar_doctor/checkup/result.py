"""The result of one run of stall-check: what was examined, and how many of each verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, get_args

from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.checkup.expected import Expectation
from pulsar_doctor.diagnosis.known.matching import on_broker
from pulsar_doctor.diagnosis.status import FAILS, AcceptUnknown, FailOn, Status
from pulsar_doctor.diagnosis.verdict import Diagnosis, ReportedBy
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.evidence.process_report import ProcessReport

Source = Literal["broker", "files", "trace", "broker and trace", "files and trace", "process"]
REST = "(the rest)"  # of a fleet or a file, in place of a topic's name
INTERRUPTED = 130  # the exit code after Ctrl-C
STOPPED = "stopped by Ctrl-C: partial"
STATUSES: tuple[Status, ...] = ("stalled", "unknown", "warning", "healthy")  # worst first


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that was read. None: not reported."""

    name: str | None
    admin_url: str  # without credentials
    broker_version: str | None
    context: str | None = None  # that gave the settings; None: there was none


@dataclass(frozen=True, slots=True)
class Taken:
    """When files were taken, epoch ms by the broker's clock."""

    first_ms: int
    last_ms: int
    exact: bool  # False: no sooner than that


@dataclass(frozen=True, slots=True)
class Tally:
    """How many subscriptions have which verdict, each partition apart, and what was not read."""

    counts: Mapping[Status, int]
    unreachable: int = 0
    not_loaded: int = 0
    suspected: int = 0  # with a likely stall, whatever the verdict
    readers: int = 0  # unknown only because a reader rests
    suppressed: Mapping[Status, int] = field(default_factory=dict)  # of these verdicts
    not_yet: int = 0  # compared with an earlier reading, and not healthy now

    def exit_code(self, fail_on: FailOn, accept: AcceptUnknown | None = None) -> int:
        """1 where one fails; else 3 where one is not known, not read or not well yet; else 0."""
        if any(self.counting.get(each) for each in FAILS[fail_on]):
            return 1
        if fail_on == "suspect" and self.suspected:
            return 1
        not_known = self.not_accepted(accept) + self.unreachable + self.not_yet
        return DoctorError.exit_code if not_known else 0

    def not_accepted(self, accept: AcceptUnknown | None) -> int:
        """How many unknown verdicts nobody accepts; that nothing was judged counts as one."""
        if accept == "all":
            return 0
        unknown = self.counting.get("unknown", 0) if self.subscriptions else 1
        return unknown - self.accepted(accept)

    def accepted(self, accept: AcceptUnknown | None) -> int:
        """How many unknown verdicts count as healthy."""
        of_readers = self.readers if accept == "readers" else 0
        return self.counting["unknown"] if accept == "all" else of_readers

    @property
    def counting(self) -> Mapping[Status, int]:
        """What the exit code is made of: a verdict that is suppressed counts as healthy."""
        counting = {each: n - self.suppressed.get(each, 0) for each, n in self.counts.items()}
        return counting | {"healthy": counting["healthy"] + sum(self.suppressed.values())}

    @property
    def subscriptions(self) -> int:
        """How many subscriptions were judged."""
        return sum(self.counts.values())


@dataclass(slots=True)
class Checkup:
    """One run. The verdicts are read once, through `examined`; the rest is whole after that.

    Fields that are not compared are not part of a case.
    """

    source: Source
    diagnoses: Iterable[Diagnosis] = field(default=(), compare=False)  # may be a generator
    window_seconds: float = 0.0  # of the watched topics
    samples: int = 0  # of the watched topics; 0: a trace
    read_once: int = 0  # topics of a fleet that are not watched
    read_once_seconds_ago: int = 0  # how old those readings may be; 0: just read
    watched: int = 0
    not_loaded: list[str] = field(default_factory=list)  # full names of topics
    # (full name, reason); no name: REST
    unreachable: list[tuple[str, str]] = field(default_factory=list)
    # (full name, sentence) of named topics that the verdicts do not cover fully
    notes: list[tuple[str, str]] = field(default_factory=list)
    trace_notes: tuple[str, ...] = ()  # on a trace as a whole, above all what is missing from it
    checked_at: datetime = field(default_factory=_now, compare=False)
    cluster: Cluster | None = None  # None: none was read
    files: tuple[str, ...] = ()  # names of what was read
    taken: Taken | None = None  # None: not reported
    guess_ms: int | None = None  # when they may have been taken, by the last one's own time
    process: ProcessReport | None = None  # of `examine`
    skipped: tuple[str, ...] = ()  # codes of causes that were left out
    stopped: bool = False  # by Ctrl-C within a window: this was certain by then
    expectations: tuple[Expectation, ...] = field(default=(), compare=False)  # of `tap`
    broker_version: str | None = None  # where it was reported
    # Only these verdicts are shown; all are counted. Empty: all are shown.
    only: frozenset[Status] = field(default=frozenset(), compare=False)
    left_out: int = field(default=0, init=False, compare=False)
    is_whole: bool = field(default=False, init=False, compare=False)  # all verdicts were read
    _counts: Counter[Status] = field(default_factory=Counter, init=False, compare=False)
    _suspected: int = field(default=0, init=False, compare=False)
    _readers: int = field(default=0, init=False, compare=False)
    _suppressed: Counter[Status] = field(default_factory=Counter, init=False, compare=False)
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
        """The verdicts, one by one, each counted as it passes; in a watch, the steady ones."""
        for diagnosis in self.diagnoses:
            steady = diagnosis.steady
            shown = diagnosis.status if steady is None else steady.status
            self._counts[shown] += 1
            counts = diagnosis.suppressed is None
            self._suppressed[shown] += not counts
            self._readers += counts and shown == "unknown" and diagnosis.reader_rests
            self._suspected += counts and diagnosis.stall_is_likely
            self._not_yet += is_not_yet_well(diagnosis)
            self._sources.update(diagnosis.sources)
            if self.only and shown not in self.only:
                self.left_out += 1
                continue
            yield self._on_broker(diagnosis)
        self.is_whole = True

    def _on_broker(self, diagnosis: Diagnosis) -> Diagnosis:
        """Without known issues that the broker's version does not have, where it is known."""
        version = self.broker_version or (self.cluster and self.cluster.broker_version)
        if not version or not diagnosis.known_issues:
            return diagnosis
        return replace(diagnosis, known_issues=on_broker(diagnosis.known_issues, version))

    @property
    def sources(self) -> list[ReportedBy]:
        """What contributed to the verdicts up to now, always in the same order."""
        return [each for each in get_args(ReportedBy) if each in self._sources]

    @property
    def tally(self) -> Tally:
        """What was seen up to now."""
        counts = {status: self._counts[status] for status in STATUSES}
        unread, asleep = len(self.unreachable), len(self.not_loaded)
        suppressed = {each: n for each, n in self._suppressed.items() if n}
        return Tally(
            counts, unread, asleep, self._suspected, self._readers, suppressed, self._not_yet
        )


def is_not_yet_well(diagnosis: Diagnosis) -> bool:
    """Whether it could be compared with an earlier reading, and is not healthy now."""
    after = diagnosis.after
    compared = after is not None and after.outcome != "cannot be compared"
    return compared and diagnosis.status != "healthy"
