"""States of scalable topics on a real broker (5.0.0-M1) with its V5 client, replayed and judged."""

from __future__ import annotations

import pytest

from pulsar_doctor.broker.admin import segments
from tests.cli.checked import Check, check
from tests.scalable.replaying import recorded, replayed

__all__ = ["check"]  # a fixture

# State -> how it was brought about, and the status and causes on each segment.
STATES = {
    # A queue consumer of two segments never calls receive(); 500 messages, 10 minutes.
    "queue-takes-nothing": {
        0: ("stalled", ["not-acknowledging"]),
        1: ("stalled", ["not-acknowledging"]),
    },
    # A queue consumer acknowledges each of 50 messages a second, on four segments.
    "healthy-queue": dict.fromkeys(range(4), ("healthy", [])),
    # A stream consumer receives and never acknowledges; 200 messages, segment 0 is split, 200 more.
    "parent-not-drained": {
        0: ("unknown", []),
        1: ("unknown", []),
        2: ("stalled", ["parent-not-drained"]),
        3: ("stalled", ["parent-not-drained"]),
    },
    # Two subscriptions, with maxConsumersPerTopic=1 set once both are there, and a split: two
    # minutes later the children still refuse whoever came second.
    "segment-without-consumer": {
        1: ("healthy", []),
        2: ("stalled", ["segment-without-consumer"]),
        3: ("stalled", ["segment-without-consumer"]),
    },
    # One queue consumer receives nothing, another is quick; 2000 messages, ten minutes.
    "queue-hoards": dict.fromkeys(range(2), ("stalled", ["segment-queue-unbounded"])),
    # A queue consumer acknowledges all but the messages of segment 0; ten a second, 8 minutes.
    "one-segment-unacknowledged": {
        0: ("unknown", []),
        1: ("healthy", []),
        2: ("healthy", []),
    },
    # A topic is split before anything is published, with a retention of two hours. One of two
    # stream consumers has both children, the other the sealed parent; 22 messages a second, 5 a
    # second acknowledged, five minutes.
    "split-dealt-out-unevenly": dict.fromkeys((1, 2), ("warning", ["segment-load-uneven"])),
    # Two stream consumers, one segment each; 9 of 10 messages have keys of segment 0, five minutes.
    "hot-segment": {0: ("warning", ["segment-load-uneven"]), 1: ("healthy", [])},
    # The first steps of a split by hand, as if it had been interrupted: both children are made, and
    # segment 1 is sealed, with a producer and a stream consumer attached.
    "split-unfinished": {
        0: ("healthy", []),
        1: ("warning", ["segment-split-unfinished"]),
        2: ("healthy", []),
    },
}
SUBSCRIPTIONS = {"ledger": "audit", "quick": "mail", "hoard": "work"} | dict.fromkeys(
    ("parcels", "hot2", "hot3", "half"), "ship"
)


@pytest.mark.parametrize("state", STATES)
def test_a_state_of_a_real_broker_is_judged(
    check: Check, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "NOW_SECONDS", 0.5)
    topic = recorded(state)["topic"]
    subscription = SUBSCRIPTIONS.get(topic, "billing")
    with replayed(state) as broker:
        told = check(
            broker, f"topic://public/default/{topic}", "-s", subscription,
            "--window", "1s", "--interval", "1s", "-o", "json",
            "--set", "segment-split-unfinished.ends_within=1",
        )  # fmt: skip
    judged = {
        int(one["topic"].rpartition("-")[2]): (
            one["status"],
            [each["code"] for each in one["findings"]],
        )
        for one in told.document["subscriptions"]
    }
    assert {number: judged[number] for number in STATES[state]} == STATES[state]
    whole = told.document["scalable_topics"][0]
    statuses = [status for status, _ in judged.values()]
    worst = min(statuses, key=("stalled", "unknown", "warning", "healthy").index)
    assert whole["status"] == worst
