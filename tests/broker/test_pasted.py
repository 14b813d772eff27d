"""What people paste of a broker's answer, read as far as it goes and said so."""

from __future__ import annotations

import html
import json
import re
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples.asking import read
from pulsar_doctor.broker.samples.indented import FLOW_BYTES, INDENTED
from pulsar_doctor.broker.samples.mending import (
    COMMAS,
    COMMENTS,
    CONSUMERS,
    CUT,
    ELISIONS,
    NO_COMMA,
    QUOTES,
    SINGLES,
)
from pulsar_doctor.broker.samples.pasted import (
    ANOTHER,
    AROUND,
    BOTH,
    CLOCK,
    COLOURS,
    LEVELS_MOST,
    MARKS,
    NAMED,
    PART,
    SPACES,
    document_in,
)
from pulsar_doctor.broker.samples.plain import NUMBERED
from pulsar_doctor.broker.samples.tabular import TABULAR
from pulsar_doctor.broker.stats.reading import topic_stats
from pulsar_doctor.errors import InputError

WORKER = {"consumerName": "w-1", "availablePermits": 7, "unackedMessages": 3, "address": None}
BILLING = {"msgBacklog": 30, "type": "Shared", "isDurable": True, "consumers": [WORKER]}
STATS = {"msgInCounter": 41, "subscriptions": {"billing": BILLING}}
LONG = json.dumps(STATS, indent=2)
TOPIC = "persistent://shop/web/orders"


def coloured(escape: str) -> str:
    """As `jq -C` prints it."""
    key, plain, end = f"{escape}34;1m", f"{escape}0;39m", f"{escape}0m"
    text = re.sub(r'("\w+"):', rf"{key}\1{end}{escape}1;39m:{end}", LONG).replace("\\", "")
    return re.sub(r"\b(\d+|true|null)(?=[,\n])", rf"{plain}\1{end}", text)


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
        (LONG.replace('"', "”"), {QUOTES}),  # as some languages and programs write both
        (LONG.replace('"', "’"), {QUOTES}),
        (re.sub('"([^"]*)"', "«\\1»", LONG), {QUOTES}),
        (re.sub('"([^"]*)"', "‘\\1’", LONG), {QUOTES}),
        (re.sub('"([^"]*)"', "„\\1“", LONG), {QUOTES}),
        (coloured("\x1b["), {COLOURS}),
        (coloured("^[["), {COLOURS}),  # as a viewer shows the sign of escape
        (coloured("["), {COLOURS}),  # as a form of the web leaves it
        (LONG.replace("  ", "\u00a0 "), {SPACES}),
        (LONG[1:].strip().removesuffix("}"), {PART, CUT}),
        (f"We ask for {{tenant}}/{{namespace}} and get:\n{LONG}", {AROUND}),
        (f"WARNING: illegal access {{0}}\n{LONG}\n{LONG}", {AROUND}),
        (html.escape(LONG), {MARKS}),
        (LONG.replace("  ", "&nbsp; ").replace("\n", "<br>\n"), {MARKS}),
        (f'<pre class="x"><code>{LONG}</code></pre>', {MARKS}),
        (lines(LONG, "+"), {MARKS}),
        (lines(LONG, "| "), {MARKS}),
        ("\n".join(f"{at:3} {line}" for at, line in enumerate(LONG.splitlines(), 7)), {MARKS}),
        ("\n".join(f"{at}:{line}" for at, line in enumerate(LONG.splitlines(), 1)), {MARKS}),
        ("\n".join(f"{at}\n{line}" for at, line in enumerate(LONG.splitlines(), 1)), {MARKS}),
        (f"{{code:json}}\n{LONG}\n{{code}}", {MARKS}),
        (LONG.replace('"', '\\"'), {MARKS}),
        (json.dumps(LONG), {SPACES}),
        (repr(STATS), {SINGLES}),
        (LONG.replace('"billing"', "billing").replace('"msgBacklog"', "msgBacklog"), {SINGLES}),
        (LONG.replace('"Shared",', '"Shared", // as before'), {COMMENTS}),
        (LONG.replace('"Shared",', '"Shared"'), {NO_COMMA}),
    ],
)
def test_what_stands_around_it_is_left_out(text: str, how: set[str]) -> None:
    found = document_in(text.encode(), "s")
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


