"""`pulsar-doctor fleet` on small made fleets: what was planted is what Spark finds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.fleet import answering
from pulsar_doctor.parts.fleet.answering import ANSWERS, BETWEEN, ONLY_SAVED
from pulsar_doctor.parts.fleet.journal import hour_file, write_hour
from tests.parts.fleet import twin
from tests.parts.fleet.made import BEGIN, BEGIN_US, DAY, ENDS, HOUR, OLD, MadeFleet, Stall

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES = {"remedy": BEGIN.timestamp() + DAY}


def made(days: int, **stalls: Stall) -> MadeFleet:
    """A subscription for each stall, ended as it says."""
    fleet = MadeFleet(max(1, len(stalls)), days, events=0)
    for each, stall in zip(fleet.all, stalls.values(), strict=False):
        fleet._end(each, stall)
        each.stalls.append(stall)
    return fleet


def asked(spark: SparkSession, records: Path, kept: Path | None = None) -> dict[str, Any]:
    folder = None if kept is None else str(kept)
    made = answering.answers(spark, [str(records)], folder, lambda _: nullcontext(), VALUES)
    return {name: [row.asDict() for row in table.collect()] for name, table in made}


def episodes(spark: SparkSession, records: Path) -> list[dict[str, Any]]:
    """The first table; the others are not made."""
    made = answering.answers(spark, [str(records)], None, lambda _: nullcontext())
    name, table = next(made)
    assert name == "episodes"
    return [row.asDict() for row in table.collect()]


def since_begin(moment: datetime | None) -> float | None:
    aware = moment and moment.replace(tzinfo=moment.tzinfo or UTC)
    return aware and aware.timestamp() - BEGIN.timestamp()


def test_an_episode_has_its_begin_its_end_and_what_ended_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    begins = {end: 2 * HOUR + 1800 * number for number, end in enumerate(ENDS)}
    stalls = {end: Stall(at, at + 3 * HOUR, "paused", end) for end, at in begins.items()}
    made(1, **stalls).write(tmp_path)
    found = {row["ended_by"]: row for row in episodes(spark, tmp_path)}
    assert {end: row["seconds"] for end, row in found.items()} == dict.fromkeys(ENDS, 3 * HOUR)
    assert {row["cause"] for row in found.values()} == {"paused"}
    assert found["restart"]["consumer"] == "worker-0"
    assert found["new version"]["next_versions"] != found["new version"]["versions"]


def handmade(folder: Path, rows: int, **of: Callable[[int], Any]) -> Mapping[str, twin.Rows]:
    """What DuckDB finds of a quiet subscription: a row each quarter of an hour, with `of`."""
    made = [
        {
            "schema_version": 1, "kind": "seen", "topic": "t", "subscription": "s",
            "seen_at": BEGIN_US + at * 900_000_000, "status": "healthy",
            "consumers": consumers(("w", 0, 0.0)),
        } | {name: value(at) for name, value in of.items()}
        for at in range(rows)
    ]  # fmt: skip
    file = hour_file(folder / "cluster=made", "20261001T000000000000")
    file.parent.mkdir(parents=True)
    write_hour(file, made)
    return twin.tables(folder, VALUES)


def consumers(*those: tuple[str, int, float]) -> list[dict[str, Any]]:
    """Name, unacknowledged messages and rate of each, with a queue of 10."""
    return [
        {"name": name, "version": OLD, "connected": BEGIN_US, "permits": 10 - held,
         "unacked": held, "rate": rate, "queue_size": None}
        for name, held, rate in those
    ]  # fmt: skip


def test_who_had_no_consumer_is_ended_by_one_that_came(tmp_path: Path) -> None:
    found = handmade(
        tmp_path, 4,
        status=lambda at: "warning" if at < 2 else "healthy",
        cause=lambda at: "no-consumer" if at < 2 else None,
        consumers=lambda at: [] if at < 2 else consumers(("w", 0, 1.0)),
    )  # fmt: skip
    assert [row["ended_by"] for row in found["episodes"]] == ["a consumer came"]


def test_who_waits_for_messages_has_no_wrong_queue_and_hoards_nothing(tmp_path: Path) -> None:
    waits = [(f"w{n}", 0, 0.016) for n in range(12)]
    found = handmade(tmp_path / "waits", 4, consumers=lambda _: consumers(*waits))
    assert found["queues"] == []
    assert [(row["consumers"], row["is_hoarding"]) for row in found["versions"]] == [(12, False)]
    found = handmade(tmp_path / "slow", 4, consumers=lambda _: consumers(("w", 10, 0.016)))
    assert [(row["queue_size"], row["fits"]) for row in found["queues"]] == [(10, 1)]


def test_an_episode_goes_on_over_midnight(spark: SparkSession, tmp_path: Path) -> None:
    made(2, over=Stall(DAY - HOUR, DAY + HOUR, "paused")).write(tmp_path)
    (row,) = episodes(spark, tmp_path)
    assert (row["seconds"], row["ended_by"]) == (2 * HOUR, "nothing seen")


def test_where_nobody_watched_any_more_no_end_is_known(spark: SparkSession, tmp_path: Path) -> None:
    fleet = made(
        3, cut=Stall(DAY - HOUR, DAY + HOUR, "paused"), on=Stall(3 * DAY - 3600, 4 * DAY, "x")
    )
    fleet.write(tmp_path, days=(0, 2))
    found = {row["cause"]: row for row in episodes(spark, tmp_path)}
    assert (found["paused"]["ended"], found["paused"]["ended_by"]) == (None, "not watched")
    assert (found["x"]["ended"], found["x"]["ended_by"]) == (None, "goes on")


@pytest.mark.parametrize(
    ("rounds", "others", "seconds"),
    [
        (range(0, 360, 15), (), 345),  # all that were watched
        ((*range(0, 360, 15), *range(1200, 1800, 15)), (), 345),  # not read in that quarter
        (range(0, 1200, 15), (), 885),
        ((0, 15, 30), (), 30),  # then nobody watched
        (range(0, 360, 15), [(300, "unread")], 285),
        (range(0, 360, 15), [(100, "unread"), (200, "stalled"), (215, "stalled")], 345),
        (range(0, 360, 15), [(300, "healthy")], 300),
    ],
)  # fmt: skip
def test_an_episode_lasts_until_the_last_round_that_could_have_shown_its_end(
    spark: SparkSession, tmp_path: Path, rounds: Iterable[int], others: Any, seconds: int
) -> None:
    """Rows are written at its begin and in the next round, as of no change."""
    seen = [(0, "stalled"), (15, "stalled"), *others]
    rows = [{"kind": "round", "seen_at": at} for at in rounds] + [
        {"kind": "unread" if status == "unread" else "seen", "seen_at": at, "status": status,
         "topic": "t", "subscription": "s", "cause": "paused" if status == "stalled" else None}
        for at, status in seen
    ]  # fmt: skip
    for row in rows:
        row |= {"schema_version": 1, "seen_at": BEGIN_US + row["seen_at"] * 1_000_000}
    file = hour_file(tmp_path / "cluster=made", "20261001T000000000000")
    file.parent.mkdir(parents=True)
    write_hour(file, rows)
    (row,) = episodes(spark, tmp_path)
    (stalled,) = twin.tables(tmp_path, VALUES)["stalled"]
    assert row["seconds"] == stalled["seconds"] == seconds
    if not any(status == "healthy" for _, status in others):
        assert since_begin(row["last_seen"]) == seconds


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    MadeFleet(30, 5, events=30).write(folder)
    return folder


def test_duckdb_makes_the_same_tables_of_the_same_files(
    spark: SparkSession, fleet: Path, tmp_path: Path
) -> None:
    ours, theirs = asked(spark, fleet, tmp_path), twin.tables(fleet, VALUES)
    assert ours.keys() == theirs.keys()
    for name, rows in ours.items():
        assert twin.alike(rows) == twin.alike(theirs[name]), name
    assert ours["episodes"]


def written(kept: Path) -> Mapping[str, int]:
    files = kept.glob("*/cluster=*/day=*/*.parquet")
    return {str(file.relative_to(kept)): file.stat().st_mtime_ns for file in files}


def test_days_are_made_once_and_a_killed_run_is_repaired(
    spark: SparkSession, tmp_path: Path
) -> None:
    records, kept = tmp_path / "records", tmp_path / "kept"
    fleet = made(
        3, a=Stall(DAY - HOUR, DAY + HOUR, "paused"), b=Stall(2 * DAY, 2 * DAY + HOUR, "x")
    )
    fleet.write(records, days=(0,))
    asked(spark, records, kept)
    before = written(kept)
    fleet.write(records, days=(1, 2))
    answers = asked(spark, records, kept)
    after = written(kept)
    assert before.items() <= after.items()
    assert len(after) == 3 * len(before)
    noted = sorted(kept.glob("sources/cluster=*/day=*/*.parquet"))
    noted[1].unlink()  # as if it was killed before that was noted
    again, whole = asked(spark, records, kept), asked(spark, records, tmp_path / "whole")
    assert {name for name, at in written(kept).items() if after.get(name) != at} == {
        name for name in written(kept) if "2026-10-02" in name
    }
    for name in (*BETWEEN, *ANSWERS):
        assert twin.alike(answers[name]) == twin.alike(again[name]) == twin.alike(whole[name]), name


def test_the_command_prints_tables_and_a_document(
    spark: SparkSession, run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    stalls = (Stall(HOUR, 2 * HOUR, "paused"), Stall(3 * HOUR, 4 * HOUR, "paused"))
    made(1, a=stalls[0], b=stalls[1]).write(tmp_path)
    code, out, _ = run("-q", "fleet", tmp_path, "--top", "1")
    assert code == 0
    assert "episodes: times when a subscription was not well (2)" in out
    assert "and 1 row more: --top N, -o json" in out
    code, out, _ = run("-q", "fleet", tmp_path, "-o", "json")
    document = json.loads(out)
    assert document.keys() == {"schema", *BETWEEN, *ANSWERS} - {*ONLY_SAVED, "remedies"}
    assert [row["began"][11:16] for row in document["episodes"]] == ["03:00", "01:00"]


def test_a_folder_of_others_is_not_written_to(spark: SparkSession, fleet: Path) -> None:
    (fleet / "stalled").mkdir()
    mine = fleet / "stalled" / "mine.txt"
    mine.write_text("kept")
    with pytest.raises(InputError, match="which is no saved analysis"):
        asked(spark, fleet, fleet)
    assert mine.read_text() == "kept"


def test_what_is_no_record_is_one_sentence(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    code, out, said = run("-q", "fleet", tmp_path)
    assert (code, out) == (2, "")
    assert "holds no records of `stall-check --all --watch --keep`" in said
