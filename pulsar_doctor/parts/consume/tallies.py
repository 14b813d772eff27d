"""Counts the acknowledgements and delays of test consumers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pulsar_doctor.parts.consume.deferring import (
    Bound,
    Lateness,
    arrival_rate,
    bound,
    delay_of,
    handing_rate,
    limit_of_lateness,
)
from pulsar_doctor.parts.consume.engines import Message, Plan
from pulsar_doctor.wire.columns import Row

MessageKey = tuple[str, int, int]


@dataclass(slots=True)
class AckCommands:
    """ACK commands of the consumers, and the message ids that they carried."""

    remember_released: bool
    individual: int = 0
    individual_ids: int = 0
    cumulative: int = 0
    back: int = 0  # cumulative acks that did not move forward
    errors: int = 0
    returned: int = 0  # ids in REDELIVER commands
    returned_all: int = 0  # REDELIVER commands without ids: for all that is unacknowledged
    last: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    # messages that the broker delivered with a deliver_at, by topic and position
    released: set[MessageKey] = field(default_factory=set)

    def add(self, row: Row) -> None:
        """Counts one command."""
        if row.incarnation is None:
            return
        if row.command == "ACK":
            self._ack(row)
        elif row.command == "REDELIVER_UNACKNOWLEDGED_MESSAGES":
            self.returned += row.messages or 0
            self.returned_all += not row.messages
        elif self.remember_released and row.deliver_at is not None:
            self.released.add((row.topic or "", row.ledger_id or 0, row.entry_id or 0))

    def _ack(self, row: Row) -> None:
        self.errors += row.error_code is not None
        if row.ack_type != "cumulative":
            self.individual += 1
            self.individual_ids += row.messages or 0
            return
        self.cumulative += 1
        at = row.ledger_id or 0, row.entry_id or 0
        consumer = row.incarnation or 0, row.topic or ""
        self.back += at < self.last.get(consumer, at)
        self.last[consumer] = at


@dataclass(slots=True)
class Handed:
    """Messages that were handed out, by their delay, once the wire has shown how they came."""

    lateness: dict[float, Lateness] = field(default_factory=dict)
    _seen: deque[tuple[Message, float, float]] = field(default_factory=deque)

    def add(self, plan: Plan, message: Message, at_ms: float) -> None:
        """One message, handed out at that moment; from any thread."""
        if plan.receiver_delay_seconds:
            self._seen.append((message, delay_of(plan, message.entry_id), at_ms))

    def judge(self, released: set[MessageKey], until_ms: float) -> None:
        """Counts those handed out by then; their MESSAGE commands must have been read."""
        while self._seen and self._seen[0][2] <= until_ms:
            message, delay, at_ms = self._seen.popleft()
            late = self.lateness.setdefault(delay, Lateness(delay))
            if (message.topic, message.ledger_id, message.entry_id) in released:
                late.delayed_by_broker += 1
            elif message.redelivery_count:
                late.redelivered += 1
            else:
                late.add(message.published_ms, at_ms)

    @property
    def all(self) -> Sequence[Lateness]:
        """One for each delay, the shortest first."""
        return [self.lateness[delay] for delay in sorted(self.lateness)]


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
    """What the applications of one run requested, in messages, beside what went over the wire."""

    acknowledged: int
    refused: int
    corrupt: int
    wire: AckCommands
    delay: DelayTotals | None = None  # None: without a receiver delay


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
