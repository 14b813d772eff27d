"""docs/causes/: a page for each cause, and one that lists them by what people see.

`python -m tests.generate` writes them from the causes' files, from recorded states of real brokers
and, of causes that have none, from their first case in tests/causes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from pulsar_doctor.diagnosis import healthy
from pulsar_doctor.diagnosis.answers import Action, Finding
from pulsar_doctor.diagnosis.cause import SYMPTOMS, Cause
from pulsar_doctor.diagnosis.known.issue import of_cause
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.report.stall_check.block import block
from pulsar_doctor.report.stall_check.details import print_healthy
from pulsar_doctor.report.stall_check.pen import Pen
from pulsar_doctor.report.stall_check.tree import Alike, JudgedSubscription
from pulsar_doctor.wording.consoles import GatedConsole
from tests.made import cases, states
from tests.scenarios import SCENARIOS

FOLDER = Path(__file__).parent.parent / "docs" / "causes"
INDEX = "README.md"
WIDTH = 80
VERSIONS = ("4.0.8", *reversed(states.VERSIONS))  # the first one that has a state of it
ALL = (*states.RULES, healthy.STATUS)
HEALTHY_STATE = "healthy-busy"


def files() -> Iterator[tuple[Path, str]]:
    """Each page, and what it should hold."""
    yield FOLDER / INDEX, "\n".join(_index()) + "\n"
    for cause in ALL:
        yield FOLDER / f"{cause.code}.md", "\n".join(_page(cause)) + "\n"


def _index() -> Iterator[str]:
    yield "# What you see, and what it can be\n"
    yield "`pulsar-doctor stall-check` finds out which one; `pulsar-doctor explain` lists them."
    for symptom, heading in SYMPTOMS.items():
        yield f"\n## {heading}\n\n| cause | what is wrong |\n| --- | --- |"
        for cause in ALL:
            if cause.symptom == symptom:
                yield f"| [{cause.code}]({cause.code}.md) | {cause.title} |"


def _page(cause: Cause) -> Iterator[str]:
    heading = SYMPTOMS[cause.symptom]
    title, _, body = cause.text.strip().partition("\n\n")
    diagnosis, head = _example(cause)
    yield f"# {cause.code}\n\n{title}\n"
    yield f"What you see: [{heading.lower()}]({INDEX}#{_anchor(heading)}).\n"
    yield f"## What it looks like\n\n{head}"
    yield "\n".join(["", "```text", *_screen(diagnosis), "```", ""])
    found = next((each for each in diagnosis.findings if each.code == cause.code), None)
    if found is not None:
        yield from _numbers(found)
    yield f"## Why\n\n{body}\n"
    if found is not None:
        yield "## What to do first\n"
        first, *others = found.actions or (Action("now", found.remedy),)
        yield from _first(first)
        check = next((each.check for each in (first, *others) if each.check), None)
        yield f"- It worked if: `{check}`"
        yield from (f"- Then ({each.when}): {each.text}" for each in others)
        yield ""
    yield from _thresholds(cause)
    yield from _related(cause)


def _anchor(heading: str) -> str:
    """As GitHub makes it of a heading."""
    return heading.lower().replace(",", "").replace(" ", "-")


def _example(cause: Cause) -> tuple[Diagnosis, str]:
    """A state in which it is found, and where that is from."""
    for version, name, changes in _recorded(cause.code):
        view = by_stats.subscription_view(states.recorded(version, name))
        diagnosis = diagnose(view, states.RULES, limits_of(states.RULES, changes))
        if cause is healthy.STATUS or _codes(diagnosis)[:1] == [cause.code]:
            options = "".join(f"--set {each} " for each in changes)
            line = f"stall-check {options}--stats tests/states/{version}/{name}.jsonl.gz"
            return diagnosis, f"A Pulsar {version}, recorded: `pulsar-doctor {line}`"
    case = next(each for each in cases.CASES[cause.code] if "finds" in each)
    views = cases.views_of(case).values()
    by_all = (cases.judged(case, view, [*states.RULES]) for view in views)
    alone = (cases.judged(case, view, [cause]) for view in views)  # where another one explains it
    diagnosis = next(each for each in (*by_all, *alone) if cause.code in _codes(each))
    return diagnosis, f"A made-up state, the first in `tests/causes/{cause.code}.yaml`:"


def _codes(diagnosis: Diagnosis) -> list[str]:
    return [each.code for each in diagnosis.findings]


def _recorded(code: str) -> Iterator[tuple[str, str, list[str]]]:
    """The states of a cause, the simplest name first, with few changes of thresholds or all."""
    if code == healthy.STATUS.code:
        yield VERSIONS[0], HEALTHY_STATE, []
    names = [name for name in SCENARIOS if SCENARIOS[name].expects.code == code]
    for name in sorted(names, key=lambda name: (not name.startswith(code), len(name))):
        settings = [*SCENARIOS[name].settings]
        own = [each for each in settings if each.startswith(f"{code}.")]
        at = (version for version in VERSIONS if (version, name) in states.RECORDED)
        yield from ((version, name, changes) for version in at for changes in (own, settings))


def _screen(diagnosis: Diagnosis) -> list[str]:
    """What a terminal of 80 columns shows of it."""
    out = io.StringIO()
    pen = Pen(GatedConsole(file=out, width=WIDTH), tells_backlog=True)
    if diagnosis.status == "healthy":
        print_healthy(pen, JudgedSubscription.of(diagnosis))
    else:
        for line in block(pen, Alike.single(diagnosis)):
            pen.console.print(line, soft_wrap=True)
    return [line.rstrip() for line in out.getvalue().rstrip().splitlines()]


def _numbers(found: Finding) -> Iterator[str]:
    yield "The numbers that it rests on:\n\n| number | value | unit |\n| --- | --- | --- |"
    for each in found.evidence:
        if each.value is not None:
            bound = f"{each.bound} " if each.bound else ""
            yield f"| `{each.name}` | {bound}{each.value} | {each.unit} |"
    yield ""


def _first(action: Action) -> Iterator[str]:
    yield f"{action.text}\n"
    if action.command:
        yield f"```sh\n{action.command}\n```\n"
    yield f"- Risk: {action.side_effect or 'none'}"
    if action.undo:
        yield f"- To undo: {action.undo}"


def _thresholds(cause: Cause) -> Iterator[str]:
    if cause.thresholds:
        yield "## Thresholds\n\n| `--set` | default | unit | meaning |\n| --- | --- | --- | --- |"
        for each in cause.thresholds:
            name = f"{cause.code}.{each.name}"
            yield f"| `{name}` | {each.default:g} | {each.unit} | {each.meaning} |"
        yield ""


def _related(cause: Cause) -> Iterator[str]:
    issues = of_cause(cause.code)
    if issues:
        yield "## Known issues\n"
        yield from (f"- [{each.id}]({each.url}): {each.title}" for each in issues)
        yield ""
    if cause.explains:
        links = ", ".join(f"[{code}]({code}.md)" for code in sorted(cause.explains))
        yield f"## Consequences\n\nIf it is found beside one of these, it explains that: {links}.\n"
    yield f"It needs {' or '.join(sorted(cause.needs))}."
