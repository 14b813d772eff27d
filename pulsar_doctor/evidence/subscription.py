"""One subscription as the checks see it: its consumers, and its messages at the broker."""

from __future__ import annotations

from dataclasses import dataclass, field

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.backlog import Backlog
from pulsar_doctor.broker.stats.cursors import COMPACTION, owner_of
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE
from pulsar_doctor.broker.stats.sample import CLOCK_SLACK_MS
from pulsar_doctor.evidence.ack_wait import Acks
from pulsar_doctor.evidence.circulation import Circulation
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.facts import BrokerFacts, FactTable
from pulsar_doctor.evidence.hole import AckedRanges, AckHole
from pulsar_doctor.evidence.keys import KeyOrder
from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.evidence.own_cursor import OwnCursor
from pulsar_doctor.evidence.reading import BrokerReads
from pulsar_doctor.evidence.segments import AmongSegments, OnSegment
from pulsar_doctor.evidence.throttling import Throttling
from pulsar_doctor.evidence.values import Count, least
from pulsar_doctor.ledger.consumers import full_name
from pulsar_doctor.ledger.left_behind import LeftBehind, Unsent

# Limits of unacknowledged messages in broker.conf.
UNACKED_DEFAULTS = {"consumer": 50_000, "subscription": 200_000}


@dataclass(frozen=True, slots=True)
class ClosedConsumer:
    """A consumer that its client closed with messages in hand and none acknowledged.

    held: messages that it gave up. taken: messages that its application took, at least.
    had_seconds: from the first of what it held to its end; None where nothing tells.
    by_command: whether the application closed it; otherwise only its connection ended.
    acked_since: whether any consumer of the subscription has acknowledged since then.
    """

    consumer: ConsumerView
    held: int
    taken: int
    had_seconds: float | None
    by_command: bool
    acked_since: bool


@dataclass(frozen=True, slots=True)
class Gone:
    """An active consumer that is not connected. named: as the broker names it now, last: before.

    seconds: for how long nobody has been active, at least; None where that is not told.
    """

    named: str | None
    last: str | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Alone:
    """Nobody is attached.

    left: whether somebody was, within the window. reloaded: whether the topic may have been loaded
    anew since then, which closes every consumer. seconds: for how long nobody was, at least; None
    where that is not told. since_flow: since anybody asked for messages.
    """

    left: bool
    reloaded: bool
    seconds: float | None
    since_flow: Age | None


