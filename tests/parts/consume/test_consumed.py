"""What `consume` ends with, every key and every figure, as a document and in lines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.parts.consume.deferring import Lateness
from pulsar_doctor.parts.consume.engines import Plan
from pulsar_doctor.parts.consume.report import summary as consumed
from pulsar_doctor.parts.consume.report.live import fitting
from pulsar_doctor.parts.consume.tallies import AckCommands, RunTotals, delay_totals
from pulsar_doctor.trace.sealing import open_trace
from tests.report.checkups import finding
from tests.support.documented import trace

ORDERS = "persistent://public/default/orders"
FINDING = {
    "code": "permits-exhausted",
    "severity": "stalled",
    "confidence": 0.9,
    "summary": "worker-3 holds 500 messages and has 0 permits",
    "evidence": [
        {"name": "available_permits", "value": 0, "unit": "permits"},
        {"name": "last_ack", "value": 720, "unit": "seconds"},
    ],
    "since": None,
    "where": None,
    "impact": None,
    "remedy": "Give this consumer a smaller receiver queue.",
    "actions": [],
    "explain": "pulsar-doctor explain permits-exhausted",
    "page": "docs/causes/permits-exhausted.md",
}
DELAY = {
    "counted_from": "publish",
    "on_time_ms": 50,
    "arrival_rate": 100.0,
    "handing_rate": 3 / 4025 * 1000,
    "lets_through": 200.0,
    "formula": "consumers / process time = 2 / 0.01 s",
    "lateness_grows": 0.0,
    "late_at_most_holds": "in the steady state: what had waited before a consumer came may be "
    "later",
    "delays": [
        {
            "delay_seconds": 1.0, "messages": 2, "on_time": 1, "early": 0, "late_max_ms": 1994,
            "late_p99_ms": 1994, "late_at_most_seconds": 1.96, "redelivered": 3,
            "delayed_by_broker": 0,
        },
        {
            "delay_seconds": 5.0, "messages": 2, "on_time": 2, "early": 1, "late_max_ms": 1,
            "late_p99_ms": 1, "late_at_most_seconds": 0.0, "redelivered": 0,
            "delayed_by_broker": 4,
        },
    ],
}  # fmt: skip
ACKS = {
    "acknowledge_calls": 21,
    "negative_acknowledge_calls": 13,
    "corrupt": 5,
    "individual_ack_commands": 7,
    "individual_ack_ids": 16,
    "cumulative_ack_commands": 9,
    "cumulative_acks_backwards": 2,
    "acks_with_validation_error": 4,
    "redelivery_ids": 11,
    "redeliveries_of_all": 1,
}


def acknowledged() -> RunTotals:
    wire = AckCommands(
        False, individual=7, individual_ids=16, cumulative=9, back=2, errors=4, returned=11,
        returned_all=1,
    )  # fmt: skip
    return RunTotals(21, 13, 5, wire)


def nothing() -> RunTotals:
    return RunTotals(0, 0, 0, AckCommands(False))


def told(totals: RunTotals) -> dict[str, Any]:
    """What the document says of them."""
    return consumed.document("orders", "billing", [], [], now_ns=0, totals=totals)


def deferred() -> list[Lateness]:
    """Four messages that came within 30 ms of each other; one waited for a second too long."""
    soon, later = Lateness(1.0, redelivered=3), Lateness(5.0, delayed_by_broker=4)
    soon.add(0, 1004)
    soon.add(20, 3014)
    later.add(10, 5011)
    later.add(30, 5029)
    return [soon, later]


def plan(*delays: float) -> Plan:
    return Plan(
        "c", "t", "s", receiver_delay_seconds=delays, receiver_queue_size=100, process_seconds=0.01
    )


def test_the_whole_document(tmp_path: Path) -> None:
    timeline = open_trace(trace(tmp_path / "t.ptrace")).timeline()
    findings = (finding(consumer="slow"), finding(severity="warning", consumer="third"))
    diagnosis = Diagnosis(
        ORDERS, None, "billing", "Shared", "stalled", findings, (), incarnations=frozenset({1})
    )
    document = consumed.document(
        "orders",
        "billing",
        list(timeline.living),
        [diagnosis],
        now_ns=timeline.now_ns,
        totals=replace(
            acknowledged(), delay=delay_totals(plan(5.0, 1.0), 2, deferred(), own_queue=True)
        ),
    )
    assert json.loads(json.dumps(document)) == {
        "schema": "pulsar-doctor/consume/2",
        "topic": "orders",
        "subscription": "billing",
        "consumers": [
            {
                "name": "slow", "topic": ORDERS, "active": None, "receiver_queue_size": 12,
                "refill_threshold": 7, "flows": [12, 7], "permits_granted": 19,
                "permits_spent": 21, "available_permits": -2, "unsent_permits": 11,
                "messages": 21, "acknowledged": 10, "without_permits_seconds": 65.025,
                "longest_without_permits_seconds": 63.02,
                "without_permits_share": 65_025 / 65_028, "verdict": "stalled",
                "findings": [{**FINDING, "consumer": "slow"}],
            },
            {
                "name": "third", "topic": ORDERS, "active": None, "receiver_queue_size": 8,
                "refill_threshold": 4, "flows": [8], "permits_granted": 8, "permits_spent": 3,
                "available_permits": 5, "unsent_permits": 0, "messages": 3, "acknowledged": 0,
                "without_permits_seconds": 0.001, "longest_without_permits_seconds": 0.001,
                "without_permits_share": 1 / 63_018, "verdict": "unknown", "findings": [],
            },
        ],
        "acknowledgements": ACKS,
        "receiver_delay": DELAY,
    }  # fmt: skip


def test_the_whole_of_what_acks_add_up_to() -> None:
    totals = acknowledged()
    assert told(totals)["acknowledgements"] == ACKS
    assert told(totals)["receiver_delay"] is None
    assert list(consumed.lines(totals)) == [
        "acknowledgements: 21 by the application, 9 ACK commands on the wire, each for all up to "
        "its message, 2 behind an earlier one",
        "negative acknowledgements: 13 by the application, all that is unacknowledged asked for "
        "again 1 times",
        "corrupt messages: 5, 4 of them acknowledged with the error",
    ]


def test_the_whole_of_what_is_told_of_a_receiver_delay() -> None:
    delay = delay_totals(plan(5.0, 1.0), 2, deferred(), own_queue=True)
    totals = replace(nothing(), delay=delay)
    assert told(totals)["receiver_delay"] == DELAY
    assert list(consumed.lines(totals)) == [
        "receiver delay 1 s: 2 messages, 1 within 50 ms of their time, 99 % at most 1.99 s late, "
        "all at most 1.99 s (foretold: 1.96 s, in the steady state: what had waited before a "
        "consumer came may be later); 3 that had come before are not counted",
        "receiver delay 5 s: 2 messages, 2 within 50 ms of their time, 99 % at most 1 ms late, "
        "all at most 1 ms; 4 that the broker delayed (deliver_at) are not counted",
    ]


def test_without_a_delay_nothing_is_told_of_one_and_without_a_limit_no_limit() -> None:
    assert delay_totals(plan(), 1, [], own_queue=True) is None
    totals = replace(nothing(), delay=delay_totals(plan(5.0), 1, [], own_queue=True))
    assert told(totals)["receiver_delay"] == {
        **DELAY, "arrival_rate": None, "handing_rate": None, "lets_through": 100.0,
        "formula": "consumers / process time = 1 / 0.01 s", "lateness_grows": None,
        "late_at_most_holds": None, "delays": [],
    }  # fmt: skip


def test_what_falls_behind_says_by_how_much() -> None:
    slow = Plan("c", "t", "s", receiver_delay_seconds=(1.0,), process_seconds=0.02)
    totals = replace(nothing(), delay=delay_totals(slow, 1, deferred(), own_queue=True))
    assert list(consumed.lines(totals))[-1] == (
        "falls behind: 100 messages/s arrive, at most 50 go through (consumers / process time = "
        "1 / 0.02 s), so each second adds 500 ms; measured 0.7453/s"
    )


@pytest.mark.parametrize(
    ("width", "says"),
    [
        (120, "slow          FLOW +500                permits 500   next FLOW after 500 more"),
        (80, "slow  FLOW +500  permits 500  next FLOW after 500 more"),
        (60, "slow  FLOW +500  permits 500"),
        (30, "slow  FLOW +500"),
    ],
)
def test_a_line_of_the_wire_leaves_parts_out_where_it_is_too_narrow(width: int, says: str) -> None:
    parts = ["12:00:00.123", "slow", "FLOW +500", "permits 500", "next FLOW after 500 more"]
    line = fitting(parts, width)
    assert line == f"12:00:00.123  {says}"
    assert len(line) <= width
