"""What the broker of an incident would tell: `topics stats` and `topics stats-internal`.

Fields are those of 4.0.8 that anything reads; older versions lack some (see LACKS).
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from pulsar_doctor.model.made_rows import SUBSCRIPTION, TYPES
from tests.incidents.broker import Attached, Broker
from tests.incidents.playing import START_US, VERSIONS, Play, wall_us
from tests.incidents.script import SECOND

DRAINING = {"drainingHashesCount", "drainingHashesUnackedMessages", "drainingHashesClearedTotal"}
THROTTLED = {
    f"dispatchThrottled{what}EventsBy{whose}Limit"
    for what in ("Msg", "Bytes")
    for whose in ("Subscription", "Topic", "Broker")
}
# What brokers of these versions do not write, of the topic, subscription, consumer and cursor.
LACKS: dict[str, tuple[set[str], set[str], set[str], set[str]]] = {
    "4.0.8": (set(), set(), set(), set()),
    "3.3.5": (set(), DRAINING | THROTTLED, DRAINING | {"drainingHashes"}, set()),
    "2.11.0": (
        {"ongoingTxnCount", "ownerBroker"},
        DRAINING | THROTTLED | {"msgInReplay"},
        DRAINING | {"drainingHashes"},
        {"active"},
    ),
}
MINUTE = 60 * SECOND

Document = dict[str, Any]


def stats(play: Play) -> Document:
    """The stats of the topic at this moment."""
    broker = play.broker
    size = 50 * sum(entry.messages for entry in broker.published[broker.mark_delete + 1 :])
    return {
        "msgInCounter": broker.published_messages,
        "bytesInCounter": 50 * broker.published_messages,
        "msgOutCounter": broker.out,
        "bytesOutCounter": broker.bytes_out,
        "storageSize": size,
        "backlogSize": size,
        "msgChunkPublished": False,
        "msgRateIn": _rate_in(broker),
        "msgRateOut": sum(_rate(c.sent, broker.now_ns) for c in broker.living),
        "ongoingTxnCount": 0,
        "waitingPublishers": 0,
        "publishers": [_publisher()],
        "ownerBroker": "broker-1:8080",
        "subscriptions": {SUBSCRIPTION: _subscription(play, size)},
    }


def _publisher() -> Document:
    return {
        "producerName": "producer",
        "accessMode": "Shared",
        "address": "/10.0.0.9:6000",
        "connectedSince": iso(0),
        "clientVersion": VERSIONS["java"],
    }


def _subscription(play: Play, size: int) -> Document:
    broker = play.broker
    living = broker.living
    told: Document = {
        "type": TYPES[broker.type] if broker.consumers else "None",
        "isDurable": True,
        "isReplicated": False,
        "allowOutOfOrderDelivery": False,
        "consumersAfterMarkDeletePosition": {},
        "msgBacklog": broker.backlog + broker.drift,
        "msgBacklogNoDelayed": broker.backlog + broker.drift - broker.read_delayed,
        "msgDelayed": broker.read_delayed,
        "msgInReplay": broker.replay,
        "backlogSize": size,
        "unackedMessages": broker.unacked,
        "blockedSubscriptionOnUnackedMsgs": broker.blocked,
        "msgOutCounter": broker.out,
        "bytesOutCounter": broker.bytes_out,
        "msgRateOut": sum(_rate(c.sent, broker.now_ns) for c in living),
        "messageAckRate": sum(_rate(c.acks, broker.now_ns) for c in living),
        "msgRateRedeliver": sum((_redelivers(play, c) for c in living), 0.0),
        "msgRateExpired": 0.0,
        "totalMsgExpired": 0,
        "lastExpireTimestamp": 0,
        "lastAckedTimestamp": _moment(broker.last_acked_ns),
        "lastConsumedTimestamp": _moment(broker.last_consumed_ns),
        "lastConsumedFlowTimestamp": _moment(broker.last_flow_ns),
        "lastMarkDeleteAdvancedTimestamp": _moment(broker.advanced_ns),
        "nonContiguousDeletedMessagesRanges": len(_ranges(broker)),
        "drainingHashesCount": 0,
        "drainingHashesUnackedMessages": 0,
        "drainingHashesClearedTotal": 0,
        **dict.fromkeys(sorted(THROTTLED), 0),
        "dispatchThrottledMsgEventsBySubscriptionLimit": len(broker.throttled),
        "consumers": [_consumer(play, consumer) for consumer in living],
    }
    chosen = broker.consumers if broker.fault.keeps_active else living
    active = [c.name for c in chosen if broker.dispatcher.active(c.index)]
    if broker.type == "failover" and active:
        told["activeConsumerName"] = active[0]
    drained = [each["drainingHashesCount"] for each in told["consumers"]]
    told["drainingHashesCount"] = sum(drained)
    return told


def _consumer(play: Play, told: Attached) -> Document:
    broker, app = play.broker, play.apps[told.index]
    hashes = _draining(told, broker) if broker.type == "key_shared" else []
    return {
        "consumerName": told.name,
        "address": f"/10.0.0.7:{5000 + told.index}",
        "connectedSince": iso(told.since_ns),
        "clientVersion": VERSIONS[app.worker.client],
        "availablePermits": told.permits,
        "unackedMessages": told.unacked,
        "blockedConsumerOnUnackedMsgs": told.blocked,
        "msgOutCounter": told.out,
        "bytesOutCounter": told.bytes_out,
        "avgMessagesPerEntry": round(told.out / told.entries_out) if told.entries_out else 0,
        "msgRateOut": _rate(told.sent, broker.now_ns),
        "messageAckRate": _rate(told.acks, broker.now_ns),
        "msgRateRedeliver": _redelivers(play, told),
        "lastAckedTimestamp": _moment(told.last_acked_ns),
        "lastConsumedTimestamp": _moment(told.last_consumed_ns),
        "lastConsumedFlowTimestamp": _moment(told.last_flow_ns),
        "drainingHashes": hashes,
        "drainingHashesCount": len(hashes),
        "drainingHashesUnackedMessages": sum(each["unackMsgs"] for each in hashes),
        "drainingHashesClearedTotal": 0,
    }


def _draining(told: Attached, broker: Broker) -> list[Document]:
    """Keys that are no longer its own, of which it still holds something."""
    held: dict[int, int] = {}
    for hold in told.held.values():
        key = hold.entry.key
        if broker.owner(key) is not told:
            held[key] = held.get(key, 0) + 1
    return [
        {"hash": key, "unackMsgs": n, "blockedAttempts": broker.turned_away.get(key, 0)}
        for key, n in held.items()
    ]


def internal(play: Play) -> Document:
    """The internal stats of the topic at the same moment."""
    broker = play.broker
    added, hungry = len(broker.published), any(broker.usable(c) > 0 for c in broker.living)
    waits = pending = hungry and broker.read >= added
    if broker.stuck:
        waits = broker.fault.face == "asleep"
        pending = broker.fault.face != "none"
    ranges = _ranges(broker)
    return {
        "entriesAddedCounter": added,
        "numberOfEntries": added,
        "totalSize": 50 * broker.published_messages,
        "waitingCursorsCount": int(waits),
        "pendingAddEntriesCount": 0,
        "lastConfirmedEntry": f"0:{added - 1}",
        "state": "LedgerOpened",
        "ledgers": [{"ledgerId": 0, "entries": 0, "size": 0, "offloaded": False}],
        "cursors": {
            SUBSCRIPTION: {
                "markDeletePosition": f"0:{broker.mark_delete}",
                "readPosition": f"0:{broker.read}",
                "waitingReadOp": waits,
                "pendingReadOps": 0,
                "messagesConsumedCounter": broker.acked_entries - broker.drift,
                "individuallyDeletedMessages": _written(ranges),
                "totalNonContiguousDeletedMessagesRange": len(ranges),
                "subscriptionHavePendingRead": pending,
                "subscriptionHavePendingReplayRead": False,
                "state": "Open",
                "active": True,
            }
        },
    }


def of_version(document: Document, version: str) -> Document:
    """The stats as a broker of that version would have written them."""
    of_topic, of_subscription, of_consumer, _ = LACKS[version]
    told = _without(document, of_topic)
    for name, subscription in told["subscriptions"].items():
        lean = _without(subscription, of_subscription)
        lean["consumers"] = [_without(each, of_consumer) for each in subscription["consumers"]]
        told["subscriptions"] = {name: lean}
    return told


def _without(document: Document, names: set[str]) -> Document:
    return {name: value for name, value in document.items() if name not in names}


def _ranges(broker: Broker) -> list[tuple[int, int]]:
    """Acknowledged entries behind mark-delete: first and last of each run."""
    numbers = enumerate(sorted(broker.acked))
    runs = [[number for _, number in run] for _, run in groupby(numbers, lambda at: at[1] - at[0])]
    return [(run[0], run[-1]) for run in runs]


def _written(ranges: list[tuple[int, int]]) -> str:
    return f"[{','.join(f'(0:{first - 1}..0:{last}]' for first, last in ranges)}]"


def _rate(log: list[tuple[int, int]], now_ns: int) -> float:
    """Messages each second, as the broker refreshed it at the last full minute."""
    tick = now_ns // MINUTE * MINUTE
    first, last = bisect_right(log, (tick - MINUTE, 1 << 60)), bisect_right(log, (tick, 1 << 60))
    return sum(messages for _, messages in log[first:last]) / 60


def _redelivers(play: Play, told: Attached) -> float:
    return _rate(told.back, play.broker.now_ns) if play.script.redelivers else 0.0


def _rate_in(broker: Broker) -> float:
    log = [(entry.arrives_ns, entry.messages) for entry in broker.published]
    return _rate(log, broker.now_ns)


def _moment(at_ns: int | None) -> int:
    return 0 if at_ns is None else wall_us(at_ns) // 1000


def iso(at_ns: int) -> str:
    """As a broker writes `connectedSince`."""
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=START_US + at_ns // 1000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
