"""Answers about scalable topics that no broker gives: the segment is unknown, the other is judged.

Each changes what a real broker (5.0.0-M1) reported of one segment, of the topic, or of itself.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.broker.http_broker import serving
from tests.cli.checked import Check, check
from tests.scalable.replaying import Replay, recorded
from tests.scalable.test_scalable_topics import ORDERS, STUCK, codes

__all__ = ["check"]  # a fixture
pytestmark = pytest.mark.usefixtures("each_reading_is_new")

Spoil = Callable[[dict[str, Any]], None]
JUDGED = ("stalled", ["not-acknowledging"])
FIRST = "segment://public/default/orders/0000-7fff-0"


def in_metrics(value: str, metric: str = "subscription_back_log") -> Spoil:
    """This value of the first segment."""

    def spoil(reading: dict[str, Any]) -> None:
        lines = reading["metrics"]
        [at] = [n for n, line in enumerate(lines) if f"_{metric}{{" in line and FIRST in line]
        lines[at] = f"{lines[at].rpartition(' ')[0]} {value}"

    return spoil


def in_list(change: Callable[[dict[str, Any]], None]) -> Spoil:
    """Of what the list reports about the first segment."""
    return lambda reading: change(reading["listed"][FIRST])


def in_consumer(**fields: Any) -> Spoil:
    return in_list(lambda listed: subscription_of(listed)["consumers"][0].update(fields))


def subscription_of(listed: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = listed["subscriptions"]["billing"]
    return told


def in_metadata(change: Callable[[dict[str, Any]], None]) -> Spoil:
    """Of the first segment."""
    return lambda reading: change(reading["metadata"]["segments"]["0"])


def deep(levels: int) -> Any:
    inner: Any = 1
    for _ in range(levels):
        inner = [inner]
    return inner


def another(name: str) -> Spoil:
    """A segment that only the metrics name."""
    return lambda reading: reading["metrics"].extend(
        line.replace(FIRST, f"segment://public/default/{name}")
        for line in list(reading["metrics"])
        if FIRST in line
    )


OF_ONE: dict[str, Spoil] = {  # the other segment keeps its verdict
    "NaN": in_metrics("NaN"),
    "infinite": in_metrics("+Inf"),
    "a word": in_metrics("abc"),
    "1e400": in_metrics("1e400"),
    "400 digits": in_metrics("9" * 400),
    "5,000 digits": in_metrics("9" * 5000),
    "half a message": in_metrics("0x10"),
    "NaN consumers": in_metrics("NaN", "subscription_consumers_count"),
    "a moment that is a word": in_metrics("now", "subscription_last_acked_timestamp"),
    "a moment of 400 digits": in_metrics("1" * 400, "subscription_last_consumed_flow_timestamp"),
    "stats that are a list": lambda reading: reading["listed"].update({FIRST: [1]}),
    "subscriptions that are a list": in_list(lambda listed: listed.update(subscriptions=[1])),
    "subscriptions that are a text": in_list(lambda listed: listed.update(subscriptions="x")),
    "a subscription that is a number": in_list(
        lambda listed: listed.update(subscriptions={"billing": 7})
    ),
    "consumers that are an object": in_list(
        lambda listed: subscription_of(listed).update(consumers={"a": 1})
    ),
    "consumers that are a number": in_list(
        lambda listed: subscription_of(listed).update(consumers=5)
    ),
    "a consumer that is a text": in_list(
        lambda listed: subscription_of(listed).update(consumers=["worker"])
    ),
    "a type that is a number": in_list(lambda listed: subscription_of(listed).update(type=1)),
    "a rate that is NaN": in_list(
        lambda listed: subscription_of(listed).update(msgRateOut=math.nan)
    ),
    "publishers that are a text": in_list(lambda listed: listed.update(publishers="x")),
    "connected since a number": in_consumer(connectedSince=5),
    "connected since the year 99999": in_consumer(connectedSince="99999-01-01T00:00:00Z"),
    "permits that are a text": in_consumer(availablePermits="1"),
    "permits over 64 bits": in_consumer(availablePermits=10**30),
    "deep JSON": in_consumer(metadata=deep(400)),
}
OF_TOPIC: dict[str, Spoil] = {  # both are judged, or both are unknown
    "its own parent": in_metadata(lambda one: one.update(parentIds=[0])),
    "a cycle": in_metadata(lambda one: one.update(parentIds=[1], childIds=[1])),
    "parents that are a text": in_metadata(lambda one: one.update(parentIds="0")),
    "an inverted range": in_metadata(lambda one: one["hashRange"].update(start=65535, end=0)),
    "a negative range": in_metadata(lambda one: one["hashRange"].update(start=-5, end=-1)),
    "a range over 64 bits": in_metadata(lambda one: one["hashRange"].update(end=1 << 70)),
    "a number over 64 bits": in_metadata(lambda one: one.update(segmentId=1 << 70)),
    "no number": in_metadata(lambda one: one.pop("segmentId")),
    "segments that are a list": lambda reading: reading["metadata"].update(segments=[1]),
    "a state that is a number": in_metadata(lambda one: one.update(state=1)),
    "created at NaN": in_metadata(lambda one: one.update(createdAtMs=math.nan)),
    "a segment of a strange name": another("orders/zzzz--1"),
    "a segment of 5,000 digits": another(f"orders/0000-7fff-{'1' * 5000}"),
    "a segment of a control character": another("orders\x1b]0;x\x07/0000-7fff-9"),
}
RENEWED = ["abc", None, "NaN", -60, 10**400, [60], {}, "1e9", math.inf]


def spoiled(spoil: Spoil) -> Replay:
    told = copy.deepcopy(recorded(STUCK))
    for reading in told["readings"]:
        spoil(reading)
    return Replay(told)


def checked(check: Check, replay: Replay) -> Any:
    with serving(replay) as broker:
        told = check(broker, ORDERS, "-o", "json")
    assert "mistake in pulsar-doctor" not in told.out + told.err
    assert "Traceback" not in told.err
    return told


@pytest.mark.parametrize("case", OF_ONE)
def test_the_other_segment_keeps_its_verdict(check: Check, case: str) -> None:
    told = checked(check, spoiled(OF_ONE[case]))
    assert codes(told)["1"] == JUDGED
    first = codes(told).get("0")
    assert first in (None, JUDGED, ("unknown", []))
    assert first is not None or FIRST in told.err
    assert told.code == 1


@pytest.mark.parametrize("case", OF_TOPIC)
def test_no_metadata_of_a_topic_is_a_mistake_of_ours_or_healthy(check: Check, case: str) -> None:
    told = checked(check, spoiled(OF_TOPIC[case]))
    if told.out:
        assert "healthy" not in {status for status, _ in codes(told).values()}
    else:
        assert told.code in (2, 3)


@pytest.mark.parametrize("renewed", RENEWED, ids=repr)
def test_any_rhythm_of_the_list_is_taken_or_not_known(check: Check, renewed: Any) -> None:
    told = recorded(STUCK)
    told["configuration"]["statsUpdateFrequencyInSecs"] = renewed
    assert codes(checked(check, Replay(told))) == {"0": JUDGED, "1": JUDGED}
