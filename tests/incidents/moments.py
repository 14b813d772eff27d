"""An incident at the moments at which it is looked at: what each source sees of it, and the truth.

The truth is what the model knows and what its script did afterwards: nobody is asked for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pulsar_doctor.ledger.consumers import Subscription
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.wire.columns import Row
from tests.incidents.broker import Broker, Hold
from tests.incidents.documents import Document, internal, stats
from tests.incidents.making import made
from tests.incidents.playing import START_US, UP_NS, App, Play, queue_of, wall_us
from tests.incidents.script import SECOND, Script

OFFSETS = (60, 30, 10, 5, 0)  # seconds before a moment at which samples are taken
LONG = (3600, 600)  # likewise, of files that were kept


@dataclass(slots=True)
class OfConsumer:
    """The truth of one consumer at one moment. Lengths in nanoseconds from then on; None: never.

    queued: messages that its application has not touched; credited: those of them that count as
    taken all the same. lost: permits that its client will never ask for again. ready_in: until the
    broker may send to it again. stood: for how long it could not be sent anything. drained_in:
    until all that it holds is done. What is None may also come after the end of the script.
    """

    app: App
    hangs: bool
    paused: bool
    blocked: bool
    permits: int
    parked: int
    unacked: int
    queued: int
    credited: int
    in_hand: int
    unsent: int
    holds: Sequence[Hold]
    ready: bool
    lost: int = 0
    stood: int = 0
    ready_in: int | None = None
    drained_in: int | None = None
    flow_in: int | None = None
    ack_in: int | None = None


@dataclass(slots=True)
class Truth:
    """The truth of the subscription at one moment.

    waiting: entries that nobody has been sent. since: when anything moved last (a delivery, an ack,
    a FLOW, somebody came or went). moves_in, sent_in: until an ack or delivery, until a delivery.
    known: how long the script was followed afterwards. delayed: entries that were read and are not
    due. stuck: whether the broker reads nothing though it should; throttled: whether a rate limit
    holds it back; miscounts: entries by which its counter is off. gone: since when its active
    consumer is not there. sent: when each entry was sent, and how often that one was by then.
    """

    consumers: dict[str, OfConsumer]
    waiting: int
    since: int
    delayed: int = 0
    stuck: bool = False
    throttled: bool = False
    miscounts: int = 0
    gone: int | None = None
    sent: Sequence[tuple[int, int]] = ()
    moves_in: int | None = None
    sent_in: int | None = None
    comes_in: int | None = None
    known: int = 0
    ended: bool = False

    @property
    def queued(self) -> int:
        """Messages in clients' queues that no application has touched."""
        return sum(each.queued for each in self.consumers.values())


@dataclass(slots=True)
class Taken:
    """One reading of the broker: both documents of one moment, and what was read from them."""

    at_ns: int
    stats: Document
    internal: Document
    parsed: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class Moment:
    """One moment of an incident. taken: readings up to it, the last of them of this moment."""

    incident: Incident
    at_ns: int
    taken: list[Taken]
    rows: int
    truth: Truth

    def wire(self, *, told: bool = False) -> Subscription | None:
        """As the tap has it. told: its reader knows queues, limits and delays."""
        return self.incident.wire(self, told=told)


@dataclass(slots=True)
class _Reader:
    """A timeline that goes on from one moment to the next."""

    timeline: Timeline
    done: int = 0


@dataclass
class Incident:
    """A script, played. moments: in the order of time."""

    script: Script
    rows: list[Row] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    apps: list[App] = field(default_factory=list)
    _readers: dict[bool, _Reader] = field(default_factory=dict)

    def wire(self, moment: Moment, *, told: bool) -> Subscription | None:
        reader = self._readers.get(told)
        if reader is None or reader.done > moment.rows:
            reader = self._readers[told] = _Reader(Timeline("incident", self._told(told)))
        for row in self.rows[reader.done : moment.rows]:
            reader.timeline.apply(row)
        reader.done = moment.rows
        reader.timeline.pass_time(wall_us(moment.at_ns), UP_NS + moment.at_ns)
        return next(iter(reader.timeline.subscriptions()), None)

    def _told(self, told: bool) -> dict[str, dict[str, object]]:
        script = self.script
        if not told:
            return {}
        return {
            worker.name: {
                "receiver_queue_size": worker.queue,
                "unacked_limit": script.consumer_limit or None,
                "receiver_delay_seconds": script.delay_ns / SECOND,
            }
            for worker in script.workers
        }


def incident(seed: int) -> Incident:
    """The incident of this seed, played."""
    return played(made(seed))


