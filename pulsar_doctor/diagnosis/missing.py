"""Which numbers are missing to confirm a suspect, so that the user can get them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import exact

CONSUMERS = "consumers"
OF_SUBSCRIPTION: Mapping[str, Callable[[SubscriptionView], object]] = {
    "acknowledged_ranges": lambda view: view.ranges,
    "backlog_by_positions": lambda view: view.backlog and view.backlog.positions,
    "blocked_subscription_on_unacked_msgs": lambda view: (
        view.unacked_limit and view.unacked_limit.blocked
    ),
    CONSUMERS: lambda view: view.consumers,
    "msg_delayed": lambda view: view.delayed,
    "msg_in_replay": lambda view: view.replay,
    "read_position": lambda view: view.reads,
    "read_state": lambda view: view.reads and view.reads.face,
    "redelivered": lambda view: view.circulation,
    "throttled_reads": lambda view: view.throttling,
}


def missing_of(
    names: Iterable[str], view: SubscriptionView, each: ConsumerView | None
) -> tuple[str, ...]:
    """The names of numbers that are not reported. each: whom the suspect concerns; None: nobody."""
    missing = (_missing(name, view, each) for name in names)
    return tuple(dict.fromkeys(name for name in missing if name is not None))


def _missing(name: str, view: SubscriptionView, each: ConsumerView | None) -> str | None:
    if name in OF_SUBSCRIPTION:
        return name if OF_SUBSCRIPTION[name](view) is None else None
    if each is None:
        return CONSUMERS if view.consumers is None else None
    return None if _is_reported(name, each) else name


def _is_reported(name: str, of: ConsumerView) -> bool:
    """Whether a number is reported; a bound of a queue size does not show which cause it is."""
    value = getattr(of, name)
    if name == "receiver_queue_size":
        value = exact(value)
    return value is not None or (name == "since_last_ack" and of.never_acked is not None)
