"""One run of stall-check: from a trace, from files or from a live broker to the verdicts.

A fleet's verdicts are handed out one by one, so that ten thousand subscriptions need no more memory
than one wave of those that look suspicious.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from pulsar_doctor.admin import Admin, topic_name
from pulsar_doctor.admin.topics import namespace_path
from pulsar_doctor.consumers import Subscription
from pulsar_doctor.diagnosis import Diagnosis, Evidence, Rule, RuleLimits, diagnose
from pulsar_doctor.errors import DoctorError, MissingExtra
from pulsar_doctor.fleet import Fleet, Scope
from pulsar_doctor.report.checkup import Checkup
from pulsar_doctor.samples import Recorder
from pulsar_doctor.samples import read as read_files
from pulsar_doctor.samples.reading import is_called
from pulsar_doctor.sampling import Plan, Sampled, Watch, sample
from pulsar_doctor.settings import Settings
from pulsar_doctor.stats.observed import Observed, TopicWindow

if TYPE_CHECKING:
    from pulsar_doctor.trace.reading import Trace

NAMED_MOST = 10  # of what is there, where something else was asked for
AT_ONCE = 256  # verdicts of a fleet: to enter the event loop takes as long as to judge

REST = "(the rest)"  # of a fleet, in place of a topic's name

Say = Callable[[str], None]


class Progress(Protocol):
    """Is told how many are done, how many are planned, and of what."""

    def __call__(self, done: int, planned: int, what: str) -> None:
        """One step."""

    def stop(self) -> None:
        """No more steps will come; safe to be called twice."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Asks the rules. subscription: only this one; None: all."""

    rules: Sequence[Rule]
    limits: RuleLimits
    subscription: str | None = None

    def verdicts(self, window: TopicWindow) -> Iterator[Diagnosis]:
        """On each subscription of a topic or partition that is asked for."""
        return map(self._verdict, self._asked(window))

    def is_decided(self, windows: Sequence[TopicWindow]) -> bool:
        """Whether the broker's own flags have said enough: more samples would not change it.

        A flag alone is not enough: one that has just been set needs the rest of the window.
        """
        asked = [observed for window in windows for observed in self._asked(window)]
        return bool(asked) and all(
            is_blocked(observed) and self._verdict(observed).status == "stalled"
            for observed in asked
        )

    def missing(self, windows: Sequence[TopicWindow]) -> str | None:
        """What to say where there are windows and none has the subscription that is asked for."""
        if self.subscription is None or not windows:
            return None
        if any(True for window in windows for _ in self._asked(window)):
            return None
        there = [observed for window in windows for observed in window.subscriptions()]
        has = f"there is {_named(there)}" if there else "there is none at all"
        return f"nothing that was read has a subscription {self.subscription!r}; {has}"

    def _asked(self, window: TopicWindow) -> Iterator[Observed]:
        for observed in window.subscriptions():
            if self.subscription in (None, observed.subscription):
                yield observed

    def _verdict(self, observed: Observed) -> Diagnosis:
        return diagnose(Evidence(stats=observed), self.rules, self.limits)


@dataclass(slots=True)
class Triage:
    """Tells which topics are quiet, and keeps the newest one's verdicts: they are asked for next.

    Most topics of a fleet are quiet, and the rules are what takes its time.
    """

    judge: Judge
    _window: TopicWindow | None = field(default=None, init=False)
    _verdicts: list[Diagnosis] = field(default_factory=list, init=False)

    def is_healthy(self, window: TopicWindow) -> bool:
        """Whether nothing is wrong or in doubt with any of its subscriptions."""
        self._window, self._verdicts = window, list(self.judge.verdicts(window))
        return all(diagnosis.status == "healthy" for diagnosis in self._verdicts)

    def verdicts(self, window: TopicWindow) -> list[Diagnosis]:
        """On each subscription that is asked for."""
        return self._verdicts if window is self._window else list(self.judge.verdicts(window))


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


@dataclass(frozen=True, slots=True)
class Asking:
    """How a live broker is asked. save: keep the readings there."""

    settings: Settings
    plan: Plan
    concurrency: int = 32
    save: Path | None = None
    say: Say = field(default=lambda _: None)
    progress: Progress | None = None

    def admin(self) -> Admin:
        """The broker's REST API."""
        return Admin(self.settings, concurrency=self.concurrency)

    def of_samples(self, done: int, planned: int) -> None:
        """Tells how many samples there are."""
        if self.progress:
            self.progress(done, planned, "samples")

    def no_more_progress(self) -> None:
        """Takes the bar away, also after an error: what follows needs the terminal."""
        if self.progress:
            self.progress.stop()


