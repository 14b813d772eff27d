"""The numbers that rules turn on, which `--set RULE.THRESHOLD=VALUE` changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number that a rule turns on; `--set rule.name=value` changes it. unit: as it is shown."""

    name: str
    default: float
    unit: str
    meaning: str


Limits = Mapping[str, float]

# Rules that speak of the same waiting share these names, each with a value of its own.
REFILL_WAIT = Threshold(
    "refill_wait", 300.0, "seconds", "a next FLOW further away than this is a stall"
)
SLOW_WAIT = Threshold("slow_wait", 30.0, "seconds", "a next FLOW nearer than this is healthy")
QUIET_AFTER = Threshold(
    "quiet_after", 5.0, "seconds", "below this age a standstill is not spoken of"
)
RECEIVER_QUEUE_SIZE = Threshold(
    "receiver_queue_size", -1, "messages", "of the consumers, where you know it; -1: not told"
)
JUST_NOW = Threshold(
    "just_now", 3.0, "seconds", "an ack or message younger than this decides nothing"
)
RELEASE_WAITS = (
    Threshold("refill_wait", 300.0, "seconds", "a release further away than this is a stall"),
    Threshold("slow_wait", 30.0, "seconds", "a release nearer than this is healthy"),
    JUST_NOW,
)
