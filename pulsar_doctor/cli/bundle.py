"""`pulsar-doctor bundle`: collects what a colleague needs to judge a topic, in one file."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from pulsar_doctor import installed
from pulsar_doctor.cli._calls import (
    checks,
    connected,
    ended,
    live_request,
    say,
    settings,
    write_whole,
)
from pulsar_doctor.cli._commands import Sections, first_typed
from pulsar_doctor.cli._options import (
    connection_options,
    interval_option,
    only_subscription_option,
    option,
    redact_option,
    taking,
    topics_argument,
    window_option,
)
from pulsar_doctor.cli._types import DURATION
from pulsar_doctor.errors import DoctorError, InputError, needing, require_linux

if TYPE_CHECKING:
    from pulsar_doctor.broker.settings import Settings
    from pulsar_doctor.checkup.bundle import BundleParts
    from pulsar_doctor.checkup.in_process import InProcess
    from pulsar_doctor.checkup.judge import Judge

GROUP = "diagnose"
PORT = re.compile(r":(\d+)(?=[,/]|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRequest:
    """One call, as it was typed."""

    # fmt: off
    topics: tuple[str, ...] = topics_argument()
    subscription: str | None = only_subscription_option(help="Verdicts on this subscription only.")
    output: Path = option(
        "-o", "--output", metavar="FILE", required=True, type=click.Path(path_type=Path),
        help="Write the bundle here (.tar.gz); a file that exists is not replaced.",
    )
    files: tuple[str, ...] = option(
        "--stats", metavar="FILE", multiple=True,
        help="Ask no broker: bundle what this file shows, one of those that `stall-check --stats` "
        "takes. Repeated: the oldest first.",
    )
    redact: bool = redact_option()
    capture_seconds: float | None = option(
        "--capture", metavar="[DURATION]", type=DURATION, is_flag=False, flag_value="60s",
        help="Also capture the packets of this machine's clients, for so long [60s] (Linux, "
        "CAP_NET_RAW); the broker is watched for at least as long.",
    )
    pid: int | None = option(
        "--examine", metavar="PID", type=int,
        help="Also examine this running client, as `examine` does: from outside.",
    )
    attach: bool = option(
        "--attach", is_flag=True, needs=("pid",),
        help="With --examine: also read inside the process, after saying what that does.",
    )
    window_seconds: float = window_option(default="10s", help="How long the broker is watched.")
    interval_seconds: float = interval_option()
    # fmt: on


@click.command(cls=Sections)
@taking(BundleRequest)
@connection_options
def command(request: BundleRequest) -> int:
    """Collects what a colleague needs to judge a topic.

    Reads only. A TOPIC is orders, tenant/namespace/orders or a full name; a partitioned topic means
    all its partitions. The bundle contains samples of the statistics and internal statistics over
    the window, the versions of broker and clients, settings of the broker that matter for
    deliveries, and what the verdicts were made of. The first file in it, README.txt, says what it
    contains and what was left out; the same text is printed. Payloads, keys and credentials are
    never in it.

    With --stats it asks no broker: it contains what verdicts on these files were made of, not the
    files.

    With --capture it also contains a trace of the packets that clients on this machine exchange
    with the brokers' port, and the verdicts know it; --redact leaves the trace out. With --examine
    the verdicts also know what is seen of that process.

    \b
    pulsar-doctor bundle orders -s billing -o incident.tar.gz
    pulsar-doctor bundle orders -o incident.tar.gz --redact
    pulsar-doctor bundle orders -o incident.tar.gz --capture --examine 4711
    pulsar-doctor bundle --stats stats.json --stats jstack.txt -o incident.tar.gz
    pulsar-doctor stall-check --case incident.tar.gz
    pulsar-doctor stall-check --stats incident.tar.gz
    pulsar-doctor report incident.tar.gz -o incident.html

    Exit codes: 0 the bundle is written, whatever the verdicts; 2 wrong usage, or FILE exists; 3
    the topic could not be read, or FILE could not be written; 130 Ctrl-C ended the window: the
    bundle contains what was read until then.
    """
    from pulsar_doctor.broker.sample_files import SampleFiles
    from pulsar_doctor.broker.samples.bundled import README, packed
    from pulsar_doctor.broker.sampling import SamplingPlan
    from pulsar_doctor.checkup.bundle import BundleParts, of_files, of_live
    from pulsar_doctor.checkup.judge import Judge
    from pulsar_doctor.checkup.redacting import Pseudonyms
    from pulsar_doctor.report.paper import print_page

    _check_free(request.output)
    _check_source(request)
    judge = Judge(
        *checks(), request.subscription, process=_process(request), every=True, keep_views=True
    )
    parts = BundleParts(Pseudonyms() if request.redact else None)
    if request.files:
        made = of_files(SampleFiles(request.files, named=request.topics), judge, parts, say)
    else:
        seconds = max(request.window_seconds, request.capture_seconds or 0)
        plan = SamplingPlan(seconds, request.interval_seconds)
        with ExitStack() as stack:
            where = stack.enter_context(connected(settings(headed=True)))
            judge, parts = _capturing(request, (judge, parts), where, stack)
            made = of_live(live_request(where, plan), request.topics, judge, parts)
    write_whole(request.output, packed(made.files))
    print_page(*made.files[README].decode().splitlines())
    return ended(made.checkup, 0, shown=True)


def _check_source(request: BundleRequest) -> None:
    """Raises InputError where neither a topic nor a file is named, or both a file and a client."""
    if not (request.topics or request.files):
        raise InputError("name a TOPIC, or give --stats FILE")
    which = first_typed("capture_seconds", "pid", "window_seconds", "interval_seconds")
    if request.files and which:
        raise InputError(f"{which} is of a live broker, and --stats uses none; leave one out")


def _process(request: BundleRequest) -> InProcess | None:
    """What is seen of the process from now on. Raises InputError where there is none."""
    if request.pid is None:
        return None
    require_linux("bundle --examine", "run it on the machine of the process")
    from pulsar_doctor.checkup.in_process import InProcess

    meant = installed.load("examine", "identity").process(request.pid)
    examining = installed.load("examine", "looking")
    if request.attach and (does := examining.will_do(meant)):
        say(f"--attach {does}")
    looking = examining.Looking.at(meant.pid, inside=request.attach)
    return InProcess(looking.report(), looking.again)


def _capturing(
    request: BundleRequest, known: tuple[Judge, BundleParts], where: Settings, stack: ExitStack
) -> tuple[Judge, BundleParts]:
    """Begins to capture, where that is requested and possible; until the stack ends."""
    from pulsar_doctor.broker.samples.bundled import TRACE

    judge, parts = known
    if request.capture_seconds is None:
        return judge, parts
    require_linux("bundle --capture", "capture packets with tcpdump, see `capture`")
    with needing("trace", "capturing"):
        capturing = installed.load("capture", "background")
    trace = Path(stack.enter_context(TemporaryDirectory()), TRACE)
    ports = [int(port) for port in PORT.findall(where.service_url)] or [6650]
    try:
        part = capturing.CapturedPart(ports)
        capture = capturing.BackgroundCapture(part, where, request.topics, say, trace)
    except DoctorError as error:
        say(f"no packets: {error}")
        return judge, replace(parts, left_out=(f"packets: {error}",))
    wires = stack.enter_context(capture).wires
    return replace(judge, captured=wires, wires_by="capture"), replace(parts, trace=trace)


def _check_free(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists already; name another file")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is not a folder")
