"""The columns of a trace: one table for files, readers and the manual.

A row is one command with the ledger after it. None means "not part of this command", never 0 or -1.
Integers are signed; wall time is UTC in microseconds; units stand in the names. New columns are
added at the end and may be null, so that older traces can always be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

SCHEMA_VERSION = 1
GENERATION_BITS = 24  # of a conn_id: which one it is of its relay; above: which relay it was

TO_BROKER = "to_broker"
TO_CLIENT = "to_client"

# Commands that are ours and not the protocol's; their command_code is OURS.
OPEN, CLOSE, UNPARSED, TAKEN, GAP = "OPEN", "CLOSE", "UNPARSED", "TAKEN", "GAP"
JOINED = "JOINED"  # from here on the frames of one direction are read: a capture begins or resumes
RETRACTED = "RETRACTED"  # the rows of a likely join are taken back: they were no commands
STATS = "STATS"  # what the broker reports of a consumer without its SUBSCRIBE in the capture
# In known_by of a command: two pauses of the sender, or whole frames from the start of a segment.
BY_SILENCE, BY_SEGMENT = "silence", "segment"
LIKELY_BY = frozenset({BY_SILENCE, BY_SEGMENT})
LIKELY = "likely"  # the only grade that is written: no grade means proven
MISTAKEN = "mistaken"  # in known_by: a STATS takes back what an earlier one claimed
OURS = -1
# All of them, as none is in the protocol.
OUR_COMMANDS = frozenset({OPEN, CLOSE, UNPARSED, TAKEN, GAP, JOINED, RETRACTED, STATS})
SET_ASIDE = "SetAside"  # error_code of an UNPARSED that is one record which could not be read


class MessageId(NamedTuple):
    """One of the ids of an ACK or REDELIVER."""

    ledger_id: int
    entry_id: int
    ack_set: bytes | None  # words of 64 bits, least significant first


IDS = "list<struct<ledger_id int64, entry_id int64, ack_set binary>>"
TIME = "timestamp[us, UTC]"


class Row:
    """One row of a trace. A command's reader fills in its part, the timeline the rest.

    Not a frozen value: rows are made by the hundred thousand, and this is the hot path. What
    nobody sets is null, or the neutral value where a column may not be null.
    """

    trace_id: Annotated[str, "string", "one a trace, so that many traces in one place stay apart"]
    seq: Annotated[int, "int64", "number of the row, without gaps; from 0, in a ring later"]
    ts: Annotated[int, TIME, "when the relay had the whole command"]
    mono_ns: Annotated[int, "int64", "monotonic clock of the relay's machine, nanoseconds"]
    conn_id: Annotated[int | None, "int32", "connection of this trace; null for GAP and TAKEN"]
    incarnation: Annotated[
        int | None, "int32", "consumer incarnation, from SUBSCRIBE to close, over the whole trace"
    ]
    direction: Annotated[str | None, "string", "to_broker or to_client"]
    client_addr: Annotated[str | None, "string", "ip:port of the client"]
    broker_addr: Annotated[str | None, "string", "ip:port of the broker"]
    command: Annotated[
        str,
        "string",
        "name in the protocol, or UNPARSED, GAP, OPEN, CLOSE, TAKEN, JOINED, RETRACTED, STATS, "
        "which are ours",
    ]
    command_code: Annotated[int, "int16", "number in the protocol, -1 for ours"]
    frame_bytes: Annotated[int | None, "int32", "the whole frame, its size fields included"]
    payload_bytes: Annotated[int | None, "int32", "headers and payload of the frame"]
    request_id: Annotated[int | None, "int64", "ties an answer to its request"]
    topic: Annotated[str | None, "string", "filled in for every command of a known consumer"]
    subscription: Annotated[str | None, "string", "filled in as topic is"]
    subscription_type: Annotated[
        str | None, "string", "Exclusive, Shared, Failover or Key_Shared; filled in"
    ]
    consumer_id: Annotated[int | None, "int64", "number that the client gave, per connection"]
    producer_id: Annotated[int | None, "int64", "the same of a producer"]
    consumer_name: Annotated[str | None, "string", "as in SUBSCRIBE"]
    client_version: Annotated[
        str | None, "string", "as in CONNECT, without what looks like a credential"
    ]
    ledger_id: Annotated[int | None, "int64", "of the one message id of the command"]
    entry_id: Annotated[int | None, "int64", "of the same message id"]
    partition: Annotated[int | None, "int32", "of the message id, or of the topic's name"]
    batch_index: Annotated[int | None, "int32", "of the message id"]
    messages: Annotated[int | None, "int32", "messages of the entry, or ids of the ACK"]
    permits: Annotated[int | None, "int32", "FLOW: permits granted; MESSAGE: permits spent"]
    available_permits: Annotated[
        int | None,
        "int32",
        "granted and not spent, after this command; an upper bound while parked_permits is null",
    ]
    parked_permits: Annotated[
        int | None, "int32", "FLOWs set aside by the unacked limit; null where it is not known"
    ]
    unsent_permits_min: Annotated[
        int | None, "int32", "taken by the application and not yet sent as FLOW, at least"
    ]
    unacked_messages: Annotated[
        int | None, "int32", "delivered and not acknowledged, after this command"
    ]
    redelivery_count: Annotated[int | None, "int32", "MESSAGE: as the broker counts"]
    flow_gap_us: Annotated[int | None, "int64", "FLOW: since the previous FLOW of the incarnation"]
    starved_us: Annotated[
        int | None, "int64", "on the command that ends a time without permits: how long it lasted"
    ]
    starved_since: Annotated[
        int | None, TIME, "on every command of a consumer without permits: since when"
    ]
    ack_delay_us: Annotated[
        int | None, "int64", "ACK: from delivery to this ack; of several ids the longest"
    ]
    ack_type: Annotated[str | None, "string", "individual or cumulative"]
    ack_set: Annotated[
        bytes | None,
        "binary",
        "words of 64 bits, least significant first; a cleared bit is an acknowledged index",
    ]
    message_ids: Annotated[
        list[MessageId] | None, IDS, "ids of an ACK or REDELIVER that carries several"
    ]
    publish_time: Annotated[int | None, TIME, "MESSAGE: the producer's clock"]
    deliver_at: Annotated[int | None, TIME, "MESSAGE: not to be delivered before"]
    key_hash: Annotated[
        int | None, "int64", "salted hash of the key, never the key; null for batches"
    ]
    error_code: Annotated[str | None, "string", "the broker's error, by name"]
    error_message: Annotated[str | None, "string", "shortened and redacted"]
    dropped: Annotated[int | None, "int64", "GAP: commands that could not be recorded"]
    raw: Annotated[
        bytes | None,
        "binary",
        "a command this version does not know: field numbers and lengths, every value blanked",
    ]
    acknowledged_messages: Annotated[
        int | None,
        "int32",
        "ACK: messages that it acknowledged, whoever held them; null where that is not known",
    ]
    starved_from: Annotated[
        int | None,
        TIME,
        "beside starved_us: since when; null where that was not the row's own incarnation",
    ]
    transaction: Annotated[
        str | None, "string", "ACK: the transaction that it belongs to, as the broker writes its id"
    ]
    consumer_epoch: Annotated[
        int | None,
        "int64",
        "SUBSCRIBE, REDELIVER: how often everything was asked for again; MESSAGE: when it was read",
    ]
    producer_name: Annotated[
        str | None, "string", "PRODUCER: as the client asks for it; null: the broker gives one"
    ]
    initial_subscription: Annotated[
        str | None,
        "string",
        "PRODUCER: the subscription that its topic begins with; asked for by dead-letter policies",
    ]

    known_by: Annotated[
        str | None,
        "string",
        "of a capture: how it is known where this command begins: beginning or length, which prove "
        "it, or silence or segment, which make it likely (see grade); "
        "STATS: how the consumer was found: name, address, movement, ledger, or only likely; "
        "mistaken: an earlier STATS of this number was wrong, and it is nobody's again; "
        "null: a tap saw it",
    ]
    last_sign: Annotated[
        int | None, TIME, "STATS: when it last acknowledged, asked for more or connected"
    ]
    grade: Annotated[
        str | None,
        "string",
        "of a capture: likely, where a payload could look like this command; STATS: where that "
        "consumer's number is only likely; null: proven",
    ]
    join: Annotated[
        int | None,
        "int64",
        "of a likely row: seq of the JOINED from which its direction is read; RETRACTED: the join "
        "whose rows are taken back",
    ]
    permits_min: Annotated[
        int | None,
        "int32",
        "STATS while commands pass: available permits by then, at least; null: those in permits",
    ]
    permits_max: Annotated[int | None, "int32", "the same, at most"]
    messages_min: Annotated[
        int | None, "int32", "STATS while commands pass: unacknowledged messages by then, at least"
    ]
    messages_max: Annotated[int | None, "int32", "the same, at most"]
    available_permits_min: Annotated[
        int | None,
        "int32",
        "behind such a STATS: at least so many, and available_permits at most; null: that many",
    ]
    unacked_messages_min: Annotated[int | None, "int32", "the same of unacked_messages"]
    durable: Annotated[
        bool | None,
        "bool",
        "SUBSCRIBE: whether the broker keeps the subscription's position; false for a reader",
    ]
    last_sent: Annotated[int | None, TIME, "STATS: when the broker last sent it a message"]

    __slots__ = tuple(__annotations__)


def ids_of(row: Row) -> list[MessageId]:
    """The message ids of an ACK or REDELIVER, whether it carries one or several."""
    if row.message_ids is not None:
        return row.message_ids
    if row.entry_id is None or row.ledger_id is None:
        return []
    return [MessageId(row.ledger_id, row.entry_id, row.ack_set)]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its type in the words of TRACE(5), whether null, what it means."""

    name: str
    type: str
    nullable: bool
    meaning: str


