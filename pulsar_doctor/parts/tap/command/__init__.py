"""`pulsar-doctor tap`: relays clients to the broker, and records what passes."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import click

from pulsar_doctor.cli._calls import accepted, checks, connected, is_given, talk
from pulsar_doctor.cli._commands import sectioned
from pulsar_doctor.cli._options import connection_options, taking
from pulsar_doctor.errors import DoctorError, InputError, TraceError
from pulsar_doctor.parts.tap.command.options import SECTIONS, TapRequest
from pulsar_doctor.parts.tap.report.choosing import lines_on, screen_of
from pulsar_doctor.wording.gate import stderr, stdout, warn

if TYPE_CHECKING:
    from pulsar_doctor.broker.settings import Settings
    from pulsar_doctor.checkup.expected import Expectation
    from pulsar_doctor.diagnosis.verdict import Diagnosis
    from pulsar_doctor.ledger.timeline import Timeline
    from pulsar_doctor.parts.tap.broker_reports import BrokerReports
    from pulsar_doctor.parts.tap.events import End, Listening, Screen
    from pulsar_doctor.parts.tap.own_trace import OwnTrace
    from pulsar_doctor.parts.tap.relaying import Relay
    from pulsar_doctor.parts.tap.running import TapOutcome
    from pulsar_doctor.trace.ring import RingLimits

GROUP = "watch"
EPILOG = """\b
Examples:
  pulsar-doctor tap --listen 127.0.0.1:6651 --trace billing.ptrace
  pulsar-doctor tap --service-url pulsar+ssl://broker:6651 --tls-trust-certs ca
  pulsar-doctor tap --sandbox --trace t.ptrace -- python app.py {service_url}
  pulsar-doctor tap --for 60s --expect-consumers 1 --expect-acked all -- python my_consumer.py
  pulsar-doctor tap --trace /var/lib/taps/billing.ptrace --ring 10m --max-bytes 2GiB
  pulsar-doctor tap -o jsonl | jq -c 'select(.event == "verdict")'
  pulsar-doctor tap --compare-broker --set permits-exhausted.refill_wait=1m

