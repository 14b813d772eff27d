"""The verdict at the end of each trace, as `stall-check --trace` gives it.

Each subscription is judged by its ledgers as they stood at the end, by the same function. They lie
beside the last segment (.state-N), so no row is read for them. Where they are missing (the trace of
an older program, a copy without them) they are worked out again from the rows, if these are few and
on this machine. Otherwise nothing is judged, and the status is unknown.

A time without permits that is over was never judged by the checks: columns judge it, and those of
traces without ledgers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.verdict import Diagnosis, ReportedBy
from pulsar_doctor.diagnosis.weighing import diagnose_wire
from pulsar_doctor.ledger.consumers import Subscription
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.parts.analyze.at_the_end import AtTheEnd
from pulsar_doctor.trace.folder import Meta, journals
from pulsar_doctor.trace.graded import include_too_much
from pulsar_doctor.trace.index import Index
from pulsar_doctor.trace.missing import sealed_missing

if TYPE_CHECKING:
    from pulsar_doctor.trace.reading import Trace

IDENTITY = (
    "conn_id", "consumer_id", "topic", "subscription", "subscription_type", "consumer_name",
    "client_version",
)  # fmt: skip
UNUSABLE = (ValueError, TypeError, KeyError, AttributeError, IndexError)  # of damaged ledgers
REPLAYED_MOST = 200_000  # rows of all traces: some seconds
NO_LEDGERS = (
    "{}: its end is not judged, since no ledgers of this version lie beside its last segment, or "
    "they include what is left out here; `pulsar-doctor stall-check --trace` judges it"
)
NO_CONSUMER = "{} has no consumer: nothing to judge; was its client on the tap?"
NOT_SEALED = "{}: its end is not judged, since what lies behind the last segment is not sealed"


@dataclass(frozen=True, slots=True)
class TraceVerdict:
    """The verdict on one subscription of a trace."""

    trace_id: str
    at_us: int  # the moment it is about: the end, or just before the last consumer closed
    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True)
class TraceEnd:
    """How one trace ends."""

    folder: str  # of the trace
    trace_id: str
    until_us: int  # until when it was recorded
    verdicts: Sequence[TraceVerdict] = ()  # one for each subscription that could be judged
    not_judged: str | None = None  # why some or all are missing
    without_permits: Sequence[AtTheEnd] = ()  # consumers that had none at the end


def end_here(path: Path, trace: Trace, replayed_most: int) -> TraceEnd:
    """The end of a trace of this machine, as far as it is sealed. Raises TraceError.

    replayed_most: rows from which ledgers that are missing are worked out again.
    """
    from pulsar_doctor.trace.reading import ChangedMeanwhileError

    timeline = None
    with suppress(ChangedMeanwhileError):
        timeline = _ledgers(path, trace, replayed_most)
    index, numbers = trace.opened, journals(path)
    left = not trace.live and any(number > index.through for number in numbers)
    unsealed = NOT_SEALED.format(path) if left else None
    return end_of(str(path), trace.meta, timeline, index.until_us, unsealed)


def _ledgers(path: Path, trace: Trace, replayed_most: int) -> Timeline | None:
    """None where they would have to be worked out from too many rows."""
    from pulsar_doctor.trace.reading import Trace, ledgers_behind, nearest_ledgers

    timeline, behind = nearest_ledgers(path, trace.meta, trace.opened)
    if sum(part.rows for part in behind) > replayed_most:
        return None
    timeline = ledgers_behind(path, timeline, behind)
    timeline.incomplete = trace.missing(timeline.set_aside).is_loss
    again = Trace(path, proven_only=trace.proven_only)  # Spark says itself what it leaves out
    with suppress(LookupError):
        return again.of_what_counts(timeline, trace.opened, replayed_most)
    return None


def restored(
    meta: Meta, state: dict[str, Any] | None, index: Index, *, proven_only: bool
) -> Timeline | None:
    """The ledgers that were saved; None where they are not to be had, or include too much."""
    if state is None:
        return None
    with suppress(*UNUSABLE):
        timeline = Timeline.restore(state, meta.trace_id, meta.told)
        timeline.incomplete = sealed_missing(index, timeline.set_aside).is_loss
        if not (meta.capture and include_too_much(timeline, proven_only=proven_only)):
            return timeline
    return None


def end_of(
    folder: str, meta: Meta, timeline: Timeline | None, until_us: int, unsealed: str | None
) -> TraceEnd:
    """The end of a trace by its ledgers; None: they are not to be had.

    unsealed: a sentence where something lies behind its last segment; None: nothing does.
    """
    if timeline is not None:
        with suppress(*UNUSABLE):
            return replace(_judged(folder, meta, timeline), not_judged=unsealed)
    return TraceEnd(folder, meta.trace_id, until_us, not_judged=NO_LEDGERS.format(folder))


def _judged(folder: str, meta: Meta, timeline: Timeline) -> TraceEnd:
    causes, wires = load(), timeline.subscriptions()
    reported_by: ReportedBy = "capture" if meta.capture else "trace"
    diagnoses = diagnose_wire(wires, causes, limits_of(causes), reported_by)
    judged = list(zip(wires, diagnoses, strict=True))
    return TraceEnd(
        folder,
        meta.trace_id,
        timeline.now_us,
        [TraceVerdict(meta.trace_id, wire.now_us, diagnosis) for wire, diagnosis in judged],
        without_permits=[each for pair in judged for each in _without_permits(timeline, *pair)],
    )


def _without_permits(
    timeline: Timeline, wire: Subscription, diagnosis: Diagnosis
) -> Iterator[AtTheEnd]:
    worst = {found.consumer: (found.code, found.severity) for found in reversed(diagnosis.findings)}
    for consumer in wire.consumers:
        ledger = consumer.ledger
        if ledger.starved_since_ns is not None and not ledger.uncertain:
            found = (worst[label] for label in consumer.labels if label in worst)
            code, severity = next(found, (None, None))
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
