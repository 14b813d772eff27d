"""The table of a consumer's numbers, from which views, JSON and documentation are made.

A row is one number: its name in code, JSON and findings, its type, what it means, its unit, the
broker's name for it, which sources report it, and how two sources are merged. What a source does
not report is None. What it knows from one side only is a Count with one bound, or an Age that is
not exact. Counts are messages unless their unit says otherwise.
"""

# ruff: noqa: RUF009 (a row is the field of a dataclass)
from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum, auto
from typing import Any

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.functions import FunctionInstance
from pulsar_doctor.evidence.ack_wait import UNKNOWN_ACKS, Acks
from pulsar_doctor.evidence.in_hand import InHand
from pulsar_doctor.evidence.inside import Inside
from pulsar_doctor.evidence.keys import Draining
from pulsar_doctor.evidence.measures import PROCESS, STATS, WIRE, BoundSide, Measure
from pulsar_doctor.evidence.passed_over import PassedOver
from pulsar_doctor.evidence.values import Count
from pulsar_doctor.ledger.balance import Pace
from pulsar_doctor.wording.typed_json import written_as

# Who reports a number.
ALL, BOTH, CLIENT = (STATS, WIRE, PROCESS), (STATS, WIRE), (WIRE, PROCESS)
BROKER, TRACE, INSIDE = (STATS,), (WIRE,), (PROCESS,)
ROW = "row"  # of a field, among its metadata


class Merge(Enum):
    """How the number of a newer view and that of an older one become one."""

    NEWER = auto()  # the newer one, if it is reported
    COUNT = auto()  # the newer one; both bounds, if nothing has moved since the older view
    AGE = auto()  # the later of two signs
    FLOWS = auto()  # that of the view that saw each FLOW
    FLOWS_BOUND = auto()  # the same; both bounds, if neither saw each FLOW and nothing has moved
    QUEUE = auto()  # that of the view that saw each FLOW, whenever that was
    QUEUE_BOUND = auto()  # the same; both bounds, if neither saw each FLOW


@dataclass(frozen=True, slots=True)
class Number:
    """One row. broker: its name in the statistics. title: of its column in `--consumers`."""

    name: str
    type: str
    meaning: str
    unit: str
    broker: str | None
    sources: tuple[str, ...]
    merge: Merge
    title: str


def row(
    meaning: str,
    unit: str = "",
    merge: Merge = Merge.NEWER,
    *,
    default: Any = None,
    broker: str | None = None,
    by: tuple[str, ...] = BOTH,
    title: str = "",
    key: str | None = None,
) -> Any:
    """A field of a view with its row. key: its name in saved cases, if that is another one."""
    described = (meaning, unit, broker, by, merge, title)
    return field(default=default, metadata={ROW: described} | (written_as(key) if key else {}))


def messages(meaning: str, merge: Merge = Merge.COUNT, **more: Any) -> Any:
    """A count of messages."""
    return row(meaning, "messages", merge, **more)


def permits(meaning: str, merge: Merge = Merge.COUNT, **more: Any) -> Any:
    """A count of permits."""
    return row(meaning, "permits", merge, **more)


def age(meaning: str, merge: Merge = Merge.AGE, **more: Any) -> Any:
    """An age, in seconds where it is printed."""
    return row(meaning, "seconds", merge, **more)


