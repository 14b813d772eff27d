"""Which messages of a Key_Shared subscription wait for one consumer, and who goes on."""

from __future__ import annotations

from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least, told
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import joined, say

NAMED_MOST = 3


def waiting_for(view: SubscriptionView, consumer: ConsumerView) -> str:
    """`615 entries of its keys wait for it, while b goes on`; empty where nothing tells of keys.

    What is to be sent again on Key_Shared waits for its own consumer; others' goes out at once as
    long as they have permits. More than that may not have been read yet.
    """
    if view.type != "Key_Shared":
        return ""
    waits, going_on = _entries(view, consumer), _who_goes_on(view, consumer)
    return joined(", while ", (waits, going_on))


def _entries(view: SubscriptionView, consumer: ConsumerView) -> str:
    replay, left = told(view.replay), least(view.left) or 0
    if not replay:
        return "new messages for its keys wait for it"
    others = [each for each in view.consumers or () if each.label != consumer.label]
    full = [
        each for each in others if each.without_permits or each.blocked_consumer_on_unacked_msgs
    ]
    whose, bound = "its keys", "at least " if left > replay else ""
    if not all(map(_goes_on, full)):
        whose = "its keys and those of others that cannot receive"
    elif full:
        bound = "up to "  # what waits for those is sent within moments
    if replay == 1:
        return say("{}{:entry} of {} waits", bound, replay, whose)
    return say("{}{:entries} of {} wait", bound, replay, whose)


def _goes_on(consumer: ConsumerView) -> bool:
    return bool(consumer.works or consumer.delivered or consumer.may_receive)


def _who_goes_on(view: SubscriptionView, consumer: ConsumerView) -> str:
    others = [
        each.label
        for each in view.consumers or ()
        if each.label != consumer.label and _goes_on(each)
    ]
    verb = "goes on" if len(others) == 1 else "go on"
    return say("{} {}", listed(others, NAMED_MOST), verb) if others else ""
