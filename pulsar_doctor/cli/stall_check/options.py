"""The options of `stall-check`: the source of data, and what to report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.cli import _completing
from pulsar_doctor.cli._commands import DependentOption, first_typed
from pulsar_doctor.cli._options import (
    accept_unknown_option,
    broker_version_option,
    fail_on_option,
    interval_option,
    only_subscription_option,
    option,
    output_option,
    part,
    proven_only_option,
    set_option,
    topics_argument,
    window_option,
)
from pulsar_doctor.cli._types import DURATION
from pulsar_doctor.errors import InputError
from pulsar_doctor.report.stall_check import formats
from pulsar_doctor.report.stall_check.formats import FORMATS
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.spelling import near

if TYPE_CHECKING:
    from pulsar_doctor.diagnosis.status import AcceptUnknown, FailOn, Status

EVERY_LEAST_SECONDS = 5.0
VERDICTS = ("stalled", "unknown", "warning", "healthy")  # the worst first


SECTIONS = {
    "What to check": (
        "subscription", "namespaces", "everything", "load_topics", "system_topics", "stats_files",
        "internal_files", "at", "metrics_url", "broker_version", "trace_dir", "proven_only",
        "case_file",
    ),
    "How long": (
        "window_seconds", "interval_seconds", "decide", "decide_seconds", "watch", "every_seconds",
        "concurrency",
    ),
    "The verdict": (
        "after", "usual", "changes", "skip", "suppressions", "fail_on", "accept_unknown",
    ),
    "Output": ("consumers", "only", "worst", "save", "listen", "output", "json_schema"),
    "Record": ("keep", "keep_for", "keep_size", "keep_hosts"),
}  # fmt: skip


def _verdicts(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[Status, ...]:
    chosen = tuple(name.strip() for name in (value or "").split(",") if name.strip())
    for name in chosen:
        if name not in VERDICTS:
            raise click.BadParameter(f"there is no verdict {name!r}; {near(name, VERDICTS)}")
    if value is not None and not chosen:
        raise click.BadParameter(f"name some of {', '.join(VERDICTS)}")
    return cast("tuple[Status, ...]", chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class StallCheckRequest:
    """One call, as it was typed. Paths and times are the user's; fleet: whole namespaces."""

    # fmt: off
    topics: tuple[str, ...] = topics_argument()
    subscription: str | None = only_subscription_option()
    window_seconds: float = window_option(
        default="10s", help="How long a broker is watched; 0s judges one sample."
    )
    interval_seconds: float = interval_option(
        help="Time between two samples. Between files it is used only if given."
    )
    namespaces: tuple[str, ...] = option(
        "--namespace", metavar="NS", multiple=True,
        help="All topics of tenant/namespace; may be repeated.",
    )
    everything: bool = option(
        "--all", is_flag=True,
        help="All topics of all namespaces that these credentials can list.",
    )
    load_topics: bool = option(
        "--load-topics", is_flag=True, needs=("namespaces", "everything"),
        help="Also read topics that no broker has loaded, which loads them.",
    )
    system_topics: bool = option(
        "--system-topics", is_flag=True, needs=("namespaces", "everything"),
        help="Include Pulsar's own topics.",
    )
    concurrency: int = option(
        "--concurrency", type=click.IntRange(1, 512), default=32, show_default=True,
        help="Requests to the brokers at once.",
    )
    save: Path | None = option(
        "--save", metavar="FILE", type=click.Path(path_type=Path),
        help="Keep the samples, for --stats.",
    )
    files: SampleFiles = part(
        SampleFiles,
        click.option(
            "--stats", "stats_files", metavar="FILE", multiple=True,
            help="Judge a file of --save, or what `pulsar-admin topics stats` (or "
            "partitioned-stats) printed; - is stdin. Repeated: samples, the oldest first. Beside "
            "them also metrics, transactions, thread dumps and logs of the same incident.",
        ),
        click.option(
            "--internal-stats", "internal_files", metavar="FILE", multiple=True,
            help="What `pulsar-admin topics stats-internal` printed at the same moment; without "
            "--stats it tells what cursors alone can.",
        ),
        click.option(
            "--at", cls=DependentOption, needs=("stats_files", "internal_files"),
            metavar="TIME",
            help="When the last file was taken, by the broker's clock. Without it the file's own "
            "time counts, if the newest moment in it is at most 2 s older.",
        ),
    )
    metrics_url: str | None = option(
        "--metrics", metavar="URL",
        help="Read nothing but the metrics of one broker (http://HOST:8080/metrics/), three times "
            "in the window; what they do not report stays unknown.",
    )
    broker_version: str | None = broker_version_option(
        needs=("stats_files", "internal_files", "metrics_url", "trace_dir", "case_file")
    )
    after: str | None = option(
        "--after", metavar="FILE",
        help="Check whether a remedy has worked: compare with an earlier file of --save or "
            "`pulsar-admin topics stats`.",
    )
    trace_dir: Path | None = option(
        "--trace", metavar="DIR", type=click.Path(path_type=Path),
        help="Judge a trace that `tap`, `capture` or `consume` recorded, or the one in a bundle; "
            "with a TOPIC or --stats, together with the broker's statistics.",
    )
    proven_only: bool = proven_only_option(needs=("trace_dir",))
    case_file: str | None = option(
        "--case", metavar="FILE",
        help="Give again the verdicts of a case that somebody sent: a bundle, an incident page, or "
            "the case itself.",
    )
    changes: tuple[str, ...] = set_option()
    skip: tuple[str, ...] = option(
        "--skip", metavar="CODE", multiple=True, shell_complete=_completing.codes,
        help="Leave out a cause; may be repeated.",
    )
    suppressions: Path | None = option(
        "--suppressions", metavar="FILE", type=click.Path(path_type=Path),
        help="Verdicts that count as healthy until a date, and why; default: suppressions.toml "
            "beside the contexts.",
    )
    fail_on: FailOn = fail_on_option()
    accept_unknown: AcceptUnknown | None = accept_unknown_option()
    watch: bool = option(
        "--watch",
        is_flag=True,
        help="Check again and again until Ctrl-C: on one screen, in a pipe as lines with their "
        "time. A verdict gets worse at once, and better when two checks in a row say so.",
    )
    every_seconds: float = option(
        "--every", type=DURATION, default="30s", show_default=True, needs=("watch",),
        help="With --watch: time between two checks, at least 5s.",
    )
    decide: bool = option(
        "--decide", is_flag=True,
        help="Go on reading until every verdict is decided or the time is over; Ctrl-C ends with "
            "what is known.",
    )
    decide_seconds: float = option(
        "--decide-within", type=DURATION, default="90s", show_default=True, needs=("decide",),
        help="With --decide: how long at most.",
    )
    consumers: bool = option(
        "--consumers", is_flag=True,
        help="Also print every consumer, healthy or not: its address and its numbers.",
    )
    only: tuple[Status, ...] = option(
        "--only", metavar="VERDICT[,VERDICT]", callback=_verdicts,
        help="Show only these: stalled, unknown, warning, healthy. All are counted.",
    )
    worst: int | None = option(
        "--worst", metavar="N", type=click.IntRange(min=1), help="Show only the worst N."
    )
    output: str = output_option(*FORMATS)
    # fmt: on

    @property
    def live(self) -> bool:
        """Whether a broker is read now."""
        return bool(self.topics or self.fleet) and not self.files

    @property
    def fleet(self) -> bool:
        """Whether topics are requested by their namespaces."""
        return bool(self.namespaces or self.everything)


