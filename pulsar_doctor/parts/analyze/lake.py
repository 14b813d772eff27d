"""Saves the tables of an analysis as Iceberg or Delta Lake tables.

    iceberg    the place is a catalog and a namespace, as lake.reports; tables lake.reports.stalls …
    delta      the place is a folder or URI; tables PLACE/stalls …

Each table changes at one moment; a trace that is there already is replaced. A save that was killed
has changed some tables and not others; the next save of these traces repairs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.analyze.failures import failures_in_one_sentence, full_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LakeFormat = Literal["iceberg", "delta"]
PACKAGES = {
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13:VERSION",
    "delta": "io.delta:delta-spark_{spark}_2.13:VERSION",
}
NAMES = {"iceberg": "Apache Iceberg", "delta": "Delta Lake"}
ABSENT = ("DATA_SOURCE_NOT_FOUND", "Failed to find the data source", "CATALOG_NOT_FOUND")
NO_CLASS = ("plugin class not found", "Cannot find catalog plugin class", "CATALOG_PLUGIN_CLASS")


@dataclass(frozen=True, slots=True)
class Lake:
    """Where tables are."""

    spark: SparkSession
    format: LakeFormat
    place: str  # as on top of this file

    def name(self, table: str) -> str:
        """The name of a table, for SQL."""
        if self.format == "iceberg":
            return f"{self.place}.{table}"
        folder = self.place.rstrip("/").replace("`", "``")
        return f"delta.`{folder}/{table}`"

    def check(self) -> None:
        """Raises DoctorError where Spark has no such tables, InputError for what is no place."""
        if self.format == "iceberg" and not re.fullmatch(r"\w+(\.\w+)+", self.place):
            raise InputError(f"--save {self.place}: for iceberg name a catalog and a namespace")
        with self._failures_in_one_sentence():
            if self.format == "delta":
                try:
                    self.spark.read.format("delta").load(f"{self.place.rstrip('/')}/consumers")
                except PySparkException as error:  # nothing is there yet, or Delta is not
                    if any(word in full_text(error) for word in ABSENT):
                        raise
                return
            catalog = f"spark.sql.catalog.{self.place.partition('.')[0]}"
            if self.spark.conf.get(catalog, None) is None:
                raise self._absent()
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.place}")

    def save(self, tables: Mapping[str, DataFrame], traces: Sequence[str]) -> None:
        """Saves these tables; their rows replace those of `traces`."""
        with self._failures_in_one_sentence():
            for name, table in tables.items():
                self._replace(name, table, traces)

    def _replace(self, name: str, rows: DataFrame, traces: Sequence[str]) -> None:
        there = self._is_there(name)
        rows = rows.repartition("trace_id").sortWithinPartitions("trace_id", "date", "topic")
        if self.format == "iceberg":
            writer = rows.writeTo(self.name(name))
            if there:
                writer.overwrite(F.col("trace_id").isin(*traces))
            else:
                writer.using("iceberg").partitionedBy(F.col("trace_id")).create()
            return
        writing = rows.write.format("delta").mode("overwrite").partitionBy("trace_id")
        if there:
            names = ", ".join(f"'{_quoted(trace)}'" for trace in traces)
            writing = writing.option("replaceWhere", f"trace_id IN ({names})")
        writing.save(f"{self.place.rstrip('/')}/{name}")

    def _is_there(self, table: str) -> bool:
        try:
            self.spark.sql(f"SELECT * FROM {self.name(table)} LIMIT 0").schema  # noqa: B018
        except Exception as error:
            missing = ("TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND")
            text = full_text(error)
            gone = "is not a Delta table" in text or "DELTA_MISSING" in text
            if gone or any(word in text for word in missing):
                return False
            raise
        return True

    @contextmanager
    def _failures_in_one_sentence(self) -> Iterator[None]:
        """In one sentence, also that this Spark has no such tables."""
        try:
            with failures_in_one_sentence(f"saving to {self.place}"):
                yield
        except DoctorError as error:
            text = full_text(error.__cause__ or error)
            if not any(word in text for word in (*ABSENT, *NO_CLASS)):
                raise
            raise self._absent() from error.__cause__

    def _absent(self) -> DoctorError:
        version = ".".join(self.spark.version.split(".")[:2])
        package = PACKAGES[self.format].format(spark=version)
        return DoctorError(
            f"this Spark {self.spark.version} has no {NAMES[self.format]} for {self.place}; where "
            f"there is one of that version, give --conf spark.jars.packages={package} and the "
            "settings of its catalog (docs/saved.md), or leave out --format"
        )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
