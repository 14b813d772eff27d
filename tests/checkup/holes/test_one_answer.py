"""A message that is given back again and again: `stall-check` and `holes` say the same of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.checkup.holes.account import account
from pulsar_doctor.checkup.holes.from_trace import holes_of_trace
from pulsar_doctor.checkup.recorded import read_trace
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.evidence import by_stats, by_wire
from pulsar_doctor.ledger.acks.persisting import NOTHING_REPORTED
from pulsar_doctor.report.holes.table import hole_lines
from tests.causes.stats_script import observed
from tests.incidents.asking import RULES
from tests.made.traces import write_trace
from tests.made.wire import SHARED, START_US, Wire


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


def given_back_each_minute(minutes: int, *, again: bool = True, ends: bool = False) -> Wire:
    """Of 100 messages it acknowledges 99, and gives the other one back each minute."""
    said = Wire().open().attached(name="poison-app", sub_type=SHARED).flow(1000)
    said.pushed(range(100)).acked([each for each in range(100) if each != 3])
    for minute in range(1, minutes + 1):
        said.wait(60)
        said.given_back([3]).pushed([3], again=minute)
        if not again:
            said.acked([3])
    said.wait(20)
    return said.closed().close() if ends else said


@pytest.mark.parametrize(
    ("said", "warns"),
    [
        (given_back_each_minute(7), True),
        (given_back_each_minute(7, ends=True), True),
        (given_back_each_minute(1), False),
        (given_back_each_minute(7, again=False), False),
    ],
    ids=["for seven minutes", "until its client ends", "for a minute", "until it is acknowledged"],
)
def test_both_name_it_in_a_trace(tmp_path: Path, said: Wire, warns: bool) -> None:
    folder = write_trace(tmp_path / "trace", said.blocks)
    read = read_trace(folder, say=print, say_more=print)
    verdict = diagnose(by_wire.subscription_view(read.wires[0]), RULES, limits_of(RULES))
    warned = [each.summary for each in verdict.findings if each.severity == "warning"]
    (told,) = holes_of_trace(folder, (), None, None).accounts
    assert [text for name, text in hole_lines(told) if name == "ack-hole"] == warned
    assert (told.status == "warning", verdict.status == "warning") == (warns, warns)
    if warns:
        assert "for 7.33 min while later ones were" in warned[0]
        (then,) = holes_of_trace(folder, (), None, START_US + 100_000_000).accounts
        assert (then.stuck, then.status) == (None, "healthy")


def test_what_is_given_back_together_passes_over_nothing(tmp_path: Path) -> None:
    said = Wire().open().attached(sub_type=SHARED).flow(1000).pushed(range(100))
    for minute in range(1, 8):
        said.wait(60).given_back([*range(100)]).pushed(range(50), again=minute)
    read = read_trace(write_trace(tmp_path / "trace", said.blocks), say=print, say_more=print)
    hole = by_wire.subscription_view(read.wires[0]).hole
    assert hole is not None
    assert (hole.ranges, hole.passed) == (0, 0)
