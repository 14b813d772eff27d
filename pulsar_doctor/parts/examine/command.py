"""`pulsar-doctor examine`: examines a running client from outside, or attaches to it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from pulsar_doctor.cli._calls import (
    accepted,
    addresses_here,
    checks,
    connected,
    ended,
    is_given,
    live_request,
    reach,
    say,
    settings,
)
from pulsar_doctor.cli._commands import Sections
from pulsar_doctor.cli._options import (
    accept_unknown_option,
    argument,
    connection_options,
    fail_on_option,
    interval_option,
    option,
    output_option,
    set_option,
    taking,
    topics_argument,
    window_option,
)
from pulsar_doctor.errors import DoctorError, needing, require_linux
from pulsar_doctor.wording.addresses import bare
from pulsar_doctor.wording.gate import stderr, stdout

if TYPE_CHECKING:
    from pulsar_doctor.broker.settings import Settings
    from pulsar_doctor.checkup.in_process import InProcess
    from pulsar_doctor.checkup.judge import Judge
    from pulsar_doctor.checkup.live import LiveRequest
    from pulsar_doctor.checkup.result import Checkup
    from pulsar_doctor.diagnosis.status import AcceptUnknown, FailOn
    from pulsar_doctor.evidence.numbers import ReportedConsumer
    from pulsar_doctor.parts.examine.identity import Process
    from pulsar_doctor.parts.examine.looking import Looking

GROUP = "diagnose"
ELSEWHERE = (
    "its packets were not read: it has a network of its own; run this in there (nsenter --net), or "
    "capture beside it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamineRequest:
    """One call, as it was typed."""

    # fmt: off
    client: str | None = argument(metavar="[PID|ADDRESS|NAME]", required=False)
    topics: tuple[str, ...] = topics_argument()
    container: str | None = option(
        "--container", metavar="ID|NAME",
        help="Instead of a PID: the process in this container, by its id or, as root, its host "
        "name (a pod's).",
    )
    attach: bool | None = option(
        "--attach/--no-attach", default=None,
        help="Also read inside the process, after saying so; without it a terminal asks you.",
    )
    goroutines: str | None = option(
        "--goroutines", metavar="URL|FILE",
        help="Of a Go program: read where its goroutines are, from the address of its pprof page "
        "(http://HOST:PORT), or from a file that holds such a dump.",
    )
    capture: bool = option(
        "--capture/--no-capture", default=True, show_default=True,
        help="Also read the packets of its connections, if that is allowed (Linux, CAP_NET_RAW).",
    )
    window_seconds: float = window_option(
        default="5s", help="How long to watch the broker's stats and the process."
    )
    interval_seconds: float = interval_option()
    save: Path | None = option(
        "--save", metavar="FILE", type=click.Path(path_type=Path),
        help="Keep the samples of the stats in this file, as stall-check does.",
    )
    changes: tuple[str, ...] = set_option()
    fail_on: FailOn = fail_on_option()
    accept_unknown: AcceptUnknown | None = accept_unknown_option()
    output: Literal["table", "json"] = output_option("table", "json")
    # fmt: on


@click.command(cls=Sections)
@taking(ExamineRequest)
@connection_options
def command(request: ExamineRequest) -> int:
    """Examines a running client, without a restart.

    Always from outside: the connections of the process by the kernel's socket table, and the
    consumers at their other ends, among all topics that the brokers list as loaded (updated once a
    minute) or among the TOPICs that you name. If packets may be captured, it also reads what passes
    on the connections during the window. Nothing is written to the process, sent to it or read from
    it. This needs Linux.

    With --attach, also from inside. A JVM (HotSpot, Java 8 and later) reports each consumer's
    unsent permits, queue, waiting messages, whether it is paused, the line in which its listener or
    its application is blocked, and for how long. Python, with the extra [examine], reports the line
    of each thread. A Go program reports where its goroutines are by its own pprof page, or in a
    file: --goroutines. Other programs, including native images of GraalVM, cannot be attached to;
    it then says how to examine them. The process must be yours, or you must be root. It may be in a
    container: give its PID as this machine sees it, or --container, which finds the only JVM in the
    container, or else the only Python, or the only process.

    Instead of a PID, give the client's address as the broker reports it, or the name of a consumer
    that one process of this machine has. The name is looked up at the broker, in the TOPICs or in
    all that are loaded. Behind a proxy or NAT the address is not the client's own.

    \b
    pulsar-doctor examine 4711
    pulsar-doctor examine 4711 --attach
    pulsar-doctor examine 127.0.0.1:58758 --attach
    pulsar-doctor examine billing-worker-3 orders --attach
    pulsar-doctor examine 4711 --goroutines http://127.0.0.1:6060
    pulsar-doctor examine 4711 --attach -o json | jq .process.consumers
    pulsar-doctor examine --container billing-7c9f --attach
    pulsar-doctor examine $(pgrep -f billing.jar) --attach --admin-url http://broker:8080

    The process and the broker together give one verdict. If one of them cannot be read, it says so
    and uses the other. -o json prints the document of stall-check, with the process in `process`.

    Exit codes: 0 nothing stalled; 1 a stall was found (see --fail-on); 2 wrong usage, or no such
    process; 3 where a verdict is unknown (see --accept-unknown) or something could not be read.
    If both 1 and 3 apply, it is 1.
    """
    require_linux("examine", "run it on the machine of the process, or try `stall-check TOPIC`")
    from pulsar_doctor.parts.examine.looking import Looking, will_do

    with connected(settings(headed=True)) as where:
        process = _meant(request, where)
        if request.goroutines is not None:
            _dumped(process, request.goroutines)
        inside = _wanted(request, will_do(process))
        looking = Looking.at(process.pid, inside=inside, goroutines=request.goroutines)
        checkup = _checkup(looking, request, where)
    return _report(checkup, request)


def _meant(request: ExamineRequest, where: Settings) -> Process:
    from pulsar_doctor.parts.examine.by_client import process_of
    from pulsar_doctor.parts.examine.containers import in_container

    if request.container is not None:
        return in_container(request.container)
    if request.client is None:
        raise click.UsageError("give a PID, a client's address, a consumer's name, or --container")
    return process_of(request.client, lambda: _consumers(request, where))


def _consumers(request: ExamineRequest, where: Settings) -> Iterator[ReportedConsumer]:
    """The consumers that the broker reports, on the named topics or on all that are loaded."""
    from pulsar_doctor.broker.sampling import SamplingPlan
    from pulsar_doctor.checkup.judge import Judge

    now = live_request(where, SamplingPlan(0.0, limits=False, internal=False))
    try:
        found = _read(now, _topics(request), Judge(*checks()))
        if not found.diagnoses and found.unreachable:
            raise DoctorError("; ".join(why for _, why in found.unreachable))
    except DoctorError as error:
        what = f"{request.client!r} is not a PID or an address, and no consumer's name is known"
        raise DoctorError(f"{what}: {error}") from None
    return (each for one in found.diagnoses for each in one.consumers or ())


def _dumped(process: Process, source: str) -> None:
    """Says what reading its goroutines does. UsageError where it has none."""
    if process.kind != "go":
        raise click.UsageError(f"process {process.pid} ({process.name}) is not a Go program")
    if "://" in source:
        say(f"examine --goroutines asks {bare(source)} for two dumps: each stops it for a moment")


def _topics(request: ExamineRequest) -> tuple[str, ...]:
    """With --container the first word is one, too."""
    first = () if request.container is None or request.client is None else (request.client,)
    return (*first, *request.topics)


def _wanted(request: ExamineRequest, will: str) -> bool:
    """Whether the process itself may be examined; what will be done is announced first."""
    if request.attach:
        if will:
            say(f"examine --attach {will}")
        return True
    if request.attach is False or not (will and sys.stdin.isatty() and stderr().isatty()):
        return False
    say(f"--attach {will}")
    return click.confirm("Ask the process itself?", default=False, err=True)


def _checkup(looking: Looking, request: ExamineRequest, where: Settings) -> Checkup:
    from pulsar_doctor.broker.sampling import SamplingPlan
    from pulsar_doctor.checkup.in_process import InProcess
    from pulsar_doctor.checkup.judge import Judge
    from pulsar_doctor.checkup.result import Checkup

    process = InProcess(looking.report(), looking.again)
    here = addresses_here()
    judge = Judge(*checks(request.changes), wires_by="capture", process=process, addresses=here)
    with ExitStack() as stack:
        if request.capture:
            _capture(process, where, request, stack)
        try:
            plan = SamplingPlan(request.window_seconds, request.interval_seconds)
            asking = live_request(where, plan, request.save)
            checkup = _read(asking, [*process.topics, *_topics(request)], judge)
        except DoctorError as error:
            say(f"the broker could not be read, so this is from the process alone: {error}")
            checkup = Checkup("process")
            checkup.unreachable.append(("(the broker)", str(error)))
            time.sleep(request.window_seconds)  # until the second look
        process.conclude(checkup, judge.diagnosed)
    return checkup


def _capture(
    process: InProcess, where: Settings, request: ExamineRequest, stack: ExitStack
) -> None:
    """Begins to capture its connections, or notes why not."""
    from pulsar_doctor.parts.examine.sockets import same_network

    if not process.begun.connections:
        return
    if not same_network(process.begun.pid):
        process.not_captured.append(ELSEWHERE)
        return
    try:
        with needing("trace", "reading its packets"):
            from pulsar_doctor.parts.capture.background import BackgroundCapture, CapturedPart

        topics = [*process.topics, *_topics(request)]
        part = CapturedPart.of(process.begun.connections)
        capture = BackgroundCapture(part, where, topics, process.not_captured.append)
    except DoctorError as error:
        process.not_captured.append(f"its packets were not read: {error}")
        return
    process.captured = stack.enter_context(capture).wires


def _read(asking: LiveRequest, topics: Sequence[str], judge: Judge) -> Checkup:
    """These topics; without any, all that are loaded."""
    from pulsar_doctor.broker.fleet import Scope
    from pulsar_doctor.checkup.live import of_topics
    from pulsar_doctor.checkup.namespaces import of_fleet

    if topics:
        return of_topics(asking, topics, judge)
    checkup = of_fleet(asking, Scope(), judge)
    checkup.diagnoses = list(checkup.diagnoses)
    checkup.not_loaded.clear()  # nobody named them
    return checkup


def _report(checkup: Checkup, request: ExamineRequest) -> int:
    from pulsar_doctor.parts.examine import report as screen
    from pulsar_doctor.report.stall_check import formats
    from pulsar_doctor.report.stall_check.wanted import Wanted
    from pulsar_doctor.wording.gate import complain

    assert checkup.process is not None
    if request.output == "table":
        screen.write(checkup.process, stdout())
    wanted = Wanted(
        request.fail_on,
        verbose=is_given("verbose"),
        header=not is_given("quiet"),
        consumers=True,
        accept_unknown=request.accept_unknown,
        reach=reach(),
    )
    if not checkup.diagnoses:
        complain(
            "no consumer of the cluster is known at the other end of its "
            f"{len(checkup.process.connections or ())} connections: "
            "behind a proxy or NAT the broker sees other addresses, and only --attach tells"
        )
    if checkup.diagnoses or request.output == "json":
        formats.write(request.output, checkup, stdout(), wanted=wanted)
    tally = checkup.tally
    accepted(tally.accepted(wanted.accept_unknown), wanted.accept_unknown)
    return ended(checkup, tally.exit_code(request.fail_on, request.accept_unknown))
