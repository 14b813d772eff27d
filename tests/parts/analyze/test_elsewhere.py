"""A trace is judged alike wherever Spark runs: what it does not list, what is missing, unsealed.

What only Spark can see (hdfs://, a Connect server's disk) is seen here by not looking first.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pulsar_doctor.errors import InputError, TraceError
from pulsar_doctor.parts.analyze.reading import Looked, read_traces
from pulsar_doctor.parts.analyze.source import TraceSource
from pulsar_doctor.trace.folder import INDEX, META, segment_name
from pulsar_doctor.trace.index import index_of, read_index
from tests.made.wire import slow_consumer
from tests.parts.analyze import made_traces
from tests.parts.analyze.planted import PLANTED, torn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # a busy machine


def looked_at_here(spark: SparkSession, *paths: Path, strict: bool = False) -> TraceSource:
    return read_traces(spark, [*map(str, paths)], strict=strict)


def by_spark_alone(spark: SparkSession, *paths: Path, strict: bool = False) -> TraceSource:
    given = [*map(str, paths)]
    return read_traces(spark, given, Looked([], given), strict=strict)


Reader = Callable[..., TraceSource]
everywhere = pytest.mark.parametrize("read", [looked_at_here, by_spark_alone])


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One trace of each kind that is bad, beside two that are good."""
    folder = tmp_path_factory.mktemp("odd name é%20#") / "taps"
    made_traces.two(folder)
    for plant in PLANTED:
        plant(folder / f"{plant.__name__}.ptrace")
    return folder


@everywhere
def test_bad_traces_are_left_out_by_name_and_the_others_are_counted(
    spark: SparkSession, bad: Path, read: Reader
) -> None:
    source = read(spark, bad)
    why = {Path(each.trace).name: each.why for each in source.left_out}
    assert {Path(segment.trace).name for segment in source.segments} == {"a", "b"}
    assert source.rows.count() == source.events
    assert why.keys() == {f"{plant.__name__}.ptrace" for plant in PLANTED if plant.says}
    for plant in PLANTED:
        assert plant.says in why.get(f"{plant.__name__}.ptrace", "")
    assert all(name in said for name, said in why.items())


@everywhere
@pytest.mark.parametrize("plant", [plant for plant in PLANTED if plant.says], ids=str)
def test_alone_a_bad_trace_is_refused(
    spark: SparkSession, bad: Path, read: Reader, plant: Callable[[Path], None]
) -> None:
    name = f"{plant.__name__}.ptrace"
    with pytest.raises(TraceError, match=name):
        read(spark, bad / name)


@everywhere
def test_strict_refuses_all(spark: SparkSession, bad: Path, read: Reader) -> None:
    with pytest.raises(TraceError, match=r"\.ptrace"):
        read(spark, bad, strict=True)


@everywhere
def test_two_that_contradict_each_other_are_both_left_out(
    spark: SparkSession, tmp_path: Path, read: Reader
) -> None:
    made_traces.two(tmp_path)
    for name, parts in (("x", 2), ("y", 3)):
        made_traces.sealed(tmp_path / name, slow_consumer(), "cut", parts=parts)
    source = read(spark, tmp_path)
    assert sorted(Path(each.trace).name for each in source.left_out) == ["x", "y"]
    assert source.traces == 2
    with pytest.raises(InputError, match="and others: one of them is damaged"):
        read(spark, tmp_path, strict=True)


def test_what_a_crash_left_is_sealed_here_and_told_elsewhere(
    spark: SparkSession, tmp_path: Path
) -> None:
    torn(tmp_path / "torn.ptrace")
    before = by_spark_alone(spark, tmp_path / "torn.ptrace")
    (note,) = before.notes
    assert "torn.ptrace: what is not sealed is left out" in note
    whole = looked_at_here(spark, tmp_path / "torn.ptrace")
    assert (whole.notes, whole.events > before.events > 0) == ([], True)
    after = by_spark_alone(spark, tmp_path / "torn.ptrace")
    assert (after.notes, after.events) == ([], whole.events)


def test_a_copy_a_pattern_and_a_folder_are_found_elsewhere_as_here(
    spark: SparkSession, tmp_path: Path
) -> None:
    (path,) = made_traces.slow(tmp_path / "taps" / "slow.ptrace")
    shutil.copytree(path, tmp_path / "taps" / "again.ptrace")
    for read in (looked_at_here, by_spark_alone):
        for given in (path, tmp_path / "taps", tmp_path / "taps" / "*.ptrace"):
            source = read(spark, given)
            twice = [] if given == path else [f"{source.events:,} rows are there twice"]
            assert [note.partition(" and")[0] for note in source.notes] == twice
            assert (source.traces, source.left_out) == (1, [])


def test_the_list_is_read_from_bytes_as_from_its_file(tmp_path: Path) -> None:
    (path,) = made_traces.slow(tmp_path / "slow.ptrace")
    assert index_of((path / INDEX).read_bytes(), "x") == read_index(path)
    assert (path / META).exists()
    assert (path / segment_name(3)).exists()
