"""`analyze --follow`: traces that are still written, counted as they grow, until it is stopped."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from pulsar_doctor.cli._analyze_options import AnalyzeRequest
from pulsar_doctor.cli._analyze_session import start_spark, wish_of
from pulsar_doctor.cli._options import say
from pulsar_doctor.cli._signals import Handlers, obeying
from pulsar_doctor.printing.gate import stdout, tell_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pulsar_doctor.spark.analysis import Analysis
    from pulsar_doctor.spark.session import Where

STEP_US = 60_000_000  # of the timeline, whose end is not known


def follow_traces(where: Where, bucket_us: int | None, asked: AnalyzeRequest) -> Analysis:
    stopped: list[int] = []
    handlers: Handlers = dict.fromkeys(
        (signal.SIGINT, signal.SIGTERM), lambda number, frame: stopped.append(number)
    )
    with ExitStack() as stack:
        stack.enter_context(obeying(handlers))
        spark = start_spark(stack, replace(where, few=True))  # a step has few rows
        from pulsar_doctor.spark.checkpoint import checkpoint_of
        from pulsar_doctor.spark.following import follow

        show = stack.enter_context(_shown(asked))
        step = bucket_us or STEP_US
        checkpoint = asked.checkpoint or checkpoint_of(
            asked.traces, bucket_us=step, late_seconds=asked.late
        )
        say(f"following {', '.join(asked.traces)}; Ctrl-C ends it; counted so far: {checkpoint}")
        shown: list[Analysis] = []

        def tell(analysis: Analysis) -> None:
            shown[:] = [analysis.from_floor(asked.stall_floor)]
            show(shown[0])

        save = _saves(spark, bucket_us, asked)
        last = follow(
            spark,
            asked.traces,
            bucket_us=step,
            checkpoint=checkpoint,
            every_seconds=asked.every,
            late_seconds=asked.late,
            on_update=tell,
            on_pause=save,
            stop=lambda: bool(stopped),
        )
        save(last, ended=True)
        if [last.from_floor(asked.stall_floor)] != shown:
            tell(last)
        return last


def _saves(
    spark: SparkSession, bucket_us: int | None, asked: AnalyzeRequest
) -> Callable[..., None]:
    """What saves what is sealed by now, at times; it does nothing where nothing is to be saved."""
    if not asked.save_dir:
        return lambda analysis, ended=False: None
    from pulsar_doctor.spark.following_saved import saves

    return saves(spark, wish_of(asked, bucket_us), asked.save_every, say).save


def _shown(asked: AnalyzeRequest) -> AbstractContextManager[Callable[[Analysis], None]]:
    """Shows how things stand while they go on; on a terminal in place."""
    from rich.live import Live

    from pulsar_doctor.report.analyze.analysis import analysis_json, glance, report
    from pulsar_doctor.report.paper import console_on

    if asked.output != "table":
        return nullcontext(lambda analysis: tell_json(analysis_json(analysis)))
    console = console_on(stdout())
    if not console.is_terminal or console.is_dumb_terminal:
        return nullcontext(lambda analysis: console.print(glance(analysis, top=asked.top)))

    @contextmanager
    def in_place() -> Iterator[Callable[[Analysis], None]]:
        last: list[Analysis] = []
        with Live(console=console, auto_refresh=False, transient=True) as live:

            def show(analysis: Analysis) -> None:
                last[:] = [analysis]
                live.update(glance(analysis, top=asked.top), refresh=True)

            yield show
        if last:
            console.print(report(last[0], top=asked.top))

    return in_place()
