"""What `analyze --save` leaves, as Spark, DuckDB and pyarrow read it."""

from __future__ import annotations

import json
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

Rows = list[tuple[str, str | None, str, int]]
COLUMNS = "trace_id string, topic string, day string, messages long"
A, B = "persistent://public/default/a", "persistent://public/default/b"
MONDAY, TUESDAY = "2026-01-05", "2026-01-06"


def frame(spark: SparkSession, rows: Rows) -> DataFrame:
    table = spark.createDataFrame(rows, COLUMNS)
    return table.selectExpr("trace_id", "topic", "messages", "date(day) AS date")


def save(spark: SparkSession, folder: Path | str, replace: bool = False, **tables: Rows) -> None:
    from pulsar_doctor.spark.saving import save

    frames = {name: frame(spark, rows) for name, rows in tables.items()}
    save(frames, str(folder), replace=replace)


def read(folder: Path, table: str = "stalls") -> Rows:
    """What pyarrow and DuckDB read, which is the same."""
    from pyarrow.dataset import dataset

    files = [folder / path for path in newest(folder)["tables"][table]]
    by_pyarrow = [
        (row["trace_id"], row["topic"], str(row["date"]), row["messages"])
        for row in dataset(files).to_table().to_pylist()
    ]
    assert key(by_duckdb(folder, table)) == key(by_pyarrow)
    return key(by_pyarrow)


def newest(folder: Path) -> Any:
    """The list that counts."""
    return json.loads(max(folder.glob("manifests/*/part-*")).read_text())


def by_duckdb(folder: Path, table: str) -> Rows:
    """As the manual says."""
    with duckdb.connect() as connection:  # one left open can abort Python at its end
        connection.execute(
            f"""
            SET VARIABLE files = (
                SELECT list_transform(tables.{table}, lambda path: '{folder}/' || path)
                FROM read_json('{folder}/manifests/*/part-*', format = 'newline_delimited')
                ORDER BY save DESC LIMIT 1)
            """
        )
        columns = "trace_id, topic, date::varchar, messages"
        found = connection.execute(f"SELECT {columns} FROM read_parquet(getvariable('files'))")
        return found.fetchall()


def by_spark(spark: SparkSession, folder: Path, table: str = "stalls") -> Rows:
    """As the manual says."""
    lists = spark.read.json(f"{folder}/manifests/*")
    (files,) = lists.orderBy("save", ascending=False).select(f"tables.{table}").first()
    rows = spark.read.parquet(*(f"{folder}/{path}" for path in files))
    columns = ("trace_id", "topic", "string(date)", "messages")
    return key([tuple(row) for row in rows.selectExpr(*columns).collect()])


def key(rows: Rows) -> Rows:
    return sorted(rows, key=repr)


def files_of(folder: Path) -> set[str]:
    """All that lies there but the lists and the lock."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in found if path.parts[0] not in ("manifests", ".lock")}


def test_the_same_trace_twice_is_counted_once(spark: SparkSession, tmp_path: Path) -> None:
    rows: Rows = [("t1", A, MONDAY, 1), ("t1", A, MONDAY, 1), ("t1", B, TUESDAY, 2)]
    save(spark, tmp_path, stalls=rows)
    save(spark, tmp_path, stalls=rows)
    assert read(tmp_path) == by_spark(spark, tmp_path) == key(rows)
    assert len(newest(tmp_path)["tables"]["stalls"]) == 1


def test_the_newest_analysis_of_a_trace_counts_and_other_traces_stay(
    spark: SparkSession, tmp_path: Path
) -> None:
    other: Rows = [("t2", A, MONDAY, 7), ("t2", B, MONDAY, 8)]
    save(spark, tmp_path, consumers=other, stalls=other)
    save(
        spark,
        tmp_path,
        consumers=[("t1", A, MONDAY, 1)],
        stalls=[("t1", A, MONDAY, 1), ("t1", B, MONDAY, 2)],
    )
    moved: Rows = [("t1", A, TUESDAY, 3)]
    save(spark, tmp_path, consumers=moved, stalls=moved)
    assert read(tmp_path) == by_spark(spark, tmp_path) == key(moved + other)
    save(spark, tmp_path, consumers=moved, stalls=[])
    assert read(tmp_path) == by_spark(spark, tmp_path) == key(other)
    assert read(tmp_path, "consumers") == key(moved + other)


@pytest.mark.slow
def test_files_are_few_and_those_of_the_list_before_stay(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A reader has begun with a list, and somebody saves again."""
    named = []
    for day in range(1, 6):
        rows: Rows = [(f"t{day}", topic, f"2026-01-0{day}", day) for topic in (B, A)]
        save(spark, tmp_path, stalls=rows, gaps=rows)
        named.append({file["path"] for file in newest(tmp_path)["files"]})
        assert len(named[-1]) == 2
        assert files_of(tmp_path) == named[-1] | (named[-2] if day > 1 else set())
    assert len(list(tmp_path.glob("manifests/*/part-*"))) == 2
    assert len(read(tmp_path)) == 10
    (file,) = newest(tmp_path)["tables"]["stalls"]
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT date::varchar, topic FROM read_parquet(?)", [str(tmp_path / file)]
        ).fetchall()
    assert found == sorted(found)


