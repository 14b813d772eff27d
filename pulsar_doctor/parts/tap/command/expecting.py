"""`tap` as a check in CI: when it ends, whether expectations are met, and its report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pulsar_doctor.errors import DoctorError, TraceError
from pulsar_doctor.wording.gate import stdout

if TYPE_CHECKING:
    from pulsar_doctor.checkup.expected import Expectation
    from pulsar_doctor.diagnosis.weighing import Diagnosis
    from pulsar_doctor.parts.tap.command.options import TapRequest
    from pulsar_doctor.parts.tap.ending import EndPlan
    from pulsar_doctor.parts.tap.events import Listening
    from pulsar_doctor.parts.tap.relaying import Relay
    from pulsar_doctor.parts.tap.running import TapOutcome


def end_plan(relay: Relay, listening: Listening, asked: TapRequest) -> EndPlan:
    """When the tap ends by itself."""
    from pulsar_doctor.checkup.expecting import expectations, seen_in
    from pulsar_doctor.parts.tap.ending import EndPlan

    def has_failed() -> bool:
        try:
            relay.flush()
            seen = seen_in(relay.trace_dir, listening.at_us, is_over=False)
        except DoctorError:  # the relay is started again, or the trace is being sealed
            return False
        return any(each.met is False for each in expectations(asked.expected, seen))

    within, again = asked.expected.within_seconds, asked.expected.acked == "all"
    return EndPlan(asked.for_seconds, within, again, has_failed)


def expectations_of(
    folder: Path,
    asked: TapRequest,
    listening: Listening,
    outcome: TapOutcome,
    diagnoses: Sequence[Diagnosis],
) -> list[Expectation]:
    """What came of each; none where the trace cannot be read, which has been said."""
    from pulsar_doctor.checkup.expecting import expectations, seen_in, unreadable
    from pulsar_doctor.parts.tap.running import TROUBLES

    if not asked.expected.anything:
        return []
    unread = TROUBLES["unparsed"] in outcome.seen
    lost = bool(outcome.missing or outcome.dropped or outcome.hidden or outcome.deaths or unread)
    try:
        found = expectations(asked.expected, seen_in(folder, listening.at_us, lost=lost), diagnoses)
    except TraceError as error:
        found = unreadable(asked.expected, str(error))
    for each in found:
        if not each.met:
            outcome.note(f"{each.option}: {'not met' if each.met is False else 'not decided'}")
    return found


def report(
    diagnoses: Sequence[Diagnosis], expectations: Sequence[Expectation], asked: TapRequest
) -> None:
    """The document of -o junit or github."""
    from pulsar_doctor.checkup.result import Checkup
    from pulsar_doctor.report.stall_check import formats
    from pulsar_doctor.report.stall_check.wanted import Wanted

    checkup = Checkup("trace", diagnoses, expectations=tuple(expectations))
    wanted = Wanted(asked.fail_on, program="pulsar-doctor tap")
    formats.write(asked.output, checkup, stdout(), wanted=wanted)
