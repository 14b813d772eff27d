"""`stall-check --usual DIR`: what earlier days show of this hour; no verdict changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pulsar_doctor.diagnosis.usual import Usual
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.fleet.journal import hour_file, write_hour
from pulsar_doctor.parts.fleet.usual import Habits, read
from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from pulsar_doctor.report.stall_check.document import as_json
from tests.support import eventually

if TYPE_CHECKING:
    import pulsar

TOPIC, NOW = "persistent://shop/team/orders", datetime(2026, 11, 29, 23, 20, tzinfo=UTC)
SILENT: dict[str, Any] = {"status": "unknown", "backlog": 40, "comes_in": 0.0, "acknowledged": 0.0}
BUSY: dict[str, Any] = {"status": "healthy", "backlog": 2, "comes_in": 12.0, "acknowledged": 12.0}
STALLED = SILENT | {"status": "stalled"}
NIGHT = (22, 23, 0)
WRITTEN = (21, 22, 23, 0, 1, 14)  # hours; the others would only take time
Run = Callable[..., tuple[int, str, str]]


def write(
    folder: Path,
    nights: Sequence[dict[str, Any]],
    *,
    topic: str = TOPIC,
    now: datetime = NOW,
    hours: Sequence[int] = NIGHT,
    written: Sequence[int] = WRITTEN,
) -> Path:
    """A record of days before `now`, the newest first: in these hours so, else busy."""
    for back, so in enumerate(nights, 1):
        midnight = (now - timedelta(days=back)).replace(hour=0, minute=0, second=0, microsecond=0)
        for hour in written:
            at = midnight + timedelta(hours=hour)
            row = {
                "schema_version": 1, "kind": "seen", "topic": topic, "subscription": "billing",
                **(so if hour in hours else BUSY),
            }  # fmt: skip
            row["sent_out"] = row["acknowledged"]
            first = int(at.timestamp() * 1e6)
            rows = [row | {"seen_at": first + quarter * 900_000_000} for quarter in range(4)]
            file = hour_file(folder / "cluster=made", f"{at:%Y%m%dT%H%M%S}000000")
            file.parent.mkdir(parents=True, exist_ok=True)
            write_hour(file, rows)
    return folder


def asked(folder: Path, *, backlog: int = 40, now: datetime = NOW) -> Usual:
    diagnosis = Diagnosis(TOPIC, None, "billing", "Shared", "unknown", (), (), backlog=backlog)
    return Habits(folder / "cluster=made").of(diagnosis, now.timestamp())


def test_silence_at_night_is_usual_and_from_when_until_when(tmp_path: Path) -> None:
    write(tmp_path, [*[SILENT] * 9, BUSY])
    assert str(asked(tmp_path)) == (
        "silence while messages wait is usual here: on 9 of 10 days between 23:00 and 00:00 UTC; "
        "most days from 22:00 to 01:00"
    )
    by_day = asked(tmp_path, now=NOW.replace(hour=14))
    assert (by_day.of.says, by_day.of.resting_days, by_day.of.days) == ("not-usual", 0, 10)
    assert "silence while messages wait is not usual here: on 0 of 10 days" in str(by_day)


def test_a_stall_that_comes_each_night_is_no_habit(tmp_path: Path) -> None:
    found = asked(write(tmp_path, [STALLED] * 10, written=[23]))
    assert (found.of.says, found.of.resting_days, found.of.not_well_days) == ("not-usual", 0, 10)
    assert str(found).endswith("; a stall or a warning on 10")


def test_days_that_differ_and_days_that_are_few_say_no_more_than_that(tmp_path: Path) -> None:
    assert asked(write(tmp_path / "a", [SILENT, BUSY] * 5, written=[23])).of.says == "sometimes"
    few = asked(write(tmp_path / "b", [SILENT] * 4, written=[23]))
    assert (few.of.says, few.since) == ("not-known", None)
    assert asked(write(tmp_path / "c", [SILENT] * 9, topic="other", written=[23])).of.days == 0


def test_an_hour_with_one_quarter_that_moved_is_not_silent(tmp_path: Path) -> None:
    write(tmp_path, [SILENT] * 6, written=[23])
    for file in tmp_path.glob("*/*/*T23*.parquet"):
        rows = pq.read_table(file).to_pylist()
        rows[2] |= {"acknowledged": 1.0}
        write_hour(file, rows)
    assert asked(tmp_path).of.resting_days == 0


def test_today_and_days_longer_ago_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, [SILENT] * 33, now=NOW + timedelta(days=1), written=[23])
    assert asked(tmp_path).of.days == 30


def test_silence_at_every_hour_has_no_begin(tmp_path: Path) -> None:
    found = asked(write(tmp_path, [SILENT] * 5, hours=range(24), written=range(24)))
    assert str(found).endswith("; most days at any hour")


def test_what_moves_is_compared_with_the_usual_traffic(tmp_path: Path) -> None:
    found = asked(write(tmp_path, [BUSY] * 10, written=[23]), backlog=0)
    assert str(found) == (
        "12 messages/s come in, nothing on 0 of 10 days between 23:00 and 00:00 UTC"
    )


def test_a_folder_that_is_no_record_is_one_sentence(run: Run, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    code, out, said = run("stall-check", "orders", "--usual", tmp_path)
    assert (code, out) == (2, "")
    assert "holds no records of `stall-check --all --watch --keep`" in said
    code, _, said = run("stall-check", "--stats", "x.json", "--usual", tmp_path)
    assert code == 2
    assert "--usual compares what a broker reports now; name topics, and no file" in said


@pytest.mark.parametrize(
    "there", [(), (".key",), (".key", "cluster=c/.journal-20261129T160012000000")]
)
def test_before_an_hour_is_finished_nothing_is_known(tmp_path: Path, there: Sequence[str]) -> None:
    for name in there:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    diagnosis = Diagnosis(TOPIC, None, "billing", "Shared", "unknown", (), (), backlog=40)
    usual = read({"usual": str(tmp_path)})(diagnosis)
    assert str(usual) == "not known: no finished hour is recorded yet"
    assert as_json(usual)["says"] == "not-known"


def test_what_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file is not a folder; expected is"):
        read({"usual": str(tmp_path / "file")})
    with pytest.raises(InputError, match="none does not exist"):
        read({"usual": str(tmp_path / "none")})


def test_foreign_parquet_and_two_clusters_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [SILENT] * 2)
    for file in tmp_path.glob("*/*/*T23*.parquet"):
        file.write_bytes(b"PAR1 is no Parquet")
    with pytest.raises(InputError, match="is not read: "):
        asked(tmp_path)
    (tmp_path / "cluster=other").mkdir()
    with pytest.raises(InputError, match="several clusters; copy one to read: cluster=made and"):
        read({"usual": str(tmp_path)})


def test_a_live_verdict_is_the_same_with_a_record_that_calls_it_usual(
    broker: Sandbox, client: pulsar.Client, topic: str, run: Run, tmp_path: Path
) -> None:
    consumer = client.subscribe(topic, "billing", consumer_name="worker", receiver_queue_size=10)
    producer = client.create_producer(topic, batching_enabled=False)
    for _ in range(30):
        producer.send(b"x")
    eventually(lambda: consumer.receive(timeout_millis=5000))
    now = datetime.now(UTC)
    near = [now.hour, (now.hour + 1) % 24]
    nights = [*[SILENT] * 27, *[BUSY] * 3]
    write(tmp_path, nights, topic=topic, now=now, hours=near, written=near)
    watched = ("-q", "stall-check", topic, "--admin-url", broker.admin_url, "--window", "2s")
    code, out, _ = run(*watched, "-o", "json", "--usual", tmp_path)
    (judged,) = json.loads(out)["subscriptions"]
    usual = judged["usual"]
    assert (usual["says"], usual["resting_days"], usual["days"]) == ("usual", 27, 30)
    assert (usual["rests"], usual["hour"] in near) == (True, True)
    alone, out, _ = run(*watched, "-o", "json")
    (other,) = json.loads(out)["subscriptions"]
    assert "usual" not in other
    assert (code, judged["status"]) == (alone, other["status"])
    assert judged["status"] != "healthy"
    for words in ((), ("-v",)):
        _, out, _ = run(*watched, *words, "--usual", tmp_path)
        shown = " ".join(out.split())
        assert "silence while messages wait is usual here: on 27 of 30 days" in shown
