"""Keys of a Key_Shared subscription that move between consumers, by the broker's stats."""

from __future__ import annotations

from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.topic import ConsumerStats, DrainingHash, SubscriptionStats
from pulsar_doctor.broker.stats.values import Position
from pulsar_doctor.evidence.keys import Draining, KeyOrder
from pulsar_doctor.evidence.stats_moved import ConsumerWindow


def key_order_of(observed: Observed) -> KeyOrder | None:
    """How a subscription keeps the order of its keys; None if it is not Key_Shared."""
    if observed.type != "Key_Shared":
        return None
    now, cursor = observed.now, observed.cursor_now
    joined = now.consumers_after_mark_delete_position
    counts = [now.draining_hashes_count]
    counts += [each.draining_hashes_count for each in now.consumers or ()]
    done = None if cursor is None else cursor.mark_delete_position
    return KeyOrder(
        out_of_order=bool(now.allow_out_of_order_delivery),
        joined=None if joined is None else len(joined),
        draining=any(count is not None and count > 0 for count in counts),
        mark_delete=None if done is None else f"{done[0]}:{done[1]}",
        sticky=now.key_shared_mode == "STICKY",
        unowned=now.unowned_hashes,
        waits_throughout=min(
            each.msg_in_replay or 0 if each else 0 for each in observed.course.values
        ),
        advanced=observed.mark_delete_moved,
    )


def draining_of(consumer: ConsumerWindow) -> Draining | None:
    """The key hashes that wait for this consumer's acks (since 4.0); None if not reported."""
    now = consumer.now
    if now.draining_hashes is None:
        if now.draining_hashes_count is None:
            return None
        return Draining(None if now.draining_hashes_count else 0, 0, 0)
    blocking = [hash for hash in now.draining_hashes if hash.unack_msgs != 0]
    blocking = [hash for hash in blocking if hash.blocked_attempts != 0]
    return _counted(consumer, blocking) if blocking else Draining(0, 0, 0)


def _counted(consumer: ConsumerWindow, blocking: list[DrainingHash]) -> Draining:
    entries = [hash.unack_msgs for hash in blocking]
    attempts = [hash.blocked_attempts for hash in blocking]
    known = None not in entries and None not in attempts
    return Draining(
        len(blocking),
        sum(number or 0 for number in entries) if known else None,
        sum(number or 0 for number in attempts) if known else None,
        bool(consumer.course.growth(_turned_away)),
        _alone(consumer),
    )


def _alone(consumer: ConsumerWindow) -> bool:
    """Whether a hash of it drains in every sample, and in one of them nobody holds anything else.

    No message of such a hash is sent meanwhile, so that they are the same messages all the time.
    """
    own, whole = consumer.course.values, consumer.observed.course.values
    drains = [{each.hash for each in _blocking(value)} if value else set() for value in own]
    if not drains or len(own) != len(whole) or not set.intersection(*drains):
        return False
    pairs = zip(own, whole, strict=True)
    return any(mine and of_all and _holds_all(mine, of_all) for mine, of_all in pairs)


def _holds_all(own: ConsumerStats, of_all: SubscriptionStats) -> bool:
    """Whether all unacknowledged messages belong to draining hashes of it; those hold entries."""
    entries = sum(each.unack_msgs or 0 for each in _blocking(own))
    held = of_all.unacked_messages
    return held is not None and 0 < held <= entries * max(1, own.avg_messages_per_entry or 1)


def _blocking(consumer: ConsumerStats) -> list[DrainingHash]:
    hashes = consumer.draining_hashes or ()
    return [each for each in hashes if each.unack_msgs and each.blocked_attempts]


def _turned_away(consumer: ConsumerStats) -> int:
    return sum(hash.blocked_attempts or 0 for hash in consumer.draining_hashes or ())


def waits_from(consumer: ConsumerWindow) -> str | None:
    """The position at which a consumer joined; None if mark-delete has passed it, or unknown."""
    joined = consumer.observed.now.consumers_after_mark_delete_position
    written = joined.get(consumer.now.consumer_name or "") if joined else None
    position = None if written is None else _position(written)
    if position is None:
        return None
    cursor = consumer.observed.cursor_now
    done = None if cursor is None else cursor.mark_delete_position
    if done is not None and position <= done:
        return None
    if done is not None and consumer.now.last_sent_position_when_joining is None:
        ledger, entry = done  # it is a read position: mark-delete is just before it
        if position == (ledger, entry + 1):
            return None
    return written


def _position(text: str) -> Position | None:
    ledger, _, entry = text.partition(":")
    try:
        return int(ledger), int(entry)
    except ValueError:
        return None
