"""Judges named topics of a live broker over one window."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from pulsar_doctor.broker.admin import Admin, topic_name
from pulsar_doctor.broker.samples import Recorder, StatsAnswer
from pulsar_doctor.broker.sampling import Sampled, SamplingPlan, Watch
from pulsar_doctor.broker.sampling.joining import LastSamples
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.partitions import among_partitions
from pulsar_doctor.checkup.costs import with_costs
from pulsar_doctor.checkup.deciding import Deciding, Patience
from pulsar_doctor.checkup.identity import identified
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.named_topics import kinds, sample_named
from pulsar_doctor.checkup.one_by_one import Progress, Stopping
from pulsar_doctor.checkup.result import Checkup, Cluster, Source
from pulsar_doctor.checkup.topic_notes import topic_notes
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.errors import DoctorError

Result = TypeVar("Result")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LiveRequest:
    """How a live broker is read."""

    settings: Settings
    plan: SamplingPlan
    concurrency: int = 32
    save: Path | None = None  # keep the readings there
    say: Say = field(default=lambda _: None)
    progress: Progress | None = None
    decide_seconds: float | None = None  # sample undecided ones until so long after the beginning
    kept: LastSamples | None = None  # from the rounds before this one
    # takes each stall that the first reading shows
    at_once: Callable[[Diagnosis], None] | None = None

    def admin(self) -> Admin:
        """The broker's REST API."""
        return Admin(self.settings, concurrency=self.concurrency)

    def of_samples(self, done: int, planned: int) -> None:
        """Tells how many samples there are."""
        if self.progress:
            self.progress(done, planned, "samples")

    def on_first(self, judge: Judge) -> Callable[[list[TopicWindow]], None] | None:
        """Tells of the stalls that a first reading shows, if anybody wants to know so early."""
        at_once = self.at_once
        if at_once is None:
            return None

        def judge_first(windows: list[TopicWindow]) -> None:
            for diagnosis in (each for window in windows for each in judge.verdicts(window)):
                if diagnosis.status == "stalled":
                    at_once(diagnosis)

        return judge_first

    def no_more_progress(self) -> None:
        """Takes the bar away, also after an error: what follows needs the terminal."""
        if self.progress:
            self.progress.stop()


@dataclass(slots=True)
class CountedReadings:
    """Counts readings on their way to be kept. Changes in place."""

    keep: Callable[[StatsAnswer], None] | None
    count: int = 0

    def __call__(self, reading: StatsAnswer) -> None:
        """One reading."""
        self.count += 1
        if self.keep:
            self.keep(reading)

    def nothing(self) -> bool:
        """Whether there was none so far."""
        return not self.count


def of_topics(request: LiveRequest, topics: Sequence[str], judge: Judge) -> Checkup:
    """The verdicts on topics of a live broker, sampled over one window.

    What could not be read is in `unreachable`. Raises DoctorError where all could be read and none
    has the subscription that is requested, InputError for what is no name.
    """
    admin, _ = request.admin(), [topic_name(topic) for topic in topics]  # before a file is replaced
    with ExitStack() as stack:
        recorder = stack.enter_context(Recorder(request.save)) if request.save else None
        stack.callback(request.no_more_progress)
        read = CountedReadings(recorder.add if recorder else None)
        first = request.on_first(judge)
        watch = Watch(read, judge.is_decided, request.of_samples, first=first)
        stopping = Stopping(read.nothing)
        sampled, decided, cluster = _run(_sample(admin, topics, request, judge, watch, stopping))
        if recorder:
            for window in sampled.windows:
                version = cluster.broker_version
                recorder.limits(window.full_topic, window.limits, version, window)
    windows = among_partitions(tuple(by_version(sampled.windows, cluster)))
    sampled = replace(sampled, windows=windows)
    if request.kept is not None:
        sampled = replace(sampled, windows=tuple(map(request.kept.window, sampled.windows)))
    for note in sampled.notes:
        request.say(note)
    say_missing(judge.missing(sampled.windows), request, alone=not sampled.unread)
    checkup = _checkup(sampled, decided or list(_verdicts(sampled, judge)), judge)
    checkup.cluster = cluster
    checkup.stopped = stopping.requested
    checkup.not_loaded += sampled.not_loaded
    checkup.unreachable += [(unread.topic, unread.reason) for unread in sampled.unread]
    checkup.unreachable += judge.not_compared()
    checkup.notes += kinds(sampled)
    checkup.notes += judge.gone(sampled.windows)
    checkup.notes += topic_notes(sampled.windows).of_letters(judge.subscription)
    return checkup