def test_what_somebody_wrote_in_place_of_a_value_is_left_out() -> None:
    text = LONG.replace(": 30", ": <hidden>").replace("7,", "***,")
    [consumer] = (found := document_in(text.encode(), "s").document["subscriptions"]["billing"])[
        "consumers"
    ]
    assert "msgBacklog" not in found
    assert consumer == {"consumerName": "w-1", "unackedMessages": 3, "address": None}


def test_what_java_prints_of_them_is_read() -> None:
    text = (
        "12:00 INFO stats: SubscriptionStatsImpl(msgBacklog=30, type=Shared, isDurable=true, "
        "consumers=[ConsumerStatsImpl(consumerName=w-1, availablePermits=7, unackedMessages=3, "
        "address=/10.0.0.7:40000)], properties={}, lastAck"
    )
    found = document_in(text.encode(), "s").document
    worker = WORKER | {"address": "/10.0.0.7:40000"}
    assert found == BILLING | {"consumers": [worker], "properties": {}}


YAML = """
$ get stats -o yaml
msgRateIn: 0.0
publishers: []
subscriptions:
  billing:   # the slow one
    msgBacklog: 30
    type: Shared
    isDurable: true
    consumers:
    - consumerName: w-1
      availablePermits: 7
      unackedMessages: 3
      address: "/10.0.0.7:40000"
    - availablePermits: -2
replication: {}

Does somebody know?
"""


@pytest.mark.parametrize("farther", ["", "  "])
def test_what_is_written_as_yaml_is_read(farther: str) -> None:
    before, begin, rest = YAML.partition("    - ")
    listed, end, behind = rest.partition("replication")
    text = before + lines(begin + listed, farther) + f"\n{end}{behind}"
    found = document_in(text.encode(), "s")
    worker = WORKER | {"address": "/10.0.0.7:40000"}
    billing = BILLING | {"consumers": [worker, {"availablePermits": -2}]}
    assert found.document == {
        "msgRateIn": 0.0,
        "publishers": [],
        "subscriptions": {"billing": billing},
        "replication": {},
    }
    assert INDENTED in found.notes[0]


def test_a_long_list_written_as_yaml_is_read_to_its_end() -> None:
    text = "msgBacklog: 1\nconsumers:\n" + "- availablePermits: 0\n" * 20_000
    found = document_in(text.encode(), "f").document
    assert len(found["consumers"]) == 20_000


def test_yaml_of_more_levels_than_an_answer_is_refused_in_little_memory() -> None:
    document_in(nested_yaml(LEVELS_MOST - 3), "f")
    with pytest.raises(InputError):
        document_in(nested_yaml(LEVELS_MOST + 1), "f")
    text = nested_yaml(50_000)
    tracemalloc.start()
    with pytest.raises(InputError):
        document_in(text, "f")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 100 * len(text)


def nested_yaml(levels: int) -> bytes:
    return b"msgBacklog: 1\nconsumers:\n" + b"- " * levels + b"availablePermits: 0\n"


