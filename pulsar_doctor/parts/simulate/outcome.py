"""The results of `simulate`: a run for each queue size, what would help, a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean

from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.ledger.balance import Starvation
from pulsar_doctor.model.consumer import SimulatedConsumer
from pulsar_doctor.model.levers import Lever, Workload, smallest_queue
from pulsar_doctor.model.running import Simulation
from pulsar_doctor.model.scenario import Scenario

QUEUES = (0, 1, 2, 3, 10, 100, 1000)
MEAN_OF = 10_000  # messages


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """One run. What is not summed up is that of the worst consumer."""

    receiver_queue_size: int
    refill_threshold: int
    end_ns: int  # when the last message was done, or when it was stopped
    finished: int
    backlog: int  # what the broker still has
    consumers: tuple[SimulatedConsumer, ...]

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.end_ns / 1e9

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
        each = [consumer.ledger.starvation(self.end_ns) for consumer in self.consumers]
        return Starvation(
            sum(one.total_ns for one in each),
            max(one.longest_ns for one in each),
            sum(one.of_ns for one in each),
        )

    @property
    def stall_seconds(self) -> float:
        return max(consumer.stall_ns for consumer in self.consumers) / 1e9

    @property
    def wait_seconds(self) -> float:
        return max(consumer.wait_ns for consumer in self.consumers) / 1e9

    @property
    def wait_beside_idle_seconds(self) -> float:
        return max(consumer.beside_idle_ns for consumer in self.consumers) / 1e9

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
    return RunOutcome(
        receiver_queue_size=simulation.receiver_queue_size,
        refill_threshold=simulation.consumers[0].threshold,
        end_ns=simulation.finished_ns if stopped_ns is None else stopped_ns,
        finished=sum(consumer.finished for consumer in simulation.consumers),
        backlog=simulation.broker.backlog + simulation.scenario.unreached,
        consumers=tuple(simulation.consumers),
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
