"""pulsar-doctor simulate: what another receiver queue size would do, on numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pulsar_doctor.cli._options import DURATION, output_option, say, talk_options

if TYPE_CHECKING:
    from pulsar_doctor.simulate.replaying import Seen
    from pulsar_doctor.simulate.running import Simulation
    from pulsar_doctor.simulate.scenario import Given, Scenario

CLIENTS = ["java", "pulsar-client", "pulsar-client-listener", "go", "wire"]
QUEUE = 1000  # what clients have where nobody says otherwise
PROCESS_SECONDS = 0.01
RATE_SECONDS = 60.0  # of arrivals, where nobody says how long
MESSAGES_MOST = 1_000_000
SAID_FROM = 100_000  # messages: a queue size takes seconds
KEYS = 1000
NOT_WITH_TRACE = (
    "rate", "backlog", "messages", "slow_every", "spread", "consumers", "type_", "batch_size",
)  # fmt: skip
PER_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
EPILOG = """\b
Examples:
  pulsar-doctor simulate --backlog 1000 --process-time 10m
  pulsar-doctor simulate --rate 100/s --process-time 5ms --spread 20% --consumers 4
  pulsar-doctor simulate --rate 100/s --receiver-delay 5s --delay-from receipt
  pulsar-doctor simulate --from-trace incident.ptrace -s billing
"""


class Rate(click.ParamType):  # type: ignore[type-arg]
    """Messages in a time, written 100/s, 30/m or 5/h; a value per second."""

    name = "rate"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Per second; wrong usage where the text is no rate."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(s|m|h|d))?", str(value))
        per_second = float(match[1]) / PER_SECONDS[match[2] or ""] if match else 0.0
        if not per_second:
            self.fail(f"{value!r} is no rate; write 100/s, 30/m or 5/h", param, ctx)
        return per_second


class Spread(click.ParamType):  # type: ignore[type-arg]
    """How much the time for a message varies: 20% around its mean, or exponential."""

    name = "spread"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        """A share of the mean, or that word."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)%", str(value))
        if match and float(match[1]) <= 100:
            return float(match[1]) / 100
        if value != "exponential":
            self.fail(f"{value!r} is no spread; write 20% or exponential", param, ctx)
        return "exponential"


