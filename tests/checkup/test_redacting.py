"""What --redact lets through: numbers and the program's own words, and no name from outside."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from pulsar_doctor.broker.samples.reading import StatsAnswer, harmless
from pulsar_doctor.checkup.case import SavedCase, document_of
from pulsar_doctor.checkup.redacting import LEFT_OUT, Pseudonyms
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.ledger.topics import split_segment
from pulsar_doctor.wording.typed_json import FORMS, form_of
from tests.checkup.test_case import again, document, judge, recorded, sent
from tests.made.cases import CASES, views_of
from tests.made.states import RECORDED
from tests.parts.examine.test_by_process import ONE, looked

ORDERS = "persistent://acme/eu/orders-partition-2"
CANARY = re.compile(r"canary", re.IGNORECASE)
SHAPES = (
    "canary-{}", "/canary-{}.acme.example:43668", "http://canary{}:8080", "persistent://acme/canary/o{}",
    "Canary {} of somebody", "eyJhbGciOiJub25lIn0.canary{}.sig", "/home/canary/{}.jar",
    "com.acme.Canary.charge{} (Canary.java:42)", "canary_{}", "{}-canary",
)  # fmt: skip


class Planting:
    """Fills every field of text in a value of a type with a canary of its own."""

    def __init__(self) -> None:
        self.planted: list[str] = []

    def canary(self) -> str:
        number = len(self.planted)
        self.planted.append(SHAPES[number % len(SHAPES)].format(number))
        return self.planted[-1]

    def value(self, hint: Any, depth: int = 5) -> Any:
        origin, inner = get_origin(hint), get_args(hint)
        if isinstance(hint, type) and is_dataclass(hint):
            hints = get_type_hints(hint)
            compared = [each for each in fields(hint) if each.compare]
            return hint(**{each.name: self.value(hints[each.name], depth - 1) for each in compared})
        if origin is Literal:
            return inner[0]
        if origin in (tuple, frozenset, list):
            alike = origin is not tuple or inner[1:] == (...,)
            if alike and depth <= 0:
                return origin()
            return origin(
                self.value(each, depth - 1) for each in (inner[:1] * 2 if alike else inner)
            )
        if str in (hint, *inner):
            return self.canary()
        some = [each for each in inner if each is not type(None)]
        if some and depth <= 0 and type(None) in inner:
            return None
        return self.value(some[0], depth) if some else hint(7)


def planted_cases() -> Iterator[tuple[SavedCase, list[str]]]:
    """Canaries in every text that a case can have, until there are a thousand of them."""
    found = 0
    while found < 1000:
        planting = Planting()
        case = planting.value(SavedCase)
        found += len(planting.planted)
        yield replace(case, checked_at="2026-05-01T12:00:00+00:00", changes=()), planting.planted


def test_of_a_thousand_canaries_in_a_case_none_is_left() -> None:
    for case, planted in planted_cases():
        before = json.dumps(document_of(case))
        assert len(CANARY.findall(before)) > 0.9 * len(planted)
        assert CANARY.findall(json.dumps(document_of(Pseudonyms().value(case)))) == []


def test_every_text_of_a_case_was_planted() -> None:
    planting = Planting()
    planting.value(SavedCase)
    texts = sum(str(hint).count("str") for kind in FORMS for hint in get_type_hints(kind).values())
    assert form_of(SavedCase)
    assert len(planting.planted) > 2 * texts / 3


def with_canaries(value: Any, number: list[int]) -> Any:
    """A broker's answer with canaries as every text, every name, and beside all that it has."""
    number[0] += 1
    if isinstance(value, dict):
        made = {key: with_canaries(each, number) for key, each in value.items()}
        if "x" in value and isinstance(value["x"], str):  # by names
            return {f"canary{number[0]}-{name}": each for name, each in made.items()}
        if value and all(isinstance(each, dict) for each in value.values()):
            return made | {f"canary{number[0]}-{name}": each for name, each in made.items()}
        named = {f"canary{number[0]}-{k}": v for k, v in made.items() if isinstance(v, dict)}
        more = {"metadata": {f"canary{number[0]}": f"canary{number[0]}"}, f"canary{number[0]}": 5}
        return made | named | more | {"properties": {"canary": f"canary{number[0]}"}}
    if isinstance(value, list):
        return [with_canaries(each, number) for each in value]
    return SHAPES[number[0] % len(SHAPES)].format(number[0]) if isinstance(value, str) else value


ANSWER = {
    "ownerBroker": "x", "msgRateIn": 1.5, "publishers": [{"producerName": "x", "address": "x"}],
    "subscriptions": {
        "billing": {
            "type": "x", "activeConsumerName": "x", "msgBacklog": 5,
            "consumersAfterMarkDeletePosition": {"x": "1:2"},
            "consumers": [{"consumerName": "x", "address": "x", "clientVersion": "x",
                           "connectedSince": "x", "availablePermits": 0, "keyHashRanges": ["x"]}],
        }
    },
    "replication": {"x": {"connected": True}}, "schemaLedgers": [{"x": "x"}],
    "cursors": {"x": {"markDeletePosition": "x", "individuallyDeletedMessages": "x", "state": "x"}},
}  # fmt: skip


