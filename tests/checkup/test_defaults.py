"""What a broker allows by default depends on its version, where that is known."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pulsar_doctor.broker.stats.observed import NO_LIMITS, ClusterLimits
from pulsar_doctor.diagnosis.answers import Finding
from pulsar_doctor.diagnosis.causes import holes_over_limit
from pulsar_doctor.evidence.hole import AckedRanges
from pulsar_doctor.ledger.acks.persisting import storing_of
from tests.broker.http_broker import HttpBroker, Reply
from tests.broker.replayed import cluster
from tests.cli.checked import Check, check
from tests.diagnosis.test_not_told import BARE
from tests.made.states import FOLDER

__all__ = ["check"]  # a fixture


@pytest.mark.parametrize(
    ("version", "ranges"),
    [
        ("5.0.0", 200_000), ("5.0.0-M1", 200_000), ("5.1.2", 200_000), ("10.0.0", 200_000),
        ("4.2.4", 10_000), ("3.0.0", 10_000), (None, None), ("", None), ("unknown", None),
    ],
)  # fmt: skip
def test_of_each_version(version: str | None, ranges: int | None) -> None:
    assert NO_LIMITS.on(version).unacked_ranges_by_default == ranges
    assert storing_of({}, version).limit == (ranges or 10_000)


def test_what_was_reported_counts() -> None:
    told = ClusterLimits(max_unacked_ranges_to_persist=10).on("5.0.0")
    assert told.max_unacked_ranges_to_persist == 10
    assert storing_of({"managedLedgerMaxUnackedRangesToPersist": "10"}, "5.0.0").limit == 10
    finding = found(AckedRanges(30, 10, None, 200_000))
    assert finding == "30 acknowledged ranges, and the broker persists only 11"


@pytest.mark.parametrize(
    ("by_default", "source"),
    [(200_000, "200001 by this version's default"), (None, "10001 by default")],
)
def test_an_answer_says_that_a_default_was_used(by_default: int | None, source: str) -> None:
    finding = found(AckedRanges(300_000, None, None, by_default))
    assert finding == (
        f"300000 acknowledged ranges, and the broker persists only {source} (its configuration was "
        "not read)"
    )


def found(ranges: AckedRanges) -> str:
    """The end of what it says."""
    limits = {each.name: each.default for each in holes_over_limit.THRESHOLDS}
    [finding] = holes_over_limit.check(replace(BARE, ranges=ranges), limits)
    assert isinstance(finding, Finding)
    return finding.summary.partition("there are ")[2]


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
