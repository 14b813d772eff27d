"""Consumers of a trace that were closed with messages, and had acknowledged none."""

from __future__ import annotations

from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import ClosedConsumer
from pulsar_doctor.ledger.balance import Ledger
from pulsar_doctor.ledger.consumers import Subscription


def closed_of(wire: Subscription, views: tuple[ConsumerView, ...]) -> tuple[ClosedConsumer, ...]:
    """Facts on every closed consumer. views: of `wire.closed`, in the same order."""
    return tuple(
        ClosedConsumer(
            consumer=view,
            held=each.ledger.unacked,
            taken=_taken(each.ledger),
            had_seconds=_seconds(each.held_since_ns, each.closed_ns),
            by_command=each.closing,
            acked_since=wire.last_ack_ns > (each.closed_ns or 0),
        )
        for each, view in zip(wire.closed, views, strict=True)
    )


def _taken(ledger: Ledger) -> int:
    """Messages that the application took, at least.

    A client asks again for what was taken of its queue, unless it asks as messages arrive.
    """
    refilled = 0 if ledger.asks_on_arrival else ledger.refilled
    return min(ledger.messages, max(ledger.taken or 0, ledger.proven, refilled))


def _seconds(since_ns: int | None, until_ns: int | None) -> float | None:
    return None if since_ns is None or until_ns is None else (until_ns - since_ns) / 1e9
