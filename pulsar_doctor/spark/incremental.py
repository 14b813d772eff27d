"""Updates a saved analysis: only traces that have changed are read.

A consumer goes through all segments of its trace, and a percentile through all of its FLOWs: so a
trace that has a segment more is read anew, whole, and one that has the same segments not at all.
The same document comes of it as if all had been read. What was saved in another format, or with
another step of the timeline, floor of stalls or kind of percentiles, is read anew, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pulsar_doctor.spark.aggregations import Tables
from pulsar_doctor.spark.aggregations.subscriptions import subscriptions
from pulsar_doctor.spark.manifests import Manifest
from pulsar_doctor.spark.paths import literally
from pulsar_doctor.spark.reading import OPTIONS, SCHEMA, counting
from pulsar_doctor.spark.running import EXACT_EVENTS_MOST, STEPS, bucket_of
from pulsar_doctor.spark.saving import files_of
from pulsar_doctor.spark.segments import Segment
from pulsar_doctor.spark.source import TraceSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Raised with each change to a saved table: its columns, or how its rows are counted.
ANALYSIS_FORMAT = 1
TABLES = ("consumers", "gaps", "stalls", "timeline", "holes", "brief_stalls")
STEPS_MOST = 10 * STEPS  # of a timeline that keeps to the step that it was saved with


@dataclass(frozen=True, slots=True)
class Incremental:
    """What is still to be read, and what is saved already."""

    source: TraceSource  # still to be read
    saved: frozenset[str]  # trace_ids that are saved already, so not read
    made_of: Mapping[str, str]  # trace_id -> what it is saved with
    told: Sequence[str] = ()  # sentences on what is read and what is not

    @property
    def read(self) -> dict[str, str]:
        """Of the traces that are read."""
        return {name: made for name, made in self.made_of.items() if name not in self.saved}

    def tables(self, fresh: Tables, manifest: Manifest, folder: str) -> Tables:
        """With the rows that are saved."""
        if not self.saved:
            return fresh
        both: dict[str, Any] = {
            name: _both(getattr(fresh, name), files_of(folder, manifest, name), self.saved)
            for name in TABLES
        }
        return replace(fresh, **both, subscriptions=subscriptions(both["consumers"]))


def _both(fresh: DataFrame, files: Sequence[str], traces: frozenset[str]) -> DataFrame:
    older = fresh.sparkSession.read.parquet(*files)
    older = older.where(F.col("trace_id").isin(*traces))
    return fresh.unionByName(older.select(*fresh.columns))


def incremental(
    source: TraceSource, manifest: Manifest, bucket_us: int, floor_us: int
) -> Incremental:
    """What is to be read of a source, where so much is saved already."""
    exact = source.events <= EXACT_EVENTS_MOST
    proven = " proven" * source.selection.proven_only
    terms = f"format={ANALYSIS_FORMAT}{proven} bucket={bucket_us} floor={floor_us} exact={exact:d}"
    by_trace = {
        name: list(segments)
        for name, segments in groupby(source.segments, key=lambda each: each.trace_id)
    }
    made_of = {name: f"{terms} {_digest(segments)}" for name, segments in by_trace.items()}
    saved = frozenset(name for name in made_of if manifest.traces.get(name) == made_of[name])
    told = list(_told(manifest, made_of, terms))
    segments = [each for each in source.segments if each.trace_id not in saved]
    if not saved:
        return Incremental(source, saved, made_of, told)
    if not segments:
        rows = source.rows.limit(0)
    else:
        reader = source.rows.sparkSession.read.schema(SCHEMA).options(**OPTIONS)
        read = reader.parquet(*(literally(each.path) for each in segments))
        rows = counting(read, segments, source.selection)
    return Incremental(replace(source, rows=rows, segments=segments), saved, made_of, told)


def step_of(source: TraceSource, manifest: Manifest) -> int:
    """The step of the timeline: that of what is saved, unless there would be too many of it."""
    there = {made_of.split(" bucket=")[-1].split(" ")[0] for made_of in manifest.traces.values()}
    span_us = (source.last_us or 0) - (source.first_us or 0)
    saved = there.pop() if len(there) == 1 else ""
    saved_us = int(saved) if saved.isdecimal() else 0
    return saved_us if saved_us and span_us <= STEPS_MOST * saved_us else bucket_of(source)


def _digest(segments: Sequence[Segment]) -> str:
    """Of which rows a trace has. A segment never changes, so that its rows are told by these."""
    rows = [(each.first_seq, each.last_seq, each.first_us, each.last_us) for each in segments]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _told(manifest: Manifest, made_of: Mapping[str, str], terms: str) -> Iterator[str]:
    same = sum(manifest.traces.get(name) == made_of[name] for name in made_of)
    if same:
        yield f"{_traces(same)} of {len(made_of):,} as saved, and not read again"
    known = {name: manifest.traces[name] for name in made_of if name in manifest.traces}
    changed = [name for name, was in known.items() if was != made_of[name]]
    other = sum(not known[name].startswith(terms) for name in changed)
    grown = len(changed) - other
    if grown:
        yield (
            f"{_traces(grown)} with other segments than saved, read anew as a whole: "
            "consumers and percentiles go through all segments of a trace"
        )
    if other:
        yield (
            f"{_traces(other)} saved in another format, or with another step, stall "
            "floor or kind of percentiles, read anew"
        )


def _traces(count: int) -> str:
    return f"{count:,} trace{'' if count == 1 else 's'}"
