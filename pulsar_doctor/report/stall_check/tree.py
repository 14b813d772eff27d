"""Verdicts as one tree: the fleet, its subscriptions, and what of them has the same causes.

Whatever shows verdicts reads them here. A screen is a few entries in full, or a row for each group
of subscriptions with one cause: so dead test subscriptions are one line, and the one that has
stalled beside them is easy to see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Self

from pulsar_doctor.checkup.result import STATUSES
from pulsar_doctor.diagnosis.answers import Finding
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.diagnosis.verdict import Diagnosis, VerdictKey
from pulsar_doctor.ledger.topics import NON_PERSISTENT, PERSISTENT
from pulsar_doctor.report.account import divided
from pulsar_doctor.report.stall_check.vitals import Fullest, Vitals, both, moved, total
from pulsar_doctor.report.words import READERS_REST, backlog, cause
from pulsar_doctor.wording.printable import listed, many, printable
from pulsar_doctor.wording.sentences import joined, values_in

HEALTHY_SHOWN_MOST = 10  # by name; more are only counted
PARTITIONS_SHOWN_MOST = 5
APART_MOST = 5  # subscriptions of one cause that have a row or a block each


@dataclass(slots=True)
class JudgedSubscription:
    """One subscription of one topic, with all its partitions (segments of a scalable topic)."""

    topic: str
    subscription: str
    type: str | None
    partitions: int = 0  # that were judged; 0: the topic has none
    backlog: int | None = 0  # entries of all; None: one is not reported
    unwell: list[Diagnosis] = field(default_factory=list)  # verdicts that are not healthy
    info: Finding | None = None  # of the first healthy one with something to know
    doubt: Diagnosis | None = None  # the first healthy one that may hide something
    fullest: Fullest | None = None
    vitals: Vitals = field(default_factory=Vitals)

    @classmethod
    def of(cls, diagnosis: Diagnosis) -> Self:
        """One verdict: of a topic without partitions, or of the first of them."""
        new = cls(diagnosis.whole, diagnosis.subscription, diagnosis.type)
        new.add(diagnosis)
        return new

    def add(self, diagnosis: Diagnosis) -> None:
        """One more partition, or the whole topic."""
        self.backlog = both(self.backlog, diagnosis.backlog)
        self.partitions += diagnosis.part is not None
        self.vitals.add(diagnosis)
        if diagnosis.status != "healthy":
            self.unwell.append(diagnosis)
            return
        if self.fullest is None or (diagnosis.backlog or 0) > self.fullest.backlog:
            self.fullest = Fullest.of(diagnosis)
        if diagnosis.findings:
            self.info = self.info or diagnosis.findings[0]
        if diagnosis.suspects:
            self.doubt = self.doubt or diagnosis

    @property
    def key(self) -> VerdictKey:
        """The subscription's topic and name."""
        return self.topic, self.subscription

    @property
    def status(self) -> Status:
        """The worst of its partitions."""
        return min((one.status for one in self.unwell), key=STATUSES.index, default="healthy")

    def alike(self) -> list[Alike]:
        """What is not healthy, the partitions with the same causes together, worst first."""
        ordered = sorted(self.unwell, key=_causes)
        return [Alike((self,), tuple(same)) for _, same in groupby(ordered, key=_causes)]

    @property
    def worst(self) -> Alike:
        """The first of them; only where it is not healthy."""
        return self.alike()[0]