def refuse_contradictions(request: StallCheckRequest) -> None:
    """Raises InputError where the arguments do not say one thing."""
    trace, case = request.trace_dir is not None, request.case_file is not None
    if case:
        _refuse_beside_a_case(request)
    if request.files or (trace and not request.topics):
        _refuse_of_a_broker(request, "--stats" if request.files else "--trace without a TOPIC")
    if trace and request.watch:
        raise InputError(
            "--watch reads a broker again and again, and a trace does not change; leave one out"
        )
    if request.namespaces and request.everything:
        raise InputError("--all is every namespace; leave it out, or leave out --namespace")
    if request.topics and request.fleet:
        raise InputError("name topics, or give --namespace or --all; not both")
    if not (
        request.topics or request.fleet or trace or request.files or case or request.metrics_url
    ):
        raise InputError(
            "name a TOPIC, or give --namespace NS, --all, --stats FILE, --trace DIR or --case FILE"
        )
    if request.consumers and (request.watch or not formats.is_for_people(request.output)):
        other = "--watch" if request.watch else f"-o {request.output}"
        raise InputError(
            f"--consumers prints a table after one check, which {other} has no place for; -o json "
            "lists every consumer without it"
        )
    _refuse_beside_metrics(request)
    _refuse_the_worst(request)
    _refuse_to_decide(request)
    _refuse_to_compare(request)
    if request.interval_seconds <= 0:
        raise InputError("samples cannot lie 0s apart; see --interval")
    if request.watch and request.every_seconds < EVERY_LEAST_SECONDS:
        raise InputError(f"--every is at least {EVERY_LEAST_SECONDS:g}s, to spare the cluster")


