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
    asked = asyncio.create_task(admin.version())

    async def told() -> Cluster:
        await asyncio.wait([asked], timeout=PATIENCE_SECONDS)
        known = asked.done() and not asked.cancelled() and asked.exception() is None
        return Cluster(
            name=_short(admin.cluster_name),
            admin_url=admin.place,
            broker_version=_short(asked.result()) if known else None,
            context=admin.context,
        )

    try:
        yield told
    finally:
        asked.cancel()


def _short(text: str | None) -> str | None:
    return text and text[:TEXT_LENGTH_MOST]
