"""`pulsar-doctor analyze` as a user runs it; on the Spark of the test run unless a test says so."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from pulsar_doctor.cli import run
from pulsar_doctor.diagnosis.answers import SilentHolder
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.weighing import diagnose_wire
from pulsar_doctor.errors import TraceError
from pulsar_doctor.parts.analyze.reading import Looked, look, read_traces
from pulsar_doctor.parts.analyze.running import aggregated
from pulsar_doctor.trace.folder import META, segment_name
from pulsar_doctor.trace.sealing import open_trace
from tests.made.traces import write_trace
from tests.made.wire import TOPIC, Wire, slow_consumer
from tests.parts.analyze import made_traces
from tests.parts.analyze.made_traces import sealed
from tests.support.command_line import environment, pulsar_doctor
from tests.trace import test_any_bytes as any_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.timeout(300)]

Analyze = Callable[..., tuple[int, str, str]]


@pytest.fixture
def analyze(capsys: pytest.CaptureFixture[str]) -> Analyze:
    """Runs it with these arguments: exit code, stdout, stderr."""

    def analyze(*arguments: object) -> tuple[int, str, str]:
        code = run(["analyze", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return analyze


def document(out: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out)
    assert found["schema"] == "pulsar-doctor/analyze/2"
    return found


def states() -> Wire:
    """Consumers that stand in many ways when the trace ends, each on a subscription of its own."""
    said = Wire().open().open(1)
    for consumer_id, name in enumerate(STATES, 1):
        said.attached(consumer_id, name, subscription=name)
    said.flow(10, 1).pushed(range(10), 1)  # silent
    said.flow(10, 2).pushed(range(10), 2)  # slow, works
    said.flow(1, 3).pushed([1], 3)  # one in hand: 0 or 1
    said.flow(100, 4).pushed([1], 4)  # has permits
    said.flow(4, 5).pushed([1], 5, batch=10).acked([1], 5)  # below zero, nothing held
    said.wait(270)
    said.flow(10, 6).pushed(range(10), 6)  # slow for a minute
    said.flow(10, 7).pushed(range(10), 7)  # silent for a minute
    for step in range(3):
        said.wait(20).acked([step], 2).acked([step], 6)
    return said.wait(5).produced()


NOT_ON_COLUMNS = ("ack-hole", "not-acknowledging")
STATES = ("silent", "slow", "in-hand", "fine", "below", "slower", "quiet")


# --- what it says ---


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (path,) = sealed(tmp_path_factory.mktemp("states") / "states.ptrace", states(), "states")
    for state in path.glob(".state-*"):
        state.unlink()  # so that the ledgers are worked out again, or columns judge alone
    return path


@pytest.fixture(scope="module")
def found(path: Path, spark: SparkSession) -> dict[str, Any]:
    """The document about it. Its exit code says that there is a stall."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = run(["analyze", str(path), "-o", "json", "--bucket", "1m", "--stall-floor", "0"])
    assert code == 1
    return document(out.getvalue())


def test_the_document_has_every_table(path: Path, found: dict[str, Any]) -> None:
    rows = sum(1 for _ in open_trace(path).rows())
    assert (found["events"], found["traces"], found["bucket_seconds"]) == (rows, 1, 60.0)
    consumers, stalls = found["consumers"], found["stalls"]
    assert {consumer["consumer_name"] for consumer in consumers} == set(STATES)
    (silent,) = (each for each in consumers if each["consumer_name"] == "silent")
    said = ("trace_id", "topic", "receiver_queue_size", "messages", "permits_granted")
    assert [silent[name] for name in said] == ["states", TOPIC, 10, 10, 10]
    own = [stall for stall in stalls if stall["consumer_name"] == "silent"]
    assert silent["starved_us"] == sum(stall["duration_us"] for stall in own)
    for name, of_steps in (("messages", "delivered"), ("flow_count", "flows")):
        in_all = sum(consumer[name] for consumer in consumers)
        assert in_all == sum(step[of_steps] for step in found["timeline"])
    assert {gap["measure"] for gap in found["gaps"]} == {"delivery_to_ack", "without_permits"}
    assert sum(row["entries"] for row in found["holes"]) == sum(c["entries"] for c in consumers)
    assert {row["subscription"] for row in found["subscriptions"]} == set(STATES)
    assert found["percentile_error"] == 0.0
    assert found["totals"]["stalls"] == len(stalls)


