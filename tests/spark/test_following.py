"""What follows a growing trace counts each row once, whatever happens to it on the way."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pulsar_doctor.cli import run
from pulsar_doctor.errors import InputError
from pulsar_doctor.spark.analysis import EPOCH, Analysis
from pulsar_doctor.spark.checkpoint import Terms, checkpoint_of, taken
from pulsar_doctor.spark.following import follow
from pulsar_doctor.trace.reading import Trace
from tests.spark import made_traces, twin
from tests.trace.journals import slow_consumer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Values = dict[str, Any]

BUCKET_US = 1_000_000
NEVER_LATE = 1e6  # seconds
WAIT_SECONDS = 240

pytestmark = pytest.mark.timeout(300)  # a busy machine
# The same rows in two folders, or rows missing between them: other tests.
TWICE = ("copied", "kept", "kept_before", "kept_of_gone")
NOT_KEPT = ("flow_p50", "flow_p99")


def followed(
    spark: SparkSession,
    paths: Sequence[Path],
    checkpoint: Path,
    until: Callable[[Analysis], bool],
    *,
    late_seconds: float = NEVER_LATE,
) -> Analysis:
    """Follows until things stand like this."""
    seen: list[Analysis] = []
    patience = time.monotonic() + WAIT_SECONDS

    def stop() -> bool:
        assert time.monotonic() < patience, seen[-1:]
        return bool(seen) and until(seen[-1])

    return follow(
        spark,
        [str(path) for path in paths],
        bucket_us=BUCKET_US,
        checkpoint=str(checkpoint),
        every_seconds=0.5,
        late_seconds=late_seconds,
        on_update=seen.append,
        stop=stop,
    )


def is_like(rows: list[Values]) -> Callable[[Analysis], bool]:
    """Both queries have read so much, or more."""
    steps = expected_timeline(rows)
    delivered = sum(step[0] for step in steps.values())
    return lambda analysis: (
        analysis.events >= len(rows)
        and sum(step[0] for step in timeline(analysis).values()) >= delivered
        and len(analysis.timeline or ()) >= len(steps)
    )


def us(moment: Any) -> int:
    return round((moment - EPOCH).total_seconds() * 1e6)


def rows_of(paths: Sequence[Path]) -> list[Values]:
    return twin.of_traces(paths)


def consumers(analysis: Analysis) -> dict[tuple[str, int], Values]:
    assert analysis.consumers is not None
    times = ("first_seen", "last_seen")
    return {
        (row["trace_id"], row["incarnation"]): {
            name: us(value) if name in times else value
            for name, value in row.items()
            if name not in (*NOT_KEPT, "starved_since")
        }
        for row in analysis.consumers
    }


def expected_consumers(rows: list[Values]) -> dict[tuple[str, int], Values]:
    return {
        (row["trace_id"], row["incarnation"]): {
            name: value for name, value in row.items() if name not in NOT_KEPT
        }
        for row in twin.consumers(rows)
    }


def differences(said: Mapping[Any, Values], expected: Mapping[Any, Values]) -> dict[Any, Any]:
    """By consumer and column: what was said and what was expected."""
    assert said.keys() == expected.keys()
    return {
        (*key, name): (said[key][name], value)
        for key, values in expected.items()
        for name, value in values.items()
        if said[key][name] != value
    }


def timeline(analysis: Analysis) -> dict[int, tuple[Any, ...]]:
    names = ("delivered", "acknowledged", "flows", "lowest_available")
    return {us(row["start"]): tuple(row[name] for name in names) for row in analysis.timeline or ()}


def expected_timeline(rows: list[Values]) -> dict[int, tuple[Any, ...]]:
    steps: dict[int, list[Values]] = {}
    for row in rows:
        steps.setdefault(row["ts"] // BUCKET_US * BUCKET_US, []).append(row)
    return {
        start: (
            sum(row["permits"] for row in inside if row["command"] == "MESSAGE"),
            twin.acknowledged_by([row for row in inside if row["command"] == "ACK"]),
            sum(row["command"] == "FLOW" and twin.granted(row) for row in inside),
            min(twin.known(row["available_permits"] for row in inside), default=None),
        )
        for start, inside in steps.items()
    }


def segments(path: Path) -> list[Path]:
    return sorted(path.glob("seg-*.parquet"))


class Growing:
    """A trace that is sealed elsewhere, whose segments appear here one by one."""

    def __init__(self, whole: Path, path: Path) -> None:
        self.path = path
        self.left = segments(whole)
        path.mkdir(parents=True)
        for name in ("_meta.json", "_segments.jsonl"):
            shutil.copy(whole / name, path / name)

    def grow(self, count: int = 1) -> None:
        self.grow_all([segment.name for segment in self.left[:count]])

    def grow_all(self, names: Sequence[str]) -> None:
        for segment in [segment for segment in self.left if segment.name in names]:
            copy = self.path / f".{segment.name}.tmp"
            shutil.copy(segment, copy)
            copy.rename(self.path / segment.name)
            self.left.remove(segment)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("made")
    makers = [maker for maker in made_traces.MAKERS if maker.__name__ not in TWICE]
    return [path for maker in makers for path in maker(folder / maker.__name__)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of many segments."""
    folder = tmp_path_factory.mktemp("whole")
    said = slow_consumer(400).close()
    (path,) = made_traces.sealed(folder / "slow.ptrace", said, "slow", parts=20)
    return path


