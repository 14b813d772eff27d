"""`tap` as a check in CI: when it ends, whether expectations are met, and its report."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.checkup.expected import Expectation
from pulsar_doctor.checkup.expecting import expectations, seen_in, unreadable
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.answers import SEVERITIES, Finding
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.errors import DoctorError, TraceError
from pulsar_doctor.parts.tap.command.options import TapRequest
from pulsar_doctor.parts.tap.ending import CommandEnd, EndPlan
from pulsar_doctor.parts.tap.events import Listening, now_us
from pulsar_doctor.parts.tap.relaying import Relay
from pulsar_doctor.parts.tap.running import TROUBLES, TapOutcome
from pulsar_doctor.report.stall_check import formats
from pulsar_doctor.report.stall_check.wanted import Wanted
from pulsar_doctor.wording.gate import stdout
from pulsar_doctor.wording.printable import printable

CLOSED = "closed-unacknowledged"  # the cause that speaks of a consumer's end
GONE = "its process has ended; `trace summary` shows what each consumer did"


def end_plan(relay: Relay, listening: Listening, request: TapRequest) -> EndPlan:
    """When the tap ends by itself."""

    def has_failed() -> bool:
        try:
            relay.flush()
            seen = seen_in(relay.trace_dir, listening.at_us, is_over=False)
        except DoctorError:  # the relay is started again, or the trace is being sealed
            return False
        return any(each.met is False for each in expectations(request.expected, seen))

    within, again = request.expected.within_seconds, request.expected.acked == "all"
    return EndPlan(request.for_seconds, within, again, has_failed)


def expectations_of(
    folder: Path,
    request: TapRequest,
    listening: Listening,
    outcome: TapOutcome,
    diagnoses: Sequence[Diagnosis],
    *,
    where: Settings,
) -> list[Expectation]:
    """What came of each; none where the trace cannot be read, which has been reported."""
    if not request.expected.anything:
        return []
    unread = TROUBLES["unparsed"] in outcome.seen
    lost = bool(outcome.missing or outcome.dropped or outcome.hidden or outcome.deaths or unread)
    expected, ended = request.expected, outcome.command
    if ended is not None and ended.by_itself and ended.seconds < (expected.within_seconds or 0):
        expected = replace(expected, within_seconds=None)  # nobody waited for so long
    try:
        found = expectations(expected, seen_in(folder, listening.at_us, lost=lost), diagnoses)
    except TraceError as error:
        found = unreadable(request.expected, str(error))
    found = [_of_command(each, outcome.command) for each in found]
    found = [_beside_others(each, diagnoses, where) for each in found]
    for each in found:
        if not each.met:
            outcome.note(f"{each.option}: {'not met' if each.met is False else 'not decided'}")
    return found


def _of_command(each: Expectation, ended: CommandEnd | None) -> Expectation:
    """With how the command ended, which explains most."""
    if each.met or ended is None:
        return each
    if not ended.by_itself:
        return each.beside(ended.sentence)
    alone = "run the command without the tap: it ended before any message was delivered to it"
    return each.beside(before=ended.sentence, action="" if each.delivered else alone)


def of_the_past(diagnosis: Diagnosis, ended: CommandEnd) -> Diagnosis:
    """Without advice for a process that has ended: what is left are settings and design.

    Where the tap ended it, that it was closed is the least of what is as bad.
    """
    findings = []
    for each in sorted(diagnosis.findings, key=lambda each: _of_the_end(each, ended)):
        left = tuple(action for action in each.actions if action.when != "now")
        findings.append(replace(each, actions=left, remedy=left[0].text if left else GONE))
    suspects = tuple(replace(each, decide=None, remedy=None) for each in diagnosis.suspects)
    return replace(diagnosis, findings=tuple(findings), suspects=suspects)


def _of_the_end(each: Finding, ended: CommandEnd) -> tuple[int, bool]:
    return SEVERITIES.index(each.severity), not ended.by_itself and each.code == CLOSED


def _beside_others(
    each: Expectation, diagnoses: Sequence[Diagnosis], where: Settings
) -> Expectation:
    """Where nothing was delivered: what waits in other subscriptions of the same topics."""
    if each.met or each.delivered != 0:
        return each
    for diagnosis in diagnoses:
        topic = diagnosis.full_topic
        for other, waits in asyncio.run(_waiting(where, topic)).items():
            if other != diagnosis.subscription:
                read = printable(f"it read {diagnosis.subscription} on {topic}")
                more = f"{read}, and {waits} entries wait in {printable(other)}"
                return each.beside(more, action=f"subscribe to {printable(other)}")
    return each


async def _waiting(where: Settings, topic: str) -> dict[str, int]:
    """The backlog of each subscription that has one; nothing where the REST API does not answer."""
    from pulsar_doctor.broker.admin import Admin
    from pulsar_doctor.broker.stats.reading import topic_stats

    with suppress(DoctorError):
        async with Admin(where) as admin:
            stats = topic_stats((await admin.topic_stats(topic)).document)
            found = (stats.subscriptions or {}).items()
            return {name: each.msg_backlog for name, each in found if each.msg_backlog}
    return {}


def report(
    diagnoses: Sequence[Diagnosis],
    expectations: Sequence[Expectation],
    request: TapRequest,
    *,
    since_us: int,
) -> None:
    """The document of -o junit or github. since_us: when clients could come."""
    seconds = (now_us() - since_us) / 1e6
    checkup = Checkup("trace", diagnoses, seconds, expectations=tuple(expectations))
    wanted = Wanted(request.fail_on, program="pulsar-doctor tap")
    formats.write(request.output, checkup, stdout(), wanted=wanted)