Exit codes: 0 nothing stalled; 1 a stall was found (see --fail-on), or an expectation is not met; 2
wrong usage; 3 the tap could not work, no consumer came and none was expected, a verdict (see
--accept-unknown) or an expectation cannot be decided, or the trace lacks something (where `trace
verify` ends with 2, 4 or 6). If both 1 and 3
apply, it is 1. With CMD its own code, when that is not 0.
"""


@click.command(
    cls=sectioned(SECTIONS), epilog=EPILOG, context_settings={"ignore_unknown_options": False}
)
@taking(TapRequest)
@connection_options
def command(request: TapRequest) -> int:
    """Relays a client to the broker, and records every permit.

    Point the client, in any language, at the address that is printed. Traffic passes unchanged; the
    trace has no payload, key or credential. On a terminal each consumer is a line: its receiver
    queue as a bar (permits available at the broker, messages queued, permits not yet sent), its
    FLOWs, when the next one comes, and its verdict. A verdict that changes is printed once, with
    the remedy.

    Without --trace the trace is temporary. It is removed at the end if everything was healthy and
    the exit code is 0. Otherwise (a stall, a gap, a broker that could not be reached) it is kept in
    XDG_STATE_HOME/pulsar-doctor/taps, else ~/.local/state/pulsar-doctor/taps, and the last line
    names it.

    Ends with Ctrl-C or SIGTERM, or with CMD if one is given (it finds the address in
    PULSAR_SERVICE_URL, and in place of {service_url} in its arguments). Then it reports whether a
    consumer was stuck. If the tap is killed, the traffic goes on until its clients are gone or its
    relay, a separate process, gets SIGTERM. A relay that is killed is started again at the same
    address. SIGUSR1 prints the counters. SIGUSR2 seals what has passed so far; of a ring it keeps a
    copy.

    As a check in CI it ends by itself (--for). Each --expect-… that is not met prints one line and
    makes the exit code 1. With -o json, junit or github, stdout has only that document, at the
    end, and CMD's own stdout goes to stderr: json is the event `end` of -o jsonl; github also adds
    a table to the file that GITHUB_STEP_SUMMARY names.

    With -o jsonl, stdout has only JSON lines, and CMD's own stdout goes to stderr. Each line has
    `schema` ("pulsar-doctor/tap/2"), `event`, and `at`, the time in UTC. The events:

    \b
    listening  service_url to give to clients, upstream, trace_dir (null: it is
               temporary)
    snapshot   about once a second: consumers, one object each, with incarnation,
               name, topic, partition, subscription, type, client_version,
               address, receiver_queue_size, refill_threshold, available_permits
               (at most, while parked_permits is null), parked_permits,
               unsent_permits_min, flows, msg_out_counter, acknowledged,
               unacked_messages, since_last_flow, next_flow (messages, at_most,
               seconds), certain, status, code; and unread_bytes: of the journal,
               not looked at yet
    verdict    one that changed: before (null: the first), and all of
               stall-check's JSON
    gap        dropped commands are missing in the trace at row seq (null: nobody
               knows how many)
    refused    why a client did not get through, each reason once: reason, address
               and client_version of the first one; `trace summary` counts them
    passed_by  a lookup of topic was answered, and for 10 s nobody subscribed to
               it or produced: its client (address, client_version) may have gone
               past the tap
    counters   after SIGUSR1: those of the relay and of the observer
    sealed     after SIGUSR2: everything up to then is in Parquet
    kept       path of the copy of a ring, and its reason
    trouble    reason why the trace cannot be sealed now, null when it can again
    observer   answers: false where the observer has not answered for seconds (5
               or more), so that nothing is judged; true when it answers again
    end        exit_code, dropped, seen (what was not healthy, in words),
               trace_dir (null: it is removed), subscriptions with their last
               verdicts, written and sealed: commands that the relays wrote down,
               also those that died, and that are in the trace; expectations:
               option, met (null: cannot be decided), said, action, topic,
               subscription, consumer, delivered, acknowledged_least and
               acknowledged_most

    What is null is not known.
    """  # fmt: skip
    from pulsar_doctor.parts.tap.own_trace import own_trace

    checks(request.changes)  # what is mistyped is reported before anything starts
    for name in request.cmd[:1]:
        _require_program(name)
    limits = _limits(request)
    with ExitStack() as stack:
        where = stack.enter_context(connected())
        own = None if request.trace_dir else stack.enter_context(own_trace(warn))
        return _tap(where, own, limits, request)


def _require_program(name: str) -> None:
    """Raises InputError where nothing of this name can be run."""
    if which(name) is None:
        why = errno.EACCES if Path(name).exists() else errno.ENOENT
        raise InputError(f"cannot run {name}: {os.strerror(why)}")


def _limits(request: TapRequest) -> RingLimits:
    from pulsar_doctor.trace.ring import shares

    if (
        request.expected.acked is not None
        and (request.ring_seconds or request.max_bytes) is not None
    ):
        raise InputError("--expect-acked needs the whole trace: leave --ring and --max-bytes out")
    return shares(request.ring_seconds, request.max_bytes, request.seal_every)


def _tap(where: Settings, own: OwnTrace | None, limits: RingLimits, request: TapRequest) -> int:
    from pulsar_doctor.diagnosis.verdict import exit_code
    from pulsar_doctor.parts.tap import running
    from pulsar_doctor.parts.tap.relaying import relaying
    from pulsar_doctor.report.stall_check import verdict
    from pulsar_doctor.trace import ring

    folder = own.folder if own else request.trace_dir
    assert folder is not None
    screen = _screen(request)
    options = replace(
        request.relay, limits=limits, settings=where, probe=True, say=screen.warn, lasting=True
    )
    with relaying(where.service_url, folder, options) as relay:
        # Only now: relaying says which extra is missing.
        from pulsar_doctor.parts.tap.command.expecting import end_plan, expectations_of, report

        if limits.bounded:
            ring.begin(folder, limits)
        listening = _listening(relay, request)
        plan = running.TapPlan(
            folder,
            request.changes,
            limits.bounded and request.trace_dir is not None,
            where if request.compare_broker else None,
            request.cmd,
            request.output != "table",
            end_plan(relay, listening, request),
            checks=request.expected.anything,
        )
        trace = "" if own else f"the trace is in {folder}; "
        begins = [f"tapping {listening.upstream}; {trace}Ctrl-C ends it"]
        if own:
            begins.append(own.promise)
            own.begun = True
        outcome = running.run(relay, plan, screen, listening=listening, begins=begins)
    diagnoses, is_loss = _judged(folder, request.changes, outcome, screen)
    accepts = request.accept_unknown
    expectations = expectations_of(folder, request, listening, outcome, diagnoses, where=where)
    code = outcome.code or (1 if any(each.met is False for each in expectations) else 0)
    if diagnoses or request.expected.consumers != 0:  # 0: of producers there is nothing to judge
        code = code or exit_code(diagnoses, request.fail_on, accepts)
    unknown = any(each.met is None for each in expectations)
    code = code or (DoctorError.exit_code if is_loss or outcome.missing or unknown else 0)
    if code and not outcome.seen:
        outcome.note(f"exit code {code}" if diagnoses else "no consumer came")
    kept = own.end(outcome.seen) if own else folder
    if request.output in ("json", "jsonl"):
        last = screen if request.output == "jsonl" else _json_lines()
        last.show(_end(diagnoses, code, outcome, expectations, kept))
    elif request.output != "table":
        report(diagnoses, expectations, request, since_us=listening.at_us)
    elif diagnoses:
        verdict.print_diagnoses(diagnoses, verbose=is_given("verbose"))
    else:
        screen.warn("no consumer came through the tap: there is nothing to judge")
    for each in expectations:
        tell = screen.say if each.met else screen.warn
        tell(f"{each.sentence}. First: {each.action}" if each.action else each.sentence)
    accepted(sum(each.status == "unknown" for each in diagnoses), accept=accepts)
    if own and kept:
        screen.warn(f"the trace is kept ({', '.join(outcome.seen)}): {own.place}")
    elif own:
        screen.say("the temporary trace is removed: nothing was found")
    elif code:
        screen.warn(f"the trace is in {folder}")
    return code


def _listening(relay: Relay, request: TapRequest) -> Listening:
    from pulsar_doctor.parts.tap.events import Listening, now_us
    from pulsar_doctor.trace.folder import read_meta

    kept = request.trace_dir
    upstream = read_meta(relay.trace_dir).upstream_address
    return Listening(now_us(), relay.service_url, upstream, None if kept is None else str(kept))


def _json_lines() -> Screen:
    from pulsar_doctor.parts.tap.report.screens import JsonLines

    return JsonLines(stdout(), talk(), warn)


def _screen(request: TapRequest) -> Screen:
    if request.output == "jsonl":
        return _json_lines()
    if request.output != "table":
        return lines_on(stderr())
    return screen_of(stderr() if request.cmd else None)


def _judged(
    folder: Path, changes: Sequence[str], outcome: TapOutcome, screen: Screen
) -> tuple[list[Diagnosis], bool]:
    """The last verdicts, and whether something is missing from the trace."""
    from pulsar_doctor.parts.tap.command.expecting import of_the_past
    from pulsar_doctor.parts.tap.running import reconcile
    from pulsar_doctor.trace.sealing import open_trace

    try:
        trace = open_trace(folder, screen.say)
        timeline = trace.timeline()
        missing = trace.missing(timeline.set_aside)
        reconcile(outcome, folder, screen.warn)
    except TraceError as error:
        outcome.note("the trace is damaged")
        screen.warn(str(error))
        return [], True
    diagnoses = _diagnoses(timeline, changes, outcome.broker)
    if outcome.command:
        diagnoses = [of_the_past(each, outcome.command) for each in diagnoses]
    for diagnosis in diagnoses:
        if diagnosis.status != "healthy":
            outcome.note(diagnosis.status)
    if missing.is_loss:
        outcome.note("the trace is damaged" if missing.damaged else "the trace is not whole")
        screen.warn(f"the trace is not whole: `trace verify` ends with {missing.exit_code}")
    return diagnoses, missing.is_loss


def _diagnoses(
    timeline: Timeline, changes: Sequence[str], broker: BrokerReports
) -> list[Diagnosis]:
    from pulsar_doctor.diagnosis.weighing import diagnose

    causes, limits = checks(changes)
    return [diagnose(broker.beside(wire), causes, limits) for wire in timeline.subscriptions()]


def _end(
    diagnoses: Sequence[Diagnosis],
    code: int,
    outcome: TapOutcome,
    expectations: Sequence[Expectation],
    kept: Path | None,
) -> End:
    from pulsar_doctor.parts.tap.events import End, now_us

    return End(
        at_us=now_us(),
        exit_code=code,
        dropped=outcome.dropped + outcome.missing,
        seen=tuple(outcome.seen),
        trace_dir=None if kept is None else str(kept),
        subscriptions=tuple(diagnoses),
        written=outcome.written,
        sealed=outcome.sealed,
        expectations=tuple(expectations),
    )
