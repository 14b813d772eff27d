"""Saves the tables of an analysis as Parquet, with Spark's own writers.

    DIR/<table>/trace_id=4f1c…/part-*.parquet

A trace that is saved again replaces its own partitions and no others: Spark overwrites those that
have new rows, and a table that has none of this trace any more gets an empty partition. Spark does
all of it, so the folder may be where this process cannot look (s3a://, a Connect server's disk).

Each table changes by itself. A save that is killed leaves some tables as they were, others new, and
at the worst one without the trace. All traces of a save are written anew, so that the next save of
these traces repairs it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.analyze.failures import failures_in_one_sentence
from pulsar_doctor.parts.analyze.paths import absolute, is_remote, literally, path_of
from pulsar_doctor.trace.folder import META

OURS = re.compile(r"\w+/trace_id=[^/]+/part-[^/]+")
ESCAPED = re.compile(r"[\x00-\x1f\"#%'*/:=?\\{\[\]^\x7f]")  # in the name of a partition, by Spark
OPTIONS = {
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",  # no file _SUCCESS
    "fs.permissions.umask-mode": "077",
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",  # no file .crc beside each
    "fs.file.impl.disable.cache": "true",  # or the local disk keeps to what it had before
}


def save(tables: Mapping[str, DataFrame], folder: str, traces: Collection[str]) -> None:
    """Saves these tables, each with the columns date, topic and trace_id, below a folder.

    Of `traces` the tables then hold these rows and no older ones; other traces stay. folder: a path
    or URI as Spark takes it; a relative one is below the working directory of this process.

    Raises InputError, before anything is written, where the folder holds what is not ours;
    DoctorError where it cannot be written.
    """
    for _ in saving_steps(tables, folder, traces):
        pass


def saving_steps(
    tables: Mapping[str, DataFrame], folder: str, traces: Collection[str]
) -> Iterator[str]:
    """Saves step by step; the folder of a table, or of an empty partition, that was written."""
    root = absolute(folder)
    spark = next(iter(tables.values())).sparkSession
    with failures_in_one_sentence(f"saving to {folder}"):
        before = look_into(spark, folder)
        for name, rows in tables.items():
            _write(rows, f"{root}/{name}")
            yield name
        after = look_into(spark, folder)
        of_traces = {f"trace_id={_escaped(trace)}" for trace in traces}
        for name, rows in tables.items():
            for partition in _without_rows(name, before, after, of_traces):
                _write_empty(rows, f"{root}/{partition}")
                yield partition


def look_into(spark: SparkSession, folder: str, ours: re.Pattern[str] = OURS) -> set[str]:
    """The files of saved tables below a folder. Raises InputError where it holds anything else.

    ours: the names of such files, below the folder.
    """
    root = absolute(folder)
    refusal = f"give a folder of its own to save in; nothing was written to {folder}"
    if not is_remote(root) and (Path(path_of(root)) / META).exists():  # Spark does not see it
        raise InputError(f"{folder} is a trace; {refusal}")
    found = set[str]()
    for uri in _files(spark, literally(root)):
        inside = path_of(uri).removeprefix(path_of(root)).lstrip("/")
        if not inside:
            raise InputError(f"{folder} is a file; {refusal}")
        if not ours.fullmatch(inside):
            raise InputError(f"{folder} holds {inside}, which is no saved analysis; {refusal}")
        found.add(inside)
    return found


def _without_rows(
    table: str, before: Collection[str], after: Collection[str], of_traces: Collection[str]
) -> list[str]:
    """Partitions that hold only what an older save wrote; one of a table that has none at all."""
    old = {path.rpartition("/")[0] for path in after if path in before}
    stale = sorted(old & {f"{table}/{each}" for each in of_traces})
    if stale or any(path.startswith(f"{table}/") for path in after):
        return stale
    return [f"{table}/{each}" for each in sorted(of_traces)[:1]]  # it tells the columns


def _write(rows: DataFrame, path: str) -> None:
    """A file for each trace."""
    sorted_rows = rows.repartition("trace_id").sortWithinPartitions("trace_id", "date", "topic")
    writer = sorted_rows.write.mode("overwrite").options(**OPTIONS).partitionBy("trace_id")
    writer.option("partitionOverwriteMode", "dynamic").parquet(path)


def _write_empty(rows: DataFrame, path: str) -> None:
    rows.limit(0).drop("trace_id").write.mode("overwrite").options(**OPTIONS).parquet(path)


def _escaped(trace: str) -> str:
    return ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", trace)


def _files(spark: SparkSession, pattern: str) -> list[str]:
    """The URIs of all files below a folder, without those that Spark hides."""
    listing = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        return [row["path"] for row in listing.load(pattern).select("path").collect()]
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return []
        raise