@click.command(epilog=EPILOG)
@click.option("--rate", type=Rate(), help="Messages that arrive, such as 100/s.")
@click.option("--backlog", metavar="N", type=click.IntRange(1), help="Messages at the start.")
@click.option(
    "-n", "--messages", metavar="N", type=click.IntRange(1, MESSAGES_MOST),
    help="How many in all; ends when they are done.",
)  # fmt: skip
@click.option("--duration", type=DURATION, help="Stop after this time; with --rate after 1m.")
@click.option(
    "--process-time", "process_times", type=DURATION, multiple=True,
    help="Work for each message, default 10ms; repeated, of each consumer, the last of the rest.",
)  # fmt: skip
@click.option("--spread", type=Spread(), help="How much that varies: 20% or exponential.")
@click.option(
    "--slow-every", metavar="K", type=click.IntRange(1),
    help="Every K-th message takes --slow-time.",
)  # fmt: skip
@click.option("--slow-time", type=DURATION, help="How long such a message takes.")
@click.option(
    "--receiver-queue-size", "queues", metavar="N", type=click.IntRange(0, 100_000), multiple=True,
    help="Default 1000, or that of the trace, beside others; repeated, only these are compared.",
)  # fmt: skip
@click.option("--consumers", metavar="K", type=click.IntRange(1, 1000), help="Default 1.")
@click.option("--attach-every", type=DURATION, default="0", help="They subscribe so far apart.")
@click.option(
    "--receiver-delay", "delays", type=DURATION, multiple=True,
    help="Hand a message out when it is so old; several take turns by entry.",
)  # fmt: skip
@click.option(
    "--delay-from", type=click.Choice(["publish", "receipt"]), default="publish",
    show_default=True, help="From when on its age counts.",
)  # fmt: skip
@click.option(
    "--batch-size", metavar="N", type=click.IntRange(1, 10_000),
    help="Messages of an entry, default 1.",
)  # fmt: skip
@click.option(
    "--type", "type_", type=click.Choice(["exclusive", "shared", "failover", "key_shared"]),
    help="Subscription type, default shared.",
)  # fmt: skip
@click.option("--keys", metavar="N", type=click.IntRange(1), help="For key_shared, default 1000.")
@click.option(
    "--client", type=click.Choice(CLIENTS),
    help="Whose way to count permits, default pulsar-client, or that of the trace.",
)  # fmt: skip
@click.option(
    "--round-trip", type=DURATION, default="1ms", show_default=True,
    help="From a FLOW to the message that it brings.",
)  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="Of what is left to chance.")
@click.option(
    "--from-trace", "trace_dir", metavar="DIR", type=click.Path(path_type=Path),
    help="Arrivals and times of a trace instead.",
)  # fmt: skip
@click.option("--topic", help="With --from-trace: only this topic; its last part is enough.")
@click.option("-s", "--subscription", metavar="SUB", help="With --from-trace: only this one.")
@output_option("table", "json")
@talk_options
def command(output: str, trace_dir: Path | None, **options: Any) -> None:
    """Says what other receiver queue sizes would do, on numbers instead of a wire.

    The ledgers are those of every other subcommand; messages, broker and clients are made up: a
    broker of 4.0.8, and clients that ask as they were measured. --from-trace takes arrivals and
    processing times of a trace. The smallest queue that costs nothing is recommended.

    A consumer without permits is sent nothing. That time is told in all, summed over the consumers
    as `analyze` does, with its share of their time, and the longest of it at a stretch. A stall is
    such a time in which a client owes some and its application works, the longest of them again.
    Where --duration ends a run, the rules of `stall-check` judge it as well.
    """
    _check_usage(options, trace_dir)
    from pulsar_doctor.report import simulated, simulated_document
    from pulsar_doctor.simulate.outcome import impossible, outcome
    from pulsar_doctor.simulate.recommending import recommend, sizes_to_compare
    from pulsar_doctor.simulate.running import Simulation

    found = _of_numbers(options) if trace_dir is None else _of_trace(trace_dir, options)
    scenario = _with_options(found.scenario, options)
    told = options["queues"]
    given = told[0] if told and trace_dir is None else found.receiver_queue_size
    sizes = sizes_to_compare(told, given, scenario)
    refused = {size: impossible(scenario, size) for size in sizes}
    outcomes, judged = [], None
    for size in [size for size, why in refused.items() if why is None]:
        if scenario.messages > SAID_FROM:
            say(f"simulating {scenario.messages:,} messages with a queue of {size}")
        simulation = Simulation(scenario, size).run()
        outcomes.append(outcome(simulation))
        if size == given and scenario.end_ns is not None:
            judged = _verdict(simulation)
    report = simulated_document.Report(
        scenario=scenario,
        given=given,
        seed=options["seed"],
        outcomes=tuple(outcomes),
        refused={size: why for size, why in refused.items() if why is not None},
        recommendation=recommend(outcomes, given),
        diagnosis=judged,
        notes=found.notes,
    )
    (simulated.print_json if output == "json" else simulated.print_table)(report)


def _check_usage(options: dict[str, Any], trace_dir: Path | None) -> None:
    if (options["slow_every"] is None) != (options["slow_time"] is None):
        raise click.UsageError("--slow-every and --slow-time go together")
    if trace_dir is not None:
        for name in NOT_WITH_TRACE:
            if options[name] is not None:
                option = name.rstrip("_").replace("_", "-")
                raise click.UsageError(f"--{option} and --from-trace exclude each other")
        return
    for name in ("topic", "subscription"):
        if options[name] is not None:
            raise click.UsageError(f"--{name} goes with --from-trace")
    if options["rate"] is None and options["backlog"] is None:
        raise click.UsageError("say what arrives: --rate 100/s, --backlog 1000 or --from-trace DIR")
    if options["type_"] == "exclusive" and (options["consumers"] or 1) > 1:
        raise click.UsageError("an exclusive subscription takes one consumer; see --type")
    if options["rate"] is None and (options["messages"] or 0) > options["backlog"]:
        raise click.UsageError("messages that are not in the --backlog need a --rate")
    messages = _messages(options)
    if messages > MESSAGES_MOST:
        raise click.UsageError(
            f"{messages:,} messages are more than {MESSAGES_MOST:,}: give a smaller --messages, "
            "--duration or --rate"
        )


