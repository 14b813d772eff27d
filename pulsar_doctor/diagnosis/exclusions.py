"""Reasons that rule out a cause for one consumer, as sentences."""

from __future__ import annotations

from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least


def holds_nothing(view: SubscriptionView, each: ConsumerView) -> str | None:
    """No message waits at a consumer that holds none."""
    return f"{each.label} holds nothing" if each.holds_nothing else None


def has_permits(view: SubscriptionView, each: ConsumerView) -> str | None:
    """The broker may send to a consumer that has permits."""
    if (least(each.available_permits) or 0) > 0:
        return f"{each.label} has {each.available_permits} permits"
    return None
