"""Plays a transcript of the wire, written as an operator reads it, to a timeline.

A line is `TIME VERB WHO WHAT`, in any order of time; TIME may be `FROM..TO every STEP`, and several
`VERB WHO WHAT` may share a time, joined by `;`.

    0s subscribe slow Shared         SUBSCRIBE and its SUCCESS, on a connection of its own
    0s subscribe slow Shared Pulsar-Java-v4.0.8    likewise, of this client
    0s subscribe slow Exclusive Pulsar-Java-v4.0.8 counting    likewise, and counts its epochs
    0s subscribe slow Exclusive Pulsar-Java-v4.0.8 reader      likewise, and is not durable
    0s refused late Exclusive        SUBSCRIBE and its ERROR
    0s flow slow 1000                FLOW(1000)
    1s message slow 1000 singles     the broker pushes 1000 new messages
    1s message slow 14 batches of 100
    1s old slow 20 9m                the broker pushes 20 messages that were published 9 minutes ago
    1s old slow 20 9m again          likewise, of those that wait
    9s again slow 3                  the broker pushes 3 entries again that were given back
    9s pass slow 3                   3 that it passes over instead
    9s late slow 2                   the broker pushes 2 new entries of the epoch before
    1s taken slow 1                  the application took a message (only where it tells)
    2s ack slow 4                    an ACK for each of the 4 oldest messages that it holds
    2s ack slow 59 in one            one ACK with 59 ids
    2s ack slow 10 cumulative        one cumulative ACK for the 10th of them
    2s skip slow 1                   it leaves out the oldest of them for good; no command
    2s ack slow all                  whatever it holds
    2s ack slow 2 returned           the 2 oldest messages of those that were given back
    3s redeliver slow 3              gives back 3 entries by id; `all`: everything, the queue too
    4s active slow / standby slow    ACTIVE_CONSUMER_CHANGE
    5s close slow                    the client closes it; `unload`: the broker; `lose`: connection
    5s kill slow                     the client's process ends; `unsubscribe`: gives up messages
    5s publish 3                     the broker stores 3 more; `again` delivers them
    5s publish 3 until 60s           likewise, and they are not due before then
    5s gap                           commands are missing from the trace
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.wire.columns import OURS, TO_BROKER, TO_CLIENT, MessageId, Row

TOPIC = "persistent://public/default/orders"
SUBSCRIPTION = "billing"
START_US = 1_760_000_000_000_000
START_NS = 3600 * 10**9  # the machine has been up for an hour
UNIT_NS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
LINE = re.compile(r"(\S+?)(?:\.\.(\S+) every (\S+))?:? (.+)")


def ns(text: str) -> int:
    match = re.fullmatch(r"([\d.]+)(ms|s|m|h)", text)
    assert match, f"{text!r} is not a time"
    return round(float(match[1]) * UNIT_NS[match[2]])


@dataclass(eq=False)
class Entry:
    number: int
    batch: int
    open_bits: int
    deliveries: int = 0

    @property
    def ack_set(self) -> bytes | None:
        """None where nothing of it, or all of it, is acknowledged."""
        if self.batch == 1 or self.open_bits in (0, (1 << self.batch) - 1):
            return None
        return self.open_bits.to_bytes(8 * -(-self.batch // 64), "little")

    def acknowledge_one(self) -> None:
        self.open_bits &= self.open_bits - 1


@dataclass(eq=False)
class Client:
    conn_id: int
    name: str
    type: str
    held: list[Entry] = field(default_factory=list)
    skipped: list[Entry] = field(default_factory=list)
    queued: list[Entry] = field(default_factory=list)  # a place for each message not yet taken
    epoch: int | None = None

    def take_back(self, entries: Iterable[Entry]) -> list[Entry]:
        gone = dict.fromkeys(entries)
        self.held = [entry for entry in self.held if entry not in gone]
        self.queued = [entry for entry in self.queued if entry not in gone]
        return list(gone)


class Script:
    """One subscription of one topic and its consumers, as they are on the wire."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.clients: dict[str, Client] = {}
        self.returned: list[Entry] = []
        self.connections = 0
        self.entries = 0
        self.at_ns = 0
        self.age_us: int | None = None  # of the messages that are pushed, where it is told

    def play(self, lines: Iterable[str], until: str) -> None:
        for self.at_ns, action in sorted(_actions(lines), key=lambda at: at[0]):
            verb, _, words = action.partition(" ")
            assert self.at_ns <= ns(until), f"{action!r} comes after the end"
            VERBS[verb](self, *words.split())
        self.timeline.pass_time(START_US + ns(until) // 1000, START_NS + ns(until))

    def put(self, command: str, who: Client | None = None, **values: Any) -> None:
        row = Row()
        row.ts, row.mono_ns = START_US + self.at_ns // 1000, START_NS + self.at_ns
        row.command, row.command_code = command, OURS
        if who is not None:
            row.conn_id = who.conn_id
            row.direction = TO_BROKER
        for name, value in values.items():
            setattr(row, name, value)
        self.timeline.apply(row)

    def subscribe(
        self, name: str, type_: str, version: str = "Pulsar-CPP-v3.7.0", *more: str,
        accepted: bool = True,
    ) -> None:  # fmt: skip
        self.connections += 1
        who = self.clients[name] = Client(self.connections, name, type_)
        who.epoch = 0 if more == ("counting",) else None
        self.put("OPEN", who, client_addr=f"10.0.0.7:{5000 + who.conn_id}")
        self.put("CONNECT", who, client_version=version)
        self.put(
            "SUBSCRIBE", who, request_id=1, consumer_id=0, consumer_name=name,
            topic=TOPIC, subscription=SUBSCRIPTION, subscription_type=type_,
            consumer_epoch=who.epoch, durable="reader" not in more,
        )  # fmt: skip
        answer = "SUCCESS" if accepted else "ERROR"
        self.put(answer, who, request_id=1, direction=TO_CLIENT)

    def refused(self, name: str, type_: str) -> None:
        self.subscribe(name, type_, accepted=False)

    def flow(self, name: str, permits: str) -> None:
        self.put("FLOW", self.clients[name], consumer_id=0, permits=int(permits))

    def message(self, name: str, count: str, *kind: str) -> None:
        batch = 1 if kind == ("singles",) else int(kind[-1])
        assert kind in (("singles",), ("batches", "of", str(batch))), kind
        for _ in range(int(count)):
            self.entries += 1
            self._push(self.clients[name], Entry(self.entries, batch, (1 << batch) - 1))

    def old(self, name: str, count: str, age: str, *again: str) -> None:
        self.age_us = ns(age) // 1000
        if again == ("again",):
            self.again(name, count)
        else:
            self.message(name, count, "singles")
        self.age_us = None

    def again(self, name: str, count: str) -> None:
        for _ in range(len(self.returned) if count == "all" else int(count)):
            self._push(self.clients[name], self.returned.pop(0))

    def pass_over(self, name: str, count: str) -> None:
        del self.returned[: int(count)]

    def late(self, name: str, count: str) -> None:
        who = self.clients[name]
        assert who.epoch
        for _ in range(int(count)):
            self.entries += 1
            entry = Entry(self.entries, 1, 1)
            self._message(who, entry, who.epoch - 1)
            self.returned.append(entry)

    def _push(self, who: Client, entry: Entry) -> None:
        who.held.append(entry)
        who.queued += [entry] * entry.open_bits.bit_count()
        self._message(who, entry, who.epoch)

    def _message(self, who: Client, entry: Entry, epoch: int | None) -> None:
        left = entry.open_bits.bit_count()
        now_us, age_us = START_US + self.at_ns // 1000, self.age_us
        self.put(
            "MESSAGE", who, direction=TO_CLIENT, consumer_id=0, ledger_id=1, messages=entry.batch,
            entry_id=entry.number, permits=left, ack_set=entry.ack_set,
            redelivery_count=entry.deliveries if who.type in ("Shared", "Key_Shared") else 0,
            consumer_epoch=epoch, publish_time=None if age_us is None else now_us - age_us,
        )  # fmt: skip
        entry.deliveries += 1

    def taken(self, name: str, count: str) -> None:
        who = self.clients[name]
        for _ in range(int(count)):
            entry = who.queued.pop(0)
            self.put("TAKEN", topic=TOPIC, subscription=SUBSCRIPTION, consumer_name=name,
                     ledger_id=1, entry_id=entry.number, messages=1)  # fmt: skip

    def ack(self, name: str, count: str, *how: str) -> None:
        who = self.clients[name]
        them = self.returned if how == ("returned",) else who.held
        ids = []
        for _ in range(held_messages(them) if count == "all" else int(count)):
            entry = them[0]
            entry.acknowledge_one()
            ids.append(MessageId(1, entry.number, entry.ack_set))
            if not entry.open_bits:
                them.remove(entry)
        if how == ("cumulative",):
            self._ack(who, "cumulative", ids[-1:])
        elif how == ("in", "one"):
            self._ack(who, "individual", ids)
        else:
            assert how in ((), ("returned",)), how
            for one in ids:
                self._ack(who, "individual", [one])

    def skip(self, name: str, count: str) -> None:
        who = self.clients[name]
        who.skipped += who.held[: int(count)]
        del who.held[: int(count)]

    def _ack(self, who: Client, ack_type: str, ids: list[MessageId]) -> None:
        one = ids[0] if len(ids) == 1 else MessageId(None, None, None)  # type: ignore[arg-type]
        self.put(
            "ACK", who, consumer_id=0, ack_type=ack_type, messages=len(ids),
            ledger_id=one.ledger_id, entry_id=one.entry_id, ack_set=one.ack_set,
            message_ids=ids if len(ids) > 1 else None,
        )  # fmt: skip

    def redeliver(self, name: str, count: str) -> None:
        who = self.clients[name]
        back = who.take_back(who.held if count == "all" else who.held[: int(count)])
        ids = [] if count == "all" else [MessageId(1, entry.number, None) for entry in back]
        if not ids and who.epoch is not None:
            who.epoch += 1
        self.put(
            "REDELIVER_UNACKNOWLEDGED_MESSAGES", who, consumer_id=0, message_ids=ids or None,
            messages=len(ids), consumer_epoch=None if ids else who.epoch,
        )  # fmt: skip
        self.returned += back

    def put_away(self, name: str, count: str) -> None:
        """As clients do with a dead-letter policy: to a topic of its own, then acknowledged."""
        who = self.clients[name]
        self.put("PRODUCER", who, producer_id=7, topic=f"{TOPIC}-{SUBSCRIPTION}-DLQ")
        for _ in range(int(count)):
            self.put("SEND", who, producer_id=7, messages=1)
        self.ack(name, count)

    def active(self, name: str, *, active: bool = True) -> None:
        who = self.clients[name]
        self.put("ACTIVE_CONSUMER_CHANGE", who, direction=TO_CLIENT, consumer_id=0, messages=active)

    def standby(self, name: str) -> None:
        self.active(name, active=False)

    def close(self, name: str) -> None:
        who = self._gone(name)
        self.put("CLOSE_CONSUMER", who, consumer_id=0, request_id=2)
        self.put("SUCCESS", who, request_id=2, direction=TO_CLIENT)

    def unload(self, name: str) -> None:
        self.put("CLOSE_CONSUMER", self._gone(name), direction=TO_CLIENT, consumer_id=0)

    def lose(self, name: str) -> None:
        self.put("CLOSE", self._gone(name))

    def kill(self, name: str) -> None:
        self.put("CLOSE", self._gone(name), error_message="closed by the client")

    def unsubscribe(self, name: str) -> None:
        who = self._gone(name)
        self.put("UNSUBSCRIBE", who, consumer_id=0, request_id=2)
        self.put("SUCCESS", who, request_id=2, direction=TO_CLIENT)

    def _gone(self, name: str) -> Client:
        who = self.clients.pop(name)
        self.returned += [*who.skipped, *who.take_back(who.held)]
        return who

    def publish(self, count: str, *until: str) -> None:
        due_us = START_US + ns(until[-1]) // 1000 if until else None
        self.connections += 1
        who = Client(self.connections, "producer", "")
        self.put("PRODUCER", who, producer_id=1, topic=TOPIC)
        for _ in range(int(count)):
            self.entries += 1
            self.returned.append(Entry(self.entries, 1, 1))
            self.put("SEND", who, producer_id=1, messages=1, deliver_at=due_us)
            self.put("SEND_RECEIPT", who, direction=TO_CLIENT, producer_id=1, ledger_id=1,
                     entry_id=self.entries)  # fmt: skip

    def gap(self) -> None:
        self.put("GAP", dropped=3)


def held_messages(entries: Iterable[Entry]) -> int:
    return sum(entry.open_bits.bit_count() for entry in entries)


VERBS: dict[str, Callable[..., None]] = {
    "subscribe": Script.subscribe,
    "refused": Script.refused,
    "flow": Script.flow,
    "message": Script.message,
    "old": Script.old,
    "again": Script.again,
    "pass": Script.pass_over,
    "late": Script.late,
    "taken": Script.taken,
    "ack": Script.ack,
    "skip": Script.skip,
    "redeliver": Script.redeliver,
    "put_away": Script.put_away,
    "active": Script.active,
    "standby": Script.standby,
    "close": Script.close,
    "unload": Script.unload,
    "lose": Script.lose,
    "kill": Script.kill,
    "unsubscribe": Script.unsubscribe,
    "publish": Script.publish,
    "gap": Script.gap,
}


def _actions(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    for line in lines:
        match = LINE.fullmatch(line.strip())
        assert match, f"{line!r} is no line of a transcript"
        first, last = ns(match[1]), ns(match[2] or match[1])
        for at in range(first, last + 1, ns(match[3] or "1s")):
            for action in match[4].split(";"):
                yield at, action.strip()


def played(
    lines: Iterable[str], at: str, told: Mapping[str, Mapping[str, Any]] | None = None
) -> Timeline:
    """The timeline at that moment."""
    timeline = Timeline("test", told or {})
    Script(timeline).play(lines, at)
    return timeline
