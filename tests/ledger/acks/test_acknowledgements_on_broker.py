"""Random lives of subscriptions on the real broker: what we compute is what stats-internal says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.ledger.acks import subscription as acknowledgements
from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import Row, ids_of
from tests.ledger.acks.lives import SUBSCRIPTION, TYPES, WEIGHTS, lived, tapped

RUNS = 4
RUNS_BY_HAND = 100


def lives(broker: Sandbox, folder: Path, seeds: range) -> list[str]:
    """Lives them one after the other through one tap; what differs, one text a life.

    Where the setting is not told, one of the two that were followed is what the broker has.
    """
    asked = Settings(service_url=broker.service_url, admin_url=broker.admin_url)
    with tapped(broker, folder, asked) as (client, admin):
        all_of_them = lived(client, admin, seeds, WEIGHTS)
    trace = open_trace(folder)
    keeps = trace.meta.storing.batch_index_acks
    assert keeps is not None
    told = acknowledgements.of_rows(trace.rows(), batch_index_acks=keeps)
    either = acknowledgements.of_rows(trace.rows())
    wrong = []
    for life in all_of_them:
        key = (life.topic, SUBSCRIPTION)
        this = either[key] if keeps else either[key].otherwise or either[key]
        differs = [life.agrees_with(told[key]), life.agrees_with(this)]
        if any(differs):  # it hangs on the broker's threads, and may not happen again
            print(
                *(shown(row) for row in trace.rows() if row.topic in (life.topic, None)), sep="\n"
            )
        wrong += differs
    print(f"seeds {seeds.start} to {seeds.stop - 1}: {sum(map(bool, wrong))} differ")
    return [each for each in wrong if each]


def shown(row: Row) -> str:
    ids = [(each.ledger_id, each.entry_id, each.ack_set) for each in ids_of(row)]
    of = f"{row.conn_id} {row.incarnation} {row.request_id} {row.consumer_name}"
    return f"{row.seq} {of} {row.direction} {row.command} {row.ledger_id}:{row.entry_id} {ids}"


def test_mark_delete_and_ranges_are_those_of_the_broker(either_broker, tmp_path):
    first = random.randrange(1 << 20) * 4
    wrong = lives(either_broker, tmp_path / "t.ptrace", range(first, first + RUNS))
    assert not wrong, "\n".join(wrong)


def test_a_client_puts_many_cumulative_acks_into_few_commands_and_the_last_one_wins(
    broker, topic, tmp_path
):
    with tapped(broker, tmp_path / "t.ptrace") as (client, _):
        consumer = client.subscribe(topic, SUBSCRIPTION, TYPES["Failover"])
        producer = client.create_producer(topic)
        for _ in range(300):
            producer.send_async(b"x", lambda result, message_id: None)
        producer.flush()
        taken = [consumer.receive(5000) for _ in range(300)]
        for message in [*taken[:150], taken[20], *taken[150:]]:
            consumer.acknowledge_cumulative(message)
        consumer.close()
    trace = open_trace(tmp_path / "t.ptrace")
    (ledger,) = (each.ledger for each in trace.timeline().consumers)
    assert ledger.acknowledged == 300
    assert 1 <= ledger.cumulative_acks == ledger.ack_commands < 100
    last = taken[-1].message_id()
    assert ledger.cumulative_highest == (last.ledger_id(), last.entry_id())
    assert ledger.cumulative_back == 0
    (found,) = acknowledgements.of_rows(trace.rows()).values()
    assert found.mark_delete == (last.ledger_id(), last.entry_id())
    assert found.acknowledged == {"cumulative": 300}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_mark_delete_and_ranges_are_those_of_the_broker_in_many_runs(either_broker, tmp_path):
    wrong = lives(either_broker, tmp_path / "t.ptrace", range(RUNS_BY_HAND))
    assert not wrong, "\n".join(wrong)
