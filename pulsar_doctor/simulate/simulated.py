"""The results of `simulate`: a run for each queue size, a recommendation, a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.simulate.outcome import Recommendation, RunOutcome
from pulsar_doctor.simulate.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Simulated:
    """All that was simulated. given: the queue size that the others are compared with.

    refused: sizes that this client cannot have here, and why. diagnosis: what the checks say of the
    given one, None where the run was not stopped.
    """

    scenario: Scenario
    given: int
    seed: int
    outcomes: tuple[RunOutcome, ...]
    refused: Mapping[int, str]
    recommendation: Recommendation | None
    diagnosis: Diagnosis | None
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
