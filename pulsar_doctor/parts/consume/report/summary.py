"""The summary of `consume`: totals for people, a JSON document for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.ledger.consumers import Consumer
from pulsar_doctor.parts.consume.deferring import ON_TIME_MS, Lateness
from pulsar_doctor.parts.consume.tallies import DelayTotals, RunTotals
from pulsar_doctor.report.stall_check.document import as_json
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import many

SCHEMA = "pulsar-doctor/consume/2"
LIMIT_HOLDS = "in the steady state: what had waited before a consumer came may be later"
BEHIND = 0.98  # what lets through less than this share of what arrives is reported to fall behind


def document(
    topic: str,
    subscription: str,
    consumers: Sequence[Consumer],
    diagnoses: Sequence[Diagnosis],
    *,
    now_ns: int,
    totals: RunTotals,
) -> dict[str, Any]:
    """The consumers with their ledgers, findings and verdicts; numbers are messages and permits.

    now_ns: how far their timeline reaches; a time without permits that lasts counts up to then.
    """
    return {
        "schema": SCHEMA,
        "topic": topic,
        "subscription": subscription,
        "consumers": [_consumer(consumer, diagnoses, now_ns) for consumer in consumers],
        "acknowledgements": _acknowledgements(totals),
        "receiver_delay": _receiver_delay(totals.delay),
    }


def _consumer(consumer: Consumer, diagnoses: Sequence[Diagnosis], now_ns: int) -> dict[str, Any]:
    ledger = consumer.ledger
    judged = next((d for d in diagnoses if d.judges(consumer)), None)
    findings = judged.findings if judged else ()
    return {
        "name": consumer.label,
        "topic": consumer.topic,
        "active": consumer.active,
        "receiver_queue_size": ledger.receiver_queue_size,
        "refill_threshold": ledger.refill_threshold,
        "flows": list(ledger.flows),  # as of now: closing may add one
        "permits_granted": ledger.granted,
        "permits_spent": ledger.spent,
        "available_permits": ledger.available_permits,
        "unsent_permits": ledger.unsent_permits_min,
        "messages": ledger.messages,
        "acknowledged": ledger.acknowledged,
        **as_json(ledger.starvation(now_ns)),
        "verdict": judged.status_of(consumer) if judged else "unknown",
        "findings": [as_json(f) for f in findings if f.consumer in (None, *consumer.labels)],
    }


def _acknowledgements(acks: RunTotals) -> dict[str, Any]:
    wire = acks.wire
    return {
        "acknowledge_calls": acks.acknowledged,
        "negative_acknowledge_calls": acks.refused,
        "corrupt": acks.corrupt,
        "individual_ack_commands": wire.individual,
        "individual_ack_ids": wire.individual_ids,
        "cumulative_ack_commands": wire.cumulative,
        "cumulative_acks_backwards": wire.back,
        "acks_with_validation_error": wire.errors,
        "redelivery_ids": wire.returned,
        "redeliveries_of_all": wire.returned_all,
    }


def _receiver_delay(totals: DelayTotals | None) -> dict[str, Any] | None:
    if totals is None:
        return None
    arriving, limit = totals.arrival_rate, totals.limit
    return {
        "counted_from": totals.counted_from,
        "on_time_ms": ON_TIME_MS,
        "arrival_rate": arriving,
        "handing_rate": totals.handing_rate,
        "lets_through": limit and limit.rate,
        "formula": limit and limit.formula,
        "lateness_grows": limit and arriving and limit.growth(arriving),
        "late_at_most_holds": LIMIT_HOLDS if totals.late_at_most else None,
        "delays": [_lateness(late, totals) for late in totals.delays],
    }


def _lateness(late: Lateness, totals: DelayTotals) -> dict[str, Any]:
    return {
        "delay_seconds": late.delay_seconds,
        "messages": late.messages,
        "on_time": late.on_time,
        "early": late.early,
        "late_max_ms": late.max_ms,
        "late_p99_ms": late.quantile_ms(0.99),
        "late_at_most_seconds": totals.late_at_most.get(late.delay_seconds),
        "redelivered": late.redelivered,
        "delayed_by_broker": late.delayed_by_broker,
    }


def lines(totals: RunTotals) -> Iterator[str]:
    """A line for each thing that there is to say."""
    yield from _ack_lines(totals)
    if totals.delay is not None:
        yield from _delay_lines(totals.delay)


def _ack_lines(acks: RunTotals) -> Iterator[str]:
    calls, wire = acks.acknowledged, acks.wire
    if wire.cumulative:
        order = (
            "none before the last one" if not wire.back else f"{wire.back} behind an earlier one"
        )
        yield (
            f"acknowledgements: {calls} by the application, {many(wire.cumulative, 'ACK command')} "
            f"on the wire, each for all up to its message, {order}"
        )
    elif calls or wire.individual:
        yield (
            f"acknowledgements: {calls} by the application, {many(wire.individual, 'ACK command')} "
            f"on the wire with {many(wire.individual_ids, 'id')}"
        )
    if acks.refused:
        again = f"{many(wire.returned, 'id')} asked for again so far"
        if wire.returned_all:
            again = f"all that is unacknowledged asked for again {wire.returned_all} times"
        yield f"negative acknowledgements: {acks.refused} by the application, {again}"
    if acks.corrupt:
        yield f"corrupt messages: {acks.corrupt}, {wire.errors} of them acknowledged with the error"


def _delay_lines(totals: DelayTotals) -> Iterator[str]:
    for each in totals.delays:
        yield _on_time(each, totals)
    arriving, limit = totals.arrival_rate, totals.limit
    if arriving is not None and limit is not None and limit.rate < BEHIND * arriving:
        yield (
            f"falls behind: {arriving:.4g} messages/s arrive, at most {limit.rate:.4g} go through "
            f"({limit.formula}), so each second adds {duration(limit.growth(arriving))}; "
            f"measured {totals.handing_rate or 0:.4g}/s"
        )


def _on_time(each: Lateness, totals: DelayTotals) -> str:
    text = f"receiver delay {duration(each.delay_seconds)}: {many(each.messages, 'message')}"
    latest_ms, nearly_ms = each.max_ms, each.quantile_ms(0.99)
    if latest_ms is not None and nearly_ms is not None:
        text += (
            f", {each.on_time} within {ON_TIME_MS} ms of their time, "
            f"99 % at most {duration(nearly_ms / 1000)} late, "
            f"all at most {duration(latest_ms / 1000)}"
        )
    at_most = totals.late_at_most.get(each.delay_seconds)
    if at_most:
        text += f" (foretold: {duration(at_most)}, {LIMIT_HOLDS})"
    if each.redelivered:
        text += f"; {each.redelivered} that had come before are not counted"
    if each.delayed_by_broker:
        text += f"; {each.delayed_by_broker} that the broker delayed (deliver_at) are not counted"
    return text
