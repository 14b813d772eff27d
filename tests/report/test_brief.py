"""The brief document: small however much there is, the worst first; it says what it cuts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.recorded import of_files
from pulsar_doctor.checkup.result import REST
from pulsar_doctor.diagnosis.followup import After
from pulsar_doctor.diagnosis.limits import limits_of
from tests.made.states import FOLDER, RECORDED, RULES
from tests.report.checkups import (
    actions_on,
    any_verdict,
    checkup,
    finding,
    located,
    texts,
    verdict,
    written,
)

VERSION = "4.0.8"
ESSENTIAL = {"status", "subscription", "topic", "cause"}


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)
    else:
        yield str(value)


def read(text: str) -> str:
    return "\n".join(strings(json.loads(text)))


def says_that_it_is_cut(text: str) -> bool:
    return "cut" in json.loads(text)


def brief(run: Any) -> Any:
    return json.loads(written("brief", run))


def test_a_whole_answer() -> None:
    found = replace(located(), actions=actions_on("orders"))
    run = checkup(
        [verdict("warning", "mail"), verdict("stalled", findings=(found,)), verdict("healthy")],
        unreachable=[("persistent://a/b/gone", "404: no such topic")],
    )
    told = brief(run)
    stalled, warning = told.pop("subscriptions")
    assert told == {
        "schema": "pulsar-doctor/brief/1",
        "status": "stalled",
        "counts": "3 subscriptions: 1 stalled, 1 warning, 1 healthy",
        "checked": "10 s",
        "unread": ["persistent://a/b/gone: 404: no such topic"],
    } | {"checked": told["checked"]}
    assert list(stalled)[:4] == ["status", "subscription", "topic", "cause"]
    assert stalled["cause"] == "permits-exhausted of worker-3"
    assert stalled["certainty"] == "90%"
    assert stalled["where"] == "10.0.3.7:51494, Java 4.0.8, connected 2 h"
    assert stalled["waits"] == "40 entries wait to be sent"
    assert warning["fix"] == "Give this consumer a smaller receiver queue."


def test_each_row_of_the_screen_is_there_in_its_words() -> None:
    found = replace(located(), actions=actions_on("orders"))
    run = checkup([verdict("stalled", findings=(found,))])
    told = brief(run)["subscriptions"][0]
    screen = written("table", checkup([verdict("stalled", findings=(found,))]))
    for row in told.keys() - {"status", "certainty", "topic", "risk"}:
        assert told[row] in screen, row


@pytest.mark.parametrize("name", [name for version, name in RECORDED if version == VERSION])
def test_one_recorded_subscription_takes_one_kilobyte_at_most(name: str) -> None:
    judge = Judge(RULES, limits_of(RULES), None)
    files = SampleFiles([str(FOLDER / VERSION / f"{name}.jsonl.gz")])
    text = written("brief", of_files(files, judge, lambda _: None))
    assert len(text) <= 1024
    for each in json.loads(text)["subscriptions"]:
        assert each.keys() >= ESSENTIAL
        assert {"fix", "decide"} & each.keys() or "more" in each["cut"]


def test_300_subscriptions_with_six_that_are_sick_take_five_kilobytes_at_most() -> None:
    codes = ["permits-exhausted", "prefetch-hogging", "not-acknowledging", "no-consumer"]
    sick = [
        verdict("stalled", f"sick-{at}", findings=(replace(located(), code=codes[at % 4]),))
        for at in range(6)
    ]
    text = written("brief", checkup([*sick, *(verdict(subscription=f"s{n}") for n in range(294))]))
    told = json.loads(text)
    assert len(text) <= 5 * 1024
    assert told["counts"] == "300 subscriptions: 6 stalled, 294 healthy"
    shown = [each["subscription"] for each in told["subscriptions"]]
    assert sorted(shown) == [each.subscription for each in sick]
    assert all("seen" in each and "fix" in each for each in told["subscriptions"][:5])


def test_many_of_one_cause_are_one_entry_with_what_they_cost() -> None:
    [told] = brief(checkup([verdict("stalled", f"s{n}") for n in range(60)]))["subscriptions"]
    assert told["subscription"] == "60 subscriptions: s0, s1, s2 and 57 more"
    assert told["cost"] == "backlog 29880 in all"
    assert told["largest"] == "s0 on public/default/orders"


def test_what_has_no_room_is_named() -> None:
    sick = [
        verdict("stalled", f"s{n}", findings=(finding(f"cause-{n}", summary="a " * 300),))
        for n in range(90)
    ]
    text = written("brief", checkup([verdict("warning", "last"), *sick]))
    told = json.loads(text)
    shown = len(told["subscriptions"])
    assert len(text) <= 5 * 1024
    assert told["cut"] == f"{91 - shown} of 91 that are not healthy; -o json has everything"
    assert {each["status"] for each in told["subscriptions"]} == {"stalled"}
    assert "seen" in told["subscriptions"][-1]["cut"]


@settings(max_examples=25)
@given(st.lists(any_verdict(), max_size=7), st.lists(st.tuples(texts, texts), max_size=7))
def test_whatever_is_in_it_it_is_small_and_a_line_for_a_shell_is_whole(
    diagnoses: Any, unread: Any
) -> None:
    text = written("brief", checkup(diagnoses, unreachable=unread, notes=unread))
    assert len(text) <= 5 * 1024
    assert json.loads(text)["status"] != "healthy" or not (unread or not diagnoses)


def test_names_of_a_hundred_thousand_characters() -> None:
    name = "\U0001f600" * 100_000
    run = checkup([verdict("stalled", name, f"persistent://{name}/{name}/{name}")])
    text = written("brief", run)
    [told] = json.loads(text)["subscriptions"]
    assert len(text) <= 1024
    assert told.keys() >= ESSENTIAL
    assert told["subscription"].endswith("…")
    assert "check" not in told, "half a line is not for a shell"


@pytest.mark.parametrize(
    ("run", "status"),
    [
        (checkup([]), "unknown"),
        (checkup([verdict()], unreachable=[(REST, "a list is cut off")]), "unknown"),
        (checkup([verdict("warning")], unreachable=[(REST, "cut off")]), "unknown"),
        (checkup([verdict("warning"), verdict()]), "warning"),
        (checkup([verdict("unknown"), verdict("stalled")]), "stalled"),
        (checkup([verdict()]), "healthy"),
        (checkup([verdict()], only=frozenset({"stalled"})), "healthy"),
    ],
)
def test_it_is_never_healthy_where_the_exit_code_is_3(run: Any, status: str) -> None:
    assert brief(run)["status"] == status


def test_what_only_leaves_out_is_counted() -> None:
    told = brief(checkup([verdict("stalled")], only=frozenset({"healthy"})))
    assert told["counts"] == "1 subscription left out: not healthy (--only)"


def test_what_became_of_a_subscription_is_told_of_healthy_ones_too() -> None:
    after = After("worked", "acknowledged 40 since")
    [told] = brief(checkup([verdict(after=after)]))["after"]
    assert told.startswith("billing on public/default/orders: worked")


def test_a_healthy_one_has_what_the_data_cannot_rule_out() -> None:
    told = brief(checkup([verdict(suspects=(), findings=(finding(severity="info"),))]))
    [line] = told["of_healthy"]
    assert "info: permits-exhausted of worker-3" in line
