"""A simulation on the terminal, or as JSON: a row for each queue size, and a recommendation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from pulsar_doctor.model.consumer import SimulatedConsumer, flow_gap_seconds, refill_threshold
from pulsar_doctor.model.levers import sets_the_pace
from pulsar_doctor.model.scenario import Scenario
from pulsar_doctor.parts.simulate.outcome import RunOutcome, Simulated
from pulsar_doctor.report.documents import SHAPES, as_json, fields
from pulsar_doctor.report.pace import lever_rows
from pulsar_doctor.report.paper import console_on, print_beside, print_page, print_text
from pulsar_doctor.report.stall_check.document import DIAGNOSIS
from pulsar_doctor.report.stall_check.verdict import print_diagnoses
from pulsar_doctor.report.tables import (
    NOT_REPORTED,
    TableColumn,
    TableRow,
    View,
    count,
    drawn,
    percent,
)
from pulsar_doctor.wording.durations import duration, per_second
from pulsar_doctor.wording.gate import stdout, tell_json
from pulsar_doctor.wording.printable import many

LEGEND = """\
* is the recommended size. A stall: no permits, although the client owed some and its application
worked. Beside an idle one: a message waited, and another consumer had nothing to do."""
CONSUMERS_MOST = 5  # shown one by one
SCHEMA = "pulsar-doctor/simulate/2"
FLOWS_MOST = 100  # of a consumer, in the document


def print_json(report: Simulated) -> None:
    """The document, on stdout."""
    tell_json(DOCUMENT(report), indent=1)


def print_table(report: Simulated) -> None:
    """The table and what follows from it, on stdout."""
    console = console_on(stdout())
    for line in _about(report):
        print_beside(console, "", line)
    if report.outcomes:
        utf = (console.encoding or "").startswith("utf")
        rows = [_row(each, report) for each in report.outcomes]
        for part in drawn(rows, _columns(), View(console.text_width, utf, None, None)):
            console.print(part)
        print_text(LEGEND)
    print_page(*_refused(report))
    for head, text in _consumers(report):
        print_beside(console, head, text)
    print_page(*_formula_lines(report))
    if report.recommended is not None:
        console.print(Text(f"recommended: a receiver queue of {report.recommended}", style="bold"))
        for head, text in (("  ", reason(report)), *_levers(report)):
            print_beside(console, head, text)
    if report.diagnosis is not None:
        print_diagnoses([report.diagnosis])


def _about(report: Simulated) -> Iterator[str]:
    scenario = report.scenario
    messages, consumers = scenario.messages + scenario.unreached, len(scenario.attach_ns)
    text = f"{many(messages, 'message')}, {many(consumers, 'consumer')}"
    text += f" ({scenario.type}, {scenario.client.simulated})"
    if scenario.end_ns is not None:
        text += f", stopped after {duration(scenario.end_ns / 1e9)}"
    yield text
    yield from (f"note: {note}" for note in report.notes)


def _row(outcome: RunOutcome, report: Simulated) -> TableRow:
    size = outcome.receiver_queue_size
    gap = outcome.flow_gap_seconds
    return {
        "queue": size,
        "mark": "*" if report.recommended == size else "",
        "rate": outcome.per_second,
        "after": outcome.refill_threshold,
        "gap_us": None if gap is None else round(gap * 1e6),
        "stall_us": round(outcome.stall_seconds * 1e6),
        "without_us": outcome.starvation.total_ns // 1000,
        "share": outcome.starvation.share,
        "longest_us": outcome.starvation.longest_ns // 1000,
        "wait_us": round(outcome.wait_seconds * 1e6),
        "beside_us": round(outcome.wait_beside_idle_seconds * 1e6),
        "queued": outcome.queued_most,
        "backlog": outcome.backlog,
    }


def _columns() -> list[TableColumn]:
    return [
        TableColumn(
            "queue", 0, lambda row, view: f"{row['mark']} {row['queue']:,}".strip(), right=True
        ),
        TableColumn("messages/s", 1, lambda row, view: f"{row['rate']:.4g}", right=True),
        TableColumn("FLOW after", 5, lambda row, view: count(row["after"]), right=True),
        _time("longest\nFLOW gap", "gap_us", 2),
        _time("longest\nstall", "stall_us", 1),
        _time("without\npermits", "without_us", 4),
        TableColumn("of its\ntime", 4, lambda row, view: percent(row["share"]), right=True),
        _time("longest\nwithout", "longest_us", 5),
        _time("longest wait\nin a queue", "wait_us", 4),
        _time("beside an\nidle one", "beside_us", 3),
        TableColumn("most queued", 3, lambda row, view: count(row["queued"]), right=True),
        TableColumn("backlog", 3, lambda row, view: count(row["backlog"]), right=True),
    ]


def _time(title: str, name: str, rank: int) -> TableColumn:
    def cell(row: TableRow, view: View) -> str:
        us = row[name]
        return NOT_REPORTED if us is None else view.lasting(us) if us else "0"

    return TableColumn(title, rank, cell, right=True)


def _levers(report: Simulated) -> Iterator[tuple[str, str]]:
    work = report.work
    needed = work.consumers_needed
    if work.arrivals and needed and needed > work.consumers:
        each = f"{per_second(work.arrivals)} at {duration(work.process_seconds)} each"
        yield "  ", f"{many(needed, 'consumer')} are needed for {each}: no queue size helps"
    yield from ((f"  {name:<6} ", text) for name, text in lever_rows(report.levers))


def _refused(report: Simulated) -> Iterator[str]:
    yield from (f"  {size}: not possible, {why}" for size, why in report.refused.items())


def _consumers(report: Simulated) -> Iterator[tuple[str, str]]:
    outcome = report.of_given
    if outcome is None:
        return
    yield "", f"at {outcome.receiver_queue_size}, in the end:"
    yield from (("  ", _consumer(consumer)) for consumer in outcome.consumers[:CONSUMERS_MOST])
    more = len(outcome.consumers) - CONSUMERS_MOST
    if more > 0:
        yield "  ", f"and {more} more"


def _consumer(consumer: SimulatedConsumer) -> str:
    forecast = consumer.ledger.forecast()
    text = (
        f"{consumer.name}: finished {consumer.finished:,}, {consumer.holds:,} in its queue, "
        f"permits {consumer.ledger.available_permits:,}, {many(len(consumer.flows), 'FLOW')}"
    )
    return text if forecast is None else f"{text}; {forecast!s}"


def _formula_lines(report: Simulated) -> Iterator[str]:
    gap = flow_gap(report)
    if report.given and gap:
        each = duration(report.scenario.work.of_consumer[0] / 1e9)
        threshold = refill_threshold(report.given)
        yield f"formula: next FLOW after {threshold} x {each} = {duration(gap)}"


def reason(report: Simulated) -> str:
    """Why no larger queue is better."""
    work = report.work
    if work.keeps_up:
        return f"up to {per_second(work.rate)} with it, and {per_second(work.arrivals or 0)} arrive"
    return f"no queue brings more than {per_second(work.rate)}: {sets_the_pace(work)}"


def flow_gap(report: Simulated) -> float:
    """From one FLOW to the next at the given size, by the formula."""
    return flow_gap_seconds(report.given, report.scenario.work.of_consumer[0] / 1e9)


FLOW = fields("seconds permits taken", seconds=lambda of: of.at_ns / 1e9)
SHAPES |= {
    Scenario: fields(
        "messages entries consumers type client=client.simulated process_seconds round_trip_seconds"
        " stopped_after_seconds",
        messages=lambda of: of.messages + of.unreached,
        entries=lambda of: len(of.entries) + of.unreached,
        consumers=lambda of: len(of.attach_ns),
        process_seconds=lambda of: [ns / 1e9 for ns in of.work.of_consumer],
        round_trip_seconds=lambda of: of.round_trip_ns / 1e9,
        stopped_after_seconds=lambda of: None if of.end_ns is None else of.end_ns / 1e9,
    ),
    RunOutcome: fields(
        "receiver_queue_size refill_threshold seconds finished per_second flow_gap_seconds"
        " *starvation stall_seconds wait_seconds wait_beside_idle_seconds queued_most backlog"
        " consumers",
        consumers=lambda of: [_consumer_json(each, of.end_ns) for each in of.consumers],
    ),
}
CONSUMER = fields(
    "name received finished queued=holds queued_most available_permits=ledger.available_permits"
    " unsent_permits=unsent flow_count flows",
    flow_count=lambda of: len(of.flows),
    flows=lambda of: [*map(FLOW, of.flows[:FLOWS_MOST])],
)
DOCUMENT = fields(  # `pulsar-doctor/simulate/2`
    "schema receiver_queue_size=given scenario formulas runs=outcomes refused recommendation"
    " levers verdict notes",
    verdict=lambda of: of.diagnosis and DIAGNOSIS(of.diagnosis),
    schema=lambda of: SCHEMA,
    formulas=lambda of: {"flow_gap_seconds": flow_gap(of)},
    refused=lambda of: [
        {"receiver_queue_size": size, "reason": why} for size, why in of.refused.items()
    ],
    recommendation=lambda of: (
        of.recommended and {"receiver_queue_size": of.recommended, "reason": reason(of)}
    ),
)


def _consumer_json(consumer: SimulatedConsumer, end_ns: int) -> dict[str, Any]:
    forecast = consumer.ledger.forecast()
    return {
        **CONSUMER(consumer),
        **as_json(consumer.ledger.starvation(end_ns)),
        "stall_seconds": consumer.stall_ns / 1e9,
        "wait_seconds": consumer.wait_ns / 1e9,
        "wait_beside_idle_seconds": consumer.beside_idle_ns / 1e9,
        "next_flow_after": forecast.messages if forecast else None,
        "next_flow_seconds": forecast.seconds if forecast else None,
    }
