"""Golden bytes, one line a command: most were recorded from Pulsar 4.0.8 and pulsar-client 3.13.0.

The others (their comment says "by hand") follow PulsarApi.proto of 4.0.8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pulsar_doctor.wire import commands
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import NAMES, OURS, MessageId, Row, values_of
from pulsar_doctor.wire.commands import COMMANDS, SERVER_ERRORS, read_record, rows_of
from pulsar_doctor.wire.framing import Frames, code_of
from pulsar_doctor.wire.journal import (
    FILE_HEADER,
    KNOWN,
    Record,
    pack_block,
    pack_event,
    read_blocks,
)
from pulsar_doctor.wire.masking import FREQUENT_CODES, KNOWN_CODES, Mask, Read

GOLDEN_TOPIC = "persistent://public/default/golden"
T = GOLDEN_TOPIC.encode().hex()
NO_PARTITION = "18ffffffffffffffffff01"
MASK = Mask(b"salt")

# fmt: off
GOLDEN: list[tuple[str, str, str | None, dict[str, Any]]] = [
    ("CONNECT", "080212210a1150756c7361722d4350502d76342e322e3020142a046e6f6e65520408011001", None,
     {"client_version": "Pulsar-CPP-v4.2.0"}),
    ("CONNECTED",
     "08031a230a1250756c73617220536572766572342e302e381014188080c0022206200128013001", None, {}),
    ("SUBSCRIBE",
     f"080422430a22{T}120173180020012803320a3039333835333135613138004001580068007000", None,
     {"topic": GOLDEN_TOPIC, "subscription": "s", "subscription_type": "Exclusive",
      "consumer_id": 1, "request_id": 3, "consumer_name": "09385315a1", "durable": True}),
    ("SUBSCRIBE", f"0804223a0a22{T}12016618022002280432016138004001580068007000", None,
     {"topic": GOLDEN_TOPIC, "subscription": "f", "subscription_type": "Failover", "consumer_id": 2,
      "request_id": 4, "consumer_name": "a", "durable": True}),
    ("SUBSCRIBE",
     f"080422370a22{T}12017318002000280332016340016800980107", None,  # by hand
     {"topic": GOLDEN_TOPIC, "subscription": "s", "subscription_type": "Exclusive",
      "consumer_id": 0, "request_id": 3, "consumer_name": "c", "consumer_epoch": 7,
      "durable": True}),
    ("SUBSCRIBE",
     f"080422420a22{T}12017218002000280332016340004a0c08ffffffff0f10ffffffff0f6800", None,
     {"topic": GOLDEN_TOPIC, "subscription": "r", "subscription_type": "Exclusive",
      "consumer_id": 0, "request_id": 3, "consumer_name": "c", "durable": False}),  # by hand
    ("SUBSCRIBE", f"080422300a22{T}120173180020002803320163", None,  # by hand: not set is true
     {"topic": GOLDEN_TOPIC, "subscription": "s", "subscription_type": "Exclusive",
      "consumer_id": 0, "request_id": 3, "consumer_name": "c", "durable": True}),
    ("PRODUCER", f"08052a330a22{T}100018002201702800400048015000", None,
     {"topic": GOLDEN_TOPIC, "producer_id": 0, "request_id": 0, "producer_name": "p"}),
    ("PRODUCER", f"08052a320a22{T}100118022203632d446a03737562", None,  # by hand
     {"topic": GOLDEN_TOPIC, "producer_id": 1, "request_id": 2, "producer_name": "c-D",
      "initial_subscription": "sub"}),
    ("SEND", "0806320408001000", "0a0170100018a6ccb7ee9f3422060a016112016232016b",
     {"producer_id": 0, "messages": 1, "payload_bytes": 38, "publish_time": 1795259491878000,
      "key_hash": -1683275617844312958}),
    ("SEND", "08063206080110001803", "0a0f7374616e64616c6f6e652d302d3135100018bcccb7ee9f345803",
     {"producer_id": 1, "messages": 3, "payload_bytes": 38, "publish_time": 1795259491900000}),
    ("SEND_RECEIPT", "08073a15080110001a040823100320ffffffffffffffffff01", None,
     {"producer_id": 1, "ledger_id": 35, "entry_id": 3}),
    ("SEND_ERROR", "08084214080110001809220c746f6f206d616e79206f6620", None,  # by hand
     {"producer_id": 1, "error_code": "ChecksumError", "error_message": "too many of"}),
    ("MESSAGE", f"08094a130800120f08231003{NO_PARTITION}",
     "0a0f7374616e64616c6f6e652d302d3135100018bcccb7ee9f345803",
     {"consumer_id": 0, "ledger_id": 35, "entry_id": 3, "redelivery_count": 0, "messages": 3,
      "permits": 3, "payload_bytes": 38, "publish_time": 1795259491900000}),
    ("MESSAGE", "08094a0e0800120408231003180220062005",  # by hand: ack_set 0b110, then 0b101
     "0a0170100018bcccb7ee9f345845",
     {"consumer_id": 0, "ledger_id": 35, "entry_id": 3, "redelivery_count": 2, "messages": 69,
      "permits": 4, "payload_bytes": 38, "publish_time": 1795259491900000,
      "ack_set": (6).to_bytes(8, "little") + (5).to_bytes(8, "little")}),
    ("MESSAGE", "08094a0a08001204082310033007", "0a0170100018bcccb7ee9f345845",  # by hand: PIP-491
     {"consumer_id": 0, "ledger_id": 35, "entry_id": 3, "redelivery_count": 0, "messages": 69,
      "permits": 7, "payload_bytes": 38, "publish_time": 1795259491900000}),
    ("MESSAGE", "08094a160800121008df04100018ffffffffffffffffff012801",
     "0a0f7374616e64616c6f6e652d302d3135100018bcccb7ee9f34",
     {"consumer_id": 0, "ledger_id": 607, "entry_id": 0, "redelivery_count": 0, "messages": 1,
      "permits": 1, "payload_bytes": 38, "publish_time": 1795259491900000, "consumer_epoch": 1}),
    ("ACK", "080a520a080010001a0408231001", None,
     {"consumer_id": 0, "ack_type": "individual", "messages": 1, "ledger_id": 35, "entry_id": 1}),
    ("ACK", "080a520a080210011a0408231000", None,
     {"consumer_id": 2, "ack_type": "cumulative", "messages": 1, "ledger_id": 35, "entry_id": 0}),
    ("ACK", "080a5215080010001a04082310011a072a0106082310024009", None,  # by hand: two ids
     {"consumer_id": 0, "ack_type": "individual", "messages": 2, "request_id": 9,
      "message_ids": [MessageId(35, 1, None), MessageId(35, 2, (6).to_bytes(8, "little"))]}),
    ("FLOW", "080b5a05080210e807", None, {"consumer_id": 2, "permits": 1000}),
    ("UNSUBSCRIBE", "080c6204080c1027", None, {"consumer_id": 12, "request_id": 39}),
    ("SUCCESS", "080d6a020804", None, {"request_id": 4}),
    ("ERROR", "080e72080803100522024142", None,  # by hand: a field that is none of ours
     {"request_id": 3, "error_code": "ConsumerBusy"}),
    ("CLOSE_PRODUCER", "080f7a0408021028", None, {"producer_id": 2, "request_id": 40}),
    ("CLOSE_PRODUCER", "080f7a0d080210ffffffffffffffffff01", None, {"producer_id": 2}),
    ("CLOSE_CONSUMER", "081082010d080210ffffffffffffffffff01", None, {"consumer_id": 2}),
    ("PRODUCER_SUCCESS", "08118a0114080012017018ffffffffffffffffff0122003001", None,
     {"request_id": 0}),
    ("PING", "0812920100", None, {}),  # by hand, as PONG
    ("PONG", "08139a0100", None, {}),
    ("ACK", "080a520e080010001a040823100130053800", None,  # by hand: in a transaction
     {"consumer_id": 0, "ack_type": "individual", "messages": 1, "ledger_id": 35, "entry_id": 1,
      "transaction": "(0,5)"}),
    ("ACK", "080a520c080010001a04082310013005", None,  # by hand: half of a transaction's id
     {"consumer_id": 0, "ack_type": "individual", "messages": 1, "ledger_id": 35, "entry_id": 1}),
    ("REDELIVER_UNACKNOWLEDGED_MESSAGES", "0814a201080800120408231000", None,
     {"consumer_id": 0, "messages": 1, "ledger_id": 35, "entry_id": 0}),
    ("REDELIVER_UNACKNOWLEDGED_MESSAGES", "0814a201020800", None,
     {"consumer_id": 0, "messages": 0}),
    ("REDELIVER_UNACKNOWLEDGED_MESSAGES", "0814a2010408001801", None,
     {"consumer_id": 0, "messages": 0, "consumer_epoch": 1}),
    ("PARTITIONED_METADATA", f"0815aa01260a22{T}1001", None,
     {"topic": GOLDEN_TOPIC, "request_id": 1}),
    ("PARTITIONED_METADATA_RESPONSE", "0816b20106080010011800", None, {"request_id": 1}),
    ("LOOKUP", f"0817ba012a0a22{T}100218003a00", None, {"topic": GOLDEN_TOPIC, "request_id": 2}),
    ("LOOKUP_RESPONSE",
     "0818c201220a1870756c7361723a2f2f3132372e302e302e313a34353932331801200228014001", None,
     {"request_id": 2}),
    ("LOOKUP_RESPONSE", "0818c2010618022007300b", None,  # by hand: Failed, TopicNotFound
     {"request_id": 7, "error_code": "TopicNotFound"}),
    ("CONSUMER_STATS", "0819ca010408052004", None,  # by hand, as the next
     {"request_id": 5, "consumer_id": 4}),
    ("CONSUMER_STATS_RESPONSE", "081ad201020805", None, {"request_id": 5}),
    ("REACHED_END_OF_TOPIC", "081bda0102080b", None, {"consumer_id": 11}),
    ("SEEK", "081ce2011c080010081a1608ffffffffffffffffff0110ffffffffffffffffff01", None,
     {"consumer_id": 0, "request_id": 8}),
    ("GET_LAST_MESSAGE_ID", "081dea010408021006", None, {"consumer_id": 2, "request_id": 6}),
    ("GET_LAST_MESSAGE_ID_RESPONSE",
     "081ef2011b0a110823100318ffffffffffffffffff01200210061a0408231001", None,
     {"request_id": 6, "ledger_id": 35, "entry_id": 3, "batch_index": 2}),
    ("ACTIVE_CONSUMER_CHANGE", "081ffa010408031000", None, {"consumer_id": 3, "messages": 0}),
    ("ACTIVE_CONSUMER_CHANGE", "081ffa010408021001", None, {"consumer_id": 2, "messages": 1}),
    ("GET_TOPICS_OF_NAMESPACE", "08208202140811120e7075626c69632f64656661756c741800", None,
     {"request_id": 17}),
    ("GET_TOPICS_OF_NAMESPACE_RESPONSE", "08218a0209081112037365632800", None, {"request_id": 17}),
    ("GET_SCHEMA", "0822920205080a120174", None, {"request_id": 10}),  # by hand, to the end
    ("GET_SCHEMA_RESPONSE", "08239a0202080a", None, {"request_id": 10}),
    ("AUTH_CHALLENGE", "0824a202030a0141", None, {}),
    ("AUTH_RESPONSE", "0825aa02030a0141", None, {}),
    ("ACK_RESPONSE", "0826b20206080120013009", None,
     {"consumer_id": 1, "request_id": 9, "error_code": "MetadataError"}),
    ("GET_OR_CREATE_SCHEMA", "0827ba0205080c120174", None, {"request_id": 12}),
    ("GET_OR_CREATE_SCHEMA_RESPONSE", "0828c20202080c", None, {"request_id": 12}),
    ("TOPIC_MIGRATED", "0844a2040408011000", None, {}),
]
# fmt: on


# Two that most MESSAGEs are like, so that a read of them is taken the short way.
PLAIN = (
    (bytes.fromhex("08094a080800120408231001"), bytes.fromhex("0a01701000")),
    (bytes.fromhex(f"08094a130800120f08231002{NO_PARTITION}"), bytes.fromhex("18bcccb7ee9f34")),
)
Command = tuple[bytes, bytes | None]


def frames_of(*commands: Command) -> Frames:
    frames = Frames()
    for command, metadata in commands:
        total = 4 + len(command) + (0 if metadata is None else 38)
        frames.add(code_of(command), command, metadata, total)
    return frames


def one_by_one(*commands: Command) -> list[bytes]:
    return [MASK.pack(frame) for frame in frames_of(*commands)]


def as_a_read(*commands: Command) -> list[bytes]:
    return MASK.pack_all(frames_of(*commands))


def as_reads(*commands: Command) -> list[bytes]:
    """Each in a read of its own, all of them in one record where the relay does that."""
    if not {code_of(command) for command, _ in commands} <= FREQUENT_CODES:
        return as_a_read(*commands)
    reads = [Read(1, 2, 3, 1, frames_of(command)) for command in commands]
    return [MASK.pack_reads(reads)]


def rows_by(way: Callable[..., list[bytes]], *commands: Command) -> list[Row]:
    """After their way through mask and journal."""
    block = pack_block(way(*commands), ts=1, mono_ns=2, conn_id=3, direction=1)
    blocks = [read for read, _ in read_blocks(FILE_HEADER + block, len(FILE_HEADER))]
    return [row for read in blocks for row in rows_of(read)]


def journaled(command: bytes, metadata: bytes | None) -> Row:
    (row,) = rows_by(one_by_one, (command, metadata))
    return row


def said(row: Row) -> dict[str, Any]:
    """What a row tells beyond the frame itself."""
    frame = ("ts", "mono_ns", "conn_id", "direction", "command", "command_code", "frame_bytes")
    return {
        name: getattr(row, name)
        for name in NAMES
        if name not in frame and getattr(row, name) != getattr(Row(), name)
    }


@pytest.mark.parametrize("company", [(), PLAIN], ids=["alone", "among messages"])
@pytest.mark.parametrize("way", [one_by_one, as_a_read, as_reads])
@pytest.mark.parametrize(
    ("name", "command", "metadata", "expected"), GOLDEN, ids=[line[0] for line in GOLDEN]
)
def test_golden_bytes_give_this_row_on_every_way(way, company, name, command, metadata, expected):
    command, metadata = bytes.fromhex(command), metadata and bytes.fromhex(metadata)
    row = rows_by(way, *company, (command, metadata), *company)[len(company)]
    assert (row.command, row.raw) == (name, None)
    assert (row.ts, row.mono_ns, row.conn_id, row.direction) == (1, 2, 3, "to_client")
    assert row.frame_bytes == 8 + len(command) + (38 if metadata else 0)
    assert said(row) == expected


def test_a_field_that_the_short_way_does_not_know_is_read_the_long_way(monkeypatch):
    """Whatever the proto names one day: as if the consumer's epoch were new."""
    known = {**commands.PLAIN_FIELDS, "message": {"consumer_id", "message_id", "redelivery_count"}}
    monkeypatch.setattr(commands, "PLAIN_FIELDS", known)
    monkeypatch.setattr(commands, "_has_others", commands._make_check_for_others())
    monkeypatch.setattr(commands, "_plain_messages", None)
    epoch = bytes.fromhex("08094a0a08001204082310012801"), PLAIN[0][1]
    rows = rows_by(as_a_read, PLAIN[0], epoch)
    assert [row.consumer_epoch for row in rows] == [None, 1]


