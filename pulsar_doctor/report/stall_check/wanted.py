"""What the user wants of the report: when it fails, what it shows."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.diagnosis.status import AcceptUnknown, FailOn
from pulsar_doctor.diagnosis.verdict import Diagnosis


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the report is wanted."""

    fail_on: FailOn = "stalled"  # what makes the exit code 1
    verbose: bool = False  # nothing is cut
    header: bool = False  # in text: where and when
    consumers: bool = False  # in text: list every consumer
    accept_unknown: AcceptUnknown | None = None  # what counts as healthy
    named: bool = True  # in metrics: series of healthy subscriptions, too
    worst: int | None = None  # show only so many that are not healthy
    saves: bool = False  # this check could keep what it has read, to compare with
    saved: str | None = None  # the file in which it has
    reach: str = ""  # the options of this call that say which cluster is meant
    program: str = "pulsar-doctor stall-check"  # that the report names as its source

    def fails(self, diagnosis: Diagnosis) -> bool:
        """Whether this verdict makes the exit code 1."""
        return diagnosis.suppressed is None and diagnosis.fails(self.fail_on)

    def accepts(self, diagnosis: Diagnosis) -> bool:
        """Whether it counts as healthy: it is suppressed, or unknown and that is accepted."""
        accepted = diagnosis.accepts(self.accept_unknown) and not self.fails(diagnosis)
        return diagnosis.suppressed is not None or accepted
