"""The results of `simulate`: a run for each queue size, a recommendation, a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.model.scenario import Scenario
from pulsar_doctor.parts.simulate.outcome import Recommendation, RunOutcome


@dataclass(frozen=True, slots=True)
class Simulated:
    """All that was simulated."""

    scenario: Scenario
    given: int  # the queue size that the others are compared with
    outcomes: tuple[RunOutcome, ...]
    refused: Mapping[int, str]  # sizes that this client cannot have here, and why
    recommendation: Recommendation | None
    diagnosis: Diagnosis | None  # of `given`; None: the run was not stopped
    notes: tuple[str, ...]

    @property
    def of_given(self) -> RunOutcome | None:
        """The run with the given queue size."""
        return next((o for o in self.outcomes if o.receiver_queue_size == self.given), None)


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