def test_a_list_on_one_line_of_yaml_is_no_longer_than_a_tool_prints_it() -> None:
    text, zeros = "msgBacklog: 1\nmine: [%s]\n", "0," * (FLOW_BYTES // 2 - 2)
    found = document_in((text % f"{zeros}0").encode(), "f").document
    assert len(found["mine"]) == FLOW_BYTES // 2 - 1
    with pytest.raises(InputError):
        document_in((text % f"{zeros}0,0").encode(), "f")


def test_fields_that_somebody_typed_are_read() -> None:
    found = document_in(b"We see\nmsgBacklog: 812\nunackedMessages: 40\ntype: Shared\n", "s")
    assert found.document == {"msgBacklog": 812, "unackedMessages": 40, "type": "Shared"}
    with pytest.raises(InputError):
        document_in(b"msgBacklog: 812\nmsgBacklog: 40\n", "s")


SECOND = {"consumerName": "w-2", "availablePermits": 0, "unackedMessages": 9}


@pytest.mark.parametrize(
    ("text", "consumers"),
    [
        ('[{"availablePermits": 4}, {', [{"availablePermits": 4}, {}]),
        ('[{"availablePermits": 4}, {"unackedMessages": 2, "x', 2),
        ('[{"availablePermits": 4}, ...]', [{"availablePermits": 4}, {}]),
        ('[..., {"availablePermits": 4}]', [{"availablePermits": 4}, {}]),
        ('[{"availablePermits": 4, ...}]', [{"availablePermits": 4}]),
        ('[{"availablePermits": 4}],', [{"availablePermits": 4}]),
        ("[", None),
        ("[...]", None),
    ],
)
def test_of_a_list_of_consumers_that_is_not_whole_some_are_not_told(
    text: str, consumers: Any
) -> None:
    found = document_in(f'{{"msgBacklog": 8, "consumers": {text}'.encode(), "s").document
    if consumers == 2:
        consumers = [{"availablePermits": 4}, {"unackedMessages": 2}, {}]
    assert found.get("consumers") == consumers


def test_nobody_is_beside_the_consumer_of_an_exclusive_subscription() -> None:
    text = '{"type": "Exclusive", "msgBacklog": 8, "consumers": [{"availablePermits": 4}, '
    assert document_in(text.encode(), "s").document["consumers"] == [{"availablePermits": 4}]


@pytest.mark.parametrize(
    ("begins", "told_of"),
    [
        ('"consumerName": "w-2"', {"consumers": [SECOND, {}], "isReplicated": False}),
        (
            '"isDurable"',  # of the last one, whose name is cut off
            {"isDurable": True, "consumers": [WORKER, SECOND], "isReplicated": False},
        ),
    ],
)
def test_what_begins_in_the_middle_is_read_outwards(begins: str, told_of: Any) -> None:
    both = BILLING | {"consumers": [WORKER, SECOND], "isReplicated": False}
    text = json.dumps({"subscriptions": {"audit": BILLING, "billing": both}, "replication": {}})
    found = document_in(text[text.rindex(begins) :].encode(), "s").document
    assert found == {"subscriptions": {"unknown": told_of}, "replication": {}}


def test_cursors_in_the_middle_are_cursors() -> None:
    text = (
        '"readPosition": "7:3" }, "audit": {"readPosition": "7:1", "state": "Open"} },'
        ' "schemaLedgers": []}'
    )
    cursors = document_in(text.encode(), "s").document["cursors"]
    assert cursors["unknown"] == {"readPosition": "7:3"}
    assert cursors["audit"]["readPosition"] == "7:1"


def test_a_search_for_fields_tells_of_several_consumers() -> None:
    text = '$ grep -h Permits s\n  "availablePermits" : 12,\n  "availablePermits" : -4,\n'
    found = document_in(text.encode(), "s").document
    assert found == [{"availablePermits": 12}, {"availablePermits": -4}, {}]


def test_an_answer_with_an_error_in_it_is_not_read_from_behind_the_error() -> None:
    broken = json.dumps({"subscriptions": {"audit": BILLING, "billing": BILLING}})
    broken = broken.replace('"type": "Shared", "isDurable"', '"type" "Shared", "isDurable"', 1)
    with pytest.raises(InputError):
        document_in(broken.encode(), "s")


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG}\n{LONG}",
        f"$ pulsar-admin topics stats a\n{LONG}\n$ pulsar-admin topics stats a\n{LONG}",
        "\n".join(json.dumps(STATS) for _ in range(2)),  # as `jq -c` prints them
        json.dumps([STATS, STATS]),
    ],
)
def test_answers_without_names_of_their_own_are_topics(tmp_path: Path, text: str) -> None:
    found, _ = read_of(tmp_path, text)
    assert NUMBERED in found.notes
    assert sorted(each.topic for each in found.windows) == ["answer-1", "answer-2"]
    assert not found.incomplete


def test_numbers_that_are_texts_are_numbers(tmp_path: Path) -> None:
    texts = re.sub(r": (-?\d+)", r': "\1"', LONG)
    assert texts != LONG
    found, _ = read_of(tmp_path, texts.replace('"w-1"', '"17"'))
    (consumer,) = found.windows[0].window.last.topic.subscriptions["billing"].consumers
    assert (consumer.available_permits, consumer.consumer_name) == (7, "17")


def test_answers_of_one_connection_are_samples_of_one_topic(tmp_path: Path) -> None:
    texts = (json.dumps(with_permits(each, DATED)) for each in (7, 4))
    found, _ = read_of(tmp_path, "\n".join(f"orders\n{each}" for each in texts))
    assert len(found.windows[0].window.samples) == 2


def test_another_answer_that_is_not_read_is_incomplete(tmp_path: Path) -> None:
    found, name = read_of(tmp_path, f"```\n{LONG}\n```\nand\n```\n{LONG}\n```")
    assert ANOTHER in found.notes[0]
    assert found.incomplete == (f"{name} has another answer, not read",)


def answers_called(*before: str) -> str:
    return "\n".join(f"{each}\n{json.dumps(STATS, indent=1)}" for each in before)


