"""The verdicts as annotations of a GitHub workflow, the worst first.

GitHub shows ten annotations of each kind in a step; the log keeps all of them.
https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from typing import TextIO

from pulsar_doctor.checkup.result import Checkup, Tally
from pulsar_doctor.report.plain import in_detail
from pulsar_doctor.report.stall_check.folding import fold
from pulsar_doctor.report.stall_check.unwell import Unwell, unwell_of
from pulsar_doctor.report.stall_check.wanted import Wanted
from pulsar_doctor.report.words import counted
from pulsar_doctor.wording.printable import many, printable

TITLE = "pulsar-doctor stall-check"


def write(checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    """An error for what makes the exit code 1 or 3, a warning for the rest, and a summary."""
    told = unwell_of(fold(checkup.examined()))
    errors = (one for one in told if _is_error(one, wanted))
    warnings = (one for one in told if not _is_error(one, wanted))
    out.writelines(_annotation("error", _title(one), _message(one)) for one in errors)
    for topic, reason in checkup.unreachable:
        out.write(_annotation("error", f"unreachable: {printable(topic)}", printable(reason)))
    out.writelines(_annotation("warning", _title(one), _message(one)) for one in warnings)
    nothing = not (checkup.tally.subscriptions or wanted.accept_unknown)
    out.write(_annotation("error" if nothing else "notice", TITLE, _summary(checkup.tally)))


def _is_error(each: Unwell, wanted: Wanted) -> bool:
    unknown = each.status == "unknown" and not wanted.accept_unknown
    return unknown or any(map(wanted.fails, each.diagnoses))


def _title(each: Unwell) -> str:
    return f"{each.status}: {each.said}"


def _message(each: Unwell) -> str:
    return "\n".join(in_detail(each.worst.shown, with_actions=True))


def _summary(tally: Tally) -> str:
    parts = [f"{many(tally.subscriptions, 'subscription')} judged", counted(tally.counts)]
    if tally.unreachable:
        parts.append(f"{many(tally.unreachable, 'topic')} unreachable")
    if tally.not_loaded:
        parts.append(f"{many(tally.not_loaded, 'topic')} not loaded")
    return ", ".join(part for part in parts if part)


def _annotation(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={_property(title)}::{_escaped(message)}\n"


def _property(value: str) -> str:
    return _escaped(value).replace(":", "%3A").replace(",", "%2C")


def _escaped(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