def _messages(options: dict[str, Any]) -> int:
    """How many there are: as many as asked for, or as arrive in the time."""
    backlog = options["backlog"] or 0
    if options["messages"] is not None:
        return int(max(options["messages"], backlog))
    seconds = options["duration"] or (RATE_SECONDS if options["rate"] else 0)
    return backlog + max(int((options["rate"] or 0) * seconds), 0 if backlog else 1)


def _of_numbers(options: dict[str, Any]) -> Given:
    from random import Random

    from pulsar_doctor.simulate.scenario import Given, Scenario, Work, arrivals, every, factors

    messages = _messages(options)
    chance = Random(options["seed"])
    seconds = options["process_times"] or (PROCESS_SECONDS,)
    slow, stop, apart = options["slow_every"], options["duration"], options["attach_every"]
    if stop is None and options["rate"] and options["messages"] is None:
        stop = RATE_SECONDS
    entries = arrivals(
        messages,
        backlog=options["backlog"] or 0,
        per_second=options["rate"] or 0.0,
        batch=options["batch_size"] or 1,
        keys=lambda: chance.randrange(options["keys"] or KEYS),
    )
    scenario = Scenario(
        entries=entries,
        work=Work(
            tuple(_ns(each) for each in seconds),
            factors(messages, options["spread"] or 0.0, chance.random),
            every(messages, slow, _ns(options["slow_time"])) if slow else {},
        ),
        type=options["type_"] or "shared",
        attach_ns=tuple(_ns(apart * number) for number in range(options["consumers"] or 1)),
        end_ns=None if stop is None else _ns(stop),
    )
    return Given(scenario, QUEUE)


def _of_trace(trace_dir: Path, options: dict[str, Any]) -> Given:
    """What the trace says of the one subscription that is meant."""
    from pulsar_doctor.errors import InputError
    from pulsar_doctor.simulate.replaying import replay

    seen = _chosen(trace_dir, options)
    times = options["process_times"]
    try:
        found = replay(seen, times[0] if times else None)
    except ValueError as error:
        raise InputError(f"{trace_dir} {error}") from None
    if seen.messages > MESSAGES_MOST:
        raise InputError(f"{trace_dir} has {seen.messages:,} messages, more than {MESSAGES_MOST:,}")
    return found


def _with_options(scenario: Scenario, options: dict[str, Any]) -> Scenario:
    """What holds for numbers and traces alike."""
    from dataclasses import replace

    from pulsar_doctor.simulate.clients import CLIENTS

    stop, client = options["duration"], options["client"]
    return replace(
        scenario,
        client=CLIENTS[client] if client else scenario.client,
        delays_ns=tuple(_ns(delay) for delay in options["delays"]),
        delay_from=options["delay_from"],
        round_trip_ns=_ns(options["round_trip"]),
        end_ns=scenario.end_ns if stop is None else _ns(stop),
    )


def _chosen(trace_dir: Path, options: dict[str, Any]) -> Seen:
    """The one subscription of the trace that is meant."""
    from pulsar_doctor.errors import InputError
    from pulsar_doctor.examination.recorded import open_folder
    from pulsar_doctor.simulate.replaying import COLUMNS, chosen, seen

    trace = open_folder(trace_dir)
    for note in trace.notes:
        say(f"pulsar-doctor: {note}")
    rows = trace.rows(COLUMNS)
    try:
        return chosen(seen(rows, trace.meta.told), options["topic"], options["subscription"])
    except ValueError as error:
        raise InputError(f"{trace_dir} {error}") from None


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _verdict(simulation: Simulation) -> Any:
    from pulsar_doctor.diagnosis import diagnose_wire, limits_of
    from pulsar_doctor.rules import load

    rules = load()
    return diagnose_wire(simulation.timeline.subscriptions(), rules, limits_of(rules))[0]
