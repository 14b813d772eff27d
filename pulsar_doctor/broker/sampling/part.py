"""Collects the samples of one topic or partition. Changes in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pulsar_doctor.broker.admin import AdminError, NotFound, TopicName, Unreachable
from pulsar_doctor.broker.samples import StatsAnswer
from pulsar_doctor.broker.sampling.plan import Unread
from pulsar_doctor.broker.stats.backlog import is_empty
from pulsar_doctor.broker.stats.internal import InternalStats
from pulsar_doctor.broker.stats.observed import NO_LIMITS, SHARING, ClusterLimits, TopicWindow
from pulsar_doctor.broker.stats.reading import internal_stats, topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import MARK_DELETED, SubscriptionStats
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.errors import DoctorError, InputError

STILL_SECONDS = 300.0  # without a move of mark-delete: then the age of the oldest message counts
DURING = "was deleted or unloaded during the window"


@dataclass(slots=True)
class SampledPart:
    """One topic or partition."""

    name: TopicName
    samples: list[Sample]
    failure: DoctorError | None = None  # why the newest reading is no sample; None: it is one
    lost: int = 0  # readings that failed so far
    last_loss: DoctorError | None = None
    internal_failure: DoctorError | None = None  # why there are no internal stats

    def take(self, taken_ms: int | None, stats: Any, internal: Any | None) -> StatsAnswer | None:
        """Makes a sample of what the broker wrote; None where a field of it is wrong."""
        try:
            topic = topic_stats(stats)
        except InputError as error:
            self.lose(error)
            return None
        self.failure = None
        read = self._internal(internal)
        self.samples.append(Sample(taken_ms, topic, read))
        return StatsAnswer(str(self.name), taken_ms, stats, internal if read else None)

    def lose(self, error: DoctorError) -> None:
        """One reading failed."""
        self.failure = self.last_loss = error
        self.lost += 1

    def only_newest(self) -> None:
        """Forgets all samples but the last."""
        del self.samples[:-1]

    @property
    def failure_may_pass(self) -> bool:
        """Whether the newest reading failed in a way that asking later may help."""
        error = self.failure
        return isinstance(error, Unreachable) or (isinstance(error, AdminError) and error.again)

    @property
    def wants_internal(self) -> bool:
        """Whether ledgers and cursors can matter: something may wait, whatever a counter says."""
        subscriptions = list(self._subscriptions())
        kept = self.samples[-1].topic.backlog_size if self.samples else None
        return bool(subscriptions and kept) or any(
            not is_empty(each) or (each.msg_in_replay or 0) > 0 for each in subscriptions
        )

    @property
    def wants_oldest(self) -> bool:
        """Whether messages wait, and mark-delete has not moved for long: then their age counts.

        One that a sample has already reported counts on.
        """
        last = self.samples[-1] if self.samples else None
        return last is not None and any(
            MARK_DELETED in each.never or _stood(last, each) >= STILL_SECONDS
            for name, each in (last.topic.subscriptions or {}).items()
            if not is_empty(each) and each.msg_out_counter and not self._knows_oldest(name)
        )

    def _knows_oldest(self, name: str) -> bool:
        reported = (sample.subscription(name) for sample in self.samples)
        return any(each and each.earliest_msg_publish_time_in_backlog for each in reported)

    @property
    def wants_limits(self) -> bool:
        """Whether a limit of unacknowledged messages can matter."""
        return any(
            subscription.type in SHARING and (subscription.unacked_messages or 0) > 0
            for subscription in self._subscriptions()
        )

    def window(self, limits: ClusterLimits = NO_LIMITS) -> TopicWindow:
        """The topic's samples so far; at least one."""
        whole = self.name.of_all_partitions
        _, _, number = self.name.local[len(whole.local) :].rpartition("-")
        window = Window(tuple(in_order(self.samples)))
        return TopicWindow(str(whole), int(number) if number else None, window, limits)

    def unread(self) -> Unread | None:
        """Why it could not be read to the end; None where it was."""
        if self.failure is None:
            return None
        gone, reason = isinstance(self.failure, NotFound), str(self.failure)
        if gone and (self.samples or not reason):
            reason = DURING + (f" ({reason})" if reason else "")
        return Unread(str(self.name), reason, gone)

    def notes(self) -> Iterator[str]:
        """What of it was read in part only."""
        if self.lost:
            yield f"{self.name}: {self.lost} readings failed during the window ({self.last_loss})"
        if self.internal_failure:
            yield f"{self.name}: judged without internal stats: {self.internal_failure}"
        if dropped := len(self.samples) - len(in_order(self.samples)):
            yield (
                f"{self.name}: {dropped} samples are left out, because the clock of the broker "
                "that answered next is behind"
            )

    def _internal(self, document: Any | None) -> InternalStats | None:
        try:
            return None if document is None else internal_stats(document)
        except InputError as error:
            self.internal_failure = error
            return None

    def _subscriptions(self) -> Iterator[SubscriptionStats]:
        reported: Mapping[str, SubscriptionStats] = {}
        if self.samples:
            reported = self.samples[-1].topic.subscriptions or {}
        yield from reported.values()


def _stood(sample: Sample, subscription: SubscriptionStats) -> float:
    age = sample.age(subscription.last_mark_delete_advanced_timestamp_ms)
    return 0.0 if age is None else age.seconds


def in_order(samples: list[Sample]) -> list[Sample]:
    """The newest samples with times that do not fall: another broker's clock may be behind."""
    kept: list[Sample] = []
    next_ms: int | None = None
    for sample in reversed(samples):
        if sample.taken_ms is not None:
            if next_ms is not None and sample.taken_ms > next_ms:
                break
            next_ms = sample.taken_ms
        kept.append(sample)
    return kept[::-1]
