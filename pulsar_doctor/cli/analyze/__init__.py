"""`pulsar-doctor analyze`: what traces say as a whole, in Spark."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from pulsar_doctor.cli._calls import accepted, say, told
from pulsar_doctor.cli._commands import sectioned
from pulsar_doctor.cli._options import json_version_option, taking, talk_options
from pulsar_doctor.cli.analyze.options import SECTIONS, AnalyzeRequest, removed_options
from pulsar_doctor.errors import InputError, needing
from pulsar_doctor.wording.gate import stdout, tell_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pulsar_doctor.spark.aggregations import Tables
    from pulsar_doctor.spark.analysis import Analysis
    from pulsar_doctor.spark.analyzing import Make, Wish
    from pulsar_doctor.spark.asking import SqlAnswer
    from pulsar_doctor.spark.reading import Looked
    from pulsar_doctor.spark.selection import Selection
    from pulsar_doctor.spark.session import Where
    from pulsar_doctor.spark.source import TraceSource

GROUP = "analyse"
LEFT_OUT_CODE = 4
EPILOG = """\b
Examples:
  pulsar-doctor analyze incident.ptrace
  pulsar-doctor analyze '/var/lib/taps/*.ptrace' --bucket 1m -o json | jq '.stalls[0]'
  pulsar-doctor analyze --master spark://spark:7077 s3a://traces/2026-11/ --save s3a://reports/
  pulsar-doctor analyze --remote sc://localhost:15002 /data/incident.ptrace
  pulsar-doctor analyze ring.ptrace --since 1h --topic orders
  pulsar-doctor analyze /traces --since 2026-11-01T12:00:00Z --until 2026-11-01T13:00:00Z
  pulsar-doctor analyze incident.ptrace --sql 'SELECT topic, severity FROM stalls'
  spark-submit --master yarn "$(python -m pulsar_doctor.spark --path)" hdfs:///traces

