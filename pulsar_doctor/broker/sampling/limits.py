"""Reads the cluster's limits while the window runs; late answers count as not reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from pulsar_doctor.broker.admin import Admin
from pulsar_doctor.broker.stats.observed import NO_LIMITS, ClusterLimits
from pulsar_doctor.errors import DoctorError

PATIENCE_SECONDS = 0.5  # after the window has ended

ReportedLimits = dict[str, Any]  # field of ClusterLimits -> its value


class LimitQuestions:
    """Questions for limits, each topic's sent once. wanted: False sends none."""

    def __init__(self, admin: Admin, *, wanted: bool) -> None:
        self._admin = admin
        self._wanted = wanted
        # By topic; None: of the whole cluster.
        self._questions: dict[str | None, asyncio.Task[ReportedLimits]] = {}

    def ask_cluster(self) -> None:
        """Asks for what holds for every topic, unless that was done."""
        if self._wanted and None not in self._questions:
            self._questions[None] = asyncio.create_task(self._of_cluster())

    def ask(self, topic: str) -> None:
        """Asks for the limits of unacknowledged messages of a topic, unless that was done."""
        if self._wanted and topic not in self._questions:
            self._questions[topic] = asyncio.create_task(self._of_topic(topic))

    async def settle(self) -> None:
        """Waits a little for the answers, and gives up the rest."""
        tasks = self._questions.values()
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE_SECONDS)
        self.give_up()

    def give_up(self) -> None:
        """Ends all questions that are still open."""
        for task in self._questions.values():
            task.cancel()

    def are_open(self, topic: str) -> bool:
        """Whether an answer that counts for a topic may still come."""
        both = (self._questions.get(None), self._questions.get(topic))
        return any(task is not None and not task.done() for task in both)

    def reported(self, topic: str) -> ClusterLimits:
        """What is known for a topic so far; call `settle` before the end."""
        limits = self._of(None) | self._of(topic)
        return ClusterLimits(**limits) if limits else NO_LIMITS

    def _of(self, topic: str | None) -> ReportedLimits:
        task = self._questions.get(topic)
        return task.result() if task and task.done() and not task.cancelled() else {}

    async def _of_cluster(self) -> ReportedLimits:
        return {"max_unacked_ranges_to_persist": await _or_none(self._admin.unacked_ranges_limit())}

    async def _of_topic(self, topic: str) -> ReportedLimits:
        consumer, subscription = await asyncio.gather(
            _or_none(self._admin.unacked_limit(topic, "consumer")),
            _or_none(self._admin.unacked_limit(topic, "subscription")),
        )
        return {
            "max_unacked_messages_per_consumer": consumer,
            "max_unacked_messages_per_subscription": subscription,
        }


async def _or_none(question: Awaitable[int | None]) -> int | None:
    try:
        return await question
    except DoctorError:
        return None
