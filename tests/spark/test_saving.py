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
from typing import TYPE_CHECKING

import pytest

from pulsar_doctor.errors import DoctorError, InputError
from tests.support.wanting import wanting

pytestmark = pytest.mark.timeout(300)  # a busy machine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark")
duckdb = pytest.importorskip("duckdb")

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
    import pyarrow as pa
    from pyarrow.dataset import dataset, partitioning

    levels = pa.schema([("date", pa.date32()), ("topic", pa.string()), ("trace_id", pa.string())])
    ours = dataset(
        folder / table,
        partitioning=partitioning(levels, flavor="hive"),
        schema=pa.schema([*levels, ("messages", pa.int64())]),
    )
    by_pyarrow = [
        (row["trace_id"], row["topic"], str(row["date"]), row["messages"])
        for row in ours.to_table().to_pylist()
    ]
    assert key(by_duckdb(folder / table)) == key(by_pyarrow)
    return key(by_pyarrow)


def by_duckdb(table: Path, files: str = "date=*/*/*/*.parquet") -> Rows:
    types = "{'date': DATE, 'topic': VARCHAR, 'trace_id': VARCHAR}"
    query = (
        "select trace_id, topic, date::varchar, messages from "
        f"read_parquet(?, hive_partitioning = true, hive_types = {types})"
    )
    with duckdb.connect() as connection:  # one left open can abort Python at its end
        return connection.execute(query, [str(table / files)]).fetchall()


def by_spark(spark: SparkSession, folder: Path, table: str = "stalls") -> Rows:
    schema = "messages long, date date, topic string, trace_id string"
    rows = spark.read.schema(schema).parquet(str(folder / table))
    return key(
        [
            tuple(row)
            for row in rows.selectExpr("trace_id", "topic", "string(date)", "messages").collect()
        ]
    )


def key(rows: Rows) -> Rows:
    return sorted(rows, key=repr)


def test_the_same_trace_twice_is_counted_once(spark: SparkSession, tmp_path: Path) -> None:
    rows: Rows = [("t1", A, MONDAY, 1), ("t1", A, MONDAY, 1), ("t1", B, TUESDAY, 2)]
    save(spark, tmp_path, stalls=rows)
    save(spark, tmp_path, stalls=rows)
    assert read(tmp_path) == by_spark(spark, tmp_path) == key(rows)
    assert len(list(tmp_path.glob("stalls/date=*/topic=*/trace_id=*/*.parquet"))) == 2


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
    kept = files_of(tmp_path, "t2")
    moved: Rows = [("t1", A, TUESDAY, 3)]
    save(spark, tmp_path, consumers=moved, stalls=moved)
    assert read(tmp_path) == by_spark(spark, tmp_path) == key(moved + other)
    save(spark, tmp_path, consumers=moved, stalls=[])
    assert read(tmp_path) == by_spark(spark, tmp_path) == key(other)
    assert read(tmp_path, "consumers") == key(moved + other)
    assert files_of(tmp_path, "t2") == kept
    assert not [path for path in tmp_path.rglob("*") if path.is_dir() and not any(path.iterdir())]


def files_of(folder: Path, trace: str) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob(f"trace_id={trace}/*")}


def test_a_table_that_never_had_rows_can_be_read(spark: SparkSession, tmp_path: Path) -> None:
    save(spark, tmp_path, stalls=[], consumers=[("t1", A, MONDAY, 1)])
    save(spark, tmp_path, stalls=[], consumers=[("t1", A, MONDAY, 1)])
    assert read(tmp_path) == by_spark(spark, tmp_path) == []
    assert spark.read.parquet(str(tmp_path / "stalls")).columns == [
        "messages",
        "date",
        "topic",
        "trace_id",
    ]
    save(spark, tmp_path, stalls=[("t1", A, TUESDAY, 1)], consumers=[("t1", A, MONDAY, 1)])
    assert read(tmp_path) == [("t1", A, TUESDAY, 1)]
    assert len(list(tmp_path.glob("stalls/**/*.parquet"))) == 1
    save(spark, tmp_path, stalls=[], consumers=[("t1", A, MONDAY, 1)])
    assert read(tmp_path) == []


def test_replacing_leaves_nothing_of_other_traces(spark: SparkSession, tmp_path: Path) -> None:
    save(spark, tmp_path, stalls=[("t1", A, MONDAY, 1), ("t2", A, MONDAY, 2)])
    save(spark, tmp_path, replace=True, stalls=[("t1", A, MONDAY, 3)])
    assert read(tmp_path) == by_spark(spark, tmp_path) == [("t1", A, MONDAY, 3)]
    assert not files_of(tmp_path, "t2")


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


def test_a_topic_too_long_for_a_folder_is_shortened(spark: SparkSession, tmp_path: Path) -> None:
    longest = "persistent://public/default/" + "x" * (249 - 28 - 2 * 5)  # five are escaped
    long = [longest + "1", longest + "2", "☃" * 84]
    save(spark, tmp_path, stalls=[("t1", name, MONDAY, 1) for name in [longest, "☃" * 83, *long]])
    topics = {topic for _, topic, _, _ in read(tmp_path)}
    assert {longest, "☃" * 83} < topics
    short = sorted(topics - {longest, "☃" * 83})
    assert [(topic[:28], topic[-28:]) for topic in short] == sorted(
        (name[:28], name[-28:]) for name in long
    )


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
    assert len(list((tmp_path / name / "stalls").rglob("*.parquet"))) == 1
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
    assert by_duckdb_all(small_disk / "out") == key(before)
    subprocess.run(["mount", "-o", "remount,size=2m", small_disk], check=True)
    save(spark, small_disk / "out", stalls=before)
    assert read(small_disk / "out") == key(before)