def _table() -> tuple[Column, ...]:
    columns = []
    for name, hint in get_type_hints(Row, include_extras=True).items():
        python_type, column_type, meaning = get_args(hint)
        columns.append(Column(name, column_type, type(None) in get_args(python_type), meaning))
    return tuple(columns)


COLUMNS = _table()
NAMES = tuple(column.name for column in COLUMNS)
COLUMN_NAMES = frozenset(NAMES)

# A row -> the tuple of its values, in the order of COLUMNS. Compiled from our own names, since
# operator.attrgetter takes 1.25 times as long (0.95 us a row instead of 0.76).
values_of: Callable[[Row], tuple[Any, ...]] = eval(
    f"lambda row: ({', '.join(f'row.{name}' for name in NAMES)})"
)


@cache
def maker_of(names: tuple[str, ...]) -> Callable[..., Row]:
    """The other way round: a function from the values of these columns to a row that has them.

    Compiled, since a loop of setattr takes 4 times as long (4.0 us a row instead of 0.95).
    """
    if not COLUMN_NAMES.issuperset(names):  # they may come from a file, and become code here
        raise KeyError(f"no columns of a trace: {sorted(set(names) - COLUMN_NAMES)}")
    filled = (f"row.{name} = {name}" for name in names)
    return _function(", ".join(names), ("row = Row()", *filled, "return row"))


def _function(arguments: str, lines: Iterable[str]) -> Callable[..., Any]:
    made: dict[str, Any] = {"Row": Row}
    exec("\n ".join([f"def made({arguments}):", *lines]), made)
    function: Callable[..., Any] = made["made"]
    return function


def _neutral(column: Column) -> str:
    return "None" if column.nullable else '""' if column.type == "string" else "0"


# A loop over the columns would take longer than all that is done to a row.
_begin = _function("row", (f"row.{each.name} = {_neutral(each)}" for each in COLUMNS))
setattr(Row, "__init__", _begin)  # noqa: B010 (mypy refuses an assignment)
