"""Reads Pulsar commands into rows of a trace: those of BaseCommand in pulsar_wire.proto.

To add a command: name its fields there, those that are new in FIELDS here, and add a line of golden
bytes to the tests. What a command does to permits is in ledger/permits.py, not here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import (
    COLUMNS,
    OURS,
    SET_ASIDE,
    TAKEN,
    TIME,
    UNPARSED,
    MessageId,
    Row,
)
from pulsar_doctor.wire.framing import MESSAGE
from pulsar_doctor.wire.journal import DIRECTIONS, EVENT, KNOWN, NO_CONNECTION, Batch, Block, Record
from pulsar_doctor.wire.redaction import redact_version
from pulsar_doctor.wire.text import text_of

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
ACK_SET_WORDS_MOST = BATCH_MOST // 64
IDS_MOST = 100_000  # of one command; clients put up to 1,000 together

INT32_MOST = 2**31 - 1  # of permits at once; a broker counts in such numbers, and so do columns
INT64_MOST = 2**63 - 1
MILLISECOND_MOST = 253_402_300_799_999  # of the year 9999; Long.MAX is "never", null here

# Rows read from a journal or written by us carry these; the timeline fills in the rest.
# Of a command they get the parsed message, and the parsed MessageMetadata where there is one.
Reader = Callable[[Row, Any, Any], None]


def ack_words(words: Any) -> bytes:
    """The words of an ack_set (java.util.BitSet, 64 bits each) as bytes; of a batch at most."""
    kept = words[:ACK_SET_WORDS_MOST]
    return b"".join((word & (2**64 - 1)).to_bytes(8, "little") for word in kept)


def signed(number: int) -> int | None:
    """An id of the wire as a signed number; the all-ones that stand for "none" are null."""
    return number if number <= INT64_MOST else None


def _text(value: str | bytes) -> str | None:
    """A string of the wire, None where it is empty."""
    return text_of(value) if value else None


def _one_id(row: Row, message_id: Any) -> None:
    ledger_id, entry_id = message_id.ledger_id, message_id.entry_id
    row.ledger_id = ledger_id if ledger_id <= INT64_MOST else None
    row.entry_id = entry_id if entry_id <= INT64_MOST else None
    if (partition := message_id.partition) >= 0:  # -1 where there is none, as the proto says
        row.partition = partition
    if (batch_index := message_id.batch_index) >= 0:
        row.batch_index = batch_index
    if words := message_id.ack_set:
        row.ack_set = ack_words(words)


def _message_id(each: Any) -> MessageId:
    """One of several ids. The tuple is made as such: the class's own `__new__` takes twice that."""
    ledger_id, entry_id, words = each.ledger_id, each.entry_id, each.ack_set
    place = (
        ledger_id if ledger_id <= INT64_MOST else 0,
        entry_id if entry_id <= INT64_MOST else 0,
        ack_words(words) or None if words else None,
    )
    return tuple.__new__(MessageId, place)


def _ids(row: Row, ids: Any) -> None:
    if len(ids) > IDS_MOST:
        raise ValueError("more ids than are kept")  # and so it is set aside
    if len(ids) == 1:
        _one_id(row, ids[0])
    elif ids:
        row.message_ids = [_message_id(i) for i in ids]


def _name(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= number < len(names) else f"error {number}"


def _error(row: Row, command: Any) -> None:
    if command.HasField("error"):
        row.error_code = _name(SERVER_ERRORS, command.error)
        row.error_message = _text(command.message)


# What is read of a field of a command that is no matter of speed, and the column that says so.
FIELDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    **{name: (name, signed) for name in ("request_id", "consumer_id", "producer_id")},
    **{name: (name, text_of) for name in ("topic", "subscription")},
    **{name: (name, _text) for name in ("consumer_name", "producer_name")},
    "initial_subscription_name": ("initial_subscription", _text),
    "consumer_epoch": ("consumer_epoch", signed),
    "is_active": ("messages", int),  # 1: now the active consumer, 0: a standby
}


