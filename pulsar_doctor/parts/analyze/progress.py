"""Progress of Spark on stderr: a line for each phase, a bar on a terminal.

Spark plans while it runs: how many stages and tasks there are is known for what has begun, not for
the whole. So the bar is that of the stages that run now, and there is no percentage of all.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pulsar_doctor.parts.analyze.masters import is_connect
from pulsar_doctor.wording.consoles import GatedConsole
from pulsar_doctor.wording.gate import warn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a Spark job, and how far it is; one that will be skipped never begins."""

    number: int
    tasks: int
    done: int
    ended: bool
    running: bool


Show = Callable[[list[Stage]], None]


@contextlib.contextmanager
def progress(spark: SparkSession, what: str) -> Iterator[None]:
    """Shows what runs; on a terminal also its stages and its tasks, until it is left."""
    console = GatedConsole(stderr=True)
    if not console.is_terminal:
        _line(what)
        yield
        return
    columns = (BarColumn(bar_width=30), TextColumn("{task.description}", markup=False))
    # Else rich sends the report on stdout to where the bar is, to stderr.
    bar = Progress(*columns, console=console, transient=True, redirect_stdout=False)
    task = bar.add_task(what, total=None)

    def show(stages: list[Stage]) -> None:
        running = [stage for stage in stages if stage.running]
        bar.update(
            task,
            description=described(what, stages),
            completed=sum(stage.done for stage in running),
            total=sum(stage.tasks for stage in running) or None,
        )

    with bar, _followed(spark, show):
        yield


@contextlib.contextmanager
def phase(what: str) -> Iterator[None]:
    """The same before there is a Spark that could answer: how long it takes is not known."""
    console = GatedConsole(stderr=True)
    if not console.is_terminal:
        _line(what)
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as spinner:
        spinner.add_task(what, total=None)
        yield


def _line(what: str) -> None:
    warn(f"{what} …")


def described(what: str, stages: list[Stage]) -> str:
    """What runs, in words: `profile · stage 2 of 3 · 5 of 12 tasks`."""
    running = [stage for stage in stages if stage.running]
    if not running:
        return what
    place = min(sum(stage.ended for stage in stages) + 1, len(stages))
    done, tasks = sum(stage.done for stage in running), sum(stage.tasks for stage in running)
    return f"{what} · stage {place} of {len(stages)} · {done} of {tasks} tasks"


def _followed(spark: SparkSession, show: Show) -> contextlib.AbstractContextManager[None]:
    if not is_connect(spark):
        return _polled(spark, show)
    if hasattr(spark, "registerProgressHandler"):
        return _shown_by_server(spark, show)
    return contextlib.nullcontext()  # Spark Connect of 3.5 tells nothing


@contextlib.contextmanager
def _polled(spark: SparkSession, show: Show) -> Iterator[None]:
    """Asks this process' Spark again and again, in a thread of its own."""
    tracker = spark.sparkContext.statusTracker()
    known: dict[int, Stage] = {}
    left = threading.Event()

    def ask() -> None:
        with contextlib.suppress(Exception):  # Spark ends during the call
            while not left.wait(POLL_SECONDS):
                known.update(_changes(tracker, known))
                show(list(known.values()))

    thread = threading.Thread(target=ask, name="spark-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        left.set()
        thread.join(5)


def _changes(tracker: Any, known: dict[int, Stage]) -> dict[int, Stage]:
    """The stages of the jobs that run, as they are now; those of jobs that are over have ended."""
    jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
    active = set(tracker.getActiveStageIds())
    current = {number for job in jobs if job is not None for number in job.stageIds}
    found = {}
    for number in current | {stage.number for stage in known.values() if not stage.ended}:
        info = tracker.getStageInfo(number)
        if info is None:
            continue
        done = info.numCompletedTasks
        ended = number not in active and (done > 0 or number not in current)
        found[number] = Stage(number, info.numTasks, done, ended, number in active)
    return found


@contextlib.contextmanager
def _shown_by_server(spark: SparkSession, show: Show) -> Iterator[None]:
    """Hears from a Spark Connect server, from version 4 on."""
    known: dict[str, dict[int, Stage]] = {}

    def hear(
        stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        known[operation_id or ""] = {
            stage.stage_id: _stage_of(stage, over=done, busy=inflight_tasks > 0)
            for stage in stages or ()
        }
        show([stage for operation in known.values() for stage in operation.values()])

    handler: Any = hear
    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)


def _stage_of(stage: Any, *, over: bool, busy: bool) -> Stage:
    """A stage as a server tells it; it does not say which one the busy tasks belong to."""
    ended = over or stage.done
    running = not ended and (busy or stage.num_completed_tasks > 0)
    return Stage(stage.stage_id, stage.num_tasks, stage.num_completed_tasks, ended, running)
