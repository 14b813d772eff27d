"""A verdict in plain lines, for formats without a layout."""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis.short_form import culprit
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.report.figures import numbers
from pulsar_doctor.report.suspicion import suspect_rows, undecided
from pulsar_doctor.report.words import beside, what_to_do
from pulsar_doctor.wording.printable import printable


def in_detail(diagnosis: Diagnosis, *, with_actions: bool = False) -> Iterator[str]:
    """Each finding with its numbers and remedy; what is suspected; what is in the way.

    with_actions: with all that can be done, in its order.
    """
    return map(printable, _lines(diagnosis, with_actions))


def _lines(diagnosis: Diagnosis, with_actions: bool) -> Iterator[str]:
    if diagnosis.suppressed is not None:
        yield f"Suppressed {diagnosis.suppressed}"
    explained = set[str]()
    for finding in diagnosis.findings:
        yield f"{culprit(finding)}: {finding.summary}"
        yield from (f"{name.capitalize()}: {text}" for name, text in beside(finding))
        if found := numbers(finding):
            yield f"Numbers: {found}"
        yield f"Remedy: {finding.remedy}"
        if with_actions:
            yield from (f"{name.capitalize()}: {text}" for name, text in what_to_do(finding))
        if finding.code not in explained:
            yield f"More: {finding.explain}"
        explained.add(finding.code)
    yield from (f"{name.capitalize()}: {text}" for name, text in suspect_rows(diagnosis))
    if diagnosis.status == "unknown":
        yield from (f"Not reported: {reason}" for reason in undecided(diagnosis))