def test_columns_judge_an_episode_as_the_rules_judge_its_consumer(
    path: Path, spark: SparkSession
) -> None:
    """Of those that last to the end, which is the moment that the rules judge.

    Where only Spark can look and no ledgers lie beside the trace, nothing else judges.
    """
    source = read_traces(spark, [str(path)], Looked([], [str(path)]))
    assert (source.verdicts, source.at_the_end) == ([], [])
    assert any("its end is not judged" in note for note in source.notes)
    with aggregated(source, 60_000_000) as tables:
        stalls = [row.asDict() for row in tables.stalls.collect()]
    rules = load()
    verdicts = {}
    for diagnosis in diagnose_wire(
        open_trace(path).timeline().subscriptions(), rules, limits_of(rules)
    ):
        # What nobody acknowledges, and what that leaves behind, is not on columns.
        findings = [found for found in diagnosis.findings if found.code not in NOT_ON_COLUMNS]
        if findings:
            worst = findings[0]
            verdicts[diagnosis.subscription] = (worst.code, worst.severity)
        elif diagnosis.subscription not in ("fine", "in-hand") and any(
            isinstance(each, SilentHolder) for each in diagnosis.unknown
        ):
            # A silence that may end leaves the status open; on columns it is a warning.
            verdicts[diagnosis.subscription] = ("permits-exhausted", "warning")
    said = {
        stall["subscription"]: (stall["code"], stall["severity"])
        for stall in stalls
        if stall["ended_by"] == "end_of_trace" and stall["code"]
    }
    assert said["silent"] == ("permits-exhausted", "stalled")
    assert said["slower"] == ("slow-but-progressing", "warning")
    assert said["quiet"] == ("permits-exhausted", "warning")
    assert said.keys() == verdicts.keys() == set(STATES) - {"fine", "in-hand"}
    # Seen as a whole it was a stall; now that it works again the rules speak of its pace.
    assert (said.pop("slow")[1], verdicts.pop("slow")[1]) == ("stalled", "warning")
    # That permits were lost shows in what its client does with them, which is not on columns.
    assert (said.pop("below")[0], verdicts.pop("below")[0]) == ("negative-permits", "permit-leak")
    assert said == verdicts


@pytest.mark.slow
def test_the_report_is_for_a_person(path: Path, analyze: Analyze) -> None:
    code, out, err = analyze(path, "--fail-on", "never", "-q")
    assert (code, err) == (3, "")  # some of these states are unknown
    assert "STALLED" in out
    assert "permits-exhausted" in out
    assert all(name in out for name in STATES)


# --- where traces are ---


def events(spark: SparkSession, *paths: object) -> tuple[int, int, list[str]]:
    """Rows and traces there, and what is told; the rows as Spark counts them."""
    source = read_traces(spark, [*map(str, paths)])
    assert source.rows.count() == source.events
    return source.events, source.traces, source.notes


def test_folders_patterns_and_copies_are_traces_and_each_counts_once(
    tmp_path: Path, spark: SparkSession
) -> None:
    odd = tmp_path / "odd [x] {y} é%20"
    made_traces.slow(odd / "slow.ptrace")
    once, traces, notes = events(spark, odd / "slow.ptrace")
    assert (traces, notes) == (1, [])
    shutil.copytree(odd, tmp_path / "plain")
    shutil.copytree(odd / "slow.ptrace", odd / "again.ptrace")
    every = ((odd,), (f"file:{quote(str(odd))}",), (odd / "slow.ptrace", tmp_path / "plain" / "*"))
    for paths in every:
        assert events(spark, *paths)[:2] == (once, 1)
    assert "counted once" in events(spark, odd)[2][0]


def test_what_a_killed_relay_left_is_sealed_and_counted(
    tmp_path: Path, spark: SparkSession
) -> None:
    path = tmp_path / "torn.ptrace"
    write_trace(path, slow_consumer().blocks, parts=2, trace_id="torn")
    last = sorted(path.glob(".journal-*"))[-1]
    last.write_bytes(last.read_bytes()[:-3])
    whole = len(list(open_trace(path).rows()))
    assert events(spark, path)[0] == whole > 10


@pytest.mark.slow
def test_what_is_saved_twice_is_there_once(
    tmp_path: Path, analyze: Analyze, spark: SparkSession
) -> None:
    made_traces.slow(tmp_path / "slow.ptrace")
    for _ in range(2):
        code, out, _ = analyze(
            tmp_path / "slow.ptrace",
            "--save",
            tmp_path / "saved",
            "-o",
            "json",
            "--stall-floor",
            "1ms",
        )
        assert code == 0
    found = document(out)
    for table in ("consumers", "gaps", "stalls", "subscriptions", "holes"):
        saved = spark.read.parquet(str(tmp_path / "saved" / table))
        assert saved.count() == found["totals"][table] > 0, table
        assert {"date", "topic", "trace_id"} <= set(saved.columns)


