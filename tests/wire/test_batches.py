"""Frames that are masked and written together, as against one by one: the same rows, no secret."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.errors import TraceError
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import NAMES, SET_ASIDE, UNPARSED, values_of
from pulsar_doctor.wire.commands import CODES, COMMANDS, rows_of
from pulsar_doctor.wire.framing import HEAD_BYTES_MOST, Cutter, Frames, varint
from pulsar_doctor.wire.journal import (
    BATCH,
    VERSION,
    Batch,
    Block,
    check_header,
    pack_block,
    read_blocks,
)
from pulsar_doctor.wire.masking import FREQUENT_CODES, Mask
from tests.made.frames import command_of, field, frame

CANARY = b"Canary-0123456789-secret"
MASK = Mask(b"salt")
SET_ASIDE_SAYS = ("command", "error_code", "error_message", "frame_bytes")

# As version 1 wrote it: FLOW, MESSAGE with a key, an unknown command, GAP; then an empty block.
VERSION_1 = bytes.fromhex(
    "50444a524e4c0100a6000000980c1cd6010000000000000002000000000000000300000001010b0063000000ffff"
    "ffff09000000ffffffff080b5a05080210e8070109006300000026000000170000001400000008094a130800120f"
    "0823100318ffffffffffffffffff0118a6ccb7ee9f34f9ffffff0f82445073becda3e802450063000000ffffffff"
    "09000000ffffffff0800aa04040800100003ffff00000000ffffffff1d000000ffffffff7b22636f6d6d616e6422"
    "3a22474150222c2264726f70706564223a327d00000000daa0d72102000000000000000300000000000000ffffff"
    "ff00"
)


def part_of(metadata: bytes, payload: bytes = b"", *, broker_metadata: bytes | None = b"") -> bytes:
    begin = b"" if broker_metadata is None else struct.pack(">HI", 0x0E02, len(broker_metadata))
    sizes = struct.pack(">HII", 0x0E01, 7, len(metadata))
    return begin + (broker_metadata or b"") + sizes + metadata + payload


def message(entry_id: int, metadata: bytes = b"\x18\x05", **fields: object) -> bytes:
    message_id = wire.MessageId(ledger_id=35, entry_id=entry_id)
    body = wire.Message(consumer_id=1, message_id=message_id, **fields).SerializeToString()
    return frame(command_of(9, body), part_of(metadata, b"payload"))


def flow(permits: int) -> bytes:
    body = wire.Flow(consumer_id=1, message_permits=permits).SerializeToString()
    return frame(command_of(11, body))


def rows(blocks: list[bytes]) -> list[tuple[object, ...]]:
    read = [block for block, _ in read_blocks(b"".join(blocks))]
    return [values_of(row) for block in read for row in rows_of(block)]


def block_of(records: list[bytes]) -> bytes:
    return pack_block(records, ts=1, mono_ns=2, conn_id=3, direction=1)


def together(stream: bytes, cuts: tuple[int, ...] = ()) -> list[bytes]:
    """A block for each read that completed something."""
    cutter = Cutter()
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    reads = [cutter.feed(stream[a:b]) for a, b in itertools.pairwise(places)]
    return [block_of(MASK.pack_all(read)) for read in reads if len(read)]


def one_by_one(stream: bytes) -> list[bytes]:
    return [block_of([MASK.pack(frame)]) for frame in Cutter().feed(stream)]


def only_part(blocks: list[bytes]) -> object:
    ((block, _),) = read_blocks(b"".join(blocks))
    (part,) = block.parts
    return part


numbers = st.sampled_from([0, 1, 127, 128, 35_000, 2**31 - 1, 2**63 - 1, 2**63, 2**64 - 1])
words = st.lists(st.sampled_from([0, 1, -1, 7]), max_size=3)
small = st.integers(0, 300)
ids = st.builds(
    wire.MessageId,
    ledger_id=numbers,
    entry_id=numbers,
    partition=st.none() | st.sampled_from([-1, 0, 5]),
    batch_index=st.none() | st.sampled_from([-1, 0, 5]),
    ack_set=words,
)
known = {
    6: st.builds(wire.Send, producer_id=numbers, num_messages=st.none() | small),
    7: st.builds(wire.SendReceipt, producer_id=numbers, message_id=st.none() | ids),
    9: st.builds(
        wire.Message,
        consumer_id=numbers,
        message_id=ids,
        redelivery_count=st.none() | small,
        ack_set=words,
        consumer_epoch=st.none() | numbers,
        message_permits=st.none() | small,
    ),
    10: st.builds(
        wire.Ack,
        consumer_id=numbers,
        ack_type=st.sampled_from([0, 1]),
        message_id=st.lists(ids, max_size=3),
        request_id=st.none() | numbers,
        validation_error=st.none() | st.sampled_from([0, 4, 9]),
    ),
    11: st.builds(wire.Flow, consumer_id=numbers, message_permits=small),
    20: st.builds(
        wire.Redeliver,
        consumer_id=numbers,
        message_ids=st.lists(ids, max_size=3),
        consumer_epoch=st.none() | numbers,
    ),
    18: st.builds(wire.Empty),
    38: st.builds(wire.AckResponse, request_id=numbers, error=st.none() | small),
    14: st.builds(wire.Error, request_id=numbers, error=small, message=st.just("token=Canary-01")),
    90: st.builds(wire.Empty),
}
beside = st.sampled_from(  # what no version that we know puts there, and what is no protobuf
    [
        b"",
        b"",
        b"",
        field(99, CANARY),
        field(2, field(1, CANARY)),
        b"\x0b\x0c",
        b"\x0b",
        b"\x5a\x7f",
    ]
)
keys = st.sampled_from([b"", b"k", b"another", "ключ".encode(), b"\xff\xfe", CANARY])
metadata_parts = st.sampled_from(
    [
        field(1, CANARY),
        field(4, field(1, b"key") + field(2, CANARY)),
        b"\x18" + varint(1_790_000_000_000),
        b"\x18" + varint(2**63 + 5),
        b"\x58\x03",
        b"\x58\x00",
        b"\x98\x01" + varint(1_790_000_000_000),
        varint(536870911 << 3 | 1) + b"12345678",  # our own field, sent by somebody else
        field(200, CANARY * 30),
        b"\x0a\x7f" + CANARY,  # ends behind its message
    ]
)
metadata = st.lists(metadata_parts | keys.map(lambda key: field(6, key)), max_size=5).map(b"".join)


@st.composite
def frames_made(draw: st.DrawFn) -> bytes:
    code = draw(st.sampled_from([6, 7, 9, 9, 9, 10, 11, 14, 18, 20, 38, 90]))
    body = draw(known[code]).SerializeToString() + draw(beside)
    if draw(st.integers(0, 20)) == 0:
        body = draw(st.binary(max_size=30))
    command = command_of(code, body, draw(beside))
    if code not in (6, 9):
        return frame(command)
    part = part_of(
        draw(metadata),
        draw(st.binary(max_size=20)),
        broker_metadata=draw(st.none() | st.binary(max_size=12)),
    )
    return frame(command, draw(st.sampled_from([part, part, part, part, b""])))


def test_frequent_frames_of_one_read_are_one_record():
    part = only_part(together(message(1) + frame(command_of(11, b"\x08\x01\x10\x05"))))
    assert isinstance(part, Batch)
    assert [record.code for record in part.records()] == [9, 11]
    assert len(part.metadata) == 1


def test_a_rare_frame_parts_the_read_and_no_more():
    rare = frame(command_of(13, b""))
    ((block, _),) = read_blocks(
        b"".join(together(message(1) + message(2) + rare + rare + message(3)))
    )
    assert [len(getattr(part, "codes", " ")) for part in block.parts] == [2, 1, 1, 1]
    assert [record.code for record in block.records] == [9, 9, 13, 13, 9]


def test_pings_are_masked_with_all_that_comes_often():
    stream = frame(command_of(18, b"")) + flow(7) + frame(command_of(19, field(3, CANARY)))
    blocks = together(stream)
    assert isinstance(only_part(blocks), Batch)
    assert [row[NAMES.index("command")] for row in rows(blocks)] == ["PING", "FLOW", "PONG"]
    assert CANARY not in blocks[0]


def test_a_flood_of_unknown_commands_is_kept_without_their_shapes():
    stream = b"".join(frame(command_of(99, field(1, b"%d" % number))) for number in range(4_000))
    records = [row[NAMES.index("raw")] for row in rows(together(stream))]
    assert len(records) == 4_000
    assert records[0]
    assert records[-1] == b""


def test_a_frame_that_is_too_long_is_one_command_set_aside():
    stream = flow(1) + message(2, field(4, bytes(HEAD_BYTES_MOST))) + flow(3)
    found = [[row[NAMES.index(name)] for name in SET_ASIDE_SAYS] for row in rows(together(stream))]
    assert [row[0] for row in found] == ["FLOW", UNPARSED, "FLOW"]
    said = "command 9 is too long to be looked at"
    assert found[1][1:] == [SET_ASIDE, said, len(stream) - 2 * len(flow(1))]


def test_an_error_among_the_receipts_of_acks_is_redacted():
    fine = frame(command_of(38, b"\x08\x01\x30\x05"))
    error = frame(command_of(38, b"\x08\x01\x20\x01\x30\x06" + field(5, b"token=" + CANARY)))
    assert isinstance(only_part(together(fine + fine)), Batch)
    blocks = together(fine + error + fine)
    assert CANARY not in b"".join(blocks)
    messages = [row[NAMES.index("error_message")] for row in rows(blocks)]
    assert messages == [None, "[redacted]", None]


@given(st.lists(frames_made(), max_size=8), st.lists(st.integers(min_value=0), max_size=8))
@settings(max_examples=150, deadline=None)
def test_any_stream_cut_anyhow_gives_the_rows_that_its_frames_give_one_by_one(made, cuts):
    stream = b"".join(made)
    blocks = together(stream, tuple(cuts))
    assert rows(blocks) == rows(one_by_one(stream))
    assert CANARY[:9] not in b"".join(blocks)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.data())
@settings(max_examples=100, deadline=None)
def test_messages_of_any_kind_are_read_alike_in_any_company(kinds, data):
    bodies = [data.draw(known[9]) for _ in range(2)] + [
        wire.Message(consumer_id=1, message_id=wire.MessageId(ledger_id=1, entry_id=2)),
        wire.Message(consumer_id=2**64 - 1, message_id=wire.MessageId(partition=4)),
    ]
    heads = [data.draw(metadata) for _ in range(4)]
    stream = b"".join(
        frame(command_of(9, bodies[kind].SerializeToString()), part_of(heads[kind], b"p"))
        for kind in kinds
    )
    assert rows(together(stream)) == rows(one_by_one(stream))


@pytest.mark.parametrize(
    ("rare", "name"),
    [
        (message(7, b"\x58\x45", ack_set=[6, 5]), "ack_set"),
        (message(7, message_permits=4), "permits"),
        (message(7, consumer_epoch=3), "consumer_epoch"),
        (message(7, b"\x98\x01" + varint(1_790_000_000_000)), "deliver_at"),
        (message(7, field(6, b"k")), "key_hash"),
        (frame(command_of(9, b"\x12\x02\x20\x05"), part_of(b"")), "batch_index"),
        (frame(command_of(9, b"\x12\x02\x18\x05"), part_of(b"")), "partition"),
    ],
)
def test_what_only_one_of_many_messages_has_is_read(rare, name):
    plain = message(1) * 3
    found = rows(together(plain + rare + plain))
    assert found == rows(one_by_one(plain + rare + plain))
    values = [row[NAMES.index(name)] for row in found]
    assert values[3] != values[2] == values[4]


@pytest.mark.parametrize(
    "hostile",
    [
        frame(command_of(9, b"\x0a\x7f")),  # ends behind its message
        message(7, b"\x32\x7f" + CANARY),
    ],
)
def test_a_hostile_frame_is_blanked_and_its_neighbours_are_not(hostile):
    keyed = message(8, field(6, b"k"))
    found = rows(together(message(1) + hostile + keyed + message(9)))
    assert found == rows(one_by_one(message(1) + hostile + keyed + message(9)))
    assert [row[NAMES.index("entry_id")] for row in found] == [1, None, 8, 9]


def test_a_key_is_hashed_in_any_company_and_the_hash_of_somebody_else_is_not_taken():
    forged = varint(536870911 << 3 | 1) + b"12345678"
    stream = b"".join(
        [
            message(1),
            message(2, field(6, b"customer-key")),
            message(3, forged),
            message(4, forged + field(6, b"customer-key") + forged),
            message(5, field(6, b"")),
            message(6, field(6, b"customer-key") + b"\x58\x02"),
        ]
    )
    blocks = together(stream)
    assert isinstance(only_part(blocks), Batch)
    assert b"customer-key" not in blocks[0]
    ((block, _),) = read_blocks(blocks[0])
    none, key, no_key, same_key, empty, batch = (row.key_hash for row in rows_of(block))
    assert (none, no_key, batch) == (None, None, None)
    assert key == same_key not in (None, int.from_bytes(b"12345678", "little"))
    assert empty not in (None, key)


def test_a_key_that_is_no_text_is_hashed_like_any_other():
    stream = b"".join(message(at, field(6, key)) for at, key in enumerate((b"\xff", b"k", b"\xff")))
    blocks = together(stream)
    assert isinstance(only_part(blocks), Batch)
    assert rows(blocks) == rows(one_by_one(stream))
    first, other, same = (row[NAMES.index("key_hash")] for row in rows(blocks))
    assert None is not first == same != other
    assert [row[NAMES.index("permits")] for row in rows(blocks)] == [1, 1, 1]


def test_a_property_that_reads_like_a_key_makes_nothing_slow_or_wrong():
    stream = message(1, field(4, field(6, CANARY))) + message(2)
    blocks = together(stream)
    assert CANARY not in blocks[0]
    assert rows(blocks) == rows(one_by_one(stream))


def test_commands_that_belong_together_are_known_by_both_names():
    names = ["SEND", "SEND_RECEIPT", "MESSAGE", "ACK", "FLOW", "PING", "PONG"]
    names += ["REDELIVER_UNACKNOWLEDGED_MESSAGES", "ACK_RESPONSE"]
    assert sorted(FREQUENT_CODES) == [CODES[name] for name in names]
    for frequent in wire.Frequent.DESCRIPTOR.fields:
        whole = wire.BaseCommand.DESCRIPTOR.fields_by_number[frequent.number]
        assert (frequent.name, frequent.message_type) == (whole.name, whole.message_type)
        assert COMMANDS[frequent.number].field == frequent.name


def test_a_long_command_and_long_metadata_are_told_apart_from_short_ones():
    for size in (0, 100, 127, 128, 200, 300, 1023, 1024, 20_000):
        properties = field(4, field(1, b"k") + field(2, bytes(size)))
        acked = [wire.MessageId(ledger_id=1, entry_id=entry) for entry in range(size // 10)]
        ack = wire.Ack(consumer_id=1, message_id=acked).SerializeToString()
        stream = message(size, b"\x18\x07" + properties) + frame(command_of(10, ack)) + message(3)
        assert rows(together(stream)) == rows(one_by_one(stream))
        assert isinstance(only_part(together(stream)), Batch)
        whole, cut = Cutter().feed(stream), Cutter()
        assert list(whole) == [
            frame for at in range(len(stream)) for frame in cut.feed(stream[at : at + 1])
        ]


def test_no_frames_are_no_records():
    assert MASK.pack_all(Frames()) == []


def test_a_journal_of_version_1_is_read():
    assert VERSION == 2
    assert check_header(VERSION_1)
    (block, _), (beat, _) = read_blocks(VERSION_1, 8)
    assert (beat.ts, beat.parts) == (2, ())
    flow, pushed, unknown, gap = rows_of(block)
    assert (flow.command, flow.permits) == ("FLOW", 1000)
    assert (pushed.entry_id, pushed.partition, pushed.key_hash) == (3, None, -1683275617844312958)
    assert (pushed.publish_time, pushed.permits) == (1795259491878000, 1)
    assert (unknown.command, unknown.raw.hex()) == ("COMMAND_69", "0800aa040408001000")
    assert (gap.command, gap.dropped) == ("GAP", 2)


def test_a_batch_that_does_not_agree_with_itself_is_an_error_of_the_trace():
    record = MASK.pack_all(Cutter().feed(message(1) + message(2)))[0]
    assert record[0] == BATCH
    for damaged in (record[:-1], record[:30] + b"\xff" + record[31:], record[:-16]):
        with pytest.raises(TraceError):
            rows([block_of([damaged])])


def test_the_records_of_a_block_are_its_parts_one_by_one():
    blocks = together(message(1) + message(2))
    ((block, _),) = read_blocks(blocks[0])
    assert isinstance(block, Block)
    assert [record.command.message.message_id.entry_id for record in block.records] == [1, 2]
    assert [record.metadata.publish_time for record in block.records] == [5, 5]
