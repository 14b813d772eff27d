"""Thousands of consumers on one subscription: what judging each costs does not depend on them."""

from __future__ import annotations

from typing import Any

from tests.checkup.test_stall_check_documents import verdicts
from tests.support.counting import counting

FEW, MANY = 40, 160
NOW_MS = 1_790_000_000_000


def stats_of(consumers: int) -> dict[str, Any]:
    """The stats of a topic with so many Shared consumers, all at work."""
    each = {
        "availablePermits": 500, "unackedMessages": 5, "msgOutCounter": 500, "msgRateOut": 0.1,
        "lastAckedTimestamp": NOW_MS, "lastConsumedTimestamp": NOW_MS,
        "connectedSince": "2026-09-21T10:00:00Z", "clientVersion": "Pulsar-Java-v4.0.8",
        "blockedConsumerOnUnackedMsgs": False,
    }  # fmt: skip
    named = [
        each | {"consumerName": f"c{n}", "address": f"/10.0.0.1:{n}"} for n in range(consumers)
    ]
    subscription = {"type": "Shared", "msgBacklog": 1000, "consumers": named}
    return {"subscriptions": {"s": subscription | {"unackedMessages": 5 * consumers}}}


def lines_run(consumers: int) -> int:
    """Lines of code that run until so many are judged."""
    samples = [{"date_ms": NOW_MS, "stats": stats_of(consumers)}]
    with counting() as lines:
        (diagnosis,) = verdicts(samples)
    assert "exclusive-zombie" in {each.code for each in diagnosis.ruled_out}
    return lines.run


def test_each_costs_the_same_however_many_there_are():
    few, many = lines_run(FEW), lines_run(MANY)
    assert many < 1.1 * MANY / FEW * few
