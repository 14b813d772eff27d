"""Writes what a broker would tell of one subscription, from the few fields that a case is about.

    stats:
      name: __compaction           of the subscription; otherwise billing
      type: Shared
      samples: [0s, 5s, 10s]       when they were taken; this is the default
      clock: not told              no Date header: ages are lower bounds
      pasted: true                 somebody copied it by hand: fields may be left out
      interval: 5s                 then: how far apart the samples were taken, otherwise not told
      topic: {msgInCounter: 60}
      subscription: {msgBacklog: 60, unackedMessages: 10, lastAckedTimestamp: 6m ago}
      consumers:
        slow: {availablePermits: 0, unackedMessages: 10, msgOutCounter: 10}
      consumers: not told          the field is left out
      gone: {old: {left: 2, ...}}  a consumer that is there in the first so many samples only
      cursor: {readPosition: "5:10", markDeletePosition: "5:-1"}    internal stats, otherwise none
      internal: {lastConfirmedEntry: "5:59"}
      internal in: last            the internal stats of one sample only, the first or the last
      replicator: {connected: false}   of the one that `name` says; then there is no subscription
      replicator: not told         likewise, and only its cursor is told
      compaction: {lastCompactionFailedTimestamp: 1h ago}   of the topic
      others: [__compaction]       idle subscriptions beside it; or a mapping, with their fields
      transactions:                what the broker reports of open ones
        readable: "5:9"            maxReadPosition
        pending: 1                 in which entries of it are acknowledged
        slow: {"0,5": {opened: 6m ago, timeout: 1h, acks: true}}    acks: of it; else publishes
      elsewhere: true              other partitions have consumers of it
      segment: {parents: [0], created: 6m ago}    it is segment 9 of a scalable topic
      segment: {unlisted: {10: {range: [0, 0], seen: 8s}}}   loaded, and not in the metadata
      segments:                    the others; each has type, subscription and consumers as above
        0: {sealed: 6m ago, type: Exclusive, subscription: {msgBacklog: 3}, consumers: {}}

Names are the broker's. A list is one value for each sample (of a field that is a list: a list of
lists). `6m ago` is before the last sample; a sample before that moment tells an earlier one, as old
as that. `never` is 0, `null` takes the field out. Everything else is as an idle 4.0.8 writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from pulsar_doctor.broker.stats.followed import completed
from pulsar_doctor.broker.stats.observed import ClusterLimits, Observed, TopicWindow
from pulsar_doctor.broker.stats.reading import internal_stats, topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.segments import SegmentPlace, TopicSegment
from pulsar_doctor.broker.stats.transactions import (
    NO_TRANSACTIONS,
    PendingAcks,
    SlowTransaction,
    Transactions,
)
from pulsar_doctor.broker.stats.window import Window

TOPIC = "persistent://public/default/orders"
NAME = "billing"
START_MS = 1_760_000_000_000
UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
THROTTLED = [
    f"dispatchThrottled{what}EventsBy{whose}Limit"
    for what in ("Msg", "Bytes")
    for whose in ("Subscription", "Topic", "Broker")
]
MOMENTS = {
    "lastAckedTimestamp": 0,
    "lastConsumedTimestamp": 0,
    "lastConsumedFlowTimestamp": 0,
}
IDLE_TOPIC: dict[str, Any] = {
    "msgInCounter": 0,
    "bytesInCounter": 0,
    "msgOutCounter": 0,
    "ongoingTxnCount": 0,
    "waitingPublishers": 0,
    "publishers": [],
    "ownerBroker": "broker-1:8080",
}
IDLE_SUBSCRIPTION: dict[str, Any] = {
    "msgBacklog": 0,
    "msgBacklogNoDelayed": 0,
    "msgDelayed": 0,
    "msgInReplay": 0,
    "unackedMessages": 0,
    "blockedSubscriptionOnUnackedMsgs": False,
    "msgOutCounter": 0,
    "isDurable": True,
    "isReplicated": False,
    "activeConsumerName": None,
    "drainingHashesCount": 0,
    "drainingHashesUnackedMessages": 0,
    "drainingHashesClearedTotal": 0,
    "nonContiguousDeletedMessagesRanges": 0,
    "lastMarkDeleteAdvancedTimestamp": 0,
    **MOMENTS,
    **dict.fromkeys(THROTTLED, 0),
}
IDLE_CONSUMER: dict[str, Any] = {
    "availablePermits": 1000,
    "unackedMessages": 0,
    "blockedConsumerOnUnackedMsgs": False,
    "msgOutCounter": 0,
    "avgMessagesPerEntry": 1,
    "connectedSince": "1h ago",
    "address": "/10.0.0.1:50000",
    "clientVersion": "Pulsar-Java-v4.0.8",
    "drainingHashesCount": 0,
    "drainingHashesUnackedMessages": 0,
    "drainingHashesClearedTotal": 0,
    **MOMENTS,
}
IDLE_REPLICATOR: dict[str, Any] = {
    "msgRateOut": 0.0,
    "msgOutCount": 0,
    "replicationBacklog": 0,
    "connected": True,
    "replicationDelayInSeconds": 0,
}
IDLE_CURSOR: dict[str, Any] = {
    "markDeletePosition": "5:-1",
    "readPosition": "5:0",
    "waitingReadOp": False,
    "pendingReadOps": 0,
    "messagesConsumedCounter": 0,
    "individuallyDeletedMessages": "[]",
    "totalNonContiguousDeletedMessagesRange": 0,
    "subscriptionHavePendingRead": False,
    "subscriptionHavePendingReplayRead": False,
    "state": "Open",
}
IDLE_INTERNAL: dict[str, Any] = {
    "entriesAddedCounter": 0,
    "numberOfEntries": 0,
    "lastConfirmedEntry": "5:-1",
    "state": "LedgerOpened",
    "ledgers": [{"ledgerId": 5, "entries": 0, "size": 0, "offloaded": False}],
}


def milliseconds(text: str) -> int:
    match = re.fullmatch(r"([\d.]+)(ms|s|m|h|d)", text)
    assert match, f"{text!r} is not a time"
    return round(float(match[1]) * UNIT_MS[match[2]])


def observed(case: Mapping[str, Any]) -> Observed:
    """The subscription that a case's `stats` speaks of."""
    known = {"type", "samples", "clock", "topic", "subscription", "consumers", "gone", "cursor"}
    known |= {"internal", "internal in", "interval", "limits", "name", "pasted"}
    known |= {"replicator", "compaction", "segment", "segments", "others", "elsewhere"}
    known |= {"transactions"}
    assert set(case) <= known, set(case) - known
    times = [milliseconds(text) for text in case.get("samples", ["0s", "5s", "10s"])]
    written = [Written(case, times, at) for at in range(len(times))]
    told = case.get("clock") != "not told"
    samples = tuple(
        Sample(
            START_MS + times[at] if told else None,
            completed(topic_stats(one.topic())) if "pasted" in case else topic_stats(one.topic()),
            internal_stats(one.internal()) if one.has_internal else None,
        )
        for at, one in enumerate(written)
    )
    limits = ClusterLimits(**case.get("limits", {}))
    interval = milliseconds(case["interval"]) if "interval" in case else None
    window, name = Window(samples, interval_ms=interval), case.get("name", NAME)
    if "replicator" in case:
        judged = TopicWindow(TOPIC, None, window, limits).judged()
        return next(each for each in judged if each.subscription == name)
    return Observed(
        TOPIC,
        None,
        name,
        window,
        limits,
        place(case, times),
        elsewhere=case.get("elsewhere", False),
        transactions=transactions(case.get("transactions"), name, times),
    )


