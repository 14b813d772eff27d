"""`pulsar-doctor stall-check`: explains why a subscription is stuck, and what to do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from pulsar_doctor import installed
from pulsar_doctor.cli._calls import (
    PARTIAL,
    addresses_here,
    checks,
    connected,
    given,
    is_given,
    say,
    say_more,
    settings,
)
from pulsar_doctor.cli._commands import Sections, typed
from pulsar_doctor.cli._options import check_options, connection_options, taking
from pulsar_doctor.cli.stall_check.options import SECTIONS, StallCheckRequest, refuse_contradictions
from pulsar_doctor.cli.stall_check.writing import (
    code,
    early,
    head,
    report,
    require_something,
    streams,
    write,
)
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.report.stall_check import formats
from pulsar_doctor.report.stall_check.formats import FORMATS
from pulsar_doctor.wording.gate import complain, stdout, tell, tell_json

if TYPE_CHECKING:
    from pulsar_doctor.broker.sampling.joining import LastSamples
    from pulsar_doctor.broker.settings import Settings
    from pulsar_doctor.checkup.judge import Judge
    from pulsar_doctor.checkup.one_by_one import Progress
    from pulsar_doctor.checkup.recorded import ReadTrace
    from pulsar_doctor.checkup.result import Checkup
    from pulsar_doctor.cli.stall_check.watching import Shown
    from pulsar_doctor.diagnosis.verdict import Diagnosis
    from pulsar_doctor.report.progress import ProgressBar

    RoundHook = Callable[[Checkup, Iterable[Diagnosis]], Iterable[Diagnosis]]
    Talk = tuple[Callable[[str], None], Progress | None]


GROUP = "diagnose"


class ForMonitors(Sections):
    """Wrong usage, too, is reported in a format that has its own way to say that nothing was
    checked.

    To a monitor that reads -o nagios it is UNKNOWN (3): the code of wrong usage, 2, is CRITICAL.
    """

    sections = SECTIONS

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Click's own step from arguments to values."""
        given = " ".join(args).replace("=", " ")
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            output = re.search(rf"(?:-o ?|--output )({'|'.join(FORMATS)})\b", given)
            if output is None or not _wrote_failure(output[1], error.format_message()):
                raise
            raise click.exceptions.Exit(DoctorError.exit_code) from None


def _wrote_failure(output: str, why: str) -> bool:
    """Whether the format says on stdout that nothing could be checked; if so, it has now."""
    line = formats.failure(output, why)
    if line is not None:
        tell(line)
    return line is not None


