"""What the checks say of consumers that have no permits where a trace ends: as `stall-check` does.

On columns an episode is judged by what it became. One that goes on is judged by the checks
themselves, with the ledgers as they stood at the end, which lie beside the last segment (.state-N).
Where these are not to be had (an older program's, a copy without them) the columns judge it, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.weighing import diagnose_wire
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.trace.folder import Meta

IDENTITY = (
    "conn_id", "consumer_id", "topic", "subscription", "subscription_type", "consumer_name",
    "client_version",
)  # fmt: skip


class AtTheEnd(NamedTuple):
    """A consumer without permits, and the worst that is found of it; None where nothing is.

    since_us: since when; closed_us: when it ended, None where it is still there; until_us: when its
    trace was last watched. identity, numbers: as its rows have them, in the columns of a trace.
    """

    trace_id: str
    incarnation: int
    code: str | None
    severity: str | None
    since_us: int | None = None
    closed_us: int | None = None
    until_us: int = 0
    identity: Mapping[str, Any] = {}
    numbers: Mapping[str, Any] = {}


def at_the_end(meta: Meta, state: dict[str, Any] | None) -> list[AtTheEnd]:
    """Of all consumers without permits in these saved ledgers; none where they do not tell."""
    if state is None:
        return []
    with suppress(ValueError, TypeError, KeyError, AttributeError, IndexError):  # it is damaged
        return list(_judged(Timeline.restore(state, meta.trace_id, meta.told)))
    return []


def _judged(timeline: Timeline) -> Iterator[AtTheEnd]:
    causes = load()
    subscriptions = list(timeline.subscriptions())
    diagnoses = diagnose_wire(subscriptions, causes, limits_of(causes))
    for wire, diagnosis in zip(subscriptions, diagnoses, strict=True):
        worst = {
            found.consumer: (found.code, found.severity) for found in reversed(diagnosis.findings)
        }
        for consumer in wire.consumers:
            ledger = consumer.ledger
            if ledger.starved_since_ns is not None and not ledger.uncertain:
                code, severity = worst.get(consumer.label, (None, None))
                yield AtTheEnd(
                    timeline.trace_id,
                    consumer.incarnation,
                    code,
                    severity,
                    since_us=ledger.starved_since_us,
                    closed_us=consumer.closed_us,
                    until_us=timeline.now_us,
                    identity={name: getattr(consumer, name) for name in IDENTITY},
                    numbers={
                        "available_permits": ledger.available_permits,
                        "unacked_messages": ledger.unacked,
                    },
                )