KINDS = {"message": wire.Message, "message_id": wire.MessageId, "metadata": wire.MessageMetadata}
FIELDS_OF_MESSAGE = [
    (part, field.name)
    for part, kind in KINDS.items()
    for field in kind.DESCRIPTOR.fields
    if field.name != "message_id"
]


@pytest.mark.parametrize("value", [1, 5])
@pytest.mark.parametrize(("part", "name"), FIELDS_OF_MESSAGE)
def test_each_field_of_a_message_is_read_alike_on_every_way(part, name, value):
    """Also one that nobody reads today: who reads it in one way has to read it in the other."""
    message_id = wire.MessageId(ledger_id=35, entry_id=3)
    whole = wire.Message(consumer_id=1, message_id=message_id)
    metadata = wire.MessageMetadata(publish_time=5)
    holder = {"message": whole, "message_id": whole.message_id, "metadata": metadata}[part]
    field = holder.DESCRIPTOR.fields_by_name[name]
    if field.is_repeated:
        getattr(holder, name).extend([value, value])
    else:
        setattr(holder, name, str(value) if field.cpp_type == field.CPPTYPE_STRING else value)
    command = wire.BaseCommand(type=9, message=whole).SerializeToString()
    said_by = [
        rows_by(way, PLAIN[0], (command, metadata.SerializeToString()), PLAIN[0])
        for way in (one_by_one, as_a_read, as_reads)
    ]
    first, *others = [[values_of(row) for row in rows] for rows in said_by]
    assert all(other == first for other in others)


