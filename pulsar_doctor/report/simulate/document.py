"""A simulation as JSON: `pulsar-doctor/simulate/2`."""

from __future__ import annotations

from typing import Any

from pulsar_doctor.report.stall_check.document import diagnosis_json, without_permits_json
from pulsar_doctor.simulate import formulas
from pulsar_doctor.simulate.outcome import ConsumerOutcome, RunOutcome, SimulatedLateness
from pulsar_doctor.simulate.scenario import Scenario
from pulsar_doctor.simulate.simulated import Simulated

SCHEMA = "pulsar-doctor/simulate/2"
FLOWS_MOST = 100  # of a consumer, in the document


def document(report: Simulated) -> dict[str, Any]:
    """`pulsar-doctor/simulate/2`."""
    chosen = report.recommendation
    return {
        "schema": SCHEMA,
        "seed": report.seed,
        "receiver_queue_size": report.given,
        "scenario": _scenario_json(report.scenario),
        "formulas": formulas_json(report),
        "runs": [_outcome_json(each) for each in report.outcomes],
        "refused": [
            {"receiver_queue_size": size, "reason": why} for size, why in report.refused.items()
        ],
        "recommendation": chosen
        and {"receiver_queue_size": chosen.receiver_queue_size, "reason": chosen.reason},
        "verdict": diagnosis_json(report.diagnosis) if report.diagnosis else None,
        "notes": list(report.notes),
    }


def _scenario_json(scenario: Scenario) -> dict[str, Any]:
    return {
        "messages": scenario.messages,
        "entries": len(scenario.entries),
        "consumers": len(scenario.attach_ns),
        "type": scenario.type,
        "client": scenario.client.name,
        "process_seconds": [ns / 1e9 for ns in scenario.work.of_consumer],
        "receiver_delay_seconds": [ns / 1e9 for ns in scenario.delays_ns],
        "delay_from": scenario.delay_from if scenario.delays_ns else None,
        "round_trip_seconds": scenario.round_trip_ns / 1e9,
        "stopped_after_seconds": None if scenario.end_ns is None else scenario.end_ns / 1e9,
    }


def formulas_json(report: Simulated) -> dict[str, float | None]:
    """What follows from the numbers alone; None where no formula fits."""
    scenario = report.scenario
    process = scenario.work.of_consumer[0] / 1e9
    delays = [ns / 1e9 for ns in scenario.delays_ns]
    told: dict[str, float | None] = {
        "flow_gap_seconds": formulas.flow_gap_seconds(report.given, process),
        "receipt_cap_per_second": None,
        "late_most_seconds": None,
        "queue_for_delays": None,
    }
    if delays and scenario.delay_from == "publish":
        told["late_most_seconds"] = formulas.late_most_seconds(delays)
        if scenario.client.by_due:
            told["queue_for_delays"] = formulas.queue_for_delays(scenario.per_second, delays)
    elif len(delays) == 1 and scenario.largest_batch == 1:
        cap = formulas.receipt_cap_per_second(
            report.given,
            delays[0],
            process,
            by_due=scenario.client.by_due,
            round_trip_seconds=scenario.round_trip_ns / 1e9,
        )
        told["receipt_cap_per_second"] = cap * len(scenario.attach_ns)
    return told


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
        "late": _late_json(outcome.lateness),
        "consumers": [_consumer_json(each) for each in outcome.consumers],
    }


def _late_json(late: SimulatedLateness | None) -> dict[str, Any] | None:
    if late is None:
        return None
    return {
        "median_seconds": late.median,
        "p99_seconds": late.p99,
        "most_seconds": late.most,
        "messages": late.late,
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
