"""Saves traces that are followed: at times all tables of what is sealed by then.

A follower keeps consumers and steps of time, and no percentiles, stalls or holes. So what is saved
is a finished analysis of the same traces: those that have not changed since are not read again, one
that has changed is, as a whole. That takes longer the longer a trace is; `--save-every` says how
often it is worth it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pulsar_doctor.errors import InputError
from pulsar_doctor.spark.analysis import Analysis
from pulsar_doctor.spark.analyzing import Wish, analyze
from pulsar_doctor.spark.lake import Lake
from pulsar_doctor.spark.reading import is_here, look
from pulsar_doctor.spark.saving import saved_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class SavesMeanwhile:
    """When it was saved, and what there was by then. Changes in place."""

    spark: SparkSession
    wanted: Wish
    every_seconds: float
    say: Callable[[str], None]
    events: int = 0
    next: float = 0.0

    def save(self, analysis: Analysis, *, ended: bool = False) -> None:
        """Saves where there is something new and it is time, or nothing more will come.

        A trace that cannot be read now is told, and tried again the next time.
        """
        if analysis.events == self.events or not (ended or time.monotonic() >= self.next):
            return
        try:
            looked = look(self.wanted.traces, here=is_here(self.spark))
            analyze(
                self.spark,
                self.wanted,
                looked,
                lambda source, tables, step_us: None,
                lambda what: nullcontext(),
                lambda note: None,
            )
            self.events = analysis.events
        except InputError as error:
            self.say(f"pulsar-doctor: not saved: {error}")
        self.next = time.monotonic() + self.every_seconds


def saves(
    spark: SparkSession, wanted: Wish, every_seconds: float, say: Callable[[str], None]
) -> SavesMeanwhile:
    """Raises InputError where the folder to save in holds something else."""
    if wanted.lake is None:
        saved_in(spark, wanted.save_dir or "")
    else:
        Lake(spark, wanted.lake, wanted.save_dir or "").check()
    return SavesMeanwhile(spark, wanted, every_seconds, say)
