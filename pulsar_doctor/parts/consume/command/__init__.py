"""`pulsar-doctor consume`: attaches test consumers, and shows every permit."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from pulsar_doctor.cli._calls import (
    accepted,
    checks,
    connected,
    end_as_with_ctrl_c,
    is_given,
    outlives,
    say,
    settings,
    talk,
)
from pulsar_doctor.cli._commands import sectioned
from pulsar_doctor.cli._options import connection_options, taking
from pulsar_doctor.errors import DoctorError, needing
from pulsar_doctor.parts.consume.command.ending import last_word, shortfall
from pulsar_doctor.parts.consume.command.options import OWN_MESSAGES, SECTIONS, ConsumeRequest
from pulsar_doctor.wording.addresses import bare
from pulsar_doctor.wording.gate import stdout, tell, tell_json, warn

if TYPE_CHECKING:
    from pulsar_doctor.broker.settings import Settings
    from pulsar_doctor.parts.consume.engines import Plan
    from pulsar_doctor.parts.consume.session import Session
    from pulsar_doctor.parts.consume.visiting.leavings import Left, Visit

GROUP = "experiment"
OWN_KEYS = 16  # of our own messages on a Key_Shared subscription
GROUPED_ACKS_SECONDS = 1.0  # clients gather acknowledgements for a moment (default 100 ms)
EPILOG = """\b
Examples:
  pulsar-doctor consume --zero-queue
  pulsar-doctor consume orders --receiver-queue-size 10 -n 30
  pulsar-doctor consume orders --process-time 2s --timeout 1m --trace o.ptrace
  pulsar-doctor consume orders --type failover --ack cumulative --ack-every 20
  pulsar-doctor consume orders --nack-rate 5% --nack-delay 10s --timeout 1m
  pulsar-doctor consume orders --receiver-delay 5s --receiver-queue-size 100
  pulsar-doctor consume orders --engine wire --zero-queue
  echo 1 10 | pulsar-doctor consume orders --engine wire --permits manual