# fmt: off
@dataclass(frozen=True, slots=True)
class PrintedFacts:
    """What sources report of every consumer, and what is printed beside its verdict."""

    label: str = row("what verdicts call it", default=MISSING, by=ALL, title="consumer")
    name: str | None = row("its name", broker="consumerName", by=ALL)
    address: str | None = row(
        "the address of its client", broker="address", by=ALL, title="address")
    client_version: str | None = row(
        "the version of its client", broker="clientVersion", title="client")
    connected_since: str | None = row("when it connected", broker="connectedSince")
    connected_for: Age | None = age("since it connected", Merge.NEWER, title="connected")
    active: bool | None = row("false for a standby of Failover")
    receiver_queue_size: Count | None = messages(
        "its receiver queue size", Merge.QUEUE_BOUND, by=ALL, title="queue size")
    available_permits: Count | None = permits(
        "what the broker may still send it", broker="availablePermits", title="permits")
    unacked_messages: Count | None = messages(
        "sent to it and not acknowledged", broker="unackedMessages", title="unacked")
    max_unacked_messages_per_consumer: int | None = messages(
        "its limit of unacknowledged messages, 0 for none", Merge.NEWER)
    blocked_consumer_on_unacked_msgs: bool | None = row(
        "whether it is at that limit", broker="blockedConsumerOnUnackedMsgs")
    msg_out_counter: Count | None = messages(
        "sent to it since it connected", broker="msgOutCounter")
    permits_granted: Count | None = permits("of all its FLOWs since it connected")
    flows: int | None = row("its FLOWs since it connected", "commands", Merge.FLOWS, by=TRACE)
    next_flow_after: Count | None = messages(
        "which it takes until its next FLOW", Merge.FLOWS_BOUND, by=ALL)
    never_acked: bool | None = row("whether it has never acknowledged any")
    since_last_ack: Age | None = age(
        "since its last acknowledgement", broker="lastAckedTimestamp", title="last ack")
    since_last_flow: Age | None = age(
        "since its last FLOW", broker="lastConsumedFlowTimestamp", title="last FLOW")
    since_last_delivery: Age | None = age(
        "since it was last sent a message", broker="lastConsumedTimestamp")
    quiet_for: Age | None = age(
        "since its last sign of life: an ack, a FLOW, a delivery, a message taken")
    msg_rate_out: float | None = row(
        "sent to it in the window, or in the broker's last full minute", "messages/second",
        broker="msgRateOut", by=BROKER, title="msg/s")


@dataclass(frozen=True, slots=True)
class ReportedConsumer(PrintedFacts):
    """What is printed of every consumer, well or not: the same, and what follows from it."""

    idle_for: Age | None = age(
        "since it has had permits and nothing to work on; null where it has", Merge.NEWER)


