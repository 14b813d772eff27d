"""Verdicts as metrics, for the text file collector of Prometheus' node exporter."""

from __future__ import annotations

import importlib
from typing import TextIO

from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.report.stall_check.wanted import Wanted

ENCODING = "utf-8"  # by its definition


def require() -> None:
    """Raises MissingExtra where there is no prometheus_client."""
    importlib.import_module("pulsar_doctor.report.stall_check.metrics")


def write(checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    """The same page as `stall-check --listen` has, whatever --only shows."""
    from pulsar_doctor.report.stall_check.metrics import Metrics

    metrics = Metrics(named=wanted.named)
    checkup.diagnoses = metrics.through(checkup.diagnoses)
    for _ in checkup.examined():
        pass
    out.write(metrics.text(checkup))
