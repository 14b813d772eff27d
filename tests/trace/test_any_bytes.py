"""Whatever bytes a client sends: each of its commands is a row, sealed, and read by everybody."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.report.trace.rows import iso
from pulsar_doctor.trace.reading import Trace
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.trace.verifying import verify
from pulsar_doctor.wire import commands
from pulsar_doctor.wire.columns import (
    COLUMNS,
    NAMES,
    OURS,
    SET_ASIDE,
    TO_BROKER,
    TO_CLIENT,
    UNPARSED,
    Row,
)
from pulsar_doctor.wire.framing import Cutter, varint
from pulsar_doctor.wire.journal import DIRECTIONS, pack_block, pack_event, pack_json
from pulsar_doctor.wire.text import MARK, text_of
from tests.made.frames import command_of, field, frame
from tests.made.traces import values, write_trace
from tests.made.wire import MASK, START_US
from tests.trace.readers import FEW

Run = Callable[..., tuple[int, str, str]]
STRANGE = "oré".encode() + b"-\xff\xfe\xed\xa0\x80"
MARKED = "oré-\ufffdFF\ufffdFE\ufffdED\ufffdA0\ufffd80"
ORDERS = b"persistent://public/default/orders"


# Bytes as a client writes them, which may be what no library of ours would write.


def as_frame(code: int, body: bytes, behind: bytes = b"") -> bytes:
    return frame(command_of(code, body), behind)


def subscribe(topic: bytes, subscription: bytes, name: bytes) -> bytes:
    body = field(1, topic) + field(2, subscription) + b"\x18\x01\x20\x01\x28\x01" + field(6, name)
    return as_frame(4, body)


def read_of(stream: bytes, direction: str, at_us: int) -> bytes:
    """The block that the relay makes of one read."""
    records = MASK.pack_all(Cutter().feed(stream))
    at = DIRECTIONS.index(direction)
    ns = (at_us - START_US) * 1000
    return pack_block(records, ts=at_us, mono_ns=ns, conn_id=0, direction=at)


def sent(
    version: bytes = b"C++", topic: bytes = ORDERS, subscription: bytes = b"s", name: bytes = b"c"
) -> list[bytes]:
    """A consumer that gets two messages, acknowledges one, and looks its topic up as well."""
    message = b"\x08\x01\x12\x04\x08\x07\x10"
    behind = b"\x0e\x01\0\0\0\0\0\0\0\x02\x18\x05payload"
    said = [
        (as_frame(2, field(1, version)), TO_BROKER),
        (as_frame(23, field(1, topic) + b"\x10\x05"), TO_BROKER),
        (as_frame(5, field(1, topic) + b"\x10\x09\x18\x06"), TO_BROKER),
        (subscribe(topic, subscription, name), TO_BROKER),
        (as_frame(13, b"\x08\x01"), TO_CLIENT),
        (as_frame(11, b"\x08\x01\x10\x0a"), TO_BROKER),
        (b"".join(as_frame(9, message + bytes([entry]), behind) for entry in (1, 2)), TO_CLIENT),
        (as_frame(10, b"\x08\x01\x10\x00\x1a\x04\x08\x07\x10\x01"), TO_BROKER),
    ]
    opened = pack_event("OPEN", client_addr="10.0.0.7:5000", broker_addr="10.0.0.1:6650")
    blocks = [pack_block([opened], ts=START_US, mono_ns=0, conn_id=0)]
    for at, (stream, direction) in enumerate(said, 1):
        blocks.append(read_of(stream, direction, START_US + 1000 * at))
    return blocks


STRINGS = {
    "client_version": {"version": STRANGE},
    "topic": {"topic": STRANGE},
    "subscription": {"subscription": STRANGE},
    "consumer_name": {"name": STRANGE},
}


@pytest.mark.parametrize("column", STRINGS)
@pytest.mark.parametrize("parts", [1, 8])
def test_a_string_that_is_no_text_costs_nothing(
    tmp_path: Path, run: Run, column: str, parts: int
) -> None:
    path = write_trace(tmp_path / "t.ptrace", sent(**STRINGS[column]), parts=parts)
    shown = [json.loads(line) for line in run("trace", "show", path, "-o", "jsonl")[1].splitlines()]
    assert [row["command"] for row in shown] == [
        "OPEN", "CONNECT", "LOOKUP", "PRODUCER", "SUBSCRIBE", "SUCCESS", "FLOW",
        "MESSAGE", "MESSAGE", "ACK",
    ]  # fmt: skip
    assert shown[-1]["available_permits"] == 8
    told = [row[column] for row in shown if column in row]
    assert MARKED in told
    assert bytes_of(MARKED) == STRANGE
    if column == "topic":
        assert told.count(MARKED) == 8, "LOOKUP and PRODUCER, too"
    for reader in FEW:
        code, out, err = run(*reader, path)
        assert (code, err) == (0, ""), reader
        assert out
    found = verify(path)
    assert (found.rows, found.problems, found.sealed_rows) == (10, [], 10)
    assert not list(path.glob(".journal*"))


def test_names_are_found_as_they_are_shown(tmp_path: Path, run: Run) -> None:
    path = write_trace(tmp_path / "t.ptrace", sent(name=STRANGE, subscription=STRANGE))
    for option in ("--consumer", "--subscription"):
        code, out, _ = run("trace", "show", path, option, MARKED, "-o", "jsonl")
        assert (code, len(out.splitlines())) == (0, 6)
    code, out, _ = run("stall-check", "-s", MARKED, "--trace", path, "-o", "json")
    assert json.loads(out)["subscriptions"][0]["subscription"] == MARKED


def bytes_of(text: str) -> bytes:
    """The bytes that `text_of` was given."""
    lone = re.sub(f"{MARK}([0-9A-F]{{2}})", lambda marked: chr(0xDC00 + int(marked[1], 16)), text)
    return lone.encode("utf-8", "surrogateescape")


@given(st.binary(max_size=12), st.binary(max_size=12))
def test_no_two_texts_become_one_and_none_is_lost(one: bytes, other: bytes) -> None:
    for raw in (one, other):
        text_of(raw).encode()
        assert bytes_of(text_of(raw)) == raw
    assert (text_of(one) == text_of(other)) == (one == other)


@pytest.mark.parametrize("text", ["", "orders", "oré", "\ufffd", "\ufffdno", "\ufffdff"])
def test_what_is_text_stays_as_it_is(text: str) -> None:
    assert text_of(text) == text_of(text.encode()) == text
    assert text_of("\ud800") == "\ufffdED\ufffdA0\ufffd80"
    assert text_of("\ufffdAB") == "\ufffdEF\ufffdBF\ufffdBDAB"


# A record that breaks the reader.

ODD_EVENTS = (
    b"[]", b"null", b'"GAP"', b'{"command": 7}', b'{"command": "TAKEN", "ledger_id": "x"}',
    b'{"command": "GAP", "dropped": {}}', b"{", b"\xff", b'{"command": "TAKEN", "entry_id": 1e400}',
    b"[" * 100_000, b'{"command": "OPEN", "client_addr": ["' + b"x" * 100 + b'"]}',
)  # fmt: skip


@pytest.mark.parametrize("event", ODD_EVENTS, ids=range(len(ODD_EVENTS)))
def test_an_event_that_cannot_be_read_is_set_aside_and_counted(
    tmp_path: Path, run: Run, event: bytes
) -> None:
    blocks = sent()
    odd = pack_block([pack_json(event)], ts=START_US + 8500, mono_ns=8_500_000, conn_id=0)
    path = write_trace(tmp_path / "t.ptrace", [*blocks, odd, *blocks[6:7]], parts=2)
    rows = list(open_trace(path).rows())
    assert [row.command for row in rows][-3:] == ["ACK", UNPARSED, "FLOW"]
    assert (rows[-2].command_code, rows[-2].error_code) == (OURS, SET_ASIDE)
    assert (rows[-2].ts, rows[-2].conn_id) == (START_US + 8500, 0)
    assert rows[-1].available_permits is None, "what it would have told is not known"
    assert not list(path.glob(".journal*")), "it is not tried again"
    told = "1 record was set aside, as UNPARSED: this version cannot read them"
    for reader in (("trace", "summary"), ("stall-check", "--trace")):
        assert told in run(*reader, path)[2]
    assert told in run("trace", "verify", path)[1]


def test_a_command_that_breaks_a_ledger_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it may be one day."""
    apply = Timeline.apply

    def breaks(timeline: Timeline, row: Row) -> Row:
        applied = apply(timeline, row)
        if row.command == "FLOW":
            raise ZeroDivisionError
        return applied

    with monkeypatch.context() as broken:
        broken.setattr(Timeline, "apply", breaks)
        path = open_trace(write_trace(tmp_path / "t.ptrace", sent())).path
    rows = list(Trace(path).rows())
    assert [row.seq for row in rows] == list(range(10))
    assert [row.command for row in rows].count(UNPARSED) == 1
    assert verify(path).rows == 10


