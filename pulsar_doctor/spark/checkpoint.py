"""The folder in which a follower keeps where it stands: whose it is, and that only one uses it.

What a follower was begun for never changes, since its counts would mean something else: the paths,
the length of its steps, how late a row may be, the version of Spark. It is written before Spark
writes anything.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pulsar_doctor.broker.settings import state_folder
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.spark.failures import full_text
from pulsar_doctor.spark.masters import is_connect
from pulsar_doctor.spark.reading import traces_at
from pulsar_doctor.trace.folder import META, for_owner, read_meta, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION = 3  # of what is kept; another one cannot be gone on from
LOCK = ".lock"
TERMS = "terms"
TRACES = ".traces.json"
OURS = frozenset({LOCK, TERMS, TRACES, "a", "b"})
OTHERWISE = "name another folder with --checkpoint, or remove it to read the traces anew"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a follower was begun for. paths: absolute, or with their scheme. Times in µs."""

    paths: tuple[str, ...]
    bucket_us: int
    late_us: int

    @classmethod
    def of(cls, paths: Sequence[str], *, bucket_us: int, late_seconds: float) -> Terms:
        """The terms for paths as the user gave them."""
        return cls(tuple(map(absolute, paths)), bucket_us, round(late_seconds * 1e6))


def absolute(path: str) -> str:
    """A path as it holds for every working folder."""
    return path if "://" in path else os.path.abspath(path)  # noqa: PTH100  (it may be a glob)


def checkpoint_of(
    paths: Sequence[str],
    *,
    bucket_us: int,
    late_seconds: float,
    environ: Mapping[str, str] | None = None,
) -> str:
    """Where a follower on this machine keeps where it stands, if it is not told."""
    environ = os.environ if environ is None else environ
    terms = Terms.of(paths, bucket_us=bucket_us, late_seconds=late_seconds)
    name = hashlib.sha256(json.dumps(asdict(terms)).encode()).hexdigest()[:16]
    return str(state_folder(environ) / "follow" / name)


@contextmanager
def taken(spark: SparkSession, checkpoint: str, terms: Terms) -> Iterator[str]:
    """Takes a checkpoint, or begins it; gives its address for Spark.

    Raises InputError where it was begun for something else, is another's, is in use, is damaged,
    or lies within a trace; DoctorError where the disk refuses.
    """
    if is_connect(spark) or "://" in checkpoint:
        place = checkpoint.rstrip("/")
        _agree(spark, place, terms)
        yield place
        return
    folder = Path(checkpoint).absolute()
    _check_place(folder, terms)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = open(folder / LOCK, "ab", opener=for_owner)  # noqa: SIM115
    except OSError as error:
        raise DoctorError(f"the checkpoint {folder} cannot be written: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(in_use(str(folder))) from None
        _agree(spark, folder.as_uri(), terms)
        _same_traces(folder, terms)
        yield folder.as_uri()


def in_use(checkpoint: str) -> str:
    """The sentence for a second follower."""
    return (
        f"another process follows with the checkpoint {checkpoint}: "
        "stop it, or name another folder with --checkpoint"
    )


def _check_place(folder: Path, terms: Terms) -> None:
    """A checkpoint's Parquet files among those of a trace would be read as its rows."""
    for path in terms.paths:
        if "://" not in path and folder.is_relative_to(path):
            raise InputError(f"the checkpoint {folder} would lie within {path}: name another")
    if folder.is_dir():
        there = {entry.name for entry in folder.iterdir()}
        if there and TERMS not in there and not there <= OURS:
            raise InputError(f"{folder} is no checkpoint of --follow, and not empty: name another")


def _agree(spark: SparkSession, place: str, terms: Terms) -> None:
    """Writes down the terms, or compares them with those that are there."""
    spark_version = ".".join(spark.version.split(".")[:2])
    agreed = json.loads(json.dumps({"version": VERSION, "spark": spark_version, **asdict(terms)}))
    line = line_in(spark, f"{place}/{TERMS}")
    if line is None:
        if any(line_in(spark, f"{place}/{name}/standing") for name in ("a", "b")):
            raise InputError(f"the checkpoint {place} is damaged: {OTHERWISE}")
        write_line(spark, f"{place}/{TERMS}", json.dumps(agreed))
        return
    try:
        there: dict[str, Any] = json.loads(line)
        differ = [name for name, value in agreed.items() if there.get(name) != value]
    except (ValueError, AttributeError):
        raise InputError(f"the checkpoint {place} is damaged: {OTHERWISE}") from None
    if differ:
        name = differ[0]
        raise InputError(
            f"the checkpoint {place} was begun with {_term(name, there)}, not {_term(name, agreed)}"
            f": {OTHERWISE}"
        )


def _term(name: str, terms: Mapping[str, Any]) -> str:
    value = terms.get(name)
    match name:
        case "paths":
            return f"the traces {', '.join(value or ())}"
        case "bucket_us":
            return f"steps of {(value or 0) / 1e6:g} s"
        case "late_us":
            return f"rows that may be {(value or 0) / 1e6:g} s late"
    return f"{'Spark' if name == 'spark' else 'format'} {value}"


def line_in(spark: SparkSession, path: str) -> str | None:
    """What `write_line` wrote; None where it is not there. An older version's is a folder here."""
    here = _here(path)
    try:
        if here is not None and not here.is_dir():
            return here.read_text()
        lines = spark.read.text(path).collect()
    except FileNotFoundError:
        return None
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error):
            return None
        if "checksum" in full_text(error).lower():
            raise InputError(f"{path} is damaged: {OTHERWISE}") from error
        raise
    return str(lines[0].value) if lines else None


def write_line(spark: SparkSession, path: str, line: str) -> None:
    """Writes a line, wholly or not at all; where only Spark can, as a folder with one file."""
    from pyspark.sql import functions as F

    here = _here(path)
    if here is not None:
        write_file(here, line.encode())
        return
    line_of = spark.range(0, 1, 1, 1).select(F.lit(line).alias("value"))
    line_of.write.mode("overwrite").text(path)


def _here(path: str) -> Path | None:
    """The path on this machine, of a URI that `taken` gave."""
    return Path(unquote(urlsplit(path).path)) if path.startswith("file://") else None


def _same_traces(folder: Path, terms: Terms) -> None:
    """A trace that was made anew where another was: its segments have the names of what is read."""
    known_file = folder / TRACES
    try:
        known: dict[str, str] = json.loads(known_file.read_bytes())
    except FileNotFoundError:
        known = {}
    except ValueError:
        raise InputError(f"{known_file} is damaged: {OTHERWISE}") from None
    there = dict(_traces_at(terms.paths))
    for path, trace_id in there.items():
        if known.get(path, trace_id) != trace_id:
            raise InputError(
                f"the checkpoint {folder} is of another trace that was {path}: {OTHERWISE}"
            )
    if there.items() - known.items():
        write_file(known_file, json.dumps(known | there).encode())


def _traces_at(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Folder and trace_id of the traces of this machine that these paths mean."""
    for path in paths:
        with suppress(InputError):
            for trace in traces_at(path):
                if (trace / META).is_file():
                    yield str(trace), read_meta(trace).trace_id
