"""Starts a Spark session: local, on a cluster, or through Spark Connect."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pulsar_doctor.errors import InputError, needing
from pulsar_doctor.parts.analyze import gateway
from pulsar_doctor.parts.analyze.archive import with_archive
from pulsar_doctor.parts.analyze.configuration import (
    APP,
    FEW_ROWS,
    QUERIES,
    QUIET,
    UTC,
    java_options,
    of_this_machine,
    set_elsewhere,
)
from pulsar_doctor.parts.analyze.masters import check_master, is_connect, is_here, is_local
from pulsar_doctor.parts.analyze.scratch import scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHAT_FOR = "analyzing traces"


@dataclass(frozen=True, slots=True)
class Begun:
    """A Java that may be starting."""

    settings: Mapping[str, str]  # for Spark
    says: Path  # what Java prints, in a folder for this session alone
    java: subprocess.Popen[bytes] | None  # None: spark-submit is to start it


@dataclass(frozen=True, slots=True)
class Where:
    """Where Spark runs. Without master and remote: where Spark's settings say, else here."""

    master: str | None = None  # as Spark takes it
    remote: str | None = None  # sc://…, a Spark Connect server
    conf: Mapping[str, str] = field(default_factory=dict)  # settings for Spark
    rows: float = math.inf  # to be read, where known
    warm: bool | None = None  # make an archive of Spark's classes; False: delete it; None: use it
    begun: Begun | None = None  # a Java that is starting already


@contextlib.contextmanager
def session(where: Where) -> Iterator[SparkSession]:
    """A session with pulsar-doctor's settings; where it starts one, it ends it afterwards.

    A session that this process has already (a notebook's) serves as it is, and stays.
    Raises InputError for what Spark does not take, DoctorError where it cannot be had.
    """
    _check(where)
    _hush()
    with contextlib.ExitStack() as stack:
        there = running(where)
        spark = there or stack.enter_context(started(where))
        own = there is None and not is_connect(spark)
        apply_settings(spark, where.conf, given_at_start=own)
        yield spark


def _check(where: Where) -> None:
    if where.master and where.remote:
        raise InputError("--master and --remote are two places; give one of them")
    for key in where.conf:
        if not key.startswith("spark."):
            raise InputError(f"--conf {key}: the settings of Spark begin with 'spark.'")
    for key, option in (("spark.master", "--master"), ("spark.remote", "--remote")):
        if key in where.conf:
            raise InputError(f"--conf {key}: give it as {option}")


