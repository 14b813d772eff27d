"""Opens a file of stats, compressed or not, and finds out what it contains."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from pulsar_doctor.broker.bodies import ANSWER_BYTES, TooMany, require_few
from pulsar_doctor.broker.input_files import open_input
from pulsar_doctor.broker.samples.bundled import BLOCK, SAMPLES, is_bundle, member_of, members
from pulsar_doctor.errors import InputError

STDIN = "-"
GZIP_MAGIC = b"\x1f\x8b"
HEADER_BYTES = 65_536  # the first line of a samples file is far shorter
BLANK_LINES = 10_000  # in front of what a file holds

TOPIC = "`topics stats`"
TOTALS = "`topics partitioned-stats`"
PARTITIONS = "`topics partitioned-stats --per-partition`"
INTERNAL = "`topics stats-internal`"
PARTITIONED_INTERNAL = "`topics partitioned-stats-internal`"
METRICS = "`/metrics/`"
BROKER = "`broker-stats topics`"
INTERNAL_FIELDS = frozenset({"cursors", "ledgers", "lastConfirmedEntry", "entriesAddedCounter"})
SUBSCRIPTION_FIELDS = frozenset(
    {"msgBacklog", "consumers", "unackedMessages", "msgRateRedeliver", "msgRateExpired"}
)
ANSWER_FIELDS = INTERNAL_FIELDS | {"subscriptions", "publishers", "msgRateIn"}
NOT_NAMES = ANSWER_FIELDS | {"partitions", "replication", "metadata"}  # of topics
# As `broker-stats topics` calls what `topics stats` reports as well.
OF_BROKER = {"msgInCount": "msgInCounter", "msgOutCount": "msgOutCounter",
             "bytesInCount": "bytesInCounter", "bytesOutCount": "bytesOutCounter"}  # fmt: skip
DOMAINS = frozenset({"persistent", "non-persistent"})
CURSOR_FIELDS = frozenset({"markDeletePosition", "readPosition", "individuallyDeletedMessages"})


def called(name: str) -> str:
    """The name of a file as a sentence has it."""
    return "standard input" if name == STDIN else name


def changed_ms(name: str) -> int | None:
    """When a file was changed, by its own time, epoch ms; None where it has none: a pipe."""
    try:
        path = Path(name)
        return round(path.stat().st_mtime * 1000) if name != STDIN and path.is_file() else None
    except OSError:
        return None


@contextmanager
def opened(name: str, member: str | None = SAMPLES) -> Iterator[BinaryIO]:
    """The file, unpacked where it is compressed. `-` is standard input.

    member: the file to be read where it is a bundle; None: the bundle itself. Raises InputError
    where it, then or while it is read, cannot be read or ends too early.
    """
    try:
        if name == STDIN:
            if sys.stdin is None:
                raise InputError("standard input is closed; give the name of a file")
            stdin = io.BufferedReader(cast("io.RawIOBase", sys.stdin.buffer))
            try:
                yield _unpacked(stdin, called(name), member)
            finally:
                stdin.detach()
        else:
            with open_input(Path(name)) as file:
                yield _unpacked(file, called(name), member)
    except EOFError:
        raise InputError(f"{called(name)} is cut off: its compressed content ends early") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{called(name)} is damaged: {error}") from None
    except OSError as error:
        raise InputError(f"cannot read {called(name)}: {error.strerror}") from None


@contextmanager
def located(where: str) -> Iterator[None]:
    """Puts in front of an InputError what it is about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def files_of_bundle(name: str) -> dict[str, bytes]:
    """The files of a bundle by their names; none: it is no bundle. Raises InputError."""
    if name == STDIN:
        return {}
    with opened(name, None) as stream:
        is_one = is_bundle(stream.peek(BLOCK))  # type: ignore[attr-defined]
        return dict(members(stream, name)) if is_one else {}


def _unpacked(raw: io.BufferedReader[Any], name: str, member: str | None) -> BinaryIO:
    if not raw.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC):
        return raw
    unpacked = gzip.GzipFile(fileobj=raw)
    if member is not None and is_bundle(unpacked.peek(BLOCK)):
        return member_of(unpacked, name, member)  # type: ignore[arg-type]
    return unpacked  # type: ignore[return-value]


def whole(stream: BinaryIO, name: str, begun: bytes = b"") -> bytes:
    """One document, of which this much was read already. Raises InputError where it has no end."""
    content = begun + stream.read(ANSWER_BYTES + 1)
    if len(content) > ANSWER_BYTES:
        raise too_long(name)
    try:
        require_few(content)
    except TooMany:
        raise InputError(f"{called(name)} holds more values than a broker's answer has") from None
    return content


