"""Which causes are impossible, each with the number that excludes it."""

from __future__ import annotations

from collections.abc import Iterable

from pulsar_doctor.diagnosis.answers import RuledOut
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.evidence.subscription import SubscriptionView


def ruled_out(view: SubscriptionView, hypotheses: Iterable[Hypothesis]) -> tuple[RuledOut, ...]:
    """What it cannot be, each with the number that excludes it."""
    if view.refused or view.gap:
        return ()
    found = ((each.code, _excluded(view, each)) for each in hypotheses)
    return tuple(RuledOut(code, because) for code, because in found if because)


def _excluded(view: SubscriptionView, of: Hypothesis) -> str | None:
    because = None if of.excluded is None else of.excluded(view)
    if because or of.not_by is None:
        return because
    reasons = [of.not_by(view, each) for each in view.served]
    if not reasons or None in reasons:
        return None
    if len(set(reasons)) == 1:
        return reasons[0]
    others = "other" if len(reasons) == 2 else f"{len(reasons) - 1} others"
    return f"{reasons[0]}; the same excludes the {others}"