# --- what is asked ---


def test_the_tables_can_be_asked(path: Path, analyze: Analyze, found: dict[str, Any]) -> None:
    query = """
        SELECT consumer_name, duration_us, end, array(code) AS codes FROM stalls
        WHERE code IS NOT NULL ORDER BY duration_us DESC, consumer_name -- the longest first
    """
    options = ("--bucket", "1m", "--stall-floor", "0", "--sql")
    code, out, _ = analyze(path, *options, query, "-o", "json")
    asked = json.loads(out)
    stalls = [stall for stall in found["stalls"] if stall["code"]]
    expected = [
        {
            "consumer_name": stall["consumer_name"],
            "duration_us": stall["duration_us"],
            "end": stall["end"],
            "codes": [stall["code"]],
        }
        for stall in sorted(
            stalls, key=lambda stall: (-stall["duration_us"], stall["consumer_name"])
        )
    ]
    assert (code, asked["schema"], asked["more"]) == (0, "pulsar-doctor/analyze-sql/1", False)
    assert asked["rows"] == expected
    assert [column["type"] for column in asked["columns"]] == [
        "string",
        "bigint",
        "timestamp",
        "array<string>",
    ]
    _, out, _ = analyze(path, *options, query, "-o", "jsonl")
    assert [json.loads(line) for line in out.splitlines()] == expected
    _, out, _ = analyze(path, *options, "WITH a AS (SELECT 1 AS one) SELECT * FROM a;")
    assert [line.split() for line in out.splitlines() if line.strip()][::2] == [["one"], ["1"]]


def test_a_query_with_a_mistake_is_told_in_one_sentence(path: Path, analyze: Analyze) -> None:
    code, out, err = analyze(path, "-q", "--sql", "SELECT * FROM stall")
    assert (code, out) == (2, "")
    assert "the tables are consumers, gaps, stalls" in err
    assert len(err.splitlines()) == 1


# --- what cannot be done ---


def foreign(path: Path) -> None:
    path.mkdir()
    (path / "something.parquet").write_bytes(b"PAR1")


def newer(path: Path) -> None:
    made_traces.slow(path)
    meta = json.loads((path / META).read_text())
    (path / META).write_text(json.dumps({**meta, "schema_version": 99}))


def flipped(path: Path) -> None:
    made_traces.slow(path)
    segment = path / segment_name(1)
    data = bytearray(segment.read_bytes())
    data[200] ^= 1
    segment.write_bytes(data)


def cut(path: Path) -> None:
    made_traces.slow(path)
    segment = path / segment_name(2)
    segment.write_bytes(segment.read_bytes()[:-100])


def missing(path: Path) -> None:
    made_traces.slow(path)
    (path / segment_name(1)).unlink()


def silent(path: Path) -> None:
    sealed(path, Wire(), "none")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "there is no folder"),
        (foreign, "is not a trace of pulsar-doctor"),
        (newer, "use a newer pulsar-doctor"),
        (flipped, "is damaged"),
        (cut, "is damaged"),
        (missing, "is missing"),
        (silent, "no command was recorded there yet"),
    ],
)
def test_what_is_no_trace_or_damaged_is_one_sentence(
    tmp_path: Path, analyze: Analyze, make: Callable[[Path], None], says: str
) -> None:
    make(tmp_path / "t.ptrace")
    code, out, err = analyze(tmp_path / "t.ptrace")
    assert (code, out) == (2, "")
    *phases, sentence = err.splitlines()
    assert says in sentence
    assert phases[0] == "looking at the traces …"
    # Of rows that are damaged only whoever reads them all knows; all else is told before Spark.
    assert len(phases) == 1 or make is flipped
    assert "Traceback" not in err
    assert "at org." not in err


