"""Runs the window: samples every topic at the same times until the window ends.

Beats lie on a steady clock, the first at once, the last at the end of the window. Topics do not
wait for each other: one that answers late leaves out the beats that it missed, so that readings
never bunch up. A reading that fails is left out; the one at the end of the window is tried again
for a little while, because a broker that restarts is back after some seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pulsar_doctor.broker.admin import Admin, TopicName, topic_name
from pulsar_doctor.broker.admin.topics import SEGMENT
from pulsar_doctor.broker.samples import StatsAnswer
from pulsar_doctor.broker.sampling.beside import LimitQuestions, placed, with_transactions
from pulsar_doctor.broker.sampling.named import NamedTopic
from pulsar_doctor.broker.sampling.plan import Sampled, SamplingPlan, Watch
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.errors import DoctorError

GRACE_SECONDS = 3.0  # after the window, for a broker that is not back yet
FEW_TOPICS = 8  # up to here ledgers and cursors are read with every sample
DECIDED_BY = 3  # samples; fewer decide nothing
EARLY_SECONDS = 0.001  # a sleep may end this much before its time

DEFAULT = SamplingPlan()
NOBODY = Watch()


async def sample(
    admin: Admin, topics: Sequence[str], plan: SamplingPlan = DEFAULT, watch: Watch = NOBODY
) -> Sampled:
    """Reads topics, all in one window. Loads those that no broker has loaded.

    topics: names as people write them; the partitions of a partitioned topic are read with it.
    Raises InputError for what is no name. What cannot be read is in `Sampled.unread`.
    """
    names = list(dict.fromkeys(topic_name(topic) for topic in topics))
    limits = LimitQuestions(admin, wanted=plan.limits)
    try:
        limits.ask_cluster()
        named = await asyncio.gather(*(_named(admin, name, plan) for name in names))
        run = _Run(_apart(named), plan, watch, limits)
        await run.until_the_end()
        await limits.settle()
    finally:
        limits.give_up()
    sampled = await placed(admin, run.sampled())
    return await with_transactions(admin, sampled) if plan.limits else sampled


async def _named(admin: Admin, name: TopicName, plan: SamplingPlan) -> NamedTopic:
    """The topic with the number of its partitions, or with the reason why that is not known."""
    if name.domain == SEGMENT:
        return NamedTopic(admin, name, internal=False)  # no broker reports them
    if plan.as_named or name.of_all_partitions != name:
        return NamedTopic(admin, name, internal=plan.internal)
    try:
        partitions = await admin.partitions(str(name))
        return NamedTopic(admin, name, partitions, internal=plan.internal)
    except DoctorError as error:
        unknown = NamedTopic(admin, name)
        unknown.lose(error)
        unknown.finished = True
        return unknown


def _apart(named: Sequence[NamedTopic]) -> list[NamedTopic]:
    """Without the partitions that are read with their topic."""
    whole = {each.name for each in named if each.partitions is not None}
    return [
        each
        for each in named
        if each.name.of_all_partitions not in whole or each.partitions is not None
    ]


class _Run:
    """One window over some topics. Changes in place."""

    def __init__(
        self, named: Sequence[NamedTopic], plan: SamplingPlan, watch: Watch, limits: LimitQuestions
    ) -> None:
        self._named = named
        self._plan = plan
        self._watch = watch
        self._limits = limits
        self._few = len(named) <= FEW_TOPICS
        self._begin = asyncio.get_running_loop().time()
        self._end = self._begin + plan.window_seconds
        self._beats = dict.fromkeys(named, 0)  # that have passed, each topic
        self._decided: set[NamedTopic] = set()
        self._enough = watch.enough or asyncio.Event()

    async def until_the_end(self) -> None:
        """Reads all topics at once. Whatever is wrong with one of them is noted there."""
        following = [asyncio.create_task(self._follow(named)) for named in self._named]
        try:
            await asyncio.gather(*following)
        finally:
            for task in following:
                task.cancel()

    def sampled(self) -> Sampled:
        """What came of it; `limits` must have settled."""
        return Sampled(
            tuple(window for named in self._named for window in self._windows(named)),
            tuple(unread for named in self._named for unread in named.unread()),
            tuple(full for named in self._named for full in named.not_loaded()),
            tuple(note for named in self._named for note in named.notes()),
            {str(named.name): named.partitions for named in self._named},
        )

    def _windows(self, named: NamedTopic) -> list[TopicWindow]:
        """With the limits that are known by now."""
        return list(named.windows(self._limits.reported(str(named.name.of_all_partitions))))

    async def _follow(self, named: NamedTopic) -> None:
        """One topic, from its first reading to its last."""
        while not named.finished:
            began = self._now()
            self._keep(await self._read(named, began))
            named.finished = self._is_over(named, began)
            self._passed(named, began)
            if not named.finished:
                named.finished = await self._is_enough_before(self._beat_after(began))
        if self._enough.is_set() and named.lacks_internal:
            self._keep(await named.read(internal=True, oldest=True))
        self._tell(named, self._plan.samples)

    async def _read(self, named: NamedTopic, began: float) -> list[StatsAnswer]:
        if not named.is_read:
            readings = await named.read_first()
        else:
            internal, last = self._internal_now(named, began), self._is_end(began)
            readings = await named.read(internal=internal, oldest=last)
        if named.wants_limits:
            self._limits.ask(str(named.name.of_all_partitions))
        return readings

    def _internal_now(self, named: NamedTopic, began: float) -> bool:
        """Few topics: always where it matters. Many: in the first, a middle, the last sample."""
        middle = self._beats[named] >= self._plan.samples // 2
        due = self._few or self._is_end(began) or (middle and named.internal_reads < 2)
        return due and named.wants_internal

    def _is_over(self, named: NamedTopic, began: float) -> bool:
        if not named.is_read or self._enough.is_set():
            return True
        if not self._is_end(began):
            return False
        return not named.failure_may_pass or self._now() >= self._end + GRACE_SECONDS

    def _passed(self, named: NamedTopic, began: float) -> None:
        """One sample more: says so, and asks whether that is enough."""
        beat = round((began - self._begin) / self._plan.interval_seconds) + 1
        if not named.finished:
            if self._watch.first and not self._beats[named]:
                self._watch.first(self._windows(named))
            self._tell(named, min(beat, self._plan.samples))
        if self._watch.decisive and self._is_decided(named):
            self._decided.add(named)
        else:
            self._decided.discard(named)
        if self._decided and all(n in self._decided or n.finished for n in self._named):
            self._enough.set()

    def _tell(self, named: NamedTopic, beats: int) -> None:
        self._beats[named] = beats
        if self._watch.progress:
            planned = self._plan.samples * len(self._named)
            self._watch.progress(sum(self._beats.values()), planned)

    def _is_decided(self, named: NamedTopic) -> bool:
        assert self._watch.decisive is not None
        parts = named.parts.values()
        if not parts or any(part.failure or len(part.samples) < DECIDED_BY for part in parts):
            return False
        if self._limits.are_open(str(named.name.of_all_partitions)):
            return False  # a limit may change the verdict
        return self._watch.decisive(self._windows(named))

    def _beat_after(self, began: float) -> float:
        """The next beat that is still to come; the end of the window is one, even when late."""
        interval, since = self._plan.interval_seconds, self._now() - self._begin
        beat = self._begin + ((since + EARLY_SECONDS) // interval + 1) * interval
        return beat if self._is_end(began) else min(beat, self._end)

    async def _is_enough_before(self, beat: float) -> bool:
        """Sleeps until the beat, or until all topics are decided."""
        try:
            async with asyncio.timeout_at(beat):
                return await self._enough.wait()
        except TimeoutError:
            return False

    def _is_end(self, began: float) -> bool:
        return began >= self._end - EARLY_SECONDS

    def _keep(self, readings: list[StatsAnswer]) -> None:
        if self._watch.keep:
            for reading in readings:
                self._watch.keep(reading)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