def test_every_known_command_has_a_golden_line():
    assert {line[0] for line in GOLDEN} == {known.name for known in COMMANDS.values()}


def test_what_the_proto_names_is_what_the_table_reads():
    assert set(COMMANDS) == KNOWN_CODES
    for code, known in COMMANDS.items():
        assert wire.BaseCommand.DESCRIPTOR.fields_by_name[known.field].number == code


def test_an_unknown_command_is_named_by_its_number_and_kept_blanked():
    row = journaled(bytes.fromhex("0845aa040408051004"), None)
    assert (row.command, row.command_code) == ("COMMAND_69", 69)
    assert row.raw == bytes.fromhex("0800aa040408001000")


def test_a_known_command_that_cannot_be_parsed_keeps_its_name_and_tells_nothing():
    row = journaled(bytes.fromhex("080b5a7f0802"), None)
    assert (row.command, row.command_code, said(row)) == ("FLOW", 11, {"raw": b""})


def test_what_a_command_does_not_say_is_null():
    row = journaled(wire.BaseCommand(type=15, close_producer={}).SerializeToString(), None)
    assert (row.command, said(row)) == ("CLOSE_PRODUCER", {})


def test_an_error_of_the_future_is_named_by_its_number():
    code = len(SERVER_ERRORS)
    command = wire.BaseCommand(type=14, error=wire.Error(request_id=1, error=code, message="x"))
    row = journaled(command.SerializeToString(), None)
    assert (row.error_code, row.error_message) == (f"error {code}", "x")


