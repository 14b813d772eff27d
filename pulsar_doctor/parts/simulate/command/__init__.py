"""`pulsar-doctor simulate`: predicts what other receiver queue sizes would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pulsar_doctor.cli._calls import checks, say
from pulsar_doctor.cli._commands import sectioned
from pulsar_doctor.cli._options import taking, talk_options
from pulsar_doctor.parts.simulate.command.options import (
    MESSAGES_MOST,
    RATE_SECONDS,
    SECTIONS,
    SimulateRequest,
    refuse_contradictions,
)

if TYPE_CHECKING:
    from pulsar_doctor.model.running import Simulation
    from pulsar_doctor.model.scenario import Given, Scenario
    from pulsar_doctor.parts.simulate.replaying import Seen

GROUP = "experiment"
QUEUE = 1000  # what clients have where nobody says otherwise
PROCESS_SECONDS = 0.01
SHOWN_FROM = 100_000  # messages: a queue size takes seconds
REFILLED = 1.1  # times a whole queue: two halves, and some more
KEYS = 1000  # of messages on a Key_Shared subscription
EPILOG = """\b
Examples:
  pulsar-doctor simulate --backlog 1000 --process-time 10m
  pulsar-doctor simulate --rate 100/s --process-time 5ms --consumers 4
  pulsar-doctor simulate --from-trace incident.ptrace -s billing
