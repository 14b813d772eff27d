"""`pulsar-doctor trace`: reads a trace without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Literal

import click

from pulsar_doctor.cli._moments import which_options
from pulsar_doctor.cli._options import (
    Suggesting,
    output_option,
    say,
    taking,
    talk_options,
)
from pulsar_doctor.errors import TraceError, needing
from pulsar_doctor.printing.gate import stdout, tell, tell_json

if TYPE_CHECKING:
    from pulsar_doctor.ledger.timeline import Timeline
    from pulsar_doctor.trace.reading import Trace
    from pulsar_doctor.wire.columns import Row

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TraceOutput = Literal["table", "jsonl", "json"]
GAPS_CODE, EXPIRED_CODE, SET_ASIDE_CODE = 4, 5, 6  # of `verify`
PIPE_WIDTH = 200  # characters, where stdout is no terminal

folder_argument = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """One call of `trace show`. since, until: a moment, or seconds before the end."""

    folder: Path
    consumer: str | None
    commands: tuple[str, ...]
    topic: str | None
    subscription: str | None
    since: datetime | float | None
    until: datetime | float | None
    limit: int | None
    output: TraceOutput

    @property
    def names(self) -> list[str]:
        """The commands, as rows name them."""
        return [name.upper() for name in self.commands]


@click.group("trace", cls=Suggesting)
def command() -> None:
    """Reads a trace: its rows, its consumers, whether it is whole.

    \b
    Examples:
      pulsar-doctor trace summary incident.ptrace
      pulsar-doctor trace show incident.ptrace --consumer slow --since 30s
      pulsar-doctor trace show incident.ptrace --command FLOW -o jsonl | jq .permits
      pulsar-doctor trace verify incident.ptrace
      pulsar-doctor trace compact ring.ptrace
    """


@command.command("show")
@folder_argument
@click.option("--consumer", metavar="NAME", help="Only this consumer: name or incarnation number.")
@click.option(
    "--command", "commands", metavar="COMMAND", multiple=True,
    help="Only these commands, e.g. FLOW; repeatable.",
)  # fmt: skip
@which_options
@click.option("-n", "--limit", type=click.IntRange(min=0), help="At most so many rows.")
@output_option("table", "jsonl", "json")
@talk_options
@taking(TraceRequest)
def show(asked: TraceRequest) -> None:
    """Prints the rows of a trace: one command each, with the ledger after it.

    A TIME is ISO 8601 (UTC where it has no zone) or a duration counted back from the end.

    \b
    Examples:
      pulsar-doctor trace show incident.ptrace --consumer slow -n 50
      pulsar-doctor trace show incident.ptrace --since 30s --until 10s
      pulsar-doctor trace show incident.ptrace --command FLOW --command ACK -o jsonl
      pulsar-doctor trace show incident.ptrace --since 2026-08-01T12:00:00Z --topic orders
    """
    trace = _open(asked.folder)
    counts_back = _relative(asked.since) or _relative(asked.until)
    timeline = trace.timeline() if counts_back else None
    since_us, until_us = _moment(asked.since, timeline), _moment(asked.until, timeline)
    keep = _filter(asked, since_us, until_us)
    rows = (row for row in trace.rows(since_us=since_us) if keep(row))
    _print_rows(islice(_some(rows, trace, asked), asked.limit), asked.output)


@command.command("summary")
@folder_argument
@output_option("table", "json")
@talk_options
def summary(folder: Path, *, output: str) -> None:
    """Prints the consumers of a trace: queue, FLOWs, permits, times without permits, verdict.

    \b
    Example:
      pulsar-doctor trace summary incident.ptrace -o json | jq '.consumers[].available_permits'
    """
    trace = _open(folder)
    opened = len(trace.notes)
    timeline = trace.timeline()
    _say_notes(trace.notes[opened:])
    from pulsar_doctor.report.paper import console_on
    from pulsar_doctor.report.trace.consumers import (
        TABLE_WIDTH,
        refusal_lines,
        summary_json,
        summary_lines,
        summary_table,
    )

    verdicts = _verdicts(timeline)
    if output == "json":
        found = summary_json(trace.meta.trace_id, timeline, verdicts, live=trace.live)
        tell_json(found, indent=1)
        return
    console = console_on(stdout())
    if console.width >= TABLE_WIDTH:
        console.print(summary_table(timeline, verdicts))
    else:
        for line in summary_lines(timeline, verdicts):
            tell(line)
    for line in refusal_lines(timeline):
        tell(line)


@command.command("verify")
@folder_argument
@output_option("table", "json")
@talk_options
def verify(folder: Path, *, output: str) -> int:
    """Says whether a trace is whole and unchanged, and what it misses.

    Checks names, SHA-256 and page checksums of every segment, that no row is missing, that every
    row can be read, and that every ledger follows from the commands before it. Changes nothing.

    \b
    Exit codes: 0 sound: nothing is known to be missing
                2 damaged, or no trace
                4 sound, but commands are missing: gaps, where they could not be recorded
                5 sound, but its beginning has expired: it is of a ring
                6 sound, but records could not be read and are UNPARSED rows
    The first of 2, 4, 6, 5 that is so.

    \b
    Example:
      pulsar-doctor trace verify incident.ptrace && rm -r incident.ptrace.old
    """
    with needing("trace", "reading a trace"):
        from pulsar_doctor.report.trace.verification import verification_json, verification_lines
        from pulsar_doctor.trace.verifying import DAMAGED
        from pulsar_doctor.trace.verifying import verify as verify_trace

    found = verify_trace(folder)
    if output == "json":
        tell_json(verification_json(found), indent=1)
    else:
        for line in verification_lines(found):
            tell(line)
    if found.status == DAMAGED:
        return TraceError.exit_code
    if found.gaps or found.expired.gaps:
        return GAPS_CODE
    if found.set_aside:
        return SET_ASIDE_CODE
    return EXPIRED_CODE if found.expired.rows else 0


@command.command("compact")
@folder_argument
@output_option("table", "json")
@talk_options
def compact(folder: Path, *, output: str) -> None:
    """Makes few large segments of many small ones: the same rows, in the same order.

    A ring seals a segment every minute or less; a month of them is slow to list. One that is made
    of several holds an hour, 500,000 rows or 64 MiB at most, of a ring a tenth of what it keeps.
    Whoever reads meanwhile, and whoever comes after a crash, finds the trace as it was or as it
    is, whole. It needs room for the new segments beside the old ones. A trace that is being written
    is refused (2), and one that was merged is left as it is. What was kept of a ring stays.

    \b
    Example:
      pulsar-doctor trace compact /var/lib/taps/billing.ptrace
    """
    with needing("trace", "compacting a trace"):
        from pulsar_doctor.trace.compacting import compact as compact_trace
    from pulsar_doctor.wording.sizes import in_words

    _open(folder)
    done = compact_trace(folder)
    if output == "json":
        tell_json(asdict(done), indent=1)
        return
    tell(
        f"{done.segments_before:,} segments are now {done.segments:,} ({done.merged:,} new), "
        f"{in_words(done.bytes_before)} are {in_words(done.bytes)}; {done.rows:,} rows as before"
    )


def _verdicts(timeline: Timeline) -> Mapping[int, str]:
    """Incarnation -> verdict, of the consumers that `stall-check` would judge."""
    from pulsar_doctor.diagnosis.limits import limits_of
    from pulsar_doctor.diagnosis.weighing import diagnose_wire, verdict_of
    from pulsar_doctor.rules import load

    rules = load()
    verdicts: dict[int, str] = {}
    wires = timeline.subscriptions()
    for wire, diagnosis in zip(wires, diagnose_wire(wires, rules, limits_of(rules)), strict=True):
        verdicts |= {c.incarnation: verdict_of(diagnosis, c) for c in wire.consumers}
    return verdicts


def _open(folder: Path) -> Trace:
    from pulsar_doctor.diagnosis.recorded import open_folder

    trace = open_folder(folder)
    _say_notes(trace.notes)
    return trace


def _say_notes(notes: Sequence[str]) -> None:
    for note in notes:
        say(f"pulsar-doctor: {note}")


def _relative(moment: datetime | float | None) -> bool:
    return isinstance(moment, float)


def _moment(moment: datetime | float | None, timeline: Timeline | None) -> int | None:
    """Microseconds since 1970."""
    if isinstance(moment, datetime):
        return (moment - EPOCH) // timedelta(microseconds=1)
    if moment is None or timeline is None:
        return None
    return timeline.now_us - int(moment * 1_000_000)


def _filter(
    asked: TraceRequest, since_us: int | None, until_us: int | None
) -> Callable[[Row], bool]:
    """Whether a row is asked for."""
    from pulsar_doctor.report.trace.absent import is_topic

    consumer, topic, names = asked.consumer, asked.topic, set(asked.names)
    tests: list[Callable[[Row], bool]] = []
    if since_us is not None:
        tests.append(lambda row: row.ts >= since_us)
    if until_us is not None:
        tests.append(lambda row: row.ts <= until_us)
    if names:
        tests.append(lambda row: row.command in names)
    if consumer is not None:
        tests.append(lambda row: consumer in (row.consumer_name, str(row.incarnation)))
    if topic is not None:
        tests.append(lambda row: is_topic(row.topic, topic))
    if asked.subscription is not None:
        tests.append(lambda row: row.subscription == asked.subscription)
    return lambda row: all(test(row) for test in tests)


def _some(rows: Iterator[Row], trace: Trace, asked: TraceRequest) -> Iterator[Row]:
    """These rows; where there is none, or a command is none, InputError for a wrong name."""
    from pulsar_doctor.report.trace.absent import is_command, require_named

    first = next(rows, None)
    if first is None or not all(is_command(name) for name in asked.names):
        require_named(
            trace.rows(),
            consumer=asked.consumer,
            commands=asked.names,
            topic=asked.topic,
            subscription=asked.subscription,
        )
    return rows if first is None else chain([first], rows)


def _print_rows(rows: Iterator[Row], output: TraceOutput) -> None:
    from pulsar_doctor.report.trace.rows import row_line, table_lines

    if output == "table":
        width = get_terminal_size().columns if stdout().isatty() else PIPE_WIDTH
        for line in table_lines(rows, width):
            tell(line)
        return
    lines = map(row_line, rows)
    stdout().writelines(_as_array(lines) if output == "json" else lines)


def _as_array(documents: Iterator[str]) -> Iterator[str]:
    before = "["
    for document in documents:
        yield f"{before}{document}"
        before = ","
    yield "]\n" if before == "," else "[]\n"
