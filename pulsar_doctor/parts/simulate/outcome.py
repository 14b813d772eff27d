"""The results of `simulate`: a run for each queue size, what would help, a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean

from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.ledger.balance import Forecast, Starvation
from pulsar_doctor.model.consumer import SentFlow, SimulatedConsumer
from pulsar_doctor.model.levers import Lever, Workload, smallest_queue
from pulsar_doctor.model.running import Simulation
from pulsar_doctor.model.scenario import Scenario

QUEUES = (0, 1, 2, 3, 10, 100, 1000)
MEAN_OF = 10_000  # messages


@dataclass(frozen=True, slots=True)
class ConsumerOutcome:
    """One consumer at the end."""

    name: str
    received: int
    finished: int
    flows: tuple[SentFlow, ...]
    available_permits: int
    unsent_permits: int
    queued: int  # not received by the application yet
    queued_most: int
    starvation: Starvation  # times without permits
    # longest time without permits in which the client owed some, and its application worked
    stall_seconds: float
    wait_seconds: float  # the longest that a message was in the client's queue
    wait_beside_idle_seconds: float  # the same, while another consumer had nothing to do
    forecast: Forecast | None  # of the next FLOW; None: none was sent yet


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """One run. What is not summed up is that of the worst consumer: see ConsumerOutcome."""

    receiver_queue_size: int
    refill_threshold: int
    seconds: float  # until the last message was done, or until it was stopped
    finished: int
    backlog: int  # what the broker still has
    consumers: tuple[ConsumerOutcome, ...]

    @property
    def per_second(self) -> float:
        """Messages finished each second."""
        return self.finished / self.seconds if self.seconds else 0.0

    @property
    def flow_gap_seconds(self) -> float | None:
        """The longest time from one FLOW to the next; None where no consumer sent two."""
        gaps = [
            (after.at_ns - before.at_ns) / 1e9
            for consumer in self.consumers
            for before, after in zip(consumer.flows, consumer.flows[1:], strict=False)
        ]
        return max(gaps, default=None)

    @property
    def starvation(self) -> Starvation:
        """Times without permits, summed over the consumers as `analyze` does."""
        each = [consumer.starvation for consumer in self.consumers]
        return Starvation(
            sum(one.total_ns for one in each),
            max(one.longest_ns for one in each),
            sum(one.of_ns for one in each),
        )

    @property
    def stall_seconds(self) -> float:
        return max(consumer.stall_seconds for consumer in self.consumers)

    @property
    def wait_seconds(self) -> float:
        return max(consumer.wait_seconds for consumer in self.consumers)

    @property
    def wait_beside_idle_seconds(self) -> float:
        return max(consumer.wait_beside_idle_seconds for consumer in self.consumers)

    @property
    def queued_most(self) -> int:
        """The most that lay in one client's queue."""
        return max(consumer.queued_most for consumer in self.consumers)


def sizes_to_compare(given: Sequence[int], *others: int) -> list[int]:
    """The sizes that were given, where there are several, or the usual ones too; and others."""
    return sorted({*(() if len(given) > 1 else QUEUES), *given, *others})


def impossible(scenario: Scenario, receiver_queue_size: int) -> str | None:
    """Why a client of this kind cannot have this queue size here; None where it can."""
    if receiver_queue_size or scenario.largest_batch < 2:
        return None
    if scenario.client.zero_batches == "each":
        return None
    return f"a zero queue of {scenario.client.simulated} loses or refuses batches"


def outcome(simulation: Simulation) -> RunOutcome:
    """The numbers of a run that is over."""
    stopped_ns = simulation.scenario.end_ns
    end_ns = simulation.finished_ns if stopped_ns is None else stopped_ns
    return RunOutcome(
        receiver_queue_size=simulation.receiver_queue_size,
        refill_threshold=simulation.consumers[0].threshold,
        seconds=end_ns / 1e9,
        finished=sum(consumer.finished for consumer in simulation.consumers),
        backlog=simulation.broker.backlog + simulation.scenario.unreached,
        consumers=tuple(_consumer(consumer, end_ns) for consumer in simulation.consumers),
    )


def _consumer(consumer: SimulatedConsumer, end_ns: int) -> ConsumerOutcome:
    ledger = consumer.ledger
    return ConsumerOutcome(
        name=consumer.name,
        received=consumer.received,
        finished=consumer.finished,
        flows=tuple(consumer.flows),
        available_permits=ledger.available_permits,
        unsent_permits=consumer.unsent,
        queued=consumer.holds,
        queued_most=consumer.queued_most,
        starvation=ledger.starvation(end_ns),
        stall_seconds=consumer.stall_ns / 1e9,
        wait_seconds=consumer.wait_ns / 1e9,
        wait_beside_idle_seconds=consumer.beside_idle_ns / 1e9,
        forecast=ledger.forecast(),
    )


@dataclass(frozen=True, slots=True)
class Simulated:
    """Everything that was simulated."""

    scenario: Scenario
    given: int  # the queue size that the others are compared with
    outcomes: tuple[RunOutcome, ...]
    refused: Mapping[int, str]  # sizes that this client cannot have here, and why
    work: Workload  # the same in short, with the queue that is recommended
    levers: tuple[Lever, ...]
    diagnosis: Diagnosis | None  # of `given`; None: the run was not stopped
    notes: tuple[str, ...]

    @property
    def of_given(self) -> RunOutcome | None:
        """The run with the given queue size."""
        return next((o for o in self.outcomes if o.receiver_queue_size == self.given), None)

    @property
    def recommended(self) -> int | None:
        """The smallest of these receiver queues that costs nothing; None where none was run."""
        return self.work.receiver_queue_size if self.outcomes else None


def workload(scenario: Scenario, queues: Sequence[int]) -> Workload:
    """The scenario in short, with the smallest of these receiver queues that costs nothing."""
    messages, consumers = range(scenario.messages), len(scenario.attach_ns)
    times = [_mean_ns(scenario, messages, each) / 1e9 for each in range(consumers)]
    late = [each for each in scenario.entries if each.arrives_ns > 0]
    coming = sum(each.messages for each in late) / late[-1].arrives_ns * 1e9 if late else 0.0
    rates = [inf if one == 0 else 1 / one for one in times]
    share = coming / consumers if scenario.type == "key_shared" else 0.0
    if any(rate < share for rate in rates):  # what its keys bring, no other consumer takes
        rates = [min(rate, share) for rate in rates]
    each = consumers / sum(rates)
    work = Workload(
        type=scenario.type,
        consumers=consumers,
        process_seconds=each,
        round_trip_seconds=scenario.round_trip_ns / 1e9,
        arrivals=coming,
        backlog=sum(each.messages for each in scenario.entries if each.arrives_ns <= 0),
    )
    size = smallest_queue(replace(work, process_seconds=min(times, default=0.0)), queues)
    return replace(work, receiver_queue_size=size)


def _mean_ns(scenario: Scenario, messages: range, consumer: int) -> float:
    known = [scenario.work.ns(message, consumer) for message in messages[:MEAN_OF]]
    return fmean(known) if known else 0.0


def without_lines(diagnosis: Diagnosis) -> Diagnosis:
    """A verdict without lines for a shell: there is no such topic to run them on."""
    return replace(
        diagnosis,
        findings=tuple(
            replace(each, actions=tuple(replace(a, command=None, check=None) for a in each.actions))
            for each in diagnosis.findings
        ),
        suspects=tuple(
            replace(each, decide=each.decide and replace(each.decide, command=None))
            for each in diagnosis.suspects
        ),
    )
