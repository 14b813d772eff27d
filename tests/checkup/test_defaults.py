"""What a broker allows by default depends on its version, where that is known."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from pulsar_doctor.broker.stats.defaults import with_defaults
from pulsar_doctor.broker.stats.observed import NOTHING_TOLD, ClusterLimits
from tests.broker.http_broker import HttpBroker, Reply
from tests.broker.replayed import cluster
from tests.checkup.test_recorded_states import FOLDER
from tests.cli.checked import Check, check

__all__ = ["check"]  # a fixture

RANGES = ClusterLimits(max_unacked_ranges_to_persist=200_000)


@pytest.mark.parametrize(
    ("version", "limits"),
    [
        ("5.0.0", RANGES), ("5.0.0-M1", RANGES), ("5.1.2", RANGES), ("10.0.0", RANGES),
        ("4.2.4", NOTHING_TOLD), ("3.0.0", NOTHING_TOLD), (None, NOTHING_TOLD),
        ("", NOTHING_TOLD), ("unknown", NOTHING_TOLD),
    ],
)  # fmt: skip
def test_of_each_version(version: str | None, limits: ClusterLimits) -> None:
    assert with_defaults(NOTHING_TOLD, version) == limits


def test_what_was_reported_counts() -> None:
    told = ClusterLimits(max_unacked_ranges_to_persist=10)
    assert with_defaults(told, "5.0.0") == told


@pytest.fixture(params=["4.0.8", "5.0.0"])
def broker(request: pytest.FixtureRequest) -> Iterator[HttpBroker]:
    """10,021 ranges on a broker that does not tell its configuration."""
    with gzip.open(FOLDER / "5.0.0-M1" / "holes-over-limit.jsonl.gz", "rt") as lines:
        kept: list[dict[str, Any]] = [json.loads(line) for line in lines]
    steps = [
        {"date_ms": each["taken_ms"], "stats": each["stats"], "internal": each["internal"]}
        for each in kept
        if "stats" in each
    ]
    version = Reply(body=request.param.encode())
    with cluster({"orders": steps[-3:]}, replies={"brokers/version": version}) as started:
        yield started


@pytest.mark.parametrize("asked", [("orders",), ("--namespace", "public/default")])
def test_a_live_check_follows_the_version(
    check: Check, broker: HttpBroker, asked: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    [subscription] = check(broker, *asked, "-o", "json").document["subscriptions"]
    codes = [found["code"] for found in subscription["findings"]]
    assert ("holes-over-limit" in codes) == ("4.0.8" in request.node.name)
