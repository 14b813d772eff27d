"""Of captures Spark counts the rows that the other readers count."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pulsar_doctor.parts.analyze.reading import Looked, read_traces
from pulsar_doctor.parts.analyze.selection import Selection
from pulsar_doctor.trace.sealing import open_trace
from tests.parts.capture.test_likely import busy, taken_back, traced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)  # a busy machine
SHOWN = ("seq", "command", "permits", "grade", "join")


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("proven_only", [False, True])
def test_rows_that_were_taken_back_are_left_out_and_counted(
    spark: SparkSession, tmp_path: Path, here: bool, proven_only: bool
) -> None:
    taken_back(tmp_path / "a")
    traced(tmp_path / "b", busy(10)[0])
    given = [str(tmp_path / "a"), str(tmp_path / "b")]
    looked = None if here else Looked([], given)
    source = read_traces(spark, given, looked, selection=Selection(proven_only=proven_only))
    found = {tuple(row) for row in source.rows.select("trace_id", *SHOWN).collect()}
    expected = set()
    for folder in given:
        trace = open_trace(Path(folder), proven_only=proven_only)
        for row in trace.rows():
            if row.command != "RETRACTED":
                values = (getattr(row, name) for name in SHOWN)
                expected.add((trace.meta.trace_id, *values))
    assert found == expected
    assert sum("12 rows were no commands and taken back" in note for note in source.notes) == 1