@dataclass(frozen=True, slots=True)
class Alike:
    """Partitions of one subscription, or many subscriptions, that have the same causes."""

    members: tuple[JudgedSubscription, ...]
    # those partitions of the first subscription; the largest backlog is shown
    diagnoses: tuple[Diagnosis, ...]

    @classmethod
    def single(cls, diagnosis: Diagnosis) -> Self:
        """One verdict, of one partition or of the whole topic."""
        return cls((JudgedSubscription.of(diagnosis),), (diagnosis,))

    @property
    def of(self) -> JudgedSubscription:
        """The subscription, of many the first."""
        return self.members[0]

    @property
    def count(self) -> int:
        """How many subscriptions."""
        return len(self.members)

    @property
    def shown(self) -> Diagnosis:
        """The one with the numbers that are shown: the largest backlog."""
        return max(self.diagnoses, key=lambda diagnosis: diagnosis.backlog or 0)

    @property
    def status(self) -> Status:
        """The verdict that they share."""
        return self.diagnoses[0].status

    @property
    def verdicts(self) -> list[Diagnosis]:
        """Each partition apart; of many subscriptions all that are not healthy."""
        if self.count == 1:
            return [*self.diagnoses]
        return [diagnosis for each in self.members for diagnosis in each.unwell]

    def cause(self, *, with_name: bool) -> str:
        """What they have in common; of several readers, without numbers."""
        if self.count > 1 and self.shown.reader_rests:
            return READERS_REST
        return cause(self.shown, with_name=with_name)

    @property
    def backlog_words(self) -> str:
        """`498 entries, growing by 3 a minute`; without the number where a sentence has it."""
        of = self.of
        if of.topic.startswith(NON_PERSISTENT):
            return "none: a non-persistent topic keeps nothing"
        unit = "" if of.backlog is None else " entry" if of.backlog == 1 else " entries"
        where = f" in all {parts_of(of.topic)}s" if of.partitions > 1 else ""
        places = divided(self.shown.account) if of.partitions <= 1 else ""
        entries = "" if self._says_backlog() else f"{backlog(of.backlog)}{unit}{where}{places}"
        return ", ".join(filter(None, (entries, moved(of.vitals.growth))))

    def _says_backlog(self) -> bool:
        """Whether a sentence that is shown has it."""
        findings = () if self.status == "unknown" else self.shown.findings
        texts = (text for each in findings for text in (each.summary, each.impact or ""))
        entries = {f"{self.shown.backlog} {unit}" for unit in ("entry", "entries")}
        return self.of.partitions <= 1 and not entries.isdisjoint(values_in(joined("", texts)))

    @property
    def cost(self) -> str:
        """`backlog 12345 in all, growing by 17 a minute`; of one subscription only the backlog."""
        entries = total(each.backlog for each in self.members)
        if entries is None or self.count == 1:
            return f"backlog {backlog(entries)}"
        least = "at least " if any(each.backlog is None for each in self.members) else ""
        how = moved(total(each.vitals.growth for each in self.members))
        return f"backlog {least}{entries} in all{', ' if how else ''}{how}"

    @property
    def subscriptions(self) -> str:
        """`48 subscriptions: audit, billing, mail and 45 more`, each name once."""
        first = listed(_unique(each.subscription for each in self.members))
        unit = "reader" if self.shown.reader_rests else "subscription"
        return first if self.count == 1 else f"{many(self.count, unit)}: {first}"

    @property
    def place(self) -> str:
        """`public/default/orders, partitions 3 and 7 of 100`; `3 topics: a, b and c`."""
        topics = _unique(each.topic.removeprefix(PERSISTENT) for each in self.members)
        if self.count == 1:
            return f"{topics[0]}{partitions(self.diagnoses, self.of.partitions)}"
        first = listed(topics)
        return first if len(topics) == 1 else f"{len(topics)} topics: {first}"

    @property
    def where(self) -> str:
        """`billing on public/default/orders, partitions 3 and 7 of 100`."""
        return f"{self.subscriptions} on {self.place}"

    @property
    def summary(self) -> str:
        """`billing on public/default/orders: permits-exhausted of worker-3`.

        Of many: `6 subscriptions: a, b, c and 3 more on x: no-consumer, backlog 17 in all`.
        """
        if self.count == 1:
            return f"{self.where}: {self.cause(with_name=True)}"
        return f"{self.where}: {self.cause(with_name=False)}, {self.cost}"


