"""What sets the pace of a subscription and what each remedy would bring, in at most three rows."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

from pulsar_doctor.diagnosis.pace import SubscriptionPace
from pulsar_doctor.model.levers import Lever
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import printable

HELPS_MOST = 3


def pace_rows(pace: SubscriptionPace | None) -> Iterator[tuple[str, str]]:
    """Names and texts: what sets the pace, what helps, and what brings nothing."""
    if pace is None:
        return
    yield "pace", printable(pace.summary)
    yield from lever_rows(pace.levers)


def lever_rows(levers: tuple[Lever, ...]) -> Iterator[tuple[str, str]]:
    """What helps, the first first; and what brings nothing, with the reason."""
    if helps := [each for each in levers if each.why is None]:
        yield "helps", "; ".join(map(_helps, helps[:HELPS_MOST]))
    if nothing := [each for each in levers if each.why is not None]:
        named = " and ".join(dict.fromkeys(each.changes for each in nothing))
        yield "no use", f"{named}: {nothing[0].why}"


def _helps(lever: Lever) -> str:
    """`2 consumers: 40/s, catches up in 5 min`."""
    rate = "no limit is known then" if lever.rate == inf else f"{lever.rate:.3g}/s"
    text = f"{lever.changes}: {rate}"
    if lever.catch_up_seconds is None:
        return text
    return f"{text}, catches up in {duration(lever.catch_up_seconds)}"


def pace_json(pace: SubscriptionPace | None) -> dict[str, Any] | None:
    """The whole table; None where nothing tells."""
    if pace is None:
        return None
    return {
        "set_by": pace.set_by,
        "who": list(pace.who),
        "rate": rounded(pace.rate),
        "arrivals": rounded(pace.arrivals),
        "summary": pace.summary,
        "limits": [
            {"limit": each.limit, "most": rounded(each.most), "why": each.why}
            for each in pace.ceilings
        ],
        "levers": [lever_json(each) for each in pace.levers],
        "assumptions": list(pace.assumptions),
    }


def lever_json(lever: Lever) -> dict[str, Any]:
    """One remedy."""
    return {
        "lever": lever.lever,
        "value": rounded(lever.value),
        "rate": rounded(lever.rate),
        "gain": rounded(lever.gain),
        "catch_up_seconds": rounded(lever.catch_up_seconds),
        "why": lever.why,
    }


def rounded(number: float | None) -> float | None:
    """To the thousandth; None where no limit is known."""
    return None if number is None or number == inf else round(number, 3)
