"""Samples undecided topics again, the cheapest step first, until they are decided (--decide).

Only reads, and only topics that have just been read: first their ledgers, cursors and limits, where
these
were not requested, then over longer and longer windows, which add to the samples that are
there. Ctrl-C ends it with what is known by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pulsar_doctor.broker.admin import Admin
from pulsar_doctor.broker.samples import StatsAnswer
from pulsar_doctor.broker.sampling import Sampled, SamplingPlan, Watch, sample
from pulsar_doctor.broker.sampling.joining import joined
from pulsar_doctor.broker.stats.observed import NO_LIMITS, TopicWindow
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.one_by_one import Stopping
from pulsar_doctor.diagnosis.answers import DecideStep
from pulsar_doctor.diagnosis.short_form import in_short, place, suspected
from pulsar_doctor.diagnosis.verdict import Diagnosis, VerdictKey
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import listed, many

TOPICS_MOST = 512  # looked at again: as many as a fleet samples in one window
FIRST_SECONDS = 10.0  # the next window is twice as long
LEAST_SECONDS = 2.0  # a shorter one brings nothing
READING_SECONDS = 1.0  # about what one reading takes, as it is announced
NAMED_MOST = 3
LINES_MOST = 20  # verdicts that turned, each with a line


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to keep sampling, in all."""

    within_seconds: float
    say: Callable[[str], None]  # called before and after each step
    progress: Callable[[int, int], None] | None = None
    keep: Callable[[StatsAnswer], None] | None = None


@dataclass(slots=True)
class Deciding:
    """Samples the topics that have unknown verdicts. Changes in place."""

    admin: Admin
    judge: Judge
    plan: SamplingPlan
    patience: Patience
    windows: list[TopicWindow]  # of topics that were just read
    began: float  # when the first sample did, by the event loop's clock
    stopping: Stopping = field(default_factory=Stopping)
    _taken: dict[VerdictKey, list[DecideStep]] = field(default_factory=dict, init=False)

    async def run(self) -> None:
        """Makes one step after the other, until all is decided or the time is over."""
        for kind, seconds in self._steps():
            open_ = [w for w in self.windows if any(self._unknown(w))][:TOPICS_MOST]
            if kind == CURSORS:
                open_ = [each for each in open_ if lacks_something(each)]
                if not open_:
                    continue
            if not open_ or self.stopping.requested:
                break
            await self._step(kind, seconds, open_)
        self._say_what_is_left()

    def verdicts(self) -> Iterator[Diagnosis]:
        """The verdicts on all windows, each with the samples that were taken for it."""
        for window in self.windows:
            for diagnosis in self.judge.verdicts(window):
                steps = tuple(self._taken.get((window.full_topic, diagnosis.subscription), ()))
                yield replace(diagnosis, decide_steps=steps)

    def _steps(self) -> Iterator[tuple[str, float]]:
        """The steps that are due; each gets the time that is left."""
        if self._left() >= READING_SECONDS:
            yield CURSORS, 0.0
        length = FIRST_SECONDS
        while (left := self._left()) >= LEAST_SECONDS:
            # What would be left over is no window of its own.
            yield WINDOW, left if left < length + LEAST_SECONDS else length
            length *= 2

    def _unknown(self, window: TopicWindow) -> Iterator[Diagnosis]:
        return (each for each in self.judge.verdicts(window) if each.status == "unknown")

    async def _step(self, kind: str, seconds: float, open_: Sequence[TopicWindow]) -> None:
        before = {
            (w.full_topic, each.subscription): each for w in open_ for each in self._unknown(w)
        }
        step = kind.format(seconds=duration(seconds)) if seconds else kind
        about = duration(seconds or READING_SECONDS)
        self.patience.say(f"{_named(before)}: not decided; {step}, about {about}")
        since = self._now()
        sampled = await self._look(seconds, open_)
        self._take(sampled)
        took = round(self._now() - since, 3)
        self._tell(before, step, took)

    async def _look(self, seconds: float, open_: Sequence[TopicWindow]) -> Sampled:
        """One reading of each, or a window, which ends when all is decided."""
        plan = replace(self.plan, window_seconds=seconds, as_named=True, internal=True)
        known = {window.full_topic: window for window in open_}

        def decisive(windows: list[TopicWindow]) -> bool:
            return not any(any(self._unknown(joined(known[w.full_topic], w))) for w in windows)

        with self.stopping.window() as enough:
            watch = Watch(self.patience.keep, decisive, self.patience.progress, enough)
            return await sample(self.admin, list(known), plan, watch)

    def _take(self, sampled: Sampled) -> None:
        """Adds the samples. What could not be read again stays as it was."""
        new = {window.full_topic: window for window in sampled.windows}
        self.windows = [
            joined(window, new[window.full_topic]) if window.full_topic in new else window
            for window in self.windows
        ]
        for unread in sampled.unread:
            self.patience.say(f"{unread.topic} could not be read again: {unread.reason}")

    def _tell(self, before: dict[VerdictKey, Diagnosis], step: str, took: float) -> None:
        """What a step has brought, for each verdict that it was made for."""
        lines, elapsed = [], duration(self._now() - self.began)
        for window in self.windows:
            for now in self.judge.verdicts(window):
                key = window.full_topic, now.subscription
                if key in before:
                    look = DecideStep(step, took, before[key].status, now.status)
                    self._taken.setdefault(key, []).append(look)
                    if now.status != "unknown":
                        lines.append(f"{place(key)}: unknown -> {in_short(now)}; {elapsed}")
        for line in lines[:LINES_MOST]:
            self.patience.say(line)
        if len(lines) > LINES_MOST:
            self.patience.say(f"and {len(lines) - LINES_MOST} more are decided")

    def _say_what_is_left(self) -> None:
        left = [each for window in self.windows for each in self._unknown(window)]
        why = "stopped" if self.stopping.requested else "the time is over (see --decide-within)"
        if len(left) > NAMED_MOST:
            more = f"; at most {TOPICS_MOST} topics are looked at" if self._too_many() else ""
            self.patience.say(f"{_named(each.key for each in left)}: still unknown, {why}{more}")
            return
        for each in left:
            self.patience.say(f"{place(each.key)}: still unknown, {why}{suspected(each)}")

    def _too_many(self) -> bool:
        return sum(any(self._unknown(window)) for window in self.windows) > TOPICS_MOST

    def _left(self) -> float:
        return self.patience.within_seconds - (self._now() - self.began)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


CURSORS = "reads ledgers, cursors and limits"
WINDOW = "watches {seconds} more"


def lacks_something(window: TopicWindow) -> bool:
    """Whether its ledgers and cursors, or what the cluster allows, were not reported so far."""
    return window.window.last.internal is None or window.limits == NO_LIMITS


def _named(keys: Iterable[VerdictKey]) -> str:
    names = [place(key) for key in keys]
    return (
        listed(names, NAMED_MOST) if len(names) <= NAMED_MOST else many(len(names), "subscription")
    )
