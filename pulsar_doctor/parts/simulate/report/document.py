"""A simulation as JSON: `pulsar-doctor/simulate/2`."""

from __future__ import annotations

from typing import Any

from pulsar_doctor.model.formulas import flow_gap_seconds
from pulsar_doctor.model.levers import sets_the_pace
from pulsar_doctor.model.scenario import Scenario
from pulsar_doctor.parts.simulate.outcome import ConsumerOutcome, RunOutcome
from pulsar_doctor.parts.simulate.simulated import Simulated
from pulsar_doctor.report.pace import rounded_json
from pulsar_doctor.report.stall_check.document import diagnosis_json, without_permits_json
from pulsar_doctor.wording.durations import per_second

SCHEMA = "pulsar-doctor/simulate/2"
FLOWS_MOST = 100  # of a consumer, in the document


def document(report: Simulated) -> dict[str, Any]:
    """`pulsar-doctor/simulate/2`."""
    return {
        "schema": SCHEMA,
        "receiver_queue_size": report.given,
        "scenario": _scenario_json(report.scenario),
        "formulas": {"flow_gap_seconds": flow_gap(report)},
        "runs": [_outcome_json(each) for each in report.outcomes],
        "refused": [
            {"receiver_queue_size": size, "reason": why} for size, why in report.refused.items()
        ],
        "recommendation": report.recommended
        and {"receiver_queue_size": report.recommended, "reason": reason(report)},
        "levers": rounded_json(report.levers),
        "verdict": diagnosis_json(report.diagnosis) if report.diagnosis else None,
        "notes": list(report.notes),
    }


def reason(report: Simulated) -> str:
    """Why no larger queue is better."""
    work = report.work
    if work.keeps_up:
        return f"up to {per_second(work.rate)} with it, and {per_second(work.arrivals or 0)} arrive"
    return f"no queue brings more than {per_second(work.rate)}: {sets_the_pace(work)}"


def flow_gap(report: Simulated) -> float:
    """From one FLOW to the next at the given size, by the formula."""
    return flow_gap_seconds(report.given, report.scenario.work.of_consumer[0] / 1e9)


def _scenario_json(scenario: Scenario) -> dict[str, Any]:
    return {
        "messages": scenario.messages + scenario.unreached,
        "entries": len(scenario.entries) + scenario.unreached,
        "consumers": len(scenario.attach_ns),
        "type": scenario.type,
        "client": scenario.client.simulated,
        "process_seconds": [ns / 1e9 for ns in scenario.work.of_consumer],
        "round_trip_seconds": scenario.round_trip_ns / 1e9,
        "stopped_after_seconds": None if scenario.end_ns is None else scenario.end_ns / 1e9,
    }


def _outcome_json(outcome: RunOutcome) -> dict[str, Any]:
    return {
        "receiver_queue_size": outcome.receiver_queue_size,
        "refill_threshold": outcome.refill_threshold,
        "seconds": outcome.seconds,
        "finished": outcome.finished,
        "per_second": outcome.per_second,
        "flow_gap_seconds": outcome.flow_gap_seconds,
        **without_permits_json(outcome.starvation),
        "stall_seconds": outcome.stall_seconds,
        "wait_seconds": outcome.wait_seconds,
        "wait_beside_idle_seconds": outcome.wait_beside_idle_seconds,
        "queued_most": outcome.queued_most,
        "backlog": outcome.backlog,
        "consumers": [_consumer_json(each) for each in outcome.consumers],
    }


def _consumer_json(consumer: ConsumerOutcome) -> dict[str, Any]:
    forecast = consumer.forecast
    return {
        "name": consumer.name,
        "received": consumer.received,
        "finished": consumer.finished,
        "queued": consumer.queued,
        "queued_most": consumer.queued_most,
        "available_permits": consumer.available_permits,
        "unsent_permits": consumer.unsent_permits,
        "flow_count": len(consumer.flows),
        "flows": [
            {"seconds": flow.at_ns / 1e9, "permits": flow.permits, "taken": flow.taken}
            for flow in consumer.flows[:FLOWS_MOST]
        ],
        **without_permits_json(consumer.starvation),
        "stall_seconds": consumer.stall_seconds,
        "wait_seconds": consumer.wait_seconds,
        "wait_beside_idle_seconds": consumer.wait_beside_idle_seconds,
        "next_flow_after": forecast.messages if forecast else None,
        "next_flow_seconds": forecast.seconds if forecast else None,
    }
