"""Turns Spark's exceptions into one sentence: the root cause, without a Java stack."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from pulsar_doctor.errors import DoctorError, InputError

_MEMORY = "give it more: --conf spark.driver.memory=4g, or spark.executor.memory on a cluster"
_PACKAGE = (
    "give its package, of the version of Spark's own Hadoop, with --conf spark.jars.packages=… "
    "(org.apache.hadoop:hadoop-aws:VERSION for s3a, hadoop-azure for abfs)"
)

# What Spark says (its message and those of the causes), and what that is to the user. The first
# that fits counts, so what is nearest to the cause is first. {file} is the first file named.
FAILURES: tuple[tuple[str, type[DoctorError], str], ...] = (
    (r"No space left on device|Disk quota exceeded", DoctorError,
     "the disk is full; make room, or let Spark's temporary files go to another one with "
     "--conf spark.local.dir=DIR"),
    (r"OutOfMemoryError: (?P<why>[^\n]+)", DoctorError,
     f"Spark ran out of memory ({{why}}); {_MEMORY}"),
    (r"UNABLE_TO_ACQUIRE_MEMORY|Unable to acquire \d+ bytes of memory", DoctorError,
     f"Spark ran out of memory; {_MEMORY}"),
    (r"bigger than (?:local )?(?:spark\.driver\.)?maxResultSize", DoctorError,
     "there are too many rows to show; give --conf spark.driver.maxResultSize=4g"),
    (r"Path does not exist: (?P<file>[^\n]+)", InputError,
     "{file} does not exist"),
    (r"is not a Parquet file", InputError, "{file} is no Parquet file"),
    (r"Required field '\w+' was not (?:found|present)|PageHeader\(|could not (?:read|decode) page|"
     r"can not read class org\.apache\.parquet", InputError,
     "{file} is damaged: a page of it cannot be read"),
    (r"(?i)checksum (?:verification|error|mismatch)", InputError,
     "{file} is damaged: a checksum in it is wrong"),
    (r"Parquet column \[(?P<name>[^][]+)\]\. Expected Spark type (?P<ours>\S+), "
     r"actual Parquet type (?P<theirs>\S+)\.|Column: \[(?P<name_>[^][]+)\], "
     r"Expected: (?P<ours_>\S+), Found: (?P<theirs_>\S+?)\.?\s", InputError,
     "{file} is no trace of this version: its column {name} is {theirs} and not {ours}"),
    (r"Permission denied|AccessControlException|AccessDeniedException", DoctorError,
     "permission denied for {file}"),
    (r"Mkdirs failed|Read-only file system|Failed to create (?:a )?(?:local|temp)", DoctorError,
     "cannot write to {file}; look at its permissions and its disk"),
    (r"No FileSystem for scheme \"?(?P<scheme>[^\"\s]+)", InputError,
     f"Spark here reads no {{scheme}}:// paths; {_PACKAGE}"),
    (r"Class (?P<name>\S+FileSystem) not found", InputError,
     f"Spark here has no {{name}} for such paths; {_PACKAGE}"),
    (r"Call From \S+ to (?P<where>\S+) failed on (?:connection|socket timeout)", DoctorError,
     "cannot reach {where}, where the files are"),
    (r"UnknownHostException: (?P<where>[^\s:]+)", DoctorError, "there is no host {where}"),
    (r"in the config \"[^\"]+\" is invalid|should be [\w ]{1,60}, but was", InputError, "{cause}"),
    (r"SPARK_JOB_CANCELLED|Job \d+ cancelled|OPERATION_CANCELED", DoctorError,
     "the job was cancelled"),
    (r"ExecutorLostFailure \(executor (?P<name>\S+) [^\n(]*Reason: (?P<why>[^\n]+)", DoctorError,
     "executor {name} was lost ({why}); if it ran out of memory, give --conf "
     "spark.executor.memory=4g"),
    (r"All masters are unresponsive", DoctorError,
     "no Spark master answers there, or it is another version than the pyspark here"),
    (r"serialVersionUID|InvalidClassException|NoSuchMethodError|UnsupportedClassVersionError|"
     r"JavaPackage' object is not callable", DoctorError,
     "two versions of Spark or Java meet; the pyspark here has to be the version of the cluster's "
     "Spark, and of SPARK_HOME where that is set"),
    (r"getSubject is (?:not )?supported", DoctorError,
     "this Java is too new for this Spark; set JAVA_HOME to a Java 17 or 21, or install a newer "
     "pyspark"),
    (r"Py4JNetworkError|Answer from Java side is empty|Error while sending or receiving",
     DoctorError, f"Spark's Java has ended; if it was for want of memory, {_MEMORY}"),
    (r"StatusCode\.UNAUTHENTICATED|StatusCode\.PERMISSION_DENIED", DoctorError,
     "the Spark Connect server does not let us in; give its token as sc://HOST:PORT/;token=…"),
    (r"StatusCode\.UNIMPLEMENTED", DoctorError,
     "it is no Spark Connect server, or of an older version than the pyspark here"),
    (r"StatusCode\.UNAVAILABLE|StatusCode\.DEADLINE_EXCEEDED|RetriesExceeded|RETRIES_EXCEEDED",
     DoctorError, "the Spark Connect server does not answer any more"),
    (r"(?:error while reading|read footer for) file", InputError,
     "{file} cannot be read as Parquet: {cause}"),
)  # fmt: skip


@contextlib.contextmanager
def failures_in_one_sentence(what: str) -> Iterator[None]:
    """Turns what Spark raises while this is done into a DoctorError of one sentence.

    what: what is done, in front of the sentence, as "reading the traces".
    """
    try:
        yield
    except DoctorError:
        raise
    except _spark_errors() as error:
        raise translated(what, error) from error


def translated(what: str, error: BaseException) -> DoctorError:
    """The DoctorError, or InputError, for an exception of Spark's."""
    text = full_text(error)
    for pattern, kind, sentence in FAILURES:
        if found := re.search(pattern, text):
            named = {
                key.rstrip("_"): part.partition(" SQLSTATE: ")[0].rstrip(".")
                for key, part in found.groupdict().items()
                if part
            }
            parts = {"file": _file_in(text), "cause": cause(error), **named}
            return kind(f"{what}: {sentence.format_map({k: _plain(v) for k, v in parts.items()})}")
    return DoctorError(f"{what}: {cause(error)}")


