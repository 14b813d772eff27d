"""`analyze` and `stall-check --trace` say the same of every subscription where its trace ends."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pulsar_doctor.checkup.recorded import read_trace
from pulsar_doctor.cli import run
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.weighing import diagnose_wire
from pulsar_doctor.parts.analyze import reading
from pulsar_doctor.parts.analyze.reading import Looked, look, read_traces
from pulsar_doctor.parts.analyze.selection import Selection
from pulsar_doctor.parts.analyze.verdicts import restored
from pulsar_doctor.parts.capture.connections import TO_BROKER, TO_CLIENT
from pulsar_doctor.trace.folder import read_state, state_name
from pulsar_doctor.trace.reading import Trace
from tests.made.wire import Wire
from tests.parts.analyze import made_traces
from tests.parts.analyze.made_traces import sealed
from tests.parts.analyze.test_analyze import states
from tests.parts.capture.packing import Talk
from tests.parts.capture.talks import BEGINNING, PING, send
from tests.parts.capture.talks import checked as with_checksum
from tests.parts.capture.test_adversary import faking, judged
from tests.parts.capture.test_likely import busy, taken_back, traced
from tests.parts.capture.test_taken_back import SECOND, captured
from tests.parts.tap.tapped import command_frame, flow, message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # a busy machine
# The same trace_id twice: the newer one counts, and the other one ends earlier.
TWICE = ("copied", "kept", "kept_before", "kept_of_gone")
Verdicts = set[tuple[str, str, str, str]]
Document = dict[str, Any]


def hoarded() -> Wire:
    """A consumer works slowly on all messages beside one that has none."""
    said = Wire().open().open(1).attached(1, "worker-slow").flow(1000).pushed(range(897))
    said.attached(2, "worker-idle", conn_id=1).flow(1000, 2, conn_id=1)
    for entry in range(8):
        said.wait(5).acked([entry])
    return said


def closed_while_slow() -> Wire:
    """A consumer without permits that works, and is closed before it asks again."""
    said = Wire().open().attached(1, "closer").flow(100).pushed(range(100))
    for entry in range(12):
        said.wait(2).acked([entry])
    return said.closed(1).close()


def recovered() -> Wire:
    """It stands still for longer than a stall needs, and works well again in the end."""
    said = Wire().open().attached(1, "back").flow(10).pushed(range(10)).wait(400)
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


def confirmed(folder: Path) -> None:
    """All of its commands are likely, and two samples of the broker agree with them."""
    packets, _ = busy(10)
    begins, ends = packets[0].time_ns, packets[-1].time_ns
    samples = [(begins + 2 * SECOND, [("a", 0, 10)]), (ends, [("a", 0, 50)])]
    captured(folder, packets, samples)


def closed_by_a_payload(folder: Path) -> None:
    """A payload whose head was lost holds the CLOSE_CONSUMER of one with ten messages, and the
    broker answers something else with that number; then the payload ends otherwise."""
    talk, gap, more = Talk().open(), 0.4, [flow(1)] * 8
    for way, each, _ in [*BEGINNING, (TO_BROKER, flow(10), 0)]:
        talk.say(way, each)
    for entry in range(10):
        talk.say(TO_CLIENT, with_checksum(message(1, b"x", entry)))
    lost = len(talk.packets)
    talk.say(TO_BROKER, send(bytes(100))[:-1])
    begins = len(talk.packets)
    close = command_frame(16, "close_consumer", consumer_id=1, request_id=77)
    for each in (*[PING] * 5, close, *[PING] * 5):
        talk.say(TO_BROKER, each).wait(gap)
    talk.say(TO_CLIENT, command_frame(13, "success", request_id=77)).wait(gap)
    for each in (b"the end of the payload", *more):
        talk.say(TO_BROKER, each).wait(gap)
    traced(folder, [*talk.packets[:lost], *talk.packets[begins:]])


@pytest.mark.parametrize("proven_only", [False, True])
@pytest.mark.parametrize("make", [confirmed, closed_by_a_payload, taken_back])
def test_a_capture_is_judged_by_the_commands_that_count(
    tmp_path: Path, make: Callable[[Path], object], proven_only: bool
) -> None:
    make(tmp_path / "t")
    selection = Selection(proven_only=proven_only)
    (end,) = look([str(tmp_path / "t")], here=True, selection=selection).ends
    read = read_trace(tmp_path / "t", say=print, say_more=print, proven_only=proven_only)
    causes = load()
    expected = diagnose_wire(read.wires, causes, limits_of(causes), "capture")
    assert [each.diagnosis for each in end.verdicts] == list(expected)
    assert {each.status for each in expected} <= {"unknown"}


@pytest.mark.parametrize("make", [confirmed, closed_by_a_payload])
def test_ledgers_that_include_what_does_not_count_are_not_used_elsewhere(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "t")
    trace = Trace(tmp_path / "t")
    state = read_state(tmp_path / "t", trace.opened.through)
    used = [
        restored(trace.meta, state, trace.opened, proven_only=proven_only) is not None
        for proven_only in (False, True)
    ]
    assert used == [make is confirmed, False]


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
