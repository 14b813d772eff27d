"""Merges two views of a subscription: known wins over unknown, exact over bounds, new over old.

*The same consumer* is one of the same name that is alone with it on both sides, and that connected
at the same moment as far as both tell. What the older view knows of its state holds only if nothing
has moved since: the newer one tells a silence that reaches back to then. What does not change with
time (its queue, its client, what it was sent first) holds anyway.

Whoever saw each FLOW knows how the consumer asks, also while it moves if both views are of the same
moment; where neither has, as in a capture that was begun later, the bounds of both hold together.
The broker knows what is left, its limits, and who is there. Permits of the same quiet moment that
differ are kept as a disagreement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE
from pulsar_doctor.evidence.circulation import Circulation
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.hole import AckHole
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.numbers import Merge, merged_by
from pulsar_doctor.evidence.subscription import Disagreement, SubscriptionView
from pulsar_doctor.evidence.values import Count, exact, narrowed
from pulsar_doctor.ledger.left_behind import LeftBehind

SETTLED_MS = 2000  # on the way between both, and the steps of the broker's clock
SAME_CONNECTION_MS = 5000
BY_FLOWS = merged_by(Merge.FLOWS, Merge.FLOWS_BOUND, Merge.QUEUE, Merge.QUEUE_BOUND)
LASTING = merged_by(Merge.QUEUE, Merge.QUEUE_BOUND)
BOUNDED_ALWAYS = merged_by(Merge.QUEUE_BOUND)
BOUNDED = (*BOUNDED_ALWAYS, *merged_by(Merge.FLOWS_BOUND))
COUNTED = merged_by(Merge.COUNT)
AGES = merged_by(Merge.AGE)
BY_MESSAGE = ("recent", "count_most", "out")  # of a Circulation


def merged(one: SubscriptionView, other: SubscriptionView) -> SubscriptionView:
    """One view of both. They are of the same subscription of the same topic or partition.

    A side without known numbers (`gap`, `refused`) is ignored where the other one has them.
    """
    newer, older = _by_age(one, other)
    for view, rest in ((newer, older), (older, newer)):
        if (view.gap or view.refused) and not (rest.gap or rest.refused):
            return replace(rest, sources=one.sources | other.sources)
    joined = replace(newer, **{name: _newest_known(newer, older, name) for name in _names(newer)})
    consumers, disagreements = _consumers(newer, older)
    labels = [consumer.label for consumer in consumers or ()]
    active = [at for at, each in enumerate(consumers or ()) if each.active]
    return replace(
        joined,
        sources=one.sources | other.sources,
        incarnations=one.incarnations | other.incarnations,
        consumers=consumers,
        unacked=newer.unacked if newer.backlog else older.unacked if older.backlog else None,
        left_behind=_left_behind(newer, older),
        hole=_hole(newer, older),
        circulation=_circulation(newer, older, labels),
        left=_left(joined, consumers),
        active=active[0] if joined.active is not None and len(active) == 1 else None,
        disagreements=disagreements,
        gap=newer.gap,
        cannot_be=one.cannot_be + other.cannot_be,
        refused=newer.refused,
    )


def _by_age(
    one: SubscriptionView, other: SubscriptionView
) -> tuple[SubscriptionView, SubscriptionView]:
    later = one.moment_ms is None or (other.moment_ms or 0) <= one.moment_ms
    return (one, other) if later else (other, one)


def _names(view: SubscriptionView) -> list[str]:
    return [field.name for field in fields(view)]


def _newest_known(newer: SubscriptionView, older: SubscriptionView, name: str) -> Any:
    value = getattr(newer, name)
    return getattr(older, name) if value is None else value


def _left(joined: SubscriptionView, consumers: Sequence[ConsumerView] | None) -> Count | None:
    """Where one consumer is sent all: the backlog less what is held, if both are reported."""
    left, entries = joined.left, joined.backlog.entries if joined.backlog else None
    held = [exact(each.unacked_entries) for each in consumers or ()]
    known = [each for each in held if each is not None]
    if left is None or entries is None or joined.type not in SINGLE_ACTIVE:
        return left
    if not known or len(known) < len(held):
        return left
    rest = max(0, entries - sum(known))
    return narrowed(left, Count(rest, rest)) or left


def _left_behind(newer: SubscriptionView, older: SubscriptionView) -> LeftBehind | None:
    """By a trace, unless statistics of a later moment say who is attached."""
    found = newer.left_behind or older.left_behind
    if found is None:
        return None
    with_stats = [
        view for view in (newer, older) if STATS in view.sources and view.attended is not None
    ]
    later = any((view.moment_ms or 0) * 1000 > found.left_us for view in with_stats)
    return None if later else found


def _hole(newer: SubscriptionView, older: SubscriptionView) -> AckHole | None:
    """The broker knows every acknowledged range; a trace, not even of each ack what it passed."""
    here, there = newer.hole, older.hole
    if here is None or there is None:
        return there if here is None else here
    if (newer.moment_ms or 0) - (older.moment_ms or 0) > SETTLED_MS:
        return here
    by_older = newer.backlog is None and older.backlog is not None and here.ranges <= 0
    ranges = there if by_older else here
    holder = max(here, there, key=lambda each: each.passed)  # who holds it, a trace knows better
    return replace(ranges, passed=holder.passed, held=holder.held)


def _circulation(
    newer: SubscriptionView, older: SubscriptionView, there: Sequence[str]
) -> Circulation | None:
    """By counters, and message by message where that is reported of everybody."""
    counted = next((v.circulation for v in (newer, older) if v.backlog is not None), None)
    for view in (newer, older):
        circulation = view.circulation
        if circulation is not None and circulation.recent is not None:
            seen = {consumer.label for consumer in view.consumers or ()}
            if seen >= set(there):
                by_message = {name: getattr(circulation, name) for name in BY_MESSAGE}
                return circulation if counted is None else replace(counted, **by_message)
    return counted


def _consumers(
    newer: SubscriptionView, older: SubscriptionView
) -> tuple[tuple[ConsumerView, ...] | None, tuple[Disagreement, ...]]:
    if newer.consumers is None or older.consumers is None:
        return newer.consumers if older.consumers is None else older.consumers, ()
    apart = max(0, (newer.moment_ms or 0) - (older.moment_ms or 0)) if older.moment_ms else None
    # Who is not there for the broker has left; who is not on the wire may go another way.
    everybody = newer if newer.backlog is not None or older.backlog is None else older
    rest = older if everybody is newer else newer
    known = {each.name: each for each in _alone(rest.consumers or ())}
    alone = {each.name for each in _alone(everybody.consumers or ())}
    joined, disagreements = [], []
    for consumer in everybody.consumers or ():
        same = known.get(consumer.name) if consumer.name in alone else None
        if same is None or not _one_connection(consumer, same, apart, everybody is newer):
            joined.append(consumer)
            continue
        pair = (consumer, same) if everybody is newer else (same, consumer)
        found, differ = _consumer(*pair, apart)
        found = replace(found, number=consumer.number, label=consumer.label)
        # As the broker writes it, by which its process is found.
        joined.append(replace(found, address=consumer.address or found.address))
        disagreements += differ
    return tuple(joined), tuple(disagreements)


def _alone(consumers: Sequence[ConsumerView]) -> list[ConsumerView]:
    """Consumers with names that nobody else has."""
    names = Counter(each.name for each in consumers)
    return [each for each in consumers if each.name is not None and names[each.name] == 1]


def _one_connection(
    one: ConsumerView, same: ConsumerView, apart: int | None, one_is_newer: bool
) -> bool:
    if one.connected_for is None or same.connected_for is None or apart is None:
        return True
    if not (one.connected_for.exact and same.connected_for.exact):
        return True
    difference = one.connected_for.ms - same.connected_for.ms - (apart if one_is_newer else -apart)
    return abs(difference) <= SAME_CONNECTION_MS


def _consumer(
    newer: ConsumerView, older: ConsumerView, apart: int | None
) -> tuple[ConsumerView, list[Disagreement]]:
    """One consumer. apart: milliseconds between both views; None where that is not known."""
    still = apart is not None and _stood_still(newer, apart)
    at_once = apart is not None and apart <= SETTLED_MS
    values = {f.name: _of_two(newer, older, f.name, f.default) for f in fields(newer)}
    asking = older if newer.flows is None and older.flows is not None else newer
    if asking is newer or still or at_once:
        values |= {name: getattr(asking, name) for name in BY_FLOWS}
    else:
        values |= {name: getattr(newer, name) for name in BY_FLOWS}
        values |= {name: getattr(older, name) for name in LASTING}
    if newer.flows is None and older.flows is None:
        for name in BOUNDED if still else BOUNDED_ALWAYS:
            values[name], _ = _narrowed(getattr(newer, name), getattr(older, name))
    differ: list[Disagreement] = []
    for name in COUNTED:
        values[name] = getattr(newer, name)
        if still:
            values[name], contradicts = _narrowed(getattr(newer, name), getattr(older, name))
            contradicts &= not values[
                "blocked_consumer_on_unacked_msgs"
            ]  # by the limit: FLOWs are set aside
            if contradicts and name == "available_permits" and _stood_still(older, SETTLED_MS):
                shown = (str(getattr(newer, name)), str(getattr(older, name)))
                differ.append(Disagreement(newer.label, *shown))
    for name in AGES:
        values[name] = _younger(getattr(newer, name), getattr(older, name), apart)
    if values["blocked_consumer_on_unacked_msgs"]:
        values["acks"] = newer.acks if newer.blocked_consumer_on_unacked_msgs else older.acks
    values["watched"] = newer.watched or older.watched
    return ConsumerView(**values), differ


def _stood_still(newer: ConsumerView, apart: int) -> bool:
    """Whether nothing of it has moved since the older view."""
    return newer.quiet_for is not None and newer.quiet_for.ms >= apart + SETTLED_MS


def _of_two(newer: ConsumerView, older: ConsumerView, name: str, unknown: Any) -> Any:
    """What the newer one tells; False tells nothing where it is what an unfilled field has."""
    value = getattr(newer, name)
    untold = value is None or (value is False and unknown is False)
    return getattr(older, name) if untold else value


def _narrowed(newer: Count | None, older: Count | None) -> tuple[Count | None, bool]:
    """Both together, and whether they contradict; then the newer one is taken."""
    if newer is None or older is None:
        return newer or older, False
    both = narrowed(newer, older)
    return (newer, True) if both is None else (both, False)


def _younger(newer: Age | None, older: Age | None, apart: int | None) -> Age | None:
    """The later of two signs: an exact one where both could tell, as of the newer view."""
    if older is None or apart is None:
        return newer
    shifted = Age(older.ms + apart, older.exact)
    if newer is None:
        return shifted
    if newer.exact != shifted.exact:
        return newer if newer.exact else shifted
    return min(newer, shifted, key=lambda age: age.ms)
