"""The broker of an incident: the simulator's dispatchers, and all that an incident needs beside.

Limits of unacknowledged messages, messages that are given back, consumers that leave, the hand-over
of keys, mark-delete, ranges and the read position. `dispatcher.available` is what may be used now;
the permits themselves stay with the consumer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pulsar_doctor.model.broker import READ_MOST, Dispatcher
from pulsar_doctor.model.scenario import ProducedEntry
from tests.incidents.dispatching import Ahead, Keys, OneActive, nothing_waits
from tests.incidents.script import SECOND, Fault

SHARING = ("shared", "key_shared")
NO_FAULT = Fault()


@dataclass(slots=True, eq=False)
class Hold:
    """An entry with a consumer; until_ns: when it was acknowledged, or given back."""

    entry: ProducedEntry
    since_ns: int
    until_ns: int | None = None


@dataclass(slots=True, eq=False)
class Attached:
    """A consumer, as the broker counts. Times are None for never.

    ready: (when, whether it may be sent something), at each change.
    """

    index: int
    name: str
    since_ns: int
    permits: int = 0
    parked: int = 0
    unacked: int = 0
    out: int = 0
    entries_out: int = 0
    bytes_out: int = 0
    blocked: bool = False
    gone_ns: int | None = None
    last_acked_ns: int | None = None
    last_consumed_ns: int | None = None
    last_flow_ns: int | None = None
    held: dict[int, Hold] = field(default_factory=dict)
    flows: list[tuple[int, int]] = field(default_factory=list)  # when, permits
    sent: list[tuple[int, int]] = field(default_factory=list)  # when, messages
    acks: list[tuple[int, int]] = field(default_factory=list)
    ready: list[tuple[int, bool]] = field(default_factory=list)
    back: list[tuple[int, int]] = field(default_factory=list)  # when, messages given back


class Broker:
    """One subscription. Changed in place; now_ns is set from outside before anything happens."""

    def __init__(
        self, type: str, consumer_limit: int, subscription_limit: int, fault: Fault = NO_FAULT
    ) -> None:
        self.type = type
        self.fault = fault
        self.individual = type in SHARING
        self.consumer_limit = consumer_limit if self.individual else 0
        self.subscription_limit = subscription_limit if self.individual else 0
        self.now_ns = 0
        self.consumers: list[Attached] = []
        self.dispatcher = self._dispatcher()
        self.published: list[ProducedEntry] = []
        self.published_messages = 0
        self.acked: set[int] = set()  # behind mark-delete
        self.acked_entries = 0
        self.mark_delete = -1
        self.read = 0
        self.unacked = 0
        self.blocked = False
        self.out = self.bytes_out = 0
        self.last_acked_ns: int | None = None
        self.last_consumed_ns: int | None = None
        self.last_flow_ns: int | None = None
        self.advanced_ns: int | None = None
        self.deliveries: dict[int, int] = {}  # entry -> how often it was sent
        self.sent: list[tuple[int, int]] = []  # when, how often that entry was sent by then
        self.delayed: dict[int, ProducedEntry] = {}  # not due yet, by number
        self.throttled: list[int] = []  # when a rate limit held a read back
        self._second, self._spent = 0, 0  # of the rate limit
        self.turned_away: dict[int, int] = {}  # key that drains -> how often its owner got nothing

    def _dispatcher(self) -> Dispatcher:
        if self.type == "shared":
            return Ahead(self._permits)
        return Keys(self._may_have) if self.type == "key_shared" else OneActive()

    @property
    def living(self) -> list[Attached]:
        """Consumers that are there, in the order of their coming."""
        return [consumer for consumer in self.consumers if consumer.gone_ns is None]

    @property
    def backlog(self) -> int:
        """Entries that are not acknowledged."""
        return len(self.published) - 1 - self.mark_delete - len(self.acked)

    @property
    def held(self) -> int:
        """Entries that consumers hold."""
        return sum(len(consumer.held) for consumer in self.living)

    @property
    def replay(self) -> int:
        """Entries that were read and are with nobody."""
        if not self.living or not self.individual:
            return 0
        done = sum(1 for number in self.acked if number < self.read)
        return self.read - 1 - self.mark_delete - done - self.held - self.read_delayed

    @property
    def read_delayed(self) -> int:
        """Entries that were read and are not due yet: those that it counts as delayed."""
        return sum(1 for number in self.delayed if number < self.read) if self.living else 0

    @property
    def stuck(self) -> bool:
        """Whether it reads nothing now."""
        fault = self.fault
        ends = fault.until_ns is None or self.now_ns < fault.until_ns
        return fault.stuck_ns is not None and self.now_ns >= fault.stuck_ns and ends

    @property
    def drift(self) -> int:
        """Entries by which its counter of the backlog is off."""
        from_ns, entries = self.fault.drift
        return entries if self.now_ns >= from_ns else 0

    @property
    def tokens(self) -> int | None:
        """Messages that the rate limit still allows in this second; None: any."""
        if not self.fault.rate:
            return None
        second = self.now_ns // SECOND
        if second != self._second:
            over = max(0, self._spent - self.fault.rate * (second - self._second))
            self._second, self._spent = second, over
        return self.fault.rate - self._spent

    def _permits(self) -> int:
        permits, tokens = sum(consumer.permits for consumer in self.living), self.tokens
        return permits if tokens is None else min(permits, tokens)

    def owner(self, key: int) -> Attached | None:
        """Whose this key is."""
        living = self.living
        return living[key % len(living)] if living else None

    def _may_have(self, key: int) -> int | None:
        owner = self.owner(key)
        if owner is None:
            return None
        others = (c for c in self.living if c is not owner)
        drains = any(hold.entry.key == key for c in others for hold in c.held.values())
        if drains and self.usable(owner) > 0:
            self.turned_away[key] = self.turned_away.get(key, 0) + 1
        return None if drains else owner.index

    def _let_go(self, consumer: Attached, key: int) -> None:
        """A key that has drained is counted anew when it drains again."""
        if all(hold.entry.key != key for hold in consumer.held.values()):
            self.turned_away.pop(key, None)

    def usable(self, consumer: Attached) -> int:
        """Permits that the broker would use now."""
        if consumer.gone_ns is not None or consumer.blocked or self.blocked:
            return 0
        if not self.individual and not self.dispatcher.active(consumer.index):
            return 0
        room = [consumer.permits]
        if self.consumer_limit:
            room.append(self.consumer_limit - consumer.unacked)
        if self.subscription_limit:
            room.append(self.subscription_limit - self.unacked)
        return min(room)

    # What happens to it.

    def publish(self, entry: ProducedEntry) -> None:
        self.published.append(entry)
        self.published_messages += entry.messages
        if self.individual and self.fault.due.get(entry.number, 0) > self.now_ns:
            self.delayed[entry.number] = entry
        else:
            self.dispatcher.add(entry)

    def is_due(self, number: int) -> None:
        """Its time has come."""
        entry = self.delayed.pop(number, None)
        if entry is not None:
            self.dispatcher.give_back([entry])

    def attach(self, name: str) -> Attached:
        consumer = Attached(len(self.consumers), name, self.now_ns)
        if not self.living:
            self._rewind()
        self.consumers.append(consumer)
        self.dispatcher.attach()
        if len(self.living) == 1:
            self._choose()
        self._note()
        return consumer

    def leave(self, consumer: Attached) -> None:
        consumer.gone_ns = self.now_ns
        self._back(consumer, list(consumer.held))
        if not self.individual and self.dispatcher.active(consumer.index):
            if not self.fault.keeps_active:
                self._choose()
            self._rewind()
        self._note()

    def _rewind(self) -> None:
        self.read = self.mark_delete + 1
        if isinstance(self.dispatcher, Ahead):
            self.dispatcher.read = self.read

    def flow(self, consumer: Attached, permits: int) -> None:
        if consumer.gone_ns is not None:
            return
        consumer.flows.append((self.now_ns, permits))
        consumer.last_flow_ns = self.last_flow_ns = self.now_ns
        if self.consumer_limit and consumer.unacked >= self.consumer_limit:
            consumer.blocked = True
        if consumer.blocked:
            consumer.parked += permits
        else:
            consumer.permits += permits
        self._note()

    def dispatch(self) -> Iterator[tuple[Attached, ProducedEntry]]:
        """What is sent now."""
        if self.stuck:
            return
        available, tokens = self.dispatcher.available, self.tokens
        for consumer in self.consumers:
            available[consumer.index] = self.usable(consumer)
        if tokens is not None:
            self._hold_back(tokens)
        if self.type == "key_shared" and max(available, default=0) > 0:
            ahead = self.read + min(max(1, self._permits()), READ_MOST)
            self.read = max(self.read, min(len(self.published), ahead))
        for index, entry in self.dispatcher.dispatch():
            consumer = self.consumers[index]
            self._sent(consumer, entry)
            self._spent += entry.messages
            if tokens is None:
                for each in self.consumers if self.subscription_limit else (consumer,):
                    available[each.index] = self.usable(each)
            yield consumer, entry
        self._read_on()
        self._note()

    def _hold_back(self, tokens: int) -> None:
        """Of what consumers ask for, as much as the rate limit allows."""
        available, asked = self.dispatcher.available, 0
        for index, permits in enumerate(available):
            asked += max(0, permits)
            available[index] = max(0, min(permits, tokens))
            tokens -= available[index]
        left = len(self.published) - self.read + self.replay
        if left > 0 and asked > sum(available):
            self.throttled.append(self.now_ns)

    def _read_on(self) -> None:
        dispatcher, tokens = self.dispatcher, self.tokens
        if tokens is not None and tokens <= 0:
            pass
        elif (self.type == "key_shared" or nothing_waits(dispatcher)) and any(
            self.usable(consumer) > 0 for consumer in self.living
        ):
            self.read = len(self.published)
        if isinstance(dispatcher, Ahead):
            self.read = dispatcher.read = max(self.read, dispatcher.read)

    def _sent(self, consumer: Attached, entry: ProducedEntry) -> None:
        size = 50 * entry.messages
        consumer.permits -= entry.messages
        consumer.out += entry.messages
        consumer.entries_out += 1
        consumer.bytes_out += size
        self.out += entry.messages
        self.bytes_out += size
        consumer.last_consumed_ns = self.last_consumed_ns = self.now_ns
        consumer.sent.append((self.now_ns, entry.messages))
        consumer.held[entry.number] = Hold(entry, self.now_ns)
        self.deliveries[entry.number] = self.deliveries.get(entry.number, 0) + 1
        self.sent.append((self.now_ns, self.deliveries[entry.number]))
        self.read = max(self.read, entry.number + 1)
        if self.individual:
            self._count_unacked(consumer, entry.messages)
            if self.consumer_limit and consumer.unacked >= self.consumer_limit:
                consumer.blocked = True

    def ack(self, consumer: Attached, numbers: Iterable[int]) -> None:
        """Whole entries, each by its number."""
        consumer.last_acked_ns = self.last_acked_ns = self.now_ns
        messages = 0
        for number in numbers:
            hold = consumer.held.pop(number, None)
            if hold is None:
                continue
            hold.until_ns = self.now_ns
            self._let_go(consumer, hold.entry.key)
            messages += hold.entry.messages
            self.acked.add(number)
            self.acked_entries += 1
            if self.individual:
                self._count_unacked(consumer, -hold.entry.messages)
        if messages:
            consumer.acks.append((self.now_ns, messages))
        self._advance()
        self._release(consumer)
        self._note()

    def give_back(self, consumer: Attached, numbers: Iterable[int]) -> None:
        """A REDELIVER by ids, on Shared and Key_Shared."""
        numbers = list(numbers)
        messages = [consumer.held[n].entry.messages for n in numbers if n in consumer.held]
        consumer.back.append((self.now_ns, sum(messages)))
        self._back(consumer, numbers)
        consumer.blocked = False
        consumer.permits, consumer.parked = consumer.permits + consumer.parked, 0
        self._note()

    def _back(self, consumer: Attached, numbers: list[int]) -> None:
        back = []
        for number in numbers:
            hold = consumer.held.pop(number, None)
            if hold is not None:
                hold.until_ns = self.now_ns
                self._let_go(consumer, hold.entry.key)
                back.append(hold.entry)
                if self.individual:
                    self._count_unacked(consumer, -hold.entry.messages)
        self.dispatcher.give_back(back)

    def _count_unacked(self, consumer: Attached, messages: int) -> None:
        consumer.unacked += messages
        self.unacked += messages
        limit = self.subscription_limit
        if limit and self.unacked >= limit:
            self.blocked = True
        elif self.blocked and self.unacked < limit // 2:
            self.blocked = False

    def _release(self, consumer: Attached) -> None:
        if consumer.blocked and consumer.unacked <= self.consumer_limit // 2:
            consumer.blocked = False
            consumer.permits, consumer.parked = consumer.permits + consumer.parked, 0

    def _advance(self) -> None:
        before = self.mark_delete
        while self.mark_delete + 1 in self.acked:
            self.mark_delete += 1
            self.acked.remove(self.mark_delete)
        if self.mark_delete != before:
            self.advanced_ns = self.now_ns

    def _choose(self) -> None:
        dispatcher = self.dispatcher
        if isinstance(dispatcher, OneActive) and self.living:
            dispatcher.chosen = self.living[0].index

    def _note(self) -> None:
        for consumer in self.consumers:
            ready = self.usable(consumer) > 0
            if not consumer.ready or consumer.ready[-1][1] != ready:
                consumer.ready.append((self.now_ns, ready))
