"""Keeps the verdicts of a watch steady: worse at once, better after two rounds.

What is shown is the worse of this round's verdict and the one before it. So something new is shown
at once, and it disappears when two rounds in a row do not find it. What is unknown takes nothing
back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.short_form import in_short, place
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.diagnosis.verdict import Diagnosis, Steady, VerdictKey

# What nobody could decide is better than what was found, and worse than what is well.
WORST_FIRST: tuple[Status, ...] = ("stalled", "warning", "unknown", "healthy")


@dataclass(frozen=True, slots=True)
class SteadyChange:
    """A verdict shown that turned."""

    at: datetime
    key: VerdictKey
    before: Status | None  # None: the subscription is new
    now: Diagnosis

    def __str__(self) -> str:
        """`12:03:10 billing on public/default/orders: healthy -> stalled permits-exhausted …`."""
        turned = f"{self.before or 'new'} -> {in_short(self.now)}"
        return f"{self.at:%H:%M:%S} {place(self.key)}: {turned}"


class Steadying:
    """Keeps the last round's verdicts that were not healthy. Changes in place."""

    def __init__(self) -> None:
        self.changes: list[SteadyChange] = []  # of the newest round; complete once that is read
        self._last: dict[VerdictKey, Diagnosis] = {}  # what was not healthy
        self._shown: dict[VerdictKey, Status] = {}
        self._first = True

    def through(self, checkup: Checkup, *, alone: bool) -> Checkup:
        """The same checkup with steady verdicts; alone: with the round's own, and `steady` beside.

        To be read to its end.
        """
        self.changes = []
        checkup.diagnoses = self._steady(checkup.diagnoses, checkup, alone)
        return checkup

    def _steady(
        self, diagnoses: Iterable[Diagnosis], checkup: Checkup, alone: bool
    ) -> Iterator[Diagnosis]:
        last, shown = dict[VerdictKey, Diagnosis](), dict[VerdictKey, Status]()
        for diagnosis in diagnoses:
            key = diagnosis.key
            if diagnosis.status != "healthy":
                last[key] = diagnosis
            worse = worse_of(self._last.get(key), diagnosis)
            steady = Steady(worse.status, self._shown.get(key), diagnosis.status)
            shown[key] = worse.status
            # The first round is none, nor is a new subscription that is well.
            news = not self._first and (steady.before is not None or steady.status != "healthy")
            if news and steady.before != steady.status:
                change = SteadyChange(checkup.checked_at, key, steady.before, worse)
                self.changes.append(change)
            one = diagnosis if alone else worse
            yield replace(one, steady=steady, suppressed=worse.suppressed)
        unread = bool(checkup.unreachable)  # what could not be read has not gone
        self._last = (self._last if unread else {}) | last
        for key in shown.keys() - last.keys():
            self._last.pop(key, None)
        self._shown = (self._shown if unread else {}) | shown
        self._first = False


def worse_of(before: Diagnosis | None, now: Diagnosis) -> Diagnosis:
    """What is shown after this round. before: of the round before it; None where it was well.

    Numbers beside the findings are those of now.
    """
    if before is None or WORST_FIRST.index(now.status) <= WORST_FIRST.index(before.status):
        return now
    return replace(
        before,
        backlog=now.backlog,
        balance=now.balance,
        deadlines=now.deadlines,
        oldest_seconds=now.oldest_seconds,
        flow_seconds=now.flow_seconds,
        ranges=now.ranges,
        consumers=now.consumers,
    )
