"""Whether `consume` may attach: to a copy always, to a subscription in use only on request."""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_doctor.broker.admin import topic_name
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.stats.topic import SubscriptionStats
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.consume.engines import Plan
from pulsar_doctor.parts.consume.visiting.leavings import Visit
from pulsar_doctor.parts.consume.visiting.presence import Present, look
from pulsar_doctor.wording.printable import listed, many, printable

SHOWN = 3  # consumers by name


def enter(
    settings: Settings,
    plan: Plan,
    *,
    thrown_away: bool,
    take: bool = False,
    create: bool = False,
) -> Visit:
    """Reads what is there. thrown_away: the subscription is our own, and is removed in the end.

    take, create: the user allows that messages are taken, that a topic is created.

    Raises InputError where messages are somebody's or what was requested has no meaning,
    DoctorError where there is no such topic, or too little is known without the user's consent.
    """
    topic_name(plan.topic)
    try:
        there = look(settings, plan)
    except InputError:
        raise
    except DoctorError as error:
        enough = create if thrown_away else take
        if not enough:
            raise _unknown(error, plan, thrown_away=thrown_away) from error
        return Visit(plan, None, thrown_away, create)
    _require_allowed(there, plan, take=take, create=create)
    return Visit(plan, there, thrown_away, create)


def _require_allowed(there: Present, plan: Plan, *, take: bool, create: bool) -> None:
    if not there.exists and not create:
        text = there.absent or f"there is no topic {there.topic}"
        end = "" if text.endswith("?") else ";"
        raise DoctorError(f"{text}{end} --create makes one in a namespace that exists")
    if somebodys(there) and not take:
        raise InputError(
            f"{summary(there, plan)}: nothing is taken from it unless --take-messages is given; "
            "without -s, consume reads a copy, and no other consumer misses a message"
        )


def somebodys(there: Present) -> bool:
    """Whether messages wait in the subscription, or may, or somebody else is attached to it."""
    return any(held.msg_backlog != 0 or held.consumers != () for held in there.held.values())


def _unknown(error: DoctorError, plan: Plan, *, thrown_away: bool) -> DoctorError:
    what = f"what {plan.subscription} on {plan.topic} holds"
    way = "give --take-messages if its messages are yours to take"
    if thrown_away:
        what, way = f"whether there is a topic {plan.topic}", "give --create if one may be created"
    return DoctorError(f"the REST API (--admin-url) does not tell {what}: {error}; or {way}")


def summary(there: Present, plan: Plan) -> str:
    """The subscription as it is there, as a person says it."""
    parts = sorted(there.held)
    where = parts[0]
    if len(parts) > 1:
        where = f"{many(len(parts), 'partition')} of {there.topic}"
    held = list(there.held.values())
    return f"{plan.subscription} exists on {where} with {_backlog(held)} and {_consumers(held)}"


def _backlog(held: Sequence[SubscriptionStats]) -> str:
    known = [each.msg_backlog for each in held if each.msg_backlog is not None]
    if len(known) < len(held):
        return "a backlog that is not reported"
    return f"a backlog of {sum(known):,}" if sum(known) else "no backlog"


def _consumers(held: Sequence[SubscriptionStats]) -> str:
    attached = [consumer for each in held for consumer in each.consumers or ()]
    if not attached:
        return "no consumers"
    names = dict.fromkeys(
        f"{consumer.consumer_name or 'nameless'} at {(consumer.address or '?').removeprefix('/')}"
        for consumer in attached
    )
    return f"{many(len(attached), 'consumer')} ({printable(listed(list(names), SHOWN))})"
