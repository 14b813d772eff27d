"""Which causes are impossible, each with the number that excludes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pulsar_doctor.diagnosis.answers import RuledOut
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.consumer_clues import of_consumers
from pulsar_doctor.diagnosis.observing import Clues, first_of
from pulsar_doctor.diagnosis.subscription_clues import of_subscription
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView


def ruled_out(view: SubscriptionView, hypotheses: Iterable[Hypothesis]) -> tuple[RuledOut, ...]:
    """What it cannot be, each with the number that excludes it."""
    if view.refused or view.gap:
        return ()
    whole, seen = of_subscription(view), of_consumers(view)
    found = ((each.code, _excluded(view, each, whole, seen)) for each in hypotheses)
    return tuple(RuledOut(code, because) for code, because in found if because)


def _excluded(
    view: SubscriptionView,
    of: Hypothesis,
    whole: Clues,
    seen: Sequence[tuple[ConsumerView, Clues]],
) -> str | None:
    because = first_of(of.excluded, whole, view)
    if because is not None:
        return because.text
    if not of.not_by:
        return None
    found = [first_of(of.not_by, clues, view, each) for each, clues in seen]
    reasons = [each.text for each in found if each is not None]
    if not reasons or len(reasons) < len(found):
        return None
    if len(set(reasons)) == 1:
        return reasons[0]
    others = "other" if len(reasons) == 2 else f"{len(reasons) - 1} others"
    return f"{reasons[0]}; the same excludes the {others}"