def test_an_event_tells_the_columns_that_it_names_and_no_others():
    row = Row()
    packed = pack_event("GAP", dropped=7, nonsense=1)
    ((block, _),) = read_blocks(pack_block([packed], ts=1, mono_ns=2))
    read_record(row, block.records[0])
    assert (row.command, row.command_code, row.dropped) == ("GAP", OURS, 7)
    assert not hasattr(row, "nonsense")


def test_taken_belongs_to_no_connection():
    packed = pack_event("TAKEN", consumer_name="c", ledger_id=1, entry_id=2, batch_index=None)
    ((block, _),) = read_blocks(pack_block([packed], ts=1, mono_ns=2, conn_id=5))
    (row,) = rows_of(block)
    assert (row.conn_id, row.direction, row.consumer_name, row.entry_id) == (None, None, "c", 2)


def test_times_that_stand_for_never_are_null():
    never = wire.MessageMetadata(publish_time=2**63 - 1, deliver_at_time=2**63 - 1)
    command = bytes.fromhex(f"08094a130800120f08231003{NO_PARTITION}")
    row = Row()
    read_record(row, Record(KNOWN, 9, 99, 38, wire.BaseCommand.FromString(command), never))
    assert (row.publish_time, row.deliver_at) == (None, None)


def test_a_journal_that_has_a_credential_in_a_version_is_read_without_it():
    connect = wire.Connect(client_version="token:s3cret")
    row = Row()
    read_record(row, Record(KNOWN, 2, 99, None, wire.BaseCommand(type=2, connect=connect), None))
    assert row.client_version == "[redacted]"
