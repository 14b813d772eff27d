"""One subscription as the checks see it: its consumers, and its messages at the broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.backlog import Backlog
from pulsar_doctor.broker.stats.cursors import COMPACTION, owner_of
from pulsar_doctor.broker.stats.observed import SHARING, SINGLE_ACTIVE
from pulsar_doctor.broker.stats.sample import CLOCK_SLACK_MS
from pulsar_doctor.broker.stats.transactions import SlowTransaction
from pulsar_doctor.evidence.ack_wait import Acks
from pulsar_doctor.evidence.broker_counts import Filtering, OwnCursor, Throttling
from pulsar_doctor.evidence.circulation import Circulation
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.facts import BrokerFacts, FactTable
from pulsar_doctor.evidence.hole import AckedRanges, AckHole
from pulsar_doctor.evidence.keys import KeyOrder
from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.evidence.policies import Policies, QuotaReached
from pulsar_doctor.evidence.reading import BrokerReads
from pulsar_doctor.evidence.segments import AmongSegments, OnSegment
from pulsar_doctor.evidence.values import Count, exact, least, most
from pulsar_doctor.ledger.left_behind import LeftBehind, Unsent
from pulsar_doctor.ledger.topics import AboutSubscription

# Limits of unacknowledged messages in broker.conf.
DELAYED_AHEAD = 50_000  # delayedDeliveryFixedDelayDetectionLookahead of broker.conf, by default
DELAYED_BEYOND = 1_000  # entries that its last reads may bring
UNACKED_DEFAULTS = {"consumer": 50_000, "subscription": 200_000}


@dataclass(frozen=True, slots=True)
class ClosedConsumer:
    """A consumer that its client closed with messages in hand and none acknowledged."""

    consumer: ConsumerView
    held: int  # messages that it gave up
    taken: int  # messages that its application took, at least
    had_seconds: float | None  # from the first of what it held to its end; None: not known
    by_command: bool  # whether the application closed it; otherwise its connection ended
    acked_since: bool  # whether any consumer of the subscription has acknowledged since then


@dataclass(frozen=True, slots=True)
class Gone:
    """An active consumer that is not connected."""

    named: str | None  # as the broker names it now
    last: str | None  # as the broker named it before
    seconds: float | None  # for how long nobody has been active, at least; None: not reported


@dataclass(frozen=True, slots=True)
class Alone:
    """Nobody is attached."""

    left: bool  # whether somebody was, within the window
    reloaded: bool  # whether the topic may have been loaded anew since, which closes every consumer
    seconds: float | None  # for how long nobody was attached, at least; None: not reported
    since_flow: Age | None  # since anybody requested messages
    # Since the last sign that somebody was there: a FLOW, or mark-delete moved. Who has left may
    # have been there for longer than that.
    since_seen: Age | None = None
    elsewhere: bool = False  # whether other partitions of the topic have consumers of it

    @property
    def requested_just_now(self) -> bool:
        """Whether somebody was there at about the moment of the last sample."""
        flow = self.since_flow
        return flow is not None and flow.exact and flow.ms <= CLOCK_SLACK_MS


# By which connections a consumer comes back: one and the same, or each time another one.
ComesBackBy = Literal["one", "each"] | None  # None: not known


@dataclass(frozen=True, slots=True)
class Turnover:
    """Consumers that come back again and again."""

    times: int  # that one of a name and host connected anew in the window, at least
    seconds: float | None  # of the window
    as_sampled: bool = False  # whether about each sample shows another one: there may be many more
    connections: ComesBackBy = None
    hosts: tuple[str, ...] = ()  # from which they connected
    names: tuple[str, ...] = ()  # of those that came
    put_back: int = 0  # entries by which the backlog rose beyond what was published
    # For how long those were attached, at most, who all left in the window; None: nobody did.
    stayed: float | None = None

    @property
    def a_minute(self) -> float | None:
        """How often in a minute, at least; None: nobody knows how long the window is."""
        return round(self.times * 60 / self.seconds, 1) if self.seconds else None


@dataclass(frozen=True, slots=True)
class UnackedLimit:
    """The limit of unacknowledged messages of a subscription, and whether it holds it back."""

    blocked: bool | None  # the broker's flag; None: not reported
    most: int | None  # the limit, 0 for none; None: not reported
    acks: Acks
    delivered: int  # messages in the window
    flows: bool  # whether new ones are sent all the same
    watched: bool


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two sides that tell different permits of the same quiet moment, as texts."""

    consumer: str
    newer: str
    older: str


