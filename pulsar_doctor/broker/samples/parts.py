"""Reads parts of a broker's answer: a subscription, its consumers, or a cursor.

A part is known by the fields that only it has. Without a name it is `UNNAMED_PART`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pulsar_doctor.broker.samples.files import (
    CURSOR_FIELDS,
    INTERNAL_FIELDS,
    SUBSCRIPTION_FIELDS,
    by_topic,
)
from pulsar_doctor.broker.samples.mending import CONSUMERS, UNTOLD
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats, TopicStats
from pulsar_doctor.errors import InputError

UNNAMED_PART = "unknown"
SUBSCRIPTIONS, CURSORS = "subscriptions", "cursors"
OF_TOPIC = frozenset({SUBSCRIPTIONS, "publishers", "replication", "partitions"})
OF_SUBSCRIPTION = SUBSCRIPTION_FIELDS | {
    "blockedSubscriptionOnUnackedMsgs",
    "activeConsumerName",
    "msgDelayed",
}
OF_CONSUMER = frozenset(
    {"availablePermits", "consumerName", "blockedConsumerOnUnackedMsgs", "avgMessagesPerEntry"}
)
BY_ELEMENT = {
    CONSUMERS: OF_CONSUMER,
    "publishers": frozenset({"producerName", "producerId"}),
    "ledgers": frozenset({"ledgerId"}),
}

# What a broker writes as a text; consoles of vendors write numbers so, too.
TEXTS = frozenset(
    re.sub("_([a-z])", lambda letter: letter[1].upper(), each.name)
    for kind in (ConsumerStats, SubscriptionStats, TopicStats)
    for each in fields(kind)
    if str(each.type).startswith("str")
)
AS_TEXTS = re.compile(
    rb'"(?:msgBacklog|availablePermits|unackedMessages|msg(?:In|Out)Counter)"\s{0,20}:\s{0,20}"-?[0-9]'
)
NUMBER = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,20})?")


def with_numbers(part: Any) -> Any:
    """An answer whose numbers are texts, with numbers in all fields that are no texts."""
    if isinstance(part, list):
        return [with_numbers(each) for each in part]
    if not isinstance(part, Mapping):
        return part
    return {
        name: _number(value)
        if name not in TEXTS and isinstance(value, str) and NUMBER.fullmatch(value)
        else with_numbers(value)
        for name, value in part.items()
    }


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def is_consumer(part: Any) -> bool:
    """Whether it is the object of one consumer."""
    return _has(part, OF_CONSUMER) and not _has(part, OF_TOPIC | {CONSUMERS, "msgBacklog"})


def is_subscription(part: Any) -> bool:
    """Whether it is the object of one subscription."""
    return _has(part, OF_SUBSCRIPTION) and not _has(part, OF_TOPIC) and not is_consumer(part)


def is_cursor(part: Any) -> bool:
    """Whether it is the object of one cursor."""
    return _has(part, CURSOR_FIELDS) and not _has(part, INTERNAL_FIELDS)


def is_internal(part: Any, levels: int = 3) -> bool:
    """Whether it is of a topic's ledgers and cursors, or a part of that.

    levels: as deep as that may stand: under `partitions` and the name of one.
    """
    if (
        levels == 0
        or not isinstance(part, Mapping)
        or _has(part, OF_TOPIC - {"partitions"} | {"msgRateIn"})
    ):
        return False
    if _has(part, INTERNAL_FIELDS | CURSOR_FIELDS):
        return True
    return any(is_internal(one, levels - 1) for one in part.values() if isinstance(one, Mapping))


def answers_of(document: Any) -> tuple[list[Any], Any | None]:
    """Stats, and internal stats, of a document that is a list of answers, or one of them."""
    if not isinstance(document, list) or are_consumers(document):
        return ([], document) if is_internal(document) else ([document], None)
    internal = [one for one in document if is_internal(one)]
    stats = [one for one in document if not is_internal(one)]
    if len(internal) > 1:
        raise InputError(f"it is a list of {len(internal)} answers of stats-internal; give one")
    return stats, internal[0] if internal else None


def are_consumers(part: Any) -> bool:
    """Whether it is a list of consumers."""
    return isinstance(part, list) and any(map(is_consumer, part))


def stats_around(part: Any) -> Any:
    """A topic's stats with this part in it; whatever is none of these parts as it is.

    Those of a list of consumers, or one alone, need not be all.
    """
    if are_consumers(part):
        consumers = part if UNTOLD in part else [*part, UNTOLD]
        return stats_around({CONSUMERS: consumers})
    if is_consumer(part):
        return stats_around([part])
    if is_subscription(part) and not by_topic(part):
        return {SUBSCRIPTIONS: {UNNAMED_PART: part}}
    return part


def internal_around(part: Any) -> Any:
    """Internal stats with this cursor in it; whatever is none as it is."""
    return {CURSORS: {UNNAMED_PART: part}} if is_cursor(part) else part


def name_of(part: Any) -> str | None:
    """What the field is called that holds this; None where nothing tells it."""
    if isinstance(part, list):
        named = (
            name for name, fields in BY_ELEMENT.items() if any(_has(each, fields) for each in part)
        )
        return next(named, None)
    if is_subscription(part) or is_cursor(part):
        return UNNAMED_PART
    if isinstance(part, Mapping) and any(map(is_subscription, part.values())):
        return SUBSCRIPTIONS
    if isinstance(part, Mapping) and any(map(is_cursor, part.values())):
        return CURSORS
    return None


def tells_something(document: Any) -> bool:
    """Whether it is an answer of a broker about a topic, or a part of one."""
    if are_consumers(document) or is_consumer(document) or is_subscription(document):
        return True
    if _has(document, OF_TOPIC | CURSOR_FIELDS | INTERNAL_FIELDS | {"msgRateIn"}):
        return True
    each = document.values() if isinstance(document, Mapping) else document
    if not isinstance(document, Mapping | list):
        return False
    return any(tells_something(one) for one in each if isinstance(one, Mapping | list))


def _has(part: Any, fields: frozenset[str]) -> bool:
    return isinstance(part, Mapping) and bool(part.keys() & fields)