@pytest.mark.parametrize("breaks", ["CONNECT", "ACK", "MESSAGE"])
def test_a_command_whose_reader_fails_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks: str
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a mistake of ours")

    code = commands.CODES[breaks]
    monkeypatch.setitem(commands.COMMANDS, code, commands.COMMANDS[code]._replace(read=fail))
    monkeypatch.setattr(commands, "_plain", lambda _: False)
    path = open_trace(write_trace(tmp_path / "t.ptrace", sent())).path
    aside = [row for row in Trace(path).rows() if row.command == UNPARSED]
    assert len(aside) == (2 if breaks == "MESSAGE" else 1)
    assert all(row.frame_bytes and breaks in str(row.error_message) for row in aside)
    found = verify(path)
    assert (found.problems, found.rows) == ([], 10)
    assert f"{len(aside)} record" in found.notes[0]


@pytest.mark.parametrize("direction", [TO_CLIENT, TO_BROKER])
@pytest.mark.parametrize("permits", [2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1])
def test_permits_that_no_column_holds_are_no_damage(
    tmp_path: Path, permits: int, direction: str
) -> None:
    """One by one, and as the sum of several."""
    blocks = sent()
    one = as_frame(11, b"\x08\x01\x10" + varint(permits))
    if direction == TO_CLIENT:
        one = as_frame(9, b"\x08\x01\x12\x04\x08\x07\x10\x03\x30" + varint(permits))
    for at in range(4):
        blocks.append(read_of(one, direction, START_US + 20_000 + at))
    path = write_trace(tmp_path / "t.ptrace", blocks)
    before = [(row.permits, row.available_permits) for row in Trace(path).rows()]
    assert before[-1][0] == 2**31 - 1
    assert abs(before[-1][1] or 0) > 2**32
    found = verify(open_trace(path).path)
    assert (found.rows, found.problems) == (14, [])


