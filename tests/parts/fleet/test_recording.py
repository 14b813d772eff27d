"""`stall-check --watch --keep`: what is recorded of each round, and what a kill leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from pulsar_doctor.checkup.result import REST, Checkup, Cluster
from pulsar_doctor.diagnosis.verdict import Diagnosis, Steady
from pulsar_doctor.errors import InputError
from pulsar_doctor.evidence.numbers import ReportedConsumer
from pulsar_doctor.parts.fleet.journal import Keeper, frames, key_of
from pulsar_doctor.parts.fleet.record import RecordRow, cause_of, host_of, moment_of
from pulsar_doctor.parts.fleet.rounds import RoundRecorder
from tests.broker.replayed import MOVING, STUCK, cluster, states
from tests.report import checkups
from tests.support import eventually
from tests.support.command_line import environment

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
OUTSIDE = pytest.mark.usefixtures("outside")


def checkup(minutes: float, *unreachable: str) -> Checkup:
    made = Checkup("broker", (), cluster=Cluster("c", "http://x", "4.0.8"))
    made.checked_at = NOON + timedelta(minutes=minutes)
    made.unreachable = [(topic, "gone") for topic in unreachable]
    return made


def verdict(name: str, status: Any = "healthy") -> Diagnosis:
    return Diagnosis(f"persistent://a/b/{name}", None, "s", "Shared", status, (), ())


def recorded(recorder: RoundRecorder, of: Checkup, *verdicts: Diagnosis) -> list[tuple[Any, ...]]:
    list(recorder.through(of, verdicts))
    rows = recorder.rows
    assert rows[0]["kind"] == "round"
    return [(row["kind"], row["topic"][-1], row.get("status")) for row in rows[1:]]


def test_a_row_is_written_for_a_change_the_round_after_it_and_each_quarter() -> None:
    recorder = RoundRecorder(30.0, None)
    well, sick = verdict("x"), verdict("x", "unknown")
    assert recorded(recorder, checkup(0), well) == [("seen", "x", "healthy")]
    assert recorded(recorder, checkup(1), well) == [("seen", "x", "healthy")]  # it was new
    assert recorded(recorder, checkup(2), well) == []
    assert recorded(recorder, checkup(3), sick) == [("seen", "x", "unknown")]
    assert recorded(recorder, checkup(4), sick) == [("seen", "x", "unknown")]
    assert recorded(recorder, checkup(5), sick) == []
    assert recorded(recorder, checkup(15), sick) == [("seen", "x", "unknown")]


def test_what_could_not_be_read_is_not_gone() -> None:
    recorder = RoundRecorder(30.0, None)
    recorded(recorder, checkup(0), verdict("x"), verdict("y"))
    again = recorded(recorder, checkup(1, "persistent://a/b/y"), verdict("x"))
    assert again == [("seen", "x", "healthy"), ("unread", "y", None)]
    assert recorded(recorder, checkup(1.5, REST), verdict("x")) == []  # that is known by now
    other = checkup(2, "persistent://a/b/z")  # says nothing of y
    assert recorded(recorder, other, verdict("x")) == [("gone", "y", None)]
    assert recorded(recorder, checkup(3), verdict("x")) == []


def test_a_topic_that_no_broker_has_loaded_is_not_gone() -> None:
    recorder, later = RoundRecorder(30.0, None), checkup(1)
    recorded(recorder, checkup(0), verdict("x"), verdict("y"))
    later.not_loaded = ["persistent://a/b/y"]
    unread = [("seen", "x", "healthy"), ("unread", "y", None)]
    assert recorded(recorder, later, verdict("x")) == unread
    recorder.write_all_next()  # that round is lost
    assert recorded(recorder, later, verdict("x")) == unread
    both = recorded(recorder, checkup(2), verdict("x"), verdict("y"))
    assert both == [("seen", "y", "healthy")]
    assert recorded(recorder, checkup(3), verdict("x"), verdict("y")) == []


def test_in_a_watch_the_steady_status_is_recorded() -> None:
    recorder = RoundRecorder(30.0, None)
    better = replace(verdict("x"), steady=Steady("unknown", "unknown", "healthy"))
    recorded(recorder, checkup(0), verdict("x", "unknown"))
    assert recorded(recorder, checkup(1), better) == [("seen", "x", "unknown")]


def test_a_round_that_is_cut_off_leaves_nothing() -> None:
    recorder = RoundRecorder(30.0, None)
    coming = recorder.through(checkup(0), [verdict("x"), verdict("y")])
    next(coming)
    coming.close()  # type: ignore[attr-defined]
    assert recorder.rows == []
    assert len(recorded(recorder, checkup(1), verdict("x"), verdict("y"))) == 2


def test_a_host_is_a_pseudonym_that_stays_the_same(tmp_path: Path) -> None:
    key = key_of(tmp_path)
    assert key == key_of(tmp_path)
    assert (
        host_of("/10.0.0.7:41312", key)
        == host_of("/10.0.0.7:5", key)
        != host_of("/10.0.0.8:5", key)
    )
    assert host_of("/10.0.0.7:41312", None) == "10.0.0.7"
    assert host_of("[::1]:5", None) == "[::1]"
    assert (host_of(None, key), host_of("", None), host_of("odd", None)) == (None, None, "odd")
    assert (tmp_path / ".key").stat().st_mode & 0o777 == 0o600


def test_the_address_that_tells_namesakes_apart_is_not_recorded() -> None:
    label = "w at 10.0.0.7:41312"
    there = ReportedConsumer(label=label, name="w", address="/10.0.0.7:41312")
    stalled = checkups.verdict(
        "stalled", findings=(checkups.finding(consumer=label),), consumers=(there,)
    )
    assert cause_of(stalled).consumer == "w"
    suspect = replace(checkups.STUCK, consumer=label)
    assert cause_of(checkups.suspected(suspects=(suspect,), consumers=(there,))).consumer == "w"
    assert (
        cause_of(checkups.suspected(suspects=(checkups.STUCK,), consumers=(there,))).consumer
        == "ks-stuck"
    )


@pytest.mark.parametrize("text", [None, "", "yesterday", "9999-99-99T00:00:00Z", "\x00"])
def test_what_is_no_time_is_not_reported(text: str | None) -> None:
    assert moment_of(text) is None


def round_at(at: datetime, number: int) -> list[RecordRow]:
    micros = int(at.timestamp() * 1e6)
    return [
        {"schema_version": 1, "seen_at": micros, "kind": "round", "subscriptions": number},
        {"schema_version": 1, "seen_at": micros, "kind": "seen", "topic": "t", "subscription": "s"},
    ]


def kept(folder: Path) -> list[int]:
    """The numbers of the rounds that can be read by another program."""
    files = [str(file) for file in folder.glob("cluster=*/day=*/*.parquet")]
    rows = duckdb.sql(
        f"SELECT subscriptions FROM read_parquet({files!r}) WHERE kind = 'round' ORDER BY seen_at"
    ) if files else None  # fmt: skip
    return [row[0] for row in rows.fetchall()] if rows else []


def keeper(folder: Path, **bounds: Any) -> Keeper:
    return Keeper(folder, "c", **{"seconds": 1e10, "size": 1 << 40, **bounds})


def test_an_hour_becomes_a_file_of_its_day(tmp_path: Path) -> None:
    writing = keeper(tmp_path)
    for minute in range(0, 180, 20):
        writing.append(round_at(NOON + timedelta(hours=10, minutes=minute), minute))
    writing.close()
    assert kept(tmp_path) == list(range(0, 180, 20))
    days = [path.name for path in sorted((tmp_path / "cluster=c").glob("day=*"))]
    assert days == ["day=2026-11-29", "day=2026-11-30"]
    assert not list((tmp_path / "cluster=c").glob(".journal*"))


@pytest.mark.parametrize("lost", range(1, 30))
def test_of_a_journal_that_ends_anywhere_the_whole_rounds_are_kept(
    tmp_path: Path, lost: int
) -> None:
    writing = keeper(tmp_path)
    for number in range(3):
        writing.append(round_at(NOON + timedelta(minutes=number), number))
    os.close(writing._lock)
    (journal,) = (tmp_path / "cluster=c").glob(".journal*")
    os.truncate(journal, journal.stat().st_size - lost)
    again = keeper(tmp_path)
    again.append(round_at(NOON + timedelta(minutes=9), 9))
    again.close()
    assert kept(tmp_path) == [0, 1, 9]


def test_a_byte_that_flips_ends_the_journal_there(tmp_path: Path) -> None:
    writing = keeper(tmp_path)
    for number in range(3):
        writing.append(round_at(NOON + timedelta(minutes=number), number))
    (journal,) = (tmp_path / "cluster=c").glob(".journal*")
    content = bytearray(journal.read_bytes())
    content[-3] ^= 1
    journal.write_bytes(content)
    assert len(list(frames(journal))) == 2


def test_the_oldest_files_are_deleted_by_size_and_by_age(tmp_path: Path) -> None:
    writing = keeper(tmp_path, size=1)
    for hour in range(4):
        writing.append(round_at(NOON + timedelta(hours=hour), hour))
    writing.close()
    assert kept(tmp_path) == [3]
    old = keeper(tmp_path / "b", seconds=3600.0)
    for hour in range(3):
        old.append(round_at(datetime.now(UTC) - timedelta(hours=9 - hour), hour))
    old.close()
    assert kept(tmp_path / "b") == [2]  # the newest stays, whatever its age


@pytest.mark.parametrize(
    "odd", [{"backlog": 10**30}, {"topic": "\ud800"}, {"consumers": [{"permits": -(10**30)}]}]
)
def test_what_no_column_holds_costs_its_value_alone(tmp_path: Path, odd: RecordRow) -> None:
    writing, rows = keeper(tmp_path), round_at(NOON, 7)
    writing.append([*rows, {**rows[1], "backlog": 5, "topic": "u", **odd}])
    writing.close()
    (file,) = tmp_path.glob("cluster=*/day=*/*.parquet")
    assert (kept(tmp_path), pq.read_metadata(file).num_rows) == ([7], 3)


def test_two_watches_do_not_record_the_same_cluster(tmp_path: Path) -> None:
    one = keeper(tmp_path)
    with pytest.raises(InputError, match="another watch records this cluster"):
        keeper(tmp_path)
    one.close()
    keeper(tmp_path).close()


KILLED = """
import os, random, signal, sys, time
from datetime import timedelta
from pathlib import Path
from tests.parts.fleet.test_recording import NOON, keeper, round_at

