"""What changed between two rounds of --watch: verdicts and backlogs.

A subscription with a topic that could not be read in a round keeps what was known of it; only one
with a topic that was read without it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pulsar_doctor.checkup.result import STATUSES, Checkup
from pulsar_doctor.diagnosis.short_form import place
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.diagnosis.verdict import Diagnosis, VerdictKey
from pulsar_doctor.ledger.topics import split_partition, split_segment
from pulsar_doctor.report.stall_check.tree import JudgedFleet, JudgedSubscription
from pulsar_doctor.report.words import cause


@dataclass(frozen=True, slots=True)
class KnownSubscription:
    """A subscription, all its partitions together."""

    status: Status
    backlog: int | None  # entries; None: not reported


@dataclass(frozen=True, slots=True)
class Turned:
    """A verdict that turned."""

    at: datetime
    topic: str
    subscription: str
    before: Status | None  # None: it is new
    now: Status | None  # None: it has gone
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """One check of a watch, read to its end."""

    checkup: Checkup
    fleet: JudgedFleet
    known: Mapping[VerdictKey, KnownSubscription]  # all subscriptions, after it
    # as `known`, before it; None: it is the first
    before: Mapping[VerdictKey, KnownSubscription] | None
    changes: tuple[Turned, ...] = ()

    def was(self, folded: JudgedSubscription) -> KnownSubscription | None:
        """What was known of a subscription before."""
        return (self.before or {}).get(folded.key)

    def turned_from(self, folded: JudgedSubscription) -> Status | None:
        """The verdict that it had, where that was another one."""
        was = self.was(folded)
        return was.status if was and was.status != folded.status else None


def next_round(checkup: Checkup, before: Mapping[VerdictKey, KnownSubscription] | None) -> Round:
    """Reads a checkup to its end. before: what the last round knew; None in the first."""
    fleet, seen = JudgedFleet(), dict[VerdictKey, KnownSubscription]()
    for diagnosis in checkup.examined():
        fleet.add(diagnosis)
        if diagnosis.part is None:
            key = diagnosis.topic, diagnosis.subscription
            seen[key] = KnownSubscription(diagnosis.status, diagnosis.backlog)
    seen |= {each.key: KnownSubscription(each.status, each.backlog) for each in fleet.known}
    unread = {split_segment(split_partition(topic)[0])[0] for topic, _ in checkup.unreachable}
    vague = any("://" not in each for each in unread)  # a namespace, a broker, or the rest
    kept = {key: was for key, was in (before or {}).items() if vague or key[0] in unread}
    known = kept | seen
    causes = {each.key: cause(each.worst.shown) for each in fleet.unwell}
    found = () if before is None else _changes(checkup.checked_at, before, known, causes)
    return Round(checkup, fleet, known, before, tuple(found))


def _changes(
    at: datetime,
    before: Mapping[VerdictKey, KnownSubscription],
    now: Mapping[VerdictKey, KnownSubscription],
    causes: Mapping[VerdictKey, str],
) -> Iterable[Turned]:
    """The worst first; a healthy one that is new is no event."""
    found = [
        Turned(at, *key, _status(before, key), _status(now, key), causes.get(key, ""))
        for key in sorted(before.keys() | now.keys())
        if _status(before, key) != _status(now, key)
    ]
    shown = [each for each in found if each.before is not None or each.now != "healthy"]
    return sorted(shown, key=lambda each: STATUSES.index(each.now) if each.now else len(STATUSES))


def _status(known: Mapping[VerdictKey, KnownSubscription], key: VerdictKey) -> Status | None:
    return known[key].status if key in known else None


def alone(shown: Diagnosis) -> str:
    """What this round alone says, where that is better than what is shown."""
    steady = shown.steady
    if steady is None or steady.alone == steady.status:
        return ""
    return f"  (now {steady.alone}: one more round decides)"


def change_words(change: Turned, arrow: str) -> str:
    """`billing on public/default/orders: healthy → stalled, permits-exhausted of worker-3`."""
    before, now = change.before or "new", change.now or "gone"
    because = f", {change.cause}" if change.cause else ""
    return f"{place((change.topic, change.subscription))}: {before} {arrow} {now}{because}"
