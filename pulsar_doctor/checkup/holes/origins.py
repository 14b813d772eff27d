"""Which of four causes the holes of a subscription have, as far as the broker reports it.

The broker does not tell of a single entry why it is not acknowledged. It tells how many entries are
delayed, how many wait to be sent again, and how many messages are delivered and unacknowledged;
each of these was read before. So an entry in a hole before the read position is one of them, and
an entry at or behind the read position is none: it has not been sent since a load or since the last
consumer left. With the numbers of one moment, each origin has between `least` and `most` of the
holes' entries: least where all the others lie in holes too, most where none of them does.

- Exclusive and Failover hold no message back: a hole there comes from acknowledging one by one
  (`individual`). Markers of a replicated subscription are acknowledged by the broker itself, and
  may be the ranges.
- Shared and Key_Shared: delayed entries (`delayed`), and entries that are delivered or were given
  back (`unacked`).
- Key_Shared keeps the order of a key: while a consumer is full or a key moves to another one, later
  entries of that key wait in replay and the others pass (`key-shared`). Seen by entries in replay,
  by hashes that drain, or by a consumer without permits beside one that has some. Where one
  consumer holds nearly all and nothing else is seen, a slow key and an acknowledgement that was
  forgotten look alike.

Source: PersistentDispatcherMultipleConsumers, PersistentStickyKeyDispatcherMultipleConsumers,
InMemoryDelayedDeliveryTracker in the broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pulsar_doctor.broker.stats.cursors import owner_of
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.broker.stats.topic import ConsumerStats
from pulsar_doctor.evidence.account import Account
from pulsar_doctor.evidence.subscription import replay_waits

UNACKED, DELAYED, KEY_SHARED, INDIVIDUAL = "unacked", "delayed", "key-shared", "individual-acks"
BROKER, CANNOT_TELL = "broker", "cannot-tell"
CONCENTRATED = 0.8  # of what is unacknowledged, with one consumer

PRACTICE = {
    UNACKED: (
        "Find the consumer that holds them and let it acknowledge every message, or give it back "
        "(negative acknowledgement, ack timeout, dead-letter topic). Handle a message so that a "
        "second delivery does no harm."
    ),
    DELAYED: (
        "Give delayed messages a topic of their own, or publish them with ascending delivery "
        "times, so that acknowledgements come in order. Handle a message so that a second delivery "
        "does no harm."
    ),
    KEY_SHARED: (
        "Use finer keys or more partitions, so that a slow key holds back its own ledgers only, "
        "and a small receiver queue. Handle a message so that a second delivery does no harm."
    ),
    INDIVIDUAL: (
        "Acknowledge cumulatively: one consumer reads everything in order, and one position then "
        "says it all. Where messages are handled side by side, acknowledge up to the last one "
        "before the first that is open."
    ),
    BROKER: "Nothing to do: the broker keeps this cursor for itself.",
    CANNOT_TELL: (
        "Check again while consumers are connected and reading, or give a trace of the wire "
        "(--trace)."
    ),
}


@dataclass(frozen=True, slots=True)
class Origin:
    """One origin that fits."""

    code: str
    least: int  # entries in holes that it explains, at least
    most: int  # at most
    because: str  # one sentence with the numbers behind it

    @property
    def practice(self) -> str:
        """What helps."""
        return PRACTICE[self.code]


def origins(observed: Observed, messages: Account, read: int, unread: int) -> tuple[Origin, ...]:
    """The origins that fit, the likeliest first; none where there are no holes.

    messages: where all those of the subscription are. read, unread: entries in holes before the
    read position, and at or behind it.
    """
    entries = read + unread
    if not entries:
        return ()
    if owner_of(observed.subscription, topic=observed.topic).is_broker:
        return (Origin(BROKER, entries, entries, "a cursor of the broker's own"),)
    found = [each for each in _of_type(observed, messages, read) if each.most > 0]
    explained = min(read, sum(each.most for each in found))
    if unread:
        because = "not sent since the topic was loaded or the last consumer left"
        found.append(Origin(CANNOT_TELL, unread, unread, because))
    if explained < read:
        rest = read - explained
        found.append(Origin(CANNOT_TELL, rest, rest, _unexplained(observed)))
    return tuple(sorted(found, key=lambda each: (-each.least, -each.most)))


def _unexplained(observed: Observed) -> str:
    if observed.now.type is None:
        return "the subscription's type is not reported"
    if observed.now.consumers == ():
        return "nobody is connected: what was sent has gone back and is read again by the next"
    return "read before, and in none of the counts"


def main_origin(found: tuple[Origin, ...]) -> str | None:
    """The one that surely has the most entries; `cannot-tell` where none surely has any."""
    if not found:
        return None
    return found[0].code if found[0].least > 0 else CANNOT_TELL


def _of_type(observed: Observed, messages: Account, read: int) -> Iterator[Origin]:
    if observed.type is None:
        return
    if observed.type in SINGLE_ACTIVE:
        yield from _one_by_one(observed, read)
        return
    delayed, held = messages.entries_in("delayed").exact, messages.entries_in("held").most
    if delayed is None or held is None:
        text = "delayed messages are" if delayed is None else "unacknowledged messages are"
        yield Origin(CANNOT_TELL, read, read, f"how many {text} is not reported")
        return
    waiting = messages.entries_in("replay").most
    out = read if waiting is None else held + waiting
    yield Origin(
        DELAYED, max(0, read - out), min(read, delayed), f"{delayed} delayed entries are not due"
    )
    yield from _out(observed, max(0, read - delayed), min(read, out))


def _one_by_one(observed: Observed, read: int) -> Iterator[Origin]:
    if observed.now.is_replicated:
        because = "on a replicated subscription the broker's own markers leave ranges, too"
        yield Origin(CANNOT_TELL, read, read, because)
        return
    because = f"{observed.type} sends everything in order, and single entries were acknowledged"
    yield Origin(INDIVIDUAL, read, read, because)


def _out(observed: Observed, least: int, most: int) -> Iterator[Origin]:
    """Origins of entries that were sent and not acknowledged, or wait to be sent again."""
    unacked, waiting = observed.now.unacked_messages, observed.now.msg_in_replay or 0
    wait = f"{waiting} entries waiting {replay_waits(observed.type)}"
    numbers = f"{unacked} messages delivered and unacknowledged, {wait}"
    if observed.type != "Key_Shared":
        yield Origin(UNACKED, least, most, numbers)
        return
    evidence = _key_evidence(observed)
    if evidence is not None:
        yield Origin(KEY_SHARED, least, most, f"{evidence}; {numbers}")
    elif _concentrated(observed):
        alike = "one consumer holds nearly all of them: a slow key, or acks that it forgot"
        yield Origin(UNACKED, 0, most, f"{alike}; {numbers}")
        yield Origin(KEY_SHARED, 0, most, f"{alike}; {numbers}")
    else:
        yield Origin(UNACKED, least, most, numbers)


def _key_evidence(observed: Observed) -> str | None:
    """What shows that entries wait for the order of their key; None where nothing does."""
    consumers = _consumers(observed)
    if len(consumers) < 2:
        return None
    draining = observed.now.draining_hashes_count or 0
    if draining:
        return f"{draining} hashes wait for an earlier consumer's acks"
    full = [c for c in consumers if _is_full(c)]
    if full and len(full) < len(consumers):
        what = f"{len(full)} of {len(consumers)} consumers cannot receive any more"
        return f"{what} while others wait for work"
    if observed.now.msg_in_replay and _concentrated(observed):
        return "entries of some keys wait to be sent while others pass"
    return None


def _is_full(consumer: ConsumerStats) -> bool:
    permits, unacked = consumer.available_permits, consumer.unacked_messages
    return permits is not None and permits <= 0 and bool(unacked)


def _concentrated(observed: Observed) -> bool:
    """Whether one of several consumers holds nearly all that is unacknowledged."""
    held = [max(0, each.unacked_messages or 0) for each in _consumers(observed)]
    return len(held) > 1 and sum(held) > 0 and max(held) >= CONCENTRATED * sum(held)


def _consumers(observed: Observed) -> list[ConsumerStats]:
    newest = (course.values[-1] for course in observed.consumers)
    return [consumer for consumer in newest if consumer is not None]
