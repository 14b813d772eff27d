"""The numbers of a finding that its sentences have not mentioned.

Each number is once in what a person reads; JSON has all of them, under their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from pulsar_doctor.diagnosis.answers import Finding
from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.report.words import beside
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import printable
from pulsar_doctor.wording.sentences import joined, values_in

NOISE = frozenset(  # what a sentence tells in its own words, or what only leads to a number
    {"address", "blocked_consumer_on_unacked_msgs", "blocked_subscription_on_unacked_msgs",
     "connected_since", "consumer_epoch", "msg_out_counter", "pace_source", "sending_after",
     "samples"}
)  # fmt: skip
MOMENT_SECONDS = 1.0  # no age of anything that rests is shorter


def numbers(finding: Finding) -> str:
    """Each as `name value`, with its unit where the name does not say it."""
    return ", ".join(_numbers(finding))


def _numbers(finding: Finding) -> Iterator[str]:
    known = values_in(joined("", (finding.summary, *dict(beside(finding)).values())))
    shown = set[tuple[str, str]]()
    for measure in finding.evidence:
        value = _value(measure)
        if value is None or (value, measure.unit) in shown:
            continue
        if all(_is_known(each, measure.unit, known) for each in value.split("; ")):
            continue
        shown.add((value, measure.unit))
        per, bound = measure.unit.partition("/")[2], f"{measure.bound} " if measure.bound else ""
        yield f"{measure.name.replace('_', ' ')} {bound}{value}{' a ' + per if per else ''}"


def _value(measure: Measure) -> str | None:
    """The number as it is read; None of what shows a person nothing."""
    value = measure.value
    if value in (None, "") or measure.name in NOISE:
        return None
    if isinstance(value, int | float) and measure.unit.startswith("seconds"):
        is_age = measure.unit == "seconds"
        return None if is_age and value < MOMENT_SECONDS else duration(value)
    return f"{value:.3g}" if isinstance(value, float) else printable(str(value))


def _is_known(value: str, unit: str, known: Set[str]) -> bool:
    """Whether a sentence has it."""
    # A number of one digit is in every sentence, so its unit must be the same.
    return (f"{value} {unit}" if len(value) == 1 and value.isdecimal() else value) in known
