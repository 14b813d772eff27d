"""What `consume` ends with: one JSON document, and its totals for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pulsar_doctor.consumers import Consumer
from pulsar_doctor.consuming.deferring import (
    ON_TIME_MS,
    Lateness,
    arrival_rate,
    bound,
    handing_rate,
    limit_of_lateness,
)
from pulsar_doctor.consuming.engines import Plan
from pulsar_doctor.consuming.tallies import AckCommands
from pulsar_doctor.diagnosis import Diagnosis, verdict_of
from pulsar_doctor.durations import duration
from pulsar_doctor.report.document import finding_json, without_permits_json
from pulsar_doctor.report.words import many

SCHEMA = "pulsar-doctor/consume/1"
LIMIT_HOLDS = "in the steady state: what had waited before a consumer came may be later"
BEHIND = 0.98  # what lets through less than this share of what arrives is said to fall behind


def document(
    topic: str,
    subscription: str,
    consumers: Sequence[Consumer],
    diagnoses: Sequence[Diagnosis],
    *,
    now_ns: int,
    **totals: Any,
) -> dict[str, Any]:
    """The consumers with their ledgers, findings and verdicts; numbers are messages and permits.

    now_ns: how far their timeline goes; a time without permits that lasts counts up to then.
    """
    return {
        "schema": SCHEMA,
        "topic": topic,
        "subscription": subscription,
        "consumers": [_consumer(consumer, diagnoses, now_ns) for consumer in consumers],
        **totals,
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
        **without_permits_json(ledger.starvation(now_ns)),
        "verdict": verdict_of(judged, consumer) if judged else "unknown",
        "findings": [finding_json(f) for f in findings if f.consumer in (None, consumer.label)],
    }


def acknowledgements(calls: int, refused: int, corrupt: int, wire: AckCommands) -> dict[str, Any]:
    """What the application asked for beside what went over the wire. calls: of acknowledge."""
    return {
        "acknowledge_calls": calls,
        "negative_acknowledge_calls": refused,
        "corrupt": corrupt,
        "individual_ack_commands": wire.individual,
        "individual_ack_ids": wire.individual_ids,
        "cumulative_ack_commands": wire.cumulative,
        "cumulative_acks_backwards": wire.back,
        "acks_with_validation_error": wire.errors,
        "redelivery_ids": wire.returned,
        "redeliveries_of_all": wire.returned_all,
    }


def receiver_delay(
    plan: Plan, consumers: int, seen: Sequence[Lateness], *, own_queue: bool
) -> dict[str, Any] | None:
    """How late messages were handed out, and what was to be expected; None without a delay."""
    if not plan.receiver_delay_seconds:
        return None
    arriving, handing = arrival_rate(seen), handing_rate(seen)
    limit = bound(plan, consumers, own_queue=own_queue)
    at_most: dict[float, float] = {}
    behind = limit is not None and arriving is not None and limit.rate < arriving
    if arriving and plan.delay_from == "publish" and not behind:
        at_most = limit_of_lateness(plan, arriving, consumers, own_queue=own_queue)
    return {
        "counted_from": plan.delay_from,
        "on_time_ms": ON_TIME_MS,
        "arrival_rate": arriving,
        "handing_rate": handing,
        "lets_through": limit and limit.rate,
        "formula": limit and limit.formula,
        "lateness_grows": limit and arriving and limit.growth(arriving),
        "late_at_most_holds": LIMIT_HOLDS if at_most else None,
        "delays": [_lateness(late, at_most.get(late.delay_seconds)) for late in seen],
    }


def _lateness(late: Lateness, at_most: float | None) -> dict[str, Any]:
    return {
        "delay_seconds": late.delay_seconds,
        "messages": late.messages,
        "on_time": late.on_time,
        "early": late.early,
        "late_max_ms": late.max_ms,
        "late_p99_ms": late.quantile_ms(0.99),
        "late_at_most_seconds": at_most,
        "redelivered": late.redelivered,
        "delayed_by_broker": late.delayed_by_broker,
    }


def lines(totals: dict[str, Any]) -> Iterator[str]:
    """The totals of a document, a line for each thing that there is to say."""
    yield from _ack_lines(totals["acknowledgements"])
    if totals["receiver_delay"] is not None:
        yield from _delay_lines(totals["receiver_delay"])


def _ack_lines(acks: dict[str, Any]) -> Iterator[str]:
    calls, alone, together = (
        acks["acknowledge_calls"],
        acks["individual_ack_commands"],
        acks["cumulative_ack_commands"],
    )
    if together:
        onward = acks["cumulative_acks_backwards"]
        order = "none before the last one" if not onward else f"{onward} behind an earlier one"
        yield (
            f"acknowledgements: {calls} by the application, {many(together, 'ACK command')} on the "
            f"wire, each for all up to its message, {order}"
        )
    elif calls or alone:
        ids = acks["individual_ack_ids"]
        yield (
            f"acknowledgements: {calls} by the application, {many(alone, 'ACK command')} on the "
            f"wire with {many(ids, 'id')}"
        )
    if acks["negative_acknowledge_calls"]:
        again = f"{many(acks['redelivery_ids'], 'id')} asked for again so far"
        if acks["redeliveries_of_all"]:
            again = (
                f"all that is unacknowledged asked for again {acks['redeliveries_of_all']} times"
            )
        calls = acks["negative_acknowledge_calls"]
        yield f"negative acknowledgements: {calls} by the application, {again}"
    if acks["corrupt"]:
        told = acks["acks_with_validation_error"]
        yield f"corrupt messages: {acks['corrupt']}, {told} of them acknowledged with the error"


def _delay_lines(told: dict[str, Any]) -> Iterator[str]:
    for each in told["delays"]:
        yield _on_time(each, told)
    arriving, through = told["arrival_rate"], told["lets_through"]
    if arriving is None:
        return
    if through is not None and through < BEHIND * arriving:
        yield (
            f"falls behind: {arriving:.4g} messages/s arrive, at most {through:.4g} go through "
            f"({told['formula']}), so each second adds {duration(told['lateness_grows'])}; "
            f"measured {told['handing_rate'] or 0:.4g}/s"
        )


def _on_time(each: dict[str, Any], told: dict[str, Any]) -> str:
    text = f"receiver delay {duration(each['delay_seconds'])}: {many(each['messages'], 'message')}"
    if each["messages"]:
        text += (
            f", {each['on_time']} within {told['on_time_ms']} ms of their time, "
            f"99 % at most {duration(each['late_p99_ms'] / 1000)} late, "
            f"all at most {duration(each['late_max_ms'] / 1000)}"
        )
    if each["late_at_most_seconds"]:
        text += f" (foretold: {duration(each['late_at_most_seconds'])}, {LIMIT_HOLDS})"
    if each["redelivered"]:
        text += f"; {each['redelivered']} that had come before are not counted"
    if each["delayed_by_broker"]:
        text += (
            f"; {each['delayed_by_broker']} that the broker delayed (deliver_at) are not counted"
        )
    return text