def transactions(told: Mapping[str, Any] | None, name: str, times: list[int]) -> Transactions:
    if told is None:
        return NO_TRANSACTIONS
    written = Written({}, times, len(times) - 1)
    slow = tuple(
        SlowTransaction(
            number, name if each.get("acks") else None, written.value("opened", each["opened"]),
            milliseconds(each["timeout"]) / 1000,
        )
        for number, each in told.get("slow", {}).items()
    )  # fmt: skip
    ledger, _, entry = told.get("readable", "").partition(":")
    return Transactions(
        (int(ledger), int(entry)) if entry else None,
        (PendingAcks(name, told["pending"]),) if "pending" in told else (),
        slow,
    )


def place(case: Mapping[str, Any], times: list[int]) -> SegmentPlace | None:
    if "segment" not in case:
        return None
    others = case.get("segments", {})
    cases = {number: {**told, "samples": case.get("samples")} for number, told in others.items()}
    segments = {number: _segment(number, told, times) for number, told in others.items()}
    own = segments[OWN] = _segment(OWN, case["segment"], times)
    stats = {
        number: topic_stats(Written(told, times, len(times) - 1).topic())
        for number, told in ({OWN: case} | cases).items()
    }
    unlisted = tuple(
        TopicSegment(
            number, None, hash_start=each["range"][0], hash_end=each["range"][1], active=False,
            seen_seconds=milliseconds(each["seen"]) / 1000,
        )
        for number, each in case["segment"].get("unlisted", {}).items()
    )  # fmt: skip
    return SegmentPlace("topic://public/default/orders", own, segments, stats, unlisted)


