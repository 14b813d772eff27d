"""What `trace` prints for programs, every key and every figure of one small trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor import cli
from tests.support.documented import trace

ORDERS = "persistent://public/default/orders"
WIRE = {
    "trace_id": "trace-1", "client_addr": "10.0.0.7:5000", "broker_addr": "10.0.0.1:6650",
}  # fmt: skip
SLOW = {
    **WIRE, "conn_id": 0, "incarnation": 1, "topic": ORDERS, "subscription": "billing",
    "subscription_type": "Shared", "consumer_id": 1, "consumer_name": "slow",
    "client_version": "Pulsar-CPP-v3.7.0",
}  # fmt: skip
QUICK = {
    "trace_id": "trace-1", "incarnation": 3, "topic": ORDERS, "subscription": "audit",
    "subscription_type": "Exclusive", "consumer_id": 2, "consumer_name": "quick",
    "client_version": "Pulsar-CPP-v3.7.0", "parked_permits": 0,
}  # fmt: skip
ROWS: dict[int, dict[str, Any]] = {  # by their seq: one of each kind, more where they differ
    0: {
        **WIRE, "ts": "2026-09-21T14:13:20.000000Z", "mono_ns": 0, "conn_id": 0,
        "direction": "to_broker", "command": "OPEN", "command_code": -1,
    },
    1: {
        **WIRE, "ts": "2026-09-21T14:13:20.001000Z", "mono_ns": 1_000_000, "conn_id": 0,
        "direction": "to_broker", "command": "CONNECT", "command_code": 2, "frame_bytes": 31,
        "client_version": "Pulsar-CPP-v3.7.0",
    },
    2: {
        **SLOW, "ts": "2026-09-21T14:13:20.002000Z", "mono_ns": 2_000_000,
        "direction": "to_broker", "command": "SUBSCRIBE", "command_code": 4, "frame_bytes": 69,
        "request_id": 1, "available_permits": 0, "unsent_permits_min": 0, "unacked_messages": 0,
        "durable": True,
    },
    9: {
        **SLOW, "ts": "2026-09-21T14:13:22.007000Z", "mono_ns": 2_007_000_000,
        "direction": "to_broker", "command": "ACK", "command_code": 10, "frame_bytes": 28,
        "messages": 2, "available_permits": 0, "unsent_permits_min": 9, "unacked_messages": 6,
        "starved_since": "2026-09-21T14:13:20.005000Z", "ack_delay_us": 2_002_000,
        "ack_type": "individual", "acknowledged_messages": 6,
        "message_ids": [{"ledger_id": 7, "entry_id": 0}, {"ledger_id": 7, "entry_id": 2}],
    },
    10: {
        **SLOW, "ts": "2026-09-21T14:13:22.008000Z", "mono_ns": 2_008_000_000,
        "direction": "to_broker", "command": "REDELIVER_UNACKNOWLEDGED_MESSAGES",
        "command_code": 20, "frame_bytes": 21, "ledger_id": 7, "entry_id": 1, "messages": 1,
        "available_permits": 0, "unsent_permits_min": 9, "unacked_messages": 3,
        "starved_since": "2026-09-21T14:13:20.005000Z",
    },
    11: {
        **SLOW, "ts": "2026-09-21T14:13:22.009000Z", "mono_ns": 2_009_000_000,
        "direction": "to_broker", "command": "FLOW", "command_code": 11, "frame_bytes": 16,
        "permits": 7, "available_permits": 7, "unsent_permits_min": 2, "unacked_messages": 3,
        "flow_gap_us": 2_005_000, "starved_us": 2_004_000,
        "starved_from": "2026-09-21T14:13:20.005000Z",
    },
    12: {
        **SLOW, "ts": "2026-09-21T14:13:22.010000Z", "mono_ns": 2_010_000_000,
        "direction": "to_client", "command": "MESSAGE", "command_code": 9, "frame_bytes": 122,
        "payload_bytes": 100, "ledger_id": 7, "entry_id": 1, "messages": 3, "permits": 3,
        "available_permits": 4, "unsent_permits_min": 2, "unacked_messages": 6,
        "redelivery_count": 1, "publish_time": "2026-09-21T14:13:22.010000Z",
    },
    27: {
        **QUICK, "ts": "2026-09-21T14:13:22.022000Z", "mono_ns": 2_022_000_000,
        "command": "TAKEN", "command_code": -1, "ledger_id": 7, "entry_id": 10,
        "available_permits": 2, "unsent_permits_min": 1, "unacked_messages": 3,
    },
    28: {
        **WIRE, **QUICK, "ts": "2026-09-21T14:13:22.023000Z", "mono_ns": 2_023_000_000,
        "conn_id": 1, "direction": "to_broker", "command": "ACK", "command_code": 10,
        "frame_bytes": 22, "ledger_id": 7, "entry_id": 11, "messages": 1, "available_permits": 2,
        "unsent_permits_min": 2, "unacked_messages": 1, "ack_delay_us": 2000,
        "ack_type": "cumulative", "acknowledged_messages": 2,
    },
    31: {
        **WIRE, "ts": "2026-09-21T14:13:22.026000Z", "mono_ns": 2_026_000_000, "conn_id": 1,
        "direction": "to_client", "command": "CLOSE", "command_code": -1,
        "client_version": "Pulsar-CPP-v3.7.0",
    },
    33: {
        **SLOW, "ts": "2026-09-21T14:13:25.029000Z", "mono_ns": 5_029_000_000,
        "direction": "to_broker", "command": "ACK", "command_code": 10, "frame_bytes": 24,
        "ledger_id": 7, "entry_id": 3, "messages": 1, "available_permits": -2,
        "unsent_permits_min": 11, "unacked_messages": 8, "ack_set": "0600000000000000",
        "starved_since": "2026-09-21T14:13:22.011000Z", "ack_delay_us": 5_024_000,
        "ack_type": "individual", "acknowledged_messages": 1,
    },
}  # fmt: skip
SUMMARY = {
    "schema": "pulsar-doctor/trace-summary/1",
    "trace_id": "trace-1",
    "live": False,
    "rows": 37,
    "until": "2026-09-21T14:14:25.031000Z",
    "refusals": [],
    "notes": [],
    "consumers": [
        {
            "incarnation": 1, "consumer_name": "slow", "topic": ORDERS,
            "subscription": "billing", "subscription_type": "Shared",
            "client_version": "Pulsar-CPP-v3.7.0", "client_addr": "10.0.0.7:5000",
            "opened": "2026-09-21T14:13:20.002000Z", "closed": None,
            "receiver_queue_size": 12, "receiver_queue_size_source": "inferred",
            "refill_threshold": 7, "flow_count": 2, "flows": [12, 7], "messages": 21,
            "redelivered": 3, "taken": None, "acknowledged": 10, "acknowledged_in_transactions": 0,
            "ack_commands": 3, "ack_ids": 4,
            "ack_ids_most": 2, "cumulative_acks": 0, "cumulative_highest": None,
            "cumulative_forward_only": None, "permits_granted": 19, "permits_spent": 21,
            "available_permits": -2, "parked_permits": None, "unsent_permits_min": 11,
            "unacked_messages": 8, "starved_us": 65_025_000, "longest_starved_us": 63_020_000,
            "without_permits_share": 65_025 / 65_028,
            "starved_since": "2026-09-21T14:13:22.011000Z", "ack_delay_max_us": 5_024_000,
            "since_subscribe": True, "certain": True, "verdict": "stalled",
        },
        {
            "incarnation": 2, "consumer_name": "third", "topic": ORDERS,
            "subscription": "billing", "subscription_type": "Shared",
            "client_version": "Pulsar-CPP-v3.7.0", "client_addr": "10.0.0.7:5000",
            "opened": "2026-09-21T14:13:22.012000Z", "closed": None,
            "receiver_queue_size": 8, "receiver_queue_size_source": "inferred",
            "refill_threshold": 4, "flow_count": 1, "flows": [8], "messages": 3,
            "redelivered": 0, "taken": None, "acknowledged": 0, "acknowledged_in_transactions": 0,
            "ack_commands": 0, "ack_ids": 0,
            "ack_ids_most": 0, "cumulative_acks": 0, "cumulative_highest": None,
            "cumulative_forward_only": None, "permits_granted": 8, "permits_spent": 3,
            "available_permits": 5, "parked_permits": None, "unsent_permits_min": 0,
            "unacked_messages": 3, "starved_us": 1000, "longest_starved_us": 1000,
            "without_permits_share": 1 / 63_018, "starved_since": None, "ack_delay_max_us": None,
            "since_subscribe": True, "certain": True, "verdict": "unknown",
        },
        {
            "incarnation": 3, "consumer_name": "quick", "topic": ORDERS,
            "subscription": "audit", "subscription_type": "Exclusive",
            "client_version": "Pulsar-CPP-v3.7.0", "client_addr": "10.0.0.7:5000",
            "opened": "2026-09-21T14:13:22.018000Z", "closed": "2026-09-21T14:13:22.025000Z",
            "receiver_queue_size": 5, "receiver_queue_size_source": "told",
            "refill_threshold": 2, "flow_count": 1, "flows": [5], "messages": 3,
            "redelivered": 0, "taken": 1, "acknowledged": 2, "acknowledged_in_transactions": 0,
            "ack_commands": 1, "ack_ids": 1,
            "ack_ids_most": 1, "cumulative_acks": 1, "cumulative_highest": "7:11",
            "cumulative_forward_only": True, "permits_granted": 5, "permits_spent": 3,
            "available_permits": 2, "parked_permits": 0, "unsent_permits_min": 2,
            "unacked_messages": 1, "starved_us": 1000, "longest_starved_us": 1000,
            "without_permits_share": 1 / 6, "starved_since": None, "ack_delay_max_us": 2000,
            "since_subscribe": True, "certain": True, "verdict": "unknown",
        },
    ],
}  # fmt: skip
LINES = """\
slow #1 attached  public/default/orders, billing (Shared)  stalled
  queue 12 inferred, 2 FLOWs of 12, 7
  permits 19 granted, 21 spent, ≤-2 available
  messages 21, 8 unacked, ack delay at most 5.0 s
  acknowledged 10, in 3 ACKs, ≤2 each
  without permits 1m 5s (>99 %), longest 1m 3s
