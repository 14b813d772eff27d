"""Subscriptions that stand still for one cause, as one: nobody reads fifty rows that say the same.

Dead test subscriptions are one line, and the one that has stalled beside them stands out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pulsar_doctor.checkup.result import STATUSES
from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.ledger.consumers import PERSISTENT
from pulsar_doctor.report.stall_check.causes import first_cause
from pulsar_doctor.report.stall_check.folding import Alike, Folded
from pulsar_doctor.report.words import backlog, moved
from pulsar_doctor.wording.printable import listed, many, printable

APART_MOST = 5  # of one cause that have a row or a block each
NAMED_MOST = 3


@dataclass(frozen=True, slots=True)
class Group:
    """One subscription, or many with one verdict and one cause, the largest backlog first."""

    members: Sequence[Folded]

    @property
    def worst(self) -> Alike:
        """Of the first of them."""
        return self.members[0].alike()[0]

    @property
    def entries(self) -> int | None:
        """The backlogs that are told, together; None where none is."""
        told = [each.backlog for each in self.members if each.backlog is not None]
        return sum(told) if told else None

    @property
    def growth(self) -> int:
        """By how much they grew in the window, as far as told."""
        return sum(each.vitals.change or 0 for each in self.members)

    @property
    def subscriptions(self) -> str:
        """`48 subscriptions: audit, billing, mail and 45 more`, each name once."""
        names = dict.fromkeys(printable(each.subscription) for each in self.members)
        return f"{many(len(self.members), 'subscription')}: {listed(list(names), NAMED_MOST)}"

    @property
    def topics(self) -> str:
        """Likewise; only its name where there is one."""
        told = (each.topic.removeprefix(PERSISTENT) for each in self.members)
        names = list(dict.fromkeys(printable(name) for name in told))
        first = listed(names, NAMED_MOST)
        return first if len(names) == 1 else f"{len(names)} topics: {first}"

    @property
    def cost(self) -> str:
        """`backlog 12345 in all, growing by 17`."""
        if self.entries is None:
            return "backlog not told"
        whole = all(each.backlog is not None for each in self.members)
        least, how = "" if whole else "at least ", moved(self.growth)
        return f"backlog {least}{backlog(self.entries)} in all{', ' if how else ''}{how}"


def grouped(unwell: Iterable[Folded], *, apart: bool = False) -> list[Group]:
    """By their first cause, the worst first, then what costs most. apart: each for itself."""
    causes: dict[tuple[object, ...], list[Folded]] = {}
    for folded in unwell:
        causes.setdefault((folded.status, _cause(folded.alike()[0].shown)), []).append(folded)
    groups: list[Group] = []
    for members in causes.values():
        if apart or len(members) <= APART_MOST:
            groups += [Group([each]) for each in members]
        else:
            groups.append(Group(members))
    return sorted(groups, key=_costliest_first)


def _cause(diagnosis: Diagnosis) -> object:
    return first_cause(diagnosis) or diagnosis.not_told[:1]


def _costliest_first(group: Group) -> tuple[int, int, int]:
    return STATUSES.index(group.members[0].status), -(group.entries or 0), -group.growth
