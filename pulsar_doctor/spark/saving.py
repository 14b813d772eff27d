"""Saves the tables of an analysis as Parquet, without duplicates when repeated.

All is done by Spark, so the folder may be where this process cannot look (s3a://, a Connect
server's disk). Files are only added, until nobody needs the old ones. The steps:

1. write the tables, one after the other    a crash: nobody sees what was written
2. write the list of their files            from here on all of it is seen, and none before
3. remove what only older lists name        a crash: the next save removes it

A table has few files: with its new rows those of small older files are written again, sorted by
date, topic and trace. What has a million rows is left where it is, unless one of its traces is
replaced. The list before the last, and its files, stay, for readers who have begun with them.

On a disk of this machine several may save at once: one waits for the other. Elsewhere there is
nothing to wait with; one that finds a newer list than the one it began with gives up before step 2.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.spark.failures import told_in_one_sentence
from pulsar_doctor.spark.manifests import (
    FOLDER,
    NAME,
    Manifest,
    SavedFile,
    read_manifest,
    write_manifest,
)
from pulsar_doctor.spark.paths import absolute, is_remote, literally, path_of
from pulsar_doctor.trace.folder import META, for_owner

ORDER = ("date", "topic", "trace_id")
OURS = re.compile(r"(?P<folder>(?P<table>\w+)/[0-9a-f]{32})/part-[^/]+")
OF_OLDER_VERSIONS = re.compile(r"\w+/date=[^/]+/topic=[^/]+/trace_id=[^/]+/part-[^/]+")
OPTIONS = {
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",  # no file _SUCCESS
    "fs.permissions.umask-mode": "077",
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",  # no file .crc beside each
    "fs.file.impl.disable.cache": "true",  # or the local disk keeps to what it had before
}
LARGE_ROWS = 1_000_000  # a file of so many is not written again without need
FILE_ROWS = 5_000_000  # of an analysis: for so many rows that were read another file, at most
LEFT_BEHIND = timedelta(days=1)  # elsewhere: by a crash, and not by one who is saving
LOCK = ".lock"


def save(
    tables: Mapping[str, DataFrame],
    folder: str,
    *,
    replace: bool,
    traces: Mapping[str, str] | None = None,
    rows_read: int = 0,
) -> None:
    """Saves these tables, each with the columns date, topic and trace_id, below a folder.

    Of each trace in them, or of `traces`, the tables then hold these rows and no older ones, also
    where a table has none. Other traces stay, or go where all is to be replaced. folder: a path or
    URI as Spark takes it; a relative one is below the working directory of this process. traces:
    trace_id -> what its rows were made of, for `saved`. rows_read: how many rows of traces the
    tables were made of; a table has one file more for each FILE_ROWS.

    Raises InputError, before anything is written, where the folder holds what is not ours;
    DoctorError where it cannot be written: readers then see what they saw before.
    """
    for _ in saving_steps(tables, folder, replace=replace, traces=traces, rows_read=rows_read):
        pass


def saving_steps(
    tables: Mapping[str, DataFrame],
    folder: str,
    *,
    replace: bool,
    traces: Mapping[str, str] | None = None,
    rows_read: int = 0,
) -> Iterator[tuple[int, str]]:
    """Saves step by step, as numbered on top of this file; what was written or removed in each."""
    spark = next(iter(tables.values())).sparkSession
    root = absolute(folder)
    with told_in_one_sentence(f"saving to {folder}"):
        look_into(spark, folder)  # what cannot be saved to is not touched
    with told_in_one_sentence(f"saving to {folder}"), _alone(root):
        there = look_into(spark, folder)
        before = there.newest(spark)
        made_of = dict.fromkeys(_traces_in(tables), "") if traces is None else dict(traces)
        kept = Manifest() if replace else before
        name = uuid.uuid4().hex
        files: list[SavedFile] = []
        for table, rows in tables.items():
            again = [file for file in kept.of(table) if _written_again(file, made_of)]
            files += [file for file in kept.of(table) if file not in again]
            both = _with_older(rows, root, again, made_of)
            count = 1 + (rows_read + sum(file.rows for file in again)) // FILE_ROWS
            _write(both, f"{root}/{table}/{name}", count)
            yield 1, table
        other = [file for file in kept.files if file.table not in tables]
        written = _written(spark, root, [f"{table}/{name}" for table in tables])
        of_traces = {**kept.traces, **made_of}
        after = Manifest(before.number + 1, name, [*other, *files, *written], of_traces)
        if look_into(spark, folder).newest_uri != there.newest_uri:
            raise DoctorError(f"{folder}: somebody else saved there meanwhile; do it again")
        write_manifest(spark, root, after, OPTIONS)
        yield 2, after.folder
        yield from ((3, path) for path in _swept(spark, root, there, (before, after)))


@dataclass(frozen=True, slots=True)
class SavedFolder:
    """What is in a folder."""

    lists: Mapping[str, str]  # folder of each list -> its URI, the newest last
    # folder of a table -> a file in it, time of the newest
    data: Mapping[str, tuple[str, datetime]]

    @property
    def newest_uri(self) -> str | None:
        """Of the list that counts; None where nothing is saved."""
        return next(reversed([*self.lists.values()]), None)

    def newest(self, spark: SparkSession) -> Manifest:
        """The list that counts. Raises InputError where it is damaged."""
        uri = self.newest_uri
        return Manifest() if uri is None else read_manifest(spark, uri)


def look_into(spark: SparkSession, folder: str) -> SavedFolder:
    """What earlier saves left in a folder. Raises InputError where it holds anything else."""
    root = absolute(folder)
    refusal = f"give a folder of its own to save in; nothing was written to {folder}"
    if not is_remote(root) and (Path(path_of(root)) / META).exists():  # Spark does not see it
        raise InputError(f"{folder} is a trace; {refusal}")
    lists: dict[str, str] = {}
    data: dict[str, tuple[str, datetime]] = {}
    for uri, written in sorted(_files(spark, literally(root))):
        inside = path_of(uri).removeprefix(path_of(root)).lstrip("/")
        if not inside:
            raise InputError(f"{folder} is a file; {refusal}")
        if OF_OLDER_VERSIONS.fullmatch(inside):
            raise InputError(f"{folder} holds tables as older versions saved them; {refusal}")
        if NAME.fullmatch(inside):
            lists[inside.rpartition("/")[0]] = uri
        elif ours := OURS.fullmatch(inside):
            before = data.get(ours["folder"], (uri, written))
            data[ours["folder"]] = (uri, max(before[1], written))
        else:
            raise InputError(f"{folder} holds {inside}, which is no saved analysis; {refusal}")
    return SavedFolder(lists, data)


def saved_in(spark: SparkSession, folder: str) -> Manifest:
    """What is saved in a folder. Raises InputError where it holds anything else."""
    with told_in_one_sentence(f"looking into {folder}"):
        return look_into(spark, folder).newest(spark)


def files_of(folder: str, manifest: Manifest, table: str) -> list[str]:
    """The files of a saved table, for Spark to read."""
    return [literally(f"{absolute(folder)}/{file.path}") for file in manifest.of(table)]


@contextmanager
def _alone(root: str) -> Iterator[None]:
    """Waits for others of this machine that save there, where this machine has the folder."""
    here = Path(path_of(root))
    if is_remote(root) or here.is_file():
        yield
        return
    try:
        here.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = open(here / LOCK, "ab", opener=for_owner)  # noqa: SIM115
    except OSError:  # it may be a disk that only Spark sees; if not, Spark tells why
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _traces_in(tables: Mapping[str, DataFrame]) -> list[str]:
    names = [table.select("trace_id") for table in tables.values()]
    found = reduce(DataFrame.unionByName, names).distinct().collect()
    return [row["trace_id"] for row in found]


def _written_again(file: SavedFile, replaced: Mapping[str, str]) -> bool:
    return file.rows < LARGE_ROWS or not replaced.keys().isdisjoint(file.traces)


def _with_older(
    rows: DataFrame, root: str, again: Sequence[SavedFile], replaced: Mapping[str, str]
) -> DataFrame:
    """These rows, and those of other traces in older files."""
    paths = [literally(f"{root}/{file.path}") for file in again if set(file.traces) - set(replaced)]
    if not paths:
        return rows
    older = rows.sparkSession.read.parquet(*paths)
    others = older.where(~F.col("trace_id").isin(*replaced))
    return rows.unionByName(others, allowMissingColumns=True)


def _write(rows: DataFrame, path: str, files: int) -> None:
    """Sorted, in about so many files; one without a row tells the columns."""
    parts = rows.repartition(1) if files == 1 else rows.repartitionByRange(files, *ORDER)
    parts.sortWithinPartitions(*ORDER).write.options(**OPTIONS).parquet(path)


def _written(spark: SparkSession, root: str, folders: Sequence[str]) -> list[SavedFile]:
    """What was written to these folders."""
    found = []
    for folder in folders:
        path = literally(f"{root}/{folder}")
        files = {path_of(uri).rpartition("/")[2] for uri, _ in _files(spark, path)}
        rows = spark.read.parquet(path).select(
            "trace_id", F.col("_metadata.file_name").alias("file")
        )
        counted = rows.groupBy("file").agg(
            F.count(F.lit(1)).alias("rows"), F.sort_array(F.collect_set("trace_id")).alias("traces")
        )
        by_name = {row["file"]: (row["rows"], row["traces"]) for row in counted.collect()}
        table = folder.partition("/")[0]
        for name in sorted(files):
            count, traces = by_name.get(name, (0, []))
            if count or len(files) == 1:
                found.append(SavedFile(table, f"{folder}/{name}", count, traces))
    return found


def _swept(
    spark: SparkSession, root: str, there: SavedFolder, kept: Sequence[Manifest]
) -> Iterator[str]:
    """Removes what none of these lists names; the lists last, since they tell what there was."""
    named: AbstractSet[str] = {file.folder for manifest in kept for file in manifest.files}
    old_lists = {folder: uri for folder, uri in there.lists.items() if folder != kept[0].folder}
    known = {file.folder for uri in old_lists.values() for file in read_manifest(spark, uri).files}
    left_behind = datetime.now(UTC) - LEFT_BEHIND
    for folder, (uri, written) in there.data.items():
        ours = folder in known or not is_remote(root) or written < left_behind
        if folder not in named and ours:
            _remove(spark, f"{root}/{folder}", uri)
            yield folder
    for hidden in _hidden(root, named):
        shutil.rmtree(hidden, ignore_errors=True)
        yield str(hidden)
    for folder, uri in old_lists.items():
        _remove(spark, f"{root}/{folder}", uri)
        yield folder


def _hidden(root: str, named: AbstractSet[str]) -> list[Path]:
    """On a disk that this process sees: what a crash left before Spark showed a file of it."""
    here = Path(path_of(root))
    if is_remote(root) or not here.is_dir():
        return []
    folders = set(here.glob("*/" + "[0-9a-f]" * 32))
    lists = {folder for folder in here.glob(f"{FOLDER}/*") if not any(folder.glob("part-*"))}
    return sorted(
        folder
        for folder in folders | lists
        if folder.is_dir() and folder.relative_to(here).as_posix() not in named
    )


def _files(spark: SparkSession, pattern: str) -> list[tuple[str, datetime]]:
    """The URIs of all files below a folder, without those that Spark hides; when it was written."""
    listing = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        files = listing.load(pattern).select("path", F.unix_micros("modificationTime").alias("us"))
        rows = files.collect()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return []
        raise
    return [(row["path"], datetime.fromtimestamp(row["us"] / 1e6, UTC)) for row in rows]


def _remove(spark: SparkSession, folder: str, uri: str) -> None:
    """Removes a folder with this file in it.

    At once where this process sees the file (no other has its random name); elsewhere Spark writes
    nothing over the folder, which takes some tenths of a second and leaves it empty on a disk.
    """
    here = Path(path_of(uri))
    if uri.startswith("file:") and here.is_file():
        folder_here = Path(path_of(folder))
        shutil.rmtree(folder_here, ignore_errors=True)
        with suppress(OSError):  # where there is nothing else
            folder_here.parent.rmdir()
        if not here.exists():
            return
    nothing = spark.range(0).selectExpr("id", "id AS part")
    over = nothing.write.mode("overwrite").options(**OPTIONS)
    over.option("partitionOverwriteMode", "static").partitionBy("part").parquet(folder)