def _segment(number: int, told: Mapping[str, Any], times: list[int]) -> TopicSegment:
    written = Written({}, times, len(times) - 1)
    sealed_ms = written.value("sealed", told.get("sealed"))
    parents, children = tuple(told.get("parents", ())), tuple(told.get("children", ()))
    created_ms = written.value("created", told.get("created", "1h ago"))
    active = sealed_ms is None
    return TopicSegment(number, None, 0, 1, active, parents, children, created_ms, sealed_ms)


class Written:
    """One sample's documents, as the broker writes them."""

    def __init__(self, case: Mapping[str, Any], times: list[int], at: int) -> None:
        self.case, self.times, self.at = case, times, at
        only = {"first": 0, "last": len(times) - 1}.get(case.get("internal in", ""), at)
        self.has_internal = ("cursor" in case or "internal" in case) and at == only

    def topic(self) -> dict[str, Any]:
        told = self.case.get("consumers") or {}
        consumers = [
            self.consumer(name, fields)
            for name, fields in (told.items() if told != "not told" else ())
            if self.at >= fields.get("came", 0)
        ]
        consumers += [
            self.consumer(name, fields)
            for name, fields in (self.case.get("gone") or {}).items()
            if fields.get("came", 0) <= self.at < fields["left"]
        ]
        subscription = self.filled(IDLE_SUBSCRIPTION, self.case.get("subscription"))
        subscription |= {"type": self.case.get("type", "Shared"), "consumers": consumers}
        if told == "not told":
            del subscription["consumers"]
        topic = self.filled(IDLE_TOPIC, self.case.get("topic"))
        if "compaction" in self.case:
            topic["compaction"] = self.filled({}, self.case["compaction"])
        if "replicator" in self.case:
            return topic | self.replication()
        told_of = self.case.get("others", ())
        given = told_of if isinstance(told_of, Mapping) else dict.fromkeys(told_of)
        others = {name: self.filled(IDLE_SUBSCRIPTION, one) for name, one in given.items()}
        return topic | {"subscriptions": {self.case.get("name", NAME): subscription, **others}}

    def replication(self) -> dict[str, Any]:
        told = self.case["replicator"]
        if told == "not told":
            return {}
        cluster = self.case["name"].removeprefix("pulsar.repl.")
        return {"subscriptions": {}, "replication": {cluster: self.filled(IDLE_REPLICATOR, told)}}

    def consumer(self, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        told = {key: value for key, value in fields.items() if key not in ("came", "left", "name")}
        return {"consumerName": fields.get("name", name)} | self.filled(IDLE_CONSUMER, told)

    def internal(self) -> dict[str, Any]:
        name = self.case.get("name", NAME)
        cursor = self.filled(IDLE_CURSOR, self.case.get("cursor"))
        return self.filled(IDLE_INTERNAL, self.case.get("internal")) | {"cursors": {name: cursor}}

    def filled(self, idle: Mapping[str, Any], told: Mapping[str, Any] | None) -> dict[str, Any]:
        fields = deepcopy(dict(idle)) | dict(told or {})
        written = {name: self.value(name, value) for name, value in fields.items()}
        return {name: value for name, value in written.items() if value is not None}

    def value(self, name: str, value: Any) -> Any:
        each = name not in LISTS or (value and isinstance(value[0], list))
        if isinstance(value, list) and each:
            assert len(value) == len(self.times), f"{name}: {value} for {len(self.times)} samples"
            value = value[self.at]
        if value == "never":
            return 0
        if isinstance(value, str) and value.endswith(" ago"):
            age, here = milliseconds(value.removesuffix(" ago")), START_MS + self.times[self.at]
            moment = START_MS + self.times[-1] - age
            moment = moment if moment <= here else here - age
            return iso(moment) if name == "connectedSince" else moment
        return value


OWN = 9
LISTS = {"drainingHashes", "publishers", "ledgers"}


def iso(moment_ms: int) -> str:
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