def of_trace(
    folder: Path, topics: Sequence[str], judge: Judge, *, say: Say, say_more: Say
) -> Checkup:
    """The verdicts on what went over the wire. Raises TraceError, and DoctorError likewise."""
    trace = _open(folder)
    for note in trace.notes:
        say(f"pulsar-doctor: {note}")
    timeline = trace.timeline()
    say_more(f"{timeline.next_seq} commands of {len(timeline.consumers)} consumers")
    wires = _asked_for(folder, timeline.subscriptions(), topics, judge.subscription)
    diagnoses = [diagnose(Evidence(wire), judge.rules, judge.limits) for wire in wires]
    began_ns = trace.meta.clocks.get("mono_ns", timeline.now_ns)
    return Checkup("trace", diagnoses, max(0, timeline.now_ns - began_ns) / 1e9)


def _open(folder: Path) -> Trace:
    try:
        from pulsar_doctor.sealing import open_trace
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("pyarrow", "google"):
            raise MissingExtra("trace", "reading a trace") from None
        raise
    return open_trace(folder)


def _asked_for(
    folder: Path, wires: Sequence[Subscription], topics: Sequence[str], subscription: str | None
) -> list[Subscription]:
    """What the arguments name; DoctorError where one of them names nothing."""
    if not wires:
        raise DoctorError(f"{folder} has no consumer: nothing to judge; was its client on the tap?")
    of_topics = [w for w in wires if not topics or any(is_called(_full(w), t) for t in topics)]
    found = [wire for wire in of_topics if subscription in (None, wire.subscription)]
    strange = [repr(t) for t in topics if not any(is_called(_full(w), t) for w in wires)]
    if not strange and found:
        return found
    what = f"topic {', '.join(strange)}" if strange else f"subscription {subscription!r}"
    where = " of this topic" if topics and not strange else ""
    raise DoctorError(f"{folder} has no {what}{where}; it has {_named(wires)}")


def _named(those: Sequence[Subscription | Observed]) -> str:
    names = [f"{each.subscription} on {_full(each)}" for each in those]
    more = f" and {len(names) - NAMED_MOST} more" if len(names) > NAMED_MOST else ""
    return f"{', '.join(names[:NAMED_MOST])}{more}"


def _full(of: Subscription | Observed | TopicWindow) -> str:
    return of.topic if of.partition is None else f"{of.topic}-partition-{of.partition}"


def of_files(
    stats_files: Sequence[str],
    internal_files: Sequence[str],
    judge: Judge,
    *,
    topics: Sequence[str],
    at_ms: int | None,
    interval_seconds: float,
    say: Say,
) -> Checkup:
    """The verdicts on what files hold. Raises InputError, and DoctorError where it is not there."""
    read = read_files(
        stats_files,
        internal_files,
        topics=topics,
        at_ms=at_ms,
        interval_seconds=interval_seconds,
    )
    for note in read.notes:
        say(note)
    missing = judge.missing(read.windows)
    if missing:
        raise DoctorError(missing)
    return _checkup("files", read.windows, judge, read.samples)


def of_topics(asking: Asking, topics: Sequence[str], judge: Judge) -> Checkup:
    """The verdicts on topics of a live broker, sampled over one window.

    What could not be read is in `unreachable`. Raises DoctorError where all could be read and none
    has the subscription that is asked for, InputError for what is no name.
    """
    admin, _ = asking.admin(), [topic_name(topic) for topic in topics]  # before a file is replaced
    with ExitStack() as stack:
        recorder = stack.enter_context(Recorder(asking.save)) if asking.save else None
        stack.callback(asking.no_more_progress)
        keep = recorder.add if recorder else None
        watch = Watch(keep, judge.is_decided, asking.of_samples)
        sampled = asyncio.run(_sample(admin, topics, asking.plan, watch))
        if recorder:
            for window in sampled.windows:
                recorder.limits(_full(window), window.limits)
    for note in sampled.notes:
        asking.say(note)
    _say_missing(judge.missing(sampled.windows), asking, alone=not sampled.unread)
    samples = max((len(each.window.samples) for each in sampled.windows), default=0)
    checkup = _checkup("broker", sampled.windows, judge, samples)
    checkup.not_loaded += sampled.not_loaded
    checkup.unreachable += [(unread.topic, unread.reason) for unread in sampled.unread]
    return checkup


