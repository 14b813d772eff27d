"""Judges each subscription while a trace grows, and reports changes.

To judge thousands of subscriptions takes longer than whoever follows the journal may pause. So a
round is made in turns: `judge` continues where it stopped, until it hears that its time is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pulsar_doctor.diagnosis.cause import Cause
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.diagnosis.verdict import Diagnosis, VerdictKey
from pulsar_doctor.diagnosis.weighing import CauseLimits, diagnose
from pulsar_doctor.ledger.consumers import Consumer, Subscription
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.ledger.topics import full_name, split_partition
from pulsar_doctor.parts.tap.broker_reports import BrokerReports

DOUBT_NS = 3_000_000_000  # a verdict that is unknown for a shorter time is not shown: it settles


@dataclass(frozen=True, slots=True)
class Change:
    """A verdict that is not what it was."""

    before: Status | None  # None: it is the first
    diagnosis: Diagnosis


class Verdicts:
    """The verdicts as they stand. Changed in place by `judge`."""

    def __init__(self, causes: Sequence[Cause], limits: CauseLimits) -> None:
        self._rules = causes
        self._limits = limits
        self._todo: deque[tuple[Subscription, bool]] = deque()  # and whether anybody is left
        self._standing: dict[VerdictKey, Diagnosis] = {}
        self._shown: dict[VerdictKey, Status] = {}
        self._doubted_since: dict[VerdictKey, int] = {}
        self._settled: dict[VerdictKey, tuple[int, ...]] = {}  # nobody is left
        self.broker = BrokerReports()

    def of(self, consumer: Consumer) -> Diagnosis | None:
        """The newest verdict on the subscription of a consumer; None before the first."""
        topic = full_name(*split_partition(consumer.topic))
        return self._standing.get((topic, consumer.subscription))

    @property
    def is_between_rounds(self) -> bool:
        """Whether every subscription has been judged."""
        return not self._todo

    def judge(self, timeline: Timeline, is_over: Callable[[], bool]) -> list[Change]:
        """Begins a round, or continues it. is_over: called after each subscription."""
        if not self._todo:
            self._todo.extend((wire, not wire.is_over) for wire in timeline.subscriptions())
            self._forget()
        changes = []
        while self._todo:
            changes += self._judged(*self._todo.popleft(), timeline)
            if is_over():
                break
        return changes

    def _forget(self) -> None:
        """What the timeline remembers no more."""
        known = {wire.key for wire, _ in self._todo}
        for verdicts in (self._standing, self._shown, self._doubted_since, self._settled):
            for key in [key for key in verdicts if key not in known]:
                del verdicts[key]

    def _judged(self, wire: Subscription, lives: bool, timeline: Timeline) -> list[Change]:
        key = wire.key
        if not lives:
            those = tuple(consumer.incarnation for consumer in wire.consumers)
            if self._settled.get(key) == those:
                return []
            self._settled[key] = those
        elif any(consumer.closed_us is not None for consumer in wire.consumers):
            return []  # since the round began: the next one sees it as it is then
        else:
            wire = replace(wire, now_us=timeline.now_us, now_ns=timeline.now_ns)
        diagnosis = diagnose(self.broker.beside(wire), self._rules, self._limits)
        self._standing[key] = diagnosis
        if diagnosis.status != "unknown" or not lives:
            self._doubted_since.pop(key, None)
        elif wire.now_ns - self._doubted_since.setdefault(key, wire.now_ns) < DOUBT_NS:
            return []
        return self._change(key, diagnosis)

    def _change(self, key: VerdictKey, diagnosis: Diagnosis) -> list[Change]:
        before = self._shown.get(key)
        if before == diagnosis.status:
            return []
        self._shown[key] = diagnosis.status
        return [Change(before, diagnosis)]