def test_one_bad_trace_does_not_stop_the_others(tmp_path: Path, analyze: Analyze) -> None:
    young = Wire().open().attached(1, "young").flow(10).pushed(range(3)).wait(70)
    sealed(tmp_path / "good.ptrace", young, "good")
    missing(tmp_path / "bad.ptrace")
    code, out, err = analyze(tmp_path / "*.ptrace", "-o", "json")
    (left_out,) = document(out)["left_out"]
    assert code == 3  # the verdict on the good one is unknown: 3, not 4
    assert left_out["trace"] == str(tmp_path / "bad.ptrace")
    assert f"{segment_name(1)} is missing" in left_out["why"]
    assert f"left out: {left_out['why']}" in err
    assert document(out)["traces"] == 1
    assert analyze(tmp_path / "*.ptrace", "-q", "--accept-unknown", "all")[0] == 4
    code, _, err = analyze(tmp_path / "good.ptrace", "--accept-unknown", "all")
    assert code == 0
    assert "1 verdict unknown: accepted (--accept-unknown all)" in err
    code, out, err = analyze(tmp_path / "*.ptrace", "--strict", "-q")
    assert (code, out) == (2, "")
    assert f"{segment_name(1)} is missing" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--conf", "spark.x"), "write it as KEY=VALUE"),
        (("--bucket", "1us"), "is not a duration"),
        (("--format", "delta"), "--format needs --save"),
        (("-o", "jsonl"), "-o jsonl is for --sql; an analysis"),
        (("--master", "local", "--remote", "sc://localhost"), "give one of them"),
    ],
)
def test_wrong_usage_is_one_sentence(
    tmp_path: Path, analyze: Analyze, arguments: tuple[str, ...], says: str
) -> None:
    made_traces.slow(tmp_path / "t.ptrace")
    code, out, err = analyze(tmp_path / "t.ptrace", *arguments)
    assert (code, out) == (2, "")
    assert says in err


def test_a_pattern_that_fits_nothing_is_said(tmp_path: Path, analyze: Analyze) -> None:
    code, _, err = analyze(tmp_path / "*.ptrace")
    assert (code, err.count("\n")) == (2, 2)
    assert "no trace fits" in err


def test_folders_are_looked_at_before_there_is_a_java(tmp_path: Path) -> None:
    java, ran = tmp_path / "jdk" / "bin" / "java", tmp_path / "ran"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
    java.chmod(0o755)
    for path, says in ((tmp_path / "jdk", "has no _meta.json"), (tmp_path / "x*", "no trace fits")):
        found = subprocess.run(
            [sys.executable, "-m", "pulsar_doctor", "analyze", str(path)],
            env={**environment(), "JAVA_HOME": str(tmp_path / "jdk")},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (found.returncode, found.stdout) == (2, "")
        assert found.stderr.startswith("looking at the traces …\npulsar-doctor: ")
        assert says in found.stderr
    assert not ran.exists()


def test_what_only_spark_can_read_is_left_to_it(tmp_path: Path) -> None:
    made_traces.slow(tmp_path / "t.ptrace")
    there, nowhere, bucket = str(tmp_path / "t.ptrace"), str(tmp_path / "no"), "s3a://traces/"
    for here, paths, elsewhere in (
        (True, [there, bucket], [bucket]),
        (False, [there, nowhere, bucket], [nowhere, bucket]),
        (None, [there, f"file:{there}"], [there, f"file:{there}"]),
    ):
        looked = look(paths, here=here)
        assert looked.elsewhere == elsewhere
        assert bool(looked.segments) == (there not in elsewhere)
    for here, path in ((True, nowhere), (False, f"file:{nowhere}")):
        with pytest.raises(TraceError, match="there is no folder"):
            look([path], here=here)


@pytest.mark.slow
def test_a_process_of_its_own_leaves_nothing_but_the_document(tmp_path: Path) -> None:
    made_traces.slow(tmp_path / "t.ptrace")
    found = pulsar_doctor("analyze", str(tmp_path / "t.ptrace"), "-o", "json", timeout=110)
    assert found.returncode == 0
    assert document(found.stdout)["events"] > 0
    assert found.stderr.splitlines()[:3] == [
        "looking at the traces …", "starting Spark …", "reading the traces …",
    ]  # fmt: skip
    assert all(line.endswith(" …") for line in found.stderr.splitlines())


def test_names_that_are_no_text_are_told_as_the_other_readers_tell_them(
    analyze: Analyze, tmp_path: Path
) -> None:
    blocks = any_bytes.sent(topic=any_bytes.STRANGE, name=any_bytes.STRANGE)
    path = open_trace(write_trace(tmp_path / "t.ptrace", blocks)).path
    code, out, err = analyze(path, "-o", "json")
    assert code == 0, err
    assert json.dumps(any_bytes.MARKED)[1:-1] in out or any_bytes.MARKED in out
