"""What people paste of a broker's answer, read as far as it goes and said so."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pulsar_doctor.broker.samples.asking import read
from pulsar_doctor.broker.samples.pasted import (
    AROUND,
    COMMAS,
    CUT,
    ELISIONS,
    MARKS,
    PART,
    QUOTES,
    SPACES,
    document_in,
)
from pulsar_doctor.errors import InputError

WORKER = {"consumerName": "w-1", "availablePermits": 7, "unackedMessages": 3, "address": None}
BILLING = {"msgBacklog": 30, "type": "Shared", "isDurable": True, "consumers": [WORKER]}
STATS = {"msgInCounter": 41, "subscriptions": {"billing": BILLING}}
LONG = json.dumps(STATS, indent=2)
TOPIC = "persistent://shop/web/orders"


def lines(text: str, before: str) -> str:
    return "\n".join(f"{before}{line}" for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (f"$ pulsar-admin topics stats orders\n{LONG}\n", {AROUND}),
        (f"The stats say:\n\n{LONG}\n\nWhat is wrong?", {AROUND}),
        (f"On Monday somebody wrote:\n{lines(LONG, '> ')}", {AROUND, MARKS}),
        (lines(LONG, ">> "), {MARKS}),
        (f"```json\n{LONG}\n```\nand the rest", {MARKS}),
        (f"Look:\n```\n{LONG}\n```", {MARKS}),
        (f"`{json.dumps(STATS)}`", {MARKS}),
        (LONG.replace("\n    }", ",\n    }").replace("null", "null,"), {COMMAS}),
        (LONG.replace('"', "“", 1).replace('"', "”", 1), {QUOTES}),
        (LONG.replace("  ", "\u00a0 "), {SPACES}),
        (LONG[1:].strip().removesuffix("}"), None),
    ],
)
def test_what_stands_around_it_is_left_out(text: str, how: set[str] | None) -> None:
    found = document_in(text.encode(), "s")
    if how is None:  # begins with a number, which tells nothing of itself
        assert found.document["billing"] == BILLING
        return
    assert found.document == STATS
    [note] = found.notes
    assert all(each in note for each in how), note


def test_json_is_read_as_it_stands() -> None:
    found = document_in(LONG.encode(), "s")
    assert (found.document, found.notes) == (STATS, ())


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ('{"a": 1, ...}', {"a": 1}),
        ('{"a": 1,\n  ...\n  "b": 2}', {"a": 1, "b": 2}),
        ('{"a": ..., "b": 2}', {"b": 2}),
        ('{"list": [{"c": 1}, {...}, {"d": 2} ...]}', {"list": [{"c": 1}, {"d": 2}]}),
        ('{"list": [ … ], "one": {…}, "b": 2}', {"b": 2}),  # not empty: not told
        ('{"list": [], "one": {}, ...}', {"list": [], "one": {}}),
        ('{"text": "a...b", ...}', {"text": "a...b"}),
    ],
)
def test_what_dots_stand_for_is_not_told(text: str, document: dict[str, Any]) -> None:
    found = document_in(text.encode(), "s")
    assert found.document == document
    assert ELISIONS in found.notes[0]


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ('{"a": 12, "b": 34', {"a": 12}),  # it may be 345
        ('{"a": 12, "b": tr', {"a": 12}),
        ('{"a": 12, "b": "te', {"a": 12}),
        ('{"a": 12, "b', {"a": 12}),
        ('{"a": 12, "b":', {"a": 12}),
        ('{"a": 12, "list": [', {"a": 12}),  # nobody tells that it is empty
        ('{"a": 12, "list": [{"c": 1, "d": 2', {"a": 12, "list": [{"c": 1}]}),
        ('{"a": 12, "list": []', {"a": 12, "list": []}),
        ('{"a": 12, "b": true', {"a": 12, "b": True}),
    ],
)
def test_a_value_that_is_cut_is_left_out(text: str, document: dict[str, Any]) -> None:
    found = document_in(text.encode(), "s")
    assert found.document == document
    assert CUT in found.notes[0]


def test_a_part_without_its_first_bracket_is_read() -> None:
    found = document_in(f'"subscriptions": {json.dumps({"s": BILLING})},'.encode(), "s")
    assert found.document == {"subscriptions": {"s": BILLING}}
    assert PART in found.notes[0]


@pytest.mark.parametrize(
    "text",
    ["", "Topic not found", "{", "{...}", '{"a": oops}', '{"a": 1 "b": 2}', '{"a" 1}', "[1, 2",
     '{"a": {"b": 1.2.3}}', '{"a": ' + "[" * 40, '{"a": "\\x"}'],
)  # fmt: skip
def test_what_is_wrong_in_another_way_stays_an_error(text: str) -> None:
    with pytest.raises(InputError, match=r"^FILE is no JSON that can be read: "):
        document_in(text.encode(), "FILE")


def told(whole: Any, part: Any) -> bool:
    """Whether all that the part says is in the whole."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(k in whole and told(whole[k], part[k]) for k in part)
    if isinstance(part, list):
        pairs = zip(whole, part, strict=False)
        return len(part) <= len(whole) and all(told(one, other) for one, other in pairs)
    return bool(whole == part)


