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
from pulsar_doctor.spark import followed as followed_module
from pulsar_doctor.spark import following, kept
from pulsar_doctor.spark.analysis import EPOCH, Analysis
from pulsar_doctor.spark.checkpoint import Terms, checkpoint_of, taken
from pulsar_doctor.spark.following import follow
from pulsar_doctor.trace.folder import journal_name, number_of
from pulsar_doctor.trace.index import Index, Part, read_index, write_index
from pulsar_doctor.trace.reading import Trace
from tests.spark import made_traces, twin
from tests.trace.journals import slow_consumer
from tests.trace.said import Said

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
        shutil.copy(whole / "_meta.json", path)
        self.lines = (whole / "_segments.jsonl").read_bytes().splitlines(keepends=True)

    def grow(self, count: int = 1) -> None:
        self.grow_all([segment.name for segment in self.left[:count]])

    def grow_all(self, names: Sequence[str]) -> None:
        for segment in [segment for segment in self.left if segment.name in names]:
            shutil.copy(segment, self.path / f".{segment.name}.tmp")
            journal = self.path / journal_name(number_of(segment))
            journal.touch()  # as long as a segment is not in the list
            (self.path / f".{segment.name}.tmp").rename(self.path / segment.name)
            with (self.path / "_segments.jsonl").open("ab") as index:
                index.writelines(line for line in self.lines if segment.name.encode() in line)
            journal.unlink()
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


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another one, of the same time."""
    folder = tmp_path_factory.mktemp("other")
    said = slow_consumer(400).close()
    (path,) = made_traces.sealed(folder / "other.ptrace", said, "other", parts=20)
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


def test_what_comes_late_or_not_at_all_is_told(
    spark: SparkSession, whole: Path, other: Path, tmp_path: Path
) -> None:
    """A ring drops what was not read, and another trace comes when its steps are over."""
    place = tmp_path / "traces"
    ring, late = Growing(whole, place / "ring.ptrace"), Growing(other, place / "late.ptrace")
    parts = {part.name: part for part in Trace(whole).parts()}
    gone = parts[ring.left[10].name]
    missing = range(gone.first_seq or 0, (gone.last_seq or 0) + 1)
    ring.grow(10)
    told = [row for row in rows_of([whole]) if row["seq"] not in missing]
    came_late = rows_of([other])
    before = timeline_of_all(told, [], 5)
    stages: list[Analysis] = []

    def until(analysis: Analysis) -> bool:
        if not stages and analysis.events:
            stages.append(analysis)
            drop_all(ring.path, gone)
            del ring.left[0]
            ring.lines = [line for line in ring.lines if gone.name.encode() not in line]
            ring.grow(len(ring.left))
        elif len(stages) == 1 and analysis.events == len(told):
            stages.append(analysis)
            late.grow(len(late.left))
        return analysis.events == len(told) + len(came_late)

    last = followed(spark, [place], tmp_path / "checkpoint", until, late_seconds=5)
    (stalled,) = stages[0].stalls or ()
    assert (stalled["severity"], stalled["code"]) == (None, None)
    assert stages[0].notes == []
    dropped = [row for row in came_late if row["ts"] < before]
    assert 0 < len(dropped) < len(came_late)
    assert last.notes == [
        f"{len(dropped):,} rows came later than 5 s and are not in the timeline",
        f"{gone.rows:,} rows between others were not there to be read: dropped by a ring?",
    ]
    # One was open when the rows went missing, and its end is not known: at least so many.
    differ = differences(consumers(last), expected_consumers(told + came_late))
    assert {key[0]: key[2] in ("starvations", "starved_us") for key in differ} == {"slow": True}
    assert all(said < expected for said, expected in differ.values())
    assert not consumers(last)["slow", 1]["certain"]
    young = [row for row in came_late if row["ts"] >= before]
    assert timeline(last) == expected_timeline(told + young)


def timeline_of_all(first: list[Values], late: list[Values], late_seconds: int) -> int:
    """Where the steps begin that late rows may still reach once the first rows were read."""
    over_us = max(row["ts"] for row in first) - late_seconds * 1_000_000
    return over_us // BUCKET_US * BUCKET_US


def drop_all(trace: Path, unseen: Part) -> None:
    """As a ring does that is short of room: all that is there, and one that nobody saw."""
    index = read_index(trace)
    expired = index.expired
    for part in [*index.parts, unseen]:
        expired = expired.and_part(part)
    write_index(trace, Index(expired, []))
    for segment in segments(trace):
        segment.unlink()


def test_what_is_not_in_the_list_or_missing_is_told_and_waited_for(
    spark: SparkSession, whole: Path, other: Path, tmp_path: Path
) -> None:
    """As in a finished analysis; the other trace goes on, and so does this one when it is right."""
    place = tmp_path / "traces"
    good, bad = Growing(whole, place / "a.ptrace"), Growing(other, place / "b.ptrace")
    good.grow(3)
    bad.grow(4)
    away = bad.path / "away"
    third = segments(bad.path)[2]
    third.rename(away)
    strange = bad.path / "seg-000099.parquet"
    flipped = bytearray(away.read_bytes())
    flipped[200] ^= 1
    stages: list[Analysis] = []

    def until(analysis: Analysis) -> bool:
        if not analysis.events:
            return False
        if stages and analysis is stages[-1]:
            return len(stages) == 4
        stages.append(analysis)
        match len(stages):
            case 1:
                third.write_bytes(flipped)
            case 2:
                away.rename(third)
                shutil.copy(third, strange)
            case 3:
                strange.unlink()
        return len(stages) == 4

    followed(spark, [place], tmp_path / "checkpoint", until)
    why = [[(Path(each.trace).name, each.why) for each in stage.left_out] for stage in stages]
    missing, damaged, unlisted, right = why
    assert [name for name, _ in [*missing, *damaged, *unlisted]] == ["b.ptrace"] * 3
    assert "seg-000003.parquet is missing" in missing[0][1]
    assert "does not agree with its SHA-256" in damaged[0][1]
    assert "seg-000099.parquet is not in _segments.jsonl" in unlisted[0][1]
    assert right == []
    parts = [part.rows for part in Trace(whole).parts()]
    assert [stage.events for stage in stages] == [
        *[sum(parts[:3]) + sum(parts[:2])] * 3,
        sum(parts[:3]) + sum(parts[:4]),
    ]


def test_how_much_there_is_to_read_is_told_before_a_row_was_read(
    spark: SparkSession, whole: Path, tmp_path: Path
) -> None:
    told: list[Analysis] = []

    def stop_at_once(analysis: Analysis) -> bool:
        told.append(analysis)
        return True

    last = followed(spark, [whole], tmp_path / "checkpoint", stop_at_once)
    assert told == [last]
    assert last.events == 0
    assert last.verdict == "unknown"
    assert last.notes == [f"{len(rows_of([whole])):,} rows are there and still to be read"]


FOLLOW = """
import sys
from pathlib import Path
from pulsar_doctor.spark.following import follow
from pulsar_doctor.spark.session import Where, session

