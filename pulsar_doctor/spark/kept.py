"""What a follower keeps between two steps, and how one step follows another without a doubt.

    a/ b/          two places; a step reads the one and writes the other
      consumers/   one row for each consumer that goes on, and the worst of those that have ended
      timeline/    the steps of time that are not over, and the newest of those that are
      standing     which step it was, and how far each trace was read; written last

A step counts once its `standing` is there. Killed before that, the place that was being written is
worth nothing and the other one stands; the same segments are read again, since `standing` says how
far each trace was read. So each row counts once. Nothing else is kept, and nothing grows: the next
step but one writes over it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from pulsar_doctor.errors import InputError
from pulsar_doctor.spark.aggregations import growing
from pulsar_doctor.spark.aggregations.told import told
from pulsar_doctor.spark.checkpoint import OTHERWISE, line_in, write_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACES = ("a", "b")


@dataclass(frozen=True, slots=True)
class ReadSoFar:
    """What was read of a trace. missing: rows between others that were not there to be read."""

    events: int
    first_seq: int
    through: int
    first_us: int
    last_us: int
    missing: int = 0


@dataclass(frozen=True, slots=True)
class SoFar:
    """Where a follower stands. ended: consumers that ended in the steps before this one."""

    step: int = 0
    ended: int = 0
    traces: Mapping[str, ReadSoFar] = field(default_factory=dict)

    @property
    def last_us(self) -> int | None:
        """The moment of the latest row; None before the first."""
        return max((trace.last_us for trace in self.traces.values()), default=None)


def newest(spark: SparkSession, place: str) -> SoFar:
    """Where the follower of this checkpoint stands. Raises InputError where it is damaged."""
    found = [SoFar()]
    for name in PLACES:
        line = line_in(spark, f"{place}/{name}/standing")
        if line is not None:
            try:
                found.append(_standing(line))
            except (ValueError, TypeError, KeyError, AttributeError):
                raise InputError(
                    f"the checkpoint {place} cannot be gone on from: {name}/standing is damaged; "
                    f"{OTHERWISE}"
                ) from None
    return max(found, key=lambda standing: standing.step)


def _standing(line: str) -> SoFar:
    values = json.loads(line)
    traces = {name: ReadSoFar(**trace) for name, trace in values["traces"].items()}
    return SoFar(int(values["step"]), int(values["ended"]), traces)


def _at(place: str, standing: SoFar) -> str:
    return f"{place}/{PLACES[standing.step % len(PLACES)]}"


def consumers(spark: SparkSession, place: str, standing: SoFar) -> DataFrame:
    """The rows of growing.KEPT."""
    if not standing.step:
        return told(spark, [], _json(growing.KEPT))
    return spark.read.schema(growing.KEPT).parquet(f"{_at(place, standing)}/consumers")


def timeline(spark: SparkSession, place: str, standing: SoFar) -> DataFrame:
    """The rows of growing.STEP."""
    if not standing.step:
        return told(spark, [], _json(growing.STEP))
    return spark.read.schema(growing.STEP).parquet(f"{_at(place, standing)}/timeline")


def _json(columns: str) -> str:
    return ", ".join(column.replace(" ", ": ", 1) for column in columns.split(", "))


def keep(place: str, standing: SoFar, consumers: DataFrame, timeline: DataFrame) -> None:
    """Writes what a step has made of it, over what the last but one had made."""
    at = _at(place, standing)
    consumers.coalesce(1).write.mode("overwrite").parquet(f"{at}/consumers")
    timeline.coalesce(1).write.mode("overwrite").parquet(f"{at}/timeline")
    write_line(consumers.sparkSession, f"{at}/standing", json.dumps(asdict(standing)))
