"""The JSON Schema that is shipped: what it lets pass, and that all that tests read keeps to it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.cli import run
from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.parts.tap.events import End
from pulsar_doctor.parts.tap.schemas import event_json
from pulsar_doctor.report.schemas import names, schema_of
from pulsar_doctor.report.stall_check.formats import write
from tests.report.checkups import DEADLINES, FALLING, actions_on, checkup, located, verdict
from tests.report.test_account import WHOLE
from tests.report.test_json import HELD
from tests.support import schemas
from tests.support.documented import trace

PACKAGE = Path(__file__).parents[2] / "pulsar_doctor"
NUMBERS = (Measure("pace", 0.5, "s"), Measure("left", None, "entries", "at least"))


def printed(name: str) -> str:
    """As it is printed, with something of everything."""
    found = replace(located(), actions=actions_on("t"), evidence=NUMBERS)
    whole = {"account": WHOLE, "balance": FALLING, "deadlines": DEADLINES}
    stalled = verdict("stalled", findings=(found,), consumers=(HELD,), **whole)
    told = [stalled, verdict("unknown")]
    out = io.StringIO()
    write(name, checkup(told, notes=[("t", "empty")], unreachable=[("u", "404")]), out)
    return out.getvalue()


def whole() -> Any:
    return json.JSONDecoder().decode(printed("json"))


def test_it_is_printed_and_is_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stall-check", "--json-schema"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    schemas.SHIPPED.check_schema(told)
    shipped = schemas.SHIPPED(told)
    assert shipped.is_valid(whole())
    assert all(shipped.is_valid(json.loads(line)) for line in printed("jsonl").splitlines())
    assert shipped.is_valid(whole() | {"later": 1}), "fields may be added"
    assert not shipped.is_valid(whole() | {"schema": "pulsar-doctor/stall-check/1"})


def first(document: Any, *way: str) -> Any:
    """The first of each list on the way."""
    for name in way:
        document = document[name][0] if isinstance(document[name], list) else document[name]
    return document


PARTS = [
    (), ("subscriptions",), ("subscriptions", "findings"), ("subscriptions", "findings", "where"),
    ("subscriptions", "findings", "evidence"), ("subscriptions", "findings", "actions"),
    ("subscriptions", "consumers"), ("subscriptions", "consumers", "receiver_queue_size"),
    ("subscriptions", "account"), ("subscriptions", "account", "places"),
    ("subscriptions", "account", "places", "rest"), ("subscriptions", "account", "flows"),
    ("subscriptions", "balance"), ("subscriptions", "balance", "comes_in"),
    ("subscriptions", "balance", "deadlines"),
    ("unreachable",), ("notes",),
]  # fmt: skip


@pytest.mark.parametrize("way", PARTS, ids=".".join)
def test_a_field_that_it_does_not_know_fails_whoever_reads_it(way: tuple[str, ...]) -> None:
    for change in (lambda part: part.update(new=1), lambda part: part.popitem()):
        document = whole()
        change(first(document, *way))
        with pytest.raises(AssertionError, match=r"stall-check.*: .*"):
            json.loads(json.dumps(document))


@pytest.mark.parametrize(
    "break_it",
    [
        lambda line: line.update(status="sick"),
        lambda line: line.update(new=None),
        lambda line: line.pop("cluster"),
        lambda line: line["findings"][0].update(confidence=1.1),
        lambda line: line["findings"][0]["actions"][0].update(when="soon"),
    ],
)
def test_a_line_likewise(break_it: Callable[[Any], object]) -> None:
    line = json.JSONDecoder().decode(printed("jsonl").splitlines()[0])
    break_it(line)
    with pytest.raises(AssertionError, match="verdict"):
        json.loads(json.dumps(line))


def blank(schema: Any) -> dict[str, Any]:
    """Its required fields, of which none is reported."""
    fields = schema["properties"]
    return {name: fields[name].get("const") for name in schema["required"]}


def test_verdicts_within_other_documents_are_read_with_it_too() -> None:
    verdict_of = whole()["subscriptions"][0]
    head = {"schema": "pulsar-doctor/tap/2", "event": "verdict", "at": "now", "before": None}
    end = json.loads(json.dumps(event_json(End(0, 1, 0, (), None, ())))) | {
        "subscriptions": [verdict_of]
    }
    consume = schema_of("consume")
    consumer = blank(consume["properties"]["consumers"]["items"])
    consumed = blank(consume) | {"consumers": [consumer | {"findings": verdict_of["findings"]}]}
    simulated = blank(schema_of("simulate")) | {"verdict": verdict_of}
    told = (head | verdict_of, end, consumed, simulated)
    for text in map(json.dumps, told):
        assert json.loads(text)
    verdict_of["findings"][0]["new"] = 1
    for text in map(json.dumps, told):
        with pytest.raises(AssertionError, match="new"):
            json.loads(text)


@pytest.mark.parametrize("name", names())
def test_each_document_has_a_schema_that_is_whole_and_is_printed(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["schema", name]) == 0
    told = json.JSONDecoder().decode(capsys.readouterr().out)
    schemas.SHIPPED.check_schema(told)
    assert told == schema_of(name)
    assert schemas.SHIPPED(told).is_valid({}) is False


def test_no_schema_of_a_document_is_missing() -> None:
    """Whatever the code calls a schema; samples and saved are files, which no program prints."""
    named = re.compile(r"pulsar-doctor/([a-z-]+)/\d")
    texts = (path.read_text("utf-8") for path in PACKAGE.rglob("*.py"))
    found = {name for text in texts for name in named.findall(text)}
    assert found - {"samples", "saved"} <= set(names())
    assert len(found) > 12


def test_schema_alone_lists_the_names_and_knows_mistyped_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["schema"]) == 0
    assert capsys.readouterr().out.split() == names()
    assert run(["schema", "holez"]) == 2
    assert "did you mean holes?" in capsys.readouterr().err


def test_rows_of_a_trace_keep_to_their_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["trace", "show", str(trace(tmp_path / "t.ptrace")), "-o", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    validator = schemas.SHIPPED(schema_of("trace-show") | {"additionalProperties": False})
    assert len(rows) > 20
    assert [error.message for row in rows for error in validator.iter_errors(row)] == []
