"""The simulator's FLOWs and permits are those of real clients on the real broker.

All cases of a client run side by side: each takes up to its next look, then all are looked at.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.command_line import answered, pulsar_doctor
from tests.support.wanting import wanting

pytest.importorskip("pulsar", reason=wanting("pulsar-client"))

from pulsar_doctor.model.consumer import SimulatedConsumer as Simulated
from pulsar_doctor.model.consumer import refill_threshold
from pulsar_doctor.model.running import Simulation
from pulsar_doctor.model.scenario import Scenario
from pulsar_doctor.parts.consume import attach
from pulsar_doctor.parts.consume.attach import TYPES
from pulsar_doctor.wire.columns import Row
from tests.conformance.__main__ import connected, missing
from tests.conformance.driver import Client, Consumer, Wanted
from tests.conformance.stage import Stage, staging
from tests.parts.simulate.simulated import FOREVER, run, scenario

QUEUES = (1, 2, 3, 10, 100)
BATCH = 7
NAMES = {"python": "pulsar-client", "java": "java", "go": "go"}
LOOK_SECONDS = 0.3
PATIENCE_SECONDS = 10.0

Look = tuple[int, tuple[int, ...], int]  # messages taken, FLOWs so far, available permits


@dataclass(frozen=True, slots=True)
class Case:
    """looks: how many messages are taken when it is looked at. pause: between two messages."""

    pattern: str
    queue: int
    looks: tuple[int, ...]
    batch: int = 1
    pause: float = 0.0
    type: str = "shared"

    @property
    def name(self) -> str:
        return f"{self.pattern} at {self.queue}"

    @property
    def messages(self) -> int:
        more = self.queue + 20 if self.type == "shared" else 2 * self.queue * self.batch
        return -(-(self.looks[-1] + more) // self.batch) * self.batch

    def scenario(self, client: str) -> Scenario:
        """Nothing takes time but what is taken last before a look."""
        last = dict.fromkeys((look - 1 for look in self.looks), 1.0)
        return scenario(self.messages, batch=self.batch, client=client, known=last, type=self.type)


def around(queue: int, refills: int) -> tuple[int, ...]:
    """Just before each of so many refills and just after it."""
    after = [refill_threshold(queue) * number for number in range(1, refills + 1)]
    return tuple(sorted({look for each in after for look in (each - 1, each) if look > 0}))


def unevenly(queue: int) -> tuple[int, ...]:
    """Stops here and there, not where the threshold is."""
    first = queue // 3 + 1
    return (first, first + queue, first + queue + 1, first + 2 * queue, 3 * queue + 5)


def cases() -> list[Case]:
    return [
        case
        for queue in QUEUES
        for case in (
            Case("all at once", queue, (3 * queue + 4,)),
            Case("one at a time", queue, around(queue, 4), pause=0.003),
            Case("stop and go", queue, unevenly(queue)),
            Case("batches, stop and go", queue, unevenly(queue), BATCH),
            Case("batches, exclusive", queue, (1,), BATCH, type="exclusive"),
        )
    ]


def foretold(case: Case, client: str) -> list[Look]:
    """What the simulator says of each look: all that comes before the next message is taken."""
    states: dict[int, tuple[tuple[int, ...], int]] = {}

    def note(row: Row, consumer: Simulated) -> None:
        permits = tuple(flow.permits for flow in consumer.flows)
        states[consumer.received] = permits, consumer.ledger.available_permits

    Simulation(case.scenario(client), case.queue, note).run()
    return [(look, *states[look]) for look in case.looks]


@dataclass(slots=True)
class Played:
    """A case on the broker."""

    case: Case
    topic: str
    consumer: Consumer
    expected: list[Look]
    seen: list[Look]
    taken: int = 0

    @property
    def next(self) -> Look | None:
        return self.expected[len(self.seen)] if len(self.seen) < len(self.expected) else None

    def take(self, upto: int) -> None:
        if not self.case.pause:
            self.taken += len(self.consumer.receive(upto - self.taken))
            return
        while self.taken < upto and self.consumer.receive(1):
            self.taken += 1
            time.sleep(self.case.pause)

    def state(self, stage: Stage) -> Look:
        permits = tuple(row.permits or 0 for row in stage.of(self.topic, "FLOW"))
        debits = sum(row.permits or 0 for row in stage.of(self.topic, "MESSAGE"))
        return self.taken, permits, sum(permits) - debits


def attached(stage: Stage, client: Client, case: Case) -> Played:
    topic = stage.topic("simulated")
    if case.batch > 1:
        stage.batches(topic, case.messages // case.batch, case.batch)
    else:
        stage.produce(topic, case.messages)
    consumer = client.subscribe(Wanted(topic, case.queue, case.type))
    return Played(case, topic, consumer, foretold(case, NAMES[client.name]), [])


def play(stage: Stage, client: Client) -> list[Played]:
    """All cases to their end, look by look."""
    with contextlib.ExitStack() as stack:
        played = []
        for case in cases():
            played.append(attached(stage, client, case))
            stack.callback(played[-1].consumer.close)
        while going := [each for each in played if each.next is not None]:
            for each in going:
                each.take(each.next[0])
            wait(stage, going)
            for each in going:
                each.seen.append(each.state(stage))
    return played


def wait(stage: Stage, going: list[Played]) -> None:
    """Until all is there that is to come, and then a while for what is not."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    stage.settle()
    while time.monotonic() < deadline and any(p.state(stage) != p.next for p in going):
        time.sleep(0.05)
        stage.settle()
    time.sleep(LOOK_SECONDS)
    stage.settle()