@contextmanager
def kept_samples(
    request: LiveRequest, topics: Sequence[str], judge: Judge, purpose: str
) -> Iterator[tuple[Checkup, Path]]:
    """The verdicts, and meanwhile a file of --save with the samples. purpose: what they are for.

    Raises DoctorError where nothing was judged, and as `of_topics` does.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "samples.jsonl.gz"
        checkup = of_topics(replace(request, save=file), topics, judge)
        if not checkup.diagnoses:
            reasons = "; ".join(
                why if topic in why else f"{topic}: {why}" for topic, why in checkup.unreachable
            )
            raise DoctorError(reasons or f"there is no subscription: nothing to {purpose}")
        yield checkup, file


def by_version(windows: Iterable[TopicWindow], cluster: Cluster) -> Iterator[TopicWindow]:
    """With what brokers of that version do by default."""
    for each in windows:
        limits = each.limits.on(cluster.broker_version)
        yield each if limits is each.limits else replace(each, limits=limits)


def say_missing(missing: str | None, request: LiveRequest, *, alone: bool) -> None:
    """Raises DoctorError with it where that is all there is to say.

    alone: nothing was unreadable; otherwise what could not be read may have the subscription.
    """
    if missing and alone:
        raise DoctorError(missing)
    if missing:
        request.say(missing)


def _run(work: Coroutine[None, None, Result]) -> Result:
    """Runs it to its end.

    Its task ends with nothing: asyncio writes the result of a task into a text when it gives
    SIGINT back, which takes seconds for thousands of subscriptions.
    """
    results: list[Result] = []

    async def kept() -> None:
        results.append(await work)

    asyncio.run(kept())
    return results[0]


async def _sample(
    admin: Admin,
    topics: Sequence[str],
    request: LiveRequest,
    judge: Judge,
    watch: Watch,
    stopping: Stopping,
) -> tuple[Sampled, list[Diagnosis], Cluster]:
    """What was read, the verdicts where it was read again, and which cluster answered."""
    async with admin, identified(admin) as identify:
        deciding = None
        if request.decide_seconds is not None:
            deciding = deciding_of(request, admin, judge, watch)
            stopping = deciding.stopping
        # In the rounds of a watch Ctrl-C ends the watch.
        unwatched = request.kept is None or deciding is not None
        with stopping.window() if unwatched else nullcontext() as enough:
            sampled = await sample_named(admin, topics, request.plan, replace(watch, enough=enough))
        windows = sampled.windows
        if deciding is not None:
            deciding.windows = list(among_partitions(windows))
            await deciding.run()
            windows = tuple(deciding.windows)
        windows = tuple(await with_costs(admin, windows))
        if deciding is not None:
            deciding.windows = list(windows)
        verdicts = [] if deciding is None else list(deciding.verdicts())
        return replace(sampled, windows=windows), verdicts, await identify()


def deciding_of(request: LiveRequest, admin: Admin, judge: Judge, watch: Watch) -> Deciding:
    assert request.decide_seconds is not None
    patience = Patience(request.decide_seconds, request.say, watch.progress, watch.keep)
    began = asyncio.get_running_loop().time()
    return Deciding(admin, judge, request.plan, patience, [], began)


def _verdicts(sampled: Sampled, judge: Judge) -> Iterator[Diagnosis]:
    wanted = [observed for window in sampled.windows for observed in judge.wanted(window)]
    if judge.process is not None:
        judge.process.meet(wanted)
    return map(judge.verdict, wanted)


def _checkup(sampled: Sampled, diagnoses: list[Diagnosis], judge: Judge) -> Checkup:
    windows = sampled.windows
    samples = max((len(each.window.samples) for each in windows), default=0)
    spans = [each.window.span_ms or 0 for each in windows]
    source: Source = "broker and trace" if judge.wires or judge.captured else "broker"
    return Checkup(source, diagnoses, max(spans, default=0) / 1000, samples)