@given(st.integers(1, len(LONG)), st.sampled_from(["", " ", "\n..."]))
@example(at=LONG.index(": 30") + len(": 3"), behind="\n...")
def test_no_cut_tells_what_was_not_there(at: int, behind: str) -> None:
    try:
        found = document_in((LONG[:at] + behind).encode(), "s")
    except InputError:
        return
    assert told(STATS, found.document)


@given(st.text(alphabet='{}[]",:.0a> `“\n', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InputError):
        found = document_in(text.encode(), "s")
        assert found.notes or json.loads(text) == found.document


# -- the forms of one answer -----------------------------------------------------------------------


def read_of(path: Path, *documents: Any) -> list[Any]:
    names = []
    for at, document in enumerate(documents):
        names.append(str(path / f"{at}"))
        text = document if isinstance(document, str) else json.dumps(document)
        Path(names[-1]).write_text(text)
    return [read(names[:1], names[1:]), *names]


@pytest.mark.parametrize(
    ("document", "topic"),
    [
        ({TOPIC: STATS}, TOPIC),
        ({"billing": BILLING}, "unknown"),
        ({"subscriptions": {"billing": BILLING}}, "unknown"),
    ],
)
def test_stats_by_topic_and_subscriptions_alone_are_stats(
    tmp_path: Path, document: Any, topic: str
) -> None:
    found, _ = read_of(tmp_path, document)
    [window] = found.windows
    assert window.topic == topic
    subscriptions = window.window.last.topic.subscriptions
    assert [(name, s.msg_backlog) for name, s in subscriptions.items()] == [("billing", 30)]


@pytest.mark.parametrize("stats", [STATS, {TOPIC: STATS}, {"billing": BILLING}])
@pytest.mark.parametrize("keyed", [False, True])
def test_cursors_alone_go_with_them(tmp_path: Path, stats: Any, keyed: bool) -> None:
    cursors = {"billing": {"markDeletePosition": "3:4", "readPosition": "3:8"}}
    internal = {TOPIC: {"cursors": cursors}} if keyed else cursors
    found, *_ = read_of(tmp_path, stats, internal)
    [window] = found.windows
    assert window.window.last.internal.cursors["billing"].read_position == (3, 8)


def test_a_subscription_may_be_called_as_a_field_is(tmp_path: Path) -> None:
    found, _ = read_of(tmp_path, {"subscriptions": {"consumers": BILLING}})
    assert [*found.windows[0].window.last.topic.subscriptions] == ["consumers"]


def test_how_each_file_was_read_is_said(tmp_path: Path) -> None:
    cut = '{"cursors": {"billing": {"readPosition": "3:8", "markDel'
    found, stats, internal = read_of(tmp_path, f"$ stats\n{LONG}", cut)
    first, second, _ = found.notes
    assert first == f"{stats} is no JSON as it stands, and is read so: {AROUND}"
    assert second == f"{internal} is no JSON as it stands, and is read so: {CUT}"