def test_a_brokers_answer_keeps_numbers_and_no_name() -> None:
    number = [0]
    while number[0] < 1000:
        planted = with_canaries(ANSWER, number)
        assert CANARY.findall(json.dumps(planted))
        redacted = Pseudonyms().answer(harmless(planted))
        assert CANARY.findall(json.dumps(redacted)) == []
    assert redacted["msgRateIn"] == 1.5
    (billing, *_) = redacted["subscriptions"].values()
    assert billing["msgBacklog"] == 5
    assert StatsAnswer(ORDERS, None, redacted).sample().topic.subscriptions


def pseudonyms_in(original: str, redacted: str) -> dict[str, str]:
    """Which word of one document stands where the other has which word."""
    word = re.compile(r'[^\s",;:/()\[\]{}\\\']+')
    before, after = word.findall(original), word.findall(redacted)
    assert len(before) == len(after)
    pairs = {pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]}
    assert len(dict(pairs)) == len(pairs)  # one pseudonym for each
    return dict(pairs)


OF_4_0 = ("dispatch-throttled-topic", "uncommitted-acks", "uncommitted-messages")


@pytest.mark.parametrize(
    ("version", "name"), [*RECORDED[7::40], *(("4.0.8", name) for name in OF_4_0)]
)
def test_a_redacted_state_gives_the_same_document_with_pseudonyms(version: str, name: str) -> None:
    assert_same_with_pseudonyms(recorded(version, name))


@pytest.mark.parametrize("code", ["permits-exhausted", "key-shared-blocked"])
def test_so_does_a_redacted_written_case(code: str) -> None:
    for view in views_of(CASES[code][0]).values():
        assert_same_with_pseudonyms(Checkup("files", [judge().diagnosed(view, ("stats",))]))


def test_where_threads_are_counts_without_the_names_of_its_code() -> None:
    for view in views_of(CASES["listener-stuck"][0]).values():
        checkup = Checkup("process", [judge().diagnosed(view, ("process",))])
        redacted = again(Pseudonyms().value(sent(checkup)))
        for one, other in zip(checkup.diagnoses, redacted.diagnoses, strict=True):
            assert (other.status, other.backlog) == (one.status, one.backlog)
            assert [each.code for each in other.findings] == [each.code for each in one.findings]


def test_the_kind_of_a_process_is_no_name() -> None:
    checkup = Checkup("process", [], process=looked([ONE]))
    process = Pseudonyms().value(sent(checkup)).head.process
    assert process is not None
    assert (process.kind, process.pid) == ("jvm", 1)
    assert process.name.startswith("process-")


def assert_same_with_pseudonyms(checkup: Checkup) -> None:
    case = sent(checkup)
    original, redacted = (
        document(replace(again(each), checked_at=checkup.checked_at))
        for each in (case, Pseudonyms().value(case))
    )
    topic = checkup.diagnoses[0].topic.rpartition("/")[2]
    assert topic in original
    assert topic not in redacted
    for other in pseudonyms_in(original, redacted).values():
        assert re.search(r"(tenant|namespace|topic|subscription|consumer|host|code)-\w{8}", other)


def test_names_keep_their_shape_and_one_name_has_one_pseudonym() -> None:
    names = Pseudonyms()
    topic = names.of("topic", ORDERS)
    assert re.fullmatch(r"persistent://tenant-\w{8}/namespace-\w{8}/topic-\w{8}-partition-2", topic)
    assert names.of("topic", ORDERS.replace("-2", "-3")) == topic.replace(
        "-partition-2", "-partition-3"
    )
    assert topic.endswith(f"{names.of('topic', 'orders-partition-2')}")
    segment = names.of("topic", "segment://acme/eu/orders/0000-7fff-1")
    assert split_segment(segment) == (names.of("topic", "topic://acme/eu/orders"), 1)
    assert names.of("consumer", "w-seg-1") == f"{names.of('consumer', 'w')}-seg-1"
    assert names.of("consumer", "w (2)") == f"{names.of('consumer', 'w')} (2)"
    assert names.of("consumer", "#3").endswith("#3")
    assert names.of("consumer", "/10.0.0.7:80") == names.of("host", "/10.0.0.7:80")
    assert names.of("host", "http://b:8080").startswith("http://host-")
    assert names.of("subscription", "pulsar.repl.eu").startswith("pulsar.repl.cluster-")
    assert names.of("subscription", "__compaction") == "__compaction"
    assert names.of("version", "Pulsar-Java-v3.3.5 secret") == "Pulsar-Java-v3.3.5"
    assert names.of("version", "secret") == LEFT_OUT
    assert Pseudonyms().of("consumer", "w") != names.of("consumer", "w")


def test_notes_of_a_redacted_case_keep_their_topics_alone() -> None:
    checkup = Checkup("files", [])
    checkup.notes, checkup.unreachable = [(ORDERS, "of acme")], [("(the rest)", "acme refused")]
    head = Pseudonyms().value(sent(checkup)).head
    assert head.unreachable == [("(the rest)", LEFT_OUT)]
    ((topic, note),) = head.notes
    assert (topic != ORDERS, note) == (True, LEFT_OUT)
