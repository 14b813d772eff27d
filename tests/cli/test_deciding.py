"""stall-check --decide: looks again at what is not decided, says so, and ends in time."""

from __future__ import annotations

import gzip
import json
import signal
from pathlib import Path

import pytest

from tests.broker.replayed import BLOCKED, HEALTHY, HOME, Step, cluster, states, stuck
from tests.cli.checked import Check, check
from tests.cli.test_stall_check_live import ended, reads, running
from tests.support import eventually

__all__ = ["check"]  # a fixture

# One message in hand for long: working and hanging look the same, however long one looks.
OPEN = Path(__file__).parents[1] / "states" / "4.0.8" / "zero-queue-long-work.jsonl.gz"
SHORT = tuple(
    f"--set={code}.refill_wait=5s" for code in ("permits-exhausted", "blocked-on-unacked-consumer")
)
ONE = (*SHORT, "--window", "0s", "--decide", "-o", "json")


def in_hand() -> list[Step]:
    with gzip.open(OPEN, "rt") as kept:
        readings = [line for line in map(json.loads, kept) if "stats" in line]
    return [
        {"date_ms": each["taken_ms"], "stats": each["stats"], "internal": each["internal"]}
        for each in readings
    ]


@pytest.mark.parametrize("which", [("orders", "quiet"), ("--all",)])
def test_what_is_not_decided_is_looked_at_again(check: Check, which: tuple[str, ...]) -> None:
    with cluster({"orders": states(BLOCKED), "quiet": states(HEALTHY)}) as broker:
        told = check(broker, *which, *ONE)
        assert reads(broker, "quiet") < reads(broker, "orders")
    assert (told.code, told.statuses) == (1, {"orders": "stalled", "quiet": "healthy"})
    looks = {each["topic"]: each["decided"] for each in told.document["subscriptions"]}
    assert looks[f"{HOME}quiet"] == []
    assert [(look["before"], look["after"]) for look in looks[f"{HOME}orders"]][-1:] == [
        ("unknown", "stalled")
    ]
    assert told.document["samples"] > 3 or which == ("--all",)
    assert told.document["window_seconds"] > 0
    assert "public/default/orders: not decided; " in told.err
    assert "unknown -> stalled blocked-on-unacked-consumer of " in told.err
    assert "quiet" not in told.err


def test_when_the_time_is_over_that_is_said(check: Check) -> None:
    with cluster({"orders": in_hand()}) as broker:
        told = check(broker, "orders", *ONE, "--decide-within", "2500ms")
    [entry] = told.document["subscriptions"]
    assert (told.code, entry["status"]) == (3, "unknown")
    assert [look["after"] for look in entry["decided"]] == ["unknown"] * len(entry["decided"])
    assert entry["decided"]
    last = told.err.splitlines()[-1]
    assert ": still unknown, the time is over (see --decide-within)" in last


def test_what_is_decided_at_once_is_not_looked_at_again(check: Check) -> None:
    with cluster({"orders": stuck()}) as broker:
        told = check(broker, "orders", *ONE)
        assert reads(broker, "orders") <= 2
    assert (told.code, told.err) == (1, "")


def test_all_that_was_read_is_saved_and_gives_the_same_verdict(
    check: Check, tmp_path: Path
) -> None:
    saved = str(tmp_path / "incident.gz")
    with cluster({"orders": states(BLOCKED)}) as broker:
        told = check(broker, "orders", *ONE, "--save", saved)
    again = check(None, *SHORT, "--stats", saved, "-o", "json")
    assert again.statuses == told.statuses == {"orders": "stalled"}


@pytest.mark.parametrize("which", [("orders",), ("--all",)])
def test_ctrl_c_ends_with_what_is_known(which: tuple[str, ...]) -> None:
    with (
        cluster({"orders": in_hand()}) as broker,
        running(broker, *which, *ONE, "--decide-within", "10m", "--interval", "100ms") as process,
    ):
        eventually(lambda: reads(broker, "orders") > 6, 30)
        told = ended(process, signal.SIGINT)
    [entry] = json.loads(told.out)["subscriptions"]
    assert (told.code, entry["status"]) == (3, "unknown")
    assert reads(broker, "orders") < 60, "a window has a hundred samples"
    assert ": still unknown, stopped" in told.err.splitlines()[-1]


@pytest.mark.parametrize(
    "given",
    [
        ("--stats", "x"),
        ("--internal-stats", "x"),
        ("--trace", "x"),
        ("orders", "--trace", "x"),
        ("orders", "--watch"),
    ],
)
def test_what_cannot_be_looked_at_again_is_refused(check: Check, given: tuple[str, ...]) -> None:
    told = check(None, *given, "--decide")
    assert (told.code, told.out) == (2, "")
    assert told.sentence().startswith("--watch" if "--watch" in given else "--decide reads a ")
