"""A ring keeps the newest part of a trace: not less than it should, not more than it may."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
import zlib
from pathlib import Path

import pytest

from pulsar_doctor.errors import InputError, TraceError
from pulsar_doctor.ledger.incarnations import ENDED_KEPT_MOST
from pulsar_doctor.trace import folder, ring
from pulsar_doctor.trace.keeping import kept_in
from pulsar_doctor.trace.missing import EXPIRED_CODE, GAPS_CODE
from pulsar_doctor.trace.reading import Trace
from pulsar_doctor.trace.ring import MIB, RingLimits, shares
from pulsar_doctor.trace.sealing import Sealer, open_trace
from pulsar_doctor.trace.verifying import verify
from pulsar_doctor.wire.columns import GAP, TO_BROKER, TO_CLIENT
from pulsar_doctor.wire.journal import pack_event
from tests.made.traces import relay_alive, rotating, values, write_trace
from tests.made.wire import Wire, record, slow_consumer
from tests.parts.tap.tapped import tapping
from tests.support import eventually
from tests.support.command_line import answered
from tests.trace.flooded import Flood, observer

BLOCKS = slow_consumer(400).close().blocks  # about 40 s, half a second from one ack to the next
PARTS = 20


def ring_trace(
    path: Path, blocks: list[bytes] = BLOCKS, parts: int = PARTS, **limits: object
) -> Path:
    write_trace(path, blocks, parts=parts)
    ring.begin(path, RingLimits(**limits))
    return path


def sealed(path: Path) -> Trace:
    with Sealer(path) as sealer:
        sealer.finish()
    return Trace(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The same trace with everything kept."""
    return open_trace(write_trace(tmp_path_factory.mktemp("whole"), BLOCKS, parts=PARTS))


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sealed(ring_trace(tmp_path_factory.mktemp("later"), ring_seconds=10)).path


@pytest.fixture
def trace(later: Path, tmp_path: Path) -> Path:
    """A ring that the test may damage."""
    return shutil.copytree(later, tmp_path / "r.ptrace")


# --- shares ---


@pytest.mark.parametrize("max_bytes", [8 * MIB, 9_000_001, 64 * MIB, 1 << 30, 1 << 40])
def test_the_shares_are_together_no_more_than_what_is_allowed(max_bytes: int) -> None:
    limits = shares(300, max_bytes, 60)
    assert limits.ring_bytes_most is not None
    assert limits.kept_bytes_most is not None
    together = limits.journal_bytes_most + limits.ring_bytes_most + limits.kept_bytes_most
    assert max_bytes * 0.95 < together + ring.OWN_BYTES <= max_bytes
    assert limits.kept_bytes_most > limits.ring_bytes_most, "what is kept may be a whole ring"
    assert limits.rotate_bytes * 8 <= limits.journal_bytes_most
    assert limits.rotate_bytes * 8 <= limits.ring_bytes_most
    assert limits.rotate_bytes <= 64 * MIB


@pytest.mark.parametrize(
    ("ring_seconds", "seal_every", "rotate_seconds"),
    [(None, 60, 60), (300, 60, 30), (3600, 60, 60), (5, 60, 0.5), (300, 7, 7)],
)
def test_a_fine_ring_has_short_segments(
    ring_seconds: float | None, seal_every: float, rotate_seconds: float
) -> None:
    limits = shares(ring_seconds, None, seal_every)
    assert limits.rotate_seconds == rotate_seconds
    assert limits.bounded == (ring_seconds is not None)
    assert (limits.rotate_bytes, limits.ring_bytes_most) == (64 * MIB, None)