def played(script: Script, offsets: Iterable[int] = LONG + OFFSETS) -> Incident:
    """A script, played. offsets: seconds before each moment at which the broker is read."""
    found = Incident(script)
    offsets = sorted(set(offsets), reverse=True)
    wanted = {
        moment: [moment - offset * SECOND for offset in offsets if moment > offset * SECOND]
        for moment in script.moments_ns
    }
    looks = sorted({at for each in wanted.values() for at in each})
    read: dict[int, Taken] = {}

    def look(play: Play, at_ns: int) -> None:
        read[at_ns] = Taken(at_ns, stats(play), internal(play))
        if at_ns in wanted:
            taken = [read[at] for at in wanted[at_ns]]
            found.moments.append(Moment(found, at_ns, taken, len(play.rows), _truth(play)))

    play = Play(script, looks, look).run()
    found.rows, found.apps = play.rows, play.apps
    for moment in found.moments:
        _afterwards(moment, play)
    return found


def _truth(play: Play) -> Truth:
    """What is true now; what comes of it is filled in when the script is over."""
    broker, now_ns = play.broker, play.now_ns
    consumers = {
        name: OfConsumer(
            app=app,
            hangs=app.hangs(now_ns),
            paused=app.paused(now_ns),
            blocked=app.attached.blocked or broker.blocked,
            permits=app.attached.permits,
            parked=app.attached.parked,
            unacked=sum(hold.entry.messages for hold in app.attached.held.values()),
            queued=len(queue_of(app)),
            credited=len(app.client.ahead),
            in_hand=len(app.in_hand),
            unsent=app.client.unsent,
            lost=app.lost,
            holds=tuple(app.attached.held.values()),
            ready=broker.usable(app.attached) > 0,
        )
        for name, app in _by_name(play.apps)
    }
    signs = [broker.last_acked_ns, broker.last_consumed_ns, broker.last_flow_ns, *play.wakes[-1:]]
    last_published = broker.published[-1].arrives_ns if broker.published else 0
    since = max((sign for sign in signs if sign is not None), default=0)
    waiting = broker.backlog - broker.held - len(broker.delayed)
    if waiting or not broker.held:
        since = max(since, last_published)
    return Truth(
        consumers,
        waiting,
        since,
        delayed=broker.read_delayed,
        stuck=broker.stuck,
        throttled=any(at > now_ns - 2 * SECOND for at in broker.throttled[-1:]),
        miscounts=broker.drift,
        gone=_active_gone(broker),
        sent=tuple(broker.sent),
    )


def _by_name(apps: Iterable[App]) -> Iterator[tuple[str, App]]:
    """Those that are there; a second one of a name is told by its number, too."""
    seen: set[str] = set()
    for app in apps:
        if not app.gone:
            name = app.worker.name
            yield (f"{name}#{app.attached.index}" if name in seen else name), app
            seen.add(name)


def _active_gone(broker: Broker) -> int | None:
    if broker.individual or not broker.living:
        return None
    return next((c.gone_ns for c in broker.consumers if broker.dispatcher.active(c.index)), None)


def _afterwards(moment: Moment, play: Play) -> None:
    truth, at_ns = moment.truth, moment.at_ns
    truth.known, truth.ended = play.ended_ns - at_ns, play.is_over
    everybody = play.broker.consumers
    sent = [_next(c.sent, at_ns) for c in everybody]
    acks = [_next(c.acks, at_ns) for c in everybody]
    truth.sent_in = _soonest(sent)
    truth.moves_in = _soonest([*sent, *acks])
    truth.comes_in = _next([(at, 0) for at in play.wakes], at_ns)
    for each in truth.consumers.values():
        told = each.app.attached
        each.flow_in, each.ack_in = _next(told.flows, at_ns), _next(told.acks, at_ns)
        each.ready_in = 0 if each.ready else _next([c for c in told.ready if c[1]], at_ns)
        before = [at for at, ready in told.ready if at <= at_ns and not ready]
        each.stood = 0 if each.ready or not before else at_ns - before[-1]
        ends = [hold.until_ns for hold in each.holds]
        if None not in ends:
            each.drained_in = max((end for end in ends if end is not None), default=at_ns) - at_ns


def _next(log: Sequence[tuple[int, object]], at_ns: int) -> int | None:
    """How long until the first of these after a moment."""
    times = [at for at, _ in log]
    place = bisect_right(times, at_ns)
    return times[place] - at_ns if place < len(times) else None


def _soonest(lengths: Iterable[int | None]) -> int | None:
    return min((length for length in lengths if length is not None), default=None)


def taken_ms(at_ns: int) -> int:
    """The Date header of an answer: cut to the second."""
    return (START_US + at_ns // 1000) // 10**6 * 1000