@dataclass(frozen=True, slots=True)
class Facts(PrintedFacts):
    """Everything that sources report of a consumer. What follows from it is in ConsumerView."""

    number: int = row("its place among the consumers of the subscription", default=0, by=ALL)
    closed: bool = row(
        "whether it has ended since; then the view is of its end", default=False, by=TRACE)
    function: FunctionInstance | None = row(
        "the function of Pulsar's own framework that it is an instance of", by=BROKER)

    unacked_entries: Count | None = row("sent and not acknowledged", "entries", Merge.COUNT)
    refilled: bool = row(
        "whether a FLOW came after its first, so that messages were taken", default=False,
        by=BROKER)
    message_ack_rate: float | None = row(
        "of its acks in the broker's last full minute", "messages/second", by=BROKER)
    partly_acked: int | None = row(
        "of which some messages are acknowledged, at least", "entries", Merge.FLOWS, by=TRACE)
    entry_messages_most: int | None = row(
        "about the most in an entry", "messages", Merge.NEWER, by=BROKER)
    queued: Count = messages(
        "in its client's queue", Merge.FLOWS_BOUND, default=Count(0, None), by=ALL)
    permits_refilled: Count | None = permits(
        "of all its FLOWs but the first", Merge.FLOWS, by=TRACE)
    permits_owed: Count | None = permits(
        "of messages that it took for sure, and that no FLOW has given back", Merge.FLOWS_BOUND,
        by=TRACE)
    parked_permits: Count | None = permits(
        "set aside while it is at its limit of unacknowledged messages", by=TRACE)
    blocked_share: float = row(
        "in which it is at that limit", "of the samples", default=0.0, by=BROKER)
    full_share: float | None = row(
        "in which it has no permits, and is not at that limit", "of the samples", by=BROKER)
    idle_share: float | None = row(
        "in which it has permits and holds nothing", "of the samples", by=BROKER)
    round_trip_seconds: float | None = row(
        "from a FLOW to its first message, or of the connection", "seconds", by=TRACE)
    acks: Acks = row("how its acknowledgements come", default=UNKNOWN_ACKS)
    ack_gap: float | None = row(
        "between two acks, at most, where enough were seen", "seconds", Merge.FLOWS)

    refill_threshold: int | None = permits(
        "unsent permits at which it sends a FLOW", Merge.QUEUE, by=CLIENT)
    one_by_one: bool = row(
        "whether its queue may be 0 or 1", merge=Merge.QUEUE, default=False, by=ALL)
    all_in_hand: bool = row(
        "whether its application may work on all that it holds, with such a queue",
        merge=Merge.FLOWS, default=False)
    largest_batch: int | None = messages("of the largest batch", Merge.QUEUE, by=TRACE)
    batch_for_one: bool = row(
        "whether it was sent a batch with such a queue", merge=Merge.FLOWS, default=False)
    closed_on_batch: bool = row(
        "whether it was closed upon that", merge=Merge.FLOWS, default=False, by=TRACE)

    sending_after: Count | None = messages(
        "which it takes until the broker may send again", Merge.FLOWS_BOUND)
    pace: Pace | None = row("of its application", "seconds/message", Merge.FLOWS)
    pace_most: float | None = row(
        "by all its life or the last minute, idle times included", "seconds/message", Merge.FLOWS,
        by=BROKER)
    works: bool | None = row("whether it goes on as it did", merge=Merge.FLOWS)
    last_request: Age | None = age(
        "since a FLOW that came within the window", Merge.FLOWS, by=BROKER, key="asked_lately")
    resting: bool = row(
        "whether it holds messages back for as long as it was set to", merge=Merge.FLOWS,
        default=False, by=TRACE)

    done: int | None = messages("finished in the window", Merge.NEWER, by=BROKER)
    holds_since: Age | None = age("since it was sent the first of what it holds")
    drain_seconds: float | None = row(
        "for all that it holds, at least, at the pace of now", "seconds", Merge.FLOWS, by=BROKER)
    since_work: Age | None = age("since its last ack or FLOW, or its connection")
    last_sign: Age | None = age("the same, without what the window adds")
    connection_sign: Age | None = age(
        "since the last ack or FLOW of anybody on its connection", by=BROKER)
    flow_reported: bool = row(
        "whether its own last FLOW is reported", default=True, by=BROKER, key="flow_told")
    sent_flow: bool = row(
        "whether a FLOW came in the window", default=False, by=BROKER, key="asked")
    passed_over: PassedOver | None = row("entries of an older epoch", merge=Merge.FLOWS, by=TRACE)
    watched: bool = row("whether there was time to see it move", default=True, by=BROKER)
    moved: bool | None = row("whether anything of it moved in the window", by=BROKER)
    delivered: int | None = messages("sent to it in the window", Merge.NEWER, by=BROKER)
    delivered_again: bool = row(
        "whether messages came in more than one step of the window", default=False, by=BROKER)
    acked: bool | None = row("whether an ack came in the window", by=BROKER)
    unseen: str | None = row("why quiet_for is only a bound", by=BROKER)

    may_receive_throughout: bool | None = row(
        "whether the broker could send to it in every sample", by=BROKER)
    since_request: Age | None = age("since its last FLOW, or its connection", by=BROKER)
    bytes_out_counter: Count | None = row(
        "sent to it since it connected", "bytes", broker="bytesOutCounter", by=BROKER)
    draining_hashes: Draining | None = row(
        "hashes of keys that wait for its acks", "hashes", broker="drainingHashes", by=BROKER)
    in_hand: InHand | None = row(
        "taken by its application and not finished", "messages", Merge.FLOWS)
    waits_from: str | None = row(
        "the position at which it joined, where it is sent nothing before mark-delete is there",
        by=BROKER)
    here: bool = row(
        "whether its connection ends on the machine that pulsar-doctor runs on", default=False,
        by=())
    inside: Inside | None = row("what its own process reports", by=INSIDE)
# fmt: on


def _row(of: Field[Any]) -> Number:
    meaning, unit, broker, sources, merge, title = of.metadata[ROW]
    return Number(of.name, str(of.type), meaning, unit, broker, sources, merge, title)


NUMBERS = {each.name: _row(each) for of in (ReportedConsumer, Facts) for each in fields(of)}
REPORTED = tuple(NUMBERS[each.name] for each in fields(ReportedConsumer))


def measured(name: str, value: Any) -> Measure:
    """A number of the table as a finding reports it: exact, or its one bound (the upper of two)."""
    bound: BoundSide | None = None
    if isinstance(value, Count):
        if value.exact is None:
            bound = "at least" if value.most is None else "at most"
        value = value.least if value.most is None else value.most
    elif isinstance(value, Age | Pace):
        value = value.seconds
    elif isinstance(value, bool):
        value = str(value).lower()
    return Measure(name, value, NUMBERS[name].unit, bound)


def merged_by(*ways: Merge) -> tuple[str, ...]:
    """Names of the numbers that are merged in one of these ways."""
    return tuple(name for name, row in NUMBERS.items() if row.merge in ways)
