"""`analyze` and `stall-check --trace` say the same of every subscription where its trace ends."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pulsar_doctor.capture.connections import TO_CLIENT
from pulsar_doctor.cli import run
from pulsar_doctor.spark import reading
from pulsar_doctor.spark.reading import Looked, look, read_traces
from pulsar_doctor.trace.folder import state_name
from pulsar_doctor.trace.reading import Trace
from tests.capture.test_adversary import faking, judged
from tests.cli.test_analyze import states
from tests.spark import made_traces
from tests.spark.made_traces import sealed
from tests.tap.tapped import message
from tests.trace.said import Said

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # a busy machine
# The same trace_id twice: the newer one counts, and the other one ends earlier.
TWICE = ("copied", "kept", "kept_before", "kept_of_gone")
Verdicts = set[tuple[str, str, str, str]]
Document = dict[str, Any]


def hoarded() -> Said:
    """A consumer works slowly on all messages beside one that has none."""
    said = Said().open().open(1).attached(1, "worker-slow").flow(1000).pushed(range(897))
    said.attached(2, "worker-idle", conn_id=1).flow(1000, 2, conn_id=1)
    for entry in range(8):
        said.wait(5).acked([entry])
    return said


def closed_while_slow() -> Said:
    """A consumer without permits that works, and is closed before it asks again."""
    said = Said().open().attached(1, "closer").flow(100).pushed(range(100))
    for entry in range(12):
        said.wait(2).acked([entry])
    return said.closed(1).close()


def recovered() -> Said:
    """It stands still for longer than a stall needs, and works well again in the end."""
    said = Said().open().attached(1, "back").flow(10).pushed(range(10)).wait(400)
    said.acked(range(5)).flow(5)
    for entry in range(10, 15):
        said.wait(1).pushed([entry]).acked([entry - 5]).acked([entry])
    return said.flow(10).wait(5)


ENDS = {"hoarded": hoarded, "closed": closed_while_slow, "recovered": recovered, "states": states}


def _document(*arguments: object) -> tuple[int, Document]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = run([*map(str, arguments), "-o", "json", "-q"])
    return code, json.loads(out.getvalue() or "{}")


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("made")
    makers = [maker for maker in made_traces.MAKERS if maker.__name__ not in TWICE]
    made = [path for maker in makers for path in maker(folder / maker.__name__)]
    ends = [path for name, said in ENDS.items() for path in sealed(folder / name, said(), name)]
    return [*made, *ends]


@pytest.fixture(scope="module")
def checked(paths: Sequence[Path]) -> dict[str, list[Document]]:
    """What stall-check says: by the folder of each trace its subscriptions."""
    found = {str(path): _document("stall-check", "--trace", path)[1] for path in paths}
    return {path: document.get("subscriptions", []) for path, document in found.items()}


@pytest.fixture(scope="module")
def analyzed(spark: SparkSession, paths: Sequence[Path]) -> Document:
    return _document("analyze", *paths, "--stall-floor", "0")[1]


@pytest.fixture(scope="module")
def folders(paths: Sequence[Path]) -> dict[str, str]:
    """By the trace_id of each."""
    return {Trace(path).meta.trace_id: str(path) for path in paths}


def _permits(found: Document) -> int:
    told = {each["name"]: each["value"] for each in found["evidence"]}
    return int(told.get("available_permits") or 0)


def _name(verdict: Document) -> tuple[str, ...]:
    return verdict["topic"], str(verdict["partition"]), verdict["subscription"]


def test_each_subscription_has_the_verdict_of_stall_check(
    analyzed: Document, checked: dict[str, list[Document]], folders: dict[str, str]
) -> None:
    said: dict[str, list[Document]] = {path: [] for path in checked}
    for verdict in analyzed["verdicts"]:
        own = {name: value for name, value in verdict.items() if name not in ("trace_id", "at")}
        said[folders[verdict["trace_id"]]].append(own)
    for path, expected in checked.items():
        assert sorted(said[path], key=_name) == sorted(expected, key=_name)
    status = {
        Path(path).name: subscriptions[0]["status"]
        for path, subscriptions in checked.items()
        if subscriptions
    }
    assert [status[name] for name in ("hoarded", "closed")] == ["stalled", "warning"]


def test_a_stall_that_is_over_is_told_and_is_no_verdict(
    analyzed: Document, folders: dict[str, str]
) -> None:
    found = {
        (Path(folders[row["trace_id"]]).name, row["ended_by"])
        for row in analyzed["stalls"]
        if row["severity"] == "stalled"
    }
    assert ("recovered", "flow") in found
    (verdict,) = (each for each in analyzed["verdicts"] if each["trace_id"] == "recovered")
    assert verdict["status"] != "stalled"


def test_a_trace_without_a_consumer_is_named_as_not_judged(
    analyzed: Document, checked: dict[str, list[Document]]
) -> None:
    without = [path for path, subscriptions in checked.items() if not subscriptions]
    assert len(without) == 3
    named = [note for note in analyzed["notes"] if "has no consumer: nothing to judge" in note]
    assert sorted(note.partition(" has no ")[0] for note in named) == sorted(without)


def test_what_goes_on_at_the_end_has_one_verdict(
    analyzed: Document, checked: dict[str, list[Document]], folders: dict[str, str]
) -> None:
    expected: Verdicts = {
        (path, subscription["subscription"], found["code"], found["severity"])
        for path, subscriptions in checked.items()
        for subscription in subscriptions
        for found in subscription["findings"]
        if found["consumer"] and _permits(found) <= 0 and found["severity"] != "info"
    }
    said: dict[str, Verdicts] = {"end_of_trace": set(), "close": set()}
    for row in analyzed["stalls"]:
        if row["code"] and row["ended_by"] in said:
            found = folders[row["trace_id"]], row["subscription"], row["code"], row["severity"]
            said[row["ended_by"]].add(found)
    assert said["end_of_trace"] | (said["close"] & expected) == expected
    assert {Path(path).name for path, *_ in said["close"] & expected} == {"closed"}
    assert {code for _, _, code, _ in said["end_of_trace"]} >= {
        "permits-exhausted", "slow-but-progressing", "permit-leak",
    }  # fmt: skip


def test_where_nothing_is_judged_the_exit_code_is_3(
    spark: SparkSession, paths: Sequence[Path]
) -> None:
    (path,) = (path for path in paths if path.name == "producer")
    code, document = _document("analyze", path)
    assert (code, document["status"], document["verdicts"]) == (3, "unknown", [])
    assert _document("stall-check", "--trace", path)[0] == 3


def test_a_verdict_on_commands_that_are_only_likely_is_unknown(tmp_path: Path) -> None:
    inner = [message(1, b"", 1), b"".join(message(1, b"", number) for number in range(2, 62))]
    judged(tmp_path / "t", faking(TO_CLIENT, inner), 50)
    (end,) = look([str(tmp_path / "t")], here=True).ends
    assert [each.diagnosis.status for each in end.verdicts] == ["unknown"]
    assert {each.diagnosis.sources for each in end.verdicts} == {("capture",)}


def test_ledgers_that_are_gone_are_worked_out_again_where_the_rows_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = sealed(tmp_path / "t", hoarded(), "hoarded", parts=2)
    (saved,) = look([str(path)], here=True).ends
    (path / state_name(2)).unlink()
    assert look([str(path)], here=True).ends == [saved]
    monkeypatch.setattr(reading, "REPLAYED_MOST", 100)
    (unknown,) = look([str(path)], here=True).ends
    assert not unknown.verdicts
    assert "its end is not judged" in (unknown.not_judged or "")


def test_it_is_asked_for_alike_where_only_spark_can_look(
    spark: SparkSession, paths: list[Path]
) -> None:
    given = [str(path) for path in paths]
    here = read_traces(spark, given)
    elsewhere = read_traces(spark, given, Looked([], given))
    assert sorted(elsewhere.at_the_end, key=repr) == sorted(here.at_the_end, key=repr)
    assert sorted(elsewhere.verdicts, key=repr) == sorted(here.verdicts, key=repr)
    assert here.at_the_end
    assert here.verdicts
