"""Where the broker waits by design, nobody unloads the topic, and no defect of it is suspected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.ruling_out import ruled_out
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.evidence import by_stats
from tests.causes.stats_script import observed

CAUSES = load()
READY = {"availablePermits": 500, "msgOutCounter": 10, "lastConsumedTimestamp": "6m ago",
         "lastAckedTimestamp": "6m ago", "lastConsumedFlowTimestamp": "6m ago"}  # fmt: skip
WAITS = {
    "msgBacklog": 760,
    "msgOutCounter": 10,
    "lastConsumedTimestamp": "6m ago",
    "lastMarkDeleteAdvancedTimestamp": "6m ago",
}
FILTER = {"filterProcessedMsgCount": 390_010, "filterAcceptedMsgCount": 10,
          "filterRescheduledMsgCount": 390_000}  # fmt: skip
BY_DESIGN: dict[str, dict[str, Any]] = {
    "uncommitted-messages": {"topic": {"msgInCounter": 770, "ongoingTxnCount": 1}},
    "delayed-messages": {"subscription": WAITS | {"msgBacklog": 91_400, "msgDelayed": 50_000}},
    "entry-filter-puts-back": {"subscription": WAITS | FILTER},
}
ASLEEP = {"markDeletePosition": "5:9", "readPosition": "5:10", "waitingReadOp": True,
          "subscriptionHavePendingRead": True}  # fmt: skip
CURSORS = {
    "uncommitted-messages": (ASLEEP, "5:769"),
    "delayed-messages": ({"markDeletePosition": "5:9", "readPosition": "5:50010"}, "5:91409"),
    "entry-filter-puts-back": ({"markDeletePosition": "5:9", "readPosition": "5:770"}, "5:769"),
}


def judged(code: str, *, internal: bool) -> Diagnosis:
    case = {"samples": ["0s"], "subscription": WAITS, "consumers": {"w": READY}} | BY_DESIGN[code]
    if internal:
        cursor, last = CURSORS[code]
        case |= {"cursor": cursor, "internal": {"lastConfirmedEntry": last}}
    return diagnose(by_stats.subscription_view(observed(case)), CAUSES, limits_of(CAUSES))


@pytest.mark.parametrize("internal", [False, True])
@pytest.mark.parametrize("code", BY_DESIGN)
def test_the_reason_comes_first_and_nobody_unloads(code: str, *, internal: bool) -> None:
    found = judged(code, internal=internal)
    named = [each.code for each in (*found.findings, *found.suspects)]
    assert next(each for each in named if each != "healthy") == code
    assert "broker-read-stuck" not in named
    commands = [action.command or "" for each in found.findings for action in each.actions]
    advice = [*commands, *(each.remedy or "" for each in found.suspects)]
    assert not any("topics unload" in each for each in advice)


def test_a_limit_that_lets_more_through_than_waits_holds_nothing_back() -> None:
    case = {"samples": ["0s"], "subscription": WAITS | {"msgBacklog": 4}, "consumers": {"w": READY},
            "topic": {"oldestBacklogMessageAgeSeconds": 90_000,
                      "oldestBacklogMessageSubscriptionName": "billing"}}  # fmt: skip
    view = replace(by_stats.subscription_view(observed(case)), msg_rate_out=50.0, throttling=None)
    [throttled] = [each.hypothesis for each in CAUSES if each.code == "dispatch-throttled"]
    assert throttled is not None
    [excluded] = ruled_out(view, [throttled])
    assert excluded.because == (
        "4 entries wait, 50 messages a second are sent, and the oldest waits for 25 h"
    )
    slow = replace(view, msg_rate_out=0.0001)
    of_another = replace(view, oldest_seconds=None)
    assert not ruled_out(slow, [throttled])
    assert not ruled_out(of_another, [throttled])
