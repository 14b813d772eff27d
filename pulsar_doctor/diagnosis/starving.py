"""Consumers that the broker may not send to although messages wait."""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis.thresholds import RECEIVER_QUEUE_SIZE, Limits
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView


def starving(view: SubscriptionView, limits: Limits) -> Iterator[ConsumerView]:
    """Consumers to which the broker may not send though something is not consumed.

    limits: of a cause, which may tell RECEIVER_QUEUE_SIZE. Not those for whom silence is nothing:
    standbys, readers and other non-durable subscriptions, and where the backlog is empty.
    """
    if view.nothing_to_move:
        return
    size = int(limits.get(RECEIVER_QUEUE_SIZE.name, RECEIVER_QUEUE_SIZE.default))
    for consumer in view.consumers or ():
        if consumer.without_permits and consumer.active is not False:
            yield consumer if size < 0 else consumer.sized(size)
