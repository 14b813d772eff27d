"""Runs one analysis from its traces to its output and saved tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pulsar_doctor.spark.aggregations import Tables
from pulsar_doctor.spark.incremental import incremental, step_of
from pulsar_doctor.spark.lake import Lake, LakeFormat
from pulsar_doctor.spark.manifests import Manifest
from pulsar_doctor.spark.reading import Looked, read_traces
from pulsar_doctor.spark.running import aggregated, dated
from pulsar_doctor.spark.saving import save, saved_in
from pulsar_doctor.spark.selection import EVERYTHING, Selection
from pulsar_doctor.spark.source import TraceSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
Make = Callable[[TraceSource, Tables, int], T]  # the last: the step of the timeline in µs


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be analyzed, and how."""

    traces: Sequence[str]
    strict: bool = False
    selection: Selection = EVERYTHING  # which rows of the traces
    bucket_us: int | None = None  # None: one that fits, or the one of the saved analysis
    stall_floor_us: int = 0
    save_dir: str | None = None  # None: nothing is saved
    replace: bool = False  # delete other traces that are saved there
    lake: LakeFormat | None = None  # save as tables of this format; None: files of our own


def analyze(
    spark: SparkSession,
    wanted: Wish,
    looked: Looked,
    make: Make[T],
    progress: Callable[[str], AbstractContextManager[None]],
    say: Callable[[str], None],
) -> tuple[TraceSource, T]:
    """The traces that were found, and what `make` made of their tables, before these are saved.

    progress: is told what runs, and left when it is done; say: notes. Raises InputError for what
    cannot be read, or saved to, before anything is computed; DoctorError where Spark fails.
    """
    folder = wanted.save_dir
    lake = Lake(spark, wanted.lake, folder) if folder and wanted.lake else None
    if lake is not None:
        lake.check()
    there = saved_in(spark, folder) if folder and lake is None else Manifest()
    if wanted.replace:
        there = Manifest()
    with progress("reading the traces"):
        source = read_traces(
            spark, wanted.traces, looked, strict=wanted.strict, selection=wanted.selection
        )
    for each in source.left_out:
        say(f"left out: {each.why}")
    step = wanted.bucket_us or step_of(source, there)
    part = incremental(source, there, step, wanted.stall_floor_us)
    for note in (*source.notes, *part.told):
        say(note)
    floor_us = wanted.stall_floor_us
    with aggregated(part.source, step, floor_us, among=source.events) as fresh:
        made = make(source, part.tables(fresh, there, folder or ""), step)
        if lake is not None:
            with progress("saving"):
                lake.save(dated(fresh), list(part.read), replace=wanted.replace)
        elif folder and part.read:
            with progress("saving"):
                save(
                    dated(fresh),
                    folder,
                    replace=wanted.replace,
                    traces=part.read,
                    rows_read=part.source.events,
                )
    return source, made
