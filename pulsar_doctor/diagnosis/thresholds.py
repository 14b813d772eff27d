"""The thresholds of causes; `--set CODE.THRESHOLD=VALUE` changes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number that a cause turns on; `--set code.name=value` changes it."""

    name: str
    default: float
    unit: str  # as it is shown
    meaning: str


Limits = Mapping[str, float]

# Causes that speak of the same waiting share these names, each with a value of its own.
REFILL_WAIT = Threshold(
    "refill_wait", 300.0, "seconds", "if the next FLOW is further away than this, it is a stall"
)
SLOW_WAIT = Threshold(
    "slow_wait", 30.0, "seconds", "if the next FLOW is nearer than this, it is healthy"
)
FIRST_ACK_WITHIN = Threshold(
    "first_ack_within",
    60.0,
    "seconds",
    "a consumer that holds messages for longer must have acknowledged some",
)
QUIET_AFTER = Threshold("quiet_after", 5.0, "seconds", "a younger standstill is not reported")
RECEIVER_QUEUE_SIZE = Threshold(
    "receiver_queue_size",
    -1,
    "messages",
    "the consumers' queue size, if you know it; -1: not known",
)
JUST_NOW = Threshold(
    "just_now", 3.0, "seconds", "an ack or message that is younger decides nothing"
)
IN_HAND = Threshold(
    "in_hand", 16.0, "messages", "workers may be processing this many, with none queued"
)
NO_PROGRESS = replace(
    REFILL_WAIT, meaning="if nothing was acknowledged for longer than this, it is a stall"
)
RELEASE_WAITS = (
    replace(REFILL_WAIT, meaning="if the release is further away than this, it is a stall"),
    replace(SLOW_WAIT, meaning="if the release is nearer than this, it is healthy"),
    JUST_NOW,
)

# What clues and words turn on. Nobody sets these: the weights of clues are fitted with them.
PAUSE_SECONDS = SLOW_WAIT.default  # longer than an ordinary pause
LONG_SECONDS = REFILL_WAIT.default  # longer than nearly all work
HANGS_AFTER_SECONDS = 60.0  # without an acknowledgement, before a consumer is taken to hang
FORGETS_FROM = 50  # messages held, none acknowledged: more than anybody works on at once