def full_text(error: BaseException) -> str:
    """The whole message of an exception, with its Java causes, without where it was."""
    try:
        text = str(error)
    except Exception:  # it asks a Java that is gone
        text = "Error while sending or receiving"
    # classic Spark's own exceptions, and Spark Connect's
    stack = getattr(error, "_stackTrace", None) or getattr(error, "_stacktrace", None) or ""
    lines = f"{text}\n{stack}".splitlines()
    return "\n".join(line for line in lines if not line.startswith("\tat "))


def cause(error: BaseException) -> str:
    """The innermost cause, in one line without the names of Java's classes."""
    text = full_text(error)
    causes = re.findall(r"^Caused by: (.+)$", text, re.MULTILINE)
    line = causes[-1] if causes else _first_line(text)
    line = re.sub(r"^\[[A-Z_.0-9]+\]\s*|(?<!\s)\s*SQLSTATE: \w+;?.*", "", _without_class(line))
    return line.rstrip(". ")


def _without_class(line: str) -> str:
    """What comes after the name of a Java exception, where anything does."""
    return re.sub(r"^(?:[\w$]+\.)+[\w$]*(?:Exception|Error)\b:?\s*", "", line) or line


def _first_line(text: str) -> str:
    """The first line that tells something; py4j tells first which method was called."""
    lines = [line.strip().removeprefix(": ") for line in text.splitlines()]
    kept = [line for line in lines if line and not line.startswith("An error occurred while")]
    return kept[0] if kept else "Spark does not say why"


def _file_in(text: str) -> str:
    found = re.search(r"\b(?:file|s3a?|hdfs|abfss?|gs):/[^\s,;)]+", text) or _LOCAL.search(text)
    return found[0].partition("/_temporary/")[0].rstrip(".:") if found else "a file"


_LOCAL = re.compile(r"(?<=: )/[^\s,;)]+")


def _plain(name: str) -> str:
    """A local file by its path."""
    return unquote(re.sub(r"^file:/+", "/", name))


def _spark_errors() -> tuple[type[BaseException], ...]:
    """The exceptions of Spark, of its Java, and of Spark Connect where gRPC is installed."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    found: list[type[BaseException]] = [PySparkException, Py4JError]
    with contextlib.suppress(ImportError):
        from grpc import RpcError

        found.append(RpcError)
    return tuple(found)


@contextlib.contextmanager
def start_failures_in_one_sentence(java_says: Path) -> Iterator[None]:
    """Turns a failure to start Spark here into one sentence.

    java_says: the file with what the Java wrote on its stderr; there the reason is, where Java
    ended before it could answer.
    """
    try:
        with failures_in_one_sentence("Spark does not start"):
            yield
    except DoctorError as error:
        text = java_says.read_text(errors="replace") if java_says.is_file() else ""
        if "JAVA_GATEWAY_EXITED" in str(error.__cause__) and text:
            raise InputError(f"Spark does not start: {_reason(text)}") from error.__cause__
        raise


def _reason(text: str) -> str:
    """The line of a Java's stderr that tells why it ended."""
    thrown = re.search(r'^Exception in thread "[^"]*" (.+)$', text, re.MULTILINE)
    others = re.findall(r"^(?!WARNING|Picked up|NOTE|Using|\s|\d).+$", text, re.MULTILINE)
    line = thrown[1] if thrown else next(iter(others), "its Java ended at once")
    return _without_class(line.removeprefix("Error: "))
