"""Writes the result of `stall-check`: verdicts on stdout, notes on stderr, the exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulsar_doctor.cli._calls import accepted, ended, is_given, reach, say
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.report.stall_check import formats
from pulsar_doctor.wording.gate import complain, stdout

if TYPE_CHECKING:
    from collections.abc import Callable

    from pulsar_doctor.broker.settings import Settings
    from pulsar_doctor.checkup.result import Checkup, Tally
    from pulsar_doctor.cli.stall_check.options import StallCheckRequest
    from pulsar_doctor.diagnosis.verdict import Diagnosis
    from pulsar_doctor.report.stall_check.wanted import Wanted


def streams(request: StallCheckRequest) -> bool:
    """Whether verdicts are written to the terminal while the next ones are looked for."""
    return stdout().isatty() and not formats.is_for_people(request.output)


def early(request: StallCheckRequest) -> Callable[[Diagnosis], None] | None:
    """What names a stall's cause on a terminal as soon as the first reading shows it."""
    from pulsar_doctor.diagnosis.short_form import culprit, place

    if request.watch or not (stdout().isatty() and formats.is_for_people(request.output)):
        return None
    return lambda seen: say(
        f"seen already: {place(seen.key)}: {culprit(seen.findings[0])}; still watching"
    )


def report(checkup: Checkup, request: StallCheckRequest) -> int:
    """Writes the verdicts; returns the exit code."""
    require_something(checkup, request)
    write(checkup, request)
    shown = formats.carries(request.output, "notes")
    return ended(checkup, code(checkup.tally, request), shown=shown)


def require_something(checkup: Checkup, request: StallCheckRequest) -> None:
    """Raises DoctorError where a person would read of nothing but what could not be read."""
    from pulsar_doctor.report.stall_check.unread import sentences

    nothing = checkup.diagnoses == [] and not (checkup.not_loaded or checkup.notes)
    if nothing and checkup.unreachable and formats.is_for_people(request.output):
        raise DoctorError("; ".join(sentences(checkup.unreachable)))


def write(checkup: Checkup, request: StallCheckRequest) -> None:
    """The verdicts on stdout; on stderr what else there is, where stdout has no place for it."""
    from pulsar_doctor.report.stall_check.unread import sentences

    checkup.skipped, checkup.only = request.skip, frozenset(request.only)
    formats.write(request.output, checkup, stdout(), wanted=_wanted(request))
    accepted(checkup.tally.accepted(request.accept_unknown), request.accept_unknown)
    if not formats.carries(request.output, "notes"):
        for _, note in checkup.notes:
            say(note)
    if not formats.is_for_people(request.output):
        for sentence in sentences(checkup.unreachable):
            complain(sentence)


def code(tally: Tally, request: StallCheckRequest) -> int:
    """1 where a stall was found, 3 where something is not known; some formats have others."""
    return formats.exit_code(request.output, tally, _wanted(request))


def _wanted(request: StallCheckRequest) -> Wanted:
    from pulsar_doctor.diagnosis.actions.commands import quoted
    from pulsar_doctor.report.stall_check.wanted import Wanted

    return Wanted(
        request.fail_on,
        verbose=is_given("verbose"),
        header=not is_given("quiet"),
        consumers=request.consumers,
        accept_unknown=request.accept_unknown,
        named=not request.fleet,
        worst=request.worst,
        saves=request.live
        and not (request.watch or request.after or request.case_file or request.metrics_url),
        saved=None if request.save is None else str(request.save),
        reach=f"--metrics {quoted(request.metrics_url)}" if request.metrics_url else reach(),
    )


def head(where: Settings, request: StallCheckRequest) -> str:
    """What is watched, and where."""
    from pulsar_doctor.broker.admin.cluster import places_of
    from pulsar_doctor.wording.printable import listed, printable

    names = [*request.topics, *request.namespaces] or ["all namespaces"]
    skipped = f"; skipped: {', '.join(request.skip)}" if request.skip else ""
    return printable(f"{listed(names, 3)} at {places_of(where.admin_url)}{skipped}")
