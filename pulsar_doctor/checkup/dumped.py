"""Joins thread dumps that somebody brings with what a broker reports of the same incident.

A dump names no consumer and no address, unless the log around it does. Two addresses are two
connections, of two processes as a rule. So it is taken to be of the consumers at one address where
these are the only ones, over all topics, with a client that writes such dumps, and no other process
of that kind was dumped, but for some in which a thread waits for messages. Otherwise it decides
nothing, and what it shows is a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.topic import ConsumerStats
from pulsar_doctor.checkup.result import REST, Checkup
from pulsar_doctor.diagnosis.actions.threads import sentence
from pulsar_doctor.diagnosis.thresholds import REFILL_WAIT, SLOW_WAIT
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.by_process import in_turn, named, seated
from pulsar_doctor.evidence.dumps.thread_dump import ThreadDump, in_order, process_of
from pulsar_doctor.evidence.process_report import ProcessReport, Sitting
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.ledger.clients import clients_of
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import listed, many

DUMPED_BY = {"jvm": "jcmd", "go": "pprof", "python": "py-spy"}  # as the table of clients calls it
NOTES_MOST = 6  # of one process
NAMED_MOST = 5  # consumers in one sentence
BY_PROCESS = {"listener-stuck", "nobody-receives", "receive-deadlock", "pool-stuck"}  # causes
STILL_MOVES = "whether a thread hangs for good is not decided: "
NEWER = (
    "no verdict here shows that, and the dumps may be newer than the statistics: take both at the "
    "same time"
)
FIRST = ("listens", "acknowledges", "receives", "application")


@dataclass(frozen=True, slots=True)
class _Dumped:
    """One process, and the consumers that it has, or may have, by address."""

    process: ProcessReport
    dumps: int
    known: bool  # a log names its addresses, or no other process may have these consumers
    consumers: Mapping[str | None, list[str]]
    how: str  # its consumers, in a sentence; "": there is nothing to say


_Placed = tuple[bool, Mapping[str | None, list[str]], str]  # as in _Dumped


@dataclass(frozen=True, slots=True)
class Dumped:
    """Every process of which there are dumps."""

    processes: tuple[_Dumped, ...]
    moving: set[str | None] = field(default_factory=set)  # addresses at which messages move

    @classmethod
    def of(
        cls,
        dumps: Iterable[ThreadDump],
        apart_seconds: float | None,
        windows: Iterable[TopicWindow] = (),
        *,
        others: bool = False,
    ) -> Dumped:
        """Collects dumps of one process. apart_seconds: from one to the next, if known.
        others: there are consumers of more topics, which nobody wants to know of."""
        found: list[list[ThreadDump]] = []
        for each in dumps:
            same = next((those for those in found if each.is_of(those[0])), None)
            if same is None:
                found.append([each])
            else:
                same.append(each)
        processes, all_ = (
            [process_of(in_order(d), apart_seconds) for d in found],
            _consumers(windows),
        )
        kinds = Counter(one.kind for one in processes)
        takes_none = Counter(one.kind for one in processes if not _receives(one))
        alone = (
            not others and (kinds if _receives(one) else takes_none)[one.kind] == 1
            for one in processes
        )
        return cls(
            tuple(
                _Dumped(process, len(these), *_placed(these, all_, only))
                for these, process, only in zip(found, processes, alone, strict=True)
            )
        )

    def joined(self, view: SubscriptionView) -> SubscriptionView:
        """A view with where the threads of its consumers are, as far as dumps can be of them."""
        self.moving.update(each.address for each in view.consumers or () if each.moved)
        for each in self.processes:
            if each.known:
                view = seated(view, each.process, each.consumers)
        return view

    def noted(self, verdicts: Iterable[Diagnosis], checkup: Checkup) -> Iterator[Diagnosis]:
        """The verdicts; then notes on what the dumps show, where no finding rests on them.

        That a thread hangs for a while is a warning, and no comfort: it may hang for ever.
        """
        decided = undecided = False
        for each in verdicts:
            by_dumps = any(one.code in BY_PROCESS for one in each.findings)
            undecided |= by_dumps and each.status == "warning"
            decided |= by_dumps
            yield each
        if undecided:
            checkup.unreachable.append((REST, STILL_MOVES + self._more))
        for one in self.processes:
            hung = () if decided or one.consumers.keys() & self.moving else _hung(one.process)
            checkup.unreachable += [
                (REST, f"{_called(one.process)}: {sentence([each])}; {NEWER}") for each in hung
            ]
            shown = [] if decided and one.known else islice(_notes(one.process), NOTES_MOST)
            checkup.notes += [(REST, note) for note in (*shown, one.how) if note]

    @property
    def _more(self) -> str:
        """What would show whether it hangs."""
        known = [each for each in self.processes if each.known]
        if not any(each.dumps > 1 for each in known):
            return "bring a dump of a minute later as well"
        longest = max(one.seconds or 0.0 for each in known for one in each.process.threads)
        if not longest:
            return "--interval gives how far the dumps are apart"
        stall = duration(REFILL_WAIT.default)
        return f"the dumps are {duration(longest)} apart, and it counts as a stall from {stall} on"


def _receives(process: ProcessReport) -> bool:
    """Whether a thread of it waits for messages: then it is not the one that takes none."""
    return any(each.role == "receives" for each in process.threads) and not process.deadlocks


def _hung(process: ProcessReport) -> list[Sitting]:
    """The first thread that takes messages, and has rested for longer than a slow one may."""
    works = (
        each for each in process.threads
        if each.role in ("listens", "acknowledges") or each.of_client or each.chain
    )  # fmt: skip
    return [each for each in works if (each.seconds or 0.0) >= SLOW_WAIT.default][:1]


def _called(process: ProcessReport) -> str:
    return f"the thread dump of {process.name}"


def _consumers(windows: Iterable[TopicWindow]) -> list[tuple[str, ConsumerStats]]:
    """Each consumer, with its name and topic in words."""
    return [
        (named(each.consumer_name, observed.full_topic), each)
        for window in windows
        for observed in window.subscriptions()
        for each in observed.now.consumers or ()
    ]


def _placed(
    these: list[ThreadDump], consumers: list[tuple[str, ConsumerStats]], alone: bool
) -> _Placed:
    """The consumers that a process has, or may have. alone: no other one of its kind was dumped,
    and these are all consumers."""
    kind, ends = these[0].kind, frozenset().union(*(each.ends for each in these))
    at_end = [each for each in consumers if each[1].address in ends]
    tool = DUMPED_BY.get(kind, kind)
    may_be = at_end or [each for each in consumers if _is_dumped_by(each[1], tool)]
    places: dict[str | None, list[str]] = {}
    for name, one in may_be:
        places.setdefault(one.address, []).append(name)
    if at_end or not places:
        return bool(at_end), places, ""
    where = f"the thread dump of {these[0].of}"
    who = listed(list(dict.fromkeys(name for name, _ in may_be)), NAMED_MOST)
    if alone and len(places) == 1 and (None not in places or len(may_be) == 1):
        at = "".join(f" at {each.removeprefix('/')}" for each in places if each)
        only = "the only client here that may write such a dump"
        return True, places, f"{where} is taken to be of {who}{at}, {only}"
    return False, places, f"{where} may be of {who}: it names none of them, so it decides nothing"


def _is_dumped_by(consumer: ConsumerStats, tool: str) -> bool:
    """Whether it may be of a process that this tool dumps; it may where its client is not known."""
    clients = clients_of(consumer.client_version)
    return not clients or any(tool in each.dump[0] for each in clients)


def _notes(process: ProcessReport) -> Iterator[str]:
    where = _called(process)
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
            first = sorted(threads[role], key=in_turn)[:1]
            yield f"{where}: {words}{sentence(first)}{_more(threads[role])}"
    if not (threads["listens"] or threads["receives"]):
        yield f"{where}: no thread calls receive, and no listener runs"


WORDS = {
    "listens": "a listener runs: ", "acknowledges": "acknowledging: ",
    "receives": "receiving: ", "application": "",
}  # fmt: skip


def _more(threads: Sequence[Sitting]) -> str:
    return f", and {len(threads) - 1} more" if len(threads) > 1 else ""
