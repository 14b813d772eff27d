"""Samples a topic that was named: one topic, one partition, or all partitions.

A partitioned topic is read with one request for all its partitions. A partition that the answer
leaves out does not exist yet: nobody has used it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from pulsar_doctor.broker.admin import Admin, AdminError, NotFound, RestAnswer, TopicName
from pulsar_doctor.broker.admin.topics import PARTITION
from pulsar_doctor.broker.patience import within
from pulsar_doctor.broker.samples import StatsAnswer
from pulsar_doctor.broker.sampling.part import SampledPart
from pulsar_doctor.broker.sampling.plan import Unread
from pulsar_doctor.broker.stats.observed import ClusterLimits, TopicWindow
from pulsar_doctor.errors import DoctorError, InputError

PATIENCE_SECONDS = 2.0  # for the age of the oldest messages


class NamedTopic:
    """Reads a topic again and again; changes in place.

    internal: whether ledgers and cursors matter; None: where the stats say so.
    """

    def __init__(
        self,
        admin: Admin,
        name: TopicName,
        partitions: int | None = None,
        *,
        internal: bool | None = None,
    ) -> None:
        self.name = name
        self.partitions = partitions  # how many; None: it has none
        self.failure: DoctorError | None = None  # why nothing is known about the topic
        self.finished = False  # it is not read any more
        self.parts: dict[str, SampledPart] = {}
        self.internal_reads = 0
        self._internal_matters = internal
        self._admin = admin
        self._internal_failure: DoctorError | None = None
        if partitions is None:
            self.parts[str(name)] = SampledPart(name, [])

    async def read(self, *, internal: bool, oldest: bool = False) -> list[StatsAnswer]:
        """One reading of each part. internal: with ledgers and cursors, where they may be read.

        oldest: with the age of the oldest messages, where that can matter and no sample has it.
        """
        oldest = oldest and any(part.wants_oldest for part in self.parts.values())
        try:
            answer, ledgers = await self._ask(internal and self._internal_failure is None, oldest)
            stats = self._of_each(answer.document)
        except DoctorError as error:
            # Brokers that find no partition say so with a 404, although the topic is there.
            if not (isinstance(error, NotFound) and self.partitions and not self.is_read):
                self.lose(error)
            return []
        self.failure = None
        readings = []
        for full, document in stats.items():
            part = self.parts.setdefault(full, SampledPart(self._named(full), []))
            readings.append(part.take(answer.broker_clock_ms, document, ledgers.get(full)))
        for full in self.parts.keys() - stats.keys():
            self.parts[full].lose(NotFound(""))
        return [reading for reading in readings if reading is not None]

    async def read_first(self) -> list[StatsAnswer]:
        """The first reading; where ledgers and cursors matter, both anew, of the same moment."""
        readings = await self.read(internal=False)
        if not self.wants_internal:
            return readings
        together = await self.read(internal=True, oldest=True)
        for part in self.parts.values():
            part.only_newest()
        return together or readings

    @property
    def is_read(self) -> bool:
        """Whether there is a sample of any part."""
        return any(part.samples for part in self.parts.values())

    @property
    def failure_may_pass(self) -> bool:
        """Whether the newest reading failed, at least in part, and asking later may help."""
        return any(part.failure_may_pass for part in self.parts.values())

    @property
    def wants_internal(self) -> bool:
        """Whether ledgers and cursors can matter, and are not refused."""
        if self._internal_failure is not None or self._internal_matters is False:
            return False
        wanted = any(part.wants_internal for part in self.parts.values())
        return wanted or (self._internal_matters is True and self.is_read)

    @property
    def lacks_internal(self) -> bool:
        """Whether the newest sample should have ledgers and cursors, and has none."""
        newest = [part.samples[-1] for part in self.parts.values() if part.samples]
        return self.wants_internal and all(sample.internal is None for sample in newest)

    @property
    def wants_limits(self) -> bool:
        """Whether a limit of unacknowledged messages can matter."""
        return any(part.wants_limits for part in self.parts.values())

    def windows(self, limits: ClusterLimits) -> Iterator[TopicWindow]:
        """What was read to the end, in the order of partitions."""
        for part in self._in_order():
            if part.samples and part.failure is None:
                yield part.window(limits)

    def unread(self) -> Iterator[Unread]:
        """What was not."""
        if self.failure is not None and not self.is_read:
            yield Unread(str(self.name), str(self.failure), isinstance(self.failure, NotFound))
            return
        for part in self._in_order():
            unread = part.unread()
            if unread:
                yield unread

    def not_loaded(self) -> Iterator[str]:
        """Partitions that exist by the metadata alone."""
        if self.failure is None or self.is_read:
            for number in range(self.partitions or 0):
                if f"{self.name}-partition-{number}" not in self.parts:
                    yield f"{self.name}-partition-{number}"

    def notes(self) -> Iterator[str]:
        """What was read in part only."""
        judged = [part for part in self._in_order() if part.failure is None]
        for part in judged:
            yield from part.notes()
        if self._internal_failure and judged and self.is_read:
            yield f"{self.name}: judged without internal stats: {self._internal_failure}"

    async def _ask(self, internal: bool, oldest: bool) -> tuple[RestAnswer, Mapping[str, Any]]:
        """Stats and internal stats of about the same moment."""
        stats = self._stats(oldest=oldest)
        if not internal:
            return await stats, {}
        self.internal_reads += 1
        answer, ledgers = await asyncio.gather(stats, self._internal(), return_exceptions=True)
        if isinstance(answer, BaseException):
            raise answer
        return answer, {} if isinstance(ledgers, BaseException) else ledgers

    async def _stats(self, *, oldest: bool) -> RestAnswer:
        """oldest: with the age of the oldest messages."""
        whole = self.partitions is not None
        ask = self._admin.partitioned_stats if whole else self._admin.topic_stats
        if oldest:  # unless BookKeeper or the broker takes too long
            answer = await within(PATIENCE_SECONDS, ask(str(self.name), oldest=True))
            if answer is not None:
                return answer
        return await ask(str(self.name))

    async def _internal(self) -> Mapping[str, Any]:
        name, whole = str(self.name), self.partitions is not None
        ask = self._admin.partitioned_internal_stats if whole else self._admin.internal_stats
        try:
            return self._of_each((await ask(name)).document)
        except DoctorError as error:
            if not (isinstance(error, AdminError) and error.again):
                self._internal_failure = error
            return {}

    def _of_each(self, document: Any) -> Mapping[str, Any]:
        """What a document says of each part, by full name."""
        if self.partitions is None:
            return {str(self.name): document}
        partitions = document.get("partitions")
        if not isinstance(partitions, dict):
            raise InputError(f"the answer for {self.name} holds no partitions")
        # The broker names the topic itself where no partition exists (seen on 4.0.8).
        return {full: each for full, each in partitions.items() if self._is_partition(full)}

    def _is_partition(self, full: str) -> bool:
        name = str(self.name)
        return full.startswith(name) and bool(PARTITION.fullmatch(full, len(name)))

    def _named(self, full: str) -> TopicName:
        local = self.name.local + full.removeprefix(str(self.name))
        return TopicName(self.name.domain, self.name.namespace, local)

    def lose(self, error: DoctorError) -> None:
        self.failure = error
        for part in self.parts.values():
            part.lose(error)

    def _in_order(self) -> list[SampledPart]:
        return sorted(self.parts.values(), key=lambda part: (len(part.name.local), part.name.local))
