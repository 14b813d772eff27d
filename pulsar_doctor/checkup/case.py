"""A case: what the verdicts of one checkup were made of, as one JSON document.

It carries the views, not the samples or the rows of a trace. The verdicts are made from it again,
on any machine, by the same causes and thresholds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePath
from typing import Any

from pulsar_doctor import __version__
from pulsar_doctor.broker.samples.reading import is_called
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.decide_step import DecideStep
from pulsar_doctor.diagnosis.followup import After
from pulsar_doctor.diagnosis.weighing import Diagnosis, ReportedBy
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.evidence.facts import FactTable
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.typed_json import Misread, of_json, to_json

SCHEMA = "pulsar-doctor/case/"
VERSION = 1
NAMED_MOST = 10


@dataclass(frozen=True, slots=True)
class CaseFact:
    """One row of a FactTable. position: ledger and entry, where that is the value."""

    name: str
    consumer: int | None
    value: bool | int | float | str | None
    position: tuple[int, ...] | None
    same: bool | None
    grew: bool | None


@dataclass(frozen=True, slots=True)
class Judged:
    """One subscription: its view, and what is known beside its verdict."""

    view: SubscriptionView
    sources: tuple[ReportedBy, ...]
    looks: tuple[DecideStep, ...] | None = None
    after: After | None = None
    facts: tuple[CaseFact, ...] | None = None  # None: no broker's statistics were read


@dataclass(frozen=True, slots=True)
class SavedCase:
    """The content of a document of the schema. head: all but the verdicts.

    checked_at: ISO 8601; None where no broker was read, so that the same recording makes the same
    case. changes: of --set, as they were typed.
    """

    head: Checkup
    subscriptions: tuple[Judged, ...]
    checked_at: str | None = None
    changes: tuple[str, ...] = ()


def case_of(checkup: Checkup, changes: Sequence[str] = ()) -> SavedCase:
    """What its verdicts were made of, by a Judge that keeps views."""
    files = tuple(PurePath(each).name for each in checkup.files)
    return SavedCase(
        replace(checkup, files=files),
        tuple(map(_judged, checkup.diagnoses)),
        checkup.checked_at.isoformat() if checkup.cluster else None,
        tuple(changes),
    )


def document_of(case: SavedCase) -> dict[str, Any]:
    """The JSON of a case; what is not reported is left out."""
    schema = {"schema": f"{SCHEMA}{VERSION}", "program_version": __version__}
    reported: dict[str, Any] = _reported(to_json(case))
    return schema | reported


def case_from(document: Any, name: str) -> SavedCase:
    """The case that a document holds. name: the name of the file. Raises InputError."""
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(schema, str) or not schema.startswith(SCHEMA):
        raise InputError(f"{name} is not a case of pulsar-doctor")
    if schema != f"{SCHEMA}{VERSION}":
        raise InputError(
            f"{name} is a case of version {schema.removeprefix(SCHEMA)}, this program reads "
            f"{VERSION}: use a newer pulsar-doctor"
        )
    try:
        case = of_json(SavedCase, document)
        datetime.fromisoformat(case.checked_at or "2000-01-01")
    except ValueError as error:  # a Misread, or not a time
        detail = f"it {error}" if isinstance(error, Misread) else error
        raise InputError(f"{name} is a damaged case: {detail}") from None
    return case


def of_case(case: SavedCase, judge: Judge, topics: Sequence[str], name: str) -> Checkup:
    """The verdicts, made again. Raises DoctorError where it has nothing of what is requested,
    InputError where it is damaged.
    """
    chosen = tuple(_chosen(case, judge, topics, name))
    try:
        diagnoses = [_diagnosed(each, judge) for each in chosen]
    except (LookupError, ArithmeticError, ValueError):  # each value has its type
        raise InputError(f"{name} is a damaged case: its numbers contradict each other") from None
    checkup = replace(case.head, diagnoses=diagnoses)
    if case.checked_at is not None:
        checkup.checked_at = datetime.fromisoformat(case.checked_at)
    return checkup


def _chosen(case: SavedCase, judge: Judge, topics: Sequence[str], name: str) -> Iterator[Judged]:
    found = [
        each
        for each in case.subscriptions
        if judge.subscription in (None, each.view.subscription)
        and (not topics or any(is_called(each.view.full_topic, topic) for topic in topics))
    ]
    if case.subscriptions and not found:
        there = [f"{e.view.subscription} on {e.view.full_topic}" for e in case.subscriptions]
        raise DoctorError(f"{name} has no such subscription; it has {listed(there, NAMED_MOST)}")
    yield from found


def _judged(diagnosis: Diagnosis) -> Judged:
    view = diagnosis.view
    assert view is not None, "a case needs a Judge that keeps views"
    facts = None if view.facts is None else tuple(_facts(view.facts.kept()))
    return Judged(view, diagnosis.sources, diagnosis.looks, diagnosis.after, facts)


def _diagnosed(judged: Judged, judge: Judge) -> Diagnosis:
    facts = None if judged.facts is None else _table(judged.facts)
    found = judge.diagnosed(replace(judged.view, facts=facts), judged.sources)
    return replace(found, looks=judged.looks, after=judged.after)


def _facts(table: FactTable) -> Iterator[CaseFact]:
    for (name, consumer), (value, same, grew) in table.rows.items():
        position = tuple(value) if isinstance(value, tuple) else None
        yield CaseFact(name, consumer, None if position else value, position, same, grew)


def _table(facts: Iterable[CaseFact]) -> FactTable:
    rows = {
        (each.name, each.consumer): (each.position or each.value, each.same, each.grew)
        for each in facts
    }
    return FactTable(rows)


def _reported(value: Any) -> Any:
    """The same JSON without fields that are null."""
    if isinstance(value, dict):
        return {name: _reported(each) for name, each in value.items() if each is not None}
    return [_reported(each) for each in value] if isinstance(value, list) else value