"""


@click.command(cls=sectioned(SECTIONS), epilog=EPILOG)
@taking(SimulateRequest)
@talk_options
def command(request: SimulateRequest) -> None:
    """Predicts what other receiver queue sizes would do.

    Messages, broker and clients are simulated: a broker of 4.0.8, and clients that send FLOW as
    measured on the real ones. Permits are counted as in every other subcommand. --from-trace takes
    arrivals and processing times from a trace. The smallest queue that costs nothing is
    recommended, and the table says what more consumers or workers would bring.

    A consumer without permits is sent nothing. That time is reported as a sum over the consumers
    (as `analyze` does), as a share of their time, and by its longest period. A stall is such a
    period in which a client owes permits while its application works. If --duration ends a run, the
    checks of `stall-check` judge it as well.
    """
    refuse_contradictions(request)
    from pulsar_doctor.model.levers import QUEUES, levers
    from pulsar_doctor.model.running import Simulation
    from pulsar_doctor.parts.simulate import report as simulated
    from pulsar_doctor.parts.simulate.outcome import (
        Simulated,
        impossible,
        outcome,
        sizes_to_compare,
        workload,
    )

    found = (
        _of_numbers(request) if request.trace_dir is None else _of_trace(request.trace_dir, request)
    )
    scenario = _with_options(found.scenario, request)
    sizes_given = request.queues
    given = (
        sizes_given[0] if sizes_given and request.trace_dir is None else found.receiver_queue_size
    )
    few = len(sizes_given) > 1
    sizes = sizes_to_compare(sizes_given, given)
    work = workload(scenario, sizes if few else [size for size in QUEUES if size <= sizes[-1]])
    if not few and work.receiver_queue_size is not None:
        sizes = sizes_to_compare(sizes_given, given, work.receiver_queue_size)
    refused = {size: impossible(scenario, size) for size in sizes}
    outcomes, judged = [], None
    for size in [size for size, why in refused.items() if why is None]:
        if scenario.messages > SHOWN_FROM:
            say(f"simulating {scenario.messages:,} messages with a queue of {size}")
        simulation = Simulation(scenario, size).run()
        outcomes.append(outcome(simulation))
        if size == given and scenario.end_ns is not None:
            judged = _verdict(simulation)
    report = Simulated(
        scenario=scenario,
        given=given,
        outcomes=tuple(outcomes),
        refused={size: why for size, why in refused.items() if why is not None},
        work=work,
        levers=levers(replace(work, receiver_queue_size=given)),
        diagnosis=judged,
        notes=found.notes,
    )
    (simulated.print_json if request.output == "json" else simulated.print_table)(report)


def _of_numbers(request: SimulateRequest) -> Given:
    from random import Random

    from pulsar_doctor.model.scenario import Given, Scenario, Work, arrivals

    messages = request.messages_in_all
    chance = Random(1)
    seconds = request.process_times or (PROCESS_SECONDS,)
    stop, unreached = request.duration, 0
    if stop is None and request.rate and request.messages is None:
        stop = max(RATE_SECONDS, REFILLED * _largest_queue(request) * min(seconds))
        within = messages + round(request.rate * (stop - RATE_SECONDS))
        reached = _reached(request, seconds, stop)
        messages = max(1, min(within, reached))
        unreached = within - messages
    entries = arrivals(
        messages,
        backlog=request.backlog or 0,
        per_second=request.rate or 0.0,
        keys=lambda: chance.randrange(KEYS),
    )
    scenario = Scenario(
        entries=entries,
        work=Work(tuple(_ns(each) for each in seconds)),
        type=request.type_ or "shared",
        attach_ns=(0,) * (request.consumers or 1),
        end_ns=None if stop is None else _ns(stop),
        unreached=unreached,
    )
    return Given(scenario, QUEUE)


def _largest_queue(request: SimulateRequest) -> int:
    from pulsar_doctor.parts.simulate.outcome import sizes_to_compare

    return sizes_to_compare(request.queues)[-1]


def _reached(request: SimulateRequest, seconds: Sequence[float], stop: float) -> int:
    """Messages that consumers take until then, with all that fits into their queues, at most."""
    if 0 in seconds:
        return MESSAGES_MOST
    consumers = request.consumers or 1
    times = [seconds[min(each, len(seconds) - 1)] for each in range(consumers)]
    return sum(2 * _largest_queue(request) + ceil(stop / each) for each in times)


def _of_trace(trace_dir: Path, request: SimulateRequest) -> Given:
    """What the trace says of the one subscription that is meant."""
    from pulsar_doctor.errors import InputError
    from pulsar_doctor.parts.simulate.replaying import replay

    seen, notes = _chosen(trace_dir, request)
    times = request.process_times
    try:
        found = replay(seen, times[0] if times else None)
    except ValueError as error:
        raise InputError(f"{trace_dir} {error}") from None
    if seen.messages > MESSAGES_MOST:
        raise InputError(f"{trace_dir} has {seen.messages:,} messages, more than {MESSAGES_MOST:,}")
    return replace(found, notes=(*notes, *found.notes))


def _with_options(scenario: Scenario, request: SimulateRequest) -> Scenario:
    """What holds for numbers and traces alike."""
    from pulsar_doctor.ledger.clients import SIMULATED

    stop, client = request.duration, request.client
    return replace(
        scenario,
        client=SIMULATED[client] if client else scenario.client,
        round_trip_ns=_ns(request.round_trip),
        end_ns=scenario.end_ns if stop is None else _ns(stop),
    )


def _chosen(trace_dir: Path, request: SimulateRequest) -> tuple[Seen, Sequence[str]]:
    """The one subscription of the trace that is meant; and notes on the trace."""
    from pulsar_doctor.errors import InputError
    from pulsar_doctor.parts.simulate.replaying import COLUMNS, chosen, seen
    from pulsar_doctor.trace.opening import open_folder

    trace = open_folder(trace_dir, say)
    rows = trace.rows(COLUMNS)
    try:
        meant = chosen(seen(rows, trace.meta.told), request.topic, request.subscription)
    except ValueError as error:
        raise InputError(f"{trace_dir} {error}") from None
    return meant, trace.notes


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _verdict(simulation: Simulation) -> Any:
    from pulsar_doctor.diagnosis.weighing import diagnose_wire
    from pulsar_doctor.parts.simulate.outcome import without_lines

    for consumer in simulation.timeline.living:  # what is advised is spelled as this client has it
        consumer.client_version = simulation.scenario.client.reports[0]
    return without_lines(diagnose_wire(simulation.timeline.subscriptions(), *checks())[0])