@dataclass(frozen=True, slots=True)
class UnackedLimit:
    """The limit of unacknowledged messages of a subscription, and whether it holds it.

    blocked: the broker's flag; None: not told. most: the limit, 0 for none, None where it is not
    told. delivered: messages in the window. flows: whether new ones are sent all the same.
    """

    blocked: bool | None
    most: int | None
    acks: Acks
    delivered: int
    flows: bool
    watched: bool


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two sides that tell different permits of the same quiet moment, as texts."""

    consumer: str
    newer: str
    older: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionView:
    """What is known of one subscription of a topic, or of one of its partitions.

    sources: who told something, in the words of a cause's `needs`.
    type: Exclusive, Shared, Failover or Key_Shared; None where nobody attached or not told.
    consumers: None where they are not told. refused: why there is nobody to judge, where the broker
    has accepted no consumer. gap: why its numbers are not known, where commands are missing.
    cannot_be: why it cannot be healthy for certain: numbers that were reported and are impossible
    (these are not in the view), or a trace that is damaged.
    quiet_is_fine: whether nothing needs to move: all is consumed, or nobody promised to consume it.
    left: entries that could be sent now; None where it is not told. backlog: None likewise.
    moment_ms: when all this was so, since the epoch; None where no clock tells it.
    incarnations: of the consumers of a trace. durable: whether the broker keeps its place. active:
    which of `consumers` is the active one of Failover. gone: that one, where it is not connected.
    own: what its cursor does, where that is the broker's and nobody's subscription.
    closed: consumers that left with messages in hand and had never acknowledged any. left_behind:
    what waits by a trace since the last consumer left; None where nothing is known to wait. unsent:
    what waits by a trace though a consumer has permits; None likewise. behind_seconds: how old the
    newest message was when it was sent, by a trace that does not show that it was the last one.

    watched: whether the broker's numbers can be compared with earlier ones; None where it told
    none. watched_seconds: with how much earlier ones; None where not told. backlog_change: entries,
    within that time. delivered, expired: messages, likewise. since_delivery: since it sent any, or
    tried to.
    sent_less: whether in every step of that time the broker sent less than it could.
    delayed, replay: entries that are not due yet, and that are to be sent again. reads: None where
    nothing is left to send, too. key_order: of Key_Shared only. attended: whether somebody is
    attached now; None where that is not told. alone: where nobody is. read_armed: whether the
    cursor reads, or waits for entries, which it does for a consumer only. msg_rate_in: of the
    topic. msg_drop_rate: on a non-persistent topic only. All rates are messages a second, of the
    broker's last full minute. place: of a segment, among the others of the scalable topic; None
    where it is none, or where that is not reported. hides_partitions: whether the numbers are sums
    over partitions, one of which may be stuck.
    """

    topic: str
    partition: int | None
    subscription: str
    type: str | None
    sources: frozenset[str]
    consumers: tuple[ConsumerView, ...] | None
    refused: str | None = None
    gap: str | None = None
    cannot_be: tuple[str, ...] = ()
    moment_ms: int | None = None
    disagreements: tuple[Disagreement, ...] = ()
    incarnations: frozenset[int] = frozenset()

    durable: bool | None = None
    persistent: bool | None = None
    quiet_is_fine: bool = False
    active: int | None = None
    gone: Gone | None = None
    closed: tuple[ClosedConsumer, ...] | None = None
    left_behind: LeftBehind | None = None
    unsent: Unsent | None = None
    behind_seconds: float | None = None
    own: OwnCursor | None = None
    backlog: Backlog | None = None
    left: Count | None = None
    unacked: Count | None = None
    unacked_limit: UnackedLimit | None = None
    hole: AckHole | None = None
    circulation: Circulation | None = None
    watched: bool | None = None
    watched_seconds: float | None = None
    backlog_change: int | None = None
    delivered: int | None = None
    since_delivery: Age | None = None
    delayed: Count | None = None
    replay: Count | None = None
    ranges: AckedRanges | None = None
    reads: BrokerReads | None = None
    throttling: Throttling | None = None
    sent_less: bool = False
    key_order: KeyOrder | None = None
    attended: bool | None = None
    alone: Alone | None = None
    read_armed: bool | None = None
    msg_rate_in: float | None = None
    msg_rate_out: float | None = None
    message_ack_rate: float | None = None
    msg_rate_redeliver: float | None = None
    msg_drop_rate: float | None = None
    msg_rate_expired: float | None = None
    expired: int | None = None
    hides_partitions: bool = False

    place: AmongSegments | None = None

    # What else the broker reports, which only known issues need.
    facts: BrokerFacts | FactTable | None = field(default=None, compare=False, repr=False)

    @property
    def awaited(self) -> tuple[OnSegment, ...]:
        """Of a segment that nobody has: the sealed parents that must be drained before."""
        return self.place.awaited if self.place and self.attended is False else ()

    @property
    def served(self) -> tuple[ConsumerView, ...]:
        """Those to whom messages go: no standbys. Nobody, too, where they are not told."""
        return tuple(each for each in self.consumers or () if each.active is not False)

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

    @property
    def keeps_nothing(self) -> bool:
        """Whether nobody waits for what it keeps: it is a reader's, or compaction's."""
        return self.durable is False or owner_of(self.subscription).kind == COMPACTION

    @property
    def full_topic(self) -> str:
        """The name of its topic or of the partition."""
        return full_name(self.topic, self.partition)


def backlog_measure(of: SubscriptionView) -> Measure:
    """The backlog that a finding rests on: the counter, unless that is wrong or not told."""
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
