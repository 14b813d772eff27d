"""A case: what the verdicts of one checkup were made of, as one JSON document.

It carries the views, not the samples or the rows of a trace. The verdicts are made from it again,
on any machine, by the same causes and thresholds. It is a file, or in a page or a bundle.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import PurePath
from typing import Any

from pulsar_doctor import __version__
from pulsar_doctor.broker.bodies import TooMany, require_few
from pulsar_doctor.broker.samples.bundled import CASE
from pulsar_doctor.broker.samples.files import called, opened, schema_of
from pulsar_doctor.broker.samples.pasted import instead_of_json
from pulsar_doctor.broker.samples.reading import is_called
from pulsar_doctor.broker.stats.fields import document_of as read_json
from pulsar_doctor.checkup.judge import Judge, named
from pulsar_doctor.checkup.logged import LogClue, clues_in, with_clues
from pulsar_doctor.checkup.one_by_one import Progress, one_by_one
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.answers import DecideStep
from pulsar_doctor.diagnosis.followup import After
from pulsar_doctor.diagnosis.verdict import Diagnosis, ReportedBy
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.evidence.facts import FactTable
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.typed_json import Misread, of_json, to_json, written_as

SCHEMA = "pulsar-doctor/case/"
VERSION = 1
CASE_BYTES = 128 << 20  # unpacked
EXPECTED = "expected is a page of `report`, a bundle, or the case.json of one"
IN_PAGE = re.compile(
    rb'<script\b[^<>]{0,200}\bid="?pulsar-doctor-case"?[^<>]{0,200}>([^<]*)</script>', re.I
)
FactValue = bool | int | float | str | tuple[int, ...] | None
Fact = tuple[str, int | None, FactValue, bool | None, bool | None]  # a row of a FactTable


@dataclass(frozen=True, slots=True)
class Judged:
    """One subscription: its view, and what is known beside its verdict."""

    view: SubscriptionView
    sources: tuple[ReportedBy, ...]
    decide_steps: tuple[DecideStep, ...] | None = field(default=None, metadata=written_as("looks"))
    after: After | None = None
    clues: tuple[LogClue, ...] | None = None  # of logs
    facts: tuple[Fact, ...] | None = None  # None: no broker's statistics were read

    @property
    def whole(self) -> SubscriptionView:
        """The judged view with these facts."""
        if self.facts is None:
            return self.view
        return replace(self.view, facts=FactTable({row[:2]: row[2:] for row in self.facts}))


@dataclass(frozen=True, slots=True)
class SavedCase:
    """The content of a document of the schema."""

    head: Checkup  # all but the verdicts
    subscriptions: tuple[Judged, ...]
    # ISO 8601; None: no broker was read, so that one recording makes one case
    checked_at: str | None = None
    changes: tuple[str, ...] = ()  # of --set, as they were typed


def case_of(checkup: Checkup, changes: Sequence[str] = ()) -> SavedCase:
    """What its verdicts were made of, by a Judge that keeps views."""
    head = replace(checkup, files=tuple(PurePath(each).name for each in checkup.files))
    moment = checkup.checked_at.isoformat() if checkup.cluster else None
    return SavedCase(head, tuple(map(_judged, checkup.diagnoses)), moment, tuple(changes))


def document_of(case: SavedCase) -> dict[str, Any]:
    """The JSON of a case; what is not reported is left out."""
    schema = {"schema": f"{SCHEMA}{VERSION}", "program_version": __version__}
    reported: dict[str, Any] = _reported(to_json(case))
    return schema | reported


def for_page(case: SavedCase) -> str:
    """A case as a page carries it: gzip in Base64, so that no text in it is part of the HTML."""
    content = json.dumps(document_of(case), separators=(",", ":"), allow_nan=False)
    return b64encode(gzip.compress(content.encode(), mtime=0)).decode()


def read_case(name: str) -> SavedCase:
    """The case in a file of JSON, in an incident page or in a bundle; `-` is standard input.

    Raises InputError where there is none.
    """
    what = called(name)
    with opened(name, CASE) as stream:
        content = stream.read(CASE_BYTES + 1)
    content = _in_page(content, what) if content.lstrip()[:1] == b"<" else content
    if len(content) > CASE_BYTES:
        raise InputError(f"{what} is longer than any case: more than {CASE_BYTES >> 20} MiB")
    try:
        require_few(content)
    except TooMany:
        raise InputError(f"{what} holds more values than any case has") from None
    try:
        return case_from(read_json(content, what), what)
    except InputError:
        ours, instead = schema_of(content.partition(b"\n")[0]), instead_of_json(content, EXPECTED)
        if ours is not None and not ours.startswith(SCHEMA):
            why = f"is a document of pulsar-doctor itself, {ours}; {EXPECTED}"
        elif instead is not None:
            why = f"is not a case: {instead}"
        else:
            raise
        raise InputError(f"{what} {why}") from None


def _in_page(page: bytes, what: str) -> bytes:
    found = IN_PAGE.search(page)
    if found is None:
        raise InputError(f"{what} is a page without a case; {EXPECTED}")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(b64decode(found[1]))) as unpacked:
            return unpacked.read(CASE_BYTES + 1)
    except (ValueError, OSError, EOFError, zlib.error):
        raise InputError(f"{what} has a damaged case") from None


def case_from(document: Any, name: str) -> SavedCase:
    """The case that a document holds. name: the name of the file. Raises InputError."""
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(schema, str) or not schema.startswith(SCHEMA):
        raise InputError(f"{name} is not a case; {EXPECTED}")
    if schema != f"{SCHEMA}{VERSION}":
        raise InputError(
            f"{name} is a case of version {schema.removeprefix(SCHEMA)}, this program reads "
            f"{VERSION}: use a newer pulsar-doctor"
        )
    try:
        case = of_json(SavedCase, document)
        if case.checked_at is not None:
            datetime.fromisoformat(case.checked_at)
    except ValueError as error:  # a Misread, or not a time
        detail = f"it {error}" if isinstance(error, Misread) else error
        raise InputError(f"{name} is a damaged case: {detail}") from None
    return case


def of_case(
    case: SavedCase,
    judge: Judge,
    topics: Sequence[str],
    name: str,
    progress: Progress | None = None,
) -> Checkup:
    """The verdicts, made again; one by one if somebody wants to know how many are made.

    Raises DoctorError where it has nothing of what is requested, InputError where it is damaged.
    """
    there = [each.view for each in case.subscriptions]
    chosen = [
        each
        for each in case.subscriptions
        if judge.subscription in (None, each.view.subscription)
        and (not topics or any(is_called(each.view.full_topic, topic) for topic in topics))
    ]
    if there and not chosen:
        raise DoctorError(f"{name} has no such subscription; it has {named(there)}")
    # What is unreadable has its own list.
    checkup = replace(case.head, unreachable=[*case.head.unreachable])
    verdicts = (_diagnosed(each, judge, name) for each in chosen)
    checkup.diagnoses = one_by_one(verdicts, checkup, len(chosen), progress)
    if case.checked_at is not None:
        checkup.checked_at = datetime.fromisoformat(case.checked_at)
    return checkup


def _judged(diagnosis: Diagnosis) -> Judged:
    view = diagnosis.view
    assert view is not None, "a case needs a Judge that keeps views"
    facts = None
    if view.facts is not None:
        facts = tuple((*place, *row) for place, row in view.facts.kept().rows.items())
    clues = clues_in(diagnosis) or None
    return Judged(view, diagnosis.sources, diagnosis.decide_steps, diagnosis.after, clues, facts)


def _diagnosed(judged: Judged, judge: Judge, name: str) -> Diagnosis:
    try:
        return _judged_again(judged, judge)
    except (LookupError, ArithmeticError, ValueError):  # each value has its type
        raise InputError(f"{name} is a damaged case: its numbers contradict each other") from None


def _judged_again(judged: Judged, judge: Judge) -> Diagnosis:
    found = judge.diagnosed(judged.whole, judged.sources)
    again = replace(found, decide_steps=judged.decide_steps, after=judged.after)
    return with_clues(again, judged.clues or ())


def _reported(value: Any) -> Any:
    """The same JSON without fields that are null."""
    if isinstance(value, dict):
        return {name: _reported(each) for name, each in value.items() if each is not None}
    return [_reported(each) for each in value] if isinstance(value, list) else value
