"""Adds to a finding where its consumer is, since when it lasts, and who is affected.

A cause decides; what is shown beside that is the same for every cause, so it is added here, once.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

from pulsar_doctor.diagnosis.actions.sentence import remedy
from pulsar_doctor.diagnosis.answers import Finding, Suspect
from pulsar_doctor.diagnosis.impact import impact_of
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.deadlines import Deadline
from pulsar_doctor.evidence.numbers import REPORTED, ReportedConsumer
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.durations import moment_of

# Measures of a finding that are the age of its trouble.
LASTING = frozenset(
    {"quiet_for", "since_work", "holds_since", "mark_delete_stood", "nobody_for", "stood_for"}
)
VALUES = attrgetter(*(each.name for each in REPORTED))


def with_context(
    view: SubscriptionView, finding: Finding, deadlines: tuple[Deadline, ...] = ()
) -> Finding:
    """The finding, with what the view tells beside it."""
    named = _named(view, finding)
    return replace(
        finding,
        since=_since(view, finding, named),
        where=None if named is None else named.whereabouts,
        impact=impact_of(view, finding, named, deadlines),
    )


def consumers_of(view: SubscriptionView) -> tuple[ReportedConsumer, ...] | None:
    """Every consumer with its numbers; None where they are not reported."""
    if view.consumers is None:
        return None
    return tuple(ReportedConsumer(*VALUES(each)) for each in view.consumers)


def remedy_of(view: SubscriptionView, suspect: Suspect, general: str | None) -> str | None:
    """What to do if it is that. general: for everybody; None: it depends on who it is."""
    of = (suspect.consumer, suspect.where)  # a name may be that of several
    who = next((one for one in view.consumers or () if (one.label, one.whereabouts) == of), None)
    return remedy(view, who) if general is None and who is not None else general


def _named(view: SubscriptionView, finding: Finding) -> ConsumerView | None:
    """The consumer that a finding names; None where it has gone."""
    called = [each for each in view.consumers or () if each.label == finding.consumer]
    if len(called) > 1:  # of one name, one of which has left: the finding tells which
        addresses = {each.value for each in finding.evidence if each.name == "address"}
        called = [each for each in called if each.address in addresses]
    return called[0] if len(called) == 1 else None


def _since(view: SubscriptionView, finding: Finding, named: ConsumerView | None) -> str | None:
    """At the latest, as RFC 3339; None of a consumer that works, as silence is its rhythm."""
    if view.moment_ms is None or (named is not None and named.works):
        return None
    ages = (each.value for each in finding.evidence if each.name in LASTING)
    lasted = next((age for age in ages if isinstance(age, int | float)), None)
    return None if lasted is None else moment_of(view.moment_ms - round(lasted * 1000))
