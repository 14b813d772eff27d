"""A line of JSON for each verdict, and one for each topic that could not be read."""

from __future__ import annotations

import json
from typing import Any

from tests.report.checkups import ORDERS, checkup, verdict, written


def read(text: str) -> list[dict[str, Any]]:
    *lines, end = text.split("\n")
    assert end == ""
    assert text.isascii()
    rows = [json.loads(line) for line in lines]
    assert {row.pop("schema") for row in rows} <= {"pulsar-doctor/verdict/1"}
    for row in rows:
        row["consumers"] = [found["consumer"] for found in row["findings"]]
        row["summaries"] = [found["summary"] for found in row["findings"]]
        for name in ("checked_at", "source", "type", "findings"):
            del row[name]
    return rows


def test_whole_lines() -> None:
    run = checkup([verdict("stalled")], unreachable=[("persistent://a/b/gone", "404")])
    stalled, unread = (json.loads(line) for line in written("jsonl", run).splitlines())
    head = {"schema": "pulsar-doctor/verdict/1", "checked_at": "2026-05-01T12:00:00.250Z"}
    assert stalled.items() >= (head | {"topic": ORDERS, "status": "stalled"}).items()
    assert unread == head | {
        "source": "broker",
        "topic": "persistent://a/b/gone",
        "partition": None,
        "subscription": None,
        "type": None,
        "status": "unknown",
        "backlog": None,
        "findings": [],
        "not_told": ["404"],
        "consumers": None,
    }
