"""Which messages of a Key_Shared subscription wait for one consumer, and who works."""

from __future__ import annotations

from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import exact, least
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import joined, say

NAMED_MOST = 3


def waiting_for(view: SubscriptionView, consumer: ConsumerView) -> str:
    """`615 entries of its keys wait for it, while b works`; empty where nothing tells of keys.

    What is to be sent again on Key_Shared waits for its own consumer; others' messages leave at
    once as long as they have permits. More than that may not have been read yet.
    """
    if view.type != "Key_Shared":
        return ""
    waits, going_on = _entries(view, consumer), _who_works(view, consumer)
    return joined(", while ", (waits, going_on))


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
    return say("{} {}", listed(others, NAMED_MOST), verb) if others else ""
