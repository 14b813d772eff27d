"""`simulate` as a user runs it, and traces as scenarios."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.model.running import Simulation
from pulsar_doctor.model.scenario import Given
from pulsar_doctor.parts.simulate.replaying import Seen, chosen, replay, seen
from tests.ledger.rows import ack, attached, flow, message, row, taken
from tests.made.traces import write_trace
from tests.made.wire import Wire
from tests.support.command_line import answered

TOLD = {"c": {"receiver_queue_size": 4, "takes_told": True}}


def simulate(*arguments: str) -> dict:
    run = answered("simulate", *arguments, "-o", "json")
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    assert document["schema"] == "pulsar-doctor/simulate/2"
    return document


def test_the_keys_of_a_slow_consumer_wait_for_it_whatever_the_others_could_do():
    times = ("--process-time", "10ms", "--process-time", "1s")
    document = simulate("--rate", "50/s", *times, "--consumers", "2", "--type", "key_shared")
    measured = max(run["per_second"] for run in document["runs"])
    twice = next(each for each in document["levers"] if each["lever"] == "consumers")
    assert twice["rate"] / twice["gain"] == pytest.approx(measured, rel=0.07)


def test_a_backlog_of_slow_work_is_compared_over_queue_sizes():
    document = simulate("--backlog", "2000", "--process-time", "10m", "--round-trip", "0")
    runs = {run["receiver_queue_size"]: run for run in document["runs"]}
    assert list(runs) == [0, 1, 2, 3, 10, 100, 1000]
    assert document["formulas"]["flow_gap_seconds"] == runs[1000]["flow_gap_seconds"] == 300_000
    assert runs[1000]["stall_seconds"] == 499 * 600
    assert document["recommendation"]["receiver_queue_size"] == 1
    assert document["verdict"] is None
    first, second = runs[10]["consumers"][0]["flows"][:2]
    assert first == {"seconds": 0, "permits": 10, "taken": 0}
    assert second == {"seconds": 2400, "permits": 5, "taken": 5}


def test_what_is_stopped_is_judged_by_the_rules():
    document = simulate(
        "--backlog", "1000", "--process-time", "10m", "--process-time", "0", "--consumers", "2",
        "--duration", "5s",
    )  # fmt: skip
    assert document["verdict"]["status"] == "stalled"
    assert document["verdict"]["findings"][0]["code"] == "prefetch-hogging"


@pytest.mark.parametrize(
    ("client", "setting"),
    [("pulsar-client", "receiver_queue_size=1 (Python)"), ("go", "ReceiverQueueSize: 1 (Go)")],
)
def test_what_is_advised_is_of_the_client_and_nothing_is_run_on_a_topic_that_is_not_there(
    client: str, setting: str
) -> None:
    told = simulate("--rate", "100/s", "--process-time", "2s", "--client", client)
    actions = [each for found in told["verdict"]["findings"] for each in found["actions"]]
    assert setting in " ".join(each["text"] for each in actions)
    assert "(Java)" not in str(told["verdict"])
    assert {each["check"] for each in actions} == {each["command"] for each in actions} == {None}
    assert "stall-check" not in str(told["verdict"]["suspects"])


def test_a_table_for_a_person_says_what_is_recommended_and_why():
    run = answered("simulate", "--backlog", "2000", "--process-time", "10m")
    assert run.returncode == 0, run.stderr
    assert "* 1" in run.stdout
    assert "formula: next FLOW after 500 x 10 min = 83 h" in run.stdout
    assert "recommended: a receiver queue of 1\n" in run.stdout
    assert "the application sets the pace: 10 min for each message" in run.stdout


def test_where_work_is_too_much_for_the_consumers_it_says_how_many_are_needed() -> None:
    run = answered("simulate", "--rate", "100/s", "--process-time", "2s")
    assert "200 consumers are needed for 100/s at 2 s each: no queue size helps" in run.stdout
    assert "200 consumers: 100/s" in run.stdout
    enough = answered("simulate", "--rate", "100/s", "--process-time", "5ms")
    assert "are needed" not in enough.stdout


def test_a_run_lasts_for_two_refills_of_its_largest_queue() -> None:
    document = simulate("--rate", "100/s", "--process-time", "2s")
    runs = {run["receiver_queue_size"]: run for run in document["runs"]}
    assert runs[1000]["consumers"][0]["flow_count"] == 3
    assert document["scenario"]["messages"] == 220_000, "as many as arrive in that time"
    assert {
        run["backlog"] + run["finished"] + run["consumers"][0]["queued"] for run in document["runs"]
    } == {219_999}, "one is in work"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--rate 100/s, --backlog 1000 or --from-trace DIR"),
        (("--rate", "fast"), "'fast' is not a rate"),
        (("--rate", "0/s"), "'0/s' is not a rate"),
        (("--rate", "1/s", "--topic", "t"), "--topic needs --from-trace; add it"),
        (("--rate", "1000000/s"), "60,000,000 messages are more than"),
        (("--backlog", "5", "-n", "6"), "need a --rate"),
        (("--backlog", "5", "--type", "exclusive", "--consumers", "2"), "takes one consumer"),
        (("--from-trace", "x", "--rate", "1/s"), "exclude each other"),
        (("--from-trace", "/nowhere"), "/nowhere"),
    ],
)
def test_wrong_usage_is_said_in_a_sentence(arguments, said):
    run = answered("simulate", *arguments)
    assert run.returncode == 2
    assert said in run.stderr
    assert "Traceback" not in run.stderr


# Traces as scenarios.


def traced(rows, told=TOLD) -> dict[tuple[str, str], Seen]:
    timeline = Timeline("t", told)
    return seen([timeline.apply(each) for each in rows], told)


def replayed(rows, told=TOLD, process_seconds=None) -> Given:
    return replay(chosen(traced(rows, told), None, None), process_seconds)


def times(found: Given, consumer: int = 0) -> list[float]:
    messages = sum(entry.messages for entry in found.scenario.entries)
    return [found.scenario.work.ns(message, consumer) / 1e9 for message in range(messages)]


def five(at: float = 1.0, count: int = 5):
    return [message(entry, at=at) for entry in range(count)]


def test_takes_tell_how_long_messages_took_and_idle_time_is_no_work():
    rows = [
        *attached(), flow(4), *five(1.0, 3),
        taken(0, at=1), taken(1, at=3), ack(0, at=3.1), taken(2, at=3.5), ack(1, 2, at=5),
        message(3, at=9), taken(3, at=9), row("PING", at=20, consumer_id=0),
    ]  # fmt: skip
    found = replayed(rows)
    assert times(found) == [2.0, 0.5, 1.5, 11.0], "the last one is in hand and has been for so long"
    assert found.receiver_queue_size == 4
    assert found.scenario.client.simulated == "pulsar-client"
    assert "the trace shows by takes how long 4 of" in found.notes[0]


def test_acks_tell_where_takes_are_not_told_and_a_group_shares():
    rows = [*attached(), flow(10), *five(1.0), ack(0, at=2), ack(1, at=5), ack(2, 3, at=6)]
    found = replayed(rows, {})
    assert times(found) == [1.0, 3.0, 0.5, 0.5, 0.75], "the last takes the median of the others"
    assert found.receiver_queue_size == 10
    assert any("2 entries were acknowledged several at a time" in note for note in found.notes)


def test_a_cumulative_ack_is_one_of_all_before_it():
    rows = [
        *attached("Exclusive"), flow(10), *five(1.0, 4), ack(2, at=4, type="cumulative"),
        ack(3, at=6, type="cumulative"),
    ]  # fmt: skip
    found = replayed(rows, {})
    assert times(found) == [1.0, 1.0, 1.0, 2.0]
    assert found.scenario.type == "exclusive"


def test_messages_arrive_when_they_were_published_or_due_and_redeliveries_do_not_count():
    epoch = 1_700_000_000_000_000
    rows = [
        *attached(), flow(10),
        message(0, at=5, publish_time=epoch - 3_000_000), message(1, at=5, publish_time=epoch + 2),
        message(2, at=8, publish_time=epoch + 1_000_000, deliver_at=epoch + 7_000_000),
        message(3, at=8, publish_time=epoch + 99_000_000), message(4, at=8),
        message(0, at=9, redelivery_count=1), ack(0, at=10),
    ]  # fmt: skip
    found = replayed(rows, {})
    arrived = [
        (entry.published_ns / 1e9, entry.arrives_ns / 1e9) for entry in found.scenario.entries
    ]
    assert arrived == [(-3, 0), (0.000002, 0.000002), (1, 7), (8, 8), (8, 8)]
    assert found.notes[-1] == "redeliveries are left out: 1"


def test_what_nothing_tells_is_as_told_or_as_the_others_do_or_has_to_be_told():
    rows = [*attached(name="slow"), *attached(name="fast", conn=2), flow(4), *five(1.0, 4)]
    told = {"slow": {"process_seconds": 600.0}}
    found = replayed(rows, told)
    assert (times(found, 0), times(found, 1)) == ([600.0] * 4, [600.0] * 4)
    assert found.scenario.names == ("slow", "fast")
    assert any("the trace does not show how long fast needs" in note for note in found.notes)
    assert times(replayed(rows, told, 3.0), 1) == [3.0] * 4
    with pytest.raises(ValueError, match="give --process-time"):
        replayed(rows, {})


def test_a_subscription_has_to_be_chosen_where_there_are_several():
    rows = [
        *attached(), flow(4), *five(), *attached(conn=2, subscription="other"),
        flow(4, conn=2), message(1, conn=2),
    ]  # fmt: skip
    found = traced(rows)
    with pytest.raises(ValueError, match=r"has sub on .*, other on .*: choose with -s"):
        chosen(found, None, None)
    assert chosen(found, None, "other").messages == 1
    assert chosen(found, "orders", "sub").subscription == "sub"
    with pytest.raises(ValueError, match="no such subscription"):
        chosen(found, "rders", "sub")


def test_a_replay_under_the_queue_of_the_trace_sends_the_flows_of_the_trace():
    rows = [*attached(), flow(4), *five(0.5, 8)]
    for entry in range(8):
        rows += [taken(entry, at=1 + entry), ack(entry, at=1.9 + entry)]
    found = replayed(rows)
    simulation = Simulation(found.scenario, found.receiver_queue_size).run()
    sent = [(sent.permits, sent.taken) for sent in simulation.consumers[0].flows]
    assert sent == [(4, 0), (2, 2), (2, 4), (2, 6), (2, 8)]
    assert simulation.finished_ns / 1e9 == pytest.approx(0.5 + 8 * 0.9)


def test_a_zero_queue_is_refused_where_a_trace_has_batches(tmp_path: Path) -> None:
    said = Wire().open().attached(name="slow").flow(10).pushed(range(4), batch=5)
    trace = str(write_trace(tmp_path / "t.ptrace", said.blocks))
    why = "a zero queue of java loses or refuses batches"
    told = simulate("--from-trace", trace, "--process-time", "1s", "--client", "java")
    assert told["refused"] == [{"receiver_queue_size": 0, "reason": why}]
    run = answered("simulate", "--from-trace", trace, "--process-time", "1s", "--client", "java")
    assert f"0: not possible, {why}" in run.stdout
