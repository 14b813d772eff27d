"""A line of JSON for each verdict, and one for each topic that could not be read."""

from __future__ import annotations

import json
from typing import Any

from pulsar_doctor.checkup.result import Cluster
from tests.report.checkups import ORDERS, checkup, verdict, written
from tests.report.test_json import held as held  # noqa: PLC0414

HEAD = ("checked_at", "source", "sources", "cluster")


def read(text: str) -> list[dict[str, Any]]:
    *lines, end = text.split("\n")
    assert end == ""
    assert text.isascii()
    rows = [json.loads(line) for line in lines]
    assert {row.pop("schema") for row in rows} <= {"pulsar-doctor/verdict/3"}
    for row in rows:
        row["consumers"] = [found["consumer"] for found in row["findings"]]
        row["summaries"] = [found["summary"] for found in row["findings"]]
        for name in (*HEAD, "type", "findings", "suspects", "ruled_out"):
            del row[name]
    return rows


def test_whole_lines() -> None:
    stalled_one = verdict("stalled", sources=("stats", "trace"))
    cluster = {
        "name": "eu",
        "admin_url": "http://broker:8080",
        "broker_version": "4.0.8",
        "context": "prod",
    }
    run = checkup(
        [stalled_one],
        cluster=Cluster(*cluster.values()),
        unreachable=[("persistent://a/b/gone", "404")],
    )
    stalled, unread = (json.loads(line) for line in written("jsonl", run).splitlines())
    head = {
        "schema": "pulsar-doctor/verdict/3",
        "checked_at": "2026-05-01T12:00:00.250Z",
        "source": "broker",
        "cluster": cluster,
    }
    told = {"topic": ORDERS, "status": "stalled", "sources": ["stats", "trace"]}
    assert {name: stalled[name] for name in head | told} == head | told
    assert unread == head | {
        "sources": [],
        "topic": "persistent://a/b/gone",
        "partition": None,
        "subscription": None,
        "type": None,
        "status": "unknown",
        "backlog": None,
        "account": None,
        "balance": None,
        "pace": None,
        "findings": [],
        "suspects": [],
        "ruled_out": [],
        "not_told": ["404"],
        "known_issues": [],
        "consumers": None,
    }
