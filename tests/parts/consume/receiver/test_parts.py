"""The parts of our consumer that need no broker: permits, batches, compression, checksums."""

from __future__ import annotations

import contextlib
import struct
import zlib
from pathlib import Path

import pyarrow
import pytest
from google.protobuf import descriptor_pb2
from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st

from pulsar_doctor.parts.consume.receiver import entries, payloads, spoken_pb2
from pulsar_doctor.parts.consume.receiver.brake import Brake
from pulsar_doctor.parts.consume.receiver.entries import UNFINISHED_MOST, Chunks, Entry
from pulsar_doctor.parts.consume.receiver.spoken_pb2 import MessageMetadata
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from tests.conformance import raw_producer

LZ4, ZLIB, ZSTD, SNAPPY = 1, 2, 3, 4


def compressed(codec: int, data: bytes) -> bytes:
    if codec == ZLIB:
        return zlib.compress(data)
    name = {LZ4: "lz4_raw", ZSTD: "zstd", SNAPPY: "snappy"}[codec]
    return pyarrow.Codec(name).compress(data, asbytes=True)


def uncompressed(codec: int, data: bytes, size: int) -> bytes:
    metadata = MessageMetadata(compression=codec, uncompressed_size=size)
    return bytes(payloads.uncompressed(metadata, memoryview(data)))


def flows_of(queue: int, taken: int) -> list[int]:
    brake = Brake(queue, by_hand=False)
    flows = [brake.first()]
    for _ in range(taken):
        brake.debited(1)
        flows.append(brake.taken(1))
    return [flow for flow in flows if flow]


@pytest.mark.parametrize(
    ("queue", "flows"),
    [
        (1, [1] + [1] * 6),
        (2, [2] + [1] * 6),
        (3, [3] + [1] * 6),
        (4, [4, 2, 2, 2]),
        (10, [10, 5]),
        (1000, [1000]),
        (0, []),
    ],
)
def test_a_queue_asks_for_all_and_then_again_for_what_was_taken(queue, flows):
    assert flows_of(queue, 6) == flows


def test_a_zero_queue_wants_one_and_after_a_batch_the_whole_batch():
    brake = Brake(0, by_hand=False)
    assert (brake.first(), brake.wanted(), brake.wanted()) == (0, 1, 0)
    brake.debited(100)
    assert brake.taken(100) == 0
    assert (brake.wanted(), brake.outstanding) == (100, 1)


def test_by_hand_nothing_is_asked_for_unless_it_is_granted():
    brake = Brake(10, by_hand=True)
    assert (brake.first(), brake.wanted(), brake.taken(10)) == (0, 0, 0)
    assert (brake.by_hand(7), brake.outstanding) == (7, 7)


