"""What `analyze --save` leaves, as Spark, DuckDB and pyarrow read it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pulsar_doctor.errors import DoctorError, InputError
from tests.support.wanting import wanting

pytestmark = pytest.mark.timeout(300)  # a busy machine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark")
duckdb = pytest.importorskip("duckdb")
parquet = pytest.importorskip("pyarrow.parquet")
pd = pytest.importorskip("pandas")

Rows = list[tuple[str, str | None, str, int]]
COLUMNS = "trace_id string, topic string, day string, messages long"
A, B = "persistent://public/default/a", "persistent://public/default/b"
MONDAY, TUESDAY = "2026-01-05", "2026-01-06"


def frame(spark: SparkSession, rows: Rows) -> DataFrame:
    table = spark.createDataFrame(rows, COLUMNS)
    return table.selectExpr("trace_id", "topic", "messages", "date(day) AS date")


def save(
    spark: SparkSession, folder: Path | str, traces: set[str] | None = None, **tables: Rows
) -> None:
    """traces: those that were analyzed; by default those in the tables."""
    from pulsar_doctor.parts.analyze.saving import save

    frames = {name: frame(spark, rows) for name, rows in tables.items()}
    save(frames, str(folder), traces or {row[0] for rows in tables.values() for row in rows})


def read(folder: Path, table: str = "stalls") -> Rows:
    """What DuckDB and pandas read, which is the same; as docs/saved.md says."""
    found = [tuple(row) for row in pandas(folder, table).itertuples(index=False, name=None)]
    assert key(by_duckdb(folder, table)) == key(found)
    return key(found)


def pandas(folder: Path, table: str) -> Any:
    frame = pd.read_parquet(folder / table)
    frame = frame.astype({"trace_id": str, "date": str})[["trace_id", "topic", "date", "messages"]]
    return frame.astype(object).where(frame.notna(), None)


def by_duckdb(folder: Path, table: str) -> Rows:
    with duckdb.connect() as connection:  # one left open can abort Python at its end
        return connection.execute(
            f"""
            SELECT trace_id, topic, date::varchar, messages FROM read_parquet(
                '{folder}/{table}/trace_id=*/*.parquet', hive_types_autocast = false)
            """
        ).fetchall()


def by_spark(spark: SparkSession, folder: Path, table: str = "stalls") -> Rows:
    columns = ("string(trace_id)", "topic", "string(date)", "messages")
    rows = spark.read.parquet(f"{folder}/{table}").selectExpr(*columns).collect()
    return key([tuple(row) for row in rows])


def key(rows: Rows) -> Rows:
    return sorted(rows, key=repr)


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_same_trace_twice_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    rows: Rows = [("t1", A, MONDAY, 1), ("t1", A, MONDAY, 1), ("t1", B, TUESDAY, 2)]
    save(spark, tmp_path, stalls=rows)
    save(spark, tmp_path, stalls=rows)
    assert read(tmp_path) == by_spark(spark, tmp_path) == key(rows)
    assert len(files_of(tmp_path)) == 1


def test_a_trace_that_has_changed_is_replaced_and_others_stay(
    spark: SparkSession, tmp_path: Path
) -> None:
    other: Rows = [("t2", A, MONDAY, 7), ("t2", B, MONDAY, 8)]
    save(spark, tmp_path, consumers=other, stalls=other)
    save(spark, tmp_path, stalls=[("t1", A, MONDAY, 1), ("t1", B, MONDAY, 2)])
    (theirs,) = (each for each in files_of(tmp_path / "stalls") if "t2" in each)
    moved: Rows = [("t1", A, TUESDAY, 3)]
    save(spark, tmp_path, consumers=moved, stalls=moved)
    assert read(tmp_path) == by_spark(spark, tmp_path) == key(moved + other)
    assert theirs in files_of(tmp_path / "stalls"), "it is not written again"


def test_a_table_without_a_row_of_a_trace_any_more_keeps_none_of_the_old_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark overwrites partitions that have new rows only: this one is overwritten explicitly."""
    other: Rows = [("t2", A, MONDAY, 7)]
    save(spark, tmp_path, stalls=[("t1", A, MONDAY, 1), *other], gaps=other)
    for _ in range(2):
        save(spark, tmp_path, {"t1"}, stalls=[], gaps=[("t1", A, MONDAY, 2)])
        assert read(tmp_path) == by_spark(spark, tmp_path) == other
        assert read(tmp_path, "gaps") == key([("t1", A, MONDAY, 2), *other])
    save(spark, tmp_path, stalls=[("t1", B, MONDAY, 3)])
    assert read(tmp_path) == key([("t1", B, MONDAY, 3), *other])


