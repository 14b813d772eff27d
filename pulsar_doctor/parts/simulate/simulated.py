"""The results of `simulate`: a run for each queue size, what would help, a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean

from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.model.levers import Lever, Workload, smallest_queue
from pulsar_doctor.model.scenario import Scenario
from pulsar_doctor.parts.simulate.outcome import RunOutcome

MEAN_OF = 10_000  # messages


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
