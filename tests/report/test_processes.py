"""One line for each process of the consumers that verdicts name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.numbers import ReportedConsumer
from pulsar_doctor.evidence.whereabouts import Whereabouts
from tests.report.checkups import STUCK, checkup, finding, suspected, verdict, written

HERE, THERE = "/10.0.3.7:51494", "/10.0.3.8:40000"


def at(address: str | None, label: str = "worker-3") -> ReportedConsumer:
    return ReportedConsumer(label=label, address=address)


def on(topic: str, address: str | None, code: str = "permits-exhausted") -> Diagnosis:
    name = f"persistent://public/default/{topic}"
    found = (finding(code),)
    return verdict("stalled", "app", name, findings=found, consumers=(at(address),))


def processes(*diagnoses: Diagnosis) -> list[str]:
    lines = written("table", checkup(diagnoses)).splitlines()
    if "processes" not in lines:
        return []
    told = lines[lines.index("processes") + 1 :]
    return [line.strip() for line in told[: told.index("")]]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def test_one_process_that_holds_several_topics_is_one_line() -> None:
    suspicion = replace(suspected("app", topic="c", consumers=(at(HERE, "ks-stuck"),)))
    assert processes(on("a", HERE), on("b", HERE), suspicion, on("d", THERE)) == [
        "10.0.3.7:51494 (worker-3 and ks-stuck) holds 3 topics: a, b and c"
    ]


def test_each_with_a_process_of_its_own_needs_no_line() -> None:
    assert processes(on("a", HERE), on("b", THERE)) == []


def test_two_subscriptions_of_one_topic_are_one_topic() -> None:
    assert processes(on("a", HERE), replace(on("a", HERE), subscription="audit")) == []


def test_rows_that_share_their_advice_name_each_process() -> None:
    many = [on(f"t{number}", f"/10.0.3.9:{number}") for number in range(12)]
    assert processes(*many, on("more", "/10.0.3.9:3")) == [
        "10.0.3.9:3 (worker-3) holds 2 topics: t3 and more",
        *(f"10.0.3.9:{n} (worker-3) holds t{n}" for n in (0, 1, 2, 4, 5, 6, 7, 8, 9)),
        "and 2 more with -o json",
    ]


def test_an_address_that_is_not_reported_is_no_process() -> None:
    assert processes(*(on(f"t{number}", None) for number in range(7))) == []


def test_a_suspect_is_named_where_nothing_is_decided() -> None:
    assert STUCK.consumer == "ks-stuck"
    undecided = [suspected("app", topic=name, consumers=(at(HERE, "ks-stuck"),)) for name in "ab"]
    assert processes(*undecided) == ["10.0.3.7:51494 (ks-stuck) holds 2 topics: a and b"]


def test_advice_for_several_processes_names_no_single_address() -> None:
    remedy = "Restart the process at 10.0.3.9:0 to free what it holds."
    many = [on(f"t{number}", f"/10.0.3.9:{number}") for number in range(12)]
    several = [
        replace(each, findings=(replace(each.findings[0], remedy=remedy, where=located(number)),))
        for number, each in enumerate(many)
    ]
    text = written("table", checkup(several))
    assert "Restart each of the processes below to free what it holds." in text
    assert "process at 10.0.3.9:0" not in text
    one = [replace(each, findings=several[0].findings) for each in several]
    assert remedy in written("table", checkup(one))


def located(number: int) -> Whereabouts:
    return Whereabouts(f"/10.0.3.9:{number}", "Pulsar-Java-v4.0.8", None)
