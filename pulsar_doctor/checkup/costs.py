"""Reads what limits the messages that wait, on topics of which a subscription falls behind.

Two requests a topic, which load nothing; of all other topics none. A broker that refuses, or takes
too long, has reported nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pulsar_doctor.broker.admin import Admin
from pulsar_doctor.broker.patience import within
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.evidence.balance import balance_of
from pulsar_doctor.ledger.acks.persisting import number_of
from pulsar_doctor.ledger.topics import PERSISTENT

PATIENCE_SECONDS = 2.0  # for both answers


def fall_behind(verdicts: Iterable[Diagnosis]) -> bool:
    """Whether one of these subscriptions falls behind."""
    return any(
        each.balance is not None and each.balance.pace == "falls-behind" for each in verdicts
    )


async def with_costs(admin: Admin, windows: Iterable[TopicWindow]) -> list[TopicWindow]:
    """The same windows, with these policies where a subscription falls behind."""
    return [await with_policies(admin, each) if _falls_behind(each) else each for each in windows]


def _falls_behind(window: TopicWindow) -> bool:
    views = map(by_stats.subscription_view, window.subscriptions())
    return any(balance_of(view).pace == "falls-behind" for view in views)


async def with_policies(admin: Admin, window: TopicWindow) -> TopicWindow:
    """The same, with backlog quota and TTL."""
    topic = window.full_topic
    if not topic.startswith(PERSISTENT):
        return window
    names = "backlogQuotaMap", "messageTTL"
    answers = (within(PATIENCE_SECONDS, admin.applied(topic, name)) for name in names)
    quotas, ttl = await asyncio.gather(*answers)
    size, age = (_quota(quotas, kind) for kind in ("destination_storage", "message_age"))
    limits = replace(
        window.limits,
        backlog_quota_bytes=number_of(size.get("limitSize")),
        backlog_quota_seconds=number_of(age.get("limitTime")),
        backlog_quota_policy=size.get("policy") or age.get("policy"),
        message_ttl_seconds=number_of(ttl),
    )
    return replace(window, limits=limits)


def _quota(quotas: Any, kind: str) -> dict[str, Any]:
    found = quotas.get(kind) if isinstance(quotas, dict) else None
    return found if isinstance(found, dict) else {}
