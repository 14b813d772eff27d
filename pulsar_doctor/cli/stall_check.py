"""pulsar-doctor stall-check: the verdict on each subscription, with the numbers and a remedy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pulsar_doctor.cli._options import (
    connection_options,
    output_option,
    say,
    say_more,
    set_option,
)
from pulsar_doctor.errors import DoctorError, InputError, MissingExtra

if TYPE_CHECKING:
    from pulsar_doctor.consumers import Subscription
    from pulsar_doctor.diagnosis import FailOn
    from pulsar_doctor.timeline import Timeline
    from pulsar_doctor.trace.reading import Trace

NAMED_MOST = 10


@click.command()
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@click.option("-s", "--subscription", metavar="SUB", help="Only this subscription.")
@click.option(
    "--trace", "trace_dir", metavar="DIR", type=click.Path(path_type=Path),
    help="Judge what went over the wire, as `tap` or `consume` recorded it.",
)  # fmt: skip
@set_option
@click.option("--skip", metavar="CODE", multiple=True, help="Leave out a rule; may be repeated.")
@click.option(
    "--fail-on", type=click.Choice(["stalled", "warning", "never"]), default="stalled",
    show_default=True, help="From which verdict on the exit code is 1.",
)  # fmt: skip
@output_option("table", "json")
@connection_options
def command(
    topics: tuple[str, ...],
    *,
    subscription: str | None,
    trace_dir: Path | None,
    changes: tuple[str, ...],
    skip: tuple[str, ...],
    fail_on: FailOn,
    output: str,
) -> int:
    """Says of each subscription whether it stands still, why, and what to do.

    A TOPIC is a full name or its last part; a partitioned topic stands for its partitions. A
    subscription whose consumers are all closed is judged as it stood just before they were.

    \b
    pulsar-doctor stall-check --trace incident.ptrace
    pulsar-doctor stall-check orders -s billing --trace incident.ptrace -o json
    pulsar-doctor stall-check --trace incident.ptrace --set permits-exhausted.refill_wait=2m

    Exit codes: 0 nothing stalled; 1 a stall was found (see --fail-on); 2 wrong usage or a trace
    that cannot be read; 3 where a verdict is unknown, the trace has no consumer at all, or none
    on the TOPIC or SUB that was asked for. 1 outranks 3.
    """
    if trace_dir is None:
        raise InputError(
            "in this version a verdict comes from a trace: add --trace DIR; "
            "`pulsar-doctor tap --trace DIR` or `pulsar-doctor consume --trace DIR` records one"
        )
    from pulsar_doctor.diagnosis import Evidence, diagnose, exit_code, limits_of
    from pulsar_doctor.report import verdict
    from pulsar_doctor.rules import load, named

    left_out = {rule.code for rule in named(skip)}
    limits = limits_of(load(), changes)
    rules = [rule for rule in load() if rule.code not in left_out]
    trace = _open(trace_dir)
    timeline = trace.timeline()
    say_more(f"{timeline.next_seq} commands of {len(timeline.consumers)} consumers")
    wires = _asked_for(trace_dir, timeline.subscriptions(), topics, subscription)
    diagnoses = [diagnose(Evidence(wire), rules, limits) for wire in wires]
    if output == "json":
        window = _length_seconds(trace, timeline)
        click.echo(json.dumps(verdict.document(diagnoses, source="trace", window_seconds=window)))
    else:
        verdict.print_diagnoses(diagnoses)
    return exit_code(diagnoses, fail_on)


def _open(folder: Path) -> Trace:
    try:
        from pulsar_doctor.sealing import open_trace
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("pyarrow", "google"):
            raise MissingExtra("trace", "reading a trace") from None
        raise
    trace = open_trace(folder)
    for note in trace.notes:
        say(f"pulsar-doctor: {note}")
    return trace


def _length_seconds(trace: Trace, timeline: Timeline) -> float:
    """From the start of the trace to its end; 0 where it does not tell when it began."""
    began_ns = trace.meta.clocks.get("mono_ns", timeline.now_ns)
    return max(0, timeline.now_ns - began_ns) / 1e9


def _asked_for(
    folder: Path, wires: Sequence[Subscription], topics: Sequence[str], subscription: str | None
) -> list[Subscription]:
    """What the arguments name; DoctorError where one of them names nothing."""
    if not wires:
        raise DoctorError(f"{folder} has no consumer: nothing to judge; was its client on the tap?")
    of_topics = [wire for wire in wires if not topics or any(_is(wire, t) for t in topics)]
    found = [wire for wire in of_topics if subscription in (None, wire.subscription)]
    strange = [repr(t) for t in topics if not any(_is(wire, t) for wire in wires)]
    if not strange and found:
        return found
    what = f"topic {', '.join(strange)}" if strange else f"subscription {subscription!r}"
    where = " of this topic" if topics and not strange else ""
    names = [f"{wire.subscription} on {_full(wire)}" for wire in wires]
    more = f" and {len(names) - NAMED_MOST} more" if len(names) > NAMED_MOST else ""
    raise DoctorError(
        f"{folder} has no {what}{where}; it has {', '.join(names[:NAMED_MOST])}{more}"
    )


def _full(wire: Subscription) -> str:
    return wire.topic if wire.partition is None else f"{wire.topic}-partition-{wire.partition}"


def _is(wire: Subscription, topic: str) -> bool:
    names = (wire.topic, _full(wire))
    return any(name == topic or name.endswith(f"/{topic}") for name in names)
