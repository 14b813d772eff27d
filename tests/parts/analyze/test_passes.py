"""However what the tables share is kept, they say the same; and nothing of it stays."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pulsar_doctor.parts.analyze import running
from pulsar_doctor.parts.analyze.aggregations import Tables, aggregate
from pulsar_doctor.parts.analyze.aggregations.passes import PLANNED_ONLY, Keeping
from pulsar_doctor.parts.analyze.aggregations.small_table import small_table
from pulsar_doctor.parts.analyze.reading import read_traces
from pulsar_doctor.parts.analyze.running import aggregated, dated
from pulsar_doctor.parts.analyze.session import having
from pulsar_doctor.parts.analyze.source import TraceSource
from tests.parts.analyze import made_traces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKET_US = 1_000_000
FLOOR_US = 1_000

pytestmark = pytest.mark.timeout(300)  # a busy machine


@pytest.fixture(scope="module")
def source(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TraceSource:
    folder = tmp_path_factory.mktemp("shared")
    paths = [path for maker in made_traces.MAKERS for path in maker(folder / maker.__name__)]
    return read_traces(spark, [str(path) for path in paths])


@contextmanager
def counted(source: TraceSource, *, few: bool, cut: bool) -> Iterator[Tables]:
    spark = source.rows.sparkSession
    with having(spark, PLANNED_ONLY):
        tables = aggregate(
            source.rows,
            bucket_us=BUCKET_US,
            exact=True,
            breaks=source.breaks,
            stall_floor_us=FLOOR_US,
            ends=source.at_the_end,
            keeping=Keeping(few=few, cut=cut),
        )
    yield tables
    tables.forget()


def rows(table: DataFrame) -> list[str]:
    return sorted(json.dumps(row.asDict(), default=str) for row in table.collect())


def found(tables: Tables) -> dict[str, list[str]]:
    return {name: rows(table) for name, table in dated(tables).items()}


@pytest.fixture(scope="module")
def as_analyze_does(source: TraceSource) -> dict[str, list[str]]:
    with aggregated(source, BUCKET_US, FLOOR_US) as tables:
        assert all(each.cut for each in tables.passes.values())
        return found(tables)


@pytest.mark.parametrize(
    ("few", "cut"),
    [
        pytest.param(False, False, id="as on a cluster", marks=pytest.mark.slow),
        pytest.param(False, True, id="many, cut", marks=pytest.mark.slow),
        pytest.param(True, False, id="few, persisted", marks=pytest.mark.slow),
    ],
)
def test_the_tables_are_the_same_however_they_are_counted(
    source: TraceSource, as_analyze_does: dict[str, list[str]], few: bool, cut: bool
) -> None:
    with counted(source, few=few, cut=cut) as tables:
        said = found(tables)
    assert all(len(table) > 5 for table in said.values())
    for name, table in as_analyze_does.items():
        assert said[name] == table, name


def kept_by_java(spark: SparkSession) -> set[int]:
    return set(spark.sparkContext._jsc.getPersistentRDDs())  # type: ignore[attr-defined]


@pytest.mark.parametrize("cut", [True, False])
def test_what_was_kept_is_forgotten(spark: SparkSession, source: TraceSource, cut: bool) -> None:
    before = kept_by_java(spark)
    with counted(source, few=True, cut=cut) as tables:
        tables.consumers.collect()
        assert len(kept_by_java(spark) - before) >= 5
    assert kept_by_java(spark) - before == set()


@pytest.mark.parametrize(("some", "wanted"), [(10**6, {"SinglePartition"}), (0, set())])
def test_up_to_some_million_rows_nothing_is_moved_that_was_kept(
    monkeypatch: pytest.MonkeyPatch, source: TraceSource, some: int, wanted: set[str]
) -> None:
    monkeypatch.setattr(running, "FEW_ROWS", 0)
    monkeypatch.setattr(running, "SOME_ROWS", some)
    planned = having(source.rows.sparkSession, PLANNED_ONLY)
    with planned, aggregated(source, BUCKET_US) as tables:
        plans = [each.rows._jdf.queryExecution().executedPlan() for each in tables.passes.values()]
        found = {plan.outputPartitioning().toString().split("$")[0] for plan in plans}
    assert found & {"SinglePartition"} == wanted
    assert len(found) == 1 or not wanted


def test_what_follows_plans_nothing_of_what_is_kept_again(source: TraceSource) -> None:
    with counted(source, few=False, cut=False) as tables:
        plans = [each.rows._jdf.queryExecution().analyzed() for each in tables.passes.values()]
        assert {each.nodeName() for each in plans} == {"InMemoryRelation"}


def test_what_each_table_needs_is_counted_while_the_tables_are_planned(
    spark: SparkSession, source: TraceSource
) -> None:
    before = kept_by_java(spark)
    with counted(source, few=False, cut=False) as tables:
        until = time.monotonic() + 60
        while len(begun := kept_by_java(spark) - before) < 2 and time.monotonic() < until:
            time.sleep(0.1)
        assert len(begun) == 2
        assert tables.consumers.count()
    assert kept_by_java(spark) - before == set()


def test_what_nobody_asks_for_is_not_counted(spark: SparkSession, source: TraceSource) -> None:
    adaptive = spark.conf.get("spark.sql.adaptive.enabled")
    with aggregated(source, BUCKET_US) as tables:
        assert spark.conf.get("spark.sql.adaptive.enabled") == adaptive  # for what is asked of them
        tables.consumers.collect()
        infos = spark.sparkContext._jsc.sc().getRDDStorageInfo()  # type: ignore[attr-defined]
        there = {info.name(): info.numCachedPartitions() for info in infos}
    assert there["consumers"] == there["profile"] == there["rows"] == 1
    assert not there.get("blocks")


def test_of_equals_the_same_are_shown_in_whatever_order_they_come(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "ROWS_MOST", 6)  # 2 of each measure
    values: list[dict[str, Any]] = [
        {"trace_id": "t", "incarnation": n, "measure": "m", "p99_us": 7} for n in range(10)
    ]
    columns = "trace_id: string, incarnation: int, measure: string, p99_us: bigint"
    for order in (values, values[::-1]):
        worst = running._of_each_measure(small_table(spark, order, columns))
        assert sorted(row["incarnation"] for row in worst.collect()) == [0, 1]