"""


@click.command(cls=sectioned(SECTIONS), epilog=EPILOG)
@taking(ConsumeRequest)
@connection_options
def command(request: ConsumeRequest) -> int:
    """Attaches real consumers, and shows every FLOW and permit.

    The consumers connect through a tap, so what is shown is what is on the wire. They acknowledge
    what they receive, unless --ack says otherwise. Without TOPIC, it creates its own topic and
    messages; without a configured broker, it starts its own.

    With TOPIC they read a copy of the messages, from the earliest one that is kept, on a
    subscription of their own. It is removed at the end, and counts for the topic's backlog quota
    until then. -s SUB creates a subscription that stays. A SUB with a backlog or consumers is in
    use: without --take-messages it is refused (exit code 2), and so is one that the REST API
    (--admin-url) cannot report (3). What stays is listed at the end, with the command that removes
    it.

    Ends with the verdict of `stall-check`: exit code 1 if a consumer is stuck; 3 if that is unknown
    (see --accept-unknown), if fewer than COUNT messages arrived before the timeout, or if TOPIC
    does not exist.
    """  # fmt: skip
    from dataclasses import replace
    from secrets import token_hex

    from pulsar_doctor.parts.consume.command import planning

    end_as_with_ctrl_c()
    planning.check(request)
    checks(request.changes)  # a wrong --set is reported before anything starts
    where = settings()
    if request.topic is None and "service_url" not in where.origins and not where.sandbox:
        say("no broker is configured: using a real Pulsar on this machine (the sandbox)")
        where = replace(where, sandbox=True)
    with connected(where) as where:
        fresh = f"pulsar-doctor-{token_hex(4)}"
        if request.topic is not None:
            plans = planning.plans(request.topic, request.subscription or fresh, request)
            return _consume(where, plans, request)
        own = f"persistent://public/default/{fresh}"
        plans = planning.plans(own, request.subscription or "pulsar-doctor", request)
        return _consume(where, plans, replace(request, count=request.count or OWN_MESSAGES))


def _consume(where: Settings, plans: list[Plan], request: ConsumeRequest) -> int:
    from pulsar_doctor.diagnosis.verdict import exit_code
    from pulsar_doctor.parts.consume.report.live import LiveLines
    from pulsar_doctor.report.paper import console_on
    from pulsar_doctor.report.trace.rows import row_json

    with needing("consume", "attaching consumers"):
        from pulsar_doctor.parts.consume.session import RunOptions, session
    causes, limits = checks(request.changes)
    visit = _visit(where, plans[0], request)
    lines = LiveLines(tell, console_on(stdout()).width)
    on_row = {
        "table": lines.add,
        "jsonl": lambda row: tell_json(row_json(row)),
        "json": None,
    }[request.output]
    run = RunOptions(request.engine, request.count, request.trace_dir, on_row)
    say(f"attaching to {plans[0].topic} at {bare(where.service_url)}")
    left: list[Left] = []
    try:
        with (
            ExitStack() as behind,
            session(where, plans, run) as running,
        ):
            behind.callback(_tidy, where, visit, left)
            lines.timeline = running.timeline
            running.say = talk()
            _attach(running, plans, request.count if request.topic is None else None)
            shown = request.count if request.output == "json" else None
            in_time = _watch(running, lines, request.timeout, shown)
            diagnoses = running.diagnoses(causes, limits)
            lines.flush()
            tell_end = last_word(running, diagnoses, plans, request.output)
        tell_end(left)  # behind the rows of the consumers' closing
    finally:
        for each in left:
            warn(each.sentence)
    accepted(sum(d.accepts(request.accept_unknown) for d in diagnoses), request.accept_unknown)
    code = exit_code(diagnoses, "stalled", request.accept_unknown)
    return code or shortfall(running, in_time)


def _visit(where: Settings, plan: Plan, request: ConsumeRequest) -> Visit:
    """What is there before anything is attached. Raises DoctorError where that must not be."""
    from pulsar_doctor.parts.consume.visiting import leavings, manners
    from pulsar_doctor.parts.tap.upstream import require_reachable

    if request.topic is None:
        return leavings.of_own_topic(plan)
    fresh, take = request.subscription is None, request.take_messages
    try:
        visit = manners.enter(where, plan, thrown_away=fresh, take=take, create=request.create)
    except DoctorError:
        require_reachable(where.service_url, where)  # where no broker answers, that comes first
        raise
    if visit.before is not None and visit.before.held:
        what = "messages" if manners.somebodys(visit.before) else "what comes now"
        say(f"{manners.summary(visit.before, plan)}: {what} will be taken from it")
    return visit


def _tidy(where: Settings, visit: Visit, left: list[Left]) -> None:
    """When the consumers are gone, however they went. A broker of our own ends with all it has."""
    if outlives(where):
        visit.tidy(where, left)


def _attach(running: Session, plans: list[Plan], own_messages: int | None) -> None:
    first, *others = plans
    running.attach(first)
    if own_messages:
        keys = OWN_KEYS if first.type == "key_shared" else 0
        running.produce(first.topic, own_messages, keys=keys)
    for plan in others:
        running.attach(plan)


def _watch(running: Session, lines: Any, timeout: float | None, count: int | None) -> bool:
    """Waits for the workers and shows what happens; False where the time ran out.

    count: of the messages, where stdout does not show how far it is.
    """
    from pulsar_doctor.report.progress import ProgressBar

    hand = _hand(running)
    progress = ProgressBar(quiet=bool(is_given("quiet")))

    def done() -> bool:
        lines.flush()
        if count:
            progress(count - running.budget.missing, count, "messages")
        if hand is not None and hand.over(running.delivered):
            return True
        return not any(worker.working for worker in running.workers)

    try:
        in_time = running.wait(done, timeout)
    finally:
        progress.stop()
    running.wait(lambda: running.acknowledged, GROUPED_ACKS_SECONDS)
    running.wait(lambda: running.interrupted_again, GROUPED_ACKS_SECONDS + running.nack_seconds)
    return in_time


def _hand(running: Session) -> Any:
    """Who grants permits by what is typed; None where the consumers do it themselves."""
    import sys

    (first, *_) = running.workers
    if first.plan.permits != "manual":
        return None
    from pulsar_doctor.parts.consume.granting import Hand

    if sys.stdin.isatty():
        say("type how many permits to grant, such as 1 or 10, and Enter; Ctrl-D ends")
    return Hand(first, sys.stdin, running.say)