def _as_it_is(row: Row, command: Any, _: Any) -> None:
    """The fields that are there, each in its column."""
    for field, value in command.ListFields():
        if field.name in FIELDS:
            column, read = FIELDS[field.name]
            setattr(row, column, read(value))
        elif field.name in ("message_id", "last_message_id"):
            _one_id(row, value)
        elif field.name == "error":
            _error(row, command)


def _connect(row: Row, command: Any, _: Any) -> None:
    version = command.client_version  # a journal of an older pulsar-doctor has it as it came
    row.client_version = redact_version(version) if version else None


def _subscribe(row: Row, command: Any, _: Any) -> None:
    _as_it_is(row, command, None)
    known = 0 <= command.sub_type < len(SUBSCRIPTION_TYPES)
    row.subscription_type = SUBSCRIPTION_TYPES[command.sub_type] if known else None
    row.durable = command.durable


def _epoch(row: Row, command: Any) -> None:
    if command.HasField("consumer_epoch"):
        row.consumer_epoch = signed(command.consumer_epoch)


def _metadata(row: Row, metadata: Any) -> int:
    """Fills in what the metadata says; returns the size of the batch, 0 where it is none."""
    publish_time, deliver_at = metadata.publish_time, metadata.deliver_at_time
    batch: int = metadata.num_messages_in_batch
    if publish_time and publish_time <= MILLISECOND_MOST:
        row.publish_time = publish_time * 1000
    if 0 < deliver_at <= MILLISECOND_MOST:
        row.deliver_at = deliver_at * 1000
    single = not batch and not metadata.HasField("num_messages_in_batch")
    if single and metadata.HasField("key_hash"):
        row.key_hash = metadata.key_hash
    return batch


def _send(row: Row, command: Any, metadata: Any) -> None:
    row.producer_id = signed(command.producer_id)
    row.messages = command.num_messages
    if metadata is not None:
        _metadata(row, metadata)


def _send_receipt(row: Row, command: Any, _: Any) -> None:
    row.producer_id = signed(command.producer_id)
    if command.HasField("message_id"):
        _one_id(row, command.message_id)


def _message(row: Row, command: Any, metadata: Any) -> None:
    """MESSAGE and its debit: `message_permits` (PIP-491), or the batch less its acknowledged."""
    row.consumer_id = signed(command.consumer_id)
    _one_id(row, command.message_id)
    row.redelivery_count = command.redelivery_count
    batch = 0 if metadata is None else _metadata(row, metadata)
    batch = min(batch, BATCH_MOST) if batch > 0 else 1
    row.messages = row.permits = batch
    if words := command.ack_set:
        row.ack_set = ack_set = ack_words(words)
        row.permits = open_indexes(ack_set, batch)
    else:
        row.ack_set = None
    if command.HasField("message_permits"):
        row.permits = min(command.message_permits, INT32_MOST)
    _epoch(row, command)


def open_indexes(ack_set: bytes, batch: int) -> int:
    """How many of the `batch` indexes an ack_set shows as not acknowledged (bits that are set)."""
    return (int.from_bytes(ack_set, "little") & ((1 << batch) - 1)).bit_count()


def _ack(row: Row, command: Any, _: Any) -> None:
    row.consumer_id = signed(command.consumer_id)
    if command.HasField("request_id"):
        row.request_id = signed(command.request_id)
    row.ack_type = ACK_TYPES[command.ack_type & 1]
    row.messages = len(command.message_id)
    _ids(row, command.message_id)
    if command.HasField("validation_error"):  # discarded by the client, never taken
        row.error_code = _name(VALIDATION_ERRORS, command.validation_error)
    if command.HasField("txnid_most_bits") and command.HasField("txnid_least_bits"):
        row.transaction = f"({command.txnid_most_bits},{command.txnid_least_bits})"