def write(number, said):
    writing = keeper(Path(sys.argv[1]))
    while True:
        writing.append(round_at(NOON + timedelta(minutes=7 * number), number))
        os.write(said, b"%d\\n" % number)
        number += 1

chance, number = random.Random(5), 0
for _ in range(50):
    heard, said = os.pipe()
    child = os.fork()
    if not child:
        write(number, said)
    os.close(said)
    with os.fdopen(heard) as lines:
        kept = [lines.readline() for _ in range(chance.randrange(1, 30))]
        time.sleep(chance.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kept += list(lines)
    print(*map(int, kept), flush=True)
    number = int(kept[-1]) + 2  # the running round may be there, or not
"""


@OUTSIDE
def test_kills_lose_nothing_but_the_running_round_and_count_nothing_twice(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        capture_output=True, text=True, env=environment(), check=True,
    )  # fmt: skip
    ended = [int(number) for number in run.stdout.split()]
    keeper(tmp_path).close()
    there = kept(tmp_path)
    assert len(run.stdout.splitlines()) == 50
    assert there == sorted(set(there))
    assert set(ended) <= set(there)
    assert len(set(there) - set(ended)) <= 50  # each was running


@pytest.fixture
def replayed() -> Iterator[str]:
    with cluster({"stuck": states(STUCK, later_seconds=3600), "moving": states(MOVING)}) as broker:
        yield broker.url


@OUTSIDE
def test_a_watch_records_verdicts_that_another_program_reads(replayed: str, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    command = ["stall-check", "--all", "--watch", "--every", "5s", "--window", "0s", "-o", "jsonl"]
    with subprocess.Popen(
        [sys.executable, "-m", "pulsar_doctor", *command, "--keep", str(folder),
         "--admin-url", replayed],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(),
    ) as watching:  # fmt: skip
        eventually(lambda: list(folder.glob("cluster=*/.journal-*")), 30)
        watching.send_signal(signal.SIGINT)
        _, stderr = watching.communicate(timeout=30)
    assert b"mistake" not in stderr
    (file,) = folder.glob("cluster=*/day=*/*.parquet")
    rows = pq.read_table(file).to_pylist()
    seen = {row["topic"]: row for row in rows if row["kind"] == "seen"}
    stuck = seen["persistent://public/default/stuck"]
    assert stuck["consumers"][0]["permits"] == 0
    assert len(stuck["consumers"][0]["host"]) == 8
    assert sum(place["least"] for place in stuck["account"]) == stuck["backlog"]
    assert rows[0]["subscriptions"] == len(seen)


@OUTSIDE
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--keep-for", "1d"], "--keep-for needs --keep; add it"),
        (["--keep", "/dev/null/x"], "cannot record in /dev/null/x: Not a directory"),
    ],
)
def test_what_cannot_be_recorded_is_one_sentence(options: list[str], sentence: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pulsar_doctor", "stall-check", "--all", "--watch", *options],
        capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip
    assert (run.returncode, sentence in run.stderr) == (2, True), run.stderr
