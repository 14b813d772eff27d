"""Reads the broker's statistics of each consumer on the tap, about once a second.

Only topics that have a consumer on the tap are read: they are loaded anyway. It works in a thread
of its own, so that a slow broker holds up nothing. Where the broker cannot be reached, that is
reported in one sentence; where it refuses, it is not tried again.
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

EVERY_SECONDS = 1.0
AFTER_FAILURE_SECONDS = 10.0
MARGIN_SECONDS = 0.2  # on the way between tap and broker
LIMIT_SECONDS = 60.0  # a limit that was read is read again after this long
TOPICS_AT_ONCE = 50  # more are read in turns
CONCURRENCY = 4


class BrokerSide:
    """The asking thread.

    topics: full names of the topics that have living consumers. settled: returns once everything
    that has passed the tap is in the journal. tell: takes the answers of one round.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        topics: Callable[[], Iterable[str]],
        settled: Callable[[], object],
        tell: Callable[[Compare], object],
        say: Callable[[str], object],
    ) -> None:
        self._settings = settings
        self._topics, self._settled, self._tell, self._say = topics, settled, tell, say
        self._over = threading.Event()
        self._shown: set[str] = set()
        self._last_topic = ""
        self._limits: dict[str, tuple[float, int | None]] = {}
        self._thread = threading.Thread(target=self._work, daemon=True, name="compare-broker")
        self._thread.start()

    def stop(self) -> None:
        """No more questions; does not wait for an answer."""
        self._over.set()

    def _work(self) -> None:
        try:
            asyncio.run(self._ask_on())
        except DoctorError as error:
            if not self._over.is_set():
                self._say(f"the broker's permits are not compared: {error}")

    async def _ask_on(self) -> None:
        async with Admin(self._settings, concurrency=CONCURRENCY) as admin:
            while not self._over.is_set():
                began, pause = time.monotonic(), EVERY_SECONDS
                try:
                    await self._look(admin)
                except Refused:
                    raise
                except (AdminError, InputError) as error:
                    self._say_once(f"the broker's permits cannot be compared now: {error}")
                    pause = AFTER_FAILURE_SECONDS
                left = began + pause - time.monotonic()
                await asyncio.to_thread(self._over.wait, max(0.0, left))

    async def _look(self, admin: Admin) -> None:
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

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._shown:
            self._shown.add(sentence)
            self._say(sentence)