@dataclass(slots=True)
class JudgedFleet:
    """Everything that was judged. Healthy topics without partitions are counted beyond a few."""

    known: list[JudgedSubscription] = field(default_factory=list)
    worst: int | None = None  # so many that are not healthy are shown; None: all
    _partitioned: dict[VerdictKey, JudgedSubscription] = field(default_factory=dict)
    _healthy_alone: int = 0  # without partitions, known or only counted

    def add(self, diagnosis: Diagnosis) -> None:
        """One more verdict."""
        alone = diagnosis.part is None
        if alone and diagnosis.status == "healthy":
            self._healthy_alone += 1
            if self._healthy_alone > HEALTHY_SHOWN_MOST:
                return
        key = diagnosis.whole, diagnosis.subscription
        if not alone and (partitioned := self._partitioned.get(key)):
            partitioned.add(diagnosis)
            return
        self.known.append(JudgedSubscription.of(diagnosis))
        if not alone:
            self._partitioned[key] = self.known[-1]

    @property
    def unwell(self) -> list[JudgedSubscription]:
        """What is not healthy, worst first, and of the same verdict the largest backlog first."""
        unwell = (each for each in self.known if each.unwell)
        worst = sorted(unwell, key=lambda each: (*_costliest_first(each), each.partitions > 0))
        return worst[: self.worst]

    @property
    def healthy(self) -> list[JudgedSubscription]:
        """The healthy subscriptions that are kept by name; `counts` has the number of all."""
        healthy = (each for each in self.known if not each.unwell)
        return sorted(healthy, key=lambda each: each.partitions > 0)

    @property
    def counts(self) -> Counter[Status]:
        """How many have which verdict, a topic's partitions as one."""
        counts = Counter(each.status for each in self.known)
        counts["healthy"] += max(0, self._healthy_alone - HEALTHY_SHOWN_MOST)
        return counts

    def grouped(self, *, apart: bool = False) -> list[Alike]:
        """What is not healthy by its first cause, the worst first, then what costs most.

        Of one that has several causes, the worst. apart: each subscription for itself.
        """
        causes: dict[tuple[object, ...], list[Alike]] = {}
        for worst in (each.worst for each in self.unwell):
            causes.setdefault((_causes(worst.shown)[:2], _shared(worst)), []).append(worst)
        groups: list[Alike] = []
        for those in causes.values():
            few = len(those) <= (1 if those[0].shown.reader_rests else APART_MOST)
            members = tuple(each.of for each in those)
            groups += those if apart or few else [Alike(members, those[0].diagnoses)]
        return sorted(groups, key=lambda group: _costliest_first(*group.members))

    @property
    def entries(self) -> list[Alike]:
        """The same for formats that show only the first cause of each entry, worst first."""
        groups = self.grouped()
        apart = (one for each in groups for one in ([each] if each.count > 1 else each.of.alike()))
        return sorted(apart, key=lambda each: STATUSES.index(each.status))


def tree_of(diagnoses: Iterable[Diagnosis], worst: int | None = None) -> JudgedFleet:
    """Builds the tree of these verdicts, in any order. worst: how many ill ones are shown."""
    fleet = JudgedFleet(worst=worst)
    for diagnosis in diagnoses:
        fleet.add(diagnosis)
    return fleet


def partitions(diagnoses: Sequence[Diagnosis], of: int) -> str:
    """`, partitions 3 and 7 of 100`; nothing for a topic without partitions."""
    numbers = sorted(d.part for d in diagnoses if d.part is not None)
    if not numbers:
        return ""
    part = parts_of(diagnoses[0].whole)
    if len(numbers) == of > 1:
        return f", all {of} {part}s"
    word = part if len(numbers) == 1 else f"{part}s"
    shown = listed([str(number) for number in numbers], PARTITIONS_SHOWN_MOST)
    return f", {word} {shown} of {of}" if of > 1 else f", {word} {shown}"


def parts_of(topic: str) -> str:
    """`segment` of a scalable topic, `partition` of any other."""
    return "segment" if topic.startswith("topic://") else "partition"


def _causes(diagnosis: Diagnosis) -> tuple[int, bool, tuple[str, ...]]:
    codes = [finding.code for finding in diagnosis.findings]
    codes += [suspect.code for suspect in diagnosis.suspects[:1]]
    return STATUSES.index(diagnosis.status), diagnosis.suppressed is not None, tuple(codes)


def _shared(worst: Alike) -> object:
    """What a group has in common: the readers of one namespace that rest, or the first cause."""
    if worst.shown.reader_rests:
        return worst.of.topic.rpartition("/")[0]
    return worst.shown.first_cause or worst.shown.unknowns[:1]


def _costliest_first(*members: JudgedSubscription) -> tuple[int, float, int, int]:
    """The worst verdict first, then the first limit that is reached, then what costs most."""
    soonest = min(diagnosis.soonest for each in members for diagnosis in each.unwell)
    entries, growth = (
        total(numbers) or 0
        for numbers in ((m.backlog for m in members), (m.vitals.growth for m in members))
    )
    return STATUSES.index(members[0].status), soonest, -entries, -growth


def _unique(names: Iterable[str]) -> list[str]:
    return [printable(name) for name in dict.fromkeys(names)]
