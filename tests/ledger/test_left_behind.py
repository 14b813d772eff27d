"""What is known to wait for a subscription, with its last consumer gone or with permits left."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from pulsar_doctor.ledger import incarnations
from pulsar_doctor.ledger.consumers import Subscription
from pulsar_doctor.ledger.left_behind import LeftBehind, Unsent
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.wire.columns import LIKELY, Row
from tests.ledger.rows import (
    EPOCH_US,
    TOPIC,
    ack,
    attached,
    close_consumer,
    closed,
    flow,
    message,
    success,
    to_broker,
    to_client,
)

GONE = (close_consumer(at=9), success(2, at=10))


def published(entry: int | None, *, at: float, topic: str = TOPIC, conn: int = 9) -> list[Row]:
    position = {} if entry is None else {"ledger_id": 1, "entry_id": entry}
    return [
        to_broker("PRODUCER", producer_id=0, topic=topic, at=at, conn=conn),
        to_broker("SEND", producer_id=0, messages=1, at=at, conn=conn),
        to_client("SEND_RECEIPT", producer_id=0, at=at, conn=conn, **position),
    ]


def left_behind(*rows: Row, restored: bool = False) -> LeftBehind | None:
    return judged(*rows, restored=restored).left_behind


def judged(*rows: Row, restored: bool = False) -> Subscription:
    timeline = Timeline("t")
    for row in rows:
        timeline.apply(deepcopy(row))
        if restored:
            timeline = Timeline.restore(json.loads(json.dumps(timeline.state())), "t")
    timeline.pass_time(EPOCH_US + 60 * 10**6, 60 * 10**9)
    [subscription] = timeline.subscriptions()
    return subscription


def working(**columns: Any) -> list[Row]:
    """One that was sent the entries 3 and 4, and acknowledged both."""
    sent = [message(3, at=1), message(4, at=1)]
    return [*attached(**columns), flow(10), *sent, ack(3, at=2), ack(4, at=2)]


def test_nothing_waits_where_all_that_was_published_was_acknowledged() -> None:
    assert left_behind(*working(), *published(4, at=3), *GONE) is None


def test_what_comes_after_the_last_one_waits() -> None:
    waits = LeftBehind("c", EPOCH_US + 10_000_000, 50.0, 0, published=True)
    assert left_behind(*working(), *GONE, *published(5, at=20)) == waits
    assert left_behind(*working(), *GONE, *published(5, at=20), restored=True) == waits


def test_what_it_held_waits_also_where_its_connection_ended() -> None:
    rows = [*attached(), flow(10), message(3, at=1), message(4, at=1), ack(3, at=2)]
    found = left_behind(*rows, closed(at=10))
    assert found == LeftBehind("c", EPOCH_US + 10_000_000, 50.0, 1, published=False)


def test_nobody_is_behind_where_one_is_attached() -> None:
    assert left_behind(*working(), *published(5, at=20)) is None


def test_what_was_stored_before_the_first_consumer_came_may_not_be_its_own() -> None:
    early = published(5, at=-1)
    assert left_behind(*attached(), *early, flow(10), *GONE) is None


def test_a_duplicate_is_not_stored_and_a_likely_command_proves_nothing() -> None:
    assert left_behind(*working(), *GONE, *published(None, at=20)) is None
    likely = published(5, at=20)
    likely[-1].grade = LIKELY
    assert left_behind(*working(), *GONE, *likely) is None


def test_another_topic_is_not_counted() -> None:
    assert left_behind(*working(), *GONE, *published(5, at=20, topic=f"{TOPIC}-2")) is None


def test_a_topic_that_is_not_persistent_keeps_nothing() -> None:
    topic = TOPIC.replace("persistent://", "non-persistent://")
    rows = [*attached(topic=topic), flow(10), message(3, at=1)]
    assert left_behind(*rows, *GONE, *published(5, at=20, topic=topic)) is None


def test_whose_durability_an_older_trace_does_not_tell_may_be_durable() -> None:
    assert left_behind(*working(durable=None), *GONE, *published(5, at=20)) is not None
    assert left_behind(*working(durable=True), *GONE, *published(5, at=20)) is not None
    assert left_behind(*working(durable=False), *GONE, *published(5, at=20)) is None


@pytest.mark.parametrize("restored", [False, True])
def test_what_is_stored_and_not_sent_waits_for_who_has_permits(restored: bool) -> None:
    rows = [*working(), *published(5, at=20)]
    assert judged(*rows, restored=restored).unsent == Unsent("c", 40.0)


@pytest.mark.parametrize("restored", [False, True])
def test_so_does_what_was_stored_before_it_came_and_lies_beyond_what_it_was_sent(
    restored: bool,
) -> None:
    early = published(5, at=-1)
    assert judged(*early, *working(), restored=restored).unsent == Unsent("c", 60.0)
    assert judged(*early, *attached(), flow(10), restored=restored).unsent is None


@pytest.mark.parametrize("restored", [False, True])
def test_the_oldest_of_those_that_come_one_by_one_counts(restored: bool) -> None:
    steady = [row for second in range(60) for row in published(5 + second, at=second)]
    waits = judged(*working(), *steady, restored=restored).unsent
    assert waits is not None
    assert 10 <= waits.seconds <= 20


def test_nothing_waits_while_a_message_that_was_sent_is_not_due() -> None:
    rows = [*working(), *published(5, at=20)]
    rows[-2].deliver_at = EPOCH_US + 61 * 10**6
    assert judged(*rows).unsent is None
    rows[-2].deliver_at = EPOCH_US + 59 * 10**6
    assert judged(*rows).unsent is not None


def test_topics_that_nobody_consumes_are_remembered_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(incarnations, "TOPICS_MOST", 2)
    rows = [row for n in range(4) for row in published(5, at=n, topic=f"{TOPIC}-{n}", conn=n)]
    timeline = Timeline("t")
    for row in (*rows, *working()):
        timeline.apply(row)
    assert [*timeline.published] == [f"{TOPIC}-0", f"{TOPIC}-1", TOPIC]