def by_duckdb_all(folder: Path, table: str = "stalls") -> Rows:
    """With a glob that shows what Spark hides."""
    return key(by_duckdb(folder / table, "**/*.parquet"))


def test_what_a_crash_left_is_removed_but_not_what_another_is_writing(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows: Rows = [("t1", A, MONDAY, 1), ("t2", A, MONDAY, 2)]
    save(spark, tmp_path, stalls=rows)
    done = tmp_path / "stalls" / f"date={MONDAY}"
    staged = {
        tmp_path / "stalls" / ".spark-staging-1" / f"date={MONDAY}": "t1",
        tmp_path / "stalls" / ".spark-staging-2/_temporary/0/_temporary/attempt_1/date=1": "t1",
        tmp_path / "stalls" / ".spark-staging-3" / f"date={MONDAY}": "t2",
    }
    for folder, trace in staged.items():
        for leaf in done.glob(f"*/trace_id={trace}"):
            shutil.copytree(leaf, folder / leaf.parent.name / leaf.name)
    assert by_spark(spark, tmp_path) == read(tmp_path) == key(rows)
    save(spark, tmp_path, stalls=[("t1", A, MONDAY, 1)])
    assert [path.name for path in (tmp_path / "stalls").glob(".*")] == [".spark-staging-3"]
    assert by_spark(spark, tmp_path) == read(tmp_path) == key(rows)
    save(spark, tmp_path, replace=True, stalls=rows)
    assert by_duckdb_all(tmp_path) == key(rows)


SLOW = pytest.mark.slow


@pytest.mark.parametrize("step", [pytest.param(0, marks=SLOW), 1, pytest.param(2, marks=SLOW)])
def test_stopped_between_two_steps_and_run_again(
    spark: SparkSession, tmp_path: Path, step: int
) -> None:
    from pulsar_doctor.spark.saving import saving_steps

    other: Rows = [("t2", A, MONDAY, 7)]
    old: Rows = [("t1", A, MONDAY, 1), ("t1", B, MONDAY, 1)]
    new: Rows = [("t1", A, MONDAY, 2)]
    save(spark, tmp_path, stalls=old + other, gaps=old + other)
    tables = {"stalls": frame(spark, new), "gaps": frame(spark, new)}
    steps = saving_steps(tables, str(tmp_path), replace=False)
    done = [next(steps)[0] for _ in range(step + 1)]
    steps.close()
    assert done == [1, 1, 2][: step + 1]
    for table in ("stalls", "gaps"):
        assert [row for row in by_spark(spark, tmp_path, table) if row[0] == "t2"] == other
    save(spark, tmp_path, stalls=new, gaps=new)
    assert read(tmp_path, "stalls") == read(tmp_path, "gaps") == key(new + other)


SAVES = """
import sys
from pulsar_doctor.spark.saving import save
from pulsar_doctor.spark.session import Where, session
from tests.spark.test_saving import VERSIONS, frame

conf = {"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "2"}
with session(Where(master="local[2]", conf=conf)) as spark:
    for version in sys.stdin:
        frames = {name: frame(spark, rows) for name, rows in VERSIONS[int(version)].items()}
        save(frames, sys.argv[1], replace=False)
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

    def begin(self, version: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{version}\n")
        self.process.stdin.flush()

    def save(self, version: int) -> float:
        assert self.process.stdout is not None
        began = time.monotonic()
        self.begin(version)
        assert self.process.stdout.readline() == "saved\n"
        return time.monotonic() - began

    def kill(self) -> None:
        """Kills it and its Java."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_at_any_moment_and_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    out, kills, staged, mixed = tmp_path / "out", int(os.environ.get("KILLS", "20")), 0, 0
    saver = Saver(out)
    saver.save(0)
    for _ in range(kills):
        before, during, after = (random.choice([1, 2, 3]) for _ in range(3))
        seconds = saver.save(before)
        saver.begin(during)
        time.sleep(random.uniform(0, seconds))
        saver.kill()
        left = {name: read(out, name) for name in VERSIONS[0]}
        for rows in left.values():
            assert [row for row in rows if row[0] == "t2"] == key(OTHER)
        staged += any(out.glob("*/.spark-staging-*"))
        mixed += left not in (saved(before), saved(during))
        saver = Saver(out)
        saver.save(after)
        for name, rows in saved(after).items():
            assert read(out, name) == by_duckdb_all(out, name) == rows
    saver.kill()
    print(f"{kills} kills: {staged} left something staged, {mixed} a mixture of two analyses")


def saved(version: int) -> dict[str, Rows]:
    return {name: key(rows + OTHER) for name, rows in VERSIONS[version].items()}


def test_where_this_process_cannot_look_spark_removes_what_is_old(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set("fs.viewfs.mounttable.elsewhere.link./disk", f"file://{tmp_path}")
    try:
        for row in [("t1", A, MONDAY, 1), ("t1", B, MONDAY, 2)]:
            save(spark, "viewfs://elsewhere/disk/out", stalls=[row, ("t2", A, MONDAY, 7)])
        with pytest.raises(InputError, match=r"^viewfs://elsewhere/disk/ holds out/stalls/date="):
            save(spark, "viewfs://elsewhere/disk/", stalls=[row])
    finally:
        spark.conf.unset("fs.viewfs.mounttable.elsewhere.link./disk")
    assert read(tmp_path / "out") == [("t1", B, MONDAY, 2), ("t2", A, MONDAY, 7)]
    assert not any((tmp_path / f"out/stalls/date={MONDAY}").glob("*default%2Fa/trace_id=t1/*"))
