"""Known issues on the terminal: beside a verdict, in lists, and in full."""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis.known.issue import Issue
from pulsar_doctor.diagnosis.known.matching import KnownIssue
from pulsar_doctor.diagnosis.verdict import Diagnosis

NAMED_MOST = 3  # beside a verdict
GRADES = {"matches": "known", "possible": "possibly"}


def issue_rows(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """Which known issues a verdict fits, each in a line, and what to do about it."""
    surest: dict[str, KnownIssue] = {}
    for each in diagnosis.known_issues:
        surest.setdefault(each.issue.id, each)
    for known in [*surest.values()][:NAMED_MOST]:
        yield GRADES[known.grade], sentence_of(known)
        yield "", known.issue.what_to_do


def sentence_of(known: KnownIssue) -> str:
    """The issue in one line: what it is, whether the version has it, and what is not known."""
    issue = known.issue
    missing = f"; to be sure: {', '.join(known.missing)}" if known.missing else ""
    return f"{issue.id}: {issue.title} ({known.affects}{missing})"


def in_full(issue: Issue) -> Iterator[str]:
    """Everything that is known of one issue."""
    yield f"{issue.id}: {issue.title}"
    yield ""
    yield issue.symptom
    yield ""
    yield f"component   {issue.component}"
    yield f"affects     {' or '.join(issue.affects)} (lower end {issue.lower_bound})"
    yield f"fixed in    {', '.join(issue.fixed_in) or 'no release yet'}"
    yield f"to do       {issue.workaround}"
    if issue.warning:
        yield f"warning     {issue.warning}"
    if issue.note:
        yield f"note        {issue.note}"
    yield f"beside      {', '.join(issue.codes)}"
    for condition in issue.when:
        yield f"fits when   {condition}"
    for fact in issue.by_hand:
        yield f"by hand     {fact}"
    yield f"proof       {issue.proof or 'none: the fingerprint follows from the described cause'}"
    for reference in issue.references:
        yield f"see         {reference}"
