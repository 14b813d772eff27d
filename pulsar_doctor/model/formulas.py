"""When every client asks for more, and how far apart that is for one consumer with a backlog."""

from __future__ import annotations


def refill_threshold(receiver_queue_size: int) -> int:
    """Messages from one FLOW to the next: half the queue, at least 1."""
    return max(1, receiver_queue_size // 2)


def flow_gap_seconds(receiver_queue_size: int, process_seconds: float) -> float:
    """From one FLOW to the next, half a queue of messages: so long there are no permits."""
    return refill_threshold(receiver_queue_size) * process_seconds
