"""The simulator: clients and broker as measured, every row against the ledger, the formulae."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.weighing import diagnose_wire
from pulsar_doctor.ledger.balance import Starvation
from pulsar_doctor.ledger.clients import SIMULATED
from pulsar_doctor.model.consumer import flow_gap_seconds, refill_threshold
from pulsar_doctor.model.scenario import ProducedEntry, arrivals
from pulsar_doctor.parts.simulate.outcome import QUEUES, impossible, outcome, workload
from tests.conformance.expected import EXPECTED
from tests.parts.simulate.simulated import FOREVER, checked, flows, ns, run, scenario

NAMES = {"python": "pulsar-client", "java": "java", "go": "go"}
REFILLS = [
    (client, queue, EXPECTED[client][f"refill-{queue}"])
    for client in NAMES
    for queue in (1, 2, 3, 10, 1000)
]

# Clients and broker, held against the table of what real ones do.


@pytest.mark.parametrize(("client", "queue", "expected"), REFILLS)
def test_flows_are_those_of_the_conformance_table(client, queue, expected):
    sent = flows(scenario(2 * queue + 60, client=NAMES[client]), queue)
    assert sent[0] == (expected["first"], 0)
    gaps = [taken - before for (_, before), (_, taken) in pairwise(sent)]
    after, size = expected["steps"][1]
    assert {permits for permits, _ in sent[1:]} == {size}
    assert set(gaps[-2:]) == {after}
    if queue == 1000:
        assert sent[1][1] == expected["steps"][0][0]


@pytest.mark.parametrize(("client", "queue", "expected"), REFILLS)
def test_what_is_asked_for_while_one_message_is_worked_on(client, queue, expected):
    sent = flows(scenario(2 * queue + 60, client=NAMES[client], takes=FOREVER, end=1.0), queue)
    threshold = refill_threshold(queue)
    assert sum(permits for permits, _ in sent[1:]) == (
        (expected["ahead"] + 1) // threshold * threshold
    )


@pytest.mark.parametrize("client", NAMES)
@pytest.mark.parametrize(("queue", "batches"), [(10, 5), (1000, 30)])
def test_batches_are_those_of_the_conformance_table(client, queue, batches):
    expected = EXPECTED[client][f"batches-{queue}"]
    held = scenario(
        batches * 100, batch=100, client=NAMES[client], takes=FOREVER, end=1.0, type="shared"
    )
    simulation, seen = checked(held, queue)
    threshold = refill_threshold(queue)
    in_hand = 1 // threshold * threshold  # it has taken one, which the table's client had not
    assert sum(seen.delivered.values()) * 100 == expected["delivered"]
    assert simulation.consumers[0].ledger.available_permits == expected["lowest"] + in_hand
    done, _ = checked(scenario(batches * 100, batch=100, client=NAMES[client]), queue)
    assert done.consumers[0].finished == expected["taken"]
    assert done.consumers[0].ledger.available_permits == expected["available"]


def test_a_listener_is_credited_when_it_has_returned():
    expected = EXPECTED["python"]["listener-10"]
    simulation = run(scenario(30, client="pulsar-client-listener", takes=1.0), 10)
    first, refill = simulation.consumers[0].flows[:2]
    assert (first.permits, refill.permits) == (expected["first"], expected["size"])
    assert refill.at_ns == ns(expected["finished"] * 1.0)
    assert refill.taken == expected["finished"]


def test_a_zero_queue_asks_for_one_message_when_it_wants_one():
    assert flows(scenario(5), 0) == [(1, taken) for taken in range(6)]


def test_a_zero_queue_of_go_asks_at_each_receive():
    go = run(scenario(40, batch=20, client="go", takes=1.0, end=2.5), 0)
    expected = EXPECTED["go"]["zero-batch"]
    assert [flow.permits for flow in go.consumers[0].flows] == [1] * expected["taken"]
    assert go.consumers[0].ledger.available_permits == expected["available"]


def test_a_zero_queue_that_cannot_have_batches_is_not_simulated():
    batches = scenario(40, batch=20, client="java")
    assert impossible(batches, 0) == "a zero queue of java loses or refuses batches"
    assert impossible(batches, 1) is None
    assert impossible(scenario(40, client="java"), 0) is None
    assert impossible(scenario(40, batch=20, client="go"), 0) is None


def test_shared_hands_out_twenty_entries_in_turn():
    late = [ProducedEntry(number, ns(1.0), ns(1.0), number, 1) for number in range(70)]
    stuck = scenario(entries=late, takes=FOREVER, attach=(0, 0, 0), end=2.0)
    assert [c.holds + c.received for c in run(stuck, 1000).consumers] == [30, 20, 20]


def test_shared_hands_out_entries_for_the_permits_rounded_up():
    late = [ProducedEntry(number, ns(1.0), ns(1.0), 7 * number, 7) for number in range(4)]
    stuck = scenario(entries=late, takes=FOREVER, attach=(0, 0), end=2.0)
    _, seen = checked(stuck, 10)
    sent = [(row.consumer_name, row.entry_id) for row in seen.rows if row.command == "MESSAGE"]
    assert sent == [
        ("consumer-1", 0), ("consumer-1", 1), ("consumer-2", 2), ("consumer-2", 3)
    ]  # fmt: skip


def test_exclusive_sends_an_entry_for_each_permit_and_so_overshoots():
    held = scenario(3000, batch=100, takes=FOREVER, end=1.0, type="exclusive")
    simulation, seen = checked(held, 10)
    assert seen.lowest == 10 - 10 * 100
    assert simulation.broker.backlog == 2000


def test_failover_keeps_one_active_and_key_shared_a_consumer_for_each_key():
    standby = run(scenario(30, attach=(0, 0), takes=1.0, type="failover"), 10)
    assert [c.finished for c in standby.consumers] == [30, 0]
    assert standby.consumers[0].wait_ns == ns(10.0)
    assert standby.consumers[0].beside_idle_ns == 0, "a standby could not do its work"
    keys = iter([7, 8] * 50)
    entries = arrivals(100, backlog=100, keys=lambda: next(keys))
    spread = run(scenario(entries=entries, attach=(0, 0, 1), takes=0.1, type="key_shared"), 2)
    assert sum(c.finished for c in spread.consumers) == 100
    assert spread.consumers[0].received <= 20  # 9 of the keys 0 modulo 2, none modulo 3


# Every row of every simulation.


@st.composite
def scenarios(draw):
    kind = draw(st.sampled_from(["shared", "exclusive", "failover", "key_shared"]))
    consumers = 1 if kind == "exclusive" else draw(st.integers(1, 4))
    batch = draw(st.sampled_from([1, 1, 2, 7, 30]))
    client = draw(st.sampled_from(sorted(SIMULATED)))
    queue = draw(st.sampled_from([0, 1, 2, 3, 4, 5, 10, 11, 100]))
    messages = draw(st.integers(1, 150))
    chance = random.Random(draw(st.integers(0, 1000)))
    entries = arrivals(
        messages,
        backlog=draw(st.integers(0, 100)),
        per_second=draw(st.sampled_from([1.0, 100.0])),
        batch=batch,
        keys=lambda: chance.randrange(5),
    )
    what = scenario(
        entries=entries,
        takes=tuple(draw(st.lists(st.sampled_from([0.0, 0.01, 3.0]), min_size=1, max_size=3))),
        known=dict.fromkeys(range(0, messages, 13), 7.0),
        client=client,
        attach=tuple(sorted(draw(st.sampled_from([0.0, 0.5, 2.0])) for _ in range(consumers))),
        round_trip=draw(st.sampled_from([0.0, 0.001, 1.0])),
        type=kind,
    )
    return what, queue


@given(scenarios())
@settings(max_examples=100, deadline=None)
def test_permits_are_conserved_at_every_row_and_every_message_is_done_once(made):
    what, queue = made
    if impossible(what, queue):
        return
    simulation, seen = checked(what, queue)
    assert set(seen.delivered.values()) == {1}
    assert seen.acked == {entry.number for entry in what.entries}
    assert sum(c.finished for c in simulation.consumers) == what.messages
    if what.largest_batch == 1:
        assert seen.lowest >= 0
    assert simulation.broker.backlog == 0
    assert [row.seq for row in seen.rows] == sorted(row.seq for row in seen.rows)
    times = [row.mono_ns for row in seen.rows]
    assert times == sorted(times)


# The formulae.


@pytest.mark.parametrize("queue", [1, 2, 3, 10, 11, 100, 1000])
def test_the_next_flow_comes_after_half_the_queue_and_so_long_there_are_no_permits(queue):
    result = outcome(run(scenario(3 * queue + 5, takes=2.0), queue))
    expected = flow_gap_seconds(queue, 2.0)
    assert result.flow_gap_seconds == expected == max(1, queue // 2) * 2.0
    assert result.starvation.longest_ns == ns(expected)


def test_times_without_permits_are_told_in_all_and_the_longest_of_them():
    simulation = run(scenario(200, takes=0.05, round_trip=0.001), 20)
    result = outcome(simulation)
    # 19 of 21 FLOWs bring something, a millisecond later; the last of these leaves at 9.451 s.
    assert [flow.at_ns for flow in simulation.consumers[0].flows][18:20] == [ns(8.951), ns(9.451)]
    assert result.seconds == 10.001
    assert result.starvation == Starvation(ns(9.451 - 19 * 0.001), ns(0.499), ns(10.001))
    assert round(result.starvation.share, 2) == 0.94


def test_of_several_consumers_times_without_permits_are_summed_as_an_analysis_does():
    result = outcome(run(scenario(40, takes=(1.0, 600.0), attach=(0, 20.0), end=33.0), 10))
    slow, stuck = (consumer.ledger.starvation(result.end_ns) for consumer in result.consumers)
    assert slow == Starvation(ns(24.0), ns(5.0), ns(33.0)), "then nothing came any more"
    assert stuck == Starvation(ns(13.0), ns(13.0), ns(13.0)), "it goes on at the end"
    assert result.starvation == Starvation(ns(37.0), ns(13.0), ns(46.0))
    assert outcome(run(scenario(0, attach=(5.0,)), 10)).starvation.share is None


def test_the_classic_stall_lasts_83_hours_and_with_a_small_queue_there_is_none():
    stuck = scenario(2000, takes=600.0)
    stalls = {queue: outcome(run(stuck, queue)).stall_seconds for queue in QUEUES}
    assert stalls[1000] / 3600 == pytest.approx(83.33, abs=0.2)
    assert stalls[10] == 4 * 600.0, "from the first message that it owes to the fifth"
    assert [stalls[queue] for queue in (0, 1, 2, 3)] == [0, 0, 0, 0]


# What a simulation is asked for.


def test_a_message_waits_behind_a_slow_one_while_another_consumer_is_idle():
    poisoned = scenario(100, attach=(0, 0), known={0: 600.0}, takes=0.001)
    deep, shallow = outcome(run(poisoned, 1000)), outcome(run(poisoned, 0))
    assert deep.wait_seconds == pytest.approx(600.0, abs=0.2)
    assert deep.wait_beside_idle_seconds == pytest.approx(600.0, abs=0.2)
    assert shallow.wait_beside_idle_seconds == 0
    assert deep.queued_most == 99


def test_what_was_idle_before_a_message_came_does_not_count():
    quiet = outcome(run(scenario(10, rate=0.1, attach=(0, 0), takes=1.0), 10))
    assert quiet.wait_beside_idle_seconds == 0


def test_the_stall_of_the_demo_gets_the_verdict_of_the_demo():
    demo = scenario(1000, takes=(600.0, 0.0), attach=(0, 1.0), end=5.0)
    simulation = run(demo, 1000)
    slow, fast = simulation.consumers
    assert (slow.received, slow.holds, fast.received) == (1, 999, 0)
    rules = load()
    (verdict,) = diagnose_wire(simulation.timeline.subscriptions(), rules, limits_of(rules))
    assert (verdict.status, verdict.findings[0].code) == ("stalled", "prefetch-hogging")
    assert {m.name: m.value for m in verdict.findings[0].evidence}["next_flow_after"] == 499
    healed = run(demo, 0)
    assert [c.finished for c in healed.consumers] == [0, 999]
    (verdict,) = diagnose_wire(healed.timeline.subscriptions(), rules, limits_of(rules))
    assert verdict.status == "healthy"


def test_the_smallest_queue_that_costs_nothing_is_recommended_and_never_0():
    def recommended(what):
        return workload(what, QUEUES).receiver_queue_size

    assert recommended(scenario(1100, takes=600.0)) == 1
    assert recommended(scenario(1100, takes=600.0, batch=10)) == 1
    assert recommended(scenario(3000, takes=0.0001, round_trip=0.01)) == 1000
    assert recommended(scenario(3000, takes=(600.0, 0.001), attach=(0, 0), round_trip=0.01)) == 100


def test_arrivals_come_evenly_after_the_backlog_and_a_batch_with_its_last_message():
    entries = arrivals(7, backlog=2, per_second=10, batch=3)
    assert [(e.number, e.first, e.messages) for e in entries] == [(0, 0, 3), (1, 3, 3), (2, 6, 1)]
    assert [e.published_ns for e in entries] == [ns(0.1), ns(0.4), ns(0.5)]
