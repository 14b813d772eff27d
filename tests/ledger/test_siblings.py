"""Consumers that share a subscription come and go: what each keeps of it, and what that costs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings

from pulsar_doctor.ledger import incarnations
from pulsar_doctor.ledger.balance import NOWHERE
from pulsar_doctor.ledger.consumers import CLOSED_KEPT_MOST
from pulsar_doctor.ledger.incarnations import ENDED_KEPT_MOST
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.wire.columns import Row, values_of
from tests.ledger.rows import (
    EPOCH_US,
    TOPIC,
    ack,
    attached,
    close_consumer,
    closed,
    closed_by_broker,
    error,
    flow,
    message,
    opened,
    paced,
    subscribe,
    success,
    to_broker,
    to_client,
)
from tests.ledger.test_timeline import OFTEN, RARE, TOLD, command, traffic, written
from tests.support.counting import counting


def churn(seed: int) -> list[Row]:
    """Consumers of one Shared subscription, of which some comes or goes with every third row."""
    chance = random.Random(seed)
    rows, at = [*attached(name="c0"), flow(5)], 0
    for _ in range(150):
        kind = chance.choice([*OFTEN, *OFTEN, *COMING_AND_GOING, *COMING_AND_GOING, *RARE])
        row = command(kind, chance.choice((1, 2)), chance.randrange(3), chance.randrange(12))
        if row.command == "SUBSCRIBE":
            row.topic, row.subscription_type = TOPIC, "Shared"
        at += chance.choice([0, 1_000, 3_000_000])
        row.ts, row.mono_ns = EPOCH_US + at, at * 1000
        rows.append(row)
    return rows


COMING_AND_GOING = ["subscribe", "success", "close consumer", "closed by broker"]


@pytest.mark.parametrize("seed", range(25))
def test_when_a_ledger_is_copied_makes_no_difference(seed: int) -> None:
    """Taking the state copies what is owed at once; nobody looks at the other one until the end."""
    looked_at, rests = Timeline("t", TOLD), Timeline("t", TOLD)
    for each in churn(seed):
        same = deepcopy(each)
        looked_at.apply(each)
        looked_at.state()
        assert values_of(rests.apply(same)) == values_of(each)
    assert written(rests) == written(looked_at)
    assert rests.subscriptions() == looked_at.subscriptions()


@pytest.mark.parametrize("kept", [2, ENDED_KEPT_MOST])
def test_what_those_before_may_have_had(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The highest entry of all that live or are remembered, whoever of them had it."""
    monkeypatch.setattr(incarnations, "ENDED_KEPT_MOST", kept)

    @settings(max_examples=60, deadline=None)
    @given(rows=traffic())
    def holds(rows: list[Row]) -> None:
        timeline = Timeline("t", TOLD)
        for each in rows:
            before = {c.incarnation: (c.topic, c.ledger.highest) for c in timeline.consumers}
            replaced = timeline.next_incarnation
            timeline.apply(each)
            if timeline.next_incarnation == replaced:
                continue
            (new,) = (c for c in timeline.living if c.incarnation == replaced)
            known = {c.incarnation for c in timeline.consumers}
            those = [at for n, (topic, at) in before.items() if topic == new.topic and n in known]
            assert new.ledger.had_before == max(those, default=NOWHERE)

    holds()


def test_the_highest_entry_is_found_however_often_it_rises() -> None:
    """A consumer that stays is sent more between any two that come; the one that had most goes."""
    timeline = Timeline("t")
    rows = [*attached(), flow(10_000)]
    rows += [subscribe(1, 7), success(7), flow(9, 1), message(9_999, consumer=1)]
    rows += [closed_by_broker(1)]
    for number in range(ENDED_KEPT_MOST + 20):
        rows += [message(number), subscribe(1, 8), success(8), closed_by_broker(1)]
    for row in rows:
        timeline.apply(row)
    assert timeline.ended[0].ledger.had_before == (1, 9_999)
    assert timeline.ended[-1].ledger.had_before == (1, ENDED_KEPT_MOST + 19)