def test_a_table_that_never_had_rows_can_be_read(spark: SparkSession, tmp_path: Path) -> None:
    for _ in range(2):
        save(spark, tmp_path, stalls=[], consumers=[("t1", A, MONDAY, 1)])
        assert read(tmp_path) == by_spark(spark, tmp_path) == []
    save(spark, tmp_path, stalls=[("t1", A, TUESDAY, 1)], consumers=[("t1", A, MONDAY, 1)])
    assert read(tmp_path) == [("t1", A, TUESDAY, 1)]


def test_what_a_killed_save_left_is_hidden_from_every_reader(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows: Rows = [("t1", A, MONDAY, 1)]
    save(spark, tmp_path, stalls=rows)
    (file,) = tmp_path.rglob("*.parquet")
    left = tmp_path / "stalls" / ".spark-staging-1" / "trace_id=t1"
    left.mkdir(parents=True)
    shutil.copy(file, left)
    assert read(tmp_path) == by_spark(spark, tmp_path) == rows
    save(spark, tmp_path, stalls=rows)
    assert read(tmp_path) == rows


NAMES = [
    None, "123", "0123", "1e5", "2026-01-05", "true", "with space", "a=b&c", "%2F%25", "[x]{y}*?",
    "ü☃😀", "tab\tand\nline", "back\\slash", 'quote"\'', "..", "~", "NULL",
]  # fmt: skip


def test_topics_and_trace_ids_are_read_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    traces = [
        "with space",
        "a=b&c",
        "%2F%25",
        "[x]{y}*?",
        "ü☃😀",
        "tab\tand\nline",
        "q\"'",
        "~",
        "x",
    ]
    rows: Rows = [("x", name, MONDAY, 1) for name in NAMES]
    rows += [(trace, A, MONDAY, 1) for trace in traces]
    save(spark, tmp_path, stalls=[(trace, B, TUESDAY, 2) for trace in traces], gaps=rows)
    save(spark, tmp_path, stalls=rows, gaps=[("x", A, MONDAY, 1)])
    assert by_spark(spark, tmp_path) == read(tmp_path) == key(rows)
    save(spark, tmp_path, set(traces), stalls=rows, gaps=[("x", A, MONDAY, 1)])
    assert by_spark(spark, tmp_path, "gaps") == [("x", A, MONDAY, 1)]


def test_only_the_owner_may_read_what_was_saved(spark: SparkSession, tmp_path: Path) -> None:
    for stalls in ([("t1", A, MONDAY, 1)], [("t1", A, MONDAY, 1)], []):
        save(spark, tmp_path / "new" / "out", {"t1"}, stalls=stalls, gaps=[])
    modes = {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (tmp_path / "new").rglob("*")}
    assert modes == {0}


def test_a_relative_folder_is_below_the_working_directory(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "odd [1]{a,b} *?ü%41"
    save(spark, name, stalls=[("t1", A, MONDAY, 1)])
    save(spark, f"file:x/../{name}/", stalls=[("t1", A, TUESDAY, 1)])
    (file,) = (tmp_path / name).rglob("*.parquet")
    (row,) = parquet.ParquetFile(file).read().to_pylist()
    assert str(row["date"]) == TUESDAY
    with pytest.raises(InputError, match="no colon"):
        save(spark, "at-10:30", stalls=[("t1", A, MONDAY, 1)])


def test_a_folder_with_something_else_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("notes.txt", "stalls/date=1/part-0", "_meta.json"):
        folder = tmp_path / name.replace("/", "-")
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("{}")
        with pytest.raises(InputError, match="nothing was written"):
            save(spark, folder, stalls=[("t1", A, MONDAY, 1)])
        assert [path for path in folder.rglob("*") if path.is_file()] == [folder / name]
    with pytest.raises(InputError, match="is a file; give a folder"):
        save(spark, tmp_path / "notes.txt" / "notes.txt", stalls=[("t1", A, MONDAY, 1)])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip(wanting("the right to mount"))
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)  # Java may have a file open


def test_a_full_disk_leaves_what_was_there(spark: SparkSession, small_disk: Path) -> None:
    from pulsar_doctor.parts.analyze.saving import save as save_frames

    before: Rows = [("t1", A, MONDAY, 1), ("t2", A, MONDAY, 2)]
    save(spark, small_disk / "out", stalls=before)
    many = spark.range(100_000).selectExpr(
        "'t1' AS trace_id", f"'{A}' AS topic", "xxhash64(id) AS messages", f"date'{MONDAY}' AS date"
    )
    with pytest.raises(DoctorError, match="the disk is full") as raised:
        save_frames({"stalls": many}, str(small_disk / "out"), {"t1"})
    assert raised.value.exit_code == 3
    assert read(small_disk / "out") == key(before)
    subprocess.run(["mount", "-o", "remount,size=2m", small_disk], check=True)
    save(spark, small_disk / "out", stalls=before)
    assert read(small_disk / "out") == key(before)


SAVES = """
import sys
from pulsar_doctor.parts.analyze.saving import saving_steps
from pulsar_doctor.parts.analyze.session import Where, session
from tests.parts.analyze.test_saving import VERSIONS, frame

conf = {"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "2"}
with session(Where(master="local[2]", conf=conf)) as spark:
    for line in sys.stdin:
        version, stop_at = map(int, line.split())
        frames = {name: frame(spark, rows) for name, rows in VERSIONS[version].items()}
        traces = {"t1", "t2"} if version == 0 else {"t1"}
        for at, step in enumerate(saving_steps(frames, sys.argv[1], traces)):
            if at == stop_at:
                print(step, flush=True)
                sys.stdin.readline()
        print("saved", flush=True)
"""
OTHER: Rows = [("t2", A, MONDAY, 9), ("t2", None, TUESDAY, 10)]
VERSIONS: list[dict[str, Rows]] = [
    {"stalls": OTHER, "gaps": OTHER},
    {"stalls": [("t1", A, MONDAY, 1), ("t1", B, TUESDAY, 2)], "gaps": [("t1", A, MONDAY, 3)]},
    {"stalls": [("t1", B, TUESDAY, 4), ("t1", None, MONDAY, 5)], "gaps": [("t1", A, TUESDAY, 6)]},
    {"stalls": [], "gaps": [("t1", A, MONDAY, 7), ("t1", B, MONDAY, 8)]},
]


class Saver:
    """A process with a Spark of its own that saves what it is told, until it is killed."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SAVES, folder], cwd=Path(__file__).parents[3], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def begin(self, version: int, stop_at: int = -1) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{version} {stop_at}\n")
        self.process.stdin.flush()

    def heard(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def save(self, version: int) -> float:
        began = time.monotonic()
        self.begin(version)
        assert self.heard() == "saved"
        return time.monotonic() - began

    def kill(self) -> None:
        """Kills it and its Java."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


STEPS = ["stalls", "gaps", "stalls/trace_id=t1"]  # the last: the empty partition


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_each_step_the_next_save_repairs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was killed shows the old rows or the new ones of each table, and other traces."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    out = tmp_path / "out"
    for at, step in enumerate(STEPS):
        saver = Saver(out)
        for version in (0, 2):
            saver.save(version)
        saver.begin(3, at)
        assert saver.heard() == step
        saver.kill()
        for name in VERSIONS[0]:
            assert read(out, name) in (saved(2)[name], saved(3)[name])
        saver = Saver(out)
        saver.save(3)
        saver.kill()
        assert {name: read(out, name) for name in VERSIONS[0]} == saved(3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_at_any_moment_and_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    out, kills = tmp_path / "out", int(os.environ.get("KILLS", "20"))
    saver = Saver(out)
    saver.save(0)
    for _ in range(kills):
        before, during, after = (random.choice([1, 2, 3]) for _ in range(3))
        seconds = saver.save(before)
        saver.begin(during)
        time.sleep(random.uniform(0, seconds))
        saver.kill()
        for name in VERSIONS[0]:  # at the worst nothing of the trace
            left = read(out, name)
            assert left in (saved(before)[name], saved(during)[name], key(OTHER))
        saver = Saver(out)
        saver.save(after)
        assert {name: read(out, name) for name in VERSIONS[0]} == saved(after)
    saver.kill()


def saved(version: int) -> dict[str, Rows]:
    return {name: key(rows + OTHER) for name, rows in VERSIONS[version].items()}


@pytest.mark.slow
def test_where_this_process_cannot_look_spark_does_all_of_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set("fs.viewfs.mounttable.elsewhere.link./disk", f"file://{tmp_path}")
    out = "viewfs://elsewhere/disk/out"
    try:
        save(spark, out, stalls=[("t1", A, MONDAY, 1), ("t2", A, MONDAY, 7)], gaps=[])
        save(spark, out, {"t1"}, stalls=[], gaps=[("t1", A, MONDAY, 2)])
        with pytest.raises(InputError, match=r"^viewfs://elsewhere/disk/ holds out/"):
            save(spark, "viewfs://elsewhere/disk/", stalls=[("t1", A, MONDAY, 1)])
    finally:
        spark.conf.unset("fs.viewfs.mounttable.elsewhere.link./disk")
    assert read(tmp_path / "out") == [("t2", A, MONDAY, 7)]
    assert read(tmp_path / "out", "gaps") == [("t1", A, MONDAY, 2)]
