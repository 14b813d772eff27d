"""Which messages a consumer holds, when they come twice, out of order, or in halves."""

from __future__ import annotations

import pytest

from pulsar_doctor.ledger.balance import Ledger
from pulsar_doctor.ledger.consumers import PRODUCERS_KEPT_MOST
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.wire.columns import Row
from tests.ledger.rows import ack, ack_batch, attached, flow, message, redeliver, to_broker


def ledger_after(*rows: Row, type: str = "Shared", **told: object) -> Ledger:
    timeline = Timeline("t", {"c": told})
    for row in (*attached(type), *rows):
        timeline.apply(row)
    (consumer,) = timeline.consumers
    return consumer.ledger


@pytest.mark.parametrize("type", ["Shared", "Exclusive"])
def test_a_message_that_comes_twice_is_held_once(type: str) -> None:
    ledger = ledger_after(
        flow(10), message(1), message(2), message(1, redelivery_count=1), type=type
    )
    assert (ledger.unacked, len(ledger.deliveries), ledger.messages) == (2, 2, 3)
    assert (ledger.highest, ledger.newest) == ((1, 2), (1, 1))


def test_a_cumulative_ack_finds_what_came_behind_a_later_message() -> None:
    sent = [message(entry) for entry in (1, 5, 2, 3)]
    ledger = ledger_after(flow(10), *sent, ack(3, type="cumulative"), type="Exclusive")
    assert list(ledger.deliveries) == [(1, 5)]


def test_the_order_begins_anew_when_nothing_is_held() -> None:
    sent = [message(entry) for entry in (1, 5, 2)]
    ledger = ledger_after(flow(10), *sent, redeliver(), message(1), message(2), type="Exclusive")
    assert ledger.in_order


def test_a_half_acknowledged_batch_proves_its_half() -> None:
    batch = message(1, batch=10)
    ledger = ledger_after(flow(20), batch, ack_batch(1, open=range(4, 10), batch=10))
    assert (ledger.unacked, ledger.acknowledged, ledger.proven) == (6, 4, 4)


def test_flows_that_were_spent_are_not_remembered() -> None:
    rows: list[Row] = []
    for entry in range(0, 400, 2):
        rows += [flow(2), message(entry), message(entry + 1), ack(entry), ack(entry + 1)]
    assert len(ledger_after(*rows, unacked_limit=100).unspent_flows) == 1


def test_producers_without_end_take_no_memory_without_end() -> None:
    timeline = Timeline("t")
    for number in range(PRODUCERS_KEPT_MOST + 5):
        timeline.apply(to_broker("PRODUCER", producer_id=number, topic=f"t{number}"))
    (connection,) = timeline.connections.values()
    assert len(connection.producers) == PRODUCERS_KEPT_MOST
    sent = timeline.apply(to_broker("SEND", producer_id=PRODUCERS_KEPT_MOST + 4))
    assert sent.topic == f"t{PRODUCERS_KEPT_MOST + 4}"