\b
Exit codes: 0 healthy, or only warnings, where the traces end; 1 a stall was found there (see
--fail-on); 2 wrong usage, or no trace; 3 a status is unknown, nothing could be judged, or something
that is over was as bad as --fail-on; also no Spark, no Java, an unreachable master, a full disk;
4 a trace was left out, and none of these. If several apply: 1, then 3, then 4.
"""


@click.command(cls=sectioned(SECTIONS), epilog=EPILOG)
@taking(AnalyzeRequest)
@removed_options
@json_version_option
@talk_options
def command(asked: AnalyzeRequest) -> int:
    """Sums up traces in Apache Spark, here or on a cluster.

    DIR is a trace, a folder of traces, a glob, or what Spark reads (s3a://, hdfs://). A trace that
    is there twice is counted once. One that is damaged (a segment that is not as it was sealed, is
    missing, or is not in the list) is left out and named, and the exit code is 4, unless --strict
    is given or it is the only one. The executors need nothing of pulsar-doctor.

    The status is the worst of all subscriptions. Each is judged where its trace ends, as
    stall-check --trace judges it, by the ledgers that lie beside the last segment. The status is
    unknown where a trace has no consumer, has no ledgers of this version and too many rows to work
    them out again, or goes on behind --until. A time without permits that was as long as a stall
    and is over is not judged, and forbids "healthy".

    \b
    consumers      each from SUBSCRIBE to close: messages, FLOWs, permits, acks, starved time
    gaps           time between FLOWs, from delivery to ack, without permits: p50, p90, p99, most
    stalls         times without permits: since when, how long, what ended it, the finding; those
                   from --stall-floor on or with a finding, the others counted in "brief_stalls";
                   where a trace ends in one, the finding is that of stall-check --trace
    timeline       delivered, acknowledged, FLOWs, lowest permits, consumers without any
    subscriptions  which are in trouble, and who hoards in them
    holes          entries never acknowledged while later ones were

    --since, --until, --topic and --subscription read a part: segments and row groups without any of
    it are not opened. A TIME is ISO 8601 (UTC where it has no zone) or a duration counted back from
    the end of the newest of the traces. What is counted is then of that part alone, and a consumer
    that began before is not "certain"; numbers that carry over (permits, unacked) are as ever, and
    a time without permits keeps its true start and its whole length, also where its consumer said
    nothing in all of that time. How a trace ends is not judged where --until lies before that.

    With -o json: {"schema": "pulsar-doctor/analyze/2", "events", "since", "until", "topic",
    "subscription", "status", "statuses" (how many subscriptions have which), "verdicts" (as
    stall-check's "subscriptions", with "trace_id" and "at"), and each of these as a list of at most
    10,000 rows, the worst first; "totals" says how many there are}. Times end in _us
    (microseconds); null is not told. A sum of which a part is not told is null, and beside it
    stands what is told of it (acknowledged_least, unacked_least); where "certain" is false commands
    are missing, and all that is counted is at least so much.

    --save, run again, reads only the traces that have changed: so the tables of traces that a tap
    still writes are kept up to date. What happens now is shown by tap and stall-check --watch.

    --sql asks the tables as --save keeps them: these six and brief_stalls, each with date, topic
    and trace_id. It takes SELECT over these tables, without functions that run other code or open
    files, and cannot be used with --remote. -o json: {"schema": "pulsar-doctor/analyze-sql/1",
    "columns", "rows", "more"}, at most 10,000 rows; jsonl: a row a line. It gives no verdict: the
    exit code is 0, or 4.
    """
    bucket_us = _microseconds(asked.bucket, "--bucket")
    where = _where_of(asked)
    _refuse_a_part(asked)
    if asked.save_format != "parquet" and not asked.save_dir:
        raise InputError(f"--format {asked.save_format} says how --save saves; give that, too")
    if asked.output == "jsonl" and asked.sql is None:
        raise InputError("-o jsonl is for --sql; an analysis is one document: -o json")
    return _analyze(where, bucket_us, asked)


def _where_of(asked: AnalyzeRequest) -> Where:
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


def _refuse_a_part(asked: AnalyzeRequest) -> None:
    """What is for whole traces only."""
    named = ("since", "until", "topic", "subscription")
    part = [f"--{name}" for name in named if getattr(asked, name) is not None]
    if part and asked.save_dir:
        raise InputError(
            f"--save keeps whole traces, and a part would take the place of one; leave out "
            f"{part[0]}, or ask for it with -o json or --sql"
        )


def _microseconds(seconds: float | None, option: str) -> int | None:
    if seconds is not None and seconds < 0.001:
        raise InputError(f"{option} must be 1ms or more")
    return None if seconds is None else round(seconds * 1e6)


def _analyze(where: Where, bucket_us: int | None, asked: AnalyzeRequest) -> int:
    with ExitStack() as stack:
        looked = _looked(asked, where)
        spark = _start_spark(stack, replace(where, few=looked.few))
        from pulsar_doctor.spark import analyzing, asking, reading_only, running
        from pulsar_doctor.spark.progress import progress as shown

        if asked.sql is not None:
            reading_only.require_parser(spark)

        def progress(what: str) -> AbstractContextManager[None]:
            return nullcontext() if told("quiet") else shown(spark, what)

        def answered(source: TraceSource, tables: Tables, step_us: int) -> SqlAnswer:
            with progress("asking"):
                return asking.answer(running.dated(tables), asked.sql or "")

        def analyzed(source: TraceSource, tables: Tables, step_us: int) -> Analysis:
            found = running.analyzed(source, tables, step_us, progress)
            return replace(found, stall_floor_seconds=asked.stall_floor)

        def tell(note: str) -> None:
            say(f"pulsar-doctor: {note}")

        make: Make[Analysis | SqlAnswer] = analyzed if asked.sql is None else answered
        wanted = _wish_of(asked, bucket_us)
        source, made = analyzing.analyze(spark, wanted, looked, make, progress, tell)
        if asked.save_dir:
            say(f"saved in {asked.save_dir}")
    if isinstance(made, asking.SqlAnswer):
        _print_answer(made, asked)
        return LEFT_OUT_CODE if source.left_out else 0
    _print(made, asked)
    return _code(made, asked)


def _looked(asked: AnalyzeRequest, where: Where) -> Looked:
    """What this machine can read of the traces is refused before Spark is waited for."""
    with _phase("looking at the traces"), needing("spark", "analyzing traces"):
        from pulsar_doctor.spark.reading import look
        from pulsar_doctor.spark.session import will_be_here

        here = will_be_here(where)
        return look(asked.traces, here=here, strict=asked.strict, selection=_selection_of(asked))


def _selection_of(asked: AnalyzeRequest) -> Selection:
    from pulsar_doctor.spark.selection import Selection

    return Selection(
        asked.since, asked.until, asked.topic, asked.subscription, proven_only=asked.proven_only
    )


def _wish_of(asked: AnalyzeRequest, bucket_us: int | None) -> Wish:
    from pulsar_doctor.spark.analyzing import Wish

    return Wish(
        traces=asked.traces,
        strict=asked.strict,
        selection=_selection_of(asked),
        bucket_us=bucket_us,
        stall_floor_us=round(asked.stall_floor * 1e6),
        save_dir=asked.save_dir,
        replace=asked.save_mode == "replace",
        lake=None if asked.save_format == "parquet" else asked.save_format,
    )


def _start_spark(stack: ExitStack, where: Where) -> SparkSession:
    with needing("spark", "analyzing traces"):
        from pulsar_doctor.spark.session import session

        with _phase("starting Spark"):
            return stack.enter_context(session(where))


def _phase(what: str) -> AbstractContextManager[None]:
    from pulsar_doctor.spark.progress import phase

    return nullcontext() if told("quiet") else phase(what)


def _print(analysis: Analysis, asked: AnalyzeRequest) -> None:
    from pulsar_doctor.report.analyze.analysis import analysis_json, report
    from pulsar_doctor.report.paper import console_on

    if asked.output == "json":
        tell_json(analysis_json(analysis), indent=1)
    else:
        console_on(stdout()).print(report(analysis, top=asked.top))


def _print_answer(answer: SqlAnswer, asked: AnalyzeRequest) -> None:
    from pulsar_doctor.report.analyze.answer import answer_json, answer_table
    from pulsar_doctor.report.paper import console_on

    if asked.output == "json":
        tell_json(answer_json(answer), indent=1)
    elif asked.output == "jsonl":
        for row in answer.rows:
            tell_json(row)
    else:
        console_on(stdout()).print(answer_table(answer))
    if answer.more:
        say(f"pulsar-doctor: the first {len(answer.rows):,} rows; there are more")


def _code(analysis: Analysis, asked: AnalyzeRequest) -> int:
    accepted(analysis.undecided, accept=asked.accept_unknown)
    code = analysis.exit_code(asked.fail_on, accept_unknown=asked.accept_unknown)
    return code or (LEFT_OUT_CODE if analysis.left_out else 0)