@pytest.mark.parametrize(
    ("ring_seconds", "max_bytes", "sentence"),
    [
        (4.9, None, "--ring keeps at least 5 s of a trace"),
        (300, 8 * MIB - 1, "--max-bytes takes at least 8 MiB, not 8388607"),
    ],
)
def test_too_little_of_either_is_wrong_usage(
    ring_seconds: float, max_bytes: int | None, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        shares(ring_seconds, max_bytes, 60)


# --- by time ---


def test_so_much_is_kept_and_at_most_one_segment_more(later: Path, whole: Trace) -> None:
    trace = Trace(later)
    parts, end_ns = trace.parts(), whole.timeline().now_ns
    before = trace.expired()
    assert before.through == parts[0].number - 1
    assert end_ns - before.until_ns >= 10e9, "less than the ring is there"
    assert end_ns - parts[0].until_ns < 10e9, "a segment is there that is older than the ring"
    assert 4 < len(parts) < PARTS - 5


def test_the_trace_simply_starts_later(later: Path, whole: Trace) -> None:
    trace, rows = Trace(later), values(whole.rows())
    expired = trace.expired().rows
    assert values(trace.rows()) == rows[expired:]
    assert next(trace.rows()).seq == expired > 100
    assert trace.timeline().state() == whole.timeline().state()
    assert trace.notes == [f"the trace starts at 2026-09-21T14:13:49Z: {expired} rows have expired"]


def test_what_has_gone_is_gone_from_the_folder(later: Path) -> None:
    numbers = [part.number for part in Trace(later).parts()]
    assert folder.numbers(later, "seg-*.parquet") == numbers
    assert folder.numbers(later, ".state-*") == [numbers[0] - 1, *numbers]
    assert folder.journals(later) == []


def test_verify_knows_a_ring(later: Path, whole: Trace) -> None:
    found = verify(later)
    assert (found.status, found.problems, found.notes) == ("ended", [], [])
    rows = sum(1 for _ in whole.rows())
    assert found.rows + found.expired.rows == found.seen == rows
    assert 0 < found.rows < rows


@pytest.mark.parametrize("lost", [1, 2])
def test_without_some_of_the_saved_ledgers_they_come_from_those_before(
    trace: Path, whole: Trace, lost: int
) -> None:
    for number in folder.numbers(trace, ".state-*")[-lost:]:
        (trace / folder.state_name(number)).write_bytes(b"{")
    assert Trace(trace).timeline().state() == whole.timeline().state()


def test_a_small_ring_has_room_for_the_ledgers_of_a_thousand_who_came_and_went(
    tmp_path: Path,
) -> None:
    """Where it has not, each end reads all of it anew, and knows nothing of who came before."""
    said = slow_consumer(40)
    for number in range(1, 1100):
        said.open(number).attached(2, uuid.uuid4().hex, conn_id=number).flow(1000, 2, number)
        said.pushed(range(number, number + 3), 2, conn_id=number).close(number).wait(0.1)
    limits = shares(None, 16 * MIB, 60)
    path = write_trace(tmp_path / "t.ptrace", said.blocks, parts=4)
    ring.begin(path, limits)
    with Sealer(path) as sealer:
        sealer.finish()
        exact = sealer.timeline.state()
    assert len(exact["ended"]) == ENDED_KEPT_MOST
    assert folder.numbers(path, ".state-*")[-1] == 4
    assert folder.read_state(path, 4) == json.loads(json.dumps(exact))


def test_ledgers_that_unpack_to_more_than_ledgers_do_are_not_relied_on() -> None:
    there = {"next_seq": 7}
    assert folder.state_of(folder.state_bytes(there)) == there
    swollen = folder.state_bytes({"next_seq": 7, "a": " " * 2 * folder.SMALL_BYTES_MOST})
    assert len(swollen) < folder.SMALL_BYTES_MOST // 100
    assert folder.state_of(swollen) is None
    head, _, body = folder.state_bytes(there).partition(b"\n")
    for broken in (body[:-6], b"", b"{}"):
        whole = json.loads(head) | {"crc32": zlib.crc32(broken)}
        assert folder.state_of(json.dumps(whole).encode() + b"\n" + broken) is None


def test_without_any_of_them_nothing_is_known_of_who_subscribed_before(trace: Path) -> None:
    for number in folder.numbers(trace, ".state-*"):
        (trace / folder.state_name(number)).unlink()
    again = Trace(trace)
    timeline = again.timeline()
    (consumer,) = timeline.consumers
    assert (consumer.consumer_name, consumer.incarnation, consumer.ledger.uncertain) == (
        "slow", 1, True,
    )  # fmt: skip
    assert timeline.next_seq == [row.seq for row in again.rows()][-1] + 1
    assert consumer.closed_us is not None
    found = verify(trace)
    assert (found.status, found.problems) == ("ended", [])
    assert found.notes == ["the ledgers where it starts are lost: they could not be checked"]


def test_who_subscribes_later_is_known_without_the_saved_ledgers(tmp_path: Path) -> None:
    said = slow_consumer(400)
    brief = Wire().open(3).attached(9, "brief", conn_id=3).close(3)  # it has expired, and counts
    said.blocks[4:4] = brief.blocks
    said.attached(2, "new").flow(10, 2).pushed(range(400, 405), 2)
    said.open(1).attached(7, "newer", conn_id=1).flow(3, 7, conn_id=1)
    exact = open_trace(write_trace(tmp_path / "exact", said.blocks)).timeline()
    trace = sealed(ring_trace(tmp_path / "ring", said.blocks, ring_seconds=10))
    for path in trace.path.glob(".state-*"):
        path.unlink()
    known = {each.consumer_name: each for each in trace.timeline().consumers}
    assert list(known) == ["slow", "new", "newer"]
    for each in exact.consumers[2:]:
        found = known[each.consumer_name]
        assert (found.incarnation, found.conn_id) == (each.incarnation, each.conn_id)
        assert found.ledger.available_permits == each.ledger.available_permits
        assert not found.ledger.uncertain


def test_who_was_closed_before_does_not_come_back_with_the_answer(tmp_path: Path) -> None:
    said = Wire().open().attached().flow(10)
    said.say(TO_BROKER, record("CLOSE_CONSUMER", consumer_id=1, request_id=7)).wait(60)
    said.say(TO_CLIENT, record("SUCCESS", request_id=7))
    path = ring_trace(tmp_path, said.blocks, len(said.blocks), ring_seconds=10)
    trace = sealed(path)
    assert [(row.command, row.consumer_name) for row in trace.rows()] == [("SUCCESS", "slow")]
    for state in path.glob(".state-*"):
        state.unlink()
    assert Trace(path).timeline().consumers == []


def test_a_quiet_time_counts_too(tmp_path: Path) -> None:
    """A ring of ten seconds after a minute of silence: the ledgers are there, the rows are not."""
    said = slow_consumer(100)
    for _ in range(10):
        said.wait(6)
    exact = open_trace(write_trace(tmp_path / "exact", said.blocks)).timeline()
    trace = sealed(ring_trace(tmp_path / "ring", said.blocks, len(said.blocks), ring_seconds=10))
    assert list(trace.rows()) == []
    assert trace.timeline().state() == exact.state()
    assert (verify(trace.path).problems, verify(trace.path).seen) == ([], exact.next_seq)


def test_commands_that_were_dropped_and_then_expired_are_counted(tmp_path: Path) -> None:
    said = Wire().open().attached().flow(10)
    said.say(TO_CLIENT, pack_event(GAP, dropped=7), conn_id=-1)
    for _ in range(30):
        said.wait(1).flow(1)
    said.say(TO_CLIENT, pack_event(GAP, dropped=5), conn_id=-1)
    path = sealed(ring_trace(tmp_path, said.blocks, ring_seconds=10)).path
    found = verify(path)
    assert (found.expired.gaps, found.expired.dropped) == (1, 7)
    assert (found.gaps, found.dropped) == (1, 5)
    assert found.problems == []
    records = 5 + 30
    assert found.seen == records + 7 + 5
    assert found.missing.exit_code == GAPS_CODE


def test_a_gap_that_has_expired_leaves_no_doubt_about_whoever_came_later(tmp_path: Path) -> None:
    said = Wire().open()
    said.say(TO_CLIENT, pack_event(GAP, dropped=7), conn_id=-1).wait(1).attached()
    for _ in range(30):
        said.wait(1).flow(1)
    path = ring_trace(tmp_path, [], 1, ring_seconds=10)
    doubted = []
    with relay_alive(path), Sealer(path) as sealer:
        for _ in rotating(path, said.blocks, parts=12):
            sealer.follow()
            doubted += [each.incomplete for each in sealer.timeline.subscriptions()]
    assert doubted == sorted(doubted, reverse=True)
    assert set(doubted) == {True, False}
    assert verify(path).missing.exit_code == EXPIRED_CODE
    assert not any(each.incomplete for each in Trace(path).timeline().subscriptions())


@pytest.mark.parametrize("step", [1, 2])
def test_a_crash_while_segments_are_dropped_changes_nothing(
    tmp_path: Path, later: Path, step: int
) -> None:
    path = ring_trace(tmp_path / "ring", ring_seconds=1e9)
    sealed(path)
    dropping = ring.Ring(path, RingLimits(ring_seconds=10))
    expired = len(dropping.index.parts) - len(Trace(later).parts())
    for done in dropping.dropping_steps(expired):
        if done == step:
            shutil.copytree(path, tmp_path / "crashed")
    crashed = tmp_path / "crashed"
    for reader in (Trace, open_trace):
        assert values(reader(crashed).rows()) == values(Trace(later).rows())
    assert verify(crashed).problems == []
    sealed(crashed)
    ours = sorted(path.name for path in later.iterdir())
    assert sorted(path.name for path in crashed.iterdir()) == ours
    assert Trace(crashed).parts() == Trace(later).parts()


def test_a_ring_that_goes_on_after_a_crash_counts_on(tmp_path: Path, later: Path) -> None:
    path = ring_trace(tmp_path, [], 1, ring_seconds=10)
    with relay_alive(path):
        for number in rotating(path, BLOCKS, parts=PARTS):
            if number % 3 == 2:
                with Sealer(path) as sealer:
                    sealer.follow()
    sealed(path)
    assert Trace(path).expired() == Trace(later).expired()
    assert values(Trace(path).rows()) == values(Trace(later).rows())


def test_a_reader_does_not_mind_that_parts_expire(tmp_path: Path, whole: Trace) -> None:
    path = ring_trace(tmp_path, ring_seconds=1e9)
    sealed(path)
    trace = Trace(path)
    reading = trace.rows()
    seen = [next(reading)]
    gone = ring.Ring(path, RingLimits(ring_seconds=10))
    gone.expire(whole.timeline().now_ns)
    seen += reading
    numbers = [row.seq for row in seen]
    first = whole.parts()[0].rows
    assert numbers == [*range(first), *range(gone.index.expired.rows, len(list(whole.rows())))]
    assert "rows expired while" in trace.notes[-1]
    assert trace.timeline().state() == whole.timeline().state()


def test_a_segment_that_is_missing_is_damage_and_no_expiry(trace: Path) -> None:
    number = Trace(trace).parts()[1].number
    (trace / folder.segment_name(number)).unlink()
    with pytest.raises(TraceError, match="is missing"):
        list(Trace(trace).rows())
    assert verify(trace).problems == [f"{folder.segment_name(number)} is missing"]


@pytest.mark.parametrize(
    ("expired", "problem"),
    [
        ({"rows": 5}, "goes on at row"),
        ({"through": 3}, "nothing is there of what lay before part"),
        ({"through": -1}, "line 1 of"),
        ({"and": 1}, "line 1 of"),
        (7, "line 1 of"),
    ],
)
def test_a_list_that_tells_another_beginning_gives_itself_away(
    trace: Path, expired: object, problem: str
) -> None:
    index = trace / folder.INDEX
    first, *rest = index.read_text().splitlines(keepends=True)
    values = json.loads(first)["expired"]
    changed = {**values, **expired} if isinstance(expired, dict) else expired
    head = {"expired": changed}
    proved = head | {"crc32": zlib.crc32(json.dumps(head).encode())}
    index.write_text("".join([json.dumps(proved) + "\n", *rest]))
    found = verify(trace)
    assert found.status == "damaged"
    assert any(problem in said for said in found.problems), found.problems


def test_limits_that_are_damaged_are_said_before_anything_is_lost(trace: Path) -> None:
    (trace / folder.RING).write_text("[]")
    with pytest.raises(TraceError, match=r"_ring.json is damaged"):
        Sealer(trace)


# --- by bytes ---


def disk_bytes(path: Path) -> int:
    """What a folder takes on the disk; hard links count once, as `du` counts."""
    seen: dict[int, int] = {}
    for folder_path, _, files in os.walk(path):
        for each in [Path(folder_path), *(Path(folder_path) / name for name in files)]:
            try:
                status = each.lstat()
            except FileNotFoundError:
                continue
            seen[status.st_ino] = max(status.st_blocks * 512, 0)
    return sum(seen.values())


def test_bytes_are_bounded_and_the_newest_stay(tmp_path: Path, whole: Trace) -> None:
    path = ring_trace(tmp_path, ring_bytes_most=300_000)
    with Sealer(path) as sealer:
        for number in range(1, PARTS + 1):
            list(sealer.sealing_steps(list(range(number, PARTS + 1))))
            assert len(Trace(path).parts()) >= min(number, 8)
    trace = Trace(path)
    assert disk_bytes(path) < 300_000 + 40_000
    rows = values(whole.rows())
    kept = values(trace.rows())
    assert 0 < len(kept) < len(rows)
    assert kept == rows[-len(kept) :]
    assert verify(path).problems == []
    assert verify(path).seen == len(rows)


@pytest.mark.parametrize(
    ("entries", "parts", "ring_bytes"), [(40_000, 1, 32_000), (400, PARTS, 10_000)]
)
def test_a_segment_that_is_larger_than_the_ring_expires_at_once(
    tmp_path: Path, entries: int, parts: int, ring_bytes: int
) -> None:
    blocks = slow_consumer(entries, queue=1000 if parts == 1 else 10).close().blocks
    exact = Trace(write_trace(tmp_path / "exact", blocks)).timeline()
    path = ring_trace(tmp_path / "ring", blocks, parts, ring_bytes_most=ring_bytes)
    with Sealer(path) as sealer:
        sealer.finish()
        assert sealer.trouble is None
        assert sealer.timeline.state() == exact.state()
    trace = Trace(path)
    assert (trace.parts(), trace.expired().rows) == ([], exact.next_seq)
    assert not list(path.glob("*.tmp")) + list(path.glob(".seg*"))
    assert verify(path).problems == []
    if parts == 1:
        assert trace.timeline().state() == exact.state(), "there was room for these"


# --- what is kept ---


def test_what_was_kept_is_a_trace_of_its_own(trace: Path, whole: Trace) -> None:
    rows, ledgers = values(Trace(trace).rows()), whole.timeline().state()
    with Sealer(trace) as sealer:
        kept = sealer.keep("billing stands still", sealer.sealed)
    assert kept is not None
    assert kept.parent == trace / "_kept"
    assert values(open_trace(kept).rows()) == rows
    assert open_trace(kept).timeline().state() == ledgers
    assert "billing stands still" in Trace(kept).notes[0]
    assert Trace(kept).meta.trace_id == Trace(trace).meta.trace_id
    found = verify(kept)
    assert (found.status, found.problems) == ("kept", [])
    for path in kept.glob("seg-*"):
        assert path.stat().st_nlink == 2, "a copy takes room of its own"


def test_it_stays_when_the_ring_goes_on(tmp_path: Path, whole: Trace) -> None:
    path = ring_trace(tmp_path, [], 1, ring_seconds=5)
    kept = None
    with relay_alive(path), Sealer(path) as sealer:
        for number in rotating(path, BLOCKS, parts=PARTS):
            sealer.follow()
            if kept is None and number == 10:
                kept = sealer.keep("a stall", 9)
    assert kept is not None
    sealed(path)
    first, last = (number_of(kept, at) for at in (0, -1))
    assert last < Trace(path).expired().rows
    assert values(open_trace(kept).rows()) == values(whole.rows())[first : last + 1]
    assert verify(kept).problems == verify(path).problems == []
    assert list(path.glob("seg-*")) != list(kept.glob("seg-*"))


def number_of(path: Path, at: int) -> int:
    return [row.seq for row in Trace(path).rows()][at]


def test_it_is_too_early_until_the_last_part_is_sealed(tmp_path: Path) -> None:
    path = ring_trace(tmp_path, parts=3, ring_seconds=1e9)
    with Sealer(path) as sealer:
        list(sealer.sealing_steps([1, 2, 3]))
        assert sealer.keep("", 2) is None
        assert not (path / "_kept").exists()
        sealer.finish()
        assert sealer.keep("", 3) is not None
    with Sealer(write_trace(tmp_path / "no ring", BLOCKS)) as sealer:
        assert sealer.keep("", 0) == tmp_path / "no ring"


def test_the_newest_twenty_are_kept(later: Path, tmp_path: Path) -> None:
    path = ring_trace(tmp_path, parts=24, ring_seconds=1e9)
    with Sealer(path) as sealer:
        for number in range(1, 25):
            list(sealer.sealing_steps(list(range(number, 25))))
            sealer.keep("again", number)
    throughs = [int(each.name.split("-")[1].split(".")[0]) for each in kept_in(path)]
    assert throughs == list(range(5, 25))


def test_with_a_limit_of_bytes_the_oldest_go_and_the_newest_stays(tmp_path: Path) -> None:
    path = ring_trace(tmp_path, ring_bytes_most=200_000, kept_bytes_most=260_000)
    with Sealer(path) as sealer:
        for number in range(1, PARTS + 1):
            list(sealer.sealing_steps(list(range(number, PARTS + 1))))
            kept = sealer.keep("often", number)
            assert kept_in(path)[-1] == kept
            assert disk_bytes(path / "_kept") <= 460_000
    assert 1 <= len(kept_in(path)) < 10
    for each in kept_in(path):
        assert verify(each).problems == []


def test_the_newest_stays_even_if_it_is_larger_than_its_share(tmp_path: Path) -> None:
    path = ring_trace(tmp_path, parts=3, kept_bytes_most=1)
    with Sealer(path) as sealer:
        for number in (1, 2, 3):
            list(sealer.sealing_steps(list(range(number, 4))))
            kept = sealer.keep("often", number)
            assert kept_in(path) == [kept]


def test_what_a_crash_left_of_keeping_is_removed(trace: Path) -> None:
    with Sealer(trace) as sealer:
        kept = sealer.keep("x", 0)
    assert kept is not None
    kept.rename(kept.with_name(f".{kept.name}.tmp"))
    assert kept_in(trace) == []
    Sealer(trace).close()
    assert list((trace / "_kept").iterdir()) == []


def test_nothing_of_it_is_a_table_for_spark(trace: Path) -> None:
    with Sealer(trace) as sealer:
        sealer.keep("x", 0)
    seen = [path for path in trace.iterdir() if not path.name.startswith((".", "_"))]
    assert [path.suffix for path in seen] == [".parquet"] * len(Trace(trace).parts())


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = ring_trace(tmp_path, parts=3, ring_seconds=1e9)
    (path / folder.META).chmod(0o600)
    for each in path.glob(".journal*"):
        each.chmod(0o600)
    with Sealer(path) as sealer:
        sealer.finish()
        sealer.keep("x", 0)
    for each in path.rglob("*"):
        if each.is_file():
            assert each.stat().st_mode & 0o077 == 0, each


# --- a guarantee ---


SMALL = RingLimits(
    rotate_seconds=1.0,
    rotate_bytes=128 * 1024,
    journal_bytes_most=MIB,
    ring_bytes_most=256 * 1024,
    kept_bytes_most=320 * 1024,
)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("as it should be", marks=pytest.mark.slow),
        pytest.param("killed again and again", marks=pytest.mark.slow),
        pytest.param("slow", marks=pytest.mark.slow),
        pytest.param("dead", marks=pytest.mark.slow),
    ],
)
def test_a_flood_never_takes_more_room_than_is_allowed(tmp_path: Path, way: str) -> None:
    """Looked at all the time, while a relay writes as fast as it can."""
    path = tmp_path / "t"
    allowed = SMALL.journal_bytes_most + (256 + 320) * 1024 + ring.OWN_BYTES
    most, looks = 0, 0
    with tapping(path, limits=SMALL) as tapped:
        ring.begin(path, SMALL)
        watching = None if way in ("slow", "dead") else observer(path)
        sealer = Sealer(path) if way == "slow" else None
        flood = Flood(tapped, 200_000, rows_a_second=80_000)
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            most = max(most, disk_bytes(path))
            looks += 1
            if sealer is not None and looks % 20 == 0:
                sealer.follow()
                sealer.keep("a look", 0)
            if watching is not None and way.startswith("killed") and looks % 40 == 0:
                watching.kill()
                watching.wait()
                watching = observer(path)
        flood.over.set()
        flood.join()
        for peer in (flood.client, flood.broker):
            peer.sock.close()
        eventually(lambda: tapped.relay.counters()["connections_open"] == 0)
        tapped.relay.flush()
        counters = tapped.relay.counters()
    if sealer is not None:
        sealer.close()
    if watching is not None:
        assert watching.wait(60) == 0
    most = max(most, disk_bytes(path))
    open_trace(path)
    assert max(most, disk_bytes(path)) <= allowed
    found = verify(path)
    assert counters["records_dropped"] + found.expired.rows > 10_000, "it was no flood"
    assert found.problems == []
    assert found.seen == counters["records_seen"]
    assert found.dropped + found.expired.dropped == counters["records_dropped"]
    for kept in kept_in(path):
        assert verify(kept).problems == []


