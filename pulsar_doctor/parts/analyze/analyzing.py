"""Runs one analysis from its traces to its output and saved tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pulsar_doctor.parts.analyze.aggregations import Tables
from pulsar_doctor.parts.analyze.failures import failures_in_one_sentence
from pulsar_doctor.parts.analyze.lake import Lake, LakeFormat
from pulsar_doctor.parts.analyze.reading import Looked, read_traces
from pulsar_doctor.parts.analyze.running import aggregated, bucket_of, dated
from pulsar_doctor.parts.analyze.saving import look_into, save
from pulsar_doctor.parts.analyze.selection import EVERYTHING, Selection
from pulsar_doctor.parts.analyze.source import TraceSource

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
    bucket_us: int | None = None  # None: one that fits
    stall_floor_us: int = 0
    save_dir: str | None = None  # None: nothing is saved
    lake: LakeFormat | None = None  # save as tables of this format; None: as Parquet


def analyze(
    spark: SparkSession,
    wanted: Wish,
    looked: Looked,
    make: Make[T],
    progress: Callable[[str], AbstractContextManager[None]],
    say: Callable[[str], None],
) -> tuple[TraceSource, T]:
    """The traces that were found, and what `make` made of their tables, before these are saved.

    progress: hears what runs, and is left when it is done; say: notes. Raises InputError for what
    cannot be read, or saved to, before anything is computed; DoctorError where Spark fails.
    """
    folder = wanted.save_dir
    lake = Lake(spark, wanted.lake, folder) if folder and wanted.lake else None
    if lake is not None:
        lake.check()
    elif folder:
        with failures_in_one_sentence(f"looking into {folder}"):
            look_into(spark, folder)
    with progress("reading the traces"):
        source = read_traces(
            spark, wanted.traces, looked, strict=wanted.strict, selection=wanted.selection
        )
    for each in source.left_out:
        say(f"left out: {each.why}")
    for note in source.notes:
        say(note)
    step = wanted.bucket_us or bucket_of(source)
    with aggregated(source, step, wanted.stall_floor_us) as tables:
        made = make(source, tables, step)
        traces = sorted({each.trace_id for each in source.segments})
        if folder and traces:
            with progress("saving"):
                if lake is not None:
                    lake.save(dated(tables), traces)
                else:
                    save(dated(tables), folder, traces)
    return source, made
