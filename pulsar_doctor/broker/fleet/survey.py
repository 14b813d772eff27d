"""Samples all loaded topics once, and watches those for which one sample is not enough.

Asking for the stats of a topic makes a broker load it. So the first look is at what each broker
says of the topics that it has loaded: at most a minute old, without time stamps and without the
counters of a subscription. It can show that a topic is at rest, never that anything moves, however
often it is read within a window (4.0.8 renews it every statsUpdateFrequencyInSecs, 60). Each other
topic is read once by itself, and its time stamps tell whether it was moving. What is left, the
suspects, is watched in waves of one window each. Of a topic that needs no watching nothing is kept,
so memory does not grow with their number.

The brokers' metrics tell which topics are loaded now, and on which messages wait now: a topic that
no list names may have been loaded since, and one that was at rest may have stalled since. Without
metrics, what the list shows to be at rest is only so as of up to a minute ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass, field, replace

from pulsar_doctor.broker.admin import (
    Admin,
    AdminError,
    LiveTopics,
    LoadedTopic,
    NotFound,
    NotLive,
    Refused,
    live_topics,
    topic_name,
)
from pulsar_doctor.broker.fleet.listing import Listing, Scope, listing
from pulsar_doctor.broker.samples import StatsAnswer
from pulsar_doctor.broker.sampling import SamplingPlan, Unread, Watch, sample
from pulsar_doctor.broker.sampling.part import SampledPart
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.wording.sentences import say

LIST_RENEWED_SECONDS = 60  # statsUpdateFrequencyInSecs of a broker, by default
WAVE_TOPICS = 512  # sampled in one window
Until = Callable[[], AbstractContextManager[asyncio.Event | None]]
STOPPED = "not watched: stopped by Ctrl-C"
ONCE = SamplingPlan(0, limits=False, as_named=True, internal=False)


@dataclass(slots=True)
class Fleet:
    """Namespaces of a cluster. What could not be read is complete once `windows` has ended."""

    admin: Admin
    scope: Scope
    needs_no_watching: Callable[[TopicWindow], bool]  # one reading of a topic is enough
    plan: SamplingPlan = field(default_factory=SamplingPlan)
    until: Until = nullcontext  # around each window; returns what ends it early
    keep: Callable[[StatsAnswer], None] | None = None  # called with each reading
    progress: Callable[[int, int, str], None] | None = None  # called with done, in all, of what
    subscription: str | None = None  # the only one that is judged
    stopped: bool = field(default=False, init=False)  # a window was ended early
    metrics_unread: str | None = field(default=None, init=False)  # why it is unknown what waits
    not_loaded: list[str] = field(default_factory=list, init=False)  # as in `Sampled`
    unread: list[Unread] = field(default_factory=list, init=False)  # as in `Sampled`
    notes: list[str] = field(default_factory=list, init=False)  # as in `Sampled`
    _namespaces: frozenset[str] = field(default=frozenset(), init=False)
    _asleep: set[str] = field(default_factory=set, init=False)  # listed, and not yet seen loaded
    _loaded: set[str] = field(default_factory=set, init=False)
    _now: LiveTopics = field(default_factory=LiveTopics, init=False)
    _unlisted: set[str] = field(default_factory=set, init=False)  # suspects that no list names
    _suspects: list[str] = field(default_factory=list, init=False)
    # Entries that wait by the list, of suspects, by subscription.
    _listed: dict[str, Mapping[str, int]] = field(default_factory=dict, init=False)
    _attended: dict[str, set[str]] = field(default_factory=dict, init=False)  # by partitions
    _brokers_unread: dict[str, DoctorError] = field(default_factory=dict, init=False)
    _partial: dict[str, DoctorError] = field(default_factory=dict, init=False)  # what was cut

    async def windows(self) -> AsyncGenerator[TopicWindow, None]:
        """Each topic once: those that need no watching with one sample, then the suspects.

        To be iterated once, in `contextlib.aclosing` where that may end early. Raises AdminError
        where nothing can be known of the cluster, or where it takes a superuser.
        """
        self._take(await listing(self.admin, self.scope))
        brokers = await self._brokers()
        await self._ask_what_waits(brokers)
        async with aclosing(self._quiet(brokers)) as quiet:
            async for window in quiet:
                yield window
        if self._brokers_unread and all(
            isinstance(self._brokers_unread.get(broker), Refused) for broker in brokers
        ):
            self._without_right(next(iter(self._brokers_unread.values())))
        self._sort_out()
        for read in (self._read_once, self._sampled):
            async with aclosing(read()) as windows:
                async for window in windows:
                    yield window

    def _take(self, listed: Listing) -> None:
        self._namespaces, self._asleep = listed.namespaces, set(listed.topics)
        self.unread += listed.unread

    async def _ask_what_waits(self, brokers: Sequence[str]) -> None:
        """Before the list: what is at rest in both has been at rest since the list was renewed."""
        try:
            self._now = await live_topics(self.admin, brokers)
        except (AdminError, InputError) as error:
            self.metrics_unread = str(error)
            if not isinstance(error, Refused | NotFound | NotLive):
                self._partial["what waits now"] = error

    async def _brokers(self) -> list[str]:
        try:
            return await self.admin.brokers()
        except Refused as error:
            self._brokers_unread["the list of brokers"] = error
            return []

    def _without_right(self, error: DoctorError) -> None:
        """Continues without knowing what is loaded, or reports what that would cost."""
        why = f"what the brokers have loaded cannot be seen, which needs a superuser ({error})"
        cost = f"each of the {len(self._asleep)} topics is read by itself, which loads those"
        if not self.scope.load:
            raise Refused(f"{why}; with --load-topics {cost} that no broker has loaded")
        self.notes.append(f"{why}; {cost} that no broker had loaded")
        self._brokers_unread.clear()

    async def _quiet(self, brokers: Sequence[str]) -> AsyncGenerator[TopicWindow, None]:
        """Reads the loaded topics of all brokers once; returns the quiet ones."""
        for broker in brokers:
            before = set(self._unlisted)
            try:
                async with aclosing(self.admin.loaded_topics(broker)) as loaded:
                    async for topic in loaded:
                        window = self._first_look(topic)
                        if window is not None:
                            yield window
            except (AdminError, InputError) as error:  # of a broker, or of what its name is
                self._brokers_unread[broker] = error
                if not (isinstance(error, Refused) or getattr(error, "again", False)):
                    self._partial[broker] = error
                invented = self._unlisted - before  # perhaps: such a list may have had no end
                self._suspects = [topic for topic in self._suspects if topic not in invented]

    def _first_look(self, topic: LoadedTopic) -> TopicWindow | None:
        """The window of a topic that is meant and quiet; the name of a suspect is kept."""
        if topic.namespace not in self._namespaces or topic.topic in self._loaded:
            return None
        try:
            name = topic_name(topic.topic)
        except InputError:
            return None
        if not self.scope.includes(name):
            return None
        listed = topic.topic in self._asleep
        self._asleep.discard(topic.topic)
        self._loaded.add(topic.topic)
        done = len(self._loaded)
        self._tell(done, done + len(self._asleep), "topics looked at")
        part, waits = SampledPart(name, []), topic.topic in self._now.waiting
        reading = part.take(None, topic.stats, None)
        window = part.window() if reading else None
        if window is not None and window.partition is not None:
            self._attended.setdefault(window.topic, set()).update(window.attended)
        if waits or window is None or not self.needs_no_watching(window):
            self._suspects.append(topic.topic)
            self._listed[topic.topic] = self._waiting_in(window)
            if not listed:
                self._unlisted.add(topic.topic)
            return None
        if self.keep and reading is not None:
            self.keep(reading)
        return window

    def _waiting_in(self, window: TopicWindow | None) -> Mapping[str, int]:
        subscriptions = window.window.last.topic.subscriptions if window else None
        return {
            name: stats.msg_backlog
            for name, stats in (subscriptions or {}).items()
            if stats.msg_backlog and self.subscription in (None, name)
        }

    def _read(self, window: TopicWindow) -> TopicWindow:
        """The window of a suspect. What waits by the list, and is not in it, is unread."""
        full, topic = window.full_topic, window.window.last.topic
        for name, entries in self._listed.pop(full, {}).items():
            if name not in (topic.subscriptions or {}):
                waits = say("{:entries}", entries)
                reason = f"{name} was listed with {waits} waiting, and a moment later not reported"
                self.unread.append(Unread(full, reason))
        return window

    def _sort_out(self) -> None:
        """What is to become of the topics that no list of loaded ones names."""
        self.notes += [
            f"{broker}: what it has loaded could not be read ({error})"
            for broker, error in self._brokers_unread.items()
        ]
        absent = sorted(self._asleep)
        # A topic without storage is listed only while it is loaded: it has just come.
        at_once = [topic for topic in absent if self.scope.load or not is_stored(topic)]
        stored = [topic for topic in absent if not self.scope.load and is_stored(topic)]
        self._suspects += at_once
        if not stored:
            self.unread += [Unread(what, str(error)) for what, error in self._partial.items()]
        elif self._brokers_unread:
            unread = ", ".join(self._brokers_unread)
            reason = f"may be loaded by a broker that could not be read ({unread})"
            self.unread += [Unread(topic, reason) for topic in stored]
        elif self.metrics_unread is not None:
            reason = (
                "not seen: it may have been loaded since the brokers' list of loaded topics was "
                "updated, up to a minute ago, and what is loaded now could not be read "
                f"({self.metrics_unread})"
            )
            self.unread += [Unread(topic, reason) for topic in stored]
        else:
            loaded = self._now.loaded
            self._suspects += [topic for topic in stored if topic in loaded]
            self.not_loaded += [topic for topic in stored if topic not in loaded]

    async def _read_once(self) -> AsyncGenerator[TopicWindow, None]:
        """Reads each suspect once; gives those that need no watching. The others stay suspects."""
        if self.plan.window_seconds == 0:
            return
        left: list[str] = []
        for done, some in self._waves():
            self._tell(done, len(self._suspects), "topics read once")
            readings: list[StatsAnswer] = []
            once = await sample(self.admin, some, ONCE, Watch(readings.append))
            enough: set[str] = set()
            for window in once.windows:
                if self.needs_no_watching(window):
                    enough.add(window.full_topic)
                    yield self._read(window)
            left += [topic for topic in some if topic not in enough]
            for reading in readings:
                if self.keep and reading.topic in enough:
                    self.keep(reading)
        self._suspects = left

    async def _sampled(self) -> AsyncGenerator[TopicWindow, None]:
        """The suspects, wave by wave; one wave is let go before the next is sampled."""
        for done, wave in self._waves():
            if self.stopped:
                self.unread += [Unread(topic, STOPPED) for topic in wave]
                continue
            for window in await self._wave(done, wave):
                elsewhere = frozenset(self._attended.get(window.topic, ()))  # by other partitions
                yield replace(self._read(window), elsewhere=elsewhere)

    async def _wave(self, done: int, wave: Sequence[str]) -> tuple[TopicWindow, ...]:
        with self.until() as enough:
            watch = Watch(self.keep, progress=self._progress_from(done), enough=enough)
            sampled = await sample(self.admin, wave, replace(self.plan, as_named=True), watch)
        self.stopped = enough is not None and enough.is_set()
        # A topic that no list names has just been deleted.
        self.unread += [
            unread
            for unread in sampled.unread
            if not unread.gone or unread.topic not in self._unlisted
        ]
        self.notes += sampled.notes
        return sampled.windows

    def _waves(self) -> Iterator[tuple[int, list[str]]]:
        for begin in range(0, len(self._suspects), WAVE_TOPICS):
            yield begin, self._suspects[begin : begin + WAVE_TOPICS]

    def _tell(self, done: int, planned: int, what: str) -> None:
        if self.progress:
            self.progress(done, planned, what)

    def _progress_from(self, begin: int) -> Callable[[int, int], None] | None:
        progress, total = self.progress, len(self._suspects) * self.plan.samples
        if progress is None:
            return None
        return lambda done, _: progress(
            begin * self.plan.samples + done, total, "samples of suspects"
        )


def is_stored(topic: str) -> bool:
    """Whether a topic, by its full name, exists also while no broker has loaded it."""
    return not topic.startswith("non-persistent://")
