"""pulsar-doctor stall-check: the verdict on each subscription, with the numbers and a remedy."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pulsar_doctor.cli._options import (
    DURATION,
    connection_options,
    fail_on_option,
    output_option,
    say,
    say_more,
    set_option,
    settings,
    together,
    told,
)
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.report.formats import FORMATS

if TYPE_CHECKING:
    from pulsar_doctor.diagnosis import Status
    from pulsar_doctor.examination import Judge
    from pulsar_doctor.examination.live import Progress
    from pulsar_doctor.report.checkup import Checkup, Tally
    from pulsar_doctor.settings import Settings

    Talk = tuple[Callable[[str], None], Progress | None]

EVERY_LEAST_SECONDS = 5.0
FROM_A_BROKER = {
    "namespaces": "--namespace",
    "everything": "--all",
    "load_topics": "--load-topics",
    "system_topics": "--system-topics",
    "save": "--save",
    "watch": "--watch",
}

# What tells where the verdict comes from.
source_options = together(
    click.option(
        "--window", "window_seconds", type=DURATION, default="10s", show_default=True,
        help="How long a broker is watched; 0s judges one sample.",
    ),
    click.option(
        "--interval", "interval_seconds", type=DURATION, default="1s", show_default=True,
        help="From one sample to the next; also between files without a time.",
    ),
    click.option(
        "--namespace", "namespaces", metavar="NS", multiple=True,
        help="All topics of tenant/namespace; may be repeated.",
    ),
    click.option(
        "--all", "everything", is_flag=True,
        help="All topics of all namespaces that these credentials can list.",
    ),
    click.option(
        "--load-topics", is_flag=True,
        help="Read topics too that no broker has loaded: that loads them.",
    ),
    click.option(
        "--system-topics", is_flag=True, help="Do not leave out Pulsar's own topics."
    ),
    click.option(
        "--concurrency", type=click.IntRange(1, 512), default=32, show_default=True,
        help="Questions to the brokers at once.",
    ),
    click.option(
        "--save", metavar="FILE", type=click.Path(path_type=Path),
        help="Keep the samples, for --stats.",
    ),
    click.option(
        "--stats", "stats_files", metavar="FILE", multiple=True,
        help="Judge a file of --save, or what `pulsar-admin topics stats` (or "
        "partitioned-stats) printed; - is stdin. Repeated: samples, the oldest first.",
    ),
    click.option(
        "--internal-stats", "internal_files", metavar="FILE", multiple=True,
        help="What `pulsar-admin topics stats-internal` printed at the same moment.",
    ),
    click.option(
        "--at", metavar="TIME", help="When the last file was taken, by the broker's clock."
    ),
    click.option(
        "--trace", "trace_dir", metavar="DIR", type=click.Path(path_type=Path),
        help="Judge what went over the wire, as `tap` or `consume` recorded it.",
    ),
)  # fmt: skip


class ForMonitors(click.Command):
    """With -o nagios wrong usage too is UNKNOWN: its own code, 2, is CRITICAL to a monitor."""

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
            if not re.search(r"(-o ?|--output )nagios\b", given):
                raise
            _say_unknown(error.format_message())
            raise click.exceptions.Exit(DoctorError.exit_code) from None


def _say_unknown(why: str) -> None:
    click.echo(f"PULSAR STALL-CHECK UNKNOWN - {why.replace('|', '/')}")


@click.command(cls=ForMonitors)
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@click.option("-s", "--subscription", metavar="SUB", help="Only this subscription.")
@source_options
@set_option
@click.option("--skip", metavar="CODE", multiple=True, help="Leave out a rule; may be repeated.")
@fail_on_option
@click.option(
    "--watch",
    is_flag=True,
    help="Check again and again until Ctrl-C: on one screen, in a pipe as lines with their time.",
)
@click.option(
    "--every", "every_seconds", type=DURATION, default="30s", show_default=True,
    help="With --watch: from one check to the next, at least 5s.",
)  # fmt: skip
@output_option(*FORMATS)
@connection_options
def command(topics: tuple[str, ...], **asked: Any) -> int:
    """Says of each subscription whether it stands still, why, and what to do.

    Reads only. A TOPIC is orders, tenant/namespace/orders or a full name; a partitioned topic
    stands for its partitions. A namespace is looked through by what each broker tells of the
    topics that it has loaded; topics that look suspicious are then watched, and topics that no
    broker has loaded are listed, not woken.

    \b
    pulsar-doctor stall-check orders -s billing
    pulsar-doctor stall-check --namespace public/default -o json
    pulsar-doctor stall-check --all --watch --every 1m
    pulsar-doctor stall-check --all --watch -o jsonl | jq 'select(.status == "stalled")'
    pulsar-doctor stall-check orders --save incident.gz
    pulsar-doctor stall-check --stats incident.gz
    pulsar-admin topics stats orders | pulsar-doctor stall-check orders --stats -
    pulsar-doctor stall-check --trace incident.ptrace --set permits-exhausted.refill_wait=2m

    -o json is a document for each check, -o jsonl a line for each verdict.

    Exit codes: 0 nothing stalled; 1 a stall was found (see --fail-on); 2 wrong usage or input that
    cannot be read; 3 where a verdict is unknown or something could not be read. 1 outranks 3. With
    -o nagios: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    """
    if asked["output"] != "nagios":
        return _check(topics, asked)
    try:
        return _check(topics, asked)
    except DoctorError as error:  # a monitor reads stdout and the codes of its plug-ins only
        _say_unknown(str(error))
        return DoctorError.exit_code


def _check(topics: tuple[str, ...], asked: dict[str, Any]) -> int:
    _refuse_contradictions(topics, asked)
    judge = _judge(asked)
    if asked["trace_dir"] is not None:
        return _report(_of_trace(topics, judge, asked), asked)
    if asked["stats_files"] or asked["internal_files"]:
        return _report(_of_files(topics, judge, asked), asked)
    with ExitStack() as stack:
        where = settings()
        if where.sandbox:
            from pulsar_doctor.sandbox import connected

            where = stack.enter_context(connected(where, say))
        if asked["watch"]:
            return _watch(where, topics, judge, asked)
        return _report(_of_broker(where, topics, judge, asked), asked)


def _refuse_contradictions(topics: tuple[str, ...], asked: dict[str, Any]) -> None:
    """Raises InputError where the arguments do not say one thing."""
    files = bool(asked["stats_files"] or asked["internal_files"])
    trace, fleet = asked["trace_dir"] is not None, asked["namespaces"] or asked["everything"]
    if trace and files:
        raise InputError("--trace and --stats are two sources; give one of them")
    if trace or files:
        source = "--trace" if trace else "--stats"
        for name, option in FROM_A_BROKER.items():
            if asked[name]:
                raise InputError(f"{option} asks a broker, {source} asks none; leave one out")
    if asked["at"] is not None and not files:
        raise InputError("--at is the time of a file; it needs --stats")
    if asked["namespaces"] and asked["everything"]:
        raise InputError("--all is every namespace; leave it out, or leave out --namespace")
    if topics and fleet:
        raise InputError("name topics, or give --namespace or --all; not both")
    if not (topics or fleet or trace or files):
        raise InputError(
            "what is to be checked? Name a TOPIC, or give --namespace NS, --all, --stats FILE "
            "or --trace DIR"
        )
    if asked["interval_seconds"] <= 0:
        raise InputError("samples cannot lie 0s apart; see --interval")
    if asked["watch"] and asked["every_seconds"] < EVERY_LEAST_SECONDS:
        raise InputError(f"--every is at least {EVERY_LEAST_SECONDS:g}s: a cluster is no toy")


def _judge(asked: dict[str, Any]) -> Judge:
    from pulsar_doctor.diagnosis import limits_of
    from pulsar_doctor.examination import Judge
    from pulsar_doctor.rules import load, named

    left_out = {rule.code for rule in named(asked["skip"])}
    limits = limits_of(load(), asked["changes"])
    rules = [rule for rule in load() if rule.code not in left_out]
    return Judge(rules, limits, asked["subscription"])


def _of_trace(topics: tuple[str, ...], judge: Judge, asked: dict[str, Any]) -> Checkup:
    from pulsar_doctor.examination import of_trace

    return of_trace(asked["trace_dir"], topics, judge, say=say, say_more=say_more)


def _of_files(topics: tuple[str, ...], judge: Judge, asked: dict[str, Any]) -> Checkup:
    from pulsar_doctor.examination import of_files
    from pulsar_doctor.samples import moment_ms

    return of_files(
        asked["stats_files"],
        asked["internal_files"],
        judge,
        topics=topics,
        at_ms=None if asked["at"] is None else moment_ms(asked["at"]),
        interval_seconds=asked["interval_seconds"],
        say=say,
    )


def _of_broker(
    where: Settings,
    topics: tuple[str, ...],
    judge: Judge,
    asked: dict[str, Any],
    *,
    talk: Talk | None = None,
) -> Checkup:
    from pulsar_doctor.examination import Asking, of_fleet, of_topics
    from pulsar_doctor.fleet import Scope
    from pulsar_doctor.report.progress import Progress
    from pulsar_doctor.sampling import Plan

    tell, progress = talk or (say, None)
    asking = Asking(
        where,
        Plan(asked["window_seconds"], asked["interval_seconds"]),
        asked["concurrency"],
        asked["save"],
        tell,
        progress or Progress(quiet=told("quiet") or _streams(asked)),
    )
    if topics:
        return of_topics(asking, topics, judge)
    scope = Scope(asked["namespaces"], system=asked["system_topics"], load=asked["load_topics"])
    return of_fleet(asking, scope, judge)


def _streams(asked: dict[str, Any]) -> bool:
    """Whether verdicts are written to the terminal while the next ones are looked for."""
    return asked["output"] != "table" and sys.stdout.isatty()


def _report(checkup: Checkup, asked: dict[str, Any]) -> int:
    """Writes the verdicts; returns the exit code."""
    _require_something(checkup, asked)
    _write(checkup, asked)
    return _code(checkup.tally, asked)


def _require_something(checkup: Checkup, asked: dict[str, Any]) -> None:
    """Raises DoctorError where a person would read of nothing but what could not be read."""
    from pulsar_doctor.report.unread import sentences

    nothing = checkup.diagnoses == [] and not (checkup.not_loaded or checkup.notes)
    if asked["output"] == "table" and nothing and checkup.unreachable:
        raise DoctorError("; ".join(sentences(checkup)))


def _write(checkup: Checkup, asked: dict[str, Any]) -> None:
    """The verdicts on stdout; on stderr what else there is, where stdout has no place for it."""
    from pulsar_doctor.report import formats
    from pulsar_doctor.report.checkup import Wanted
    from pulsar_doctor.report.unread import sentences

    wanted = Wanted(_fails(asked), verbose=told("verbose"))
    formats.write(asked["output"], checkup, sys.stdout, wanted=wanted)
    if asked["output"] not in ("table", "json"):
        for _, note in checkup.notes:
            say(note)
    if asked["output"] != "table":
        for sentence in sentences(checkup):
            click.echo(f"pulsar-doctor: {sentence}", err=True)


def _fails(asked: dict[str, Any]) -> AbstractSet[Status]:
    from pulsar_doctor.diagnosis import FAILS

    return FAILS[asked["fail_on"]]


def _code(tally: Tally, asked: dict[str, Any]) -> int:
    if asked["output"] == "nagios":
        from pulsar_doctor.report import nagios

        return nagios.exit_code(tally)
    if any(tally.counts[status] for status in _fails(asked)):
        return 1
    return DoctorError.exit_code if tally.counts["unknown"] or tally.unreachable else 0


def _watch(where: Settings, topics: tuple[str, ...], judge: Judge, asked: dict[str, Any]) -> int:
    from pulsar_doctor.cli._watching import shown, watch

    def check(tell: Callable[[str], None], progress: Progress | None) -> Checkup:
        checkup = _of_broker(where, topics, judge, asked, talk=(tell, progress))
        _require_something(checkup, asked)
        return checkup

    def write(checkup: Checkup) -> None:
        _write(checkup, asked)

    with shown(asked["output"], _head(where, topics, asked), write) as rounds:
        every = asked["every_seconds"]
        return watch(check, rounds, every_seconds=every, code=lambda tally: _code(tally, asked))


def _head(where: Settings, topics: tuple[str, ...], asked: dict[str, Any]) -> str:
    """What is watched, and where."""
    from pulsar_doctor.admin.cluster import places_of
    from pulsar_doctor.report.words import listed, printable

    names = [*topics, *asked["namespaces"]] or ["all namespaces"]
    return printable(f"{listed(names, 3)} at {places_of(where.admin_url)}")
