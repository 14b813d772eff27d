"""What the processes of a tap tell each other: values at both ends, whatever the other end says."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.parts.tap.broker_reports import BrokerAnswer
from pulsar_doctor.parts.tap.observer.events import (
    ASKS,
    EVENTS,
    Begin,
    Compare,
    CountRows,
    Gap,
    ObserverEvent,
    Sealed,
)
from pulsar_doctor.parts.tap.observing import Observing
from pulsar_doctor.parts.tap.relay.conversation import RelayCounters
from pulsar_doctor.parts.tap.relay.events import ANSWERS, QUESTIONS, Config, Flush, Rotated
from pulsar_doctor.parts.tap.relay.lines import Strange, Table
from pulsar_doctor.parts.tap.running import TROUBLES
from pulsar_doctor.wording.typed_json import Misread, of_json, to_json
from tests.made.traces import relay_alive, write_trace
from tests.made.wire import slow_consumer
from tests.support import eventually

st.register_type_strategy(SubscriptionView, st.none())  # which no verdict is sent with
TABLES: tuple[Table[Any], ...] = (ASKS, EVENTS, QUESTIONS, ANSWERS)
VALUES = [(table, kind) for table in TABLES for kind in table.kinds.values()]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def named(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else ""


@pytest.mark.parametrize(("table", "kind"), VALUES, ids=named)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_what_is_told_is_what_is_understood(table: Table[Any], kind: type, data: Any) -> None:
    value = data.draw(st.from_type(kind))
    line = json.dumps(table.to_json(value))
    understood = table.of_line(line.encode())
    assert type(understood) is kind
    assert json.dumps(table.to_json(understood)) == line
    if "NaN" not in line:
        assert understood == value


@pytest.mark.parametrize(("table", "kind"), VALUES, ids=named)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_another_version_may_say_anything_and_is_no_error(
    table: Table[Any], kind: type, data: Any
) -> None:
    told = table.to_json(data.draw(st.from_type(kind)))
    name = data.draw(st.sampled_from(sorted(told)))
    told[name] = data.draw(ANY_JSON)
    understood = table.of_json(told)
    assert isinstance(understood, Strange | kind)
    if isinstance(understood, kind):  # then it can be told on
        assert table.of_line(json.dumps(table.to_json(understood)).encode()) is not None


@settings(max_examples=20, deadline=None)
@given(ANY_JSON, st.binary())
def test_anything_else_is_strange(told: Any, line: bytes) -> None:
    for table in TABLES:
        assert isinstance(table.of_json(told), Strange)
        assert isinstance(table.of_line(line), Strange)


def test_a_line_without_a_bottom_is_strange() -> None:
    assert EVENTS.of_line(b"[" * 100_000) == Strange(None, "is not JSON")


def test_what_counts_as_a_number_in_a_type_counts_as_one_in_a_line() -> None:
    flag = Measure("blocked", True, "")
    assert of_json(Measure, to_json(flag)) == flag


GAP = {"event": "gap", "at_us": 1, "seq": 2, "dropped": None}


@pytest.mark.parametrize(
    ("told", "understood"),
    [
        (GAP, Gap(1, 2, None)),
        ({**GAP, "lost_bytes": 3, "of": {"newer": []}}, Gap(1, 2, None)),
        ({"event": "gap", "at_us": 1, "dropped": None}, Strange("gap", "has no seq")),
        ({**GAP, "seq": "2"}, Strange("gap", "has str in seq")),
        ({**GAP, "event": "forecast"}, Strange("forecast", "is not known here")),
        ({"seq": 2}, Strange(None, "has no event")),
        ({**GAP, "event": ["gap"]}, Strange(None, "has no event")),
        ([], Strange(None, "has no event")),
    ],
    ids=["same", "newer", "older", "another type", "not known", "not named", "a list", "no object"],
)
def test_what_is_not_known_and_what_is_missing_are_told_apart(
    told: object, understood: object
) -> None:
    assert EVENTS.of_json(told) == understood


def test_what_an_older_one_does_not_say_has_its_default() -> None:
    told = {"command": "COMPARE", "answers": [{"topic": "t", "taken_ms": None, "stats": "{}"}]}
    assert ASKS.of_json(told) == Compare((BrokerAnswer("t", None, "{}", unacked_limit=None),))
    assert QUESTIONS.of_json({"command": "FLUSH"}) == Flush()
    assert ASKS.of_json({"command": "BEGIN"}) == Begin()


def test_strange_deep_within_says_where() -> None:
    finding = {
        "code": "x", "severity": "stalled", "confidence": 1, "consumer": None, "summary": "",
        "evidence": [{"name": "n", "value": [1], "unit": ""}], "remedy": "",
    }  # fmt: skip
    diagnosis = {
        "topic": "t", "partition": None, "subscription": "s", "type": None, "status": "stalled",
        "findings": [finding], "not_told": [],
    }  # fmt: skip
    told = {"event": "verdict", "at_us": 1, "before": None, "diagnosis": diagnosis}
    strange = Strange("verdict", "has list in value in evidence in findings in diagnosis")
    assert EVENTS.of_json(told) == strange
    assert str(strange).startswith("verdict has list in value")
    diagnosis["status"] = "suspect"
    assert EVENTS.of_json(told) == Strange("verdict", "has something else in status in diagnosis")


def test_a_field_that_cannot_pass_is_found_before_anything_runs() -> None:
    @dataclass(frozen=True, slots=True)
    class Where:
        path: Path

    with pytest.raises(TypeError, match="cannot pass as JSON"):
        Table("event", {"where": Where})
    with pytest.raises(Misread, match="has no listen_host"):
        of_json(Config, {})
    assert to_json(Rotated(None, 7)) == {"rotated": None, "id": 7}


def test_the_troubles_of_a_relay_are_among_its_counters() -> None:
    known = {field.name for field in fields(RelayCounters)} | {"frames_too_long"}
    assert set(TROUBLES) <= known


# Processes of another version.


@contextlib.contextmanager
def python_says(folder: Path, *lines: str) -> Iterator[None]:
    """A process that is started meanwhile says this after one line of stdin; one more ends it."""
    script, said = folder / "python", folder / "said"
    said.write_text("".join(f"{line}\n" for line in lines))
    script.write_text(f'#!/bin/sh\nread begin\ncat "{said}"\nread more\n')
    script.chmod(0o700)
    before, sys.executable = sys.executable, str(script)
    try:
        yield
    finally:
        sys.executable = before


@pytest.mark.usefixtures("outside")
def test_an_observer_of_another_version_is_passed_over_with_a_sentence(tmp_path: Path) -> None:
    strange = json.dumps({**GAP, "event": "forecast"})
    newer = json.dumps({**GAP, "event": "sealed", "through": 4, "newer": True})
    said: list[str] = []
    told: list[ObserverEvent] = []
    with python_says(tmp_path, strange, "[]", "null", '{"event":', strange, newer):
        observing = Observing(tmp_path, Begin(), said.append)

    def heard() -> bool:
        event = observing.next(0.05)
        if event is not None:
            told.append(event)
        return bool(told)

    eventually(heard)
    observing.ask(CountRows())
    assert observing.finish() == []
    assert told == [Sealed(1, 4)]
    ends = "it is of another version than this tap"
    assert [sentence.partition(";")[0] for sentence in said] == [
        "what the observer tells is passed over: forecast is not known here",
        "what the observer tells is passed over: a line has no event",
        "what the observer tells is passed over: a line is not JSON",
    ]
    assert all(ends in sentence for sentence in said)


def test_an_observer_passes_over_what_it_does_not_know_and_goes_on(tmp_path: Path) -> None:
    path = write_trace(tmp_path, slow_consumer().close().blocks)
    asked = [
        {"changes": "of another version"}, {"command": "KEEP"}, {"command": "SEAL", "through": []},
        {"command": "COMPARE", "answers": [{}]}, {"command": "FORECAST"},
        {"command": "FORECAST", "of": 1}, [], {"command": "COUNTERS"},
    ]  # fmt: skip
    with relay_alive(path):
        process = subprocess.Popen(
            [sys.executable, "-m", "pulsar_doctor.parts.tap.observer", str(path), "--tell"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(f"{json.dumps(each)}\n" for each in asked).encode())
        process.stdin.flush()
        told = map(EVENTS.of_line, process.stdout)
        counted = next(event for event in told if EVENTS.kind_of(event) == "counted")
    _, err = process.communicate(timeout=60)
    assert (process.returncode, counted.rows) == (0, 58)
    assert err.decode().splitlines() == [
        f"the observer passes over what the tap asks: {strange}"
        for strange in (
            "KEEP has no through", "SEAL has list in through",
            "COMPARE has no topic in answers", "FORECAST is not known here",
        )
    ]  # fmt: skip
