"""Finds the consumers of one process among all that the broker reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.verdict import Diagnosis, ReportedBy
from pulsar_doctor.evidence import by_wire
from pulsar_doctor.evidence.by_process import looked_into, named, seated, subscription_views
from pulsar_doctor.evidence.process_report import ProcessReport
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.ledger.consumers import Subscription
from pulsar_doctor.wording.addresses import shown

Judging = Callable[[SubscriptionView, Iterable[ReportedBy]], Diagnosis]


@dataclass(slots=True)
class InProcess:
    """One process. Its capture ends at the first verdict: the broker's window is over then."""

    begun: ProcessReport  # first report
    finish: Callable[[], ProcessReport]  # samples it again and returns all
    # ends the capture of the connections and returns what it has shown
    captured: Callable[[], Sequence[Subscription]] = tuple
    not_captured: list[str] = field(default_factory=list)  # why it has shown nothing
    _report: ProcessReport | None = field(default=None, init=False)
    _wires: Sequence[Subscription] = field(default=(), init=False)
    _views: list[SubscriptionView] = field(default_factory=list, init=False)
    _shown_in: set[tuple[str, str]] = field(default_factory=set, init=False)
    _on: frozenset[tuple[str, str]] = field(default=frozenset(), init=False)
    # Its addresses as brokers write them, with the consumers that were met at each.
    _addresses: dict[str | None, list[str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._on = frozenset(view.key for view in subscription_views(self.begun))
        ends = (each.local for each in self.begun.connections or ())
        self._addresses = {f"/{shown(each)}": [] for each in ends}

    @property
    def report(self) -> ProcessReport:
        """The whole report of the process, from both inspections."""
        if self._report is None:
            self._wires = self.captured()
            report = self.finish()
            self._report = replace(report, unknowns=(*report.unknowns, *self.not_captured))
            self._views = subscription_views(self._report)
        return self._report

    @property
    def wires(self) -> Sequence[Subscription]:
        """What went over its connections while it was looked at."""
        assert self.report is not None
        return self._wires

    @property
    def topics(self) -> list[str]:
        """Full names of topics and partitions that its consumers are on, by its first report."""
        return list(dict.fromkeys(view.full_topic for view in subscription_views(self.begun)))

    def concerns(self, observed: Observed) -> bool:
        """Whether one of its consumers is on this subscription: by its name, or by address."""
        if observed.key in self._on:
            return True
        return any(each.address in self._addresses for each in observed.now.consumers or ())

    def meet(self, those: Iterable[Observed]) -> None:
        """Takes the consumers that will be judged, to know each beside the others."""
        for observed in those:
            topic = observed.full_topic
            for each in observed.now.consumers or ():
                self._addresses.get(each.address or "", []).append(named(each.consumer_name, topic))

    def joined(self, view: SubscriptionView) -> SubscriptionView:
        """A view by other sources with what it tells; the same view where it tells nothing."""
        report, at = self.report, view.key
        self._shown_in.add(at)
        view = _with_trips(view, report)
        for inside in self._views:
            if inside.key == at:
                return looked_into(view, inside)
        return view if report.inspections else seated(view, report, self._addresses)

    def conclude(self, checkup: Checkup, judged: Judging) -> None:
        """Adds to the verdicts what no broker reports of it, and its own report."""
        checkup.diagnoses = [*checkup.diagnoses, *self.alone(judged)]
        checkup.process = self.report

    def alone(self, judged: Judging) -> list[Diagnosis]:
        """The verdicts by itself and its packets alone, on what no broker has reported."""
        captured = {view.key: view for view in map(by_wire.subscription_view, self.wires)}
        inside = {view.key: view for view in self._views}
        found = []
        for at in dict.fromkeys([*inside, *captured]):
            if at in self._shown_in:
                continue
            views: dict[ReportedBy, SubscriptionView] = {}
            if at in captured:
                views["capture"] = captured[at]
            if at in inside:
                views["process"] = inside[at]
            view, *more = views.values()
            if more:
                view = looked_into(view, *more)
            found.append(judged(view, views))
        return found


def _with_trips(view: SubscriptionView, process: ProcessReport) -> SubscriptionView:
    """The view with the round trips of the process's connections."""
    trips = {f"/{shown(each.local)}": each.round_trip_us for each in process.connections or ()}
    consumers = (
        replace(each, round_trip_seconds=trip / 1e6)
        if each.round_trip_seconds is None and (trip := trips.get(each.address or ""))
        else each
        for each in view.consumers or ()
    )
    return view if view.consumers is None else replace(view, consumers=tuple(consumers))
