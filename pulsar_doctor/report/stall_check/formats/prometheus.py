"""Verdicts as metrics, for the text file collector of Prometheus' node exporter."""

from __future__ import annotations

from typing import TextIO

from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.report.stall_check.metrics import Metrics
from pulsar_doctor.report.stall_check.wanted import Wanted

ENCODING = "utf-8"  # by its definition


def write(checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    """The same page as `stall-check --listen` has."""
    metrics = Metrics(named=wanted.named)
    for diagnosis in checkup.examined():
        metrics.add(diagnosis)
    out.write(metrics.text(checkup))
