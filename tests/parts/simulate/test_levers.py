"""What remedies would bring: the formulae against the simulation, and their reasons."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pulsar_doctor.model.levers import Lever, Workload, levers, smallest_queue
from pulsar_doctor.model.scenario import arrivals
from tests.parts.simulate.simulated import run, scenario

OFF = 0.07  # of a rate: what a run has at its beginning and end


def simulated(work: Workload, messages: int, keys: Sequence[int] = (0,)) -> float:
    """Messages a second of a backlog, event by event."""
    named = iter(keys * (messages // len(keys) + 1))
    what = scenario(
        entries=arrivals(messages, backlog=messages, keys=lambda: next(named)),
        takes=work.process_seconds,
        attach=(0.0,) * work.consumers,
        round_trip=work.round_trip_seconds,
        type=work.type,
    )
    return messages / (run(what, work.receiver_queue_size or 0).finished_ns / 1e9)


def named(work: Workload, lever: str, at: int = 0) -> Lever:
    return [each for each in levers(work) if each.lever == lever][at]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 7, 10, 11, 100])
@pytest.mark.parametrize("round_trip", [0.001, 0.02, 0.1])
@pytest.mark.parametrize("seconds", [0.001, 0.05])
@pytest.mark.parametrize("consumers", [1, 3])
def test_the_lowest_ceiling_is_the_rate_of_a_simulation(size, round_trip, seconds, consumers):
    work = Workload(
        consumers=consumers,
        process_seconds=seconds,
        receiver_queue_size=size,
        round_trip_seconds=round_trip,
    )
    rate = simulated(work, max(600, 6 * size) * consumers)
    assert rate == pytest.approx(work.rate, rel=OFF)


@pytest.mark.parametrize("consumers", [2, 4])
def test_a_busy_key_sets_the_pace_however_many_consumers_there_are(consumers):
    keys = [0, 0, 0, 0, 0, 0, 0, 1, 2, 3]  # 0 has 70 %, and its consumer a share of the rest
    work = Workload(
        type="key_shared", consumers=consumers, process_seconds=0.05, receiver_queue_size=10,
        round_trip_seconds=0.001, key_share=0.7,
    )  # fmt: skip
    of_the_rest = sum(each % consumers == 0 for each in keys if each) / 3
    share = 0.7 + 0.3 * of_the_rest
    assert simulated(work, 4000, keys) == pytest.approx(20 / share, rel=OFF)
    assert work.set_by == "key"
    assert work.rate == pytest.approx(20 / (0.7 + 0.3 / consumers))
    more = named(work, "consumers", 1)
    assert more.gain < 1.2
    assert named(Workload(**{**_asdict(work), "key_share": 0.9}), "consumers").why == (
        "one key has 90% of the messages"
    )


def _asdict(work: Workload) -> dict:
    return {name: getattr(work, name) for name in Workload.__slots__}


def test_too_few_consumers_need_so_many_and_no_queue_helps():
    work = Workload(
        process_seconds=2.0, receiver_queue_size=1000, round_trip_seconds=0.001, arrivals=100.0,
        backlog=0,
    )  # fmt: skip
    assert work.consumers_needed == 200
    assert [each.value for each in levers(work) if each.lever == "consumers"] == [2, 3, 200]
    assert named(work, "receiver queue").why == (
        "the application sets the pace: 2 s for each message"
    )
    assert smallest_queue(work) == 1


def test_a_queue_that_runs_empty_is_made_larger_until_the_application_sets_the_pace():
    work = Workload(process_seconds=0.002, receiver_queue_size=4, round_trip_seconds=0.02)
    assert work.set_by == "queue"
    first = levers(work)[0]
    assert (first.lever, first.value, first.rate) == ("receiver queue", 20, 500)
    assert simulated(Workload(**{**_asdict(work), "receiver_queue_size": 20}), 4000) == (
        pytest.approx(500, rel=OFF)
    )


@pytest.mark.parametrize(
    ("work", "lever", "value", "rate"),
    [
        (Workload(unacked_limit=20, held_seconds=0.5), "unacked limit", 40, 80),
        (Workload(dispatch_rate=50.0), "dispatch rate", 100, 100),
        (Workload(process_seconds=0.1, again_share=0.5), "redeliveries", None, 10),
        (Workload(type="failover", process_seconds=0.1, partitions=2, consumers=2),
         "consumers", 4, 20),
    ],
)  # fmt: skip
def test_the_lever_of_the_limit_that_sets_the_pace_comes_first(work, lever, value, rate):
    found = named(work, lever)
    assert (found.value, found.rate) == (value, pytest.approx(rate))
    if found.why is None:
        assert levers(work)[0] == found
    else:
        assert found.why == "Failover sends all of a partition to one consumer"


def test_consumers_that_idle_beside_a_full_queue_need_a_smaller_one():
    work = Workload(process_seconds=1.0, receiver_queue_size=1000, idle=3, arrivals=2.0, backlog=60)
    found = named(work, "receiver queue")
    assert (found.value, found.rate, found.catch_up_seconds) == (1, 4.0, 30.0)


def test_where_all_that_arrives_is_done_nothing_brings_more() -> None:
    work = Workload(
        process_seconds=0.005, consumers=4, receiver_queue_size=1000, round_trip_seconds=0.001,
        arrivals=100.0, backlog=0,
    )  # fmt: skip
    assert {each.why for each in levers(work)} == {"it keeps up with the 100/s that arrive"}
    assert smallest_queue(Workload(round_trip_seconds=0.001, arrivals=100.0, backlog=0)) == 1
    assert smallest_queue(Workload(round_trip_seconds=0.05, arrivals=100.0, backlog=0)) == 10
