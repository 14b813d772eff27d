"""Saves the tables of an analysis as Parquet, each row of a trace once however often it is saved.

    DIR/<table>/date=2026-01-31/topic=persistent%3A%2F%2F…/trace_id=…/part-*.parquet

All is done by Spark, so DIR may be where this process cannot look (s3a://, a Connect server's
disk). Spark hides what is being written until all of a table is, then replaces leaf by leaf. A
leaf is of one trace, so other traces are never touched. The steps:

1. write the tables, one after the other    a crash: a trace has rows of two analyses
2. remove the leaves of these traces (or of all, to replace) that step 1 has not replaced
3. remove what a crash has left of an earlier save of these traces
4. give a table without any file one without rows, so that readers know its columns

Nothing is noted elsewhere: after a crash in any step, saving the same traces again makes it right.
Two that save different traces in one DIR at once do not disturb each other; the same trace is for
one at a time. A folder that a crash left without a file in it stays, unseen by readers.

What readers see. They guess the type of what stands in a path: where all topics are numbers, Spark
and pyarrow take 0123 for 123; Spark takes a trace_id 12e5 for 1200000. So tell them, as below. A
null topic is __HIVE_DEFAULT_PARTITION__ in the path and null to all three; so is an empty one. A
topic that is too long for a file's name is seen shortened: its first and last 28 characters, and
between them the start of its SHA-256.

    spark.read.schema("start timestamp, …, date date, topic string, trace_id string").parquet(…),
        or spark.sql.sources.partitionColumnTypeInference.enabled=false: all three are strings
    DuckDB: read_parquet('DIR/stalls/date=*/*/*/*.parquet', hive_partitioning = true,
        hive_types = {'date': DATE, 'topic': VARCHAR, 'trace_id': VARCHAR})
    pyarrow: dataset("DIR/stalls", partitioning=partitioning(schema([("date", date32()),
        ("topic", string()), ("trace_id", string())]), flavor="hive"))

A glob with ** lets DuckDB see what Spark hides; the one above does not.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, functions

from pulsar_doctor.errors import InputError
from pulsar_doctor.spark.failures import told_in_one_sentence
from pulsar_doctor.trace.folder import META

LEVELS = ("date", "topic", "trace_id")
OURS = re.compile(
    r"(?P<table>\w+)/(?P<leaf>date=[^/]+/topic=[^/]+/(?P<trace>trace_id=[^/]+))/part-[^/]+"
)
STAGED = re.compile(
    r"(?P<folder>\w+/\.spark-staging-[^/]+)/.+/(?P<trace>trace_id=[^/]+)/part-[^/]+"
)
STAGING = "*/.spark-staging-*/{date=*,_temporary/*/*/date=*,_temporary/*/*/*/date=*}"
OPTIONS = {
    "partitionOverwriteMode": "dynamic",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",  # no file _SUCCESS
    "fs.permissions.umask-mode": "077",
    "fs.file.impl.disable.cache": "true",  # or the local disk keeps to the umask it had before
}
NAME_BYTES_MOST = 255 - len("topic=")
ESCAPED = r"""["#%'*/:=?\\{\[\]^\x01-\x1f\x7f]"""  # by Spark in a path, each as %XX


def save(tables: Mapping[str, DataFrame], folder: str, *, replace: bool) -> None:
    """Saves these tables, each with the columns date, topic and trace_id, below a folder.

    Of each trace in them the tables then hold these rows and no older ones, also where a table has
    none. Other traces stay, or go where all is to be replaced. folder: a path or URI as Spark takes
    it; a relative one is below the working directory of this process.

    Raises InputError, before anything is written, where the folder holds what is not ours;
    DoctorError where it cannot be written: each table is then as it was, or as it was to be.
    """
    for _ in saving_steps(tables, folder, replace=replace):
        pass


def saving_steps(
    tables: Mapping[str, DataFrame], folder: str, *, replace: bool
) -> Iterator[tuple[int, str]]:
    """Saves step by step, as numbered on top of this file; what was written or removed in each."""
    with told_in_one_sentence(f"saving to {folder}"):
        spark = next(iter(tables.values())).sparkSession
        root = absolute(folder)
        before = saved_files(spark, folder)
        for name, table in tables.items():
            _write(table, f"{root}/{name}")
            yield 1, name
        after = saved_files(spark, folder)
        new = after - before
        traces = {file.trace for file in new}
        old = {
            file
            for file in after - new
            if file.table in tables and (replace or file.trace in traces)
        }
        for path, uri in {f"{root}/{file.table}/{file.leaf}": file.uri for file in old}.items():
            _remove(spark, path, uri)
            yield 2, path
        for path, uri in _staged(spark, root, None if replace else traces).items():
            _remove(spark, path, uri)
            yield 3, path
        with_files = {file.table for file in after - old}
        for name in [name for name in tables if new and name not in with_files]:
            _write_no_rows(tables[name], f"{root}/{name}/{min(file.leaf for file in new)}")
            yield 4, name


@dataclass(frozen=True, slots=True)
class SavedFile:
    """One file of a table: its folder below that of the table, and the last part of that."""

    table: str
    leaf: str
    trace: str
    uri: str


def saved_files(spark: SparkSession, folder: str) -> set[SavedFile]:
    """The files of earlier saves in a folder. Raises InputError where it holds anything else."""
    root = absolute(folder)
    refusal = f"give a folder of its own to save in; nothing was written to {folder}"
    if not _elsewhere(root) and (Path(_path(root)) / META).exists():  # Spark does not see it
        raise InputError(f"{folder} is a trace; {refusal}")
    files = set()
    for uri in _files(spark, _literally(root)):
        inside = _path(uri).removeprefix(_path(root)).lstrip("/")
        ours = OURS.fullmatch(inside)
        if not inside:
            raise InputError(f"{folder} is a file; {refusal}")
        if ours is None:
            raise InputError(f"{folder} holds {inside}, which is no saved analysis; {refusal}")
        files.add(SavedFile(**ours.groupdict(), uri=uri))
    return files


def absolute(folder: str) -> str:
    """A path or URI without its last slashes; a local one absolute, without .. in it.

    Raises InputError where it has a colon: Hadoop's file systems do not take that in a name.
    """
    scheme = "file:" if folder.startswith("file:") else ""
    path = folder.removeprefix(scheme)
    if ":" in _path(path):
        raise InputError(f"cannot save to {folder}: Spark takes no colon in the name of a folder")
    if _elsewhere(folder):
        return folder.rstrip("/")
    return scheme + re.sub("^/+", "/", os.path.normpath(Path.cwd() / path))


def _elsewhere(folder: str) -> bool:
    """Whether it is a URI, and not one of a local file."""
    return re.match(r"(?!file:)[A-Za-z][\w+.-]*:/", folder) is not None


def _write(table: DataFrame, path: str) -> None:
    """Replaces the leaves of these rows, one file each, when all are written."""
    rows = table.withColumn("topic", _fit_for_a_name(table["topic"])).repartition(*LEVELS)
    rows.write.mode("overwrite").options(**OPTIONS).partitionBy(*LEVELS).parquet(path)


def _write_no_rows(table: DataFrame, leaf: str) -> None:
    table.limit(0).drop(*LEVELS).write.mode("overwrite").options(**OPTIONS).parquet(leaf)


def _fit_for_a_name(topic: Column) -> Column:
    """The topic, shortened where its escaped UTF-8 is too long for the name of a folder."""
    sha256 = functions.sha2(topic, 256)
    short = (topic.substr(1, 28), sha256.substr(1, 16), functions.substring(topic, -28, 28))
    escaped = functions.regexp_replace(topic, ESCAPED, "%..")
    too_long = functions.octet_length(escaped) > NAME_BYTES_MOST
    return functions.when(too_long, functions.concat_ws("~", *short)).otherwise(topic)


def _staged(spark: SparkSession, root: str, traces: AbstractSet[str] | None) -> dict[str, str]:
    """Folders in which Spark was writing these traces (None: any) when it was killed, and a file.

    One with other traces may be of somebody who is saving now.
    """
    found = {}
    for uri in _files(spark, f"{_literally(root)}/{STAGING}"):
        staged = STAGED.fullmatch(_path(uri).removeprefix(_path(root)).lstrip("/"))
        if staged and (traces is None or staged["trace"] in traces):
            found[f"{root}/{staged['folder']}"] = uri
    return found


def _files(spark: SparkSession, pattern: str) -> list[str]:
    """The URIs of all files below the folders of a pattern, but those that Spark hides there."""
    listing = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        return [unquote(uri) for uri in listing.load(pattern).inputFiles()]
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return []
        raise


def _remove(spark: SparkSession, folder: str, uri: str) -> None:
    """Removes a folder with this file in it.

    At once where this process sees the file (no other has its random name); elsewhere Spark writes
    nothing over the folder, which takes some tenths of a second and leaves it empty on a disk.
    """
    here = Path(_path(uri))
    if uri.startswith("file:") and here.is_file():
        folder_here = Path(_path(folder))
        shutil.rmtree(folder_here, ignore_errors=True)
        with suppress(OSError):  # up to the first in which there is something else
            folder_here.parent.rmdir()
            folder_here.parent.parent.rmdir()
        if not here.exists():
            return
    nothing = spark.range(0).selectExpr("id", "id AS part")
    over = nothing.write.mode("overwrite").options(**OPTIONS)
    over.option("partitionOverwriteMode", "static").partitionBy("part").parquet(folder)


def _path(uri: str) -> str:
    """The path of a URI, or a path as it is."""
    return re.sub(r"^[A-Za-z][\w+.-]*:(//[^/]*)?(?=/|$)", "", uri)


def _literally(path: str) -> str:
    """A path in which Spark takes no character for a pattern."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)
