"""Reads what watches recorded, as views that the queries in sql/ name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pulsar_doctor.parts.analyze.failures import failures_in_one_sentence
from pulsar_doctor.parts.analyze.paths import absolute, literally
from pulsar_doctor.parts.fleet.journal import SCHEMA
from pulsar_doctor.parts.fleet.record import SCHEMA_VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OF_ARROW = {
    "list<item: ": "array<", "int64": "bigint", "int32": "int", "int16": "smallint",
    "timestamp[us, tz=UTC]": "timestamp",
}  # fmt: skip
VIEWS = {
    "seen": """
        SELECT * FROM (SELECT cluster, day, topic, subscription,
          unix_micros(seen_at) / 1000000 AS t,
          coalesce(lead(unix_micros(seen_at) / 1000000) OVER (
            PARTITION BY cluster, day, topic, subscription ORDER BY seen_at), 1e18) AS next_row,
          CASE WHEN kind = 'seen' THEN status ELSE kind END AS status, cause, certainty, consumer,
          backlog, broker_version, comes_in, sent_out,
          transform(consumers, c -> coalesce(c.name, '?')) AS names,
          transform(consumers, c -> concat(coalesce(c.name, '?'), '@',
            coalesce(unix_micros(c.connected), 0))) AS lives,
          array_distinct(transform(consumers, c -> coalesce(c.version, '?'))) AS versions,
          array_max(transform(consumers, c -> unix_micros(c.connected))) / 1000000 AS newest
        FROM records WHERE kind IN ('seen', 'gone', 'unread')) WHERE status <> 'unread'""",
    "rounds_seen": """
        SELECT cluster, day, unix_micros(seen_at) / 1000000 AS t
        FROM records WHERE kind = 'round'""",
    "levels_seen": """
        SELECT cluster, day, topic, subscription, unix_micros(seen_at) / 1000000 AS t,
          inline(limits) AS (name, level, most, seconds)
        FROM records WHERE kind = 'seen' AND size(limits) > 0""",
    "consumers_seen": """
        SELECT cluster, day, topic, subscription, t, c.name, c.version,
          unix_micros(c.connected) / 1000000 AS connected, c.permits, c.unacked, c.rate
        FROM (SELECT cluster, day, topic, subscription, unix_micros(seen_at) / 1000000 AS t,
            explode(consumers) AS c
          FROM records WHERE kind = 'seen')""",
}


def columns() -> str:
    """The columns of a record, as Spark writes them: a file that lacks one has null there."""
    kinds = {of.name: str(of.type) for of in SCHEMA}
    for arrow, spark in OF_ARROW.items():
        kinds = {name: kind.replace(arrow, spark) for name, kind in kinds.items()}
    fields = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    return f"{fields}, cluster string, day date"


def read(spark: SparkSession, folders: Sequence[str]) -> DataFrame:
    """Finds every record below these folders. Raises InputError where there are none."""
    found: DataFrame | None = None
    for folder in folders:
        root = literally(absolute(folder))
        rows = spark.read.schema(columns()).option("basePath", absolute(folder))
        with failures_in_one_sentence(f"reading {folder}"):
            part = rows.parquet(f"{root}/cluster=*/day=*")
        found = part if found is None else found.unionAll(part)
    assert found is not None
    return found.where(F.col("schema_version") <= SCHEMA_VERSION)


def name_views(spark: SparkSession, records: DataFrame) -> None:
    """The views of these records."""
    records.createOrReplaceTempView("records")
    for name, query in VIEWS.items():
        spark.sql(query).createOrReplaceTempView(name)


def sources(spark: SparkSession, folders: Sequence[str]) -> DataFrame:
    """Counts the files of each cluster and day, and names the newest one."""
    listing = spark.read.format("binaryFile").option("pathGlobFilter", "*.parquet")
    paths = [f"{literally(absolute(folder))}/cluster=*/day=*" for folder in folders]
    part = r"/cluster=([^/]+)/day=([^/]+)/([^/]+)$"
    with failures_in_one_sentence("looking for records"):
        files = listing.load(paths).select("path")
    return files.groupBy(
        F.regexp_extract("path", part, 1).alias("cluster"),
        F.regexp_extract("path", part, 2).cast("date").alias("day"),
    ).agg(
        F.count("path").alias("files"),
        F.max(F.regexp_extract("path", part, 3)).alias("newest"),
    )
