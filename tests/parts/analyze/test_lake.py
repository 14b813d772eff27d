"""What `analyze --save` leaves as tables of Iceberg and Delta Lake, as Spark reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pulsar_doctor.errors import DoctorError
from tests.parts.analyze import made_traces
from tests.support.command_line import environment
from tests.support.wanting import wanting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pyspark = pytest.importorskip("pyspark")

VERSION = ".".join(pyspark.__version__.split(".")[:2])
# The newest that there were for a version of Spark; by hand, in an environment with that Spark.
PACKAGES = {
    ("iceberg", "4.1"): "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
    ("delta", "4.1"): "io.delta:delta-spark_4.1_2.13:4.2.0",
}
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",  # 50 tasks for each version otherwise
}


def iceberg(warehouse: Path) -> dict[str, str]:
    return {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
    }


READ = """
import json, sys
from pulsar_doctor.parts.analyze.session import Where, session
kind, place, conf = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
name = (lambda table: f"{place}.{table}") if kind == "iceberg" else (
    lambda table: f"delta.`{place}/{table}`")
with session(Where(master="local[1]", conf=conf, rows=5)) as spark:
    counts = {}
    for table in ("consumers", "stalls", "gaps", "holes"):
        rows = spark.sql(f"SELECT trace_id, count(*) AS n FROM {name(table)} GROUP BY trace_id")
        counts[table] = {row["trace_id"]: row["n"] for row in rows.collect()}
    print(json.dumps(counts))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_trace_that_is_saved_again_is_replaced_and_others_stay(kind: str, tmp_path: Path) -> None:
    """A trace twice, and another beside it."""
    package = PACKAGES.get((kind, VERSION))
    if package is None:
        pytest.skip(wanting(f"a Spark that {kind} is there for, which {VERSION} is not"))
    conf = {**(iceberg(tmp_path / "lake") if kind == "iceberg" else DELTA)}
    conf["spark.jars.packages"] = package
    place = "lake.reports" if kind == "iceberg" else str(tmp_path / "lake")
    first, second = tmp_path / "a.ptrace", tmp_path / "b.ptrace"
    made_traces.sealed(first, made_traces.long_story(), "it's a", parts=2)
    made_traces.slow(second)
    expected = [analyzed(first), analyzed(second)]
    for trace in (first, first, second):
        analyzed(trace, "--save", place, "--format", kind, *options(conf))
    command = [sys.executable, "-c", READ, kind, place, json.dumps(conf)]
    run = subprocess.run(command, env=environment(), check=True, capture_output=True, text=True)
    counts = json.loads(run.stdout)
    for table, found in counts.items():
        (a,), (b,) = ([each["totals"][table]] for each in expected)
        assert found == {name: n for name, n in (("it's a", a), ("slow", b)) if n}, table


def options(conf: dict[str, str]) -> list[str]:
    return [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]


def analyzed(trace: Path, *more: str) -> Any:
    floor = ("--stall-floor", "1ms", "--bucket", "1s")
    command = [sys.executable, "-m", "pulsar_doctor", "analyze", str(trace), *floor, *more]
    run = subprocess.run(
        [*command, "-o", "json", "-q", "--fail-on", "never"], env=environment(),
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize(("kind", "place"), [("iceberg", "lake.reports"), ("delta", "lake")])
def test_a_spark_without_it_is_told_in_one_sentence(
    spark: SparkSession, tmp_path: Path, kind: Any, place: str
) -> None:
    from pulsar_doctor.parts.analyze.lake import Lake

    where = place if kind == "iceberg" else str(tmp_path / place)
    with pytest.raises(DoctorError, match=r"has no (Apache Iceberg|Delta Lake) for") as told:
        Lake(spark, kind, where).check()
    assert "--conf spark.jars.packages=" in str(told.value)
    assert "\n" not in str(told.value)