@pytest.mark.parametrize(
    ("before", "names"),
    [
        (("0", "1", "2"), ["0", "1", "2"]),
        (("a-partition-0:", "a-partition-1:"), ["a", "a"]),
        (
            (
                "$ pulsar-admin topics stats persistent://shop/web/a",
                "$ pulsar-admin topics stats b",
            ),
            ["b", "persistent://shop/web/a"],
        ),
    ],
)
def test_each_answer_with_a_name_in_front_of_it_is_a_topic(
    tmp_path: Path, before: tuple[str, ...], names: list[str]
) -> None:
    found, _ = read_of(tmp_path, answers_called(*before))
    assert NAMED in found.notes[0]
    assert not found.incomplete
    assert sorted(each.topic for each in found.windows) == names


CURSORS = json.dumps({"ledgers": [], "cursors": {"a": {"readPosition": "5:9"}, "b": {}}})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f'{CURSORS[:-1]}, "schemaLedgers": [], "', None),
        (CURSORS[: CURSORS.index('"b"')], "is cut off within its cursors"),
        (f"a:\n{CURSORS}\nb:\n{CURSORS}", "has another answer, not read"),
    ],
)
def test_internal_stats_alone_that_may_lack_cursors(
    tmp_path: Path, text: str, why: str | None
) -> None:
    file = tmp_path / "i"
    file.write_text(text)
    found = read(SampleFiles([], [str(file)]))
    assert found.incomplete == (() if why is None else (f"{file} {why}",))


def test_prose_behind_an_answer_is_no_other_answer(tmp_path: Path) -> None:
    found, _ = read_of(tmp_path, f"{LONG}\nmsgBacklog: 30 is too much; why is msgBacklog high?")
    assert found.incomplete == ()


@pytest.mark.parametrize(
    "text",
    ["", "Topic not found", "{", "{...}", '{"a": oops}', '{"a": 1 "b": 2}', '{"a" 1}', "[1, 2",
     '{"a": {"b": 1.2.3}}', '{"a": ' + "[" * 40, '{"a": "\\x"}'],
)  # fmt: skip
def test_what_is_wrong_in_another_way_stays_an_error(text: str) -> None:
    with pytest.raises(InputError, match=r"^FILE is not readable JSON: "):
        document_in(text.encode(), "FILE")