def lines_of(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """The lines that are left. Raises InputError where one has no end."""
    while line := stream.readline(2 * ANSWER_BYTES + 1):  # of a topic, and of its internal stats
        if len(line) > 2 * ANSWER_BYTES:
            raise too_long(name)
        yield line


def too_long(name: str) -> InputError:
    most = ANSWER_BYTES >> 20
    return InputError(f"{called(name)} is longer than {most} MiB, the most that is read: cut it")


def first_line(stream: BinaryIO) -> bytes:
    """The first line that is not empty, or the beginning of a very long one."""
    for _ in range(BLANK_LINES):
        if not (line := stream.readline(HEADER_BYTES)).isspace():
            break
    return line


def schema_of(line: bytes) -> str | None:
    """What a document of our own says that it is; None where it is none of ours."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    schema = document.get("schema") if isinstance(document, Mapping) else None
    return schema if isinstance(schema, str) and schema.startswith("pulsar-doctor/") else None


def by_topic(document: Any) -> bool:
    """Whether it is of several topics, or of one, by their names."""
    if not isinstance(document, Mapping) or not document or document.keys() & NOT_NAMES:
        return False
    return all(
        isinstance(one, Mapping) and ("://" in name or one.keys() & ANSWER_FIELDS)
        for name, one in document.items()
    )


def of_broker(document: Any) -> dict[str, Any] | None:
    """The topics of `broker-stats topics`, which has them by namespace, bundle and domain;
    None of another document. Raises InputError where a part of it is no such thing."""
    domains = list(_inner(_inner([document])))
    if not any(isinstance(each, Mapping) and each.keys() & DOMAINS for each in domains):
        return None
    topics = list(_inner(domains))
    if not all(isinstance(each, Mapping) for each in (*domains, *topics)):
        raise InputError(f"something in it is not as {BROKER} prints it")
    return {name: _renamed(stats) for each in topics for name, stats in each.items()}


def part_of_broker(document: Any) -> tuple[str, ...]:
    """Why topics may be missing: what remains of such a document, known by names in it."""
    each = (document, *_inner([document]))
    found = any(isinstance(one, Mapping) and OF_BROKER.keys() & one.keys() for one in each)
    return (f"is a part of {BROKER}",) if found else ()


def _inner(documents: Iterable[Any]) -> Iterator[Any]:
    return (inner for e in documents if isinstance(e, Mapping) for inner in e.values())


def _renamed(stats: Any) -> Any:
    if not isinstance(stats, Mapping):
        return stats
    return {OF_BROKER.get(name, name): value for name, value in stats.items()}


def subscriptions_of(document: Any) -> Any:
    """The document, as of a topic where it is of its subscriptions alone, by their names."""
    return {"subscriptions": document} if _each_has(document, SUBSCRIPTION_FIELDS) else document


def cursors_of(document: Any) -> Any:
    """The same of cursors."""
    return {"cursors": document} if _each_has(document, CURSOR_FIELDS) else document


def _each_has(document: Any, fields: frozenset[str]) -> bool:
    if (
        not isinstance(document, Mapping)
        or not document
        or {"subscriptions", "cursors"} & {*document}
    ):
        return False
    return all(isinstance(one, Mapping) and one.keys() & fields for one in document.values())


def kind_of(document: Any) -> str:
    """Which output of pulsar-admin it is, or else the most likely one."""
    if not isinstance(document, Mapping):
        return TOPIC
    partitions = document.get("partitions")
    each = list(partitions.values()) if isinstance(partitions, Mapping) else []
    if document.keys() & INTERNAL_FIELDS:
        return INTERNAL
    if any(isinstance(one, Mapping) and one.keys() & INTERNAL_FIELDS for one in each):
        return PARTITIONED_INTERNAL
    if each:
        return PARTITIONS
    partitioned = isinstance(document.get("metadata"), Mapping) or "partitions" in document
    return TOTALS if partitioned else TOPIC


def stranger(document: Any) -> str | None:
    """What a document is that is no output of pulsar-admin about a topic; None where it may be."""
    if not isinstance(document, Mapping):
        return "is a list" if isinstance(document, list) else "is not an object of JSON"
    schema, reason = document.get("schema"), document.get("reason")
    if isinstance(schema, str) and schema.startswith("pulsar-doctor/"):
        return f"is a document of pulsar-doctor itself, {schema}"
    if isinstance(reason, str):
        return f"is a broker's refusal: {reason}"
    if not document:
        return "is an empty object"
    return None
