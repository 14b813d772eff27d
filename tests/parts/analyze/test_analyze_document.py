"""What `analyze` prints for programs, every key and every figure of one small trace."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.cli import run
from tests.support.documented import trace

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.timeout(300)]

ORDERS = "persistent://public/default/orders"
SLOW, THIRD, QUICK = (
    {"trace_id": "trace-1", "incarnation": number, "topic": ORDERS, "subscription": subscription,
     "consumer_name": name}
    for number, (name, subscription) in enumerate(
        (("slow", "billing"), ("third", "billing"), ("quick", "audit")), 1
    )
)  # fmt: skip


def gap(
    who: dict[str, Any], measure: str, count: int, middle: int, most: int, untold: int = 0
) -> dict[str, Any]:
    """Of so few all that is above the middle is the longest."""
    return {
        **who, "measure": measure, "count": count, "p50_us": middle, "p90_us": most,
        "p99_us": most, "max_us": most, "error": 0.0, "untold": untold,
    }  # fmt: skip


# Times without permits of `slow`: a millisecond before its first FLOW, from 20.005 to 22.009, and
# from 22.011 to the last row at 14:25.031; of the two others a millisecond before their first FLOW.
WHOLE = {
    "schema": "pulsar-doctor/analyze/2",
    "events": 37,
    "traces": 1,
    "first": "2026-09-21T14:13:20.000000Z",
    "last": "2026-09-21T14:14:25.031000Z",
    "bucket_seconds": 40.0,
    "percentile_error": 0.0,
    "totals": {
        "consumers": 3, "gaps": 6, "stalls": 2, "timeline": 2, "subscriptions": 2, "holes": 2,
    },
    "consumers": [
        {
            **SLOW, "subscription_type": "Shared", "client_version": "Pulsar-CPP-v3.7.0",
            "receiver_queue_size": 12, "flow_count": 2,
            "flow_p50": 7, "flow_p99": 12, "permits_granted": 19, "permits_spent": 21,
            "messages": 21, "entries": 7, "bytes": 700, "batch_mean": 3.0, "batch_most": 3,
            "redeliveries": 3, "acks_individual": 3, "acks_cumulative": 0, "acknowledged": 10,
            "starvations": 3, "starved_us": 65_025_000, "longest_starved_us": 63_020_000,
            "available_permits": -2, "unacked_messages": 8, "unacked_most": 12,
            "first_seen": "2026-09-21T14:13:20.002000Z",
            "last_seen": "2026-09-21T14:13:25.029000Z",
            "acknowledged_least": 10, "untold_acks": 0, "certain": True,
        },
        {
            **THIRD, "subscription_type": "Shared", "client_version": "Pulsar-CPP-v3.7.0",
            "receiver_queue_size": 8, "flow_count": 1,
            "flow_p50": 8, "flow_p99": 8, "permits_granted": 8, "permits_spent": 3, "messages": 3,
            "entries": 1, "bytes": 100, "batch_mean": 3.0, "batch_most": 3, "redeliveries": 0,
            "acks_individual": 0, "acks_cumulative": 0, "acknowledged": 0, "starvations": 1,
            "starved_us": 1000, "longest_starved_us": 1000, "available_permits": 5,
            "unacked_messages": 3, "unacked_most": 3, "first_seen": "2026-09-21T14:13:22.012000Z",
            "last_seen": "2026-09-21T14:13:22.015000Z",
            "acknowledged_least": 0, "untold_acks": 0, "certain": True,
        },
        {
            **QUICK, "subscription_type": "Exclusive", "client_version": "Pulsar-CPP-v3.7.0",
            "receiver_queue_size": 5, "flow_count": 1,
            "flow_p50": 5, "flow_p99": 5, "permits_granted": 5, "permits_spent": 3, "messages": 3,
            "entries": 3, "bytes": 300, "batch_mean": 1.0, "batch_most": 1, "redeliveries": 0,
            "acks_individual": 0, "acks_cumulative": 1, "acknowledged": 2, "starvations": 1,
            "starved_us": 1000, "longest_starved_us": 1000, "available_permits": 2,
            "unacked_messages": 1, "unacked_most": 3, "first_seen": "2026-09-21T14:13:22.018000Z",
            "last_seen": "2026-09-21T14:13:22.025000Z",
            "acknowledged_least": 2, "untold_acks": 0, "certain": True,
        },
    ],
    "gaps": [
        gap(SLOW, "without_permits", 3, 2_004_000, 63_020_000, untold=1),
        gap(SLOW, "delivery_to_ack", 3, 3_017_000, 5_024_000),
        gap(SLOW, "between_flows", 1, 2_005_000, 2_005_000),
        gap(QUICK, "delivery_to_ack", 1, 2000, 2000),
        gap(THIRD, "without_permits", 1, 1000, 1000),
        gap(QUICK, "without_permits", 1, 1000, 1000),
    ],
    "stalls": [
        {
            **SLOW, "start": "2026-09-21T14:13:22.011000Z",
            "end": "2026-09-21T14:14:25.031000Z", "duration_us": 63_020_000,
            "ended_by": "end_of_trace", "unacked_at_start": 12, "available_lowest": -2,
            "acknowledged": 4, "code": "permit-leak", "severity": "stalled",
            "acknowledged_least": 4,
        },
        {
            **SLOW, "start": "2026-09-21T14:13:20.005000Z",
            "end": "2026-09-21T14:13:22.009000Z", "duration_us": 2_004_000, "ended_by": "flow",
            "unacked_at_start": 12, "available_lowest": 0, "acknowledged": 6, "code": None,
            "severity": None,
            "acknowledged_least": 6,
        },
    ],
    "timeline": [
        {
            "start": "2026-09-21T14:13:20.000000Z", "bucket_us": 40_000_000, "delivered": 27,
            "acknowledged": 12, "flows": 4, "lowest_available": -2, "starved_consumers": 3,
            "acknowledged_least": 12, "certain": True,
        },
        {
            "start": "2026-09-21T14:14:00.000000Z", "bucket_us": 40_000_000, "delivered": 0,
            "acknowledged": 0, "flows": 0, "lowest_available": None, "starved_consumers": 1,
            "acknowledged_least": 0, "certain": True,
        },
    ],
    "subscriptions": [
        {
            "topic": ORDERS, "subscription": "billing",
            "consumers": 2, "starved_consumers": 1, "starved_share": 0.5, "starved_us": 65_026_000,
            "stalls": 4, "messages": 24, "acknowledged": 10, "redeliveries": 3,
            "unacked_messages": 11, "hoarder": "slow", "hoarder_share": 0.8, "skew": 1.6,
            "acknowledged_least": 10, "unacked_least": 11, "certain": True,
        },
        {
            "topic": ORDERS, "subscription": "audit",
            "consumers": 1, "starved_consumers": 0, "starved_share": 0.0, "starved_us": 1000,
            "stalls": 1, "messages": 3, "acknowledged": 2, "redeliveries": 0,
            "unacked_messages": 1, "hoarder": "quick", "hoarder_share": 1.0, "skew": 1.0,
            "acknowledged_least": 2, "unacked_least": 1, "certain": True,
        },
    ],
    "holes": [
        {
            "trace_id": "trace-1", "topic": ORDERS,
            "subscription": "billing", "entries": 7, "acknowledged_entries": 3, "holes": 1,
            "partly_acknowledged": 1, "oldest_hole": "7:1", "highest_acknowledged": "7:4",
            "certain": True,
        },
        {
            "trace_id": "trace-1", "topic": ORDERS,
            "subscription": "audit", "entries": 3, "acknowledged_entries": 2, "holes": 0,
            "partly_acknowledged": 0, "oldest_hole": None, "highest_acknowledged": "7:11",
            "certain": True,
        },
    ],
    "stall_floor_seconds": 1.0,
    "brief_stalls": [{"below_us": 10_000, "count": 3, "total_us": 3000}],
    "notes": [],
    "left_out": [],
    "since": None,
    "until": None,
    "topic": None,
    "subscription": None,
    "status": "stalled",
}  # fmt: skip


def test_the_whole_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path / "t.ptrace")
    code = run(["analyze", str(path), "-o", "json", "--bucket", "40s"])
    out, err = capsys.readouterr()
    assert out, (code, err)
    document = json.loads(out)
    run(["stall-check", "--trace", str(path), "-o", "json"])
    judged = json.loads(capsys.readouterr().out)["subscriptions"]
    ends = ["2026-09-21T14:14:25.031000Z", "2026-09-21T14:13:22.024000Z"]  # audit: its close
    verdicts = [
        {"trace_id": "trace-1", "at": at, **each} for at, each in zip(ends, judged, strict=True)
    ]
    counts = Counter(each["status"] for each in judged)
    statuses = {name: counts[name] for name in ("stalled", "unknown", "warning", "healthy")}
    assert document == {**WHOLE, "statuses": statuses, "verdicts": verdicts}
    assert (code, statuses["stalled"]) == (1, 1)