def test_a_large_file_stays_where_it_is_unless_its_traces_are_replaced(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulsar_doctor.spark.saving.LARGE_ROWS", 2)
    large: Rows = [("t1", A, MONDAY, 1), ("t2", A, MONDAY, 2)]
    save(spark, tmp_path, stalls=large)
    (first,) = newest(tmp_path)["tables"]["stalls"]
    save(spark, tmp_path, stalls=[("t3", A, MONDAY, 3)])
    save(spark, tmp_path, stalls=[("t4", A, MONDAY, 4)])
    assert first in newest(tmp_path)["tables"]["stalls"]
    assert len(newest(tmp_path)["tables"]["stalls"]) == 2
    save(spark, tmp_path, stalls=[("t2", A, MONDAY, 5)])
    assert first not in newest(tmp_path)["tables"]["stalls"]
    assert [row[3] for row in read(tmp_path)] == [1, 5, 3, 4]


def test_a_table_that_never_had_rows_can_be_read(spark: SparkSession, tmp_path: Path) -> None:
    save(spark, tmp_path, stalls=[], consumers=[("t1", A, MONDAY, 1)])
    save(spark, tmp_path, stalls=[], consumers=[("t1", A, MONDAY, 1)])
    assert read(tmp_path) == by_spark(spark, tmp_path) == []
    save(spark, tmp_path, stalls=[("t1", A, TUESDAY, 1)], consumers=[("t1", A, MONDAY, 1)])
    assert read(tmp_path) == [("t1", A, TUESDAY, 1)]
    save(spark, tmp_path, stalls=[], consumers=[("t1", A, MONDAY, 1)])
    assert read(tmp_path) == []


def test_replacing_leaves_nothing_of_other_traces(spark: SparkSession, tmp_path: Path) -> None:
    save(spark, tmp_path, stalls=[("t1", A, MONDAY, 1), ("t2", A, MONDAY, 2)])
    save(spark, tmp_path, replace=True, stalls=[("t1", A, MONDAY, 3)])
    assert read(tmp_path) == by_spark(spark, tmp_path) == [("t1", A, MONDAY, 3)]


NAMES = [
    None, "123", "0123", "1e5", "2026-01-05", "true", "with space", "a=b&c", "%2F%25", "[x]{y}*?",
    "ü☃😀", "tab\tand\nline", "back\\slash", 'quote"\'', "..", "~", "NULL",
]  # fmt: skip


def test_topics_and_trace_ids_are_read_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    rows: Rows = [("00012", name, MONDAY, 1) for name in NAMES]
    save(spark, tmp_path, stalls=[("00012", name, TUESDAY, 1) for name in NAMES])
    save(spark, tmp_path, stalls=rows)
    assert by_spark(spark, tmp_path) == key(rows)
    assert read(tmp_path) == key(rows)


def test_only_the_owner_may_read_what_was_saved(spark: SparkSession, tmp_path: Path) -> None:
    save(spark, tmp_path / "new" / "out", stalls=[("t1", A, MONDAY, 1)], gaps=[])
    save(spark, tmp_path / "new" / "out", stalls=[("t1", A, MONDAY, 1)], gaps=[])
    modes = {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (tmp_path / "new").rglob("*")}
    assert modes == {0}


def test_a_relative_folder_is_below_the_working_directory(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "odd [1]{a,b} *?ü%41"
    save(spark, name, stalls=[("t1", A, MONDAY, 1)])
    save(spark, f"file:x/../{name}/", stalls=[("t1", A, TUESDAY, 1)])
    (file,) = newest(tmp_path / name)["tables"]["stalls"]
    (row,) = parquet.read_table(tmp_path / name / file).to_pylist()
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
    from pulsar_doctor.spark.saving import save as save_frames

    before: Rows = [("t1", A, MONDAY, 1), ("t2", A, MONDAY, 2)]
    save(spark, small_disk / "out", stalls=before)
    many = spark.range(100_000).selectExpr(
        "'t1' AS trace_id", f"'{A}' AS topic", "xxhash64(id) AS messages", f"date'{MONDAY}' AS date"
    )
    with pytest.raises(DoctorError, match="the disk is full") as raised:
        save_frames({"stalls": many}, str(small_disk / "out"), replace=True)
    assert raised.value.exit_code == 3
    assert read(small_disk / "out") == key(before)
    subprocess.run(["mount", "-o", "remount,size=2m", small_disk], check=True)
    save(spark, small_disk / "out", stalls=before)
    assert read(small_disk / "out") == key(before)


def test_what_older_versions_saved_is_not_touched(spark: SparkSession, tmp_path: Path) -> None:
    leaf = tmp_path / "stalls" / "date=2026-01-05" / "topic=a" / "trace_id=t1" / "part-0.parquet"
    leaf.parent.mkdir(parents=True)
    leaf.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="as older versions saved them"):
        save(spark, tmp_path, stalls=[("t1", A, MONDAY, 1)])
    assert leaf.exists()


SAVES = """
import sys
from pulsar_doctor.spark.saving import saving_steps
from pulsar_doctor.spark.session import Where, session
from tests.spark.test_saving import VERSIONS, frame

conf = {"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "2"}
with session(Where(master="local[2]", conf=conf)) as spark:
    for line in sys.stdin:
        version, stop_at = map(int, line.split())
        frames = {name: frame(spark, rows) for name, rows in VERSIONS[version].items()}
        for at, (step, _) in enumerate(saving_steps(frames, sys.argv[1], replace=False)):
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
            [sys.executable, "-c", SAVES, folder], cwd=Path(__file__).parents[2], text=True,
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


STEPS = ["1", "1", "2", "3", "3", "3"]  # two tables, the list, what is old of each and its list


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_each_step_readers_see_the_old_analysis_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each table, after the list, after each removal; and it is right when done again."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    out = tmp_path / "out"
    for at, step in enumerate(STEPS):
        saver = Saver(out)
        for version in (0, 1, 2):
            saver.save(version)
        saver.begin(3, at)
        assert saver.heard() == step
        saver.kill()
        seen = {name: read(out, name) for name in VERSIONS[0]}
        assert seen == saved(2 if step == "1" else 3), (at, step)
        shutil.rmtree(out) if at % 2 else none_is_left_behind(out)


def none_is_left_behind(out: Path) -> None:
    """Whoever saves next removes what the killed one left."""
    saver = Saver(out)
    saver.save(1)
    saver.save(2)
    saver.kill()
    assert {name: read(out, name) for name in VERSIONS[0]} == saved(2)
    lists = [json.loads(path.read_text()) for path in out.glob("manifests/*/part-*")]
    assert files_of(out) == {file["path"] for each in lists for file in each["files"]}
    assert len(lists) == 2
    shutil.rmtree(out)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_at_any_moment_and_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    out, kills, news = tmp_path / "out", int(os.environ.get("KILLS", "20")), 0
    saver = Saver(out)
    saver.save(0)
    for _ in range(kills):
        before, during, after = (random.choice([1, 2, 3]) for _ in range(3))
        seconds = saver.save(before)
        saver.begin(during)
        time.sleep(random.uniform(0, seconds))
        saver.kill()
        left = {name: read(out, name) for name in VERSIONS[0]}
        assert left in (saved(before), saved(during))
        news += left == saved(during) != saved(before)
        saver = Saver(out)
        saver.save(after)
        assert {name: read(out, name) for name in VERSIONS[0]} == saved(after)
    saver.kill()
    print(f"{kills} kills: {news} times readers see the new analysis, otherwise the old one")


def saved(version: int) -> dict[str, Rows]:
    return {name: key(rows + OTHER) for name, rows in VERSIONS[version].items()}


@pytest.mark.slow
def test_where_this_process_cannot_look_spark_removes_what_is_old(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set("fs.viewfs.mounttable.elsewhere.link./disk", f"file://{tmp_path}")
    rows: list[Rows] = [[("t1", A, MONDAY, n), ("t2", A, MONDAY, 7)] for n in range(4)]
    try:
        for each in rows:
            save(spark, "viewfs://elsewhere/disk/out", stalls=each)
        with pytest.raises(InputError, match=r"^viewfs://elsewhere/disk/ holds out/"):
            save(spark, "viewfs://elsewhere/disk/", stalls=each)
    finally:
        spark.conf.unset("fs.viewfs.mounttable.elsewhere.link./disk")
    assert read(tmp_path / "out") == key(each)
    lists = [json.loads(path.read_text()) for path in (tmp_path / "out").glob("manifests/*/part-*")]
    assert len(lists) == 2
    assert {path for path in files_of(tmp_path / "out") if "/." not in path} == {
        file["path"] for each in lists for file in each["files"]
    }
