"""A message that is given back again and again: `stall-check` and `holes` say the same of it."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_doctor.checkup.holes.account import account
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.ledger.acks.persisting import NOTHING_REPORTED
from pulsar_doctor.report.holes.table import hole_lines
from tests.causes.stats_script import observed
from tests.incidents.asking import RULES


def poison(stood: str, acked: str) -> dict[str, Any]:
    """It has acknowledged 99 of 100, and gives the other one back each minute."""
    consumer = {
        "availablePermits": 886, "unackedMessages": 1, "msgOutCounter": 114,
        "lastAckedTimestamp": acked, "lastConsumedTimestamp": "20s ago",
        "lastConsumedFlowTimestamp": "1h ago",
    }  # fmt: skip
    return {
        "samples": ["0s"],
        "subscription": {
            "msgBacklog": 1, "unackedMessages": 1, "msgOutCounter": 114,
            "nonContiguousDeletedMessagesRanges": 1, "lastMarkDeleteAdvancedTimestamp": stood,
        },
        "consumers": {"poison-app": consumer},
        "cursor": {
            "markDeletePosition": "5:2", "readPosition": "5:100",
            "individuallyDeletedMessages": "[(5:3..5:99]]",
            "totalNonContiguousDeletedMessagesRange": 1,
        },
        "internal": {
            "lastConfirmedEntry": "5:99", "numberOfEntries": 100, "entriesAddedCounter": 100,
            "ledgers": [{"ledgerId": 5, "entries": 100, "size": 4000, "offloaded": False}],
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("stood", "acked", "status"), [("15m ago", "15m ago", "warning"), ("40s ago", "1s ago", None)]
)
def test_both_name_the_entry_that_nobody_acknowledges_once_it_is_old(
    stood: str, acked: str, status: str | None
) -> None:
    seen = observed(poison(stood, acked))
    verdict = diagnose(by_stats.subscription_view(seen), RULES, limits_of(RULES))
    told = account(seen, NOTHING_REPORTED)
    warned = [each.summary for each in verdict.findings if each.severity == "warning"]
    assert told.status == (status or "healthy")
    assert [text for name, text in hole_lines(told) if name == "ack-hole"] == warned
    assert bool(warned) == bool(status)
    if status:
        assert (verdict.status, verdict.findings[0].code) == ("warning", "ack-hole")
        assert "for 15 min while later ones were" in warned[0]
