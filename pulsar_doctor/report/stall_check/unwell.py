"""What is not healthy as a list, one cause an entry, for formats that show only the first of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pulsar_doctor.checkup.result import STATUSES
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.report.stall_check.folding import Alike, FoldedFleet
from pulsar_doctor.report.stall_check.grouping import grouped
from pulsar_doctor.report.words import cause
from pulsar_doctor.wording.printable import printable


@dataclass(frozen=True, slots=True)
class Unwell:
    """Subscriptions, or partitions of one, with one verdict for one cause; the worst is shown.

    where: which they are. cost: of many, their backlog.
    """

    worst: Alike
    where: str
    diagnoses: tuple[Diagnosis, ...]
    cost: str = ""

    @property
    def status(self) -> Status:
        """The verdict that they share."""
        return self.worst.status

    @property
    def said(self) -> str:
        """`billing on public/default/orders: permits-exhausted of worker-3`."""
        alone = not self.cost
        more = "" if alone else f", {self.cost}"
        return f"{self.where}: {cause(self.worst.shown, with_name=alone)}{more}"


def unwell_of(fleet: FoldedFleet) -> list[Unwell]:
    """The worst first, then what costs most."""
    return sorted(_each(fleet), key=lambda each: STATUSES.index(each.status))


def _each(fleet: FoldedFleet) -> Iterator[Unwell]:
    for group in grouped(fleet.unwell):
        if len(group.members) > 1:
            of_all = tuple(d for folded in group.members for d in folded.unwell)
            where = f"{group.subscriptions} on {group.topics}"
            yield Unwell(group.worst, where, of_all, group.cost)
            continue
        for alike in group.members[0].alike():
            where = f"{printable(alike.of.subscription)} on {alike.place}"
            yield Unwell(alike, where, alike.diagnoses)
