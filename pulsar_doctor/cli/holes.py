"""`pulsar-doctor holes`: shows holes between acknowledged messages, and their cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.cli._calls import connected, say, settings
from pulsar_doctor.cli._commands import DependentOption, Sections
from pulsar_doctor.cli._options import (
    connection_options,
    fail_on_option,
    only_subscription_option,
    option,
    output_option,
    part,
    taking,
    topics_argument,
)
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.wording.gate import complain, stdout

if TYPE_CHECKING:
    from pulsar_doctor.checkup.holes.found import Acknowledged
    from pulsar_doctor.diagnosis.status import FailOn

GROUP = "diagnose"
FAILS = {"stalled": frozenset[str](), "warning": frozenset({"warning"}), "never": frozenset[str]()}
FAILS["suspect"] = FAILS["stalled"]  # nothing is suspected here


@dataclass(frozen=True, slots=True, kw_only=True)
class HolesRequest:
    """One call, as it was typed."""

    # fmt: off
    topics: tuple[str, ...] = topics_argument()
    subscription: str | None = only_subscription_option()
    namespaces: tuple[str, ...] = option(
        "--namespace",
        metavar="NS",
        multiple=True,
        help="All loaded topics of tenant/namespace; may be repeated.",
    )
    files: SampleFiles = part(
        SampleFiles,
        click.option(
            "--internal-stats",
            "internal_files",
            metavar="FILE",
            multiple=True,
            help="What `pulsar-admin topics stats-internal` printed; - is stdin; may be repeated.",
        ),
        click.option(
            "--stats",
            "stats_files",
            metavar="FILE",
            multiple=True,
            help="What `pulsar-admin topics stats` printed at the same moment, or a file of "
            "`stall-check --save`.",
        ),
        click.option(
            "--at",
            cls=DependentOption,
            needs=("internal_files", "stats_files", "trace_dir"),
            metavar="TIME",
            help="When the file was taken, by the broker's clock; with --trace: as it was then.",
        ),
    )
    trace_dir: Path | None = option(
        "--trace",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="A trace that `tap`, `capture` or `consume` recorded.",
    )
    batch_index_acks: Literal["yes", "no"] | None = option(
        "--batch-index-acks",
        needs=("trace_dir",),
        type=click.Choice(["yes", "no"]),
        help="With --trace: whether the broker keeps acknowledgements of single messages of a "
        "batch (acknowledgmentAtBatchIndexLevelEnabled), where the trace does not know it.",
    )
    fail_on: FailOn = fail_on_option()
    output: Literal["table", "json"] = output_option("table", "json")
    # fmt: on


@click.command(cls=Sections)
@taking(HolesRequest)
@connection_options
def command(request: HolesRequest) -> int:
    """Shows holes between acknowledged messages, and their cost.

    Everything up to mark-delete is acknowledged. Acknowledgements out of order leave ranges behind
    it, and gaps between these: holes. The broker persists a limited number of ranges; it forgets
    the rest when the topic is unloaded, and delivers those messages again. A hole is not the same
    as an unacknowledged message: that one was sent and is not acknowledged yet, and may lie behind
    all ranges. An entry in a hole may be delayed, or may never have been sent.

    \b
    pulsar-doctor holes orders -s billing
    pulsar-doctor holes --namespace public/default -o json
    pulsar-admin topics stats-internal t | pulsar-doctor holes --internal-stats -
    pulsar-doctor holes --trace incident.ptrace orders -s billing --at 2026-08-01T12:00:00Z

    The broker's own cursors (replication, deduplication, compaction, transactions) are shown
    separately, if they keep ledgers that no subscription needs or have holes, with what moves them.

    Reads only. A topic that you name is read, which loads it. In a namespace, only loaded topics
    are read. The forecast is for an orderly unload: a crash also loses what was not flushed yet.

    This is about holes only. `stall-check` shows whether a subscription is stuck.

    Exit codes: 0 done; 1 with --fail-on warning, where acknowledged entries would be delivered
    again, a limit is near, the broker's counter of the backlog is wrong, or `stall-check` warns of
    ack-hole too; 2 wrong usage or input that cannot be read; 3 where something could not be read.
    Holes are no stall: --fail-on stalled never gives 1 here.
    """
    _refuse_contradictions(request)
    return _report(_found(request), request)


def _refuse_contradictions(request: HolesRequest) -> None:
    """Raises InputError where the arguments do not say one thing."""
    trace = request.trace_dir is not None
    if trace and request.files:
        raise InputError("--trace and files of stats are two sources; give one of them")
    if request.namespaces and (request.topics or request.files or trace):
        raise InputError("--namespace asks a broker for all topics; leave it out, or all else")
    if not (request.topics or request.files or trace or request.namespaces):
        raise InputError(
            "name a TOPIC, or give --namespace NS, --internal-stats FILE or --trace DIR"
        )


def _found(request: HolesRequest) -> Acknowledged:
    from pulsar_doctor.broker.samples import moment_ms
    from pulsar_doctor.checkup.holes.from_stats import (
        holes_of_files,
        holes_of_namespaces,
        holes_of_topics,
    )
    from pulsar_doctor.checkup.holes.from_trace import holes_of_trace

    at_ms = None if request.files.at is None else moment_ms(request.files.at)
    if request.trace_dir is not None:
        at_us, kept = None if at_ms is None else at_ms * 1000, request.batch_index_acks
        return holes_of_trace(
            request.trace_dir,
            request.topics,
            request.subscription,
            at_us,
            batch_index_acks=None if kept is None else kept == "yes",
        )
    if request.files:
        return holes_of_files(replace(request.files, named=request.topics), request.subscription)
    with connected(settings(headed=True)) as where:
        if request.namespaces:
            return holes_of_namespaces(where, request.namespaces, request.subscription)
        return holes_of_topics(where, request.topics, request.subscription)


def _report(found: Acknowledged, request: HolesRequest) -> int:
    """Writes what was found; returns the exit code."""
    from pulsar_doctor.report.holes import document, table
    from pulsar_doctor.report.stall_check.unread import sentences

    for note in found.notes:
        say(note)
    if request.output == "json":
        for _, kind in found.kinds:
            say(kind)
        document.write(found, stdout())
    else:
        if found.unreachable and not (found.accounts or found.cursors or found.kinds):
            raise DoctorError("; ".join(sentences(found.unreachable)))
        table.write(found, stdout())
    for sentence in sentences(found.unreachable):
        complain(sentence)
    accounts = [*found.accounts, *(cursor.account for cursor in found.cursors)]
    statuses = {account.status for account in accounts}
    if statuses & FAILS[request.fail_on]:
        return 1
    return DoctorError.exit_code if found.unreachable or "unknown" in statuses else 0
