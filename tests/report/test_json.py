"""The JSON of stall-check: one document, written as the verdicts come."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.checkup.result import Cluster
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.numbers import ReportedConsumer
from pulsar_doctor.evidence.values import Count
from pulsar_doctor.report.stall_check.formats import write
from tests.report.checkups import checkup, located, verdict, written

HELD = ReportedConsumer(
    label="worker-3",
    name="worker-3",
    address="/10.0.3.7:51494",
    connected_for=Age(7_200_000, True),
    active=None,
    receiver_queue_size=Count(0, 1),
    available_permits=Count(0, 0),
    unacked_messages=Count(500, 500),
    max_unacked_messages_per_consumer=50_000,
    next_flow_after=Count(None, 250),
    since_last_ack=Age(720_000, False),
    since_last_flow=Age(7_200_000, True),
)
CONSUMER = {
    "label": "worker-3",
    "name": "worker-3",
    "address": "/10.0.3.7:51494",
    "client_version": None,
    "connected_since": None,
    "connected_for": 7200.0,
    "active": None,
    "receiver_queue_size": {"least": 0, "most": 1},
    "available_permits": 0,
    "unacked_messages": 500,
    "max_unacked_messages_per_consumer": 50_000,
    "blocked_consumer_on_unacked_msgs": None,
    "msg_out_counter": None,
    "permits_granted": None,
    "flows": None,
    "next_flow_after": {"least": None, "most": 250},
    "never_acked": None,
    "since_last_ack": {"least": 720.0, "most": None},
    "since_last_flow": 7200.0,
    "since_last_delivery": None,
    "quiet_for": None,
    "idle_for": None,
    "msg_rate_out": None,
}


def held(name: str) -> str:
    """Two halves of a character beside each other are one."""
    return str(json.loads(json.dumps(name)))


def read(text: str) -> list[dict[str, Any]]:
    """One document, of what is told of each subscription and of what could not be read."""
    assert text.isascii()
    document = json.loads(text)
    assert text.endswith("}\n")
    assert document["schema"] == "pulsar-doctor/stall-check/3"
    rows = document["subscriptions"]
    for row in rows:
        row["consumers"] = [found["consumer"] for found in row["findings"]]
        row["summaries"] = [found["summary"] for found in row["findings"]]
        del row["type"], row["findings"], row["suspects"], row["ruled_out"]
    for each in document["unreachable"]:
        rows.append({"topic": each["topic"], "subscription": None, "not_told": [each["reason"]]})
    return rows  # type: ignore[no-any-return]


def test_a_whole_document() -> None:
    run = checkup(
        [
            verdict("stalled", partition=3, findings=(located(),), consumers=(HELD,)),
            verdict("unknown", "audit", backlog=None, sources=("trace", "stats")),
        ],
        cluster=Cluster("eu", "http://broker:8080", None),
        not_loaded=["persistent://a/b/quiet"],
        unreachable=[("persistent://a/b/gone", "404: no such topic")],
    )
    text = written("json", run)
    assert len(text.splitlines()) == 4
    assert json.loads(text) == {
        "schema": "pulsar-doctor/stall-check/3",
        "checked_at": "2026-05-01T12:00:00.250Z",
        "source": "broker",
        "causes": [
            {
                "code": "permits-exhausted",
                "severity": "stalled",
                "subscriptions": 1,
                "backlog": 498,
                "growth": None,
                "largest": [
                    {
                        "topic": "persistent://public/default/orders",
                        "partition": 3,
                        "subscription": "billing",
                        "backlog": 498,
                    }
                ],
            }
        ],
        "sources": ["stats", "trace"],
        "cluster": {
            "name": "eu",
            "admin_url": "http://broker:8080",
            "broker_version": None,
            "context": None,
        },
        "window_seconds": 10.0,
        "samples": 11,
        "suppressed": 0,
        "subscriptions": [
            {
                "topic": "persistent://public/default/orders",
                "partition": 3,
                "subscription": "billing",
                "type": "Shared",
                "status": "stalled",
                "backlog": 498,
                "account": None,
                "balance": None,
                "pace": None,
                "findings": [
                    {
                        "code": "permits-exhausted",
                        "severity": "stalled",
                        "confidence": 0.9,
                        "consumer": "worker-3",
                        "summary": "worker-3 holds 500 messages and has 0 permits",
                        "evidence": [
                            {"name": "available_permits", "value": 0, "unit": "permits"},
                            {"name": "last_ack", "value": 720, "unit": "seconds"},
                        ],
                        "since": "2026-05-01T11:48:00.250Z",
                        "where": {
                            "address": "/10.0.3.7:51494",
                            "client_version": "Pulsar-Java-v4.0.8",
                            "connected_since": "2026-05-01T10:00:00Z",
                        },
                        "impact": "40 entries wait to be sent",
                        "remedy": "Give this consumer a smaller receiver queue.",
                        "actions": [],
                        "explain": "pulsar-doctor explain permits-exhausted",
                        "page": "docs/causes/permits-exhausted.md",
                    }
                ],
                "suspects": [],
                "ruled_out": [],
                "not_told": [],
                "known_issues": [],
                "consumers": [CONSUMER],
            },
            {
                "topic": "persistent://public/default/orders",
                "partition": None,
                "subscription": "audit",
                "type": "Shared",
                "status": "unknown",
                "backlog": None,
                "account": None,
                "balance": None,
                "pace": None,
                "findings": [],
                "suspects": [],
                "ruled_out": [],
                "not_told": ["broker-read-stuck: one sample does not show whether it moves"],
                "known_issues": [],
                "consumers": None,
            },
        ],
        "not_loaded": ["persistent://a/b/quiet"],
        "unreachable": [{"topic": "persistent://a/b/gone", "reason": "404: no such topic"}],
        "notes": [],
    }


def test_nothing_examined_is_a_document_too() -> None:
    assert json.loads(written("json", checkup([])))["subscriptions"] == []


def test_each_subscription_is_written_before_the_next_is_asked_for() -> None:
    out = io.StringIO()
    seen = []

    def coming() -> Iterator[Diagnosis]:
        for number in range(4):
            seen.append(out.getvalue().count('"subscription": '))
            yield verdict(subscription=f"s{number}")

    write("json", checkup(coming()), out)
    assert seen == [0, 1, 2, 3]


def test_what_goes_wrong_while_the_verdicts_come_is_in_the_document() -> None:
    run = checkup([])

    def coming() -> Iterator[Diagnosis]:
        yield verdict()
        run.unreachable.append(("persistent://a/b/deleted", "404"))
        run.samples = 3

    run.diagnoses = coming()
    found = json.loads(written("json", run))
    assert found["samples"] == 3
    assert found["unreachable"] == [{"topic": "persistent://a/b/deleted", "reason": "404"}]