def _ack_response(row: Row, command: Any, _: Any) -> None:
    row.consumer_id = signed(command.consumer_id)
    row.request_id = signed(command.request_id)
    _error(row, command)


def _flow(row: Row, command: Any, _: Any) -> None:
    row.consumer_id = signed(command.consumer_id)
    row.permits = min(command.message_permits, INT32_MOST)


def _redeliver(row: Row, command: Any, _: Any) -> None:
    row.consumer_id = signed(command.consumer_id)
    row.messages = len(command.message_ids)  # 0: all that is not acknowledged
    _ids(row, command.message_ids)
    _epoch(row, command)


class Known(NamedTuple):
    """A command that we know: its name in the protocol, its field in BaseCommand, its reader."""

    name: str
    field: str
    read: Reader


# Those that come by the million, and those that say more than FIELDS has a column for.
READERS: dict[str, Reader] = {
    "connect": _connect,
    "subscribe": _subscribe,
    "send": _send,
    "send_receipt": _send_receipt,
    "message": _message,
    "ack": _ack,
    "flow": _flow,
    "redeliver": _redeliver,
    "ack_response": _ack_response,
}
NAMES = {"redeliver": "REDELIVER_UNACKNOWLEDGED_MESSAGES"}  # the others are called as their fields
# By code, which is also the number of the field.
COMMANDS = {
    field.number: Known(
        NAMES.get(field.name, field.name.upper()),
        field.name,
        READERS.get(field.name, _as_it_is),
    )
    for field in wire.BaseCommand.DESCRIPTOR.fields
    if field.message_type is not None
}

CODES = {known.name: code for code, known in COMMANDS.items()}


def rows_of(block: Block) -> Iterator[Row]:
    """The rows of a journal block, one a record, as far as the commands themselves tell."""
    return chain.from_iterable(_rows_of_part(block, part) for part in block.parts)


def _rows_of_part(block: Block, part: Record | Batch) -> Iterator[Row]:
    if isinstance(part, Batch):
        return _plain_messages(block, part) if _plain(part) else _each(block, part.records())
    return _each(block, (part,))


def _each(block: Block, records: Iterable[Record]) -> Iterator[Row]:
    ts, mono_ns = block.ts, block.mono_ns
    conn_id, direction = block.conn_id, DIRECTIONS[block.direction]
    for record in records:
        row = Row()
        row.ts, row.mono_ns = ts, mono_ns
        if conn_id != NO_CONNECTION:
            row.conn_id, row.direction = conn_id, direction
        try:
            read_record(row, record)
        except Exception as error:  # whatever it is, it must not keep the others from being read
            own = record.kind == EVENT
            row.frame_bytes = None if own else record.frame_bytes
            row.payload_bytes = None if own else record.payload_bytes
            row = set_aside(row, error)
        yield row


def set_aside(row: Row, error: Exception) -> Row:
    """The row of a record that cannot be read: UNPARSED, with when, where and how large it was.

    As behind any UNPARSED, nothing is certain any more of the consumers of that connection.
    """
    aside = Row()
    for name in ("ts", "mono_ns", "conn_id", "direction", "frame_bytes", "payload_bytes"):
        setattr(aside, name, getattr(row, name))
    aside.command, aside.command_code, aside.error_code = UNPARSED, OURS, SET_ASIDE
    what = row.command or "a record"
    aside.error_message = f"{what} was set aside, it cannot be read: {type(error).__name__}"
    return aside


# What `_plain_messages` reads, or `_message` has no use for; whatever else is there is passed on.
PLAIN_FIELDS = {
    "message": {
        "consumer_id", "message_id", "redelivery_count", "consumer_epoch",
    },
    "message_id": {"ledger_id", "entry_id", "partition", "batch_size", "ack_set"},
    "metadata": {
        "publish_time", "num_messages_in_batch", "partition_key", "compression",
        "uncompressed_size", "marker_type", "num_chunks_from_msg", "total_chunk_msg_size",
        "chunk_id",
    },
}  # fmt: skip


