"""Joins thread dumps that somebody brings with what a broker reports of the same incident.

A dump names no consumer and no address, unless the log around it does. So it is taken to be of the
consumers with a client that writes such dumps, where they share one address; or else of the one
address with consumers that hold messages and do not go on, where one dump alone shows a thread that
may be why. Otherwise it decides nothing, and what it shows is a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from pulsar_doctor.checkup.result import REST, Checkup
from pulsar_doctor.diagnosis.actions.threads import sentence
from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.evidence.by_process import named, seated
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.dumps.thread_dump import ThreadDump, in_order, process_of
from pulsar_doctor.evidence.process_report import ProcessReport, Sitting
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.ledger.clients import clients_of
from pulsar_doctor.wording.printable import many

DUMPED_BY = {"jvm": "jcmd", "go": "pprof", "python": "py-spy"}  # as the table of clients calls it
NOTES_MOST = 6  # of one process
BY_PROCESS = {"listener-stuck", "nobody-receives", "receive-deadlock", "pool-stuck"}  # causes
STILL_MOVES = (
    "whether a thread hangs for good is not decided: bring a dump of a minute later as well"
)
FIRST = ("listens", "acknowledges", "receives", "application")


@dataclass(frozen=True, slots=True)
class Dumped:
    """Every process of which there are dumps."""

    processes: tuple[ProcessReport, ...]
    ends: tuple[frozenset[str], ...]  # of each, as far as a log names them

    @classmethod
    def of(cls, dumps: Iterable[ThreadDump], apart_seconds: float | None) -> Dumped:
        """Collects dumps of one process. apart_seconds: from one to the next, if known."""
        processes: list[list[ThreadDump]] = []
        for each in dumps:
            same = next((those for those in processes if each.is_of(those[0])), None)
            if same is None:
                processes.append([each])
            else:
                same.append(each)
        ends = (frozenset().union(*(each.ends for each in those)) for those in processes)
        found = (process_of(in_order(those), apart_seconds) for those in processes)
        return cls(tuple(found), tuple(ends))

    def joined(self, view: SubscriptionView) -> SubscriptionView:
        """A view with where the threads of its consumers are, as far as dumps can be of them."""
        for kind in DUMPED_BY:
            process, consumers = self._fitting(view, kind)
            if process is not None:
                ends: dict[str | None, list[str]] = {}
                for each in consumers:
                    ends.setdefault(each.address, []).append(named(each.name, view.full_topic))
                view = seated(view, process, ends)
        return view

    def _fitting(
        self, view: SubscriptionView, kind: str
    ) -> tuple[ProcessReport | None, Sequence[ConsumerView]]:
        """The process of this kind, and the consumers that it is taken to have."""
        these = [each for each in self.processes if each.kind == kind]
        for process, ends in zip(self.processes, self.ends, strict=True):
            at_end = [each for each in view.consumers or () if each.address in ends]
            if process.kind == kind and at_end:
                return process, at_end
        may_be = [each for each in view.consumers or () if _is_dumped_by(each, DUMPED_BY[kind])]
        if len(these) == 1 and len({each.address for each in may_be}) == 1:
            return these[0], may_be
        blocked = [each for each in these if is_blocked(each)]
        rest = [each for each in may_be if _rests(each)]
        if len(blocked) == 1 and len({each.address for each in rest}) == 1:
            return blocked[0], rest
        return None, ()

    def noted(self, verdicts: Iterable[Diagnosis], checkup: Checkup) -> Iterator[Diagnosis]:
        """The verdicts; then notes on what the dumps show, where no finding rests on them.

        That a thread hangs for a while is a warning, and no comfort: it may hang for ever.
        """
        decided = False
        for each in verdicts:
            by_dumps = any(one.code in BY_PROCESS for one in each.findings)
            if by_dumps and each.status == "warning":
                checkup.unreachable.append((REST, STILL_MOVES))
            decided |= by_dumps
            yield each
        if not decided:
            checkup.notes += [(REST, note) for note in self.notes]

    @property
    def notes(self) -> Iterator[str]:
        """What each process shows by itself, a sentence each, what may be wrong first."""
        for each in self.processes:
            yield from islice(_notes(each), NOTES_MOST)


def is_blocked(process: ProcessReport) -> bool:
    """Whether one of its threads may be why a consumer does not go on."""
    roles = {each.role for each in process.threads}
    works = bool(roles & {"listens", "acknowledges"}) or any(
        each.of_client for each in process.threads
    )
    return bool(process.deadlocks or process.pools) or works or "receives" not in roles


def _is_dumped_by(consumer: ConsumerView, tool: str) -> bool:
    """Whether it may be of a process that this tool dumps; it may where its client is not known."""
    clients = clients_of(consumer.client_version)
    return not clients or any(tool in each.dump[0] for each in clients)


def _rests(consumer: ConsumerView) -> bool:
    """Whether it holds messages, and nothing shows that it moves."""
    return not (consumer.holds_nothing or consumer.moved or consumer.works)


def _notes(process: ProcessReport) -> Iterator[str]:
    where = f"the thread dump of {process.name}"
    for names in process.deadlocks:
        yield f"{where}: deadlock, {' and '.join(names)} wait for each other"
    threads: Mapping[str, list[Sitting]] = {role: [] for role in FIRST}
    for each in process.threads:
        if each.of_client:
            yield f"{where}: {sentence([each])}"
        elif each.role in threads:
            threads[each.role].append(each)
    for pool in process.pools:
        yield f"{where}: all {many(len(pool.threads), 'thread')} of a pool have work"
    for role, words in WORDS.items():
        if threads[role]:
            yield f"{where}: {words}{sentence(threads[role][:1])}{_more(threads[role])}"
    if not (threads["listens"] or threads["receives"]):
        yield f"{where}: no thread calls receive, and no listener runs"


WORDS = {
    "listens": "a listener runs: ", "acknowledges": "acknowledging: ",
    "receives": "receiving: ", "application": "",
}  # fmt: skip


def _more(threads: Sequence[Sitting]) -> str:
    return f", and {len(threads) - 1} more" if len(threads) > 1 else ""
