"""Follows traces that grow, with Spark Structured Streaming: `analyze --follow`.

Two queries read the segments as they appear, each with its own record of what it has read and its
own state, below one checkpoint. Stopped or killed at any moment and started again they go on
without counting a row twice or leaving one out.

    totals   -> a table in Spark's memory, whole after each trigger; its state: the consumers
    steps    -> timeline/, Parquet: the steps of time that are over; its state: those that are not

The table in memory is made of the state by a trigger, and a trigger needs something new to read:
each start therefore adds an empty file to starts/, which both queries read, too. Steps that are not
over are read from the state itself, where Spark can (from 4.0 on).

Nothing here runs on executors, or needs Python on a Spark Connect server. What a ring deletes
before it is read is seen by the numbers that are missing among the rows.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.spark.aggregations import growing
from pulsar_doctor.spark.analysis import Analysis
from pulsar_doctor.spark.checkpoint import OTHERWISE, Terms, in_use, taken
from pulsar_doctor.spark.elsewhere import LITERALLY, SEGMENTS
from pulsar_doctor.spark.failures import cause, full_text, told_in_one_sentence
from pulsar_doctor.spark.followed import notes_of, standing, timeline_of
from pulsar_doctor.spark.reading import OPTIONS, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WHAT = "following the traces"
POLL_SECONDS = 0.2
WAIT_SECONDS = 2.0  # for a folder that is not there yet
GROWING = {
    "ignoreMissingFiles": "true",
    "recursiveFileLookup": "true",
    "pathGlobFilter": SEGMENTS,
    "maxFilesPerTrigger": "64",  # of each path
    "maxFileAge": "36500d",  # an old trace may be put beside a new one
}
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",  # what is grouped is small, and each is files a trigger
    # The folders are looked at by the driver itself, not by a job at each trigger.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}


def follow(
    spark: SparkSession,
    paths: Sequence[str],
    *,
    bucket_us: int,
    checkpoint: str,
    every_seconds: float,
    late_seconds: float,
    on_update: Callable[[Analysis], None],
    stop: Callable[[], bool],
) -> Analysis:
    """Reads segments as they are sealed until `stop` says so; how the traces stand then.

    paths: traces, folders of traces, globs. checkpoint: a folder, which is made; with a scheme or
    through Spark Connect as Spark sees it. every_seconds: how often it looks; late_seconds: by how
    much rows may be younger than others that come first. on_update: told how things stand, when
    they have changed, first without a timeline. Its consumers are as in aggregations.consumers,
    without the sizes of FLOWs; its stalls are the times without permits that go on.
    Raises InputError for a checkpoint of something else, DoctorError where Spark fails.
    """
    terms = Terms.of(paths, bucket_us=bucket_us, late_seconds=late_seconds)
    with told_in_one_sentence(WHAT), taken(spark, checkpoint, terms) as place:
        follower = Follower(spark, terms, place, every_seconds)
        last = None
        try:
            while not stop():
                if follower.go_on():
                    last = follower.analysis()
                    on_update(last)
                time.sleep(POLL_SECONDS)
            follower.stop()
            return follower.analysis()
        except Exception as error:
            if last is not None and stop():
                return last  # whoever ends a service ends its Java, too, and perhaps first
            told = _about_checkpoint(error, checkpoint, place)
            if told is None:
                raise
            raise told from error
        finally:
            follower.close()


@dataclass
class Follower:
    """The two queries and what is known of them. Changes in place."""

    spark: SparkSession
    terms: Terms
    place: str
    every_seconds: float
    table: str = field(default_factory=lambda: f"followed_{uuid.uuid4().hex}")
    queries: list[StreamingQuery] = field(default_factory=list)
    waits_for: str | None = None
    began: bool = False
    shown: object = None
    late: int = 0
    late_batch: int = -1

    def go_on(self) -> bool:
        """Starts the queries, once they can be; whether there is something new to show."""
        if not self.queries:
            before = self.waits_for
            self._start()
            return self.waits_for != before
        for query in self.queries:
            if not query.isActive:
                raise query.exception() or DoctorError(f"{WHAT}: a query of Spark was stopped")
        done = [query.lastProgress for query in self.queries]
        if not done[0]:
            return False
        batches = [progress and progress["batchId"] for progress in done]
        if batches == self.shown:
            return False
        self.shown, self.began = batches, True
        self._count_late()
        return True

    def stop(self) -> None:
        """Ends the queries; a trigger that has not ended is done again the next time."""
        for query in self.queries:
            query.stop()
        if self.queries:
            self._count_late()

    def close(self) -> None:
        """Lets go of all, also after a failure."""
        with suppress(Exception):
            self.stop()
        with suppress(Exception):
            self.spark.catalog.dropTempView(self.table)

    def _start(self) -> None:
        starts = f"{self.place}/starts"
        if self.waits_for is None:
            self.spark.range(0, 0, 1, 1).toDF("seq").write.mode("append").parquet(starts)
        try:
            rows = self._rows(starts)
            with _settings(self.spark):
                self._start_queries(rows)
        except Exception as error:
            if "PATH_NOT_FOUND" not in str(error) or self.queries:
                raise
            self.waits_for = ", ".join(self.terms.paths)
            time.sleep(WAIT_SECONDS)
        else:
            self.waits_for = None

    def _rows(self, starts: str) -> DataFrame:
        """The rows of all traces, as a stream."""
        reader = self.spark.readStream.schema(SCHEMA).option("ignoreMissingFiles", "true")
        rows = reader.parquet(starts)
        reader = self.spark.readStream.schema(SCHEMA).options(**OPTIONS, **GROWING)
        for path in self.terms.paths:
            plain = path.translate(LITERALLY) if Path(path).exists() else path
            rows = rows.unionByName(reader.parquet(plain))
        return rows

    def _start_queries(self, rows: DataFrame) -> None:
        every = f"{max(1, round(self.every_seconds * 1000))} milliseconds"
        totals = growing.totals(rows).writeStream.outputMode("complete").format("memory")
        totals = totals.queryName(self.table).trigger(processingTime=every)
        totals = totals.option("checkpointLocation", f"{self.place}/totals")
        stepped = growing.steps(rows, self.terms.bucket_us, self.terms.late_us)
        steps = growing.timed(stepped).writeStream.outputMode("append").format("parquet")
        steps = steps.partitionBy("hour").trigger(processingTime=every)
        steps = steps.option("checkpointLocation", f"{self.place}/steps")
        self.queries.append(totals.start())
        self.queries.append(steps.start(f"{self.place}/timeline"))

    def _count_late(self) -> None:
        """Spark groups the rows before it counts those that are late: it was so many or more."""
        for progress in self.queries[1].recentProgress:
            if progress["batchId"] > self.late_batch:
                self.late_batch = progress["batchId"]
                states = progress["stateOperators"]
                self.late += sum(state["numRowsDroppedByWatermark"] for state in states)

    def analysis(self) -> Analysis:
        """How the traces stand."""
        notes = [f"waits for {self.waits_for}, which is not there yet"] if self.waits_for else []
        if not self.began:
            notes += [] if self.waits_for else ["nothing has been read yet, so nothing is known"]
            return standing(self.spark, None, self.place, self.terms, notes)
        notes += notes_of(self.spark, self.terms, self.late)
        found = standing(self.spark, self.table, self.place, self.terms, notes)
        if self.queries[1].lastProgress is None:  # the timeline comes a little later
            return found
        return replace(found, timeline=timeline_of(self.spark, self.place, self.terms, found))


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """A query takes the settings of the moment in which it starts."""
    before = {key: spark.conf.get(key) or "" for key in SETTINGS}
    for key, value in SETTINGS.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


# What Spark says of a checkpoint that it cannot go on from; it has no class of errors for that.
DAMAGED = (
    r"MALFORMED_LOG_FILE|[Ll]og file was malformed|Incomplete log file|next on empty iterator"
    r"|CANNOT_LOAD_STATE_STORE|MISSING_STATE_DIRECTORY|batch \d+ doesn't exist|JsonParseException"
    r"|_spark_metadata/\S+ doesn't exist|Checksum error: {place}|\(no cause message\)"
)


def _about_checkpoint(error: Exception, checkpoint: str, place: str) -> InputError | None:
    """The sentence where it is the checkpoint that cannot be gone on from."""
    text = full_text(error)
    if "CONCURRENT_STREAM_LOG_UPDATE" in text or "are concurrently using" in text:
        return InputError(in_use(checkpoint))
    if re.search(DAMAGED.replace("{place}", re.escape(place.removeprefix("file://"))), text):
        why = cause(error)
        return InputError(f"the checkpoint {checkpoint} cannot be gone on from: {why}; {OTHERWISE}")
    return None