def told(whole: Any, part: Any) -> bool:
    """Whether all that the part says is in the whole."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(k in whole and told(whole[k], part[k]) for k in part)
    if isinstance(part, list):
        part = part[:-1] if part[-1:] == [{}] else part  # it stands for who is left out
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
    return [read(SampleFiles(names[:1], names[1:])), *names]


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


@pytest.mark.parametrize("part", [BILLING, WORKER, [WORKER], {"consumers": [WORKER]}])
def test_a_part_alone_is_of_a_subscription_that_is_not_named(tmp_path: Path, part: Any) -> None:
    found, _ = read_of(tmp_path, part)
    [(name, told_of)] = found.windows[0].window.last.topic.subscriptions.items()
    assert (name, told_of.consumers[0].available_permits) == ("unknown", 7)
    whole = isinstance(part, dict) and "consumers" in part
    assert len(told_of.consumers) == (1 if whole else 2)  # one alone need not be all


def test_a_cursor_alone_is_read(tmp_path: Path) -> None:
    cursor = {"markDeletePosition": "3:4", "readPosition": "3:8"}
    found, *_ = read_of(tmp_path, {"consumers": [WORKER]}, cursor)
    assert found.windows[0].window.last.internal.cursors["unknown"].read_position == (3, 8)


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
    assert first == f"{stats} is not valid JSON, and was read with corrections: {AROUND}"
    assert second == f"{internal} is not valid JSON, and was read with corrections: {CUT}"


INTERNAL = {
    "entriesAddedCounter": 30,
    "lastConfirmedEntry": "3:90",
    "cursors": {"billing": {"markDeletePosition": "3:4", "readPosition": "3:8"}},
}
DATED = "2026-08-01T10:00:05+02:00"
TAKEN_MS = 1_785_571_205_000


def read_position(found: Any) -> Any:
    return found.windows[0].window.last.internal.cursors["billing"].read_position


STATS_IN = {"msgRateIn": 1.5} | STATS


@pytest.mark.parametrize(
    "text",
    [
        f"{json.dumps(STATS_IN)}\n{json.dumps(INTERNAL)}",
        f"{json.dumps(INTERNAL)}\n{json.dumps(STATS_IN)}",
        f"$ stats\n{json.dumps(STATS_IN, indent=1)}\n$ more\n{json.dumps(INTERNAL, indent=1)}\n",
        json.dumps([STATS_IN, INTERNAL]),
    ],
)
def test_stats_and_internal_stats_in_one_file_go_together(tmp_path: Path, text: str) -> None:
    found, _ = read_of(tmp_path, text)
    assert read_position(found) == (3, 8)
    assert [*found.windows[0].window.last.topic.subscriptions] == ["billing"]
    assert not text.startswith(("{", "$")) or BOTH in found.notes[0]
    (tmp_path / "both").write_text(text)
    alone = read(SampleFiles([], [str(tmp_path / "both")]))
    assert read_position(alone) == (3, 8)


def test_a_list_of_one_answer_is_that_answer(tmp_path: Path) -> None:
    found, _ = read_of(tmp_path, [STATS])
    assert found.windows[0].window.last.topic.subscriptions["billing"].msg_backlog == 30


def with_permits(permits: int, since: str) -> Any:
    worker = WORKER | {"availablePermits": permits, "connectedSince": since}
    return {"subscriptions": {"billing": BILLING | {"consumers": [worker]}}}


def test_a_list_of_answers_is_several_samples_where_a_connection_is_in_all(tmp_path: Path) -> None:
    found, _ = read_of(tmp_path, [with_permits(7, DATED), with_permits(4, DATED)])
    samples = found.windows[0].window.samples
    permits = [s.topic.subscriptions["billing"].consumers[0].available_permits for s in samples]
    assert permits == [7, 4]
    other = "2026-08-01T10:00:06+02:00"
    found, _ = read_of(tmp_path, [with_permits(7, DATED), with_permits(4, other)])
    assert [each.topic for each in found.windows] == ["answer-1", "answer-2"]


def test_stats_and_internal_stats_may_stand_under_a_short_name(tmp_path: Path) -> None:
    found, *_ = read_of(tmp_path, {"orders": STATS}, {"orders": INTERNAL})
    assert found.windows[0].topic == "orders"
    assert read_position(found) == (3, 8)


@pytest.mark.parametrize(
    ("before", "taken_ms"),
    [
        ("HTTP/1.1 200 OK\nDate: Sat, 01 Aug 2026 08:00:05 GMT\nContent-Type: x\n\n", TAKEN_MS),
        ("> GET /admin\n< date: Sat, 01 Aug 2026 08:00:05 GMT\n<\n", TAKEN_MS),
        (f"{DATED} INFO stats of orders:\n", TAKEN_MS),
        ("2026-08-01 08:00:05,250Z [main] ", TAKEN_MS + 250),
        ("2026-08-01 08:00:05.25+0000\n\n", TAKEN_MS + 250),
        ("2026-08-01 08:00:05 INFO stats: ", None),  # in which zone?
        (f"{DATED} it began\nand an hour later:\n", None),  # another moment
        ("Date: yesterday, about noon or so\n", None),
    ],
)
def test_a_time_in_front_of_it_is_when_it_was_taken(
    tmp_path: Path, before: str, taken_ms: int | None
) -> None:
    found, _ = read_of(tmp_path, f"{before}{LONG}")
    last = found.windows[0].window.last
    assert (last.taken_ms, last.now_known) == (taken_ms, taken_ms is not None)
    assert (CLOCK in found.notes[0]) == (taken_ms is not None)
    assert any("--at" in note for note in found.notes) == (taken_ms is None)
    stated = read(SampleFiles([str(tmp_path / "0")], at=str(TAKEN_MS + 5)))
    assert stated.windows[0].window.last.taken_ms == TAKEN_MS + 5


def test_files_with_their_own_times_need_no_interval_and_no_order(tmp_path: Path) -> None:
    names = []
    for name, at in (("b", "08:00:35"), ("a", "08:00:05")):
        names.append(str(tmp_path / name))
        Path(names[-1]).write_text(f"2026-08-01T{at}Z\n{LONG}")
    found = read(SampleFiles(names))
    assert found.span_ms == 30_000
    assert not any("--interval" in note for note in found.notes)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (LONG, None),
        (f'{LONG[:-2]}, "replication": {{}}', None),
        (LONG[: LONG.index("subscriptions") - 3], "holds no subscriptions"),
        (LONG[: LONG.index("consumers")], "is cut off within its subscriptions"),
        ('{"msgInCounter": 41, "subscriptions": {}}', None),
        ('{"msgInCounter": 41}', "holds no subscriptions"),
    ],
)
def test_a_document_that_may_lack_subscriptions_is_called_incomplete(
    tmp_path: Path, text: str, why: str | None
) -> None:
    found, name = read_of(tmp_path, text)
    assert found.incomplete == (() if why is None else (f"{name} {why}",))


@pytest.mark.parametrize(
    "sign", ["[0m", "1\n", "consumers\t\n0\t\n", "{'", "“”", "\x1b[", "topic ", "Date: x\n"]
)
def test_reading_takes_no_longer_than_the_text_is_long(sign: str) -> None:
    def seconds(text: str) -> float:
        began = time.process_time()
        with suppress(InputError):
            document_in(text.encode(), "s")
        return time.process_time() - began

    assert seconds(sign * (400_000 // len(sign))) < 3


# -- the tree of a browser, copied as a table ------------------------------------------------------


@pytest.mark.parametrize("number", ["1-", "1.2.3", "0e", "--1"])
def test_a_cell_that_is_nearly_a_number_is_not_reported(number: str) -> None:
    text = f"msgBacklog\t7\nmsgRateOut\t1\nmsgRateIn\t2\nunackedMessages\t{number}\n"
    document = document_in(text.encode(), "f").document
    assert document == {"msgBacklog": 7, "msgRateOut": 1, "msgRateIn": 2}


def table(document: Any, collapsed: str | int = "") -> str:
    """As Firefox copies its tree. collapsed: the name of an object that was not opened."""
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    rows = []
    for name, value in pairs:
        inner = isinstance(value, dict | list) and value
        if inner and name != collapsed:
            rows.append(f"{name}\t\n{table(value, collapsed)}")
        else:
            rows.append(f"{name}\t{'{…}' if inner else json.dumps(value)}")
    return "\n".join(rows)


FULL = json.loads(
    (Path(__file__).parents[1] / "stats" / "4.0.8-failover-standby.json").read_text()
)["samples"][0]


def test_a_real_answer_is_read_from_a_table() -> None:
    stats = FULL["stats"]
    found = document_in(f"Stats:\n{table(stats)}\n\nWhat is wrong?".encode(), "s")
    assert TABULAR in found.notes[0]
    ours, whole = (topic_stats(each).subscriptions for each in (found.document, stats))
    assert ours == whole
    trimmed = table(stats).replace("\t\n", "\n")
    assert topic_stats(document_in(trimmed.encode(), "s").document).subscriptions == whole


def test_cursors_are_read_from_a_table() -> None:
    both = {
        "billing": {"markDeletePosition": "3:4", "readPosition": None},
        "a b/c": {"readPosition": "3:1"},
    }
    internal = {"entriesAddedCounter": 30, "ledgers": [{"ledgerId": 3, "entries": 4}]}
    internal |= {"cursors": both, "schemaLedgers": []}
    assert document_in(table(internal).encode(), "s").document == internal


def test_several_subscriptions_and_what_users_attach_are_told_apart_in_a_table() -> None:
    worker = WORKER | {"metadata": {"team": "x", "0": "y"}, "address": "/10.0.0.7:40000"}
    billing = BILLING | {"consumers": [worker, WORKER], "isReplicated": False}
    each = {"audit": billing, "0": BILLING, "billing": billing}
    stats = {"msgRateIn": 1.0, "publishers": [{"producerId": 4}], "waitingPublishers": 0}
    stats |= {"subscriptions": each, "replication": {}, "ownerBroker": "b:1"}
    assert document_in(table(stats).encode(), "s").document == stats


def test_a_consumer_that_was_not_opened_is_not_known() -> None:
    stats = {"msgRateIn": 1.0, "subscriptions": {"s": BILLING | {"consumers": [WORKER, WORKER]}}}
    text = table(stats, collapsed=1)
    found = document_in(text.encode(), "s").document["subscriptions"]["s"]
    assert found["consumers"] == [WORKER, {}]
    whole = document_in(table(stats, CONSUMERS).encode(), "s").document
    assert "consumers" not in whole["subscriptions"]["s"]


@given(st.lists(st.sampled_from(table(FULL["stats"]).splitlines()), max_size=30))
def test_any_rows_of_a_table_are_read_or_refused(rows: list[str]) -> None:
    with suppress(InputError):
        document_in("\n".join(rows).encode(), "s")
