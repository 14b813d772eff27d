"""What the user wants of the report: when it fails, what it shows."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.diagnosis.status import FailOn
from pulsar_doctor.diagnosis.weighing import Diagnosis, fails


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the report is wanted. fail_on: what makes the exit code 1. verbose: nothing is cut.

    header, consumers: in what people read, say where and when, and list every consumer.
    accept_unknown: what is unknown counts as healthy. program: what the report says it is from.
    """

    fail_on: FailOn = "stalled"
    verbose: bool = False
    header: bool = False
    consumers: bool = False
    accept_unknown: bool = False
    program: str = "pulsar-doctor stall-check"

    def fails(self, diagnosis: Diagnosis) -> bool:
        """Whether this verdict makes the exit code 1."""
        return fails(diagnosis, self.fail_on)

    def accepts(self, diagnosis: Diagnosis) -> bool:
        """Whether it is unknown, which counts as healthy."""
        return self.accept_unknown and diagnosis.status == "unknown" and not self.fails(diagnosis)
