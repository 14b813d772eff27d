"""The manifest of a saved analysis: its files, written last, so that readers see all or none.

    DIR/manifests/000000000007-4f1c…/part-*.txt     one line of JSON; the highest number counts
    DIR/<table>/4f1c…/part-*.parquet                the files that it names, and others

A file of a table is never changed. A save writes new ones and then a list, which may name older
files, too; so what readers see changes with one file that appears, on a disk, on HDFS and in an
object store alike, and nothing has to be renamed over something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pulsar_doctor.errors import InputError
from pulsar_doctor.spark.paths import literally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "pulsar-doctor/saved/1"
FOLDER = "manifests"
NAME = re.compile(rf"{FOLDER}/(?P<number>\d+)-(?P<id>\w+)/part-[^/]+")


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file of a table."""

    table: str
    path: str  # below the folder
    rows: int
    traces: Sequence[str]  # trace_ids that its rows are from

    @property
    def folder(self) -> str:
        """Of it, and of others that were written with it."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Manifest:
    """An analysis as it is saved."""

    number: int = 0  # 0: nothing is saved yet
    id: str = ""
    files: Sequence[SavedFile] = ()
    traces: Mapping[str, str] = field(default_factory=dict)  # trace_id -> what its rows are made of

    @property
    def folder(self) -> str:
        """Of its own file."""
        return f"{FOLDER}/{self.number:012d}-{self.id}"

    def of(self, table: str) -> list[SavedFile]:
        """The files of a table."""
        return [file for file in self.files if file.table == table]


def read_manifest(spark: SparkSession, uri: str) -> Manifest:
    """One of them. Raises InputError where it is damaged, or of a newer program."""
    lines = [row.value for row in spark.read.text(literally(uri)).collect()]
    try:
        (line,) = lines
        values: dict[str, Any] = json.loads(line)
        if values["schema"] != SCHEMA:
            raise InputError(f"{uri} is a {values['schema']}; this program reads {SCHEMA}")
        files = [SavedFile(**file) for file in values["files"]]
        traces = {each["trace_id"]: each["made_of"] for each in values["traces"]}
        return Manifest(values["save"], values["id"], files, traces)
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{uri} is damaged: it is no list of a saved analysis") from error


def write_manifest(
    spark: SparkSession, root: str, manifest: Manifest, how: Mapping[str, str]
) -> None:
    """Writes it below a folder. From its last moment on readers see this analysis."""
    from pyspark.sql import functions as F

    tables: dict[str, list[str]] = {}
    for file in manifest.files:
        tables.setdefault(file.table, []).append(file.path)
    values = {
        "schema": SCHEMA,
        "save": manifest.number,
        "id": manifest.id,
        "tables": tables,
        "files": [asdict(file) for file in manifest.files],
        "traces": [
            {"trace_id": name, "made_of": made_of} for name, made_of in manifest.traces.items()
        ],
    }
    line = spark.range(0, 1, 1, 1).select(F.lit(json.dumps(values)).alias("value"))
    line.write.options(**how).text(f"{root}/{manifest.folder}")
