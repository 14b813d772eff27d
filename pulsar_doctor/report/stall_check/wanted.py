"""How the report of stall-check is wanted: what makes it fail, and whether anything is cut."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.diagnosis.weighing import Diagnosis, FailOn, fails


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the report is wanted. fail_on: what makes the exit code 1. verbose: nothing is cut.

    header, consumers: in what people read, say where and when, and list every consumer.
    """

    fail_on: FailOn = "stalled"
    verbose: bool = False
    header: bool = False
    consumers: bool = False

    def fails(self, diagnosis: Diagnosis) -> bool:
        """Whether this verdict makes the exit code 1."""
        return fails(diagnosis, self.fail_on)
