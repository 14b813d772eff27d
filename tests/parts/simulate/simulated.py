"""Scenarios for tests of the simulator, in seconds; and runs that are checked at every row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pulsar_doctor.ledger.clients import SIMULATED
from pulsar_doctor.model.consumer import SimulatedConsumer
from pulsar_doctor.model.running import Simulation
from pulsar_doctor.model.scenario import ProducedEntry, Scenario, Work, arrivals
from pulsar_doctor.wire.columns import Row

FOREVER = 1e6


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def scenario(  # noqa: PLR0913
    messages: int = 0,
    *,
    entries: list[ProducedEntry] | None = None,
    rate: float = 0.0,
    batch: int = 1,
    takes: float | tuple[float, ...] = 0.0,
    known: dict[int, float] | None = None,
    client: str = "pulsar-client",
    attach: tuple[float, ...] = (0.0,),
    end: float | None = None,
    round_trip: float = 0.0,
    **more: Any,
) -> Scenario:
    """A backlog of so many messages, or that many at this rate."""
    made = entries or arrivals(
        messages, backlog=0 if rate else messages, per_second=rate, batch=batch
    )
    each = takes if isinstance(takes, tuple) else (takes,)
    return Scenario(
        entries=made,
        work=Work(tuple(map(ns, each)), {number: ns(s) for number, s in (known or {}).items()}),
        client=SIMULATED[client],
        attach_ns=tuple(map(ns, attach)),
        round_trip_ns=ns(round_trip),
        end_ns=None if end is None else ns(end),
        **more,
    )


def run(what: Scenario, queue: int) -> Simulation:
    return Simulation(what, queue).run()


def flows(what: Scenario, queue: int) -> list[tuple[int, int]]:
    """Of the first consumer: permits, and how many messages it had taken by then."""
    return [(flow.permits, flow.taken) for flow in run(what, queue).consumers[0].flows]


@dataclass(slots=True)
class Checked:
    """Rows as they came, each held against the sums of those before it."""

    queue: int
    rows: list[Row] = field(default_factory=list)
    granted: Counter[int] = field(default_factory=Counter)
    spent: Counter[int] = field(default_factory=Counter)
    delivered: Counter[int] = field(default_factory=Counter)
    acked: set[int] = field(default_factory=set)
    lowest: int = 0

    def add(self, row: Row, consumer: SimulatedConsumer) -> None:
        self.rows.append(row)
        who = consumer.index
        if row.command == "FLOW":
            assert row.permits is not None
            assert row.permits > 0
            self.granted[who] += row.permits
        elif row.command == "MESSAGE":
            assert row.permits is not None
            assert row.entry_id is not None
            self.spent[who] += row.permits
            self.delivered[row.entry_id] += 1
        elif row.command == "ACK":
            assert row.acknowledged_messages, "what it acknowledges was delivered and open"
            assert row.entry_id is not None
            self.acked.add(row.entry_id)
        available = self.granted[who] - self.spent[who]
        assert row.available_permits == available == consumer.ledger.available_permits
        self.lowest = min(self.lowest, available)
        if self.granted[who]:
            self.check_conservation(available, consumer)

    def check_conservation(self, available: int, consumer: SimulatedConsumer) -> None:
        in_work = consumer.received - consumer.finished
        listens = consumer.client.credits == "finished"
        queued = consumer.queued + (in_work if listens and in_work else 0)
        if self.queue:
            assert available + queued + consumer.unsent == self.queue
        if self.queue and not consumer.client.ahead and not listens:
            assert consumer.ledger.unsent_permits_min == consumer.unsent
            assert consumer.ledger.queued_min == consumer.queued


def checked(what: Scenario, queue: int) -> tuple[Simulation, Checked]:
    checks = Checked(queue)
    return Simulation(what, queue, checks.add).run(), checks