@pytest.mark.parametrize("publish_ms", [253_402_300_799_999, 253_402_300_800_000, 2**63 // 1000])
def test_a_moment_that_no_calendar_has_is_not_told(
    tmp_path: Path, run: Run, publish_ms: int
) -> None:
    metadata = b"\x18" + varint(publish_ms)
    behind = b"\x0e\x01\0\0\0\0" + len(metadata).to_bytes(4, "big") + metadata + b"payload"
    late = as_frame(9, b"\x08\x01\x12\x04\x08\x07\x10\x03", behind)
    path = write_trace(tmp_path / "t.ptrace", [*sent(), read_of(late, TO_CLIENT, START_US + 9000)])
    code, out, err = run("trace", "show", "-o", "jsonl", path)
    assert (code, err) == (0, "")
    told = json.loads(out.splitlines()[-1]).get("publish_time")
    assert told == ("9999-12-31T23:59:59.999000Z" if publish_ms < 253_402_300_800_000 else None)
    assert iso(2**62) == f"{2**62} us since 1970"


# Whatever else there may be.


def strange_strings(stream: bytes) -> bytes:
    """The strings of the fuzz's tapes are text; here their bytes are not."""
    return stream.replace(b"\xc2", b"\xff").replace(b"\xc3", b"\xed")


def fitting(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Rows as values; numbers that no column holds are the nearest that fit."""
    most = {each.name: 2 ** (int(each.type[3:]) - 1) - 1 for each in COLUMNS if each.type in INTS}
    return [
        tuple(
            value
            if value is None or name not in most
            else max(-most[name] - 1, min(value, most[name]))
            for name, value in zip(NAMES, each, strict=True)
        )
        for each in values(rows)
    ]


INTS = ("int16", "int32", "int64")
