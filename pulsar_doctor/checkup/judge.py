"""Judges every subscription of a topic's window, and whether more samples could change that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pulsar_doctor.broker.samples.reading import is_called
from pulsar_doctor.broker.stats.observed import Observed, TopicWindow
from pulsar_doctor.broker.stats.topic import SubscriptionStats, TopicStats
from pulsar_doctor.checkup.after import Earlier
from pulsar_doctor.checkup.in_process import InProcess
from pulsar_doctor.checkup.result import REST
from pulsar_doctor.checkup.topic_notes import without_subscription
from pulsar_doctor.diagnosis.cause import Cause
from pulsar_doctor.diagnosis.suppression import Suppression
from pulsar_doctor.diagnosis.usual import Usual
from pulsar_doctor.diagnosis.verdict import Diagnosis, ReportedBy
from pulsar_doctor.diagnosis.weighing import CauseLimits, diagnose
from pulsar_doctor.evidence import by_stats, by_wire
from pulsar_doctor.evidence.account import Place, is_settled, occupied
from pulsar_doctor.evidence.measures import PROCESS
from pulsar_doctor.evidence.merge import merged
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.ledger.consumers import Subscription
from pulsar_doctor.wording.printable import listed

NOTHING = SubscriptionStats()  # of a topic given by its internal stats alone
Glance = tuple[SubscriptionView, Sequence[Place]]  # and where its messages are
NAMED_MOST = 10  # of what is there, where something else was requested


@dataclass(frozen=True, slots=True)
class Judge:
    """Runs the checks of all causes."""

    causes: Sequence[Cause]
    limits: CauseLimits
    subscription: str | None = None  # only this one; None: all
    # from a trace or a capture, joined with what the broker reports of the same subscription
    wires: Sequence[Subscription] = ()
    wires_by: ReportedBy = "trace"
    earlier: Earlier | None = None  # kept by a file, to report what became of it
    # judge only subscriptions that its consumers are on, with its own report and capture
    process: InProcess | None = None
    # ends a capture and returns what it has shown; called for the first verdict
    captured: Callable[[], Sequence[Subscription]] | None = None
    # adds what thread dumps show of the consumers of a view
    dumped: Callable[[SubscriptionView], SubscriptionView] = lambda view: view
    every: bool = False  # with `process`: other subscriptions too
    # of clients on this machine, as brokers report them; called once something is not healthy
    addresses: Callable[[], frozenset[str]] = frozenset
    # what suppresses a verdict at this moment
    suppress: Callable[[Diagnosis], Suppression | None] = lambda _: None
    usual: Callable[[Diagnosis], Usual | None] = lambda _: None  # what a record shows of this hour
    keep_views: bool = False  # each verdict keeps the view that it was made from, for a case

    def verdicts(self, window: TopicWindow) -> Iterator[Diagnosis]:
        """Returns a verdict on each requested subscription of a topic or partition."""
        return map(self.verdict, self.wanted(window))

    def is_decided(self, windows: Sequence[TopicWindow]) -> bool:
        """Whether the broker's own flags show enough: more samples would not change it.

        A flag alone is not enough: one that has just been set needs the rest of the window.
        """
        if self.process is not None or self.captured is not None:
            return False  # which are read again, or end, when the window is over
        wanted = [observed for window in windows for observed in self.wanted(window)]
        return bool(wanted) and all(
            is_blocked(observed) and self.verdict(observed).status == "stalled"
            for observed in wanted
        )

    def missing(self, windows: Sequence[TopicWindow]) -> str | None:
        """What to say where there are windows and none has the requested subscription."""
        if self.subscription is None or not windows:
            return None
        if any(map(self.has, windows)):
            return None
        there = [observed for window in windows for observed in window.judged()]
        has = f"there is {named(there)}" if there else "there is none at all"
        return f"nothing that was read has a subscription {self.subscription!r}; {has}"

    def gone(self, windows: Sequence[TopicWindow]) -> Iterator[tuple[str, str]]:
        """Subscriptions that the earlier file has and their topic has not any more: a note each.

        Raises InputError where there is such a file, and it has nothing of what was read.
        """
        if self.earlier is None or not windows:
            return
        there = [observed for window in windows for observed in window.judged()]
        yield from self.earlier.gone(
            there, (each.full_topic for each in windows), self.subscription
        )

    def not_compared(self) -> list[tuple[str, str]]:
        """Why requested topics could not be compared with the earlier file."""
        return [] if self.earlier is None else [(REST, why) for why in self.earlier.lacks]

    @staticmethod
    def unjudged(windows: Iterable[TopicWindow]) -> Iterator[tuple[str, str]]:
        """Topics that have only cursors of which no verdict is made: a note each.

        Deduplication and transactions read their cursors when a topic is loaded; nobody waits for
        a message of theirs.
        """
        for window in windows:
            last = window.window.last
            cursors = (last.internal and last.internal.cursors) or {}
            if last.topic.subscriptions is None or any(True for _ in window.judged()):
                continue
            became = without_subscription([window])
            if became is not None and not cursors:
                yield window.full_topic, f"{_topic(window)} has no subscription: {became}"
            elif cursors:
                names = listed(sorted(cursors), NAMED_MOST)
                yield (
                    window.full_topic,
                    f"{_topic(window)} has no subscription, only cursors that the broker keeps "
                    f"for itself, and nobody waits for their messages: {names}",
                )

    def has(self, window: TopicWindow) -> bool:
        """Whether one of its subscriptions is requested."""
        return any(True for _ in self.wanted(window))

    def wanted(self, window: TopicWindow) -> Iterator[Observed]:
        """The requested subscriptions of it."""
        for observed in window.judged():
            if not (self.process is None or self.every or self.process.concerns(observed)):
                continue
            if self.subscription in (None, observed.subscription):
                yield observed

    def verdict(self, observed: Observed, glance: Glance | None = None) -> Diagnosis:
        """On one subscription. glance: at its statistics, where there was one."""
        view, places = glance or (by_stats.subscription_view(observed), None)
        wire = self._wire(observed)
        if wire is not None:
            view, places = merged(view, by_wire.subscription_view(wire)), None
        sources: list[ReportedBy] = [*_reported_by(observed)]
        sources += [] if wire is None else [self.wires_by]
        view = self.dumped(view if self.process is None else self.process.joined(view))
        sources += ["process"] if PROCESS in view.sources else []
        diagnosis = self.diagnosed(view, sources, places)
        if self.earlier is None:
            return diagnosis
        return replace(diagnosis, after=self.earlier.after(observed, diagnosis))

    def diagnosed(
        self,
        view: SubscriptionView,
        sources: Iterable[ReportedBy],
        places: Sequence[Place] | None = None,
    ) -> Diagnosis:
        """On one view. sources: which reported it. places: of the messages, if known already."""
        kept = view if self.keep_views else None
        found = diagnose(view, self.causes, self.limits, places)
        if found.status != "healthy" and (placed := self._placed(view)) is not view:
            found = diagnose(placed, self.causes, self.limits)
        found = replace(found, sources=tuple(sources), view=kept)
        return replace(found, suppressed=self.suppress(found), usual=self.usual(found))

    def _placed(self, view: SubscriptionView) -> SubscriptionView:
        """With which consumers are on this machine, so that they can be examined."""
        ours = {each.address for each in view.consumers or ()} & self.addresses()
        if not ours:
            return view
        consumers = (replace(each, here=each.address in ours) for each in view.consumers or ())
        return replace(view, consumers=tuple(consumers))

    def judged(self, windows: Iterable[TopicWindow]) -> Iterator[tuple[Observed, Diagnosis]]:
        """Each subscription that is requested, with its verdict."""
        for window in windows:
            for observed in self.wanted(window):
                yield observed, self.verdict(observed)

    def _wire(self, observed: Observed) -> Subscription | None:
        """The same subscription in the trace; a file may not name its topic whole, or at all."""
        wires = self.wires if self.process is None else self.process.wires
        if self.captured is not None:
            wires = self.captured()
        named = [wire for wire in wires if wire.subscription == observed.subscription]
        called = [wire for wire in named if is_called(wire.full_topic, observed.full_topic)]
        if observed.persistent is None and len(named) == 1:
            return named[0]
        return called[0] if len(called) == 1 else None


@dataclass(slots=True)
class Triage:
    """Tells which topics need no watching, and keeps the newest one's verdicts: they come next.

    Most topics of a fleet need none, and the causes are what takes its time.
    """

    judge: Judge
    within_seconds: float  # what moved so shortly before a reading is moving
    _window: TopicWindow | None = field(default=None, init=False)
    _verdicts: list[Diagnosis] = field(default_factory=list, init=False)

    def needs_no_watching(self, window: TopicWindow) -> bool:
        """Whether one reading shows that nothing is wrong, suspected or standing still.

        Of one process all are looked at as long as it is: no first glance is enough.
        """
        if self.judge.process is not None:
            return not self.judge.has(window)
        wanted = list(self.judge.wanted(window))
        if replicates(window.window.last.topic):
            return False
        views = [by_stats.subscription_view(each) for each in wanted]
        glances = [(view, occupied(view)) for view in views]
        if not all(is_settled(*each, self.within_seconds) for each in glances):
            return False  # before the causes are checked, which takes most of the time
        pairs = zip(wanted, glances, strict=True)
        self._window, self._verdicts = window, [self.judge.verdict(*pair) for pair in pairs]
        return all(each.status == "healthy" and not each.suspects for each in self._verdicts)

    def verdicts(self, window: TopicWindow) -> list[Diagnosis]:
        """Returns a verdict on each requested subscription."""
        return self._verdicts if window is self._window else list(self.judge.verdicts(window))


def replicates(topic: TopicStats) -> bool:
    """Whether a replicator of the topic has entries to send, or is not connected."""
    each = (topic.replication or {}).values()
    return any((one.replication_backlog or 0) > 0 or one.connected is False for one in each)


def _reported_by(observed: Observed) -> Iterator[ReportedBy]:
    """Which of the broker's documents reported something on it."""
    if any(stats not in (None, NOTHING) for stats in observed.course.values):
        yield "stats"
    if any(cursor is not None for cursor in observed.cursor.values):
        yield "internal-stats"


def is_blocked(observed: Observed) -> bool:
    """Whether the limit of unacknowledged messages held it in every sample, and nothing moved."""
    course = observed.course
    if course.broken or course.growth(lambda s: s.msg_out_counter) != 0:
        return False
    return all(
        stats is not None
        and (
            stats.blocked_subscription_on_unacked_msgs
            or (
                bool(stats.consumers)
                and all(c.blocked_consumer_on_unacked_msgs for c in stats.consumers or ())
            )
        )
        for stats in course.values
    )


def named(those: Sequence[Subscription | Observed | SubscriptionView]) -> str:
    """The first of them, and how many more there are."""
    return listed([f"{each.subscription} on {each.full_topic}" for each in those], NAMED_MOST, ", ")


def _topic(window: TopicWindow) -> str:
    """The topic in words; a file may not name its topic."""
    return f"topic {window.full_topic}" if "/" in window.full_topic else "the topic"