@given(st.integers(1, 50), st.lists(st.integers(1, 200), max_size=60))
def test_what_was_debited_and_taken_comes_back_but_for_less_than_a_threshold(queue, batches):
    brake = Brake(queue, by_hand=False)
    granted = brake.first()
    for batch in batches:
        brake.debited(batch)
        for _ in range(batch):
            granted += brake.taken(1)
    assert granted - sum(batches) == brake.outstanding
    assert queue - max(1, queue // 2) < brake.outstanding <= queue


@given(st.integers(1, 130), st.integers(0, 2**130 - 1), st.none() | st.integers(0, 200))
def test_the_messages_of_an_entry_give_back_just_what_it_cost(size, open_bits, told):
    open_bits &= (1 << size) - 1
    words = [
        int.from_bytes((open_bits >> at & 2**64 - 1).to_bytes(8, "little"), "little", signed=True)
        for at in range(0, 130, 64)
    ]
    command = wire.Message(message_id=wire.MessageId(ledger_id=1, entry_id=2), ack_set=words)
    if told is not None:
        command.message_permits = told
    batch = raw_producer.batch_payload(*[b"x"] * size)
    part = payload_part(MessageMetadata(num_messages_in_batch=size), batch)
    entry, metadata, payload = entries.read(command, part)
    entries.look_into(entry, metadata, payload)
    assert entry.debit == (open_bits.bit_count() if told is None else told)
    handed_out = [index for index, _ in entry.shares]
    assert handed_out == [index for index in range(size) if open_bits >> index & 1]
    if handed_out:
        assert sum(permits for _, permits in entry.shares) == entry.debit
    assert as_bits(entry.ack_set) == open_bits


def as_bits(words: list[int]) -> int:
    return sum((word & 2**64 - 1) << 64 * at for at, word in enumerate(words))


def payload_part(metadata: MessageMetadata, payload: bytes, spoil: int = 0) -> memoryview:
    described = metadata.SerializeToString()
    summed = struct.pack(">I", len(described)) + described + payload
    head = struct.pack(">HI", 0x0E01, crc32c(summed) ^ spoil)
    return memoryview(head + summed)


def test_the_open_indexes_of_a_batch_are_what_its_ack_set_shows():
    entry = Entry(((1, 2),), 0, 0, 70, batch_size=70, indexes=list(range(70)), open=2**70 - 1)
    entry.acknowledge(0)
    entry.acknowledge(69)
    assert as_bits(entry.ack_set) == 2**69 - 2
    entry.acknowledge(67, and_before=True)
    assert as_bits(entry.ack_set) == 1 << 68
    entry.acknowledge(68)
    assert entry.ack_set == []


def test_a_wrong_checksum_is_told_and_the_batch_size_read_all_the_same():
    part = payload_part(MessageMetadata(num_messages_in_batch=7), b"payload", spoil=1)
    command = wire.Message(message_id=wire.MessageId(ledger_id=1, entry_id=2))
    entry, _, _ = entries.read(command, part)
    assert (entry.corrupt, entry.debit, entry.shares) == ("ChecksumMismatch", 7, [(None, 7)])


@given(st.binary(max_size=100))
def test_any_bytes_behind_a_message_are_read_or_corrupt(data):
    command = wire.Message(message_id=wire.MessageId(ledger_id=1, entry_id=2))
    entry, metadata, payload = entries.read(command, memoryview(data))
    entries.look_into(entry, metadata, payload)
    assert entry.debit >= 1


def test_broker_metadata_in_front_are_passed_over():
    part = struct.pack(">HI", 0x0E02, 3) + b"abc" + payload_part(MessageMetadata(), b"payload")
    assert payloads.opened(memoryview(part))[1:] == (b"payload", None)


@pytest.mark.parametrize("codec", [LZ4, ZLIB, ZSTD, SNAPPY])
@given(data=st.binary(max_size=300), factor=st.integers(1, 50))
def test_what_was_compressed_comes_back(codec, data, factor):
    data *= factor
    assert uncompressed(codec, compressed(codec, data), len(data)) == data


def test_a_zlib_stream_that_java_has_left_open_is_whole():
    deflater = zlib.compressobj()
    left_open = deflater.compress(b"payload") + deflater.flush(zlib.Z_SYNC_FLUSH)
    assert uncompressed(ZLIB, left_open, 7) == b"payload"


@pytest.mark.parametrize("codec", [LZ4, ZLIB, ZSTD, SNAPPY])
@pytest.mark.parametrize("wrong", [-100, -1, 1, 100])
def test_a_size_that_is_not_so_is_corrupt(codec, wrong):
    data = b"of 500 bytes" + bytes(488)
    with pytest.raises(payloads.Corrupt, match=r"UncompressedSizeCorruption|DecompressionError"):
        uncompressed(codec, compressed(codec, data), len(data) + wrong)


@pytest.mark.parametrize("codec", [LZ4, ZLIB, ZSTD, SNAPPY, 5, 99])
@given(data=st.binary(max_size=60), size=st.integers(0, 2**20))
def test_what_is_not_compressed_is_corrupt_or_of_the_size_it_claims(codec, data, size):
    with contextlib.suppress(payloads.Corrupt):
        assert len(uncompressed(codec, data, size)) == size


def test_a_size_beyond_all_bounds_is_not_even_tried():
    with pytest.raises(payloads.Corrupt, match="UncompressedSizeCorruption"):
        uncompressed(LZ4, b"", 2**32 - 1)


def test_a_batch_is_split_and_what_was_compacted_away_is_left_out():
    gone = spoken_pb2.SingleMessageMetadata(payload_size=2, compacted_out=True).SerializeToString()
    batch = raw_producer.batch_payload(b"one", b"")
    batch += struct.pack(">I", len(gone)) + gone + b"xx" + raw_producer.batch_payload(b"last")
    assert payloads.split(memoryview(batch), 4) == [b"one", b"", None, b"last"]


@pytest.mark.parametrize(("messages", "cut"), [(2, 1), (2, 8), (3, 0), (0, 0), (1 << 21, 0)])
def test_a_batch_that_cannot_be_split_is_corrupt(messages, cut):
    batch = raw_producer.batch_payload(b"one", b"two")
    with pytest.raises(payloads.Corrupt, match="BatchDeSerializeError"):
        payloads.split(memoryview(batch)[: len(batch) - cut], messages)


def chunk(chunks: Chunks, uuid: str, number: int, of: int) -> tuple[Entry, memoryview] | None:
    metadata = MessageMetadata(uuid=uuid, chunk_id=number, num_chunks_from_msg=of)
    return chunks.add(Entry(((1, number),), 0, 0, 1), metadata, memoryview(b"%d" % number))


def test_chunks_that_come_mixed_are_put_together():
    chunks = Chunks()
    assert [chunk(chunks, "a", 0, 3), chunk(chunks, "b", 0, 2), chunk(chunks, "a", 1, 3)] == [
        None
    ] * 3
    entry, payload = chunk(chunks, "a", 2, 3)
    assert (entry.positions, payload, entry.corrupt) == (((1, 0), (1, 1), (1, 2)), b"012", None)
    assert chunk(chunks, "b", 1, 2)[1] == b"01"


def test_a_chunk_without_those_before_it_is_handed_out_as_what_it_is():
    chunks = Chunks()
    assert chunk(chunks, "a", 1, 3)[0].corrupt == "ChunksMissing"
    assert chunk(chunks, "b", 0, 3) is None
    assert chunk(chunks, "b", 2, 3)[0].corrupt == "ChunksMissing"
    for number in range(UNFINISHED_MOST + 1):
        assert chunk(chunks, str(number), 0, 2) is None
    assert chunk(chunks, "0", 1, 2)[0].corrupt == "ChunksMissing"
    assert chunk(chunks, "1", 1, 2)[0].corrupt is None


@pytest.mark.parametrize("generated", [spoken_pb2, wire], ids=lambda it: it.__name__)
def test_the_generated_code_is_that_of_the_proto(tmp_path, generated):
    from grpc_tools import protoc

    source, out, proto = Path(generated.__file__).parent, tmp_path / "desc", generated.DESCRIPTOR
    name = Path(proto.name).name
    assert protoc.main(["", f"-I{source}", f"--descriptor_set_out={out}", name]) == 0
    (compiled,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    for message in compiled.message_type:
        for one in message.field:
            one.ClearField("json_name")  # generated code does without
    kept = descriptor_pb2.FileDescriptorProto.FromString(proto.serialized_pb)
    assert compiled == kept, f"{name} has changed: regenerate, its head says how"