def of_fleet(asking: Asking, scope: Scope, judge: Judge) -> Checkup:
    """The verdicts on whole namespaces, as they come; what could not be read is told by the end.

    Raises DoctorError where nothing can be known of the cluster, or where all could be read and no
    topic has the subscription that is asked for. InputError for what is no namespace.
    """
    plan, _ = asking.plan, [namespace_path(each) for each in scope.namespaces]
    checkup = Checkup("broker", (), plan.window_seconds, plan.samples)
    diagnoses = _of_fleet(asking, scope, judge, checkup)
    first = list(islice(diagnoses, 1))  # what is refused is refused before a report begins
    checkup.diagnoses = chain(first, _to_the_end(diagnoses, checkup)) if first else []
    return checkup


def _of_fleet(asking: Asking, scope: Scope, judge: Judge, checkup: Checkup) -> Iterator[Diagnosis]:
    found, admin = False, asking.admin()  # wrong credentials are told before a file is replaced
    with ExitStack() as stack:
        recorder = stack.enter_context(Recorder(asking.save)) if asking.save else None
        stack.callback(asking.no_more_progress)
        triage, keep = Triage(judge), recorder.add if recorder else None
        fleet = Fleet(admin, scope, triage.is_healthy, asking.plan, keep, asking.progress)
        for diagnosis in _out_of_the_loop(_judged(fleet, triage, recorder)):
            found = True
            yield diagnosis
    for note in fleet.notes:
        asking.say(note)
    checkup.not_loaded += fleet.not_loaded
    checkup.unreachable += [(unread.topic, unread.reason) for unread in fleet.unread]
    if judge.subscription is not None and not found:
        _say_missing(_nowhere(judge.subscription, fleet), asking, alone=not fleet.unread)


def _nowhere(subscription: str, fleet: Fleet) -> str:
    asleep = len(fleet.not_loaded)
    not_read = f"; {asleep} that no broker has loaded were not read (see --load-topics)"
    missing = f"no topic that was read has a subscription {subscription!r}"
    return missing + not_read if asleep else missing


def _to_the_end(diagnoses: Iterator[Diagnosis], checkup: Checkup) -> Iterator[Diagnosis]:
    """The verdicts; what fails on the way is told in the report, which must come to its end."""
    try:
        yield from diagnoses
    except DoctorError as error:
        checkup.unreachable.append((REST, str(error)))


def _say_missing(missing: str | None, asking: Asking, *, alone: bool) -> None:
    """Raises DoctorError with it where that is all there is to say.

    alone: nothing was unreadable; otherwise what could not be read may have the subscription.
    """
    if missing and alone:
        raise DoctorError(missing)
    if missing:
        asking.say(missing)


async def _judged(
    fleet: Fleet, triage: Triage, recorder: Recorder | None
) -> AsyncGenerator[Diagnosis, None]:
    async with fleet.admin, aclosing(fleet.windows()) as windows:
        async for window in windows:
            if recorder:
                recorder.limits(_full(window), window.limits)
            for diagnosis in triage.verdicts(window):
                yield diagnosis


def _out_of_the_loop(coming: AsyncGenerator[Diagnosis, None]) -> Iterator[Diagnosis]:
    """What an event loop gives, outside of it; Ctrl-C ends both."""
    with asyncio.Runner() as runner:
        try:
            error: DoctorError | None = None
            while error is None:
                some, error = runner.run(_some(coming))
                yield from some
                if not some:
                    break
        finally:
            runner.run(coming.aclose())
    if error is not None:
        raise error


async def _some(
    coming: AsyncIterator[Diagnosis],
) -> tuple[list[Diagnosis], DoctorError | None]:
    """The next few, none at the end; and what came instead of another one."""
    some: list[Diagnosis] = []
    try:
        async for diagnosis in coming:
            some.append(diagnosis)
            if len(some) == AT_ONCE:
                break
    except DoctorError as error:
        return some, error
    return some, None


async def _sample(admin: Admin, topics: Sequence[str], plan: Plan, watch: Watch) -> Sampled:
    async with admin:
        return await sample(admin, topics, plan, watch)


def _checkup(
    source: Literal["broker", "files"],
    windows: Sequence[TopicWindow],
    judge: Judge,
    samples: int,
) -> Checkup:
    diagnoses = [diagnosis for window in windows for diagnosis in judge.verdicts(window)]
    spans = [window.window.span_ms or 0 for window in windows]
    return Checkup(source, diagnoses, max(spans, default=0) / 1000, samples)
