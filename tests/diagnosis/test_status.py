"""The status of a verdict: what may be called healthy, and what forbids it (healthy.yaml)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.diagnosis.answers import (
    HEALTHY,
    Finding,
    NothingMoves,
    Unknown,
    Unreliable,
)
from pulsar_doctor.diagnosis.cause import Cause
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.status import status_of
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.diagnosis.weighing import diagnose
from tests.made.cases import views_of
from tests.support import yaml_files

CASES = yaml_files.read(Path(__file__).with_name("healthy.yaml"))


FORBIDDEN = [case for case in CASES if "says" in case]


def judged(case: dict[str, Any], causes: Sequence[Cause]) -> dict[str, Diagnosis]:
    limits = limits_of(load(), case.get("set", ()))
    return {source: diagnose(view, causes, limits) for source, view in views_of(case).items()}


@pytest.mark.parametrize(
    ("doubt", "status"),
    [(Unknown, "warning"), (NothingMoves, "unknown"), (Unreliable, "unknown")],
)
def test_a_warning_decides_unless_a_stall_may_hide_behind_it(doubt, status):
    warning = Finding(severity="warning", confidence=0.9, summary="", evidence=())
    assert status_of([warning], [doubt("why")]) == status
    assert status_of([replace(warning, severity="stalled")], [doubt("why")]) == "stalled"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_what_may_be_called_healthy(case: dict[str, Any]) -> None:
    for source, said in judged(case, load()).items():
        if case["status"] == "not healthy":
            assert said.status != "healthy", source
        else:
            assert said.status == case["status"], (source, said.unknowns, said.findings)


@pytest.mark.parametrize("case", FORBIDDEN, ids=lambda case: case["name"])
def test_a_fact_forbids_it_though_every_check_is_left_out(case: dict[str, Any]) -> None:
    for source, said in judged(case, ()).items():
        assert said.status == "unknown", source
        reasons = [unknown.reason for unknown in said.unknown]
        assert any(case["says"] in reason for reason in reasons), (source, reasons)
        assert said.unknowns[0] == f"healthy: {reasons[0]}"


@pytest.mark.parametrize("case", FORBIDDEN, ids=lambda case: case["name"])
def test_a_fact_leaves_half_at_most_to_nothing_is_wrong(case: dict[str, Any]) -> None:
    for source, said in judged(case, load()).items():
        well = [each.probability for each in said.suspects if each.code == HEALTHY]
        assert said.status != "healthy", source
        assert all(share <= 0.5 for share in well), (source, well)


def test_whether_what_comes_later_and_later_piles_up_is_asked_of_the_broker() -> None:
    case = next(each for each in CASES if "later and later" in each["name"])
    (said,) = judged(case, load()).values()
    likely = next(each for each in said.suspects if each.code == HEALTHY)
    assert likely.decide is not None
    assert likely.decide.text.startswith("Ask the broker for 60 s: if the backlog does not grow")
