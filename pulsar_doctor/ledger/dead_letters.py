"""Which producers send dead letters, and for which subscription.

A dead-letter policy sends what was given back too often to a topic of its own and then acknowledges
it. Three things show that, and each is the client's own doing, never an application's:

- the topic is called TOPIC-SUBSCRIPTION-DLQ, as clients call it unless they are given another name;
- the producer is called TOPIC-SUBSCRIPTION-CONSUMER-…-DLQ, whatever its topic: Java and Go (seen in
  4.0.8 and 0.17.0; older ones ask for no name, nor do C++, Python and Node);
- the producer asks for a subscription to be made with its topic. No client lets an application ask
  for that but in a policy (initialSubscriptionName), so the letters are those of the one
  subscription on its connection; where there are several, or it has a connection of its own, their
  owner is not reported.

That a SEND comes before the ACK of a message that came again shows nothing: docs/dead-letters.md
says why. Pure: it reads one row and at who is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pulsar_doctor.ledger.consumers import Connection
from pulsar_doctor.ledger.topics import split_partition
from pulsar_doctor.wire.columns import Row

SUFFIX = "-DLQ"

Attended = Iterable[tuple[str, str]]  # topics and subscriptions that somebody is attached to


def origin_of(row: Row, connection: Connection, attended: Attended) -> tuple[str, str] | None:
    """PRODUCER: the topic and subscription that its dead letters are from; None: not known."""
    name = row.producer_name or ""
    if name.endswith(SUFFIX):
        for topic, subscription in attended:
            if any(name.startswith(f"{each}-{subscription}-") for each in _names(topic)):
                return topic, subscription
    if row.initial_subscription:
        there = [(each.topic, each.subscription) for each in connection.consumers.values()]
        if len({(split_partition(topic)[0], subscription) for topic, subscription in there}) == 1:
            return there[0]
    return None


def may_be(row: Row, connection: Connection) -> bool:
    """Whether it is worth asking `of`, for each SEND: a look at two names."""
    return row.producer_id in connection.letters or (row.topic or "").endswith(SUFFIX)


def of(row: Row, connection: Connection, attended: Attended) -> list[tuple[str, str]]:
    """SEND: which partitions its dead letter may be from; [] where it is none."""
    if (row.topic or "").endswith(SUFFIX):
        named = list(_by_topic(row, attended))
        if named:
            return named
    by_producer = connection.letters.get(row.producer_id or 0)
    return [by_producer] if by_producer is not None else []


def _by_topic(row: Row, attended: Attended) -> Iterator[tuple[str, str]]:
    for topic, subscription in attended:
        if row.topic in {f"{name}-{subscription}{SUFFIX}" for name in _names(topic)}:
            yield topic, subscription


def _names(topic: str) -> set[str]:
    """A topic as it is, and without its partition."""
    return {topic, split_partition(topic)[0]}
