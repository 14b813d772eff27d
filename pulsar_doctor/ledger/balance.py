"""One consumer's numbers at broker and client, with a forecast of its next FLOW.

What moves these numbers, and why they mean what they mean, is in permits.py.
"""

from __future__ import annotations

from collections import OrderedDict  # drops its oldest without walking over what was dropped before
from dataclasses import dataclass, field, replace

from pulsar_doctor.ledger.clients import CLIENTS
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.typed_json import InHex

BUCKET_NS = 10_000_000_000  # of the recent past, for checks that judge a window
PERMITS_MOST = 2**31 - 1  # a broker counts a consumer's permits up to here
REFILLS_KEPT = 8  # a client may change its threshold while it runs
TRIPS_KEPT = 9
PACE_NEEDS = 2  # completed messages before a measured pace says anything
LEAST_PACE_SECONDS = 0.0005  # less is printed as 0 ms
AHEAD = max(each.ahead for each in CLIENTS)  # messages taken before the application has them

Position = tuple[int, int]
NOWHERE: Position = (-1, -1)
EVERYWHERE: Position = (2**63 - 1, 2**63 - 1)


@dataclass(slots=True)
class Delivery:
    """One entry that was delivered and is not wholly acknowledged: a bit for each open message."""

    open_bits: InHex
    at_ns: int
    number: int  # of its last message among all that came; 0 where its ack proves nothing

    @property
    def messages(self) -> int:
        """Messages of the entry that are not acknowledged."""
        return self.open_bits.bit_count()

    @property
    def proves(self) -> int:
        """How many messages the application must have taken, now that some of these are closed."""
        return self.number - self.open_bits.bit_count()


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the application takes for one message."""

    seconds: float
    source: str  # `measured` or `as told` (given)

    @property
    def at_once(self) -> bool:
        """Whether it takes each message as it comes: it waits for messages then."""
        return self.seconds < LEAST_PACE_SECONDS


@dataclass(frozen=True, slots=True)
class Forecast:
    """When the next FLOW comes: after so many more messages are taken."""

    messages: int
    at_most: bool  # it may come sooner: the wire does not show what was taken
    # to be taken until permits are above 0: more than one FLOW where they are far below
    until_positive: int
    pace: Pace | None  # None: not known
    due: bool = False  # enough is taken already

    @property
    def seconds(self) -> float | None:
        """Until the next FLOW; None too where messages are taken as they come."""
        if self.pace is None or self.pace.at_once:
            return None
        return self.messages * self.pace.seconds

    def __str__(self) -> str:
        """The forecast in words."""
        if self.due:
            return "FLOW is due"
        at_most = "at most " if self.at_most and self.messages > 1 else ""
        messages = "message" if self.messages == 1 else "messages"
        text = f"next FLOW after {at_most}{self.messages} more {messages}"
        if self.pace is None:
            return f"{text}, cannot tell when"
        if self.seconds is None:
            return f"{text}, as soon as they come: it takes each at once"
        each = f"{duration(self.pace.seconds)} each"
        origin = ", as given" if self.pace.source == "as told" else ""
        return f"{text}, in about {duration(self.seconds)} at {each}{origin}"


@dataclass(frozen=True, slots=True)
class Starvation:
    """Times without permits of one incarnation up to a moment."""

    total_ns: int = 0
    longest_ns: int = 0
    of_ns: int = 0  # time since it had subscribed

    @property
    def share(self) -> float | None:
        """The share of its time without permits, from 0 to 1; None where that is not known."""
        return self.total_ns / self.of_ns if self.of_ns else None


@dataclass(slots=True)
class Ledger:
    """Both sides of one consumer incarnation, and what was seen of it. Counts are messages."""

    individual: bool = True  # Shared and Key_Shared: the broker counts and limits unacked messages
    given_receiver_queue_size: int | None = None
    given_process_seconds: float | None = None
    given_delay_us: int = 0  # it holds each message back until it is so old; 0: it does not
    delay_from_receipt: bool = False
    unacked_limit: int | None = None
    credits_skipped: bool = False  # its client gives permits back for indexes that it skips
    asks_on_arrival: bool = False  # its client asks when messages arrive, taken or not

    # What the broker reported in the middle of its life: before that not all of it is known.
    joined: bool = False
    reported_held: int | None = None  # messages that it held then, as the broker counts them
    reported_permits: int = 0
    held_before: int = 0  # of those, how many may still be out
    open_permits: int = 0  # by so many available permits may be less; so is the next
    open_unacked: int = 0

    ready: bool = False  # SUBSCRIBE has succeeded; the broker drops a FLOW that comes before
    uncertain: bool = False  # commands are missing from the trace
    likely: bool = False  # moved by commands of a capture that are not proven, since the report
    granted: int = 0
    spent: int = 0
    parked: int = 0
    blocked: bool = False
    crossed: int = 0  # granted by FLOWs that may or may not have come before the limit was reached
    unspent_flows: list[list[int]] = field(default_factory=list)  # [granted before it, its permits]

    flow_count: int = 0
    first_flow: int | None = None
    refills: list[int] = field(default_factory=list)  # sizes of the last FLOWs after the first
    flows: list[int] = field(default_factory=list)

    entries: int = 0
    messages: int = 0
    redelivered: int = 0
    redelivery_count_most: int = 0
    largest_batch: int = 0
    skipped: int = 0  # indexes that were acknowledged before their batch came, where credited
    acknowledged: int = 0  # by whomever: another consumer of the subscription may do it
    in_transactions: int = 0  # acknowledged so; whether it was committed does not show
    undecided: dict[Position, int] = field(default_factory=dict)  # those messages, the newest
    proven: int = 0  # taken by the application, at least, as its acks and returns show
    taken: int | None = None
    ack_commands: int = 0  # a client puts many acks of its application into one
    ack_ids: int = 0
    ack_ids_most: int = 0  # in one command
    cumulative_acks: int = 0  # commands, whether or not the broker heeds them
    cumulative_highest: Position = NOWHERE
    cumulative_back: int = 0  # commands with an id before an earlier one
    unacked: int = 0
    unacked_most: int = 0  # that it ever held
    deliveries: dict[Position, Delivery] = field(default_factory=OrderedDict)
    in_order: bool = True  # of the deliveries
    # What it gave back by its id, the newest: when it was first sent, and its number then; where
    # that is not known, how many new messages had come when it was first given back.
    given_back: dict[Position, tuple[int, int]] = field(default_factory=dict)
    newest: Position = NOWHERE
    highest: Position = NOWHERE
    highest_age_us: int | None = None  # since it was published or due, as it came
    had_before: Position = NOWHERE  # up to here earlier incarnations may have had the messages

    # Exclusive and Failover, where the client counts how often it has requested everything again.
    epoch: int | None = None  # None: it drops nothing by it
    awaited: dict[Position, InHex] = field(default_factory=dict)  # open bits; came before that only
    awaited_ns: int = 0  # when that changed last
    late: int = 0  # entries of an older epoch since the last REDELIVER
    epoch_highest: Position = NOWHERE  # of what came in the present epoch

    ready_ns: int | None = None
    last_flow_ns: int | None = None
    # a FLOW without its first message so far, and the permits that were granted before it
    probe_ns: int | None = None
    probe_after: int = 0
    trips_ns: list[int] = field(default_factory=list)  # the last, from a FLOW to its first message
    last_message_ns: int | None = None
    due_ns: int = 0  # where messages are held back: when the last of those that came is due
    last_ack_ns: int | None = None
    last_take_ns: int | None = None
    last_work_ns: int | None = None  # a sign that the application took or finished something
    longest_work_gap_ns: int = 0
    ack_delay_most_ns: int = 0

    starved_since_ns: int | None = None
    starved_since_us: int | None = None
    starved_until_ns: int = 0  # as far as its commands show
    starved_ns: int = 0  # all times that are over; so is the next
    longest_starved_ns: int = 0

    busy_since_ns: int | None = None
    busy_ns: int = 0
    busy_at_ack_ns: int = 0
    busy_at_flow_ns: int = 0
    take_busy_ns: int = 0
    take_steps: int = 0
    # [bucket, messages, redelivered, acked, the least age of a new one in microseconds or -1]
    recent: list[list[int]] = field(default_factory=list)
    dead_letters: list[list[int]] = field(default_factory=list)  # [bucket, messages put away]

    @property
    def is_whole(self) -> bool:
        """Whether all commands of its life are in its numbers; otherwise counts are bounds."""
        return not (self.joined or self.uncertain)

    @property
    def available_permits(self) -> int:
        """The broker's number; an upper bound while parked_permits is None, or some are open."""
        return self.granted - self.spent - self.parked

    @property
    def parked_permits(self) -> int | None:
        """Permits set aside by the unacked limit, None where that is not known."""
        if self.crossed or self.open_permits or (self.individual and self.unacked_limit is None):
            return None
        return self.parked

    @property
    def available_permits_min(self) -> int:
        """The broker's number, at least, unless some are parked."""
        return self.available_permits - self.open_permits

    @property
    def oldest(self) -> Position:
        """The lowest position that is out, if any is; they lie in the order of arrival."""
        return next(iter(self.deliveries)) if self.in_order else min(self.deliveries)

    @property
    def unacked_min(self) -> int:
        """Unacknowledged messages, at least."""
        return max(0, self.unacked - self.open_unacked)

    @property
    def zero_queue(self) -> bool:
        """Whether the application was given a receiver queue of 0."""
        return self.given_receiver_queue_size == 0

    @property
    def one_by_one(self) -> bool:
        """Whether the wire shows a queue of 0 or 1 and cannot tell which."""
        return self.given_receiver_queue_size is None and self.first_flow == 1

    @property
    def receiver_queue_size(self) -> int | None:
        """The given size, or the first FLOW; None before it and where it may be 0 or 1."""
        if self.given_receiver_queue_size is not None:
            return self.given_receiver_queue_size
        return None if self.one_by_one else self.first_flow

    @property
    def refill_threshold(self) -> int | None:
        """Messages from one FLOW to the next, at most; None if unknown.

        As its FLOWs show, else half the queue, as most clients have it; at least 1. A FLOW may be
        larger than the threshold (skipped indexes are credited at once), never smaller, and no
        client can wait for more than its queue holds.
        """
        size = self.given_receiver_queue_size
        if size is None:
            size = self.first_flow
        if size is None:
            return min(self.refills, default=None) if self.joined else None
        seen = min(self.refills, default=size // 2)
        return max(1, min(size, seen))

    @property
    def threshold_exact(self) -> bool:
        """Whether the threshold is no less either: as clients have it, or their FLOWs agree."""
        size = self.given_receiver_queue_size
        if size is None:
            size = self.first_flow or 0
        threshold = self.refill_threshold or 1
        return threshold <= max(1, size // 2) or self.refills.count(threshold) == REFILLS_KEPT

    @property
    def refilled(self) -> int:
        """Permits of all FLOWs after the first."""
        return self.granted - (self.first_flow or 0)

    @property
    def unsent_permits_min(self) -> int:
        """Taken and not yet given back: exact where takes are reported, otherwise at least this."""
        size = self.given_receiver_queue_size
        first = self.first_flow
        if first is None or self.joined or size == 0 or (size is None and first == 1):
            return 0
        taken = self.taken or 0
        credited = (taken if taken > self.proven else self.proven) + self.skipped
        unsent = credited - self.granted + first
        return unsent if unsent > 0 else 0

    @property
    def queued_min(self) -> int:
        """Messages in the client's queue, at least: fewer than a threshold can be unsent."""
        if self.zero_queue or self.joined or self.first_flow is None:
            return 0
        if self.taken is not None:
            return max(0, self.messages - max(self.taken, self.proven))
        unsent_most = 1 if self.one_by_one else (self.refill_threshold or 1) - 1
        return max(0, self.messages + self.skipped - self.refilled - unsent_most)

    def starvation(self, until_ns: int) -> Starvation:
        """The consumer's times without permits up to then, the one that lasts included."""
        since_ns = self.starved_since_ns
        open_ns = 0 if since_ns is None else max(0, until_ns - since_ns)
        known = self.ready_ns is not None and not self.uncertain
        return Starvation(
            total_ns=self.starved_ns + open_ns,
            longest_ns=max(self.longest_starved_ns, open_ns),
            of_ns=max(0, until_ns - (self.ready_ns or 0)) if known else 0,
        )

    def pace(self) -> Pace | None:
        """Seconds per message while it had messages; None while nothing tells.

        Takes tell best, then acknowledgements, unless refills prove that more was taken by far.
        """
        if self.take_steps >= PACE_NEEDS:
            return Pace(self.take_busy_ns / self.take_steps / 1e9, "measured")
        finished, busy_ns = self.acknowledged + self.in_transactions, self.busy_at_ack_ns
        taken = 0 if self.asks_on_arrival else self.refilled
        if taken > 2 * finished + AHEAD or finished < PACE_NEEDS <= taken:
            finished, busy_ns = taken, self.busy_at_flow_ns
        if self.taken is None and finished >= PACE_NEEDS:
            return Pace(busy_ns / finished / 1e9, "measured")
        if self.given_process_seconds is not None:
            return Pace(self.given_process_seconds, "as told")
        return None

    def in_rhythm(self, now_ns: int) -> bool:
        """Whether it works on as it did: quiet no longer than twice its longest pause so far."""
        pace = self.pace()
        since_ns = max(self.last_work_ns or 0, self.busy_since_ns or 0, self.due_ns)
        quiet = (now_ns - since_ns) / 1e9
        if pace is None:
            return self.last_work_ns is not None and quiet <= 2 * self.longest_work_gap_ns / 1e9
        if pace.source == "as told":
            return quiet <= 2 * pace.seconds
        shows = self.acknowledged >= PACE_NEEDS or self.taken is not None
        between_signs = pace.seconds * (1 if shows else self.refill_threshold or 1)
        return quiet <= 2 * max(self.longest_work_gap_ns / 1e9, between_signs)

    def forecast(self) -> Forecast | None:
        """When the next FLOW comes; None before the first one."""
        threshold = self.refill_threshold
        within = self._reported_within()
        if threshold is None or (within is not None and within < threshold):
            return self._by_reported_permits(within)
        unsent, exact = self.unsent_permits_min, self.threshold_exact
        available = self.available_permits_min
        flows_needed = max(1, -available // threshold + 1)
        credits_needed = flows_needed * threshold
        if not exact:  # smaller FLOWs may end farther above zero
            credits_needed = max(0, -available) + threshold
        return Forecast(
            messages=max(1, threshold - unsent),
            at_most=not (self.taken is not None and exact)
            and not self.zero_queue
            and threshold > 1,
            until_positive=max(1, credits_needed - unsent),
            pace=self.pace(),
            due=self.taken is not None and exact and unsent >= threshold,
        )

    def _reported_within(self) -> int | None:
        """Messages from the broker's report to the next FLOW, at most; None: not known.

        Permits, what is queued and what is unsent are the receiver queue size R together, and less
        than R/2 is unsent; what is queued is held. So the FLOW that comes when R/2 is unsent comes
        within (permits + held)/2. Not for clients that wait for another share of their queue.
        """
        if not self.joined or self.reported_held is None or self.asks_on_arrival:
            return None
        return max(1, (self.reported_permits + self.reported_held) // 2)

    def _by_reported_permits(self, within: int | None) -> Forecast | None:
        if within is None:
            return None
        behind = max(0, -self.available_permits_min)
        return Forecast(within, at_most=True, until_positive=within + behind, pace=self.pace())


def as_of_now(ledger: Ledger) -> Ledger:
    """A copy that does not change, without long lists: FLOWs, transactions, all deliveries and
    nacks but those of the oldest entry that it holds."""
    oldest = [ledger.oldest] if ledger.deliveries else []
    return replace(
        ledger,
        deliveries=OrderedDict((at, replace(ledger.deliveries[at])) for at in oldest),
        flows=[],
        refills=list(ledger.refills),
        trips_ns=list(ledger.trips_ns),
        unspent_flows=[list(flow) for flow in ledger.unspent_flows],
        recent=[list(bucket) for bucket in ledger.recent],
        dead_letters=[list(bucket) for bucket in ledger.dead_letters],
        awaited=dict(ledger.awaited),
        undecided={},
        given_back={at: ledger.given_back[at] for at in oldest if at in ledger.given_back},
    )