def _print_schema(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from pulsar_doctor.report.schemas import of_verdicts

        tell_json(of_verdicts(), indent=2)
        context.exit()


@click.command(cls=ForMonitors)
@taking(StallCheckRequest)
@click.option(
    "--json-schema", is_flag=True, is_eager=True, expose_value=False, callback=_print_schema,
    help="Print the JSON Schema of -o json and -o jsonl, and end.",
)  # fmt: skip
@check_options
@connection_options
def command(request: StallCheckRequest) -> int:
    """Explains why a subscription is stuck, and what to do.

    Reads only. A TOPIC is orders, tenant/namespace/orders or a full name; a partitioned topic means
    all its partitions, a scalable one (topic://tenant/namespace/orders) all its segments. In a
    namespace, it first reads each broker's list of loaded topics, which is
    up to a minute old, and its metrics, which show where messages wait now. Topics that are not at
    rest in both are read once, and those that were not moving are watched for the whole window.
    Topics that no broker has loaded are listed, and not loaded.

    \b
    pulsar-doctor stall-check orders -s billing
    pulsar-doctor stall-check --namespace public/default -o json
    pulsar-doctor stall-check --all --watch --every 1m
    pulsar-doctor stall-check --all --watch -o jsonl | jq 'select(.status == "stalled")'
    pulsar-doctor stall-check --all --watch --listen 127.0.0.1:9464
    pulsar-doctor stall-check --all --watch --keep records
    pulsar-doctor stall-check orders -s billing --decide
    pulsar-doctor stall-check orders -s billing --consumers
    pulsar-doctor stall-check orders --save incident.gz
    pulsar-doctor stall-check --stats incident.gz
    pulsar-doctor stall-check orders --after incident.gz
    pulsar-admin topics stats orders | pulsar-doctor stall-check orders --stats -
    pulsar-doctor stall-check --trace incident.ptrace --set permits-exhausted.refill_wait=2m
    pulsar-doctor stall-check orders --trace live.ptrace
    pulsar-doctor stall-check --metrics http://broker:8080/metrics/
    pulsar-doctor stall-check --case incident.html
    pulsar-admin topics stats-internal orders | pulsar-doctor stall-check --internal-stats -

    -o json prints a document for each check, -o jsonl a line for each verdict; --json-schema
    describes them. Fields may be added.

    Exit codes: 0 nothing stalled; 1 a stall was found (see --fail-on); 2 wrong usage or input that
    cannot be read; 3 if a verdict is unknown or none was given (see --accept-unknown), something
    could not be read, or with --after a compared subscription is not healthy. If both 1 and 3
    apply, it is 1. Suspected causes do not count; --fail-on suspect gives 1 if a suspected stall
    has 60% or more. `pulsar-doctor explain healthy` lists what healthy needs. With -o nagios: 0 OK,
    1 WARNING, 2 CRITICAL, 3 UNKNOWN. Ctrl-C within a window, or among the subscriptions of a
    file, prints what is certain by then, and ends with 130. Ctrl-C ends --watch with the last
    round's code; before one has ended, with 130.
    """
    try:
        return _check(request)
    except DoctorError as error:
        if not _wrote_failure(request.output, str(error)):
            raise
        return DoctorError.exit_code


def _check(request: StallCheckRequest) -> int:
    refuse_contradictions(request)
    for name in () if request.live else given("VERDICT"):
        raise InputError(f"--{name} compares what a broker reports now; name topics, and no file")
    formats.require(request.output)  # before anything is watched
    if (case_file := request.case_file) is not None:
        return _again(case_file, request)
    judge = _judge(request)
    if request.after is not None:
        from pulsar_doctor.checkup.recorded import read_earlier

        judge = replace(judge, earlier=read_earlier(request.after, request.topics, judge))
    if request.metrics_url is not None:
        return report(_of_metrics(request.metrics_url, judge, request), request)
    trace, version = _trace(request), request.broker_version
    if trace is not None and not (request.files or request.topics):
        return report(_noted(_of_trace(trace, judge, request), trace, version), request)
    both = judge if trace is None else replace(judge, wires=trace.wires, wires_by=trace.reported_by)
    if request.files:
        return report(_noted(_of_files(both, request), trace, version), request)
    with connected(settings(headed=True)) as where:
        if request.watch:
            return _watch(where, judge, request)
        if trace is not None:
            return report(_noted(_of_both(where, trace, both, request), trace, version), request)
        return report(_of_broker(where, judge, request), request)


def _again(file: str, request: StallCheckRequest) -> int:
    """The verdicts of a case, with its thresholds and skipped causes, and those of this call."""
    from pulsar_doctor.checkup.case import of_case, read_case

    case = read_case(file)
    changes, skip = (*case.changes, *request.changes), (*case.head.skipped, *request.skip)
    request = replace(request, changes=changes, skip=tuple(dict.fromkeys(skip)))
    checkup = of_case(case, _judge(request), request.topics, file, _progress(request))
    checkup.broker_version = request.broker_version or checkup.broker_version
    if checkup.stopped:  # that call was; this one judges all of it
        say(PARTIAL)
        checkup.stopped = False
    return report(checkup, request)


def _noted(checkup: Checkup, trace: ReadTrace | None, version: str | None) -> Checkup:
    """With what is missing from the trace, if there is one, and the version that was given."""
    of_trace = None if trace is None else trace.broker_version
    checkup.trace_notes = () if trace is None else trace.notes
    checkup.broker_version = version or checkup.broker_version or of_trace
    return checkup


def _judge(request: StallCheckRequest) -> Judge:
    from pulsar_doctor.checkup.judge import Judge
    from pulsar_doctor.checkup.suppressions import read
    from pulsar_doctor.diagnosis.causes import named

    left_out = {cause.code for cause in named(request.skip)}
    causes, limits = checks(request.changes)
    causes = [cause for cause in causes if cause.code not in left_out]
    suppressions = read(request.suppressions)
    for sentence in suppressions.expired():
        complain(sentence)
    judge = Judge(causes, limits, request.subscription, suppress=suppressions.of)
    for part in installed.having("usual"):
        if options := given("VERDICT", part):
            judge = replace(judge, usual=installed.load(part, "usual").read(options))
    return judge


def _trace(request: StallCheckRequest) -> ReadTrace | None:
    from pulsar_doctor.broker.samples.bundled import trace_unpacked
    from pulsar_doctor.broker.samples.files import files_of_bundle
    from pulsar_doctor.checkup.recorded import read_trace

    folder = request.trace_dir
    if folder is None:
        return None
    with TemporaryDirectory() as room:
        files = files_of_bundle(str(folder)) if folder.is_file() else {}
        there = trace_unpacked(files, Path(room))
        if files and there is None:
            stats = shlex.join(["stall-check", "--stats", str(folder)])
            raise InputError(
                f"{folder} is a bundle without a trace, which `bundle --capture` adds; "
                f"`pulsar-doctor {stats}` judges its statistics"
            )
        read = read_trace(
            there or folder, say=say, say_more=say_more, proven_only=request.proven_only
        )
    return replace(read, folder=folder)


def _of_trace(trace: ReadTrace, judge: Judge, request: StallCheckRequest) -> Checkup:
    from pulsar_doctor.checkup.recorded import of_trace

    return of_trace(trace, request.topics, judge)


def _of_both(where: Settings, trace: ReadTrace, both: Judge, request: StallCheckRequest) -> Checkup:
    """The live broker and a trace together; the trace alone where the broker cannot be reached."""
    from pulsar_doctor.broker.admin import AdminError

    try:
        checkup = _of_broker(where, both, request)
    except (AdminError, InputError) as error:  # the end of a name is enough for a trace
        why = str(error)
    else:
        if checkup.diagnoses or not checkup.unreachable:
            checkup.files = (str(trace.folder),)
            return checkup
        why = checkup.unreachable[0][1]
    say(f"the broker could not be read, so this is from the trace alone: {why}")
    return _of_trace(trace, both, request)


def _of_files(judge: Judge, request: StallCheckRequest) -> Checkup:
    from pulsar_doctor.checkup.recorded import of_files

    apart = request.interval_seconds if typed("interval_seconds") else None
    files = replace(request.files, named=request.topics, apart_seconds=apart)
    return of_files(files, judge, say, _progress(request))


def _of_metrics(url: str, judge: Judge, request: StallCheckRequest) -> Checkup:
    from pulsar_doctor.broker.scraping import address_of
    from pulsar_doctor.checkup.scraped import of_metrics

    address, window = address_of(url, settings()), request.window_seconds
    found = of_metrics(address, request.topics, window, judge, say, _progress(request))
    return _noted(found, None, request.broker_version)


def _progress(request: StallCheckRequest) -> ProgressBar:
    """How far it is, on stderr; nothing where the verdicts themselves show it."""
    from pulsar_doctor.report.progress import ProgressBar

    return ProgressBar(quiet=is_given("quiet") or streams(request))


def _of_broker(
    where: Settings,
    judge: Judge,
    request: StallCheckRequest,
    *,
    talk: Talk | None = None,
    kept: LastSamples | None = None,
) -> Checkup:
    from pulsar_doctor.broker.fleet import Scope
    from pulsar_doctor.broker.sampling import SamplingPlan
    from pulsar_doctor.checkup.live import LiveRequest, of_topics
    from pulsar_doctor.checkup.namespaces import of_fleet

    judge = replace(judge, addresses=addresses_here())
    tell, progress = talk or (say, None)
    asking = LiveRequest(
        where,
        SamplingPlan(request.window_seconds, request.interval_seconds),
        request.concurrency,
        request.save,
        tell,
        progress or _progress(request),
        request.decide_seconds if request.decide else None,
        kept,
        early(request),
    )
    if request.topics:
        return of_topics(asking, request.topics, judge)
    scope = Scope(request.namespaces, system=request.system_topics, load=request.load_topics)
    return of_fleet(asking, scope, judge)


def _watch(where: Settings, judge: Judge, request: StallCheckRequest) -> int:
    from pulsar_doctor.broker.sampling.joining import LastSamples
    from pulsar_doctor.checkup.steadying import Steadying
    from pulsar_doctor.cli.stall_check.watching import watch

    kept, steadying = LastSamples(), Steadying()
    judge = replace(judge, keep_views=bool(given("WATCH")))

    def check(tell: Callable[[str], None], progress: Progress | None) -> Checkup:
        checkup = _of_broker(where, judge, request, talk=(tell, progress), kept=kept)
        require_something(checkup, request)
        steadying.through(checkup, alone=formats.carries(request.output, "steady"))
        for each in hooks:
            checkup.diagnoses = each(checkup, checkup.diagnoses)
        return checkup

    def show(checkup: Checkup) -> None:
        write(checkup, request)
        for change in steadying.changes:
            say(str(change))

    screen = formats.is_for_people(request.output)
    with _shown(head(where, request), show, screen=screen) as rounds, _beside(request) as hooks:
        every = request.every_seconds
        return watch(check, rounds, every_seconds=every, code=lambda tally: code(tally, request))


@contextmanager
def _beside(request: StallCheckRequest) -> Iterator[list[RoundHook]]:
    """What verdicts pass through: of the parts with an option that was given, such as --listen."""
    named, every = not request.fleet, request.every_seconds
    hooks: list[RoundHook] = []
    with ExitStack() as stack:
        for part in installed.having("rounds"):
            if options := given("WATCH", part):
                beside = installed.load(part, "rounds").beside
                hooks.append(stack.enter_context(beside(options, named=named, every=every)))
        yield hooks


@contextmanager
def _shown(head: str, write: Callable[[Checkup], None], *, screen: bool) -> Iterator[Shown]:
    """For people a screen on a terminal, or lines in a pipe; else documents, as `write` does."""
    from pulsar_doctor.cli.stall_check.watching import WrittenRounds

    if not screen:
        yield WrittenRounds(write)
        return
    from pulsar_doctor.report.paper import console_on
    from pulsar_doctor.report.stall_check.round_lines import RoundLines
    from pulsar_doctor.report.stall_check.round_screen import RoundScreen

    console = console_on(stdout())
    if stdout().isatty() and not console.is_dumb_terminal:
        with RoundScreen(console, head) as rounds:
            yield rounds
        return
    yield WrittenRounds(RoundLines(stdout()).show)
