"""`pulsar-doctor explain`: what each finding means, its source, and its thresholds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from pulsar_doctor.cli import _completing
from pulsar_doctor.cli._calls import how_much
from pulsar_doctor.cli._commands import Sections
from pulsar_doctor.cli._options import adding, output_option, talk_options
from pulsar_doctor.wording.gate import tell_json
from pulsar_doctor.wording.printable import listed

if TYPE_CHECKING:
    from pulsar_doctor.diagnosis.cause import Cause
    from pulsar_doctor.diagnosis.thresholds import Threshold

GROUP = "diagnose"
PERCENTAGES = """\
What a percentage means: how often a cause was the true one. bench/calibration measures it on states
with a known cause that were not used to fit the numbers. Of the causes that were given about 70%,
two thirds were the root cause, and some of the others were real too. A finding has the percentage
of its cause. A suspect is called likely from 60% on, possible from 15% on, and unlikely below; all
suspects of a subscription add up to 100%.

What makes a verdict more certain: a window instead of one sample (--window), a second file (another
--stats), the time of a file (--at), the internal stats (--internal-stats), a trace of the wire
(tap, --trace)."""
ISSUES_MOST = 5  # named below a cause; its page has all
SCHEMA = "pulsar-doctor/explain/1"


@click.command(cls=Sections)
@click.argument("code", required=False, shell_complete=_completing.codes)
@adding(output=output_option("table", "json"))
@talk_options
def command(code: str | None, *, output: str) -> None:
    """Explains a verdict: its meaning, source and thresholds.

    Without CODE it lists all causes by what you see; -v adds their thresholds, and what a
    percentage means.

    \b
    pulsar-doctor explain
    pulsar-doctor explain permits-exhausted
    pulsar-doctor stall-check --trace DIR --set permits-exhausted.refill_wait=2m
    """
    from pulsar_doctor.diagnosis import healthy
    from pulsar_doctor.diagnosis.causes import load, named
    from pulsar_doctor.report.paper import print_text

    if code == healthy.STATUS.code:
        causes = [healthy.STATUS]
    else:
        causes = named([code]) if code else [*load(), healthy.STATUS]
    if output == "json":
        tell_json({"schema": SCHEMA, "rules": [_rule(cause) for cause in causes]})
        return
    every = _overview(causes, thresholds=how_much("verbose") > 0)
    for text in _in_full(causes[0]) if code else every:
        print_text(text)


def _rule(cause: Cause) -> dict[str, Any]:
    from dataclasses import asdict

    from pulsar_doctor.diagnosis.known.issue import of_cause

    return {
        "code": cause.code,
        "symptom": cause.symptom,
        "title": cause.title,
        "text": cause.text.strip(),
        "thresholds": [asdict(threshold) for threshold in cause.thresholds],
        "needs": sorted(cause.needs),
        "explains": sorted(cause.explains),
        "known_issues": [issue.id for issue in of_cause(cause.code)],
        "page": cause.page,
    }


def _overview(causes: list[Cause], *, thresholds: bool) -> Iterator[str]:
    from pulsar_doctor.diagnosis.cause import SYMPTOMS

    widest = max(len(cause.code) for cause in causes)
    for symptom, heading in SYMPTOMS.items():
        yield heading
        for cause in (each for each in causes if each.symptom == symptom):
            yield f"  {cause.code:<{widest}}  {cause.title}"
            for threshold in cause.thresholds if thresholds else ():
                yield f"      {_set(cause, threshold)}"
        yield ""
    if thresholds:
        yield f"{PERCENTAGES}\n"
    yield "pulsar-doctor explain CODE tells more; -v lists thresholds (--set CODE.THRESHOLD=VALUE)."


def _in_full(cause: Cause) -> Iterator[str]:
    from pulsar_doctor.diagnosis.known.issue import of_cause

    yield cause.code
    yield ""
    yield cause.text.strip()
    yield ""
    if cause.thresholds:
        yield "Thresholds, changed with --set:"
    for threshold in cause.thresholds:
        yield f"  {_set(cause, threshold)}"
        yield f"      {threshold.meaning}"
    yield f"Needs: {' or '.join(sorted(cause.needs))}"
    if cause.explains:
        yield f"Explains: {', '.join(sorted(cause.explains))}"
    issues = [issue.id for issue in of_cause(cause.code)]
    yield f"Known issues: {listed(issues, ISSUES_MOST) or 'none'}"
    yield f"Page: {cause.page}"


def _set(cause: Cause, threshold: Threshold) -> str:
    value = f"{threshold.default:g}"
    text = f"{value}s" if threshold.unit == "seconds" else f"{value}  ({threshold.unit})"
    return f"{cause.code}.{threshold.name}={text}"
