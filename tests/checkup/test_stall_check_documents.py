"""Documents as no broker writes them: cut, mutated, of other versions. A verdict, never a crash."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.stats.fields import snake
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.reading import internal_stats, topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.recorded import of_files
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.errors import InputError
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.report.stall_check.formats import nagios
from pulsar_doctor.report.stall_check.wanted import Wanted
from tests.broker.recorded import NAMES, recording

RULES = load()
LIMITS = limits_of(RULES)
TOPICS = [name for name in NAMES if recording(name)["kind"] == "topic"]
STRANGE = [None, 0, -1, 1, 7, 2**40, -(2**40), 1.5, "", "x", "5:3", True, False, [], {}, [None]]


def verdicts(samples: list[dict[str, Any]]) -> list[Diagnosis]:
    window = Window(
        tuple(
            Sample(
                each["date_ms"],
                topic_stats(each["stats"]),
                internal_stats(each["internal"]) if each.get("internal") else None,
            )
            for each in samples
        )
    )
    topic = TopicWindow("persistent://public/default/orders", None, window)
    return [diagnose(by_stats.subscription_view(o), RULES, LIMITS) for o in topic.subscriptions()]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container of a document with each of its keys or places."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, element in list(inner):
        yield value, key
        if isinstance(element, dict | list):
            yield from places(element)


def mutated(samples: list[dict[str, Any]], dice: random.Random) -> list[dict[str, Any]]:
    copy: list[dict[str, Any]] = json.loads(json.dumps(samples))
    kept = copy[: dice.randint(1, len(copy))]
    for _ in range(dice.randint(1, 12)):
        each = dice.choice(kept)
        part = each.get(dice.choice(["stats", "stats", "stats", "internal"]))
        if not part:
            continue
        container, key = dice.choice(list(places(part)))
        if dice.random() < 0.5 and isinstance(container, dict):
            container.pop(key)
        elif isinstance(container, dict) or key < len(container):
            container[key] = alike(container[key], dice)
    if dice.random() < 0.3:
        dice.choice(kept)["internal"] = None
    if dice.random() < 0.2:
        for each in kept:
            each["date_ms"] = None
    return kept


def alike(value: Any, dice: random.Random) -> Any:
    """Mostly another value of the same type, so that most documents can be read."""
    if dice.random() < 0.1:
        return dice.choice(STRANGE)
    if type(value) is bool:
        return not value
    if type(value) is int:
        return dice.choice([0, -1, 1, value + 1, value - 1, 10 * value, -value, 2**40])
    return None if isinstance(value, dict | list) else value


@pytest.mark.parametrize("documents", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_mutated_documents_get_a_verdict_or_a_clear_refusal(documents: int) -> None:
    dice = random.Random(20261121)
    judged = refused = 0
    seen: set[str] = set()
    for _ in range(documents):
        samples = mutated(recording(dice.choice(TOPICS))["samples"], dice)
        try:
            found = verdicts(samples)
        except InputError as error:
            refused += 1
            assert str(error).count("\n") == 0  # noqa: PT017
            continue
        judged += 1
        for diagnosis in found:
            seen.add(diagnosis.status)
            assert diagnosis.status != "unknown" or diagnosis.unknowns
            for finding in diagnosis.findings:
                assert "None" not in finding.summary, finding.summary
                assert 0 < finding.confidence <= 1
    assert judged > documents / 2
    assert refused > 0
    assert seen == {"stalled", "warning", "healthy", "unknown"}


def without(document: Any, name: str) -> Any:
    """The document with this field taken out everywhere."""
    if isinstance(document, dict):
        return {key: without(value, name) for key, value in document.items() if key != name}
    if isinstance(document, list):
        return [without(element, name) for element in document]
    return document


def cut_verdicts(samples: list[Any]) -> Iterator[tuple[str, list[Diagnosis]]]:
    """Each field, and what is said where nobody reports it and it can be read all the same."""
    names = {key for each in samples for _, key in places(each) if isinstance(key, str)}
    for field in sorted(names - {"date_ms", "stats", "internal", "subscriptions"}):
        with suppress(InputError):
            yield field, verdicts(without(samples, field))


@pytest.mark.parametrize("name", TOPICS)
def test_a_field_that_is_not_told_is_no_number_of_any_finding(name: str) -> None:
    for field, found in cut_verdicts(recording(name)["samples"]):
        for diagnosis in found:
            for finding in diagnosis.findings:
                told = {m.name: m.value for m in finding.evidence}
                assert told.get(snake(field)) is None, (field, finding)


@pytest.mark.parametrize("name", TOPICS)
def test_no_cut_of_a_subscription_makes_a_stall_of_a_healthy_one(name: str) -> None:
    samples = recording(name)["samples"]
    if any(each.status != "healthy" for each in verdicts(samples)):
        return
    for field, found in cut_verdicts(samples):
        assert all(each.status in ("healthy", "unknown") for each in found), field


def checked(files: SampleFiles) -> Checkup:
    return of_files(files, Judge(RULES, LIMITS), lambda note: None)


@pytest.mark.parametrize("cursor", ["pulsar.dedup", "transaction-buffer-sub"])
def test_cursors_that_nobody_waits_for_are_named_and_earn_no_green(
    tmp_path: Path, cursor: str
) -> None:
    internal = {"lastConfirmedEntry": "5:9", "cursors": {cursor: {"markDeletePosition": "5:3"}}}
    (tmp_path / "i").write_text(json.dumps(internal))
    checkup = checked(SampleFiles(internal_files=[str(tmp_path / "i")]))
    assert (list(checkup.examined()), checkup.tally.exit_code("stalled")) == ([], 3)
    [(_, note)] = checkup.notes
    assert note.endswith(f"and nobody waits for their messages: {cursor}")


@pytest.mark.parametrize(
    ("text", "incomplete"),
    [
        ('{"msgInCounter": 41, "publi', True),
        ('{"msgInCounter": 41, "subscriptions": {"s": {"msgBacklog": 0, "ty', True),
        ('{"msgInCounter": 41, "subscriptions": {"s": {"msgBacklog": 0}}}', False),
    ],
)
def test_a_checkup_tells_whether_subscriptions_may_be_missing(
    tmp_path: Path, text: str, incomplete: bool
) -> None:
    (tmp_path / "s").write_text(text)
    checkup = checked(SampleFiles([str(tmp_path / "s")]))
    assert bool(checkup.unreachable) == incomplete
    assert {each.status for each in checkup.examined()} <= {"healthy"}
    assert checkup.tally.exit_code("stalled") == (3 if incomplete else 0)
    assert nagios.exit_code(checkup.tally, Wanted()) == (3 if incomplete else 0)