def test_running_totals_are_what_python_counts_also_after_a_start_with_nothing_new(
    spark: SparkSession, made: list[Path], tmp_path: Path
) -> None:
    place, checkpoint = tmp_path / "traces", tmp_path / "checkpoint"
    growing = [Growing(path, place / f"{at}.ptrace") for at, path in enumerate(made)]
    for trace in growing:
        trace.grow(len(trace.left) // 2 or 1)
    rows = rows_of(made)
    half = rows_of_segments(place)
    assert 0 < half < len(rows)

    def until(analysis: Analysis) -> bool:
        if analysis.events == half:
            for trace in growing:
                trace.grow(len(trace.left))
        return analysis.events == len(rows) and timeline(analysis) == expected_timeline(rows)

    last = followed(spark, [place], checkpoint, until)
    assert last.traces == len({row["trace_id"] for row in rows})
    assert differences(consumers(last), expected_consumers(rows)) == {}
    assert timeline(last) == expected_timeline(rows)
    again = followed(spark, [place], checkpoint, lambda analysis: analysis.timeline is not None)
    assert again == last
    assert last.verdict != "unknown"


def rows_of_segments(place: Path) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in place.glob("*/seg-*.parquet"))


@pytest.mark.slow
def test_what_comes_late_or_not_at_all_is_told(
    spark: SparkSession, whole: Path, tmp_path: Path
) -> None:
    """A ring deletes a segment that was read, and one that was not; what it kept is not read."""
    ring = Growing(whole, tmp_path / "ring.ptrace")
    names = [segment.name for segment in ring.left]
    late, gone = names[2], names[10]
    parts = {part.name: part for part in Trace(whole).parts()}
    kept = ring.path / "_kept" / "20260921T141320Z-000001.ptrace"
    Growing(whole, kept).grow(2)
    ring.grow_all([name for name in names[:10] if name != late])
    present = sum(parts[name].rows for name in names[:10] if name != late)
    every = sum(part.rows for part in parts.values()) - parts[gone].rows
    stages: list[Analysis] = []
    rows = rows_of([whole])

    def without(*missing: str) -> list[Values]:
        spans = [(parts[name].first_seq or 0, parts[name].last_seq or 0) for name in missing]
        return [row for row in rows if not any(a <= row["seq"] <= b for a, b in spans)]

    before = expected_timeline(without(late, *names[10:]))
    after = expected_timeline(without(late, gone))

    def until(analysis: Analysis) -> bool:
        if not stages and analysis.events == present and timeline(analysis) == before:
            stages.append(analysis)
            (ring.path / names[0]).unlink()
            ring.grow_all([late, *names[11:]])
        told = any("came later" in note for note in analysis.notes)
        return analysis.events == every and told and timeline(analysis).keys() >= after.keys()

    last = followed(spark, [ring.path], tmp_path / "checkpoint", until, late_seconds=5)
    (stalled,) = stages[0].stalls or ()
    assert (stalled["severity"], stalled["code"]) == (None, None)
    assert [note.partition(" rows")[0] for note in stages[0].notes] == [str(parts[late].rows)]
    came_late, missing = last.notes
    assert missing.startswith(f"{parts[gone].rows} rows between others were not there to be read")
    assert "rows or more came later than 5 s" in came_late
    (consumer,) = last.consumers or ()
    messages = [row["permits"] for row in without(gone) if row["command"] == "MESSAGE"]
    assert consumer["messages"] == sum(messages)
    assert timeline(last) == after


