"""Whose dead letters a producer sends: by what clients name, and never by a guess."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.wire.columns import Row
from tests.ledger.rows import (
    TOPIC,
    ack,
    attached,
    close_consumer,
    flow,
    message,
    subscribe,
    success,
    to_broker,
)

OWN = "persistent://public/default/failed"


def producer(number: int = 7, topic: str = OWN, **columns: Any) -> Row:
    return to_broker("PRODUCER", producer_id=number, topic=topic, **columns)


def sent(number: int = 7) -> Row:
    return to_broker("SEND", producer_id=number, messages=1)


def named(topic: str = TOPIC, subscription: str = "sub") -> str:
    """As Java and Go name the producer of dead letters."""
    return f"{topic}-{subscription}-c-x7Gf2-DLQ"


def put_away(*rows: Row, timeline: Timeline | None = None) -> dict[str, int]:
    """topic/subscription -> dead letters, where there are any."""
    timeline = timeline or Timeline("t")
    for row in rows:
        timeline.apply(row)
    counted = {
        f"{each.topic}/{each.subscription}": sum(n for _, n in each.ledger.dead_letters)
        for each in timeline.consumers
    }
    return {where: count for where, count in counted.items() if count}


SHOWN = {
    "its topic is called so": producer(topic=f"{TOPIC}-sub-DLQ"),
    "its producer is": producer(producer_name=named()),
    "its topic shall have a subscription": producer(initial_subscription="kept"),
    "both": producer(topic=f"{TOPIC}-sub-DLQ", producer_name=named()),
}


@pytest.mark.parametrize("row", SHOWN.values(), ids=SHOWN)
def test_a_dead_letter_is_known_by_what_its_client_names(row: Row) -> None:
    assert put_away(*attached(), row, sent(), sent()) == {f"{TOPIC}/sub": 2}


NOT_SHOWN = {
    "an application's own output": producer(),
    "it has a name": producer(producer_name="billing-DLQ"),
    "of another topic": producer(producer_name=named(f"{TOPIC}-2")),
    "of another subscription": producer(producer_name=named(subscription="other")),
    "a retry letter": producer(topic=f"{TOPIC}-sub-RETRY"),
}


@pytest.mark.parametrize("row", NOT_SHOWN.values(), ids=NOT_SHOWN)
def test_that_it_sends_before_it_acknowledges_shows_nothing(row: Row) -> None:
    circle = [
        each
        for entry in range(3)
        for each in (message(entry, redelivery_count=2), sent(), ack(entry))
    ]
    assert put_away(*attached(), flow(10), row, *circle) == {}


def test_a_subscription_of_its_topic_does_not_tell_whose_it_is_among_several() -> None:
    asks = producer(initial_subscription="kept")
    other = [subscribe(1, 5, subscription="other"), success(5)]
    assert put_away(*attached(), *other, asks, sent()) == {}
    elsewhere = to_broker("PRODUCER", producer_id=7, topic=OWN, initial_subscription="k", conn=2)
    letter = to_broker("SEND", producer_id=7, messages=1, conn=2)
    assert put_away(*attached(), elsewhere, letter) == {}


def test_each_partition_has_its_own_and_their_topic_is_one() -> None:
    parts = [f"{TOPIC}-partition-{number}" for number in (0, 1)]
    both = [*attached(topic=parts[0]), *attached(consumer=1, topic=parts[1])[2:]]
    asks = producer(initial_subscription="kept")
    assert sum(put_away(*both, asks, sent()).values()) == 1
    of_second = producer(producer_name=named(parts[1]))
    assert put_away(*both, of_second, sent()) == {f"{parts[1]}/sub": 1}


def test_it_is_known_after_the_trace_was_read_anew_and_until_the_producer_is_closed() -> None:
    before = Timeline("t")
    put_away(*attached(), producer(producer_name=named()), timeline=before)
    after = Timeline.restore(json.loads(json.dumps(before.state())), "t")
    closes = to_broker("CLOSE_PRODUCER", producer_id=7)
    assert put_away(sent(), closes, producer(), sent(), timeline=after) == {f"{TOPIC}/sub": 1}


def test_a_dead_letter_of_a_subscription_that_nobody_is_attached_to_is_nobody_s() -> None:
    gone = [close_consumer(0, 9), success(9)]
    assert put_away(*attached(), producer(producer_name=named()), *gone, sent()) == {}