@pytest.fixture(scope="module")
def stage(broker) -> Iterator[Stage]:
    with staging(broker) as opened:
        yield opened


@pytest.mark.parametrize(
    "name",
    [
        "python",
        pytest.param("java", marks=pytest.mark.slow),
        pytest.param("go", marks=pytest.mark.slow),
    ],
)
def test_flows_and_permits_of_a_real_client_are_those_of_the_simulator(broker, stage, name):
    if missing(name):
        pytest.skip(wanting("py4j" if name == "java" else name))
    with connected(name, broker, stage.service_url) as client:
        played = play(stage, client)
    assert {p.case.name: p.seen for p in played} == {p.case.name: p.expected for p in played}


def test_the_stall_of_the_demo_is_that_of_the_simulator(broker, stage):
    simulation = run(scenario(1000, takes=(FOREVER, 0.0), attach=(0, 1.0), end=5.0), 1000)
    topic = stage.topic("demo")
    stage.produce(topic, 1000)
    with connected("python", broker, stage.service_url) as client:
        slow = client.subscribe(Wanted(topic, 1000, name="slow"))
        stage.until(lambda: stage.delivered(topic) == 1000)
        fast = client.subscribe(Wanted(topic, 1000, name="fast"))
        assert len(slow.receive(1)) == 1
        assert fast.receive(1, LOOK_SECONDS) == []
        stage.settle()
        ledgers = [c.ledger for c in stage.observer.timeline.consumers if c.topic == topic]
        slow.close()
        fast.close()
    real = [(each.available_permits, each.unacked, each.flows) for each in ledgers]
    made = [
        (c.ledger.available_permits, c.ledger.unacked, c.ledger.flows) for c in simulation.consumers
    ]
    assert real == made == [(0, 1000, [1000]), (1000, 0, [1000])]


def test_a_consumer_is_without_permits_for_as_much_of_its_time_as_the_simulator_says(
    broker, client, topic, tmp_path
):
    attach.produce(client, topic, 200)  # a new subscription begins with the first of them
    work = ("--receiver-queue-size", "20", "--process-time", "50ms", "-o", "json")
    trace = str(tmp_path / "t.ptrace")
    consumed = pulsar_doctor(
        "consume", topic, "-s", "new", *work, "--timeout", "3s", "--trace", trace, broker=broker
    )
    assert consumed.returncode == 0, consumed.stderr
    (real,) = json.loads(consumed.stdout)["consumers"]
    told = answered("simulate", "--backlog", "200", "--duration", "3s", *work)
    made = next(run for run in json.loads(told.stdout)["runs"] if run["receiver_queue_size"] == 20)
    # A millisecond after each FLOW it has some; the longest time is from one FLOW to the next.
    assert made["without_permits_seconds"] == 3 - len(made["consumers"][0]["flows"]) / 1000
    assert made["longest_without_permits_seconds"] == 0.499
    assert made["without_permits_share"] > 0.99
    assert real["without_permits_share"] > 0.85
    assert 0.4 < real["longest_without_permits_seconds"] < real["without_permits_seconds"] / 2

    summary = answered("trace", "summary", trace, "-o", "json")
    (traced,) = json.loads(summary.stdout)["consumers"]
    assert traced["starved_us"] / 1e6 >= real["without_permits_seconds"]
    assert traced["longest_starved_us"] < traced["starved_us"] / 2
    assert traced["without_permits_share"] == pytest.approx(real["without_permits_share"], abs=0.1)


def test_a_trace_of_a_slow_consumer_tells_what_a_queue_of_one_would_do(
    broker, client, topic, tmp_path
):
    client.subscribe(topic, "billing", TYPES["shared"]).close()
    attach.produce(client, topic, 1000)
    trace = str(tmp_path / "slow.ptrace")
    consumed = pulsar_doctor(
        "consume", topic, "-s", "billing", "--take-messages", "--process-time", "10m",
        "--timeout", "1s", "--trace", trace, broker=broker,
    )  # fmt: skip
    assert consumed.returncode == 1, consumed.stderr
    told = answered("simulate", "--from-trace", trace, "--receiver-queue-size", "1", "-o", "json")
    document = json.loads(told.stdout)
    stalls = {run["receiver_queue_size"]: run["stall_seconds"] for run in document["runs"]}
    assert (stalls[1], stalls[1000]) == (0, 499 * 600)
    assert document["receiver_queue_size"] == 1000
    assert document["recommendation"]["receiver_queue_size"] == 1
    assert "the application sets the pace" in document["recommendation"]["reason"]
    assert document["scenario"]["client"] == "pulsar-client"
    assert document["scenario"]["messages"] == 1000
