"""Entries of a Key_Shared subscription that wait for the consumers of their keys.

The dispatcher reads an entry, and puts it into the replay queue where the consumer of the key
cannot be sent any: it has no permits, or nobody has the key. No other consumer ever gets it.
Where consumers choose their ranges of hashes themselves, no consumer may have some of them.

Source: PersistentStickyKeyDispatcherMultipleConsumers (filterAndGroupEntriesForDispatching);
HashRangeExclusiveStickyKeyConsumerSelector, `keyHashRangeArrays` of each consumer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.values import HashRange
from pulsar_doctor.diagnosis.actions.activity import activity_of
from pulsar_doctor.diagnosis.answers import Answers, Finding, Unknown
from pulsar_doctor.diagnosis.holder_laws import sent_in_silence
from pulsar_doctor.diagnosis.thresholds import Limits
from pulsar_doctor.evidence.ack_wait import AckWait
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.keys import KeyOrder
from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.evidence.values import exact, least, most
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import joined, say

TOGETHER_SECONDS = 1.0  # between a consumer's connection and its first messages
UNCOVERED = (
    "Start the consumers of the missing ranges, so that all hashes from 0 to 65,535 have one, or "
    "let the broker split the ranges (KeySharedPolicy.autoSplitHashRange)."
)


def kept_for_keys(view: SubscriptionView) -> int:
    """Entries that wait so in every sample, at least; 0 where they may wait for something else.

    A key that moves, an earlier position and a limit of the rate keep entries there, too.
    """
    keys, throttled = view.key_order, view.throttling is not None and view.throttling.lately
    if keys is None or keys.draining or keys.joined or throttled:
        return 0
    return keys.waits_throughout


def never_sent(view: SubscriptionView) -> bool:
    """Whether all of the backlog that no consumer holds waits so, and no ack is missing."""
    kept, backlog = kept_for_keys(view), view.backlog.entries if view.backlog else None
    return kept > 0 and backlog is not None and kept + (most(view.unacked) or 0) >= backlog


def kept_long(view: SubscriptionView, seconds: float) -> bool:
    """Whether it was so in several samples, or the oldest entry waits for so long.

    In one sample an entry that was given back waits for a moment, too.
    """
    oldest = view.since_mark_delete
    return bool(view.watched) or (oldest is not None and oldest.seconds >= seconds)


def may_receive(view: SubscriptionView, but: ConsumerView | None = None) -> bool:
    """Whether all consumers but that one could be sent messages in every sample."""
    others = [each for each in view.served if each is not but]
    return bool(others) and all(each.may_receive_throughout for each in others)


def between_deliveries(view: SubscriptionView, consumer: ConsumerView, wait: AckWait) -> AckWait:
    """With its silence since its last ack, where it is sent messages of its own keys meanwhile.

    It has held what is waited for since before the last consumer joined, and for no longer than it
    took to send all that it holds at the pace of now; without permits, since it worked, where about
    as many as it holds came since.
    """
    quiet, held, rate = wait.acks.quiet, exact(consumer.unacked_messages), consumer.msg_rate_out
    if wait.seconds is not None or quiet is None or not held:
        return wait
    sent_in, worked = held / rate if rate else 0.0, consumer.since_work
    if worked is not None and sent_in_silence(view, consumer, 0.0, held):
        sent_in = max(sent_in, worked.seconds)
    others = [each for each in view.served if each.number != consumer.number]
    acked = consumer.connected_for if consumer.never_acked else consumer.since_last_ack
    ages = [acked, *(each.connected_for for each in others)]
    known = [age.seconds for age in ages if age is not None]
    if len(known) < len(ages) or not view.waits_for_acks_of(consumer):
        return wait
    silence = Age(round(1000 * min(sent_in, *known)), exact=False)
    return replace(wait, acks=replace(wait.acks, quiet=max(quiet, silence, key=lambda age: age.ms)))


def left_out_for(view: SubscriptionView, consumer: ConsumerView) -> float:
    """Seconds for which a message has been left out, at least, whose key waits for its ack.

    The message after mark-delete was passed by acks for so long. A consumer holds it, or it waits
    behind one of its key that does. Nobody held anything but messages of these keys in one sample.
    Acks that came all at once after a silence passed nothing before: so long took as many of them
    as there were, at the pace of now. 0: nothing tells.
    """
    hole, keys = view.hole, consumer.draining_hashes
    if hole is None or keys is None or not (keys.alone and hole.ranges > 0):
        return 0.0
    if hole.moved or hole.delayed or hole.stood is None or hole.acks_lasted_ms is None:
        return 0.0
    stood, since = hole.stood.seconds, consumer.since_last_ack
    if since is None or since.seconds >= stood:
        return 0.0
    apace = _acks_took(consumer, stood) if hole.all_acked_in is None else hole.all_acked_in
    return min(stood, hole.acks_lasted_ms / 1000, apace)


def _acks_took(consumer: ConsumerView, stood: float) -> float:
    """Seconds of acknowledging since mark-delete stopped, where that was as it connected."""
    life, done, rate = consumer.connected_for, consumer.done_in_life, consumer.message_ack_rate
    if life is None or not done or not rate or life.seconds > stood + TOGETHER_SECONDS:
        return 0.0
    return done / rate


def waiting_for(view: SubscriptionView, consumer: ConsumerView) -> str:
    """`615 entries of its keys wait for it, while b works`; empty where nothing tells of keys.

    What is to be sent again on Key_Shared waits for its own consumer; others' messages leave at
    once as long as they have permits. More than that may not have been read yet.
    """
    if view.type != "Key_Shared":
        return ""
    waits, going_on = _entries(view, consumer), _who_works(view, consumer)
    return joined(", while ", (waits, going_on))


def waiting_for_silent(view: SubscriptionView, consumer: ConsumerView) -> str:
    """The same where it takes none of them; empty for one that works, or takes all and keeps it."""
    takes = consumer.works or activity_of(consumer) == "keeps"
    return "" if takes else waiting_for(view, consumer)


def _entries(view: SubscriptionView, consumer: ConsumerView) -> str:
    replay, left = exact(view.replay), least(view.left) or 0
    if not replay:
        return "new messages for its keys wait for it"
    others = [each for each in view.consumers or () if each.label != consumer.label]
    full = [
        each for each in others if each.without_permits or each.blocked_consumer_on_unacked_msgs
    ]
    keys, bound = "its keys", "at least " if left > replay else ""
    if not all(map(_works, full)):
        keys = "its keys and those of others that cannot receive"
    elif full:
        bound = "up to "  # what waits for those is sent within moments
    if replay == 1:
        return say("{}{:entry} of {} waits", bound, replay, keys)
    return say("{}{:entries} of {} wait", bound, replay, keys)


def _works(consumer: ConsumerView) -> bool:
    return bool(consumer.works or consumer.delivered or consumer.may_receive)


def _who_works(view: SubscriptionView, consumer: ConsumerView) -> str:
    others = [
        each.label for each in view.consumers or () if each.label != consumer.label and _works(each)
    ]
    verb = "goes on" if len(others) == 1 else "go on"
    return say("{} {}", listed(others), verb) if others else ""


def by_ranges(view: SubscriptionView, keys: KeyOrder, limits: Limits) -> Answers:
    """A finding where all consumers could receive in every sample, and nobody has the keys."""
    replay, gaps = kept_for_keys(view), keys.unowned
    if not replay or gaps == () or not may_receive(view):
        return
    by_choice = "consumers choose their ranges of keys themselves (STICKY)"
    left_out = f"nobody has {_named(gaps)}" if gaps else "leave some out"
    summary = say(
        "{:entries} wait for keys that no consumer has: {}, and {}; all of them could receive",
        *(replay, by_choice, left_out),
    )
    proven = bool(gaps) and kept_long(view, limits["just_now"])
    if not proven and (view.watched_seconds or 0) < limits["just_now"]:
        yield Unknown(say("{}: check again, for longer", summary))
        return
    yield Finding(
        severity="stalled",
        confidence=0.85,
        summary=summary,
        evidence=(Measure("msg_in_replay", replay, "entries"), backlog_measure(view)),
        remedy=UNCOVERED,
    )


def _named(gaps: Sequence[HashRange]) -> str:
    """`hashes 21845 to 43689`."""
    each = [f"{first} to {last}" if first < last else str(first) for first, last in gaps]
    return f"hashes {listed(each)}"
