"""Makes the tables: those of each day once, and from them the answers.

Tables of a day (DAILY) are kept below a folder, and made again only for days of which there are new
files. A day is replaced as a whole, and what it was made of is noted last: whatever is killed is
made again, and nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.resources import files
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from pulsar_doctor.parts.analyze.failures import failures_in_one_sentence
from pulsar_doctor.parts.analyze.paths import absolute
from pulsar_doctor.parts.analyze.saving import OPTIONS
from pulsar_doctor.parts.fleet.reading import name_views, read, sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

DAILY = ("spans",)
BETWEEN = ("episodes",)  # of all days, from which answers are made
ANSWERS = ("stalled",)
DAYS = ("cluster", "day")
# Seconds since the epoch, which are moments in what is printed and saved.
MOMENTS = ("began", "ended", "last_seen", "last_began", "reached", "first_seen", "connected")

NOTHING: Mapping[str, float] = {}

Phase = Callable[[str], AbstractContextManager[None]]


def query_of(name: str, values: Mapping[str, float]) -> str:
    """The query that makes a table. values: of what it names with a colon."""
    text = files(__package__).joinpath("sql", f"{name}.sql").read_text("utf-8")
    for key, value in values.items():
        text = text.replace(f":{key}", repr(float(value)))
    return text


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
            _keep_days(spark, folders, absolute(kept), values)
    for name in BETWEEN:
        spark.sql(query_of(name, values)).persist().createOrReplaceTempView(name)
    for name in (*BETWEEN, *ANSWERS):
        with failures_in_one_sentence(f"making {name}"):
            made = spark.table(name) if name in BETWEEN else spark.sql(query_of(name, values))
            table = with_moments(made)
            if kept is not None:
                with progress(f"saving {name}"):
                    _written(table).parquet(f"{absolute(kept)}/{name}")
        yield name, table


def with_moments(table: DataFrame) -> DataFrame:
    """With moments as such."""
    names = [name for name in MOMENTS if name in table.columns]
    return table.withColumns(
        {name: F.timestamp_micros((F.col(name) * 1_000_000).cast("bigint")) for name in names}
    )


def _keep_days(
    spark: SparkSession, folders: Sequence[str], root: str, values: Mapping[str, float]
) -> None:
    """Makes what is missing of the tables of days, and names all of them as views."""
    now = sources(spark, folders)
    before = _saved(spark, f"{root}/sources")
    news = now if before is None else now.exceptAll(before.select(now.columns))
    days = news.select(*DAYS)
    if days.limit(1).count():
        name_views(spark, read(spark, folders).join(F.broadcast(days), list(DAYS), "left_semi"))
        for name in DAILY:
            rows = spark.sql(query_of(name, values)).repartition(*DAYS)
            _written(rows).partitionBy(*DAYS).parquet(f"{root}/{name}")
        _written(news.coalesce(1)).partitionBy(*DAYS).parquet(f"{root}/sources")
    for name in DAILY:
        spark.read.parquet(f"{root}/{name}").createOrReplaceTempView(name)


def _saved(spark: SparkSession, folder: str) -> DataFrame | None:
    try:
        return spark.read.parquet(folder)
    except AnalysisException:
        return None


def _written(rows: DataFrame) -> DataFrameWriter:
    """Spark's own writer, which replaces the partitions that it has rows of."""
    writer = rows.write.mode("overwrite").options(**OPTIONS)
    return writer.option("partitionOverwriteMode", "dynamic")
