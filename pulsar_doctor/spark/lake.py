"""Saves the tables of an analysis as Iceberg or Delta Lake tables.

    iceberg    the place is a catalog and a namespace, as lake.reports; tables lake.reports.stalls …
    delta      the place is a folder or URI; tables PLACE/stalls …

Each table changes at one moment; a trace that is there already is replaced. Then a row is added to
one more table, `saves`: which version of each table belongs together. Who reads these versions sees
one analysis; a save that was killed has added no row.
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
from pulsar_doctor.spark.failures import full_text, told_in_one_sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LakeFormat = Literal["iceberg", "delta"]
SAVES = "saves"
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
        """Of a table, for SQL."""
        if self.format == "iceberg":
            return f"{self.place}.{table}"
        folder = self.place.rstrip("/").replace("`", "``")
        return f"delta.`{folder}/{table}`"

    def check(self) -> None:
        """Raises DoctorError where Spark has no such tables, InputError for what is no place."""
        if self.format == "iceberg" and not re.fullmatch(r"\w+(\.\w+)+", self.place):
            raise InputError(f"--save {self.place}: for iceberg name a catalog and a namespace")
        with self._told():
            if self.format == "delta":
                with _let_go_on(ABSENT):
                    self.spark.read.format("delta").load(f"{self.place.rstrip('/')}/{SAVES}")
                return
            catalog = f"spark.sql.catalog.{self.place.partition('.')[0]}"
            if self.spark.conf.get(catalog, None) is None:
                raise self._absent()
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.place}")

    def save(
        self, tables: Mapping[str, DataFrame], traces: Sequence[str], *, replace: bool
    ) -> None:
        """Saves these tables, and says which versions belong together.

        traces: whose rows they replace; replace: all rows.
        """
        with self._told():
            for name, table in tables.items():
                self._write(name, table, traces, replace=replace)
            self._saved(tables)

    def _write(self, name: str, rows: DataFrame, traces: Sequence[str], *, replace: bool) -> None:
        there = self._is_there(name)
        rows = rows.repartition(1).sortWithinPartitions("date", "topic", "trace_id")
        if self.format == "iceberg":
            writer = rows.writeTo(self.name(name)).using("iceberg").partitionedBy(F.col("trace_id"))
            if replace or not there:
                writer.createOrReplace()
            else:
                rows.writeTo(self.name(name)).overwrite(F.col("trace_id").isin(*traces))
            return
        writing = rows.write.format("delta").mode("overwrite")
        if replace or not there:
            writing = writing.option("overwriteSchema", "true")
        else:
            names = ", ".join(f"'{_quoted(trace)}'" for trace in traces)
            writing = writing.option("replaceWhere", f"trace_id IN ({names})")
        writing.save(f"{self.place.rstrip('/')}/{name}")

    def _saved(self, tables: Mapping[str, DataFrame]) -> None:
        """Adds the row to `saves`, with which this analysis is there."""
        number = 1
        if self._is_there(SAVES):
            last = self.spark.sql(f"SELECT max(save) AS last FROM {self.name(SAVES)}").first()
            number = (last["last"] if last and last["last"] else 0) + 1
        versions = [F.lit(each) for name in tables for each in (name, self._version(name))]
        row = self.spark.range(0, 1, 1, 1).select(
            F.lit(number).cast("bigint").alias("save"),
            F.current_timestamp().alias("saved_at"),
            F.create_map(*versions).cast("map<string, bigint>").alias("versions"),
        )
        if self.format == "delta":
            row.write.format("delta").mode("append").save(f"{self.place.rstrip('/')}/{SAVES}")
        elif self._is_there(SAVES):
            row.writeTo(self.name(SAVES)).append()
        else:
            row.writeTo(self.name(SAVES)).using("iceberg").create()

    def _version(self, table: str) -> int:
        if self.format == "iceberg":
            found = self.spark.sql(
                f"SELECT snapshot_id AS version FROM {self.name(table)}.refs WHERE name = 'main'"
            )
        else:
            found = self.spark.sql(f"DESCRIBE HISTORY {self.name(table)} LIMIT 1").select("version")
        (row,) = found.collect()
        return int(row["version"])

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
    def _told(self) -> Iterator[None]:
        """In one sentence, also that this Spark has no such tables."""
        try:
            with told_in_one_sentence(f"saving to {self.place}"):
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


@contextmanager
def _let_go_on(words: Sequence[str]) -> Iterator[None]:
    """Keeps back what Spark raises, but where it says one of these."""
    try:
        yield
    except PySparkException as error:
        if any(word in full_text(error) for word in words):
            raise


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
