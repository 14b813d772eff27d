"""Traces that only Spark can read: s3a://, hdfs://, a Spark Connect server's disk.

They are judged there as on this machine: by the list of segments, with the SHA-256 that each of
these must have. Spark lists no file with a name that begins with _ or ., so _segments.jsonl and
_meta.json are read under names of their own, as links in a file system of Hadoop's that is nothing
but links (viewfs); nothing is written for that. What is not sealed cannot be sealed there; it is
reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from pulsar_doctor.errors import DoctorError, TraceError
from pulsar_doctor.parts.analyze.analysis import LeftOut
from pulsar_doctor.parts.analyze.failures import full_text
from pulsar_doctor.parts.analyze.paths import literally, path_of
from pulsar_doctor.parts.analyze.segments import Segment
from pulsar_doctor.parts.analyze.selection import EVERYTHING, Selection, TimeSpan
from pulsar_doctor.parts.analyze.verdicts import TraceEnd, end_of, restored
from pulsar_doctor.trace.folder import (
    INDEX,
    META,
    Meta,
    journal_name,
    meta_of,
    number_in,
    state_name,
    state_of,
)
from pulsar_doctor.trace.index import Expired, Index, Part, index_of
from pulsar_doctor.trace.missing import losses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEGMENTS = "seg-*.parquet"
LINKS = "viewfs://pulsar-doctor"
MAGIC = set("*?[{")
UNSEALED = (
    "{}: what is not sealed is left out; whoever opens it on its machine seals what a crash left, "
    "a tap that still runs does it by itself"
)

RowsOf = Callable[[Sequence[str]], "DataFrame"]  # files, patterns escaped -> the rows in them


@dataclass
class There:
    """What Spark sees of a trace. Changes in place."""

    folder: str
    files: dict[str, str] = field(default_factory=dict)  # name of a segment -> its URI
    parts: list[Part] = field(default_factory=list)
    meta: Meta | None = None
    index: Index = field(default_factory=lambda: Index(Expired(), []))
    has_journal: bool = False  # an unsealed journal follows the last segment

    @property
    def uris(self) -> list[str]:
        """The addresses of the segments of its parts."""
        return [self.files[part.name] for part in self.parts if part.name]


@dataclass(frozen=True)
class Elsewhere:
    """What was found there."""

    segments: list[Segment]
    left_out: list[LeftOut]
    notes: list[str]
    ends: list[TraceEnd]
    span: TimeSpan


def look_elsewhere(
    spark: SparkSession,
    paths: Sequence[str],
    rows: RowsOf,
    selection: Selection = EVERYTHING,
    end_us: int = 0,
) -> Elsewhere:
    """The segments of the traces at these paths, as Spark takes paths.

    left_out: traces that are damaged, or none. selection: of what time segments are wanted; others
    are not opened. end_us: where the traces that are not here end. Raises whatever Spark raises.
    """
    left_out: list[LeftOut] = []
    notes: list[str] = []
    judged = _judged(spark, _found(spark, paths), notes)
    if any(isinstance(each, LeftOut) for each in judged):  # a ring may have gone on meanwhile
        notes.clear()
        judged = _judged(spark, _found(spark, paths), notes)
    good = [each for each in judged if isinstance(each, There)]
    left_out += [each for each in judged if isinstance(each, LeftOut)]
    span = selection.span(max([end_us, *(each.index.until_us for each in good)]))
    empty = [each for each in good if not each.parts and span.has_some((0, each.index.until_us))]
    for each in good:
        each.parts = [p for p in each.parts if p.times is None or span.has_some(p.times)]
    segments = []
    proved = _sha256(spark, [uri for each in good for uri in each.uris])
    good = _kept(good, left_out, lambda there: _prove(there, proved))
    extents = _extents(rows, [uri for each in good for uri in each.uris])
    good = _kept(good, left_out, lambda there: _agree(there, extents))
    for each in good:
        found = [_segment(each, part, extents) for part in each.parts]
        segments += [part for part in found if span.has_some((part.first_us, part.last_us))]
    judged_there = [*(each for each in good if each.parts), *empty]
    ends = _ends(spark, judged_there, proven_only=selection.proven_only)
    return Elsewhere(segments, left_out, notes, ends, span)


def _ends(spark: SparkSession, good: Sequence[There], *, proven_only: bool) -> list[TraceEnd]:
    """How these traces end, by the ledgers that lie beside their last segments."""
    names = [(f"{each.folder}/{state_name(each.index.through)}", each) for each in good]
    found = _contents(spark, [name for name, each in names if each.files])
    return [_end(each, found.get(name), proven_only=proven_only) for name, each in names]


def _end(there: There, ledgers: bytes | None, *, proven_only: bool) -> TraceEnd:
    assert there.meta is not None
    folder, until_us = there.folder, there.index.until_us
    unsealed = UNSEALED.format(folder) if there.has_journal else None
    if not there.files:
        return TraceEnd(folder, there.meta.trace_id, until_us, not_judged=unsealed)
    state = None if ledgers is None else state_of(ledgers)
    timeline = restored(there.meta, state, there.index, proven_only=proven_only)
    return end_of(folder, there.meta, timeline, until_us, unsealed)


def _found(spark: SparkSession, paths: Sequence[str]) -> list[There]:
    """The folders that hold segments, and those that were named, in the order of the paths.

    Through Spark Connect its files come in an order of their own.
    """
    listing = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    uris = listing.option("pathGlobFilter", SEGMENTS).load(list(paths)).inputFiles()
    found: dict[str, There] = {}
    for uri in map(unquote, uris):
        folder, _, name = uri.rpartition("/")
        found.setdefault(folder, There(folder)).files[name] = uri
    there = {path_of(folder) for folder in found}
    for path in paths:
        plain = path.rstrip("/")
        if not MAGIC.intersection(path) and path_of(plain) not in there:
            found[plain] = There(plain)  # one without any segment, or a folder of traces
    named = [path_of(path.rstrip("/")) for path in paths]

    def place(there: There) -> tuple[int, str]:
        folder = path_of(there.folder)
        within = (at for at, path in enumerate(named) if f"{folder}/".startswith(f"{path}/"))
        return next(within, len(named)), there.folder

    return sorted(found.values(), key=place)


def _judged(spark: SparkSession, found: Sequence[There], notes: list[str]) -> list[There | LeftOut]:
    """Each with the parts that its list names, or why not. What is no trace and empty: neither."""
    names = [f"{each.folder}/{name}" for each in found for name in (INDEX, META)]
    contents = _contents(spark, names)
    judged: list[There | LeftOut] = []
    for each in found:
        meta = contents.get(f"{each.folder}/{META}")
        if meta is None and not each.files:
            continue
        try:
            index = _as_listed(spark, each, meta, contents.get(f"{each.folder}/{INDEX}"))
        except TraceError as error:
            judged.append(LeftOut(each.folder, str(error)))
            continue
        judged.append(each)
        each.has_journal = _is_there(spark, f"{each.folder}/{journal_name(index.through + 1)}")
        if each.has_journal:
            notes.append(UNSEALED.format(each.folder))
        elif not each.parts:
            notes.append(f"{each.folder}: no command was recorded there yet")
        if index.expired.rows:
            notes.append(f"{each.folder} starts later: {index.expired.rows:,} rows have expired")
        notes += [f"{each.folder}: {loss.text}" for loss in losses(index)]
    return judged


def _as_listed(
    spark: SparkSession, there: There, meta: bytes | None, listed: bytes | None
) -> Index:
    """Takes the parts of a trace from its list; TraceError where it does not fit what is there."""
    if meta is None:
        raise TraceError(f"{there.folder} is not a trace of pulsar-doctor: it has no {META}")
    there.meta = meta_of(meta, there.folder)
    path = f"{there.folder}/{INDEX}"
    index = Index(Expired(), []) if listed is None else index_of(listed, path)
    there.index = index
    there.parts = [part for part in index.parts if part.name]
    names = {part.name for part in there.parts}
    for name in sorted(there.files.keys() - names):
        at = number_in(name)
        about_to_go = at <= index.expired.through
        if not about_to_go and not _is_there(spark, f"{there.folder}/{journal_name(at)}"):
            raise TraceError(
                f"{there.folder}/{name} is not in {INDEX}; `pulsar-doctor trace verify` tells more"
            )
        del there.files[name]
    for part in there.parts:
        if part.name not in there.files:
            raise TraceError(
                f"{there.folder}/{part.name} is missing; `pulsar-doctor trace verify` tells more"
            )
    return index


def _kept(
    found: Sequence[There], left_out: list[LeftOut], check: Callable[[There], None]
) -> list[There]:
    """The ones that pass; the others are left out."""
    kept = []
    for each in found:
        try:
            check(each)
            kept.append(each)
        except TraceError as error:
            left_out.append(LeftOut(each.folder, str(error)))
    return kept


def _prove(there: There, sha256: Mapping[str, str]) -> None:
    for part in there.parts:
        uri = there.files[part.name or ""]
        if uri not in sha256:
            raise TraceError(f"{uri} is missing; `pulsar-doctor trace verify` tells more")
        if part.sha256 is not None and sha256[uri] != part.sha256:
            raise TraceError(f"{uri} is damaged: it does not agree with its SHA-256")


def _agree(there: There, extents: Mapping[str, tuple[int, ...]]) -> None:
    for part in there.parts:
        uri = there.files[part.name or ""]
        if uri not in extents or extents[uri][:2] != (part.first_seq, part.last_seq):
            raise TraceError(f"{uri} does not have the rows that it should have")


def _segment(there: There, part: Part, extents: Mapping[str, tuple[int, ...]]) -> Segment:
    uri = there.files[part.name or ""]
    first_seq, last_seq, first_us, last_us = extents[uri]
    assert there.meta is not None
    times = first_us, last_us
    captured = bool(there.meta.capture)
    return Segment(uri, there.meta.trace_id, first_seq, last_seq, *times, there.folder, captured)


# --- queries for Spark ---


def _sha256(spark: SparkSession, uris: Sequence[str]) -> dict[str, str]:
    """The SHA-256 of each file that is there."""
    from pyspark.sql import functions as F

    if not uris:
        return {}
    reader = spark.read.format("binaryFile").option("ignoreMissingFiles", "true")
    files = reader.load([literally(uri) for uri in uris])
    proved = files.select("path", F.sha2("content", 256).alias("sha256")).collect()
    return {_same(row["path"], uris): row["sha256"] for row in proved}


def _extents(rows: RowsOf, uris: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """By file: first and last seq, first and last moment in µs."""
    from pyspark.sql import functions as F

    if not uris:
        return {}
    at_us = F.unix_micros("ts")
    files = rows([literally(uri) for uri in uris])
    found = files.groupBy(F.col("_metadata.file_path").alias("path")).agg(
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
        F.min(at_us).alias("first_us"),
        F.max(at_us).alias("last_us"),
    )
    return {_same(row["path"], uris): tuple(row[1:]) for row in found.collect()}


def _same(path: str, uris: Sequence[str]) -> str:
    """The address as it was given; Spark may tell it as a URI, and with any number of slashes."""
    by_path = {path_of(uri): uri for uri in uris}
    plain = path_of(path)
    return by_path.get(plain) or by_path.get(unquote(plain)) or path


def _is_there(spark: SparkSession, path: str) -> bool:
    """Whether a file is there, also one that Spark does not list."""
    try:
        spark.read.format("binaryFile").load(literally(path)).inputFiles()
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise
    return True


def _contents(spark: SparkSession, paths: Sequence[str]) -> dict[str, bytes]:
    """The content of small files, by path; of those that are there."""
    left = dict(enumerate(paths))
    links = {
        f"fs.viewfs.mounttable.pulsar-doctor.link./{at}": quote(path, safe=":/")
        for at, path in left.items()
    }
    reader = spark.read.format("binaryFile").options(**links)
    reader = reader.option("fs.viewfs.impl.disable.cache", "true")  # or the first links stay
    while left:
        try:
            files = reader.load([f"{LINKS}/{at}" for at in left])
            rows = files.select("path", "content").collect()
        except Exception as error:
            gone = _number_in(full_text(error))
            if "PATH_NOT_FOUND" not in str(error) or gone not in left:
                raise
            del left[gone]
            continue
        return {left[_linked(row["path"])]: bytes(row["content"]) for row in rows}
    return {}


def _number_in(text: str) -> int:
    number = re.search(rf"{LINKS}/(\d+)", text)
    return int(number[1]) if number else -1


def _linked(path: str) -> int:
    number = _number_in(path)
    if number < 0:
        raise DoctorError(f"Spark read {path}, which was not asked for")
    return number