def test_a_subscription_is_forgotten_with_the_last_that_is_remembered() -> None:
    timeline = Timeline("t")
    for number in range(ENDED_KEPT_MOST + 50):
        name = f"reader-{number}"
        for row in (subscribe(0, 1, subscription=name), success(), closed_by_broker()):
            timeline.apply(row)
    assert len(timeline._siblings) == len(timeline.ended) == ENDED_KEPT_MOST


# --- what it costs ---


def comes_and_goes(number: int, standing: int) -> Iterator[Row]:
    """A consumer for the time of a message, and messages for one that stands by."""
    yield from (subscribe(number, number), success(number), flow(10, number))
    yield message(2 * number, consumer=number)
    yield message(2 * number + 1, consumer=number % standing)
    yield ack(2 * number, consumer=number)
    yield ack(2 * number + 1, consumer=number % standing)
    yield from (close_consumer(number, number), success(number))


def lines_run(standing: int, turns: int) -> int:
    """Lines of code that so many comings and goings take, while so many consumers stand by."""
    timeline = Timeline("t")
    come = [row for each in range(standing) for row in (subscribe(each, each), success(each))]
    rows = [row for each in range(turns) for row in comes_and_goes(standing + each, standing)]
    paced(come + rows, 0.01)
    for row in come:
        timeline.apply(row)
    with counting() as lines:
        for row in rows:
            timeline.apply(row)
    return lines.run


def test_a_row_costs_the_same_however_many_stand_by() -> None:
    """Counted in lines of code, of which a loop over all that stand by has one for each."""
    few, many = lines_run(20, turns=40), lines_run(400, turns=40)
    assert many < 1.2 * few


def test_a_row_costs_the_same_however_many_have_ended() -> None:
    first, all_of_them = lines_run(5, turns=30), lines_run(5, turns=300)
    assert all_of_them < 1.2 * 10 * first


# --- answers to requests, whoever waits for them ---


def test_of_two_that_wait_for_one_number_the_older_is_answered_first() -> None:
    timeline = Timeline("t")
    for row in (opened(), subscribe(0, 5, name="a"), subscribe(1, 5, name="b")):
        timeline.apply(row)
    answers = [timeline.apply(row) for row in (success(5), error(5), success(5))]
    assert [answer.consumer_name for answer in answers] == ["a", "b", None]
    assert [consumer.consumer_name for consumer in timeline.living] == ["a"]


def test_who_is_gone_waits_for_nothing() -> None:
    timeline = Timeline("t")
    for row in (*attached(), close_consumer(0, 9), closed_by_broker(0), subscribe(1, 9)):
        timeline.apply(row)
    assert timeline.apply(success(9)).consumer_id == 1
    (connection,) = timeline.connections.values()
    assert connection.waiting == {}


# --- producers ---


def producer(number: int) -> Row:
    return to_broker("PRODUCER", producer_id=number, topic=f"t{number}")


@pytest.mark.parametrize("close", [to_broker, to_client], ids=["by its client", "by the broker"])
def test_a_producer_goes_when_it_is_closed_and_what_is_on_its_way_is_known(close: Any) -> None:
    timeline = Timeline("t")
    for number in range(1000):
        timeline.apply(producer(number))
        timeline.apply(to_broker("SEND", producer_id=number))
        assert timeline.apply(close("CLOSE_PRODUCER", producer_id=number)).topic == f"t{number}"
        receipt = to_client("SEND_RECEIPT", producer_id=number)
        assert timeline.apply(receipt).topic == f"t{number}"
    restored = Timeline.restore(written(timeline), "t")
    for each in (timeline, restored):
        (connection,) = each.connections.values()
        assert (len(connection.producers), len(connection.closed)) == (0, CLOSED_KEPT_MOST)
        assert each.apply(to_client("SEND_RECEIPT", producer_id=999)).topic == "t999"
        assert each.apply(to_client("SEND_RECEIPT", producer_id=1)).topic is None
        each.apply(producer(999))
        assert (list(connection.producers), 999 in connection.closed) == ([999], False)
    assert timeline.apply(closed()).command == "CLOSE"
