"""Reads a broker's metrics, the text that Prometheus scrapes, as statistics of topics.

They become documents as `topics stats` writes them, so that both are judged by the same values.
Metrics report less, and a value that they do not report is left out:

- no type of a subscription, no address and no name of a client's version;
- consumers one by one only with exposeConsumerLevelMetricsInPrometheus, otherwise how many;
- unacknowledged messages of a subscription as 0 also where nothing counts them (Exclusive and
  Failover): a 0 is reported only where no consumer is there;
- no acknowledged ranges. A backlog of 0 is wrong where some remain. Then the last acknowledgement
  is newer than the last move of mark-delete, or, behind a seek, the topic has a backlog in bytes
  that no subscription accounts for: such a 0 is not reported.

Brokers do not escape a backslash in a name, which prometheus_client's parser refuses with the whole
text. Here a line that cannot be read is counted and left out.

Source: TopicStats and AggregatedSubscriptionStats of pulsar-broker, PrometheusTextFormat.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pulsar_doctor.broker.stats.bounds import LEAST, MOST
from pulsar_doctor.errors import InputError

ACKED, MARK_DELETED = "lastAckedTimestamp", "lastMarkDeleteAdvancedTimestamp"
MOMENTS = ("lastConsumedTimestamp", ACKED, "lastConsumedFlowTimestamp")
NAMES_MOST = 200_000  # topics, subscriptions and consumers of one broker
SCRAPES_MOST = 1_000
COUNT = "count"  # of subscriptions of a topic, of consumers of a subscription
OF_TOPIC = {
    "rate_in": "msgRateIn",
    "throughput_in": "msgThroughputIn",
    "in_messages_total": "msgInCounter",
    "in_bytes_total": "bytesInCounter",
    "storage_size": "storageSize",
    "storage_backlog_size": "backlogSize",
    "storage_backlog_quota_limit": "backlogQuotaLimitSize",
    "storage_backlog_quota_limit_time": "backlogQuotaLimitTime",
    "txn_tb_active_total": "ongoingTxnCount",
    "subscriptions_count": COUNT,
}
OF_SUBSCRIPTION = {  # the first ones are called as in statistics
    f"subscription_{name}": re.sub("_(.)", lambda letter: letter[1].upper(), name)
    for name in (
        "unacked_messages", "last_consumed_timestamp", "last_acked_timestamp",
        "last_consumed_flow_timestamp", "last_mark_delete_advanced_timestamp",
        "last_expire_timestamp", "total_msg_expired", "msg_rate_out", "msg_rate_redeliver",
        "msg_rate_expired", "msg_drop_rate", "filter_processed_msg_count",
        "filter_accepted_msg_count", "filter_rejected_msg_count", "filter_rescheduled_msg_count",
    )
} | {
    "subscription_back_log": "msgBacklog",
    "subscription_delayed": "msgDelayed",
    "subscription_in_replay": "msgInReplay",
    "subscription_blocked_on_unacked_messages": "blockedSubscriptionOnUnackedMsgs",
    "subscription_consumers_count": COUNT,
    "subscription_msg_ack_rate": "messageAckRate",
    "out_messages_total": "msgOutCounter",
    "out_bytes_total": "bytesOutCounter",
} | {
    f"subscription_dispatch_throttled_{what}_events/{by}": f"dispatchThrottled{key}EventsBy{limit}"
    for what, key in (("msg", "Msg"), ("bytes", "Bytes"))
    for by, limit in (("subscription", "SubscriptionLimit"), ("topic", "TopicLimit"),
                      ("broker", "BrokerLimit"))
}  # fmt: skip
OF_CONSUMER = {
    "consumer_available_permits": "availablePermits",
    "consumer_unacked_messages": "unackedMessages",
    "consumer_blocked_on_unacked_messages": "blockedConsumerOnUnackedMsgs",
    "consumer_msg_rate_out": "msgRateOut",
    "consumer_msg_ack_rate": "messageAckRate",
    "consumer_out_messages_total": "msgOutCounter",
    "out_messages_total": "msgOutCounter",
    "out_bytes_total": "bytesOutCounter",
}
NAMES = frozenset(
    name.partition("/")[0].encode()
    for table in (OF_TOPIC, OF_SUBSCRIPTION, OF_CONSUMER)
    for name in table
)
FLAGS = frozenset({"blockedSubscriptionOnUnackedMsgs", "blockedConsumerOnUnackedMsgs", "connected"})
LINE = re.compile(
    rb"^pulsar_(\w{1,80})\{([^\n]*)\}[ \t]+([^ \t\r\n}]{1,40})(?:[ \t]+-?[0-9]{1,20})?[ \t]*\r?$",
    re.MULTILINE,
)
LABEL = re.compile(r'(\w{1,60})="((?:[^"\\]|\\.)*)"(?:,|$)')
ESCAPED = re.compile(r'\\(["\\])')


class MetricPlace(NamedTuple):
    """What a line is about, by its labels; all None: the topic itself."""

    subscription: str | None = None
    consumer: tuple[str, str] | None = None  # its name and its number


Reported = dict[str, float | None]  # by the names that statistics have; None: contradictory
Places = dict[MetricPlace, Reported]


@dataclass(slots=True)
class MetricsReader:
    """The scrapes that a text holds, one after the other. Changes in place.

    Raises InputError where it is more than a broker has.
    """

    only: bytes = b""  # the labels must have
    scrapes: list[dict[str, Places]] = field(default_factory=lambda: [{}])  # by topic
    names: int = 0  # topics, subscriptions and consumers
    lines: int = 0  # that are of a broker's metrics
    unread: int = 0  # of these
    _last: str = ""  # the name in the line before

    def feed(self, lines: bytes) -> None:
        """Takes whole lines."""
        for match in LINE.finditer(lines):
            self.lines += 1
            name, labels, number = match.groups()
            if name in NAMES and self.only in labels:
                self._take(name.decode(), labels.decode("utf-8", "replace"), number)

    def _take(self, name: str, written: str, number: bytes) -> None:
        labels = labels_in(written)
        if labels is None:
            self.unread += 1
        elif "topic" in labels:
            topic, partition = labels["topic"], labels.get("partition", "-1")
            if partition.isdecimal():  # splitTopicAndPartitionLabelInPrometheus
                topic = f"{topic}-partition-{int(partition[:9])}"
            place = _place(labels)
            reason = labels.get("reason")
            key = _table(place).get(name if reason is None else f"{name}/{reason}")
            if key is not None:
                self._put(name, topic, place, key, value_of(number))
                self._last = name

    def _put(
        self, name: str, topic: str, place: MetricPlace, key: str, value: float | None
    ) -> None:
        """A value that comes again begins the next scrape, unless the line before had its name."""
        values = self._values(topic, place)
        if key in values and name != self._last:
            if len(self.scrapes) == SCRAPES_MOST:
                raise InputError(f"there are more than {SCRAPES_MOST:,} scrapes; give fewer")
            self.scrapes.append({})
            values = self._values(topic, place)
        values[key] = value if values.get(key, value) == value else None

    def _values(self, topic: str, place: MetricPlace) -> Reported:
        topics = self.scrapes[-1]
        self.names += topic not in topics
        places = topics.setdefault(topic, {})
        self.names += place not in places
        if self.names > NAMES_MOST * len(self.scrapes):
            raise InputError("more topics are named than a broker has")
        return places.setdefault(place, {})


def labels_in(written: str) -> dict[str, str] | None:
    """The labels of a line; None where they are not written as they should be."""
    found, at = {}, 0
    while (label := LABEL.match(written, at)) is not None:
        found[label[1]], at = ESCAPED.sub(r"\1", label[2]), label.end()
    return found if at == len(written) else None


def _place(labels: Mapping[str, str]) -> MetricPlace:
    name = labels.get("consumer_name")
    consumer = None if name is None else (name, labels.get("consumer_id", ""))
    return MetricPlace(labels.get("subscription"), consumer)


def _table(place: MetricPlace) -> Mapping[str, str]:
    if place.consumer is not None:
        return OF_CONSUMER
    return OF_TOPIC if place.subscription is None else OF_SUBSCRIPTION


def value_of(text: bytes) -> float | None:
    """A value; None where it is no number that a broker can count to."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and LEAST <= value < MOST else None


