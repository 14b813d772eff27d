"""JUnit: stalled fails, unknown is an error, what was not read is said, any name is legal XML."""

from __future__ import annotations

import platform
import re
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import xmlschema

from pulsar_doctor.checkup.result import Checkup
from tests.report.checkups import (
    actions_on,
    assert_actions_in_order,
    checkup,
    finding,
    verdict,
    written,
)


@cache
def schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(Path(__file__).with_name("junit.xsd"))


ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def held(name: str) -> str:
    return ILLEGAL.sub("\ufffd", name)


def read(text: str) -> list[dict[str, Any]]:
    """A report that is valid by its schema, and that counts right."""
    assert text.isascii()
    schema().validate(text)
    [suite] = ElementTree.fromstring(text)
    cases = suite.findall("testcase")
    told = [int(suite.get(name, "")) for name in ("tests", "failures", "errors", "skipped")]
    kinds = [f"testcase/{kind}" for kind in ("failure", "error", "skipped")]
    assert told == [len(cases), *(len(suite.findall(kind)) for kind in kinds)]
    return [row(case) for case in cases if case.find("skipped") is None]


def row(case: ElementTree.Element) -> dict[str, Any]:
    told: dict[str, Any] = {"full_topic": case.get("classname"), "subscription": case.get("name")}
    failure, error = case.find("failure"), case.find("error")
    if failure is not None:
        return told | {"status": "stalled", "summaries": [failure.get("message")]}
    if error is None:
        return told
    if error.get("type") == "unreachable":
        return told | {"subscription": None, "not_told": [error.get("message")]}
    return told | {"status": "unknown"}


def everything() -> Checkup:
    return checkup(
        [
            verdict("stalled", partition=3),
            verdict("unknown", "audit"),
            verdict("warning", "mail"),
            verdict("healthy", "search"),
        ],
        not_loaded=["persistent://a/b/quiet"],
        unreachable=[("persistent://a/b/gone", "404: no such topic")],
    )


def test_a_whole_report() -> None:
    host = platform.node() or "localhost"
    assert written("junit", everything()).splitlines() == [
        '<?xml version="1.0" encoding="UTF-8"?>',
        "<testsuites>",
        '<testsuite name="pulsar-doctor stall-check" package="pulsar-doctor" id="0" tests="6"'
        ' failures="1" errors="2" skipped="1" time="10.000"'
        f' hostname="{host}" timestamp="2026-05-01T12:00:00">',
        "<properties>",
        '<property name="source" value="broker"/>',
        '<property name="samples" value="11"/>',
        '<property name="window_seconds" value="10.0"/>',
        "</properties>",
        '<testcase classname="persistent://public/default/orders-partition-3" name="billing"'
        ' time="10.000"><failure type="permits-exhausted"'
        ' message="worker-3 holds 500 messages and has 0 permits">permits-exhausted of worker-3:'
        " worker-3 holds 500 messages and has 0 permits",
        "Numbers: last ack 12 min",
        "Remedy: Give this consumer a smaller receiver queue.",
        "More: pulsar-doctor explain permits-exhausted</failure></testcase>",
        '<testcase classname="persistent://public/default/orders" name="audit" time="10.000">'
        '<error type="unknown"'
        ' message="broker-read-stuck: one sample does not show whether it moves">'
        "Not reported: broker-read-stuck: one sample does not show whether it moves"
        "</error></testcase>",
        '<testcase classname="persistent://public/default/orders" name="mail" time="10.000"/>',
        '<testcase classname="persistent://public/default/orders" name="search" time="10.000"/>',
        '<testcase classname="persistent://a/b/gone" name="(unreachable)" time="0.000">'
        '<error type="unreachable" message="404: no such topic"></error></testcase>',
        '<testcase classname="persistent://a/b/quiet" name="(not loaded)" time="0.000">'
        '<skipped message="no broker has it"/></testcase>',
        "<system-out>warning: mail on persistent://public/default/orders: permits-exhausted:"
        " worker-3 holds 500 messages and has 0 permits",
        "Give this consumer a smaller receiver queue.",
        "</system-out>",
        "<system-err/>",
        "</testsuite>",
        "</testsuites>",
    ]


@pytest.mark.parametrize(
    ("fail_on", "failed"),
    [("stalled", ["billing"]), ("warning", ["billing", "mail"]), ("never", [])],
)
def test_fail_on_decides_what_is_a_failure(fail_on: str, failed: list[str]) -> None:
    text = written("junit", everything(), fail_on=fail_on)
    cases = ElementTree.fromstring(text).iter("testcase")
    assert [case.get("name") for case in cases if case.find("failure") is not None] == failed


def test_nothing_examined_is_a_valid_report() -> None:
    schema().validate(written("junit", checkup([])))


def test_markup_in_names_and_summaries_is_text() -> None:
    odd = finding(consumer="</failure>", summary='a "quoted" <b> & ]]> end')
    text = written("junit", checkup([verdict("stalled", "<&\"'\n>", findings=(odd,))]))
    [case] = ElementTree.fromstring(text).iter("testcase")
    assert case.get("name") == "<&\"'\n>"
    assert case[0].get("message") == 'a "quoted" <b> & ]]> end'
    assert (case[0].text or "").count("]]> end") == 1


def test_all_that_can_be_done_is_told_in_its_order() -> None:
    found = (finding(actions=actions_on("persistent://a/b/c d")),)
    text = written("junit", checkup([verdict("stalled", findings=found)]))
    text = "".join(ElementTree.fromstring(text).itertext())
    assert_actions_in_order(text)