def _make_check_for_others() -> Callable[..., bool]:
    """A function of a Message, its MessageId and its metadata: whether any other field is there."""
    kinds: dict[str, Any] = {
        "message": wire.Message,
        "message_id": wire.MessageId,
        "metadata": wire.MessageMetadata,
    }
    others = [
        (at, field)
        for at, (part, kind) in enumerate(kinds.items())
        for field in kind.DESCRIPTOR.fields
        if field.name not in PLAIN_FIELDS[part]
    ]
    single = tuple((at, field.name) for at, field in others if not field.is_repeated)
    repeated = tuple((at, field.name) for at, field in others if field.is_repeated)

    def found(*parts: Any) -> bool:
        for at, name in single:  # once a block; any() takes longer
            if parts[at].HasField(name):
                return True
        return any(getattr(parts[at], name) for at, name in repeated)

    return found


_has_others = _make_check_for_others()


def _plain(batch: Batch) -> bool:
    """Whether these are messages with nothing that only a few have."""
    codes = batch.codes
    if not codes.count(MESSAGE) == len(codes) == len(batch.metadata):
        return False
    message = batch.everything.commands.message
    return not _has_others(message, message.message_id, batch.everything.metadata)


def _plain_messages(block: Block, batch: Batch) -> Iterator[Row]:
    """What `_message` makes of such, without looking for what is not there: most rows are these."""
    sizes = iter(batch.sizes)
    ts, mono_ns, conn_id = block.ts, block.mono_ns, block.conn_id
    epochs = batch.everything.commands.message.HasField("consumer_epoch")
    direction, name = DIRECTIONS[block.direction], COMMANDS[MESSAGE].name
    for command, known, total, command_bytes in zip(
        batch.commands, batch.metadata, sizes, sizes, strict=False
    ):
        message = command.message
        message_id = message.message_id
        row = Row()
        row.ts, row.mono_ns, row.conn_id, row.direction = ts, mono_ns, conn_id, direction
        row.command, row.command_code = name, MESSAGE
        row.frame_bytes, row.payload_bytes = total + 4, total - 4 - command_bytes
        row.consumer_id = number if (number := message.consumer_id) <= INT64_MOST else None
        row.ledger_id = number if (number := message_id.ledger_id) <= INT64_MOST else None
        row.entry_id = number if (number := message_id.entry_id) <= INT64_MOST else None
        if (number := message_id.partition) >= 0:
            row.partition = number
        row.redelivery_count = message.redelivery_count
        number = known.num_messages_in_batch
        row.messages = row.permits = min(number, BATCH_MOST) if number > 0 else 1
        if 0 < (number := known.publish_time) <= MILLISECOND_MOST:
            row.publish_time = number * 1000
        if epochs and message.HasField("consumer_epoch"):
            row.consumer_epoch = signed(message.consumer_epoch)
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
    known.read(row, getattr(record.command, known.field), record.metadata)


def _read_event(row: Row, record: Record) -> None:
    for name, value in json.loads(record.command).items():
        if value is not None and name in EVENT_VALUES:
            setattr(row, name, EVENT_VALUES[name](value))
    row.command_code = OURS
    if row.command == TAKEN:
        row.conn_id = row.direction = None


def _event_value(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind) or (kind is int and abs(value) > INT64_MOST):
        raise TypeError(f"no {kind.__name__}")
    return text_of(value) if kind is str else value


_EVENT_KINDS = {
    "string": str,
    "bool": bool,
    **dict.fromkeys(("int16", "int32", "int64", TIME), int),
}
# Columns that an event may tell.
EVENT_VALUES = {
    column.name: partial(_event_value, _EVENT_KINDS[column.type])
    for column in COLUMNS
    if column.type in _EVENT_KINDS
}
