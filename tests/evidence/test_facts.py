"""What the broker's documents report, and how a number compares with itself over the samples."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_doctor.broker.samples.reading import StatsAnswer
from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.evidence.facts import BrokerFacts

TOPIC = "persistent://public/default/orders"


def facts(*replayed: int | None, chunks: bool = False, permits: int = 5) -> BrokerFacts:
    """A sample a second, each with so many messages to be replayed, and its permits one more."""
    samples = [
        StatsAnswer(TOPIC, 1_790_000_000_000 + at * 1000, stats(count, chunks, permits + at))
        for at, count in enumerate(replayed)
    ]
    window = Window(tuple(answer.sample() for answer in samples))
    return BrokerFacts(Observed(TOPIC, None, "s", window))


def stats(replayed: int | None, chunks: bool, permits: int) -> dict[str, Any]:
    consumer = {
        "consumerName": "c",
        "connectedSince": "2026-09-20T00:00:00Z",
        "availablePermits": permits,
    }
    return {
        "msgChunkPublished": chunks,
        "subscriptions": {"s": {"msgInReplay": replayed, "consumers": [consumer]}},
    }


@pytest.mark.parametrize(
    ("replayed", "same", "grew"),
    [
        ((3, 3, 3), True, False),
        ((3, 4, 3), False, False),
        ((3, 4, 5), False, True),
        ((5, 4, 3), False, False),
        ((3,), None, None),
        ((3, 3, None), None, None),
        ((None, 3), None, None),
        ((None, 3, 3), True, False),
    ],
)
def test_a_number_over_the_samples(
    replayed: tuple[int | None, ...], same: bool | None, grew: bool | None
) -> None:
    found = facts(*replayed)
    assert found.now("sub.replayed", None) == replayed[-1]
    assert found.same("sub.replayed", None) is same
    assert found.grew("sub.replayed", None) is grew


def test_a_number_of_one_consumer() -> None:
    found = facts(1, 1, 1)
    assert found.now("con.permits_counter", 0) == 7
    assert found.grew("con.permits_counter", 0) is True
    assert found.same("con.permits_counter", 0) is False


@pytest.mark.parametrize("place", [1, 7])
def test_nothing_is_reported_of_a_consumer_that_only_a_trace_lists(place: int) -> None:
    found = facts(1, 1, 1)
    assert found.now("con.permits_counter", place) is None
    assert found.grew("con.permits_counter", place) is None
    assert found.same("con.permits_counter", place) is None


def test_that_no_chunks_were_published_is_not_known() -> None:
    assert facts(1, chunks=True).now("topic.chunks", None) is True
    assert facts(1, chunks=False).now("topic.chunks", None) is None


def test_what_no_document_reports_is_not_reported() -> None:
    found = facts(1)
    assert found.now("cursor.waits", None) is None
    assert found.now("topic.waiting_reads", None) is None
    assert found.now("sub.consumer_listed_twice", None) is None
    assert found.now("sub.consumers", None) == 1