def _hush() -> None:
    """Keeps from stderr what pyspark logs of exceptions before they are caught, and its advice."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    logging.getLogger("py4j").propagate = False
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    logging.getLogger().addFilter(_not_of_py4j)
    with contextlib.suppress(ImportError):
        from pyspark.logger import PySparkLogger

        for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
            PySparkLogger.getLogger(name).disabled = True


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def running(where: Where) -> SparkSession | None:
    """The session that this process has already, unless another place is set."""
    with needing("spark", WHAT_FOR):
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    if where.master or where.remote:
        return None
    if active := SparkSession.getActiveSession():
        return active
    # Java keeps the active session by thread, and a process has at most one context.
    there = SparkContext._active_spark_context is not None
    return SparkSession.builder.getOrCreate() if there else None


def _running_here(where: Where) -> bool | None:
    """Whether the context that this process has runs here, without a word to its Java."""
    context: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    there = context and context._active_spark_context
    return is_local(there.master) if there and not (where.master or where.remote) else None


def started(where: Where) -> contextlib.AbstractContextManager[SparkSession]:
    """A session of our own."""
    remote = where.remote or (None if where.master else os.environ.get("SPARK_REMOTE"))
    if remote:
        from pulsar_doctor.parts.analyze.remote import connected

        return connected(remote)
    return classic(where)


def will_be_here(where: Where) -> bool | None:
    """Whether that session will run on this machine, as `reading.look` wants it; starts nothing."""
    if (here := _running_here(where)) is not None:
        return here
    there = running(where) if "pyspark.sql" in sys.modules else None
    if there is not None:
        return is_here(there)
    if where.remote or (not where.master and os.environ.get("SPARK_REMOTE")):
        return None
    if _in_spark_submit():
        return False  # its Java knows the master, and is not running yet
    elsewhere = set_elsewhere(gateway.spark_home())
    return is_local(where.master or elsewhere.get("spark.master", "local[*]"))


def apply_settings(spark: SparkSession, conf: Mapping[str, str], *, given_at_start: bool) -> None:
    """Sets these: a bad value, or one that comes too late, is an InputError with the setting."""
    from pulsar_doctor.parts.analyze.failures import cause

    for key, value in conf.items():
        try:
            if not given_at_start or spark.conf.isModifiable(key):
                spark.conf.set(key, value)
        except Exception as error:
            raise InputError(f"--conf {key}={value}: {cause(error)}") from error


@contextlib.contextmanager
def having(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """For the with-block these settings of the session; afterwards it has its own again."""
    before = {key: spark.conf.get(key) or "" for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


@contextlib.contextmanager
def classic(where: Where) -> Iterator[SparkSession]:
    """A session in a Java of our own, which ends with it; under spark-submit in the Java of that.

    Raises InputError for what Spark does not take, DoctorError where it does not start.
    """
    with contextlib.ExitStack() as stack:
        begun = where.begun or stack.enter_context(begin(where))
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        from pulsar_doctor.parts.analyze.failures import start_failures_in_one_sentence

        with start_failures_in_one_sentence(begun.says), gateway.python_hears_sigint():
            chosen = settings(where, begun.says.parent) if where.begun else begun.settings
            stack.enter_context(_java(where, begun))
            spark = SparkSession(SparkContext(conf=SparkConf().setAll(list(chosen.items()))))
            gateway.ask_less(spark.sparkContext)
        stack.callback(_stop, spark)
        yield spark


@contextlib.contextmanager
def begin(where: Where) -> Iterator[Begun]:
    """Starts Java where its command is known, and does not wait for it.

    Afterwards it is gone, and so are the temporary files.
    """
    with scratch() as folder, contextlib.ExitStack() as stack:
        says = folder / "java.log"
        plain, home = settings(where, folder), gateway.spark_home()
        chosen = stack.enter_context(with_archive(plain, home, says, warm=where.warm))
        plain_start = not where.conf and not _in_spark_submit()
        command = gateway.command_of(chosen, home) if plain_start else None
        java = stack.enter_context(gateway.begun(command, says)) if command else None
        yield Begun(chosen, says, java)


def ahead(where: Where) -> contextlib.AbstractContextManager[Begun | None]:
    """The same while it is not yet known which of so many rows are to be read; None: too early."""
    is_early = where.rows <= FEW_ROWS and _running_here(where) is None
    return begin(where) if is_early else contextlib.nullcontext()


@contextlib.contextmanager
def _java(where: Where, begun: Begun) -> Iterator[None]:
    """Spark's Java; its output is written to a file, not to the terminal.

    Where the user sets spark.log.level, it is for the user to see.
    """
    if _in_spark_submit():
        yield
        return
    if begun.java:
        there = gateway.reached(begun.java, begun.says)
    else:
        shown = "spark.log.level" in where.conf
        there = gateway.submitted(begun.settings, begun.says, shown=shown)
    seconds = gateway.ARCHIVE_SECONDS if where.warm else gateway.END_SECONDS
    with gateway.used(there, seconds):
        yield


def settings(where: Where, scratch: Path) -> dict[str, str]:
    """Spark's settings: ours where the user has not set them, here or elsewhere."""
    elsewhere = _of_spark_submit() if _in_spark_submit() else set_elsewhere(gateway.spark_home())
    master = where.master or elsewhere.get("spark.master", "local[*]")
    check_master(master)
    ours = {"spark.app.name": APP, **QUIET, **QUERIES, **java_options(scratch)}
    if is_local(master):
        ours |= of_this_machine(scratch, where.rows, {**elsewhere, **where.conf})
    ours = {key: value for key, value in ours.items() if key not in elsewhere}
    return {**ours, **UTC, **where.conf, "spark.master": master}


def _in_spark_submit() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _of_spark_submit() -> dict[str, str]:
    """The settings of the Java that spark-submit has started."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _stop(spark: SparkSession) -> None:
    """Stops a session, also one with a Java that is gone or does not answer.

    From a thread of its own, which has a connection of its own to Java: what interrupted this
    thread may have left a job running in the other one.
    """

    def stop() -> None:
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            spark.stop()

    thread = threading.Thread(target=stop, name="spark-stop", daemon=True)
    thread.start()
    thread.join(gateway.END_SECONDS)
