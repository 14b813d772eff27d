"""pulsar-doctor consume: attach consumers with a chosen receiver queue and watch every permit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pulsar_doctor.cli._options import (
    DURATION,
    connection_options,
    output_option,
    say,
    say_more,
    set_option,
    settings,
    trace_option,
)

if TYPE_CHECKING:
    from pulsar_doctor.consuming import Plan
    from pulsar_doctor.diagnosis import Diagnosis
    from pulsar_doctor.session import Session
    from pulsar_doctor.settings import Settings

OWN_MESSAGES = 20
GROUPED_ACKS_SECONDS = 1.0  # clients gather acknowledgements for a moment (default 100 ms)
EPILOG = """\b
Examples:
  pulsar-doctor consume --zero-queue
  pulsar-doctor consume orders -s billing --receiver-queue-size 10 -n 30
  pulsar-doctor consume orders -s billing --process-time 2s --timeout 1m --trace billing.ptrace
"""


@click.command(epilog=EPILOG)
@click.argument("topic", required=False)
@click.option("-s", "--subscription", metavar="SUB", help="Subscription; with TOPIC it is needed.")
@click.option("--zero-queue", is_flag=True, help="A receiver queue of 0: ask when taking.")
@click.option(
    "--receiver-queue-size", metavar="N", type=click.IntRange(min=0), help="Default 1000."
)
@click.option(
    "--type",
    "type_",
    type=click.Choice(["exclusive", "shared", "failover", "key_shared"]),
    default="shared",
    show_default=True,
    help="Subscription type.",
)
@click.option(
    "--consumers",
    metavar="K",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="How many consumers to attach.",
)
@click.option(
    "--process-time", type=DURATION, help="How long each message is worked on, such as 2s."
)
@click.option(
    "--ack",
    type=click.Choice(["individual", "cumulative", "none"]),
    default="individual",
    show_default=True,
    help="How messages are acknowledged.",
)
@click.option(
    "-n",
    "--count",
    metavar="COUNT",
    type=click.IntRange(min=1),
    help=f"End after so many messages; without TOPIC {OWN_MESSAGES}.",
)
@click.option("--timeout", type=DURATION, help="End after this time at the latest.")
@trace_option
@set_option
@output_option("table", "json", "jsonl")
@connection_options
def command(
    topic: str | None, subscription: str | None, count: int | None, output: str, **options: Any
) -> int:
    """Attaches real consumers and shows every FLOW and every permit.

    The consumers reach the broker through a tap of our own, so what is shown is what is on the
    wire. They acknowledge what they take, unless --ack says otherwise. Without TOPIC it brings its
    own topic and messages, and where no broker is configured its own broker.

    Ends with the verdict of `stall-check`: exit code 1 where a consumer stands still, 3 where
    fewer than COUNT messages came within the timeout.
    """  # fmt: skip
    _check_usage(topic, subscription, options)
    from contextlib import ExitStack
    from dataclasses import replace

    from pulsar_doctor.diagnosis import limits_of
    from pulsar_doctor.rules import load

    limits_of(load(), options["changes"])  # a wrong --set is said before anything starts
    where = settings()
    own = topic is None
    if own and "service_url" not in where.told and not where.sandbox:
        say("no broker is configured: using a real Pulsar on this machine (the sandbox)")
        where = replace(where, sandbox=True)
    with ExitStack() as stack:
        if where.sandbox:
            from pulsar_doctor.sandbox import connected

            where = stack.enter_context(connected(where, say))
        if own:
            count = count or OWN_MESSAGES
        plans = _plans(topic or _own_topic(), subscription or "pulsar-doctor", options)
        return _consume(where, plans, count, output, own, options)


def _check_usage(topic: str | None, subscription: str | None, options: dict[str, Any]) -> None:
    if topic is not None and subscription is None:
        raise click.UsageError("with a TOPIC, name the subscription: -s SUB")
    if options["zero_queue"] and options["receiver_queue_size"]:
        raise click.UsageError("--zero-queue and --receiver-queue-size exclude each other")
    if options["type_"] == "exclusive" and options["consumers"] > 1:
        raise click.UsageError("an exclusive subscription takes one consumer; see --type")
    if options["ack"] == "cumulative" and options["type_"] in ("shared", "key_shared"):
        raise click.UsageError(
            f"the broker ignores cumulative acknowledgements on {options['type_']} subscriptions; "
            "use --type exclusive or failover"
        )


def _own_topic() -> str:
    import secrets

    return f"persistent://public/default/pulsar-doctor-{secrets.token_hex(4)}"


def _plans(topic: str, subscription: str, options: dict[str, Any]) -> list[Plan]:
    from pulsar_doctor.consuming import Plan

    size = options["receiver_queue_size"]
    if options["zero_queue"] or size is None:
        size = 0 if options["zero_queue"] else 1000
    return [
        Plan(
            name=f"consumer-{number}",
            topic=topic,
            subscription=subscription,
            type=options["type_"],
            receiver_queue_size=size,
            process_seconds=options["process_time"],
            ack=options["ack"],
        )
        for number in range(1, options["consumers"] + 1)
    ]


def _consume(
    where: Settings, plans: list[Plan], count: int | None, output: str, own: bool,
    options: dict[str, Any],
) -> int:  # fmt: skip
    from pulsar_doctor.diagnosis import exit_code, limits_of
    from pulsar_doctor.report.live import LiveLines
    from pulsar_doctor.report.rows import row_line
    from pulsar_doctor.rules import load
    from pulsar_doctor.session import session

    rules = load()
    limits = limits_of(rules, options["changes"])
    lines = LiveLines(click.echo)
    on_row = {
        "table": lines.add,
        "jsonl": lambda row: click.echo(row_line(row)),
        "json": None,
    }[output]
    trace_dir = options["trace_dir"]
    say_more(f"attaching to {plans[0].topic} at {where.service_url}")
    with session(
        where, plans, budget=count, own_topic=own, trace_dir=trace_dir, on_row=on_row
    ) as running:
        lines.timeline = running.timeline
        _refuse_zero_queue_on_partitions(running, plans[0])
        _attach(running, plans, count if own else None)
        in_time = _watch(running, lines, options["timeout"])
        diagnoses = running.diagnoses(rules, limits)
        lines.flush()
        last_word = _last_word(running, diagnoses, plans[0], output)
    last_word()  # behind the rows of the consumers' closing
    code = exit_code(diagnoses, "stalled")
    return code or _shortfall(running, in_time)


def _refuse_zero_queue_on_partitions(running: Session, plan: Plan) -> None:
    from pulsar_doctor import attach

    if plan.receiver_queue_size:
        return
    names = attach.partitions_of(running.client, plan.topic)
    if names and names[0].endswith(f"{plan.topic}-partition-0"):
        raise attach.zero_queue_on_partitions(plan.topic)


def _attach(running: Session, plans: list[Plan], own_messages: int | None) -> None:
    from pulsar_doctor import attach

    first, *others = plans
    running.attach(first)
    if own_messages:
        attach.produce(running.client, first.topic, own_messages)
    for plan in others:
        running.attach(plan)


def _watch(running: Session, lines: Any, timeout: float | None) -> bool:
    """Waits for the workers and shows what happens; False where the time ran out."""

    def done() -> bool:
        lines.flush()
        return not any(worker.working for worker in running.workers)

    in_time = running.wait(done, timeout)
    running.wait(lambda: running.acknowledged, GROUPED_ACKS_SECONDS)
    return in_time


def _last_word(
    running: Session, diagnoses: list[Diagnosis], plan: Plan, output: str
) -> Callable[[], None]:
    """The verdict, as of now, to be printed at the end."""
    import json

    from pulsar_doctor.report import consumed, verdict

    if running.batch_refused:
        say(
            f"{running.batch_refused} was sent a batch, of which a zero queue hands out only the "
            "first message: stopped before any of it was acknowledged; all of it goes back to the "
            "subscription. Use --receiver-queue-size 1 for this topic."
        )
    if output == "table":
        return lambda: verdict.print_diagnoses(diagnoses)
    consumers = list(running.timeline.living)
    document = consumed.document(plan.topic, plan.subscription, consumers, diagnoses)
    text = json.dumps(document, indent=2 if output == "json" else None)
    return lambda: click.echo(text)


def _shortfall(running: Session, in_time: bool) -> int:
    """Exit code 3 where a consumer failed or fewer messages came than were asked for."""
    for worker in running.workers:
        if worker.error is not None:
            raise worker.error
    if not in_time and running.budget.missing:
        say(f"{running.budget.missing} of the messages asked for did not come in time")
        return 3
    return 0
