"""What both ways of `analyze` need of Spark: where it runs, a session, what is wanted, progress."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING

from pulsar_doctor.cli._analyze_options import AnalyzeRequest
from pulsar_doctor.cli._options import told
from pulsar_doctor.errors import InputError, needing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pulsar_doctor.spark.analyzing import Wish
    from pulsar_doctor.spark.selection import Selection
    from pulsar_doctor.spark.session import Where


def where_of(asked: AnalyzeRequest) -> Where:
    """Raises InputError for a --conf that is no KEY=VALUE."""
    with needing("spark", "analyzing traces"):
        from pulsar_doctor.spark.session import Where
    conf = {}
    for pair in asked.conf:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--conf {pair}: write it as KEY=VALUE")
        conf[key.strip()] = value
    return Where(asked.master, asked.remote, conf)


def selection_of(asked: AnalyzeRequest) -> Selection:
    from pulsar_doctor.spark.selection import Selection

    return Selection(asked.since, asked.until, asked.topic, asked.subscription)


def wish_of(asked: AnalyzeRequest, bucket_us: int | None) -> Wish:
    from pulsar_doctor.spark.analyzing import Wish

    return Wish(
        traces=asked.traces,
        strict=asked.strict,
        selection=selection_of(asked),
        bucket_us=bucket_us,
        stall_floor_us=round(asked.stall_floor * 1e6),
        save_dir=asked.save_dir,
        replace=asked.save_mode == "replace",
        lake=None if asked.save_format == "parquet" else asked.save_format,
    )


def start_spark(stack: ExitStack, where: Where) -> SparkSession:
    with needing("spark", "analyzing traces"):
        from pulsar_doctor.spark.session import session

        with phase("starting Spark"):
            return stack.enter_context(session(where))


def phase(what: str) -> AbstractContextManager[None]:
    from pulsar_doctor.spark.progress import phase

    return nullcontext() if told("quiet") else phase(what)


def spark_progress(spark: SparkSession, what: str) -> AbstractContextManager[None]:
    from pulsar_doctor.spark.progress import progress

    return nullcontext() if told("quiet") else progress(spark, what)
