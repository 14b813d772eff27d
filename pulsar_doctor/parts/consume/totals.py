"""The totals of a run of test consumers: acknowledgements and lateness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pulsar_doctor.parts.consume.deferring import (
    Bound,
    Lateness,
    arrival_rate,
    bound,
    handing_rate,
    limit_of_lateness,
)
from pulsar_doctor.parts.consume.engines import Plan
from pulsar_doctor.parts.consume.tallies import AckCommands


@dataclass(frozen=True, slots=True)
class AckTotals:
    """What the application requested, in messages, beside what went over the wire."""

    acknowledged: int
    refused: int
    corrupt: int
    wire: AckCommands


@dataclass(frozen=True, slots=True)
class DelayTotals:
    """How late messages were handed out, and what was expected. Rates: messages per second."""

    counted_from: str
    arrival_rate: float | None
    handing_rate: float | None
    limit: Bound | None  # that is let through at most; None: no limit
    delays: Sequence[Lateness]
    # seconds, by delay; empty: not predictable
    late_at_most: Mapping[float, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunTotals:
    """Totals of all consumers of one run."""

    acks: AckTotals
    delay: DelayTotals | None  # None: without a receiver delay


def delay_totals(
    plan: Plan, consumers: int, seen: Sequence[Lateness], *, own_queue: bool
) -> DelayTotals | None:
    """own_queue: as `deferring.bound` has it. seen: what each delay came to; None without one."""
    if not plan.receiver_delay_seconds:
        return None
    arriving, limit = arrival_rate(seen), bound(plan, consumers, own_queue=own_queue)
    at_most: Mapping[float, float] = {}
    behind = limit is not None and arriving is not None and limit.rate < arriving
    if arriving and plan.delay_from == "publish" and not behind:
        at_most = limit_of_lateness(plan, arriving, consumers, own_queue=own_queue)
    return DelayTotals(plan.delay_from, arriving, handing_rate(seen), limit, seen, at_most)
