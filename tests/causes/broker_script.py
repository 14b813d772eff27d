"""What the broker of a transcript would tell: stats and internal stats, from the same lines.

    broker: {}                       the stats of 10 s and 5 s before `at`, and of `at`
    broker: {waiting: 40}            so many entries wait that nobody has been sent yet
    broker: {samples: [0s, 30m]}     when they were taken; the last one is `at`
    broker: {batch index acks: true} acks within a batch count; by default the last of it does

It counts as 4.0.8 does (docs/permits.md), a command at a time: permits, and FLOWs set aside at the
limit of unacknowledged messages (the `unacked_limit` of `told`), mark-delete and ranges, what was
given back. A message comes in as it is sent first. The active one of Failover stays the one that
the wire names, also when it has gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pulsar_doctor.broker.stats.observed import ClusterLimits, Observed
from pulsar_doctor.broker.stats.reading import internal_stats, topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.ledger.timeline import Timeline
from tests.causes.stats_script import (
    IDLE_CONSUMER,
    IDLE_CURSOR,
    IDLE_INTERNAL,
    IDLE_SUBSCRIPTION,
    IDLE_TOPIC,
    NAME,
    START_MS,
    TOPIC,
    iso,
)
from tests.causes.wire_script import Client, Script, ns

BYTES = 100  # of a message
SHARING = ("Shared", "Key_Shared")


@dataclass(eq=False)
class Attached:
    name: str
    address: str
    version: str
    since_ms: int
    permits: int = 0
    parked: int = 0
    unacked: int = 0
    out: int = 0
    entries: int = 0
    blocked: bool = False
    acked_ms: int = 0
    consumed_ms: int = 0
    flow_ms: int = 0
    pending: dict[int, int] = field(default_factory=dict)  # entry -> messages of it that count


class Broker:
    """One subscription; changed in place, a command at a time."""

    def __init__(self, limit: int | None, *, within_batches: bool) -> None:
        self.limit, self.within_batches = limit, within_batches
        self.now_ms = 0
        self._address = self._version = ""
        self.consumers: dict[int, Attached] = {}
        self.type = "None"
        self.durable: bool | None = None
        self.active: Attached | None = None
        self.sizes: dict[int, int] = {}  # of each entry, in messages
        self.acked: set[int] = set()
        self.replay: set[int] = set()
        self.read = 1  # the first entry of a transcript
        self.out = 0
        self.mark_delete = 0
        self.moments = {"advanced": 0, "acked": 0, "consumed": 0, "flow": 0}

    @property
    def shares(self) -> bool:
        return self.type in SHARING

    @property
    def ready(self) -> bool:
        """Whether somebody may be sent something."""
        return any(
            each.permits > 0 and not each.blocked and self.active in (None, each)
            for each in self.consumers.values()
        )

    def apply(
        self, at_ns: int, command: str, who: Client | None, values: Mapping[str, Any]
    ) -> None:
        self.now_ms = START_MS + at_ns // 1_000_000
        if who is None:
            return
        if command == "OPEN":
            self._address = values["client_addr"]
        elif command == "CONNECT":
            self._version = values["client_version"]
        elif command == "SUBSCRIBE":
            self.durable = values["durable"]
        elif command == "SUCCESS" and values["request_id"] == 1:
            self.type = who.type
            self.consumers[who.conn_id] = Attached(
                who.name, f"/{self._address}", self._version, self.now_ms
            )
        elif command == "SEND_RECEIPT":
            self.sizes[values["entry_id"]] = 1
        elif command == "ACTIVE_CONSUMER_CHANGE":
            self.active = self.consumers[who.conn_id] if values["messages"] else self.active
        elif who.conn_id in self.consumers:
            act = ACTS.get(command)
            if act:
                act(self, self.consumers[who.conn_id], values)
            if command in ("CLOSE", "CLOSE_CONSUMER"):
                del self.consumers[who.conn_id]

    def flow(self, who: Attached, values: Mapping[str, Any]) -> None:
        who.flow_ms = self.moments["flow"] = self.now_ms
        if who.blocked:
            who.parked += values["permits"]
        else:
            who.permits += values["permits"]

    def message(self, who: Attached, values: Mapping[str, Any]) -> None:
        entry, messages = values["entry_id"], values["messages"]
        self.sizes.setdefault(entry, messages)
        self.replay.discard(entry)
        self.read = max(self.read, entry + 1)
        who.permits -= values["permits"]
        who.out, self.out, who.entries = who.out + messages, self.out + messages, who.entries + 1
        who.consumed_ms = self.moments["consumed"] = self.now_ms
        who.pending[entry] = values["permits"]
        if self.shares:
            who.unacked += values["permits"]
            who.blocked = who.blocked or (self.limit is not None and who.unacked >= self.limit)

    def ack(self, who: Attached, values: Mapping[str, Any]) -> None:
        who.acked_ms = self.moments["acked"] = self.now_ms
        ids = values["message_ids"] or [None]
        for one in ids:
            entry = one.entry_id if one else values["entry_id"]
            open_bits = one.ack_set if one else values["ack_set"]
            if values["ack_type"] == "cumulative":
                if not self.shares:  # elsewhere the broker drops it
                    self._acknowledge(
                        who, [n for n in self.sizes if n < entry or (n == entry and not open_bits)]
                    )
            elif not open_bits:
                self._acknowledge(who, [entry])
            elif self.within_batches and self.shares and entry in who.pending:
                left = int.from_bytes(open_bits, "little").bit_count()
                who.unacked -= who.pending[entry] - left
                who.pending[entry] = left
        self._release(who)

    def _acknowledge(self, who: Attached, entries: Iterable[int]) -> None:
        for entry in entries:
            self.acked.add(entry)
            self.replay.discard(entry)
            who.unacked -= who.pending.pop(entry, 0) if self.shares else 0
        before = self.mark_delete
        while self.mark_delete + 1 in self.acked:
            self.mark_delete += 1
        if self.mark_delete != before:
            self.moments["advanced"] = self.now_ms

    def _release(self, who: Attached) -> None:
        if who.blocked and self.limit is not None and who.unacked <= self.limit // 2:
            who.blocked = False
            who.permits, who.parked = who.permits + who.parked, 0

    def redeliver(self, who: Attached, values: Mapping[str, Any]) -> None:
        if not self.shares:
            self.read = self.mark_delete + 1
            return
        ids = values["message_ids"]
        self.give_back(who, [one.entry_id for one in ids] if ids else list(who.pending))
        who.blocked = False
        who.permits, who.parked = who.permits + who.parked, 0

    def give_back(self, who: Attached, entries: Iterable[int]) -> None:
        for entry in entries:
            if entry in who.pending and entry not in self.acked:
                who.unacked -= who.pending.pop(entry)
                self.replay.add(entry)

    def leave(self, who: Attached, values: Mapping[str, Any]) -> None:
        if self.shares:
            self.give_back(who, list(who.pending))
        else:
            self.read = self.mark_delete + 1

    # What it tells.

    def topic(self, waiting: int) -> dict[str, Any]:
        came = sum(self.sizes.values()) + waiting
        behind = sum(n for entry, n in self.sizes.items() if entry > self.mark_delete) + waiting
        return IDLE_TOPIC | {
            "msgInCounter": came,
            "bytesInCounter": came * BYTES,
            "msgOutCounter": self.out,
            "backlogSize": behind * BYTES,
            "storageSize": behind * BYTES,
            "subscriptions": {NAME: self._subscription(waiting, behind * BYTES)},
        }

    def _subscription(self, waiting: int, size: int) -> dict[str, Any]:
        backlog = len(self.sizes) - len(self.acked) + waiting
        told = IDLE_SUBSCRIPTION | {
            "type": self.type,
            "msgBacklog": backlog,
            "msgBacklogNoDelayed": backlog,
            "backlogSize": size,
            "isDurable": self.durable,
            "msgInReplay": len(self.replay),
            "unackedMessages": sum(each.unacked for each in self.consumers.values()),
            "msgOutCounter": self.out,
            "activeConsumerName": self.active.name if self.active else None,
            "nonContiguousDeletedMessagesRanges": len(self._ranges()),
            "lastMarkDeleteAdvancedTimestamp": self.moments["advanced"],
            "lastAckedTimestamp": self.moments["acked"],
            "lastConsumedTimestamp": self.moments["consumed"],
            "lastConsumedFlowTimestamp": self.moments["flow"],
            "consumers": [self._consumer(each) for each in self.consumers.values()],
        }
        return {name: value for name, value in told.items() if value is not None}

    def _consumer(self, who: Attached) -> dict[str, Any]:
        return IDLE_CONSUMER | {
            "consumerName": who.name,
            "address": who.address,
            "clientVersion": who.version,
            "connectedSince": iso(who.since_ms),
            "availablePermits": who.permits,
            "unackedMessages": who.unacked,
            "blockedConsumerOnUnackedMsgs": who.blocked,
            "msgOutCounter": who.out,
            "bytesOutCounter": who.out * BYTES,
            "avgMessagesPerEntry": round(who.out / who.entries) if who.entries else 0,
            "lastAckedTimestamp": who.acked_ms,
            "lastConsumedTimestamp": who.consumed_ms,
            "lastConsumedFlowTimestamp": who.flow_ms,
        }

    def internal(self, waiting: int) -> dict[str, Any]:
        last = max(self.sizes, default=0) + waiting
        waits = self.ready and self.read > last
        ranges = self._ranges()
        cursor = IDLE_CURSOR | {
            "markDeletePosition": f"1:{self.mark_delete}",
            "readPosition": f"1:{self.read}",
            "waitingReadOp": waits,
            "subscriptionHavePendingRead": waits,
            "messagesConsumedCounter": len(self.acked),
            "individuallyDeletedMessages": f"[{','.join(ranges)}]",
            "totalNonContiguousDeletedMessagesRange": len(ranges),
        }
        return IDLE_INTERNAL | {
            "entriesAddedCounter": last,
            "numberOfEntries": last,
            "lastConfirmedEntry": f"1:{last}",
            "ledgers": [{"ledgerId": 1, "entries": 0, "size": 0, "offloaded": False}],
            "cursors": {NAME: cursor},
        }

    def _ranges(self) -> list[str]:
        after = sorted(entry for entry in self.acked if entry > self.mark_delete)
        starts = [n for n in after if n - 1 not in self.acked]
        ends = [n for n in after if n + 1 not in self.acked]
        return [f"(1:{first - 1}..1:{end}]" for first, end in zip(starts, ends, strict=True)]


ACTS = {
    "FLOW": Broker.flow,
    "MESSAGE": Broker.message,
    "ACK": Broker.ack,
    "REDELIVER_UNACKNOWLEDGED_MESSAGES": Broker.redeliver,
    "CLOSE_CONSUMER": Broker.leave,
    "CLOSE": Broker.leave,
}


class Recorder(Script):
    """Keeps the commands of a transcript."""

    def __init__(self) -> None:
        super().__init__(Timeline("test"))
        self.commands: list[tuple[int, str, Client | None, dict[str, Any]]] = []

    def put(self, command: str, who: Client | None = None, **values: Any) -> None:
        assert command != "GAP", "what is missing from a trace the broker knows"
        self.commands.append((self.at_ns, command, who, values))


def told_by_broker(case: Mapping[str, Any]) -> dict[str, Observed]:
    """The subscription of a case's `wire` by its `broker`: `stats`, and `internal` beside them."""
    how = case["broker"]
    assert set(how) <= {"waiting", "samples", "batch index acks"}, how
    recorder, waiting, at_ns = Recorder(), how.get("waiting", 0), ns(case["at"])
    recorder.play(case["wire"], case["at"])
    sizes = [told.get("unacked_limit") for told in (case.get("told") or {}).values()]
    limit = next((size for size in sizes if size is not None), None)
    broker, samples = Broker(limit, within_batches=how.get("batch index acks", False)), []
    left = deque(recorder.commands)
    for sample_ns in _times(how, at_ns):
        while left and left[0][0] <= sample_ns:
            broker.apply(*left.popleft())
        assert not (waiting and broker.ready), "nothing waits where somebody may be sent it"
        now_ms = START_MS + sample_ns // 1_000_000
        told = topic_stats(broker.topic(waiting)), internal_stats(broker.internal(waiting))
        samples.append((now_ms, *told))
    limits = ClusterLimits(max_unacked_messages_per_consumer=limit)
    windows = {
        "stats": Window(tuple(Sample(now_ms, topic) for now_ms, topic, _ in samples)),
        "internal": Window(tuple(Sample(*sample) for sample in samples)),
    }
    return {name: Observed(TOPIC, None, NAME, each, limits) for name, each in windows.items()}


def _times(how: Mapping[str, Any], at_ns: int) -> list[int]:
    """The last of them is `at`."""
    before = [at_ns - seconds * 1_000_000_000 for seconds in (10, 5, 0)]
    times = [ns(text) for text in how["samples"]] if "samples" in how else before
    assert times[-1] == at_ns, "the last sample is of `at`"
    assert all(one < other for one, other in pairwise(times))
    return [each for each in times if each >= 0]
