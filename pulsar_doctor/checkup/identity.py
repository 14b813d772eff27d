"""The name of the cluster and the version of its broker, read once a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from pulsar_doctor.broker.admin import Admin
from pulsar_doctor.checkup.result import Cluster

PATIENCE_SECONDS = 0.5  # once all else has been read
TEXT_LENGTH_MOST = 100

Identify = Callable[[], Awaitable[Cluster]]


@asynccontextmanager
async def identified(admin: Admin) -> AsyncIterator[Identify]:
    """Asks for the version while other questions run; what is given tells, at their end."""
    question = asyncio.create_task(admin.version())

    async def cluster() -> Cluster:
        await asyncio.wait([question], timeout=PATIENCE_SECONDS)
        known = question.done() and not question.cancelled() and question.exception() is None
        return cluster_of(admin, question.result() if known else None)

    try:
        yield cluster
    finally:
        question.cancel()


def cluster_of(admin: Admin, version: str | None) -> Cluster:
    """The cluster as its header names it. version: of the broker, if it is known."""
    return Cluster(_short(admin.cluster_name), admin.place, _short(version), admin.context)


def _short(text: str | None) -> str | None:
    return text and text[:TEXT_LENGTH_MOST]
