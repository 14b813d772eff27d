"""A journal is damaged before it is sealed: what is behind the damage is read, what is lost is told
by every reader, and nobody calls a subscription healthy.

    pytest -m 'slow or not slow' tests/trace/test_damaged.py -s   prints what thousands have cost
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.errors import TraceError
from pulsar_doctor.parts.analyze.reading import look
from pulsar_doctor.trace import journals
from pulsar_doctor.trace.folder import INDEX, journal_name, segment_name
from pulsar_doctor.trace.reading import Trace
from pulsar_doctor.trace.sealing import Sealer
from pulsar_doctor.trace.verifying import verify
from pulsar_doctor.wire.columns import GAP, TO_BROKER
from pulsar_doctor.wire.journal import (
    FILE_HEADER,
    NO_CONNECTION,
    next_block,
    pack_block,
    pack_event,
    pack_json,
)
from tests.made.damage import KINDS
from tests.made.traces import relay_alive, values, write_trace
from tests.made.wire import Wire, record, slow_consumer

Run = Callable[..., tuple[int, str, str]]
JOURNAL = journal_name(1)
LOST = f"{JOURNAL} was damaged: "
READERS: dict[tuple[str, ...], int] = {
    ("trace", "show"): 0,
    ("trace", "show", "-o", "json", "--since", "1s"): 0,
    ("trace", "summary"): 0,
    ("stall-check", "--trace"): 3,
    ("stall-check", "-o", "jsonl", "--trace"): 3,
    ("stall-check", "-o", "nagios", "--trace"): 3,
    ("holes", "--trace"): 3,
    ("simulate", "-s", "billing", "--process-time", "1ms", "--from-trace"): 0,
}
DOCUMENTS: dict[tuple[str, ...], int] = {
    ("trace", "summary", "-o", "json"): 0,
    ("stall-check", "-o", "json", "--trace"): 3,
    ("holes", "-o", "json", "--trace"): 3,
    ("simulate", "-s", "billing", "--process-time", "1ms", "-o", "json", "--from-trace"): 0,
}


def healthy(entries: int = 200) -> Wire:
    """All is acknowledged, and in the end the consumer waits for more."""
    said = Wire().open().attached().flow(1000)
    for entry in range(entries):
        said.pushed([entry]).acked([entry])
    return said.wait(2.0)


def damaged(path: Path, change: Callable[[bytearray], object], said: Wire | None = None) -> Path:
    write_trace(path, (said or healthy()).blocks)
    content = bytearray((path / JOURNAL).read_bytes())
    change(content)
    (path / JOURNAL).write_bytes(content)
    return path


def one_bit(content: bytearray) -> None:
    content[len(content) // 3] ^= 4


def test_one_flipped_bit_costs_the_commands_of_one_block(tmp_path: Path, run: Run) -> None:
    whole = list(Trace(write_trace(tmp_path / "whole", healthy().blocks)).rows())
    path = damaged(tmp_path / "t", one_bit)
    unsealed = values(Trace(path).rows())
    assert run("trace", "verify", path)[0] == 2
    assert run("stall-check", "--trace", path)[0] == 3
    rows = list(Trace(path).rows())
    assert values(rows) == unsealed
    assert Counter(row.command for row in rows)[GAP] == 1
    assert len(whole) - 1 <= len(rows) <= len(whole)
    code, out, _ = run("trace", "verify", path)
    assert (code, out.splitlines()[0]) == (2, f"{path}: damaged; commands are missing")


@pytest.mark.parametrize("sealed", [True, False])
def test_every_reader_says_what_is_lost_and_none_that_all_is_well(
    tmp_path: Path, run: Run, sealed: bool
) -> None:
    path = damaged(tmp_path / "t", one_bit)
    if sealed:
        with Sealer(path) as sealer:
            sealer.finish()
    for reader, expected in READERS.items():
        with Sealer(path):  # nobody else can seal it
            code, out, err = run(*reader, path)
        assert (code, LOST in err) == (expected, True), reader
        assert "HEALTHY" not in out, reader
        assert "NO WARNING" not in out, reader
    for reader, expected in DOCUMENTS.items():
        with Sealer(path):
            code, out, _ = run(*reader, path)
        document = json.loads(out)
        assert code == expected, reader
        assert LOST in json.dumps(document["notes"]), reader
        assert '"healthy"' not in json.dumps(document.get("subscriptions", [])), reader


def test_the_same_trace_without_damage_is_healthy(tmp_path: Path, run: Run) -> None:
    path = write_trace(tmp_path / "t", healthy().blocks)
    assert run("stall-check", "--trace", path)[0] == 0
    code, out, _ = run("holes", "--trace", path)
    assert (code, "NO WARNING" in out) == (0, True)


def test_an_analysis_says_it_too(tmp_path: Path) -> None:
    found = look([str(damaged(tmp_path / "t", one_bit))], here=True)
    assert any(LOST in note for note in found.notes)
    whole = look([str(write_trace(tmp_path / "u", healthy().blocks))], here=True)
    statuses = [
        each.diagnosis.status for end in (*found.ends, *whole.ends) for each in end.verdicts
    ]
    assert statuses == ["unknown", "healthy"]


def incomplete(path: Path, what: str) -> Path:
    """A trace in which all that is seen is well, and from which something is missing."""
    said = healthy(20)
    if what == "torn":
        return write_trace(path, [*said.blocks, said.blocks[0][:-1]])
    event = pack_json(b"{") if what == "unread" else pack_event(GAP)
    lost = Wire().say(TO_BROKER, event, conn_id=NO_CONNECTION)
    return write_trace(path, [*lost.blocks, *said.blocks])


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize(("what", "code"), [("gap", 4), ("torn", 4), ("unread", 6)])
def test_what_verify_calls_incomplete_is_never_healthy(
    tmp_path: Path, run: Run, what: str, code: int, sealed: bool
) -> None:
    path = incomplete(tmp_path / "t", what)
    if sealed:
        with Sealer(path) as sealer:
            sealer.finish()
            assert [each.incomplete for each in sealer.timeline.subscriptions()] == [True]
    ends = [] if sealed else look([str(incomplete(tmp_path / "u", what))], here=True).ends
    with Sealer(path):
        assert run("trace", "verify", path)[0] == code
        for reader in (("stall-check", "--trace"), ("holes", "--trace")):
            found, out, _ = run(*reader, path)
            assert (found, "HEALTHY" in out, "NO WARNING" in out) == (3, False, False), reader
        page = tmp_path / "page.html"
        assert run("report", path, "-o", page)[0] == 0
    assert run("stall-check", "--case", page)[0] == 3
    assert "HEALTHY" not in page.read_text()
    assert {each.diagnosis.status for end in ends for each in end.verdicts} <= {"unknown"}


def test_a_part_that_is_gone_is_told_by_every_reader(tmp_path: Path, run: Run) -> None:
    path = write_trace(tmp_path / "t", healthy().blocks, parts=3)
    (path / journal_name(2)).unlink()
    code, _, err = run("stall-check", "--trace", path)
    assert (code, "nothing is there of what lay before part 3" in err) == (3, True)
    assert run("trace", "verify", path)[0] == 2


def test_a_last_part_of_which_only_the_ledgers_are_left_is_a_loss(tmp_path: Path, run: Run) -> None:
    path = write_trace(tmp_path / "t", healthy().blocks, parts=2)
    with Sealer(path) as sealer:
        sealer.finish()
    (path / segment_name(2)).unlink()
    lines = (path / INDEX).read_bytes().splitlines(keepends=True)
    (path / INDEX).write_bytes(lines[0])
    lost = "part 2 is lost: .state-000002 is there, and _segments.jsonl does not list it"
    for reader, expected in READERS.items():
        code, out, err = run(*reader, path)
        assert (code, err.count(lost), "HEALTHY" in out) == (expected, 1, False), reader
    code, out, _ = run("trace", "verify", path)
    assert (code, f"  problem: {lost}" in out) == (2, True)
    found = look([str(path)], here=True)
    assert [each.diagnosis.status for end in found.ends for each in end.verdicts] == ["unknown"]
    with relay_alive(path):
        assert run("trace", "verify", path)[0] == 2


def test_a_stall_is_found_behind_the_damage(tmp_path: Path, run: Run) -> None:
    said = Wire().open()
    for _ in range(20):
        said.say(TO_BROKER, record("PING"))
    said.attached().flow(10).pushed(range(10)).acked(range(4)).wait(600)
    path = damaged(tmp_path / "t", lambda content: content.__setitem__(400, 9), said)
    before = damaged(tmp_path / "u", lambda content: None, said)
    assert run("stall-check", "--trace", before)[0] == 1
    code, _, err = run("stall-check", "--trace", path)
    assert (code, LOST in err) == (1, True)


def test_a_damaged_beginning_costs_only_itself(tmp_path: Path) -> None:
    path = damaged(tmp_path / "t", lambda content: content.__setitem__(0, 0))
    rows = list(Trace(path).rows())
    assert [row.command for row in rows[:3]] == [GAP, "OPEN", "CONNECT"]
    assert verify(path).problems == [f"{LOST}{len(FILE_HEADER)} bytes of it are lost"]


def test_a_journal_that_grows_is_followed_beyond_the_damage(tmp_path: Path) -> None:
    blocks = slow_consumer().blocks
    path = write_trace(tmp_path / "t", blocks[:8])
    journal = path / JOURNAL
    rows: list[Any] = []
    with relay_alive(path), Sealer(path, rows.append) as sealer:
        sealer.follow()
        before = len(rows)
        with journal.open("ab") as file:
            file.write(blocks[8][:-1] + bytes([blocks[8][-1] ^ 1]))
        assert (sealer.follow(), sealer.timeline.incomplete) == (0, False), (
            "what follows is not there"
        )
        with journal.open("ab") as file:
            file.write(b"".join(blocks[9:]))
        assert sealer.follow() > 10
        assert rows[before].command == GAP
        assert sealer.timeline.incomplete
        assert all(each.incomplete for each in sealer.timeline.subscriptions())


def test_pieces_of_any_size_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = damaged(tmp_path / "t", one_bit)
    expected = values(Trace(path).rows())
    monkeypatch.setattr(journals, "READ_BYTES", 50)
    monkeypatch.setattr(journals, "SOUGHT_BYTES_MOST", 100)
    assert values(Trace(path).rows()) == expected


def test_a_search_ends_whatever_it_meets() -> None:
    """What looks like the head of a long block, at every place where one fits."""
    head = pack_block([], ts=1_790_000_000_000_000, mono_ns=5)
    much = (bytes([0, 0, 8, 0]) + head[4:]) * 20_000
    assert next_block(much, 0) is None
    assert next_block(bytes(1 << 22), 0) is None
    assert next_block(much[:29] + head, 0) == 29
    assert next_block(much[:29] + head, 6) is None, "it is older than what lies before it"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rounds", [40, pytest.param(5000, marks=pytest.mark.slow)])
def test_whatever_is_damaged_is_told_and_never_healthy(
    tmp_path: Path, run: Run, rounds: int
) -> None:
    data = healthy(40).journal
    whole = values(Trace(write_trace(tmp_path / "whole", healthy(40).blocks)).rows())
    chance, outcomes = random.Random(31), Counter[str]()
    for number in range(rounds):
        kind = KINDS[number % len(KINDS)]
        path = damaged(tmp_path / "t", lambda _: None, healthy(40))
        (path / JOURNAL).write_bytes(now := kind(chance, data))
        outcomes[outcome_of(path, run, whole, data.startswith(now))] += 1
        shutil.rmtree(path)
    print(f"{rounds} damages: {dict(outcomes)}")
    assert outcomes["told"] > 0.8 * rounds


def outcome_of(path: Path, run: Run, whole: list[Any], is_prefix: bool) -> str:
    """told, or why nothing is to be told: nothing has changed, or only whole blocks are missing at
    the end, as where the relay was killed then."""
    try:
        before = values(Trace(path).rows())
    except TraceError:  # its version reads as if it were a newer program's
        before = []
    code, out, err = run("stall-check", "--trace", path)
    verified, said, why = run("trace", "verify", path)
    assert "mistake" not in err
    if before == whole and code == 0 == verified:
        return "harmless"
    if is_prefix and not verify(path).cut_bytes and verified == 0:
        return "ended earlier"
    assert verified in (2, 4), said + why
    assert (code, "HEALTHY" in out) in ((2, False), (3, False)), out
    assert JOURNAL in err, err
    holes, out, err = run("holes", "--trace", path)
    assert holes in (2, 3), out
    assert ("NO WARNING" in out, JOURNAL in err) == (False, True), out
    return "told"
