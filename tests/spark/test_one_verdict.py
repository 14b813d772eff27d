"""`analyze` and `stall-check --trace` say the same of consumers that stand still at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pulsar_doctor.cli import run
from pulsar_doctor.spark.reading import Looked, read_traces
from tests.cli.test_analyze import states
from tests.spark import made_traces

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # a busy machine
# The same trace_id twice: the newer one counts, and the other one ends earlier.
TWICE = ("copied", "kept", "kept_before", "kept_of_gone")
Verdicts = set[tuple[str, str, str, str]]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("made")
    makers = [maker for maker in made_traces.MAKERS if maker.__name__ not in TWICE]
    made = [path for maker in makers for path in maker(folder / maker.__name__)]
    return [*made, *made_traces.sealed(folder / "states", states(), "states")]


def by_stall_check(path: Path, capsys: pytest.CaptureFixture[str]) -> Verdicts:
    """Subscription, code and severity of what is found of a consumer without permits."""
    run(["stall-check", "--trace", str(path), "-o", "json", "-q"])
    out = capsys.readouterr().out
    said = json.loads(out) if out else {"subscriptions": []}  # there was no consumer
    return {
        (str(path), subscription["subscription"], found["code"], found["severity"])
        for subscription in said["subscriptions"]
        for found in subscription["findings"]
        if found["consumer"] and _permits(found) <= 0
    }


def _permits(found: dict[str, Any]) -> int:
    told = {each["name"]: each["value"] for each in found["evidence"]}
    return int(told.get("available_permits") or 0)


def test_what_goes_on_at_the_end_has_one_verdict(
    spark: SparkSession, paths: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    expected: Verdicts = set().union(*(by_stall_check(path, capsys) for path in paths))
    given = [str(path) for path in paths]
    run(["analyze", *given, "-o", "json", "-q", "--stall-floor", "0"])
    stalls = json.loads(capsys.readouterr().out)["stalls"]
    folders = {each.trace_id: each.trace for each in read_traces(spark, given).segments}
    said = {
        (folders[row["trace_id"]], row["subscription"], row["code"], row["severity"])
        for row in stalls
        if row["ended_by"] == "end_of_trace" and row["code"]
    }
    assert said == expected
    assert {code for _, _, code, _ in said} >= {
        "permits-exhausted", "slow-but-progressing", "permit-leak",
    }  # fmt: skip


def test_it_is_asked_for_alike_where_only_spark_can_look(
    spark: SparkSession, paths: list[Path]
) -> None:
    given = [str(path) for path in paths]
    here = read_traces(spark, given).at_the_end
    elsewhere = read_traces(spark, given, Looked([], given)).at_the_end
    assert sorted(elsewhere, key=repr) == sorted(here, key=repr)
    assert here