trace, checkpoint = sys.argv[1:]
with session(Where(master="local[1]", conf={"spark.driver.memory": "512m"})) as spark:
    follow(spark, [trace], bucket_us=1_000_000, checkpoint=checkpoint, every_seconds=0.1,
           late_seconds=1e6, stop=lambda: False,
           on_update=lambda analysis: analysis.events and print(analysis.events, flush=True))
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
        with another(trace.path, checkpoint) as process:
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
def another(trace: Path, checkpoint: Path) -> Iterator[subprocess.Popen[str]]:
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


GENERATIONS, EACH = 10, 200


def test_consumers_that_have_gone_leave_what_is_kept(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands come and go, in every way there is; what is kept is of those that are there."""
    monkeypatch.setattr(following, "ROWS_FIRST", 1)
    monkeypatch.setattr(following, "ROWS_MOST", 1)  # a step each segment
    monkeypatch.setattr(following, "CONSUMERS_MOST", 50)
    monkeypatch.setattr(followed_module, "CONSUMERS_MOST", 50)
    said = Said().open().attached(1, "stays").flow(1).pushed([1])
    for generation in range(GENERATIONS):
        said.open(generation + 1)
        for n in range(EACH):
            consumer_id = 2 + n
            said.attached(consumer_id, f"{generation}-{n}").flow(5, consumer_id)
            match n % 4:
                case 0:
                    said.closed(consumer_id)
                case 1:
                    said.closing(consumer_id).pushed([7], consumer_id)  # still on its way
                    said.granted(500 + consumer_id)
                case 2:
                    said.unloaded(consumer_id)
            if n % 4 == 3:
                said.attached(consumer_id, f"{generation}-{n}", conn_id=generation + 1)
        said.close(generation + 1)
    (path,) = made_traces.sealed(tmp_path / "t.ptrace", said, "many", parts=GENERATIONS)
    trace = [str(path)]
    checkpoint = tmp_path / "checkpoint"
    in_all = len({row["incarnation"] for row in rows_of([path])} - {None})
    last = followed(spark, [path], checkpoint, lambda found: not found.notes)
    assert last.total("consumers") == in_all
    terms = Terms.of(trace, bucket_us=BUCKET_US, late_seconds=NEVER_LATE)
    with taken(spark, str(checkpoint), terms) as place:
        standing = kept.newest(spark, place)
        rows = kept.consumers(spark, place, standing)
        go_on = rows.where("ended_step is null").count()
        left = rows.where(f"ended_step < {standing.step}").count()
    assert standing.step == GENERATIONS
    assert go_on <= 1 + EACH // 4  # whose successors have not come yet
    assert left <= 50


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
    (place / "terms").write_text("{")
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
                "b/consumers",
                "b/timeline",
                "b/standing",
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
    for file in [place / where, *(place / where).rglob("*")]:
        if file.is_file():
            file.write_bytes(b"v1")
    names = {str(path) for path in place.rglob("*")}
    with pytest.raises(InputError, match=r"the checkpoint .* cannot be gone on from") as told:
        followed(spark, [trace.path], place, never)
    assert "\n" not in str(told.value)
    assert names <= {str(path) for path in place.rglob("*")}
