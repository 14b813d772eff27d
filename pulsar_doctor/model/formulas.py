"""The formula that a simulation of one consumer with a backlog must come to."""

from __future__ import annotations

from pulsar_doctor.model.clients import refill_threshold


def flow_gap_seconds(receiver_queue_size: int, process_seconds: float) -> float:
    """From one FLOW to the next, half a queue of messages: so long there are no permits."""
    return refill_threshold(receiver_queue_size) * process_seconds