FOLLOW = """
import sys
from pathlib import Path
from pulsar_doctor.spark.following import follow
from pulsar_doctor.spark.session import Where, session

trace, checkpoint = sys.argv[1:]
with session(Where(master="local[1]", conf={"spark.driver.memory": "512m"})) as spark:
    follow(spark, [trace], bucket_us=1_000_000, checkpoint=checkpoint, every_seconds=0.1,
           late_seconds=1e6, stop=lambda: False,
           on_update=lambda analysis: print(analysis.events, flush=True))
"""


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12)]
)
@pytest.mark.timeout(600)
def test_a_follower_that_is_killed_goes_on_as_if_nothing_had_been(
    spark: SparkSession, whole: Path, tmp_path: Path, seed: int
) -> None:
    """One is killed, from the second seed on three in a row; the last one goes on to the end."""
    chance = random.Random(seed)
    trace = Growing(whole, tmp_path / "t.ptrace")
    checkpoint = tmp_path / "checkpoint"
    trace.grow(2)
    for _ in range(1 if seed == 1 else 3):
        with following(trace.path, checkpoint) as process:
            assert process.stdout is not None
            process.stdout.readline()  # it has read something
            patience = time.monotonic() + chance.uniform(0, 4)
            while time.monotonic() < patience:
                trace.grow()
                time.sleep(chance.uniform(0, 0.5))
    trace.grow(len(trace.left))
    rows = rows_of([whole])
    last = followed(spark, [trace.path], checkpoint, is_like(rows))
    assert last.events == len(rows)
    assert last.notes == []
    assert consumers(last) == expected_consumers(rows)
    assert timeline(last) == expected_timeline(rows)