# --- on the command line ---


def test_every_subcommand_reads_a_ring_and_what_was_kept_of_it(trace: Path) -> None:
    with Sealer(trace) as sealer:
        kept = sealer.keep("billing stands still", 0)
    later = "the trace starts at 2026-09-21T14:13:49Z: 422 rows have expired"
    for path in (trace, kept):
        summary = answered("trace", "summary", str(path), "-o", "json")
        (consumer,) = json.loads(summary.stdout)["consumers"]
        assert (consumer["consumer_name"], consumer["certain"]) == ("slow", True)
        assert later in summary.stderr
        assert ("billing stands still" in summary.stderr) == (path == kept)
        shown = answered("trace", "show", str(path), "-n", "1", "-o", "jsonl")
        assert json.loads(shown.stdout)["seq"] == 422
        checked = answered("stall-check", "--trace", str(path), "-o", "json")
        assert json.loads(checked.stdout)["subscriptions"][0]["subscription"] == "billing"
        verified = json.loads(answered("trace", "verify", str(path), "-o", "json").stdout)
        assert (verified["status"], verified["problems"], verified["expired_rows"]) == (
            "ended" if path == trace else "kept", [], 422,
        )  # fmt: skip
        assert verified["seen"] == verified["rows"] + 422
    said = " ".join(answered("trace", "verify", str(kept)).stdout.split())  # it is wrapped
    assert "sound, kept of a ring that went on, but its beginning has expired" in said
    assert "422 rows have expired" in said