third #2 attached  public/default/orders, billing (Shared)  healthy
  queue 8 inferred, 1 FLOW of 8
  permits 8 granted, 3 spent, ≤5 available
  messages 3, 3 unacked, ack delay at most -
  acknowledged 0
  without permits 1 ms (<1 %), longest 1 ms
quick #3 closed  public/default/orders, audit (Exclusive)  healthy
  queue 5, 1 FLOW of 5
  permits 5 granted, 3 spent, 2 available
  messages 3, 1 unacked, ack delay at most 2 ms
  acknowledged 2, in 1 ACK, cumulative
  without permits 1 ms (17 %), longest 1 ms
"""


@pytest.fixture
def told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    path = trace(tmp_path / "t.ptrace")

    def told(subcommand: str, *options: str) -> tuple[int, str]:
        code = cli.run(["trace", subcommand, str(path), *options])
        return code, capsys.readouterr().out

    return told


@pytest.mark.parametrize("output", ["json", "jsonl"])
def test_the_whole_of_a_row_of_each_kind(told: Any, output: str) -> None:
    code, out = told("show", "-o", output)
    rows = json.loads(out) if output == "json" else [json.loads(x) for x in out.splitlines()]
    assert (code, len(rows)) == (0, 37)
    assert {seq: rows[seq] for seq in ROWS} == {seq: {"seq": seq, **ROWS[seq]} for seq in ROWS}


def test_the_whole_of_a_summary(told: Any) -> None:
    code, out = told("summary", "-o", "json")
    assert (code, json.loads(out)) == (0, SUMMARY)


def test_the_whole_of_a_summary_for_a_narrow_terminal(tmp_path: Path) -> None:
    from pulsar_doctor.report.trace.consumers import summary_lines
    from pulsar_doctor.trace.sealing import open_trace

    timeline = open_trace(trace(tmp_path / "t.ptrace")).timeline()
    verdicts = {1: "stalled", 2: "healthy", 3: "healthy"}
    assert "\n".join(summary_lines(timeline, verdicts)) + "\n" == LINES


def test_the_whole_of_a_verification(told: Any) -> None:
    code, out = told("verify", "-o", "json")
    document = {
        "schema": "pulsar-doctor/trace-verify/1",
        "trace_id": "trace-1",
        "status": "torn",
        "segments": 0,
        "rows": 37,
        "sealed_rows": 0,
        "gaps": 0,
        "set_aside": 0,
        "dropped": 0,
        "expired_rows": 0,
        "seen": 37,
        "until": "2026-09-21T14:14:25.031000Z",
        "problems": [],
        "notes": [
            "connections that were open at its end: 1; the relay was killed, and up to a quarter "
            "of a second before that is not recorded, or later files of it are gone"
        ],
    }
    assert (code, json.loads(out)) == (0, document)
    told("summary")  # which seals it
    code, out = told("verify", "-o", "json")
    assert (code, json.loads(out)) == (0, {**document, "segments": 2, "sealed_rows": 37})