@contextmanager
def following(trace: Path, checkpoint: Path) -> Iterator[subprocess.Popen[str]]:
    """A follower of its own, with its Java, and their end at any moment."""
    command = [sys.executable, "-c", FOLLOW, str(trace), str(checkpoint)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def never(analysis: Analysis) -> bool:
    raise AssertionError(f"it should not have begun: {analysis}")


def test_it_waits_for_a_folder_and_says_so(
    spark: SparkSession, whole: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "later.ptrace"
    waiting = followed(spark, [trace], tmp_path / "checkpoint", lambda analysis: True)
    assert waiting.events == 0
    assert waiting.notes == [f"waits for {trace}, which is not there yet"]
    assert waiting.verdict == "unknown"


def test_ended_before_anything_was_read_it_is_unknown(
    spark: SparkSession,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By a SIGTERM that comes as soon as it listens; one last document says so."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    real = signal.signal

    def ended_at_once(number: Any, handler: Any) -> Any:
        before = real(number, handler)
        if number == signal.SIGTERM and callable(handler) and not seen:
            seen.append(number)
            os.kill(os.getpid(), signal.SIGTERM)
        return before

    seen: list[Any] = []
    monkeypatch.setattr(signal, "signal", ended_at_once)
    code = run(["analyze", "--follow", str(whole), "-o", "json", "-q"])
    (line,) = capsys.readouterr().out.splitlines()
    assert code == 3
    assert json.loads(line)["events"] == 0
    assert json.loads(line)["notes"] == ["nothing has been read yet, so nothing is known"]


def test_a_checkpoint_serves_what_it_was_begun_for(
    spark: SparkSession, whole: Path, tmp_path: Path
) -> None:
    place = tmp_path / "checkpoint"
    trace = tmp_path / "t.ptrace"
    trace.mkdir()
    made_meta = shutil.copy(whole / "_meta.json", trace)

    def begin(
        path: Path = trace, *, bucket_us: int = 1_000_000, late_seconds: float = 1.0
    ) -> str | None:
        terms = Terms.of([str(path)], bucket_us=bucket_us, late_seconds=late_seconds)
        try:
            with taken(spark, str(place), terms):
                return None
        except InputError as error:
            return str(error)

    assert begin() is None
    assert begin() is None
    before = sorted(path.name for path in place.rglob("*"))
    told = {
        "another path": (begin(tmp_path / "other"), "was begun with the traces"),
        "bucket": (begin(bucket_us=5), "was begun with steps of 1 s, not steps of 5e-06 s"),
        "late": (begin(late_seconds=2), "with rows that may be 1 s late, not rows that may be 2 s"),
    }
    Path(made_meta).write_text(Path(made_meta).read_text().replace('"slow"', '"another"'))
    told["trace"] = begin(), "is of another trace that was"
    for what, (said, expected) in told.items():
        assert said is not None, what
        assert expected in said, what
        assert "--checkpoint" in said, what
    assert sorted(path.name for path in place.rglob("*")) == before
    shutil.copy(whole / "_meta.json", trace)
    assert begin() is None
    with taken(spark, str(place), Terms.of([str(trace)], bucket_us=1_000_000, late_seconds=1.0)):
        assert "another process follows with the checkpoint" in (begin() or "")
    (place / "terms" / "_SUCCESS").unlink()
    for line in (place / "terms").glob("part-*"):
        line.write_text("{")
    assert "is damaged" in (begin() or "")


def test_a_checkpoint_is_a_folder_of_its_own(
    spark: SparkSession, whole: Path, tmp_path: Path
) -> None:
    terms = Terms.of([str(whole)], bucket_us=1, late_seconds=1.0)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to-mum.txt").touch()
    for place, why in ((whole / "c", "would lie within"), (tmp_path / "letters", "not empty")):
        with pytest.raises(InputError, match=why), taken(spark, str(place), terms):
            pass
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["to-mum.txt"]
    assert not (whole / "c").exists()


def test_each_set_of_terms_has_a_checkpoint_of_its_own() -> None:
    def place(path: str = "a.ptrace", bucket_us: int = 1, late_seconds: float = 1.0) -> str:
        environ = {"XDG_STATE_HOME": "/state"}
        return checkpoint_of(
            [path], bucket_us=bucket_us, late_seconds=late_seconds, environ=environ
        )

    every = [place(), place("s3a://b/*"), place(bucket_us=2), place(late_seconds=2)]
    assert len(set(every)) == 4
    assert place(str(Path.cwd() / "a.ptrace")) == place()
    assert {str(Path(each).parent) for each in every} == {"/state/pulsar-doctor/follow"}


@pytest.mark.parametrize(
    "where",
    [
        *(
            pytest.param(where, marks=pytest.mark.slow)
            for where in (
                "totals/state",
                "totals/offsets",
                "totals/commits",
                "totals/sources",
                "steps/state",
            )
        ),
    ],
)
def test_a_damaged_checkpoint_is_told_and_stays(
    spark: SparkSession, whole: Path, tmp_path: Path, where: str
) -> None:
    trace = Growing(whole, tmp_path / "t.ptrace")
    trace.grow(2)
    place = tmp_path / "checkpoint"
    followed(spark, [trace.path], place, lambda analysis: analysis.events > 0)
    for file in (place / where).rglob("*"):
        if file.is_file():
            file.write_bytes(b"v1")
    names = {str(path) for path in place.rglob("*")}
    with pytest.raises(InputError, match=r"the checkpoint .* cannot be gone on from") as told:
        followed(spark, [trace.path], place, never)
    assert "\n" not in str(told.value)
    assert names <= {str(path) for path in place.rglob("*")}