def _refuse_beside_a_case(request: StallCheckRequest) -> None:
    _refuse_of_a_broker(request, "--case")
    if which := first_typed("stats_files", "internal_files", "trace_dir", "after", "decide"):
        raise InputError(f"--case has its own numbers, and {which} adds others; leave one out")


def _refuse_beside_metrics(request: StallCheckRequest) -> None:
    if request.metrics_url is None:
        return
    _refuse_of_a_broker(request, "--metrics", "no more of one than its metrics")
    others = "stats_files", "internal_files", "trace_dir", "case_file", "after", "decide"
    if which := first_typed(*others):
        raise InputError(
            f"--metrics reads nothing but metrics, and {which} needs more; leave one out"
        )


def _refuse_of_a_broker(request: StallCheckRequest, source: str, uses: str = "none") -> None:
    watched = () if request.metrics_url else ("window_seconds",)
    which = first_typed("namespaces", "everything", "save", "watch", *watched, "concurrency")
    if which:
        raise InputError(f"{which} needs a broker, and {source} uses {uses}; leave one out")


def _refuse_the_worst(request: StallCheckRequest) -> None:
    carried = formats.carries(request.output, "worst") and not request.watch
    if request.worst is not None and not carried:
        other = "--watch" if request.watch else f"-o {request.output}"
        raise InputError(f"{other} has no place for --worst; --only chooses by verdict")


def _refuse_to_decide(request: StallCheckRequest) -> None:
    if not request.decide:
        return
    if request.files or request.trace_dir is not None:
        raise InputError(
            "--decide reads a live broker again, and a file or a trace does not change; take "
            "another file a minute later and give both: --stats FIRST --stats SECOND"
        )
    if request.watch:
        raise InputError("--watch reads again in any case; leave out --decide")


def _refuse_to_compare(request: StallCheckRequest) -> None:
    if request.after is None:
        return
    if request.after in request.files.stats_files:
        raise InputError(f"{request.after} is given twice: --after takes the earlier file only")
    if request.after == "-":
        raise InputError("--after takes the name of a file, not standard input")
    if request.trace_dir is not None and not (request.files or request.topics):
        raise InputError("--after compares what a broker reports; with --trace name a TOPIC too")
    if not formats.carries(request.output, "after"):
        others = listed([name for name in FORMATS[1:] if formats.carries(name, "after")], 9)
        raise InputError(f"-o {request.output} has no place for --after; -o {others} have")
    if request.watch:
        raise InputError("--after compares once, --watch goes on and on; leave one out")
