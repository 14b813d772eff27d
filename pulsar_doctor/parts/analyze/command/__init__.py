"""`pulsar-doctor analyze`: sums up traces in Apache Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from pulsar_doctor.cli._calls import accepted, is_given, say
from pulsar_doctor.cli._commands import sectioned
from pulsar_doctor.cli._options import taking, talk_options
from pulsar_doctor.errors import InputError, needing
from pulsar_doctor.parts.analyze.command.options import (
    SECTIONS,
    AnalyzeRequest,
    AnsweredBySpark,
)
from pulsar_doctor.wording.gate import stderr, stdout, tell_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pulsar_doctor.parts.analyze.aggregations import Tables
    from pulsar_doctor.parts.analyze.analysis import Analysis
    from pulsar_doctor.parts.analyze.analyzing import Make, Wish
    from pulsar_doctor.parts.analyze.asking import SqlAnswer
    from pulsar_doctor.parts.analyze.reading import Looked
    from pulsar_doctor.parts.analyze.selection import Selection
    from pulsar_doctor.parts.analyze.session import Begun, Where
    from pulsar_doctor.parts.analyze.source import TraceSource

GROUP = "analyse"
LEFT_OUT_CODE = 4
EPILOG = """\b
Examples:
  pulsar-doctor analyze incident.ptrace
  pulsar-doctor analyze '/taps/*.ptrace' --bucket 1m -o json | jq '.stalls[0]'
  pulsar-doctor analyze --master spark://s:7077 s3a://traces/ --save s3a://out/
  pulsar-doctor analyze --remote sc://localhost:15002 /data/incident.ptrace
  pulsar-doctor analyze ring.ptrace --since 1h --topic orders
  pulsar-doctor analyze /traces --since 2026-11-01T12:00:00Z --until 2026-11-01T13:00:00Z
  pulsar-doctor analyze incident.ptrace --sql 'SELECT topic, severity FROM stalls'
  spark-submit --master yarn "$(python -m pulsar_doctor.parts.analyze --path)" hdfs:///traces

