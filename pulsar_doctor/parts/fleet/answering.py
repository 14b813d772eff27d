"""Makes the tables: those of each day once, and from them the answers.

Tables of a day (DAILY) are kept below a folder, and made again only for days of which there are new
files. A day is replaced as a whole, and what it was made of is noted last: whatever is killed is
made again, and nothing is counted twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from pulsar_doctor.parts.analyze.aggregations.small_table import small_table
from pulsar_doctor.parts.analyze.failures import failures_in_one_sentence
from pulsar_doctor.parts.analyze.paths import absolute
from pulsar_doctor.parts.analyze.saving import OPTIONS, look_into
from pulsar_doctor.parts.fleet.reading import name_views, read, sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

DAILY = ("spans", "levels", "lives", "hours")
BETWEEN = ("episodes", "forecasts")  # of all days, from which answers are made
ONLY_SAVED = ("forecasts", "usual")
ANSWERS = (
    "stalled", "changes", "versions", "forecast", "together", "queues", "remedies", "usual"
)  # fmt: skip
OURS = re.compile(
    rf"({'|'.join((*DAILY, 'sources'))})/cluster=[^/]+/day=[^/]+/part-[^/]+"
    rf"|({'|'.join((*BETWEEN, *ANSWERS, *DAILY))})/part-[^/]+"
)
DAYS = ("cluster", "day")
# Seconds since the epoch, which are moments in what is printed and saved.
MOMENTS = ("began", "ended", "last_seen", "last_began", "reached", "first_seen", "connected")

NOTHING: Mapping[str, float] = {}
# Of which table runs.sql makes which one, and how that names its columns.
RUNS = {
    "spans": {
        "source": "seen", "day": ", day", "began": "t", "last_seen": "t", "last_row": "t",
        "depth": "backlog",
        "first": "", "last": "", "next": ", max_by(next_row, t) AS next_row",
    },
    "episodes": {
        "source": "spans", "day": "", "began": "began", "last_seen": "last_seen",
        "last_row": "coalesce(last_row, last_seen)",  # not in tables of earlier versions
        "depth": "depth", "first": "first_", "last": "last_", "next": "",
    },
}  # fmt: skip

Phase = Callable[[str], AbstractContextManager[None]]


def query_of(name: str, values: Mapping[str, float]) -> str:
    """The query that makes a table. values: of what it names with a colon."""
    runs = Template(_text("runs")).substitute(RUNS[name]) if name in RUNS else ""
    text = Template(_text(name)).substitute(runs=runs)
    for key, value in values.items():
        text = text.replace(f":{key}", repr(float(value)))
    return text


def _text(name: str) -> str:
    return files(__package__).joinpath("sql", f"{name}.sql").read_text("utf-8")


def answers(
    spark: SparkSession,
    folders: Sequence[str],
    kept: str | None,
    progress: Phase,
    values: Mapping[str, float] = NOTHING,
) -> Iterator[tuple[str, DataFrame]]:
    """Each answer with its name. kept: the folder of tables; None: all are made now.

    Raises InputError for what cannot be read, DoctorError where Spark fails.
    """
    with progress("reading the records"), failures_in_one_sentence("reading the records"):
        if kept is None:
            name_views(spark, read(spark, folders))
            for name in DAILY:
                spark.sql(query_of(name, values)).persist().createOrReplaceTempView(name)
        else:
            look_into(spark, kept, OURS)
            _keep_days(spark, folders, absolute(kept), values)
    for name in BETWEEN:
        spark.sql(query_of(name, values)).persist().createOrReplaceTempView(name)
    for name in made_of(kept, values):
        with failures_in_one_sentence(f"making {name}"):
            made = spark.table(name) if name in BETWEEN else spark.sql(query_of(name, values))
            table = with_moments(made)
            if kept is not None:
                with progress(f"saving {name}"):
                    _written(table.coalesce(1)).parquet(f"{absolute(kept)}/{name}")
                table = _read_back(table, f"{absolute(kept)}/{name}")
        yield name, table


def made_of(kept: str | None, values: Mapping[str, float]) -> Iterator[str]:
    """The tables that are made, in order."""
    for name in (*BETWEEN, *ANSWERS):
        if (kept or name not in ONLY_SAVED) and (values or name != "remedies"):
            yield name


def with_moments(table: DataFrame) -> DataFrame:
    """With moments as such."""
    names = [name for name in MOMENTS if name in table.columns]
    moments = {name: F.timestamp_micros((F.col(name) * 1_000_000).cast("bigint")) for name in names}
    return table.withColumns(moments) if moments else table  # Spark Connect takes no empty one


def _keep_days(
    spark: SparkSession, folders: Sequence[str], root: str, values: Mapping[str, float]
) -> None:
    """Makes what is missing of the tables of days, and names all of them as views."""
    news = _news(spark, folders, f"{root}/sources")
    days = news.select(*DAYS)
    name_views(spark, read(spark, folders).join(F.broadcast(days), list(DAYS), "left_semi"))
    tables = {name: spark.sql(query_of(name, values)) for name in DAILY}
    if news.count():
        for name, rows in tables.items():
            _written(rows.repartition(*DAYS)).partitionBy(*DAYS).parquet(f"{root}/{name}")
        _written(news.coalesce(1)).partitionBy(*DAYS).parquet(f"{root}/sources")
    for name, rows in tables.items():  # one without a row has no file that tells its columns
        _read_back(rows, f"{root}/{name}").createOrReplaceTempView(name)


def _news(spark: SparkSession, folders: Sequence[str], noted: str) -> DataFrame:
    """The days of which there are new files, as of now: what a watch adds meanwhile is not noted.

    What a watch deletes because of its age is no news.
    """
    now, before = sources(spark, folders), _saved(spark, noted)
    if before is not None:
        old = before.select(*DAYS, F.col("files").alias("had"), F.col("newest").alias("last"))
        known = (F.col("files") <= F.col("had")) & (F.col("newest") <= F.col("last"))
        joined = now.join(old, list(DAYS), "left")
        now = joined.where(F.col("had").isNull() | ~known).select(now.columns)
    rows = [{**row.asDict(), "day": str(row["day"])} for row in now.collect()]
    columns = "cluster: string, day: date, files: bigint, newest: string"
    return small_table(spark, rows, columns)


def _read_back(rows: DataFrame, folder: str) -> DataFrame:
    """What was written of a table, so that it is not made again."""
    return rows.sparkSession.read.schema(rows.schema).parquet(folder)


def _saved(spark: SparkSession, folder: str) -> DataFrame | None:
    try:
        found = spark.read.parquet(folder)
        found.schema  # noqa: B018  # a client of Spark Connect asks only now
    except AnalysisException:
        return None
    return found


def _written(rows: DataFrame) -> DataFrameWriter:
    """Spark's own writer, which replaces the partitions that it has rows of."""
    writer = rows.write.mode("overwrite").options(**OPTIONS)
    return writer.option("partitionOverwriteMode", "dynamic")
