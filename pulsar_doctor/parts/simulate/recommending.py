"""Recommends one of several queue sizes, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pulsar_doctor.parts.simulate.outcome import (
    QUEUES,
    SAME_SECONDS,
    SAME_SHARE,
    Recommendation,
    RunOutcome,
)
from pulsar_doctor.wording.durations import duration

Cost = Callable[[RunOutcome], float]


def _slowness(outcome: RunOutcome) -> float:
    return 1 / outcome.per_second if outcome.per_second else float("inf")


# In this order; each leaves those that are as good as the best. The smallest of the rest is it.
COSTS: tuple[tuple[Cost, float], ...] = (
    (_slowness, 0.0),
    (lambda outcome: outcome.wait_beside_idle_seconds, SAME_SECONDS),
    (lambda outcome: outcome.stall_seconds, SAME_SECONDS),
)


def sizes_to_compare(told: Sequence[int], given: int) -> list[int]:
    """Those that were told, where there are several, or the usual ones too; and the given one."""
    return sorted({*(() if len(told) > 1 else QUEUES), *told, given})


def recommend(outcomes: Sequence[RunOutcome], given: int) -> Recommendation | None:
    """The smallest queue that costs nothing. given: what it is compared with. None of none."""
    left = sorted(outcomes, key=lambda outcome: outcome.receiver_queue_size)
    if not left:
        return None
    for cost, same in COSTS:
        best = min(map(cost, left))
        left = [each for each in left if cost(each) <= best * (1 + SAME_SHARE) + same]
    chosen = left[0]
    compared = next((o for o in outcomes if o.receiver_queue_size == given), None)
    if compared is None or compared is chosen:
        compared = outcomes[-1] if outcomes[-1] is not chosen else None
    return Recommendation(chosen.receiver_queue_size, _reason(chosen, compared))


def _reason(chosen: RunOutcome, other: RunOutcome | None) -> str:
    parts = [_rates(chosen, other), *(_differences(chosen, other) if other else ())]
    threshold = chosen.refill_threshold
    each = "each message" if threshold == 1 else f"{threshold} messages"
    parts.append(f"it sends a FLOW after {each}")
    if chosen.receiver_queue_size == 0:
        parts.append("use 1 if the topic is partitioned or has batches")
    return "; ".join(parts)


def _rates(chosen: RunOutcome, other: RunOutcome | None) -> str:
    mine = f"{chosen.per_second:.3g}"
    if other is None:
        return f"{mine} messages/s"
    if abs(chosen.per_second - other.per_second) <= SAME_SHARE * chosen.per_second:
        return f"{mine} messages/s, as with {other.receiver_queue_size}"
    return f"{mine} messages/s, with {other.receiver_queue_size} {other.per_second:.3g}"


def _differences(chosen: RunOutcome, other: RunOutcome) -> list[str]:
    told: tuple[tuple[str, Cost], ...] = (
        ("the longest stall", lambda outcome: outcome.stall_seconds),
        ("the longest wait beside an idle consumer", lambda o: o.wait_beside_idle_seconds),
    )
    parts = []
    for what, cost in told:
        mine, theirs = cost(chosen), cost(other)
        if abs(mine - theirs) > SAME_SECONDS:
            verb = "falls" if mine < theirs else "rises"
            parts.append(f"{what} {verb} from {_lasting(theirs)} to {_lasting(mine)}")
    return parts


def _lasting(seconds: float) -> str:
    return duration(seconds) if seconds else "0"