@dataclass(frozen=True, kw_only=True)  # no slots: what follows is kept after its first use
class SubscriptionView(AboutSubscription):
    """What is known of one subscription of a topic, or of one of its partitions."""

    topic: str
    partition: int | None
    subscription: str
    # Exclusive, Shared, Failover or Key_Shared; None: nobody attached, or not reported.
    type: str | None
    sources: frozenset[str]  # who reported something, in the words of a cause's `needs`
    consumers: tuple[ConsumerView, ...] | None  # None: not reported
    refused: str | None = None  # why there is nobody to judge: the broker has accepted no consumer
    gap: str | None = None  # why its numbers are not known: commands or statistics are missing
    # Why HEALTHY is not certain: numbers that contradict, left out here, or an incomplete trace.
    cannot_be: tuple[str, ...] = ()
    moment_ms: int | None = None  # when all this was so, since the epoch; None: no clock tells
    disagreements: tuple[Disagreement, ...] = ()
    incarnations: frozenset[int] = frozenset()  # of the consumers of a trace

    durable: bool | None = None  # whether the broker keeps its place
    persistent: bool | None = None
    active: int | None = None  # which of `consumers` is the active one of Failover
    gone: Gone | None = None  # the active one of Failover, where it is not connected
    # Consumers that left with messages in hand and never acknowledged any.
    closed: tuple[ClosedConsumer, ...] | None = None
    left_behind: LeftBehind | None = None  # what waits by a trace since the last consumer left
    unsent: Unsent | None = None  # what waits by a trace though a consumer has permits
    # How old the newest message was when it was sent, by a trace that may not show the last.
    behind_seconds: float | None = None
    own: OwnCursor | None = None  # what its cursor does, where that is the broker's own
    backlog: Backlog | None = None
    left: Count | None = None  # entries that could be sent now; None: not reported
    unread: Count | None = None  # entries that the cursor has to read yet
    unreadable: Count | None = None  # of these, behind an open transaction of a producer
    open_transactions: int | None = None  # of producers, on the topic
    pending_acks: int | None = None  # transactions in which entries are acknowledged, and open
    # Open transactions with a long time-out, oldest first: of producers, and its own.
    slow_transactions: tuple[SlowTransaction, ...] = ()
    unacked: Count | None = None
    unacked_limit: UnackedLimit | None = None
    hole: AckHole | None = None
    circulation: Circulation | None = None
    # Whether the broker's numbers can be compared with earlier ones; None: it reported none.
    watched: bool | None = None
    watched_seconds: float | None = None  # with how much earlier ones
    since_empty: float | None = None  # seconds, since a sample of the window showed no backlog
    backlog_change: int | None = None  # entries, within that time
    published: int | None = None  # messages, within that time
    delivered: int | None = None  # messages, within that time
    finished: int | None = None  # entries acknowledged, expired or skipped, within that time
    filtered: bool | None = None  # whether an entry filter has rejected any, which are not sent
    filtering: Filtering | None = None  # by an entry filter
    turnover: Turnover | None = None  # None: not reported
    since_delivery: Age | None = None  # since it sent any, or tried to
    since_mark_delete: Age | None = None  # since its oldest message was acknowledged
    never_moved: bool | None = None  # whether mark-delete never did since the topic was loaded
    oldest: str | None = None  # the position of the first message that is not acknowledged
    delayed: Count | None = None  # entries that are not due yet
    delayed_change: int | None = None  # of these, within that time
    replay: Count | None = None  # entries that are to be sent again
    replay_least: int | None = None  # of these, in every sample
    oldest_sent: bool | None = None  # whether its oldest entry was sent to who is there
    oldest_seconds: int | None = None  # age of the oldest message, up to a minute ago
    ranges: AckedRanges | None = None
    reads: BrokerReads | None = None  # None also where nothing is left to send
    throttling: Throttling | None = None
    sent_less: bool = False  # whether in every step of that time the broker sent less than it could
    key_order: KeyOrder | None = None  # of Key_Shared only
    attended: bool | None = None  # whether somebody is attached now; None: not known
    alone: Alone | None = None  # where nobody is attached
    # Whether the cursor reads, or waits for entries, which it does for a consumer only.
    read_armed: bool | None = None
    # Of the topic; rates are messages a second in the broker's last full minute.
    msg_rate_in: float | None = None
    msg_rate_out: float | None = None
    message_ack_rate: float | None = None
    msg_rate_redeliver: float | None = None
    msg_drop_rate: float | None = None  # on a non-persistent topic only
    msg_rate_expired: float | None = None
    expired: int | None = None  # messages, within that time
    expired_ever: int | None = None  # messages, since the topic was loaded
    since_expiry: Age | None = None  # since the broker last looked for expired messages
    # Whether the numbers are sums over partitions, one of which may be stuck.
    hides_partitions: bool = False

    quota: QuotaReached | None = None  # of the topic, where its backlog has reached that
    policies: Policies | None = None  # limits of what waits
    place: AmongSegments | None = None  # of a segment, among the others of the scalable topic

    # What else the broker reports, which only known issues need.
    facts: BrokerFacts | FactTable | None = field(default=None, compare=False, repr=False)

    @property
    def awaited(self) -> tuple[OnSegment, ...]:
        """The sealed parents to be drained before a segment without a consumer is assigned."""
        return self.place.awaited if self.place and self.attended is False else ()

    @cached_property
    def served(self) -> tuple[ConsumerView, ...]:
        """Consumers that get messages: no standbys. Nobody, too, where they are not reported."""
        return tuple(each for each in self.consumers or () if each.active is not False)

    def waits_for_acks_of(self, consumer: ConsumerView) -> bool:
        """Whether it is at a limit of unacknowledged messages, or others wait for its keys."""
        limit, keys = self.unacked_limit, self.key_order
        full = consumer.blocked_consumer_on_unacked_msgs or (limit is not None and limit.blocked)
        return bool(full or consumer.keys_wait or (keys is not None and keys.joined))

    def kept_by(self, consumer: ConsumerView) -> int:
        """Messages that it holds, at least, as long as it has never acknowledged any.

        Statistics do not report them for a single active consumer. All that one was sent is
        unacknowledged then.
        """
        sent = least(consumer.msg_out_counter) if self.type in SINGLE_ACTIVE else None
        return max(least(consumer.unacked_messages) or 0, sent or 0)

    @property
    def nothing_to_send_for_sure(self) -> bool:
        """Whether nothing may be left to send: that is known, or nothing shows the contrary."""
        return self.left is not None and not self.left.least

    @property
    def nothing_left(self) -> bool:
        """Whether it is known that nothing is left to send."""
        return self.left is not None and self.left.most == 0

    @property
    def still_delivers(self) -> bool:
        """Whether messages were sent within the window, and nothing shows that this has ended."""
        return bool(self.delivered) and (self.reads is None or self.reads.moved)

    @property
    def sends_only_new(self) -> bool:
        """Whether no more was sent in the window than was published, while all had permits."""
        sent, came = self.delivered, self.published
        ready = bool(self.served) and all(each.may_receive_throughout for each in self.served)
        return ready and bool(sent) and came is not None and (sent or 0) <= came

    @property
    def held_by_transaction(self) -> bool:
        """Whether a producer's transaction is open, and nothing unread is known to be before it."""
        unread, behind = least(self.unread), most(self.unreadable)
        return bool(self.open_transactions) and (
            unread is None or behind is None or unread <= behind
        )

    @property
    def delays_pause_reading(self) -> bool:
        """Whether as many delayed entries are known as the broker keeps before it pauses reading.

        By default, and where it keeps them in memory. It never reads far beyond.
        """
        delayed, shared = exact(self.delayed) or 0, self.type in SHARING
        return shared and 0 <= delayed - DELAYED_AHEAD <= DELAYED_BEYOND and not self.delivered

    @property
    def pauses_by_design(self) -> str | None:
        """Why the broker reads no further, where that is no defect and no limit."""
        if self.held_by_transaction:
            return "the broker waits until a transaction of a producer ends"
        return (
            "the broker waits until delayed messages are due" if self.delays_pause_reading else None
        )

    @property
    def filter_keeps(self) -> bool:
        """Whether an entry filter puts back what waits, again and again."""
        waiting = self.backlog.entries if self.backlog else None
        return self.filtering is not None and self.filtering.keeps(waiting or 0)

    @property
    def held_back(self) -> bool:
        """Whether it is known what keeps the broker from reading what waits."""
        limit, throttling, keys = self.unacked_limit, self.throttling, self.key_order
        limited = (limit and limit.blocked) or (throttling and throttling.lately)
        if limited or self.pauses_by_design or self.filter_keeps:
            return True
        if keys is None or not exact(self.replay):
            return False
        return keys.draining or not all(each.may_receive for each in self.consumers or ())

    @property
    def just_delivered(self) -> bool:
        """Whether the broker sent just now, as far as its clock tells."""
        since = self.since_delivery
        return since is not None and since.exact and since.ms <= CLOCK_SLACK_MS

    @property
    def rates_alone_tell(self) -> bool:
        """Whether nothing newer than a rate shows if messages go out: no earlier sample, no clock.

        A rate is of the broker's last full minute: what was sent since then is not in it.
        """
        since = self.since_delivery
        return self.delivered is None and not (since is not None and since.exact)

    @property
    def sent_by_rate(self) -> bool:
        """Whether a rate alone shows that messages went out within the last minutes."""
        return self.rates_alone_tell and (self.msg_rate_out or 0) > 0

    @cached_property
    def keeps_nothing(self) -> bool:
        """Whether nobody waits for what it keeps: it is a reader's, or compaction's."""
        return self.durable is False or owner_of(self.subscription).kind == COMPACTION

    @cached_property
    def nothing_to_move(self) -> bool:
        """Whether all is acknowledged, or nobody promised to consume what is left.

        A counter of the backlog that denies it is wrong, or of another moment, where the positions
        show the end and no count of messages shows any that are held or wait.
        """
        if self.keeps_nothing or self.backlog is None:
            return self.keeps_nothing or self.own is not None
        held = any(not each.holds_nothing for each in self.consumers or ()) or least(self.unacked)
        at_end = self.backlog.positions == 0 and not (held or least(self.replay))
        return at_end or self.backlog.empty is True


def backlog_measure(of: SubscriptionView) -> Measure:
    """The backlog that a finding rests on: the counter, unless that is wrong or not reported."""
    backlog = of.backlog
    if backlog is None:
        return Measure("msg_backlog", None, "entries")
    positions = backlog.entries is not None and (backlog.wrong or backlog.counter is None)
    name = "backlog_by_positions" if positions else "msg_backlog"
    return Measure(name, backlog.entries, "entries")


def replay_waits(type: str | None) -> str:
    """For what entries wait that were read and are kept to be sent later.

    Key_Shared keeps what was never sent, too, while the consumer of its key takes nothing.
    """
    return "for the consumer of their key" if type == "Key_Shared" else "to be sent again"