Exit codes: 0 healthy, or only warnings, where the traces end; 1 a stall was found there (see
--fail-on); 2 wrong usage, or no trace; 3 a status is unknown, nothing could be judged, or something
that is over was as bad as --fail-on; also no Spark, no Java, an unreachable master, a full disk;
4 a trace was left out, and none of these. If several apply: 1, then 3, then 4.
"""


@click.command(cls=sectioned(SECTIONS), epilog=EPILOG)
@taking(AnalyzeRequest)
@talk_options
def command(request: AnalyzeRequest) -> int:
    """Sums up traces in Apache Spark, here or on a cluster.

    DIR is a trace, a folder of traces, a glob, or a path that Spark reads (s3a://, hdfs://). A
    trace that is found twice is counted once. A damaged trace (a segment was changed, is missing,
    or is not in the list) is left out and named, and the exit code is 4, unless --strict is given
    or it is the only one. The executors do not need pulsar-doctor.

    The status is the worst of all subscriptions. Each is judged at the end of its trace, as
    stall-check --trace does, from the ledgers beside the last segment. The status is unknown if a
    trace has no consumer, continues after --until, or has too many rows and no ledgers of this
    version. A time without permits that was as long as a stall and is over is not judged, and
    forbids "healthy".

    \b
    consumers      each from SUBSCRIBE to close: messages, FLOWs, permits, acks,
                   starved time
    gaps           time between FLOWs, from delivery to ack, without permits: p50,
                   p90, p99, most
    stalls         times without permits: since when, how long, what ended it, the
                   finding; those from --stall-floor on or with a finding, the
                   others counted in "brief_stalls"; where a trace ends in one,
                   the finding is that of stall-check --trace
    timeline       delivered, acknowledged, FLOWs, lowest permits, consumers
                   without any
    subscriptions  which are in trouble, and who hoards in them
    holes          entries never acknowledged while later ones were

    --since, --until, --topic and --subscription read a part of the traces; other segments and row
    groups are not opened. A TIME is ISO 8601 (UTC if it has no zone) or a duration counted back
    from the end of the newest trace. Counts are then of that part, and a consumer that began before
    it is not "certain". Numbers that carry over (permits, unacked) stay as they were, and a time
    without permits keeps its true start and its whole length, even if its consumer was silent all
    that time. The end of a trace is not judged if --until lies before it.

    With -o json: {"schema": "pulsar-doctor/analyze/2", "events", "since", "until", "topic",
    "subscription", "status", "statuses" (number of subscriptions with each status), "verdicts"
    (like stall-check's "subscriptions", with "trace_id" and "at"), and each table as a list of at
    most 10,000 rows, the worst first; "totals" has their full number}. Times end in _us
    (microseconds); null means not reported. If a part of a sum is not reported, the sum is null,
    and the reported part is beside it (acknowledged_least, unacked_least). If "certain" is false,
    commands are missing, and all counts are lower bounds.

    Run --save again to update: each trace that it reads is replaced, also one that a tap still
    writes. To see what happens now, use tap or stall-check --watch.

    --sql queries the tables that --save writes: these six and brief_stalls, each with date, topic
    and trace_id. It takes one SELECT, without functions that run other code or open files, and
    cannot be used with --remote. -o json: {"schema": "pulsar-doctor/analyze-sql/1", "columns",
    "rows", "more"}, at most 10,000 rows; jsonl: one line for each row. It gives no verdict: the
    exit code is 0, or 4.
    """
    bucket_us = _microseconds(request.bucket, "--bucket")
    where = where_of(request, "analyzing traces")
    _refuse_a_part(request)
    if request.output == "jsonl" and request.sql is None:
        raise InputError("-o jsonl is for --sql; an analysis is one document: -o json")
    return _analyze(where, bucket_us, request)


def where_of(request: AnsweredBySpark, what_for: str) -> Where:
    """Raises InputError for a --conf that is no KEY=VALUE."""
    with needing("spark", what_for):
        from pulsar_doctor.parts.analyze.session import Where
    conf = {}
    for pair in request.conf:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--conf {pair}: write it as KEY=VALUE")
        conf[key.strip()] = value
    return Where(request.master, request.remote, conf, warm=request.warm)


def _refuse_a_part(request: AnalyzeRequest) -> None:
    """What is for whole traces only."""
    named = ("since", "until", "topic", "subscription")
    part = [f"--{name}" for name in named if getattr(request, name) is not None]
    if part and request.save_dir:
        raise InputError(
            f"--save saves whole traces, and a part would replace one; leave out {part[0]}, or "
            "use -o json or --sql"
        )


def _microseconds(seconds: float | None, option: str) -> int | None:
    if seconds is not None and seconds < 0.001:
        raise InputError(f"{option} must be 1ms or more")
    return None if seconds is None else round(seconds * 1e6)


def _analyze(where: Where, bucket_us: int | None, request: AnalyzeRequest) -> int:
    with ExitStack() as stack:
        looked, begun = _looked(stack, request, where)
        spark = _start_spark(stack, replace(where, rows=looked.rows, begun=begun))
        from pulsar_doctor.parts.analyze import analyzing, asking, reading_only, running
        from pulsar_doctor.parts.analyze.progress import progress as shown
        from pulsar_doctor.parts.analyze.report.analysis import analysis_json

        if request.sql is not None:
            reading_only.require_parser(spark)

        def progress(what: str) -> AbstractContextManager[None]:
            return nullcontext() if is_given("quiet") else shown(spark, what)

        def answered(source: TraceSource, tables: Tables, step_us: int) -> SqlAnswer:
            with progress("asking"):
                return asking.answer(running.dated(tables), request.sql or "")

        def analyzed(source: TraceSource, tables: Tables, step_us: int) -> Analysis:
            show = _shown_as_it_grows(request)
            found = running.analyzed(
                source, tables, step_us, progress, lambda it: show(floored(it))
            )
            return floored(found)

        def floored(found: Analysis) -> Analysis:
            return replace(found, stall_floor_seconds=request.stall_floor)

        def tell(note: str) -> None:
            say(f"pulsar-doctor: {note}")

        make: Make[Analysis | SqlAnswer] = analyzed if request.sql is None else answered
        wanted = _wish_of(request, bucket_us)
        source, made = analyzing.analyze(spark, wanted, looked, make, progress, tell)
        if request.save_dir:
            say(f"saved in {request.save_dir}")
        here = running.is_in_this_process(spark)
    _speak_of_archive(where, here=here)
    if isinstance(made, asking.SqlAnswer):
        _print_answer(made, request)
        return LEFT_OUT_CODE if source.left_out else 0
    if request.output == "json":
        tell_json(analysis_json(made), indent=1)
    return _code(made, request)


def _speak_of_archive(where: Where, *, here: bool) -> None:
    from pulsar_doctor.parts.analyze.archive import note
    from pulsar_doctor.parts.analyze.gateway import spark_home

    suggest = here and where.warm is None and stderr().isatty() and not is_given("quiet")
    if text := note(spark_home(), warm=bool(where.warm), here=here, suggest=suggest):
        say(f"pulsar-doctor: {text}")


def _looked(stack: ExitStack, request: AnalyzeRequest, where: Where) -> tuple[Looked, Begun | None]:
    """What this machine can read of the traces is refused before Spark is waited for."""
    begun: list[Begun | None] = [None]

    def begin(rows: int) -> None:
        begun.append(stack.enter_context(ahead(replace(where, rows=rows))))

    with _phase("looking at the traces"), needing("spark", "analyzing traces"):
        from pulsar_doctor.parts.analyze.reading import look
        from pulsar_doctor.parts.analyze.session import ahead, will_be_here

        looked = look(
            request.traces,
            here=will_be_here(where),
            strict=request.strict,
            selection=_selection_of(request),
            listed=begin,
        )
    return looked, begun[-1]


def _selection_of(request: AnalyzeRequest) -> Selection:
    from pulsar_doctor.parts.analyze.selection import Selection

    return Selection(
        request.since,
        request.until,
        request.topic,
        request.subscription,
        proven_only=request.proven_only,
    )


def _wish_of(request: AnalyzeRequest, bucket_us: int | None) -> Wish:
    from pulsar_doctor.parts.analyze.analyzing import Wish

    return Wish(
        traces=request.traces,
        strict=request.strict,
        selection=_selection_of(request),
        bucket_us=bucket_us,
        stall_floor_us=round(request.stall_floor * 1e6),
        save_dir=request.save_dir,
        lake=None if request.save_format == "parquet" else request.save_format,
    )


def _start_spark(stack: ExitStack, where: Where) -> SparkSession:
    with needing("spark", "analyzing traces"):
        from pulsar_doctor.parts.analyze.session import session

        with _phase("starting Spark"):
            return stack.enter_context(session(where))


def _phase(what: str) -> AbstractContextManager[None]:
    from pulsar_doctor.parts.analyze.progress import phase

    return nullcontext() if is_given("quiet") else phase(what)


def _shown_as_it_grows(request: AnalyzeRequest) -> Callable[[Analysis], object]:
    """Prints a report; JSON is one document, and waits for the end."""
    if request.output == "json":
        return lambda _: None
    from pulsar_doctor.parts.analyze.report.analysis import Growing
    from pulsar_doctor.report.paper import console_on

    return Growing(console_on(stdout()), request.top).show


def _print_answer(answer: SqlAnswer, request: AnalyzeRequest) -> None:
    from pulsar_doctor.parts.analyze.report.answer import answer_json, answer_table
    from pulsar_doctor.report.paper import console_on

    if request.output == "json":
        tell_json(answer_json(answer), indent=1)
    elif request.output == "jsonl":
        for row in answer.rows:
            tell_json(row)
    else:
        console_on(stdout()).print(answer_table(answer))
    if answer.more:
        say(f"pulsar-doctor: the first {len(answer.rows):,} rows; there are more")


def _code(analysis: Analysis, request: AnalyzeRequest) -> int:
    accept = request.accept_unknown
    accepted(analysis.accepted(accept), accept)
    code = analysis.exit_code(request.fail_on, accept)
    return code or (LEFT_OUT_CODE if analysis.left_out else 0)
