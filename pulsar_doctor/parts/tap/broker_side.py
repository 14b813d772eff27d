"""Reads the broker's statistics of each consumer on the tap, about once a second.

Only topics that have a consumer on the tap are read: they are loaded anyway.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable
from itertools import islice

from pulsar_doctor.broker.admin import Admin, AdminError, NotFound, Refused
from pulsar_doctor.broker.samples.reading import harmless
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.tap.broker_reports import BrokerAnswer
from pulsar_doctor.parts.tap.observer.events import Compare
from pulsar_doctor.wording.gate import Once

MARGIN_SECONDS = 0.2  # on the way between tap and broker
CONCURRENCY = 4
LIMIT_SECONDS = 60.0  # a limit that was read is read again after this long
TOPICS_AT_ONCE = 50  # more are read in turns


class BrokerThread:
    """Reads the broker again and again, in a thread, so that a slow broker holds up nothing.

    It begins with what is made of this class: fields of its own come first. Where the broker cannot
    be reached, that is reported in one sentence; where it refuses, it is not tried again.
    """

    every_seconds = 1.0  # from one reading to the next; of slow ones, half of it lies between two
    more_seconds = 0.0  # after a failure
    at_end = False  # it is read once more then
    refused, failed = "", ""  # begin the sentences: not any more; not now

    def __init__(self, settings: Settings, say: Callable[[str], object]) -> None:
        self._settings, self._say = settings, Once(say)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True, name="broker")
        self._thread.start()

    def close(self, seconds: float = 0.0) -> None:
        """No more questions, but for the last. seconds: how long that is waited for, at most."""
        self._over.set()
        self._thread.join(seconds)

    async def read(self, admin: Admin) -> None:
        """One reading."""

    def _work(self) -> None:
        try:
            asyncio.run(self._read_on())
        except DoctorError as error:
            if self.at_end or not self._over.is_set():
                self._say(f"{self.refused}: {error}")

    async def _read_on(self) -> None:
        async with Admin(self._settings, concurrency=CONCURRENCY) as admin:
            while self.at_end or not self._over.is_set():
                last, due = self._over.is_set(), time.monotonic() + self.every_seconds
                try:
                    await self.read(admin)
                except Refused:
                    raise
                except (AdminError, InputError) as error:
                    self._say(f"{self.failed}: {error}")
                    due += self.more_seconds
                if last:
                    return
                rest = max(self.every_seconds / 2, due - time.monotonic())
                await asyncio.to_thread(self._over.wait, rest)


class BrokerSide(BrokerThread):
    """The thread that reads.

    topics: full names of the topics that have living consumers. settled: returns once everything
    that has passed the tap is in the journal. tell: takes the answers of one round.
    """

    more_seconds = 9.0
    refused = "the broker's permits are not compared"
    failed = "the broker's permits cannot be compared now"

    def __init__(
        self,
        settings: Settings,
        *,
        topics: Callable[[], Iterable[str]],
        settled: Callable[[], object],
        tell: Callable[[Compare], object],
        say: Callable[[str], object],
    ) -> None:
        self._topics, self._settled, self._tell = topics, settled, tell
        self._last_topic = ""
        self._limits: dict[str, tuple[float, int | None]] = {}
        super().__init__(settings, say)

    async def read(self, admin: Admin) -> None:
        """The next topics. Their answers wait for what is on the way between tap and broker."""
        topics = self._next_topics()
        found = await asyncio.gather(*(self._answer(admin, topic) for topic in topics))
        answers = tuple(look for look in found if look is not None)
        if answers:
            await asyncio.sleep(MARGIN_SECONDS)
            await asyncio.to_thread(self._settled)
            self._tell(Compare(answers))

    def _next_topics(self) -> list[str]:
        """In alphabetical order, on from where the last look ended."""
        topics = sorted(set(self._topics()))
        ahead = [topic for topic in topics if topic > self._last_topic]
        behind = [topic for topic in topics if topic <= self._last_topic]
        chosen = list(islice([*ahead, *behind], TOPICS_AT_ONCE))
        self._last_topic = chosen[-1] if chosen else ""
        return chosen

    async def _answer(self, admin: Admin, topic: str) -> BrokerAnswer | None:
        try:
            limit = await self._limit(admin, topic)
            answer = await admin.topic_stats(topic)
        except NotFound:  # it was deleted meanwhile
            return None
        stats = json.dumps(harmless(answer.document))
        return BrokerAnswer(topic, answer.broker_clock_ms, stats, limit)

    async def _limit(self, admin: Admin, topic: str) -> int | None:
        read, limit = self._limits.get(topic, (float("-inf"), None))
        if time.monotonic() - read > LIMIT_SECONDS:
            try:
                limit = await admin.unacked_limit(topic, "consumer")
            except AdminError:  # it needs other rights than the stats: not known
                limit = None
            self._limits[topic] = time.monotonic(), limit
        return limit
