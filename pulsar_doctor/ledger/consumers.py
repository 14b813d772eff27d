"""The connections, consumers and subscriptions of a trace."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pulsar_doctor.ledger import balance as ledgers
from pulsar_doctor.ledger import permits
from pulsar_doctor.ledger.balance import Ledger, Position
from pulsar_doctor.ledger.clients import client_of
from pulsar_doctor.ledger.left_behind import LeftBehind, Unsent
from pulsar_doctor.ledger.topics import AboutSubscription, split_partition
from pulsar_doctor.wire.columns import Row
from pulsar_doctor.wording.addresses import at

SHUTDOWN_US = 10_000_000  # closes that lie closer together are one shutdown
HEAP_SPARE = 64  # before what is worthless in it is thrown away
PRODUCERS_KEPT_MOST = 10_000  # of a connection, open: the newest
CLOSED_KEPT_MOST = 100  # consumers that closed: what is on its way still names them


@dataclass(frozen=True, slots=True)
class LedgerMoment:
    """A ledger as it stood when the first consumer of its subscription went.

    Closing one consumer gives its messages to the others: later they do not show what was wrong.
    """

    ledger: Ledger
    us: int
    ns: int


class Siblings:
    """The consumers of one subscription of a topic, as long as any of them lives or is remembered.

    They come and go by thousands, so nothing here visits all of them where one does. When one
    leaves, the ledgers of all are to be kept as they are: each is copied just before it changes
    again (`stir`), or when somebody reads (`settle`), and those that rest are not copied at all.
    """

    __slots__ = ("_goings", "_highest", "_known", "_ns", "_stirred", "_us", "living", "turn")

    def __init__(self) -> None:
        self.living: dict[int, Consumer] = {}  # in the order in which they came
        self.turn = 0  # a consumer with another one is stirred before its ledger changes
        self._goings = 0  # at which the ledgers were to be kept; the last, at _us and _ns
        self._us = self._ns = 0
        self._known: dict[int, Consumer] = {}
        self._stirred: dict[int, Consumer] = {}  # since `highest` was sent
        self._highest: list[tuple[int, int, int]] = []  # heap: entries, negative, and incarnations

    def remember(self, consumer: Consumer) -> None:
        """One of them, which may have ended."""
        consumer.siblings, consumer.turn, consumer.goings = self, self.turn, self._goings
        self._known[consumer.incarnation] = self._stirred[consumer.incarnation] = consumer

    def join(self, consumer: Consumer) -> None:
        """It lives from here on."""
        self.remember(consumer)
        self.living[consumer.incarnation] = consumer

    def stir(self, consumer: Consumer) -> None:
        """Before its ledger changes; needed only where its turn is not that of the siblings."""
        self.settle(consumer)
        self._stirred[consumer.incarnation] = consumer
        consumer.turn = self.turn

    def settle(self, consumer: Consumer) -> None:
        """Keeps the ledger of one that lives as it stood at the last going, where not yet done."""
        if consumer.goings != self._goings:
            kept = ledgers.as_of_now(consumer.ledger)
            consumer.before_shutdown = LedgerMoment(kept, self._us, self._ns)
            consumer.goings = self._goings

    def going(self, consumer: Consumer, us: int, ns: int) -> None:
        """One leaves: keeps the state of all of them; closes close together are one shutdown."""
        newest = next(reversed(self.living.values()), consumer)
        kept_us = self._kept_us(consumer)
        if kept_us is None or kept_us < max(us - SHUTDOWN_US, newest.opened_us):
            self._us, self._ns = us, ns
            self._goings += 1
            self.turn += 1

    def _kept_us(self, consumer: Consumer) -> int | None:
        if consumer.goings != self._goings:
            return self._us
        return None if consumer.before_shutdown is None else consumer.before_shutdown.us

    def leave(self, consumer: Consumer) -> None:
        """It has ended, and its ledger changes no more."""
        self.living.pop(consumer.incarnation, None)

    def forget(self, consumer: Consumer) -> bool:
        """It is remembered no more; whether nobody is."""
        self._stirred.pop(consumer.incarnation, None)
        self._known.pop(consumer.incarnation, None)
        return not self._known

    def highest(self) -> Position:
        """The highest entry that any of those who are remembered was sent."""
        heap, known = self._highest, self._known
        for stirred in self._stirred.values():
            if stirred.ledger.highest > ledgers.NOWHERE:
                heapq.heappush(heap, _downwards(stirred))
        self._stirred.clear()
        self.turn += 1
        while heap and heap[0][2] not in known:
            heapq.heappop(heap)
        if len(heap) > 2 * len(known) + HEAP_SPARE:  # of one consumer only the last counts
            heap[:] = map(_downwards, known.values())
            heapq.heapify(heap)
        return (-heap[0][0], -heap[0][1]) if heap else ledgers.NOWHERE


def _downwards(consumer: Consumer) -> tuple[int, int, int]:
    ledger_id, entry_id = consumer.ledger.highest
    return -ledger_id, -entry_id, consumer.incarnation


@dataclass(slots=True)
class Consumer:
    """One incarnation of a consumer and its ledger. Times in microseconds and nanoseconds."""

    incarnation: int
    conn_id: int
    consumer_id: int
    topic: str
    partition: int | None
    subscription: str
    subscription_type: str | None
    consumer_name: str | None
    client_version: str | None
    client_addr: str | None
    opened_us: int
    ledger: Ledger
    request_id: int | None = None  # of the SUBSCRIBE or close that waits for its answer
    closing: bool = False
    active: bool | None = None  # Exclusive and Failover, once the broker has reported it
    closed_us: int | None = None
    closed_ns: int | None = None
    # the client's command, or CLOSE: it closed the connection; None: not the client
    closed_by: str | None = None
    held_since_ns: int | None = None  # when it was sent the first message that it held at its end
    join: int | None = None  # of a SUBSCRIBE that is only likely; see columns
    durable: bool | None = None  # as in SUBSCRIBE; None: not in the trace
    before_shutdown: LedgerMoment | None = None  # siblings may owe a newer one: see settle
    siblings: Siblings = field(default_factory=Siblings, repr=False, compare=False)
    turn: int = field(default=0, repr=False, compare=False)  # of siblings, when it last changed
    goings: int = field(default=0, repr=False, compare=False)  # of siblings, that it has kept

    @classmethod
    def of(cls, row: Row, incarnation: int, known: Mapping[str, Any], **of_ledger: Any) -> Consumer:
        """Who begins with this row, as far as the row tells. known: see Timeline."""
        topic = row.topic or ""
        ledger = Ledger(
            individual=row.subscription_type in ("Shared", "Key_Shared"),
            given_receiver_queue_size=known.get("receiver_queue_size"),
            given_process_seconds=known.get("process_seconds"),
            unacked_limit=known.get("unacked_limit"),
            asks_on_arrival=client_of(row.client_version).asks_on_arrival,
            **of_ledger,
        )
        return cls(
            incarnation,
            row.conn_id or 0,
            row.consumer_id or 0,
            topic,
            split_partition(topic)[1],
            row.subscription or "",
            row.subscription_type,
            row.consumer_name,
            row.client_version,
            row.client_addr,
            row.ts,
            ledger,
        )

    def lose_track(self) -> None:
        """Commands are missing: from here on its numbers are not known."""
        self.siblings.stir(self)
        permits.lose_track(self.ledger)

    @property
    def label(self) -> str:
        """What to call it: its name, or its number where it has none."""
        return self.consumer_name or f"#{self.incarnation}"

    @property
    def labels(self) -> tuple[str, str]:
        """What a verdict calls it; with its address where another one has the same name."""
        return self.label, at(self.label, self.client_addr)


@dataclass(slots=True)
class Connection:
    """One connection through the tap. A consumer without a number yet gets one below zero."""

    client_addr: str | None = None
    broker_addr: str | None = None
    client_version: str | None = None
    consumers: dict[int, Consumer] = field(default_factory=dict)
    producers: dict[int, str] = field(default_factory=dict)  # topics of open producers
    closed: dict[int, str] = field(default_factory=dict)  # of the newest that are closed
    # topic and subscription that its dead letters are from
    letters: dict[int, tuple[str, str]] = field(default_factory=dict)
    greeted: bool = False  # the broker has let the client in
    # of a capture, by direction; see columns
    known_by: dict[str, str] = field(default_factory=dict)
    joins: dict[str, int] = field(default_factory=dict)  # where a direction is only likely
    likely_rows: dict[str, int] = field(default_factory=dict)  # of these joins
    lowest: int = 0  # number that was given to one that has none
    # by request_id that waits for its answer, then by incarnation
    waiting: dict[int, dict[int, Consumer]] = field(default_factory=dict, compare=False)

    def wait(self, consumer: Consumer, request_id: int | None) -> None:
        """This consumer waits for the answer to this request, and for no other; None: for none."""
        before = self.waiting.get(consumer.request_id) if consumer.request_id is not None else None
        if before is not None and consumer.request_id is not None:
            before.pop(consumer.incarnation, None)
            if not before:
                del self.waiting[consumer.request_id]
        consumer.request_id = request_id
        if request_id is not None:
            self.waiting.setdefault(request_id, {})[consumer.incarnation] = consumer

    def waits_for(self, request_id: int) -> Consumer | None:
        """Who waits for this answer; the oldest, where a client gives one number twice."""
        those = self.waiting.get(request_id)
        return those[min(those)] if those else None

    def begin_producer(self, producer_id: int, topic: str) -> None:
        """A producer of this topic is open."""
        self.closed.pop(producer_id, None)
        self.letters.pop(producer_id, None)
        _keep_newest(self.producers, producer_id, topic, PRODUCERS_KEPT_MOST)

    def end_producer(self, producer_id: int) -> None:
        """It is closed, by either side."""
        topic = self.producers.pop(producer_id, None)
        self.letters.pop(producer_id, None)
        if topic is not None:
            _keep_newest(self.closed, producer_id, topic, CLOSED_KEPT_MOST)

    def topic_of(self, producer_id: int) -> str | None:
        """The topic of a producer; None where it is not known."""
        return self.producers.get(producer_id) or self.closed.get(producer_id)


def _keep_newest(topics: dict[int, str], producer_id: int, topic: str, most: int) -> None:
    topics.pop(producer_id, None)
    topics[producer_id] = topic
    if len(topics) > most:
        del topics[next(iter(topics))]


@dataclass(frozen=True, slots=True)
class Subscription(AboutSubscription):
    """The consumers of one subscription of one topic (or partition) at the moment of judgement.

    That moment is the end of the trace, or just before the last consumer was shut down. Consumers
    that were closed earlier are not in it.
    """

    topic: str
    partition: int | None
    subscription: str
    type: str | None
    consumers: tuple[Consumer, ...]
    now_us: int
    now_ns: int
    incomplete: bool = False  # something is missing from the trace, perhaps of this subscription
    # by their clients while they held messages, none acknowledged
    closed: tuple[Consumer, ...] = ()
    last_ack_ns: int = 0  # last acknowledgement by any consumer; 0: never
    durable: bool | None = None  # the broker keeps its position; None: not in the trace
    # what waits since the last consumer left; None: nothing is known to wait
    left_behind: LeftBehind | None = None
    unsent: Unsent | None = None  # what waits despite permits; None: nothing known to wait
    # age of the newest message when it was sent; None: not known, or it was the topic's last
    behind_seconds: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether nobody is left: then it is as it stood just before."""
        return all(consumer.closed_us is not None for consumer in self.consumers)
