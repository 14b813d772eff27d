"""What sets the pace of a subscription and what each remedy would bring, in at most three rows."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from pulsar_doctor.diagnosis.pace import SubscriptionPace
from pulsar_doctor.model.levers import Lever
from pulsar_doctor.wording.durations import duration, per_second

HELPS_MOST = 3


def pace_rows(pace: SubscriptionPace | None) -> Iterator[tuple[str, str]]:
    """Names and texts: what sets the pace, what helps, and what brings nothing."""
    if pace is not None:
        yield "pace", pace.summary
        yield from lever_rows(pace.levers)


def lever_rows(levers: tuple[Lever, ...]) -> Iterator[tuple[str, str]]:
    """What helps, the first first; and what brings nothing, with the reason."""
    if helps := [each for each in levers if each.why is None]:
        yield "helps", "; ".join(map(_helps, helps[:HELPS_MOST]))
    nothing = {each.lever: each for each in reversed(levers) if each.why is not None}
    reasons: dict[str | None, list[str]] = {}
    for each in reversed(nothing.values()):
        reasons.setdefault(each.why, []).append(each.changes)
    if reasons:
        yield "no use", "; ".join(f"{' or '.join(what)}: {why}" for why, what in reasons.items())


def _helps(lever: Lever) -> str:
    """`2 consumers: 40/s, catches up in 5 min`."""
    rate = "no limit is known then" if lever.rate == inf else per_second(lever.rate)
    until = lever.catch_up_seconds
    return f"{lever.changes}: {rate}{f', catches up in {duration(until)}' if until else ''}"
