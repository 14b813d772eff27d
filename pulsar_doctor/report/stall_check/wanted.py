"""How the report of stall-check is wanted: what makes it fail, and whether anything is cut."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from pulsar_doctor.diagnosis.weighing import FAILS, Status


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the report is wanted. fails: what makes the exit code 1. verbose: nothing is cut.

    header, consumers: in what people read, say where and when, and list every consumer.
    """

    fails: AbstractSet[Status] = field(default_factory=lambda: FAILS["stalled"])
    verbose: bool = False
    header: bool = False
    consumers: bool = False
