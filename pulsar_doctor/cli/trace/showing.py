"""`trace show`: selects rows of a trace, and prints them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Literal

import click

from pulsar_doctor.cli._moments import since_option, subscription_option, topic_option, until_option
from pulsar_doctor.cli._options import option, output_option, proven_only_option
from pulsar_doctor.wording.gate import stdout, tell

if TYPE_CHECKING:
    from pulsar_doctor.ledger.timeline import Timeline
    from pulsar_doctor.report.trace.rows import Rows, RowTest
    from pulsar_doctor.trace.reading import Trace

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TraceOutput = Literal["table", "jsonl", "json"]
PIPE_WIDTH = 200  # characters, where stdout is no terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """One call of `trace show`."""

    # fmt: off
    folder: Path
    consumer: str | None = option(
        "--consumer", metavar="NAME", help="Only this consumer: name or incarnation number."
    )
    commands: tuple[str, ...] = option(
        "--command", metavar="COMMAND", multiple=True,
        help="Only these commands, e.g. FLOW; repeatable.",
    )
    topic: str | None = topic_option()
    subscription: str | None = subscription_option()
    since: datetime | float | None = since_option()  # a moment, or seconds before the end
    until: datetime | float | None = until_option()  # a moment, or seconds before the end
    limit: int | None = option(
        "-n", "--limit", type=click.IntRange(min=0), help="At most this many rows."
    )
    proven_only: bool = proven_only_option()
    output: TraceOutput = output_option("table", "jsonl", "json")
    # fmt: on

    @property
    def names(self) -> list[str]:
        """The commands, as rows name them."""
        return [name.upper() for name in self.commands]


def show_rows(trace: Trace, request: TraceRequest) -> None:
    """Prints them. Raises InputError where there is none, and a requested name is invalid."""
    counts_back = _relative(request.since) or _relative(request.until)
    timeline = trace.timeline() if counts_back else None
    since_us, until_us = _moment(request.since, timeline), _moment(request.until, timeline)
    keep = _filter(request, since_us, until_us)
    rows = (row for row in trace.rows(since_us=since_us) if keep(row))
    _print_rows(islice(_some(rows, trace, request), request.limit), request.output)


def _relative(moment: datetime | float | None) -> bool:
    return isinstance(moment, float)


def _moment(moment: datetime | float | None, timeline: Timeline | None) -> int | None:
    """Microseconds since 1970."""
    if isinstance(moment, datetime):
        return (moment - EPOCH) // timedelta(microseconds=1)
    if moment is None or timeline is None:
        return None
    return timeline.now_us - int(moment * 1_000_000)


def _filter(request: TraceRequest, since_us: int | None, until_us: int | None) -> RowTest:
    """Whether a row is requested."""
    from pulsar_doctor.trace.named_rows import is_topic

    consumer, topic, names = request.consumer, request.topic, set(request.names)
    tests: list[RowTest] = []
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
    if request.subscription is not None:
        tests.append(lambda row: row.subscription == request.subscription)
    return lambda row: all(test(row) for test in tests)


def _some(rows: Rows, trace: Trace, request: TraceRequest) -> Rows:
    """These rows; where there is none, or a command is none, InputError for a wrong name."""
    from pulsar_doctor.trace.named_rows import is_command, require_named

    first = next(rows, None)
    if first is None or not all(is_command(name) for name in request.names):
        require_named(
            trace.rows(),
            consumer=request.consumer,
            commands=request.names,
            topic=request.topic,
            subscription=request.subscription,
        )
    return rows if first is None else chain([first], rows)


def _print_rows(rows: Rows, output: TraceOutput) -> None:
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