def document(topic: str, places: Places) -> dict[str, Any]:
    """The statistics of one topic, as `topics stats` would write them."""
    stats = _written(places.get(MetricPlace(), {}))
    consumers: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for place, values in places.items():
        if place.consumer is not None:
            name, number = place.consumer
            one = {"consumerName": name, "consumerId": number, **_written(values)}
            consumers[place.subscription].append(one)
    stats["subscriptions"] = subscriptions = {
        place.subscription: _subscription(values, consumers[place.subscription])
        for place, values in places.items()
        if place.subscription is not None and place.consumer is None
    }
    _take_out_what_counts_nothing(topic, stats, subscriptions.values())
    return stats


def missing(places: Places) -> int:
    """How many subscriptions a topic has, by its own count, that no line is about."""
    count = places.get(MetricPlace(), {}).get(COUNT) or 0
    there = {place.subscription for place in places} - {None}
    return max(0, int(count) - len(there))


def _subscription(values: Reported, consumers: list[dict[str, Any]]) -> dict[str, Any]:
    """With its consumers, if each is reported."""
    written, count = _written(values), values.get(COUNT)
    if count and not written.get("unackedMessages"):
        for each in (written, *consumers):
            each.pop("unackedMessages", None)
    if count == len(consumers):
        written["consumers"] = consumers
    if len(consumers) == 1 and consumers[0].get("msgOutCounter") == written.get("msgOutCounter"):
        # Nobody else was sent anything since the topic was loaded.
        consumers[0] |= {moment: written[moment] for moment in MOMENTS if moment in written}
    return written


def _take_out_what_counts_nothing(
    topic: str, stats: Mapping[str, Any], subscriptions: Collection[dict[str, Any]]
) -> None:
    """A rate of what is dropped, which only a topic that stores nothing has; a 0 that is wrong."""
    behind = stats.get("backlogSize") != 0 and not any(
        each.get("msgBacklog") for each in subscriptions
    )
    for each in subscriptions:
        if not topic.startswith("non-persistent://"):
            each.pop("msgDropRate", None)
            if each.get("msgBacklog") == 0 and (behind or _ranges_remain(each)):
                del each["msgBacklog"]


def _ranges_remain(subscription: Mapping[str, Any]) -> bool:
    acked, moved = subscription.get(ACKED), subscription.get(MARK_DELETED)
    return acked is None or moved is None or acked > moved


def _written(values: Reported) -> dict[str, Any]:
    """Whole numbers without a point, and flags."""
    return dict(_each(values))


def _each(values: Reported) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if value is not None and key != COUNT:
            yield key, bool(value) if key in FLAGS else int(value) if value.is_integer() else value
