"""Reads Pulsar commands: one table of those we know, from the protocol's number to a trace's row.

To add a command: name its fields in pulsar_wire.proto, add a line to COMMANDS and a line of golden
bytes to the tests. What a command does to permits stands in permits.py, not here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pulsar_doctor import pulsar_wire_pb2 as wire
from pulsar_doctor.columns import NAMES, OURS, TAKEN, MessageId, Row
from pulsar_doctor.journal import DIRECTIONS, EVENT, KNOWN, NO_CONNECTION, Block, Record

SUBSCRIPTION_TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")
ACK_TYPES = ("individual", "cumulative")
# The protocol's enum ServerError, by number.
SERVER_ERRORS = (
    "UnknownError", "MetadataError", "PersistenceError", "AuthenticationError",
    "AuthorizationError", "ConsumerBusy", "ServiceNotReady", "ProducerBlockedQuotaExceededError",
    "ProducerBlockedQuotaExceededException", "ChecksumError", "UnsupportedVersionError",
    "TopicNotFound", "SubscriptionNotFound", "ConsumerNotFound", "TooManyRequests",
    "TopicTerminatedError", "ProducerBusy", "InvalidTopicName", "IncompatibleSchema",
    "ConsumerAssignError", "TransactionCoordinatorNotFound", "InvalidTxnStatus", "NotAllowedError",
    "TransactionConflict", "TransactionNotFound", "ProducerFenced",
)  # fmt: skip

# The protocol's enum CommandAck.ValidationError, by number.
VALIDATION_ERRORS = (
    "UncompressedSizeCorruption", "DecompressionError", "ChecksumMismatch",
    "BatchDeSerializeError", "DecryptionError",
)  # fmt: skip
BATCH_MOST = 1 << 20  # messages; a larger number is no batch but an attack on memory

INT64_MOST = 2**63 - 1
MILLISECOND_MOST = INT64_MOST // 1000  # Long.MAX stands for "never" and "latest": null here

# Rows read from a journal or written by us carry these; the timeline fills in the rest.
Reader = Callable[[Row, Any, bytes | None], None]


def ack_words(words: Any) -> bytes | None:
    """The words of an ack_set (java.util.BitSet, 64 bits each) as bytes; None where it has none."""
    if not words:
        return None
    return b"".join((word & (2**64 - 1)).to_bytes(8, "little") for word in words)


def signed(number: int) -> int | None:
    """An id of the wire as a signed number; the all-ones that stand for "none" are null."""
    return number if number <= INT64_MOST else None


def _one_id(row: Row, message_id: Any) -> None:
    row.ledger_id = signed(message_id.ledger_id)
    row.entry_id = signed(message_id.entry_id)
    row.ack_set = ack_words(message_id.ack_set)
    if message_id.HasField("partition") and message_id.partition >= 0:
        row.partition = message_id.partition
    if message_id.HasField("batch_index") and message_id.batch_index >= 0:
        row.batch_index = message_id.batch_index


def _ids(row: Row, ids: Any) -> None:
    if len(ids) == 1:
        _one_id(row, ids[0])
    elif ids:
        row.message_ids = [
            MessageId(signed(i.ledger_id) or 0, signed(i.entry_id) or 0, ack_words(i.ack_set))
            for i in ids
        ]


def _name(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= number < len(names) else f"error {number}"


def _error(row: Row, command: Any) -> None:
    if command.HasField("error"):
        row.error_code = _name(SERVER_ERRORS, command.error)
        row.error_message = command.message or None


def _only_request(row: Row, command: Any, _: bytes | None) -> None:
    row.request_id = signed(command.request_id) if command.HasField("request_id") else None


def _nothing(row: Row, command: Any, _: bytes | None) -> None:
    pass


def _connect(row: Row, command: Any, _: bytes | None) -> None:
    row.client_version = command.client_version or None


def _topic_request(row: Row, command: Any, _: bytes | None) -> None:
    row.topic = command.topic or None
    row.request_id = signed(command.request_id)


def _answer(row: Row, command: Any, _: bytes | None) -> None:
    row.request_id = signed(command.request_id)
    _error(row, command)


def _subscribe(row: Row, command: Any, _: bytes | None) -> None:
    row.request_id = signed(command.request_id)
    row.topic = command.topic
    row.subscription = command.subscription
    known = 0 <= command.sub_type < len(SUBSCRIPTION_TYPES)
    row.subscription_type = SUBSCRIPTION_TYPES[command.sub_type] if known else None
    row.consumer_id = signed(command.consumer_id)
    row.consumer_name = command.consumer_name or None


def _producer(row: Row, command: Any, _: bytes | None) -> None:
    row.request_id = signed(command.request_id)
    row.topic = command.topic
    row.producer_id = signed(command.producer_id)


def _metadata(row: Row, metadata: bytes | None) -> Any:
    if metadata is None:
        return None
    known = wire.MessageMetadata.FromString(metadata)
    if known.publish_time and known.publish_time <= MILLISECOND_MOST:
        row.publish_time = known.publish_time * 1000
    if known.HasField("deliver_at_time") and 0 < known.deliver_at_time <= MILLISECOND_MOST:
        row.deliver_at = known.deliver_at_time * 1000
    if known.HasField("key_hash") and not known.HasField("num_messages_in_batch"):
        row.key_hash = known.key_hash
    return known


def _send(row: Row, command: Any, metadata: bytes | None) -> None:
    row.producer_id = signed(command.producer_id)
    row.messages = command.num_messages if command.HasField("num_messages") else 1
    _metadata(row, metadata)


def _send_receipt(row: Row, command: Any, _: bytes | None) -> None:
    row.producer_id = signed(command.producer_id)
    if command.HasField("message_id"):
        _one_id(row, command.message_id)


def _send_error(row: Row, command: Any, _: bytes | None) -> None:
    row.producer_id = signed(command.producer_id)
    _error(row, command)


def _message(row: Row, command: Any, metadata: bytes | None) -> None:
    """MESSAGE and its debit: `message_permits` (PIP-491), or the batch less its acknowledged."""
    row.consumer_id = signed(command.consumer_id)
    _one_id(row, command.message_id)
    row.redelivery_count = command.redelivery_count
    known = _metadata(row, metadata)
    batch = known.num_messages_in_batch if known and known.num_messages_in_batch > 0 else 1
    batch = min(batch, BATCH_MOST)
    row.messages = batch
    row.ack_set = ack_words(command.ack_set)
    if command.HasField("message_permits"):
        row.permits = command.message_permits
    elif row.ack_set is not None:
        row.permits = open_indexes(row.ack_set, batch)
    else:
        row.permits = batch


def open_indexes(ack_set: bytes, batch: int) -> int:
    """How many of the `batch` indexes an ack_set shows as not acknowledged (bits that are set)."""
    return (int.from_bytes(ack_set, "little") & ((1 << batch) - 1)).bit_count()


def _ack(row: Row, command: Any, _: bytes | None) -> None:
    row.consumer_id = signed(command.consumer_id)
    if command.HasField("request_id"):
        row.request_id = signed(command.request_id)
    row.ack_type = ACK_TYPES[command.ack_type & 1]
    row.messages = len(command.message_id)
    _ids(row, command.message_id)
    if command.HasField("validation_error"):  # discarded by the client, never taken
        row.error_code = _name(VALIDATION_ERRORS, command.validation_error)


def _ack_response(row: Row, command: Any, _: bytes | None) -> None:
    row.consumer_id = signed(command.consumer_id)
    _answer(row, command, None)


def _flow(row: Row, command: Any, _: bytes | None) -> None:
    row.consumer_id = signed(command.consumer_id)
    row.permits = command.message_permits


def _redeliver(row: Row, command: Any, _: bytes | None) -> None:
    row.consumer_id = signed(command.consumer_id)
    row.messages = len(command.message_ids)  # 0: all that is not acknowledged
    _ids(row, command.message_ids)


def _of_consumer(row: Row, command: Any, _: bytes | None) -> None:
    row.consumer_id = signed(command.consumer_id)
    if command.HasField("request_id"):
        row.request_id = signed(command.request_id)


def _seek(row: Row, command: Any, _: bytes | None) -> None:
    _of_consumer(row, command, None)
    if command.HasField("message_id"):
        _one_id(row, command.message_id)


def _active_change(row: Row, command: Any, _: bytes | None) -> None:
    row.consumer_id = signed(command.consumer_id)
    row.messages = int(command.is_active)  # 1: now the active consumer, 0: a standby


def _close_producer(row: Row, command: Any, _: bytes | None) -> None:
    row.producer_id = signed(command.producer_id)
    row.request_id = signed(command.request_id)


def _last_message_id(row: Row, command: Any, _: bytes | None) -> None:
    row.request_id = signed(command.request_id)
    if command.HasField("last_message_id"):
        _one_id(row, command.last_message_id)


class Known(NamedTuple):
    """A command that we know: its name in the protocol, its field in BaseCommand, its reader."""

    name: str
    field: str
    read: Reader


COMMANDS: dict[int, Known] = {
    2: Known("CONNECT", "connect", _connect),
    3: Known("CONNECTED", "connected", _nothing),
    4: Known("SUBSCRIBE", "subscribe", _subscribe),
    5: Known("PRODUCER", "producer", _producer),
    6: Known("SEND", "send", _send),
    7: Known("SEND_RECEIPT", "send_receipt", _send_receipt),
    8: Known("SEND_ERROR", "send_error", _send_error),
    9: Known("MESSAGE", "message", _message),
    10: Known("ACK", "ack", _ack),
    11: Known("FLOW", "flow", _flow),
    12: Known("UNSUBSCRIBE", "unsubscribe", _of_consumer),
    13: Known("SUCCESS", "success", _only_request),
    14: Known("ERROR", "error", _answer),
    15: Known("CLOSE_PRODUCER", "close_producer", _close_producer),
    16: Known("CLOSE_CONSUMER", "close_consumer", _of_consumer),
    17: Known("PRODUCER_SUCCESS", "producer_success", _only_request),
    18: Known("PING", "ping", _nothing),
    19: Known("PONG", "pong", _nothing),
    20: Known("REDELIVER_UNACKNOWLEDGED_MESSAGES", "redeliver", _redeliver),
    21: Known("PARTITIONED_METADATA", "partitioned_metadata", _topic_request),
    22: Known("PARTITIONED_METADATA_RESPONSE", "partitioned_metadata_response", _answer),
    23: Known("LOOKUP", "lookup", _topic_request),
    24: Known("LOOKUP_RESPONSE", "lookup_response", _answer),
    25: Known("CONSUMER_STATS", "consumer_stats", _of_consumer),
    26: Known("CONSUMER_STATS_RESPONSE", "consumer_stats_response", _only_request),
    27: Known("REACHED_END_OF_TOPIC", "reached_end_of_topic", _of_consumer),
    28: Known("SEEK", "seek", _seek),
    29: Known("GET_LAST_MESSAGE_ID", "get_last_message_id", _of_consumer),
    30: Known("GET_LAST_MESSAGE_ID_RESPONSE", "get_last_message_id_response", _last_message_id),
    31: Known("ACTIVE_CONSUMER_CHANGE", "active_consumer_change", _active_change),
    32: Known("GET_TOPICS_OF_NAMESPACE", "get_topics_of_namespace", _only_request),
    33: Known(
        "GET_TOPICS_OF_NAMESPACE_RESPONSE", "get_topics_of_namespace_response", _only_request
    ),
    34: Known("GET_SCHEMA", "get_schema", _only_request),
    35: Known("GET_SCHEMA_RESPONSE", "get_schema_response", _only_request),
    36: Known("AUTH_CHALLENGE", "auth_challenge", _nothing),
    37: Known("AUTH_RESPONSE", "auth_response", _nothing),
    38: Known("ACK_RESPONSE", "ack_response", _ack_response),
    39: Known("GET_OR_CREATE_SCHEMA", "get_or_create_schema", _only_request),
    40: Known(
        "GET_OR_CREATE_SCHEMA_RESPONSE", "get_or_create_schema_response", _only_request
    ),
    68: Known("TOPIC_MIGRATED", "topic_migrated", _nothing),
}  # fmt: skip

CODES = {known.name: code for code, known in COMMANDS.items()}


def rows_of(block: Block) -> Iterator[Row]:
    """The rows of a journal block, as far as the commands themselves tell."""
    direction = DIRECTIONS[block.direction]
    for record in block.records:
        row = Row()
        row.ts = block.ts
        row.mono_ns = block.mono_ns
        if block.conn_id != NO_CONNECTION:
            row.conn_id = block.conn_id
            row.direction = direction
        read_record(row, record)
        yield row


def read_record(row: Row, record: Record) -> None:
    """Fills in what one record says."""
    if record.kind == EVENT:
        _read_event(row, record)
        return
    row.command_code = record.code
    row.frame_bytes = record.frame_bytes
    row.payload_bytes = record.payload_bytes
    known = COMMANDS.get(record.code)
    if known is None or record.kind != KNOWN:
        row.command = known.name if known else f"COMMAND_{record.code}"
        row.raw = record.command
        return
    row.command = known.name
    command = getattr(wire.BaseCommand.FromString(record.command), known.field)
    known.read(row, command, record.metadata)


def _read_event(row: Row, record: Record) -> None:
    values = json.loads(record.command)
    row.command_code = OURS
    for name in NAMES:
        if name in values:
            setattr(row, name, values[name])
    if row.command == TAKEN:
        row.conn_id = row.direction = None
