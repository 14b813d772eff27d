"""Documents as people post them when they ask for help: with parts left out, and of old brokers.

What is dropped is what somebody leaves out who copies from a terminal, what a broker of ten years
ago did not write, and what the totals of a partitioned topic do not keep.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from pulsar_doctor.broker.stats.followed import completed
from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.reading import internal_stats, topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import TopicStats
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.model.made_rows import SUBSCRIPTION, TOPIC
from tests.incidents.asking import CURSORS_ALONE
from tests.incidents.documents import Document
from tests.incidents.moments import Taken

Drop = Callable[[Document, Random], Document]
TIMES = frozenset(
    {
        "lastAckedTimestamp",
        "lastConsumedTimestamp",
        "lastConsumedFlowTimestamp",
        "lastMarkDeleteAdvancedTimestamp",
        "lastExpireTimestamp",
    }
)
# What brokers before 2.8, and before 2.5, did not write yet, of subscriptions and consumers.
SINCE_28 = frozenset(
    {
        "msgOutCounter", "bytesOutCounter", "messageAckRate", "avgMessagesPerEntry", "backlogSize",
        "lastConsumedFlowTimestamp", "lastMarkDeleteAdvancedTimestamp", "isDurable", "msgInReplay",
        "nonContiguousDeletedMessagesRanges", "msgBacklogNoDelayed", "drainingHashes",
        "allowOutOfOrderDelivery", "consumersAfterMarkDeletePosition", "drainingHashesCount",
        "drainingHashesUnackedMessages", "drainingHashesClearedTotal", "totalMsgExpired",
    }
)  # fmt: skip
SINCE_25 = SINCE_28 | TIMES | {"msgDelayed", "activeConsumerName"}
OF_CURSOR = (
    "markDeletePosition", "readPosition", "waitingReadOp", "pendingReadOps", "state", "active",
    "messagesConsumedCounter", "individuallyDeletedMessages", "subscriptionHavePendingRead",
    "totalNonContiguousDeletedMessagesRange", "subscriptionHavePendingReplayRead",
)  # fmt: skip
OF_TOPIC = ("msgInCounter", "msgRateIn", "msgRateOut", "storageSize", "publishers", "backlogSize")


def as_posted(stats: Document, random: Random, drop: Drop) -> Document:
    """These stats of a topic as somebody might post them. The same random, the same document."""
    told = drop(stats, random)
    if random.random() < 0.3:  # old brokers count no reads that they held back
        told = _changed(told, lambda each: _without(each, lambda n: n.startswith("dispatchThr")))
    return told


def internal_as_posted(internal: Document, random: Random) -> Document:
    """The internal stats likewise: the list of ledgers is cut short, as a rule."""
    told = dict(internal)
    if random.random() < 0.7:
        told.pop("ledgers", None)
    if random.random() < 0.3:
        told.pop("entriesAddedCounter", None)
    old = random.random() < 0.3
    if random.random() < 0.3:
        told.pop("lastConfirmedEntry", None)
    gone = {name for name in OF_CURSOR if random.random() < 0.3} if random.random() < 0.3 else set()
    told["cursors"] = {
        name: _without(
            each,
            lambda n: n in gone or (old and (n.startswith("subscriptionHave") or n == "active")),
        )
        for name, each in internal["cursors"].items()
    }
    return told


def posted(taken: Taken, random: Random) -> Observed:
    """What is read from one posting: the stats, both documents, or the internal stats alone."""
    what = random.choice(("stats", "stats", "stats", "both", "both", "internal"))
    stats: TopicStats = CURSORS_ALONE
    if what != "internal":
        drop = random.choice(DROPS)
        told = topic_stats(as_posted(taken.stats, random, drop))
        stats = told if drop is totals else completed(told)
    internal = None
    if what != "stats":
        internal = internal_stats(internal_as_posted(taken.internal, random))
    return Observed(TOPIC, None, SUBSCRIPTION, Window((Sample(None, stats, internal),)))


def _changed(stats: Document, change: Callable[[Document], Document]) -> Document:
    """With all its subscriptions changed, and their consumers."""
    found = {}
    for name, subscription in stats["subscriptions"].items():
        found[name] = change(subscription)
        if "consumers" in found[name]:
            found[name]["consumers"] = [change(each) for each in subscription["consumers"]]
    return {**stats, "subscriptions": found}


def _without(document: Document, drops: Callable[[str], bool]) -> Document:
    return {name: value for name, value in document.items() if not drops(name)}


def _whole(stats: Document, random: Random) -> Document:
    return stats


def _part_of_subscription(stats: Document, random: Random) -> Document:
    """Nothing of the topic, as from somebody who copies what seems to matter."""
    return {"subscriptions": stats["subscriptions"]}


def _no_consumers(stats: Document, random: Random) -> Document:
    subscriptions = {
        name: _without(each, lambda n: n == "consumers")
        for name, each in stats["subscriptions"].items()
    }
    return {**stats, "subscriptions": subscriptions}


def _elided(stats: Document, random: Random) -> Document:
    """Of many consumers the first ones."""
    subscriptions = {
        name: {**each, "consumers": each["consumers"][: random.choice((1, 1, 2, 3))]}
        for name, each in stats["subscriptions"].items()
    }
    return {**stats, "subscriptions": subscriptions}


def _head(stats: Document, random: Random) -> Document:
    """The numbers of the subscription alone, without its type and its consumers."""
    return _changed(stats, lambda each: _without(each, lambda n: n in ("type", "consumers")))


def _one_cut(stats: Document, random: Random) -> Document:
    """The paste ends within one of the consumers."""
    subscriptions = {}
    for name, each in stats["subscriptions"].items():
        whole = each["consumers"][: random.randrange(3)]
        cut = each["consumers"][len(whole) : len(whole) + 1]
        ends = [dict(list(one.items())[: random.randrange(3, len(one))]) for one in cut]
        subscriptions[name] = {**each, "consumers": [*whole, *ends]}
    return {**stats, "subscriptions": subscriptions}


def totals(stats: Document, random: Random) -> Document:
    """As the totals of a partitioned topic tell it: no moment is kept."""
    told = _changed(stats, lambda each: {n: 0 if n in TIMES else v for n, v in each.items()})
    return _without(told, lambda n: n in ("ownerBroker", "ongoingTxnCount"))


def _before_28(stats: Document, random: Random) -> Document:
    return _changed(stats, lambda each: _without(each, lambda n: n in SINCE_28))


def _before_25(stats: Document, random: Random) -> Document:
    return _changed(stats, lambda each: _without(each, lambda n: n in SINCE_25))


def few_fields(stats: Document, random: Random) -> Document:
    """Each field is left out at times."""
    names = sorted({*SINCE_25, "address", "clientVersion"})
    gone = {name for name in names if random.random() < 0.3}
    told = _changed(stats, lambda each: _without(each, lambda n: n in gone))
    return _without(told, lambda n: n in OF_TOPIC and random.random() < 0.5)


DROPS: tuple[Drop, ...] = (
    _whole, _part_of_subscription, _no_consumers, _elided, totals, _before_28, _before_28,
    _before_25, few_fields, few_fields, _head, _one_cut,
)  # fmt: skip
