"""`pulsar-doctor trace`: reads a trace without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pulsar_doctor.cli._calls import checks, say
from pulsar_doctor.cli._commands import Suggesting
from pulsar_doctor.cli._options import (
    adding,
    output_option,
    proven_only_option,
    taking,
    talk_options,
)
from pulsar_doctor.cli.trace.showing import TraceRequest, show_rows
from pulsar_doctor.errors import needing
from pulsar_doctor.wording.gate import stdout, tell_json

if TYPE_CHECKING:
    from pulsar_doctor.ledger.timeline import Timeline
    from pulsar_doctor.trace.reading import Trace

folder_argument = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))


GROUP = "watch"


@click.group("trace", cls=Suggesting)
def command() -> None:
    """Reads a trace: commands, consumers, completeness.

    \b
    Examples:
      pulsar-doctor trace summary incident.ptrace
      pulsar-doctor trace show incident.ptrace --consumer slow --since 30s
      pulsar-doctor trace show incident.ptrace --command FLOW -o jsonl | jq
      pulsar-doctor trace verify incident.ptrace
    """


@command.command("show")
@taking(TraceRequest)
@folder_argument
@talk_options
def show(request: TraceRequest) -> None:
    """Prints each command of a trace, with the ledger after it.

    A TIME is ISO 8601 (UTC where it has no zone) or a duration counted back from the end.

    \b
    Examples:
      pulsar-doctor trace show incident.ptrace --consumer slow -n 50
      pulsar-doctor trace show incident.ptrace --since 30s --until 10s
      pulsar-doctor trace show incident.ptrace --command FLOW --command ACK -o jsonl
      pulsar-doctor trace show incident.ptrace --since 2026-08-01T12:00:00Z --topic orders
    """
    show_rows(_open(request.folder, proven_only=request.proven_only), request)


@command.command("summary")
@folder_argument
@adding(proven_only=proven_only_option(), output=output_option("table", "json"))
@talk_options
def summary(folder: Path, *, proven_only: bool, output: str) -> None:
    """Prints the consumers of a trace with their verdicts.

    Of each: queue, FLOWs, permits and times without permits.

    \b
    Example:
      pulsar-doctor trace summary incident.ptrace -o json | jq '.consumers[].name'
    """
    trace = _open(folder, proven_only=proven_only)
    timeline = trace.timeline()
    from pulsar_doctor.report.paper import console_on, fits, print_page
    from pulsar_doctor.report.trace.consumers import (
        refusal_lines,
        summary_json,
        summary_lines,
        summary_table,
    )

    verdicts = _verdicts(timeline)
    if output == "json":
        found = summary_json(
            trace.meta.trace_id, timeline, verdicts, live=trace.live, notes=trace.notes
        )
        tell_json(found, indent=1)
        return
    console = console_on(stdout())
    if fits(console, table := summary_table(timeline, verdicts)):
        console.print(table)
    else:
        print_page(*summary_lines(timeline, verdicts))
    print_page(*refusal_lines(timeline))


@command.command("verify")
@folder_argument
@adding(output=output_option("table", "json"))
@talk_options
def verify(folder: Path, *, output: str) -> int:
    """Shows whether a trace is complete and unchanged.

    Checks names, SHA-256 and page checksums of every segment, that no row is missing, that every
    row can be read, and that every ledger follows from the commands before it. Changes nothing.

    \b
    Exit codes: 0 sound: nothing is known to be missing
                2 damaged, or no trace
                4 sound, but commands are missing: gaps, where they could not
                  be recorded, or half a block at the end
                5 sound, but its beginning has expired: it is of a ring
                6 sound, but records could not be read and are UNPARSED rows
    The first of 2, 4, 6, 5 that is so.

    \b
    Example:
      pulsar-doctor trace verify incident.ptrace && rm -r incident.ptrace.old
    """
    with needing("trace", "reading a trace"):
        from pulsar_doctor.report.paper import print_page
        from pulsar_doctor.report.trace.verification import VERIFICATION, verification_lines
        from pulsar_doctor.trace.verifying import verify as verify_trace

    found = verify_trace(folder)
    if output == "json":
        tell_json(VERIFICATION(found), indent=1)
    else:
        print_page(*verification_lines(found))
    return found.missing.exit_code


def _verdicts(timeline: Timeline) -> Mapping[int, str]:
    """Incarnation -> verdict, of the consumers that `stall-check` would judge."""
    from pulsar_doctor.diagnosis.weighing import diagnose_wire

    causes, limits = checks()
    verdicts: dict[int, str] = {}
    wires = timeline.subscriptions()
    for wire, diagnosis in zip(wires, diagnose_wire(wires, causes, limits), strict=True):
        verdicts |= {c.incarnation: diagnosis.status_of(c) for c in wire.consumers}
    return verdicts


def _open(folder: Path, *, proven_only: bool = False) -> Trace:
    from pulsar_doctor.trace.opening import open_folder

    return open_folder(folder, say, proven_only=proven_only)
