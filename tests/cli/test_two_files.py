"""Files that nobody timed: what grew between two decides, and their own time is a guess."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.checked import Check, check

__all__ = ["check"]  # a fixture

STATES = Path(__file__).parents[1] / "states" / "4.0.8"
DECIDED = {  # by the first and the last reading of ten seconds, and by no clock
    "healthy-busy": ("healthy", None),
    "redelivery-storm": ("warning", "redelivery-storm"),
    "dispatch-throttled-topic": ("warning", "dispatch-throttled"),
}
# Less than a minute old, so that no rate shows that what moved between the readings moves still.
DECIDED_BY_INTERVAL = {
    "healthy-slow-and-often-without-permits": ("healthy", None),
    "slow-but-progressing": ("warning", "slow-but-progressing"),
    "slow-sole-worker": ("warning", "slow-but-progressing"),
}


def files(folder: Path, state: str) -> list[str]:
    """The first and the last reading, as pulsar-admin prints them."""
    with gzip.open(STATES / f"{state}.jsonl.gz", "rt") as kept:
        readings = [line["stats"] for line in map(json.loads, kept) if "stats" in line]
    names = []
    for name, stats in (("first.json", readings[0]), ("last.json", readings[-1])):
        (folder / name).write_text(json.dumps(stats))
        names.append(str(folder / name))
    return names


def judged(check: Check, names: list[str], *more: str) -> dict[str, Any]:
    given = [part for name in names for part in ("--stats", name)]
    [entry] = check(None, "orders", *given, *more, "-o", "json").document["subscriptions"]
    found: dict[str, Any] = entry
    return found


@pytest.mark.parametrize("state", DECIDED)
def test_what_grew_decides_without_a_clock_in_any_order(
    check: Check, tmp_path: Path, state: str
) -> None:
    names = files(tmp_path, state)
    assert judged(check, names[1:])["status"] == "unknown"
    entry = judged(check, names)
    code = entry["findings"][0]["code"] if entry["findings"] else None
    assert (entry["status"], code) == DECIDED[state]
    assert judged(check, names[::-1]) == entry


@pytest.mark.parametrize("state", DECIDED_BY_INTERVAL)
def test_what_grew_may_have_ended_long_ago_unless_the_distance_is_told(
    check: Check, tmp_path: Path, state: str
) -> None:
    names = files(tmp_path, state)
    assert judged(check, names)["status"] == "unknown"
    entry = judged(check, names, "--interval", "10s")
    code = entry["findings"][0]["code"] if entry["findings"] else None
    assert (entry["status"], code) == DECIDED_BY_INTERVAL[state]


def test_no_pace_is_made_up_where_the_distance_is_not_told(check: Check, tmp_path: Path) -> None:
    names = files(tmp_path, "prefetch-hogging")
    assert judged(check, names)["status"] == "stalled"
    # Ten times as fast as it was: wrong, and asked for.
    assert judged(check, names, "--interval", "1s")["status"] == "warning"


def test_the_own_time_of_a_file_is_in_the_header_and_decides_nothing(
    check: Check, tmp_path: Path
) -> None:
    name = files(tmp_path, "permits-exhausted-shared-hung")[-1]
    told = []
    for at in (1_795_262_300, 1_995_262_300):
        os.utime(name, (at, at))
        told.append(judged(check, [name]))
    assert told[0] == told[1]
    head = " ".join(check(None, "orders", "--stats", name).out.split())
    newest = re.search(r"; (\S+ \S+) UTC or later \(its newest event\); saved at", head)
    assert newest
    assert newest[1] < "2027"
    assert "; saved at 2033-03-24 07:31:40 UTC; --at TIME makes ages exact" in head
    given = check(None, "orders", "--stats", name, "--at", "2033-03-24T07:31:40Z")
    assert "saved at" not in given.out


def test_a_pace_between_acks_is_that_of_the_window(check: Check, tmp_path: Path) -> None:
    names = files(tmp_path, "prefetch-hogging")
    exact = measures(judged(check, names, "--interval", "10s"))["pace"]
    assert measures(judged(check, names))["pace"] == pytest.approx(exact, rel=0.3)


def measures(entry: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each["value"] for each in entry["findings"][0]["evidence"]}
