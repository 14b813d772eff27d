"""The observer's loop: judges, reports to its parent, and answers requests.

Once a second it judges every subscription and shows all consumers, but spends no more than a fifth
of its time on that: with thousands of them the seconds become longer, so that the journal is always
followed. It begins once it has caught up with the journal, lest the past be reported as news.
Requests for counts are answered meanwhile; every other request waits until the journal is read.

The requests of the parent and the answers are in events.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.parts.tap.observer.channel import Channel
from pulsar_doctor.parts.tap.observer.events import (
    ASKS,
    EVENTS,
    Ask,
    Begin,
    Compare,
    Counted,
    CountRows,
    Gap,
    Keep,
    Kept,
    NotLetIn,
    ObserverEvent,
    PassedBy,
    Seal,
    Sealed,
    Trouble,
    Verdict,
)
from pulsar_doctor.parts.tap.observer.snapshot import snapshot
from pulsar_doctor.parts.tap.observer.strays import Strays
from pulsar_doctor.parts.tap.relay.lines import Strange
from pulsar_doctor.parts.tap.verdicts import Verdicts
from pulsar_doctor.trace.sealing import Sealer
from pulsar_doctor.wire.columns import GAP, Row
from pulsar_doctor.wording.gate import Once, warn

EVERY_SECONDS = 1.0
TURN_SECONDS = 0.05  # of judging, before the journal is looked at again
SHARE = 0.1  # of its time, at most, for judging, and as much for showing
ROWS_BETWEEN = 4096  # while it catches up: between two readings of the clock
DRAIN_SECONDS = 10.0


class Allowance:
    """When there is time again for something that may take only a share of it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due = 0.0
        self._began = 0.0

    def begin(self) -> bool:
        """Whether it may be done now; `end` is to be called after it."""
        self._began = self._clock()
        return self._began >= self._due

    def is_over(self) -> bool:
        """Whether a turn has lasted long enough."""
        return self._clock() - self._began >= TURN_SECONDS

    def end(self, at_least_seconds: float = 0.0) -> None:
        """It is done. at_least_seconds: from its beginning to the next one."""
        now = self._clock()
        rest = (now - self._began) * (1 - SHARE) / SHARE
        self._due = max(now + rest, self._began + at_least_seconds)


class Teller:
    """Beside one observer, for its life."""

    def __init__(self, channel: Channel, begin: Begin) -> None:
        causes = load()
        self._channel = channel
        self._verdicts = Verdicts(causes, limits_of(causes, begin.changes))
        self._judging, self._showing = Allowance(), Allowance()
        self._heard: list[Ask | Strange] = []  # not looked at yet
        self._awaited: list[Seal | Keep | CountRows] = []
        self._warn = Once(warn)
        self._trouble: str | None = None
        self._refused: set[str] = set()  # reasons that were reported
        self._strays = Strays()
        self._rows = 0
        self._sealer: Sealer | None = None
        self._watched: Sealer | None = None  # from when it has caught up on
        self.wait = channel.wait

    def begin(self, sealer: Sealer) -> None:
        """The rows to come are of this one."""
        self._sealer = sealer

    def row(self, row: Row) -> None:
        """Each row once, in order."""
        self._rows += 1
        self._strays.add(row)
        if row.command == GAP:
            self._tell(Gap(row.ts, row.seq, row.dropped))
        if not self._rows % ROWS_BETWEEN:
            if self._sealer is not None:
                self._answer_meanwhile(self._sealer)
            if self._watched is not None:
                self._work(self._watched)

    def hear(self) -> None:
        """What the parent wants. What it speaks of is in the journal by now, so poll after it."""
        heard, self._heard = self._heard, []
        for question in (*heard, *map(ASKS.of_json, self._channel.questions())):
            match question:
                case Seal() | Keep() | CountRows():
                    self._awaited.append(question)
                case Compare():
                    self._verdicts.broker.hear(question.answers)
                case Strange():  # a tap of another version asks
                    self._warn(f"the observer passes over what the tap asks: {question}")

    def _answer_meanwhile(self, sealer: Sealer) -> None:
        """The journal grows faster than it is read: its position may be requested all the same."""
        for question in map(ASKS.of_json, self._channel.questions()):
            if isinstance(question, CountRows):
                self._tell(self._counted(sealer))
                continue
            if isinstance(question, Compare):  # the newest says all
                self._heard = [each for each in self._heard if not isinstance(each, Compare)]
            self._heard.append(question)

    def caught_up(self, watched: Sealer) -> None:
        """The journal has been read to its end."""
        self._watched = watched
        self._answer(watched)
        if watched.trouble != self._trouble:
            self._trouble = watched.trouble
            self._tell(Trouble(watched.timeline.now_us, self._trouble))
        self._tell_who_is_missing(watched.timeline)
        self._work(watched)

    def _work(self, watched: Sealer) -> None:
        """Judges and shows, where it is time."""
        if self._judging.begin():
            self._tell_changes(watched.timeline, self._judging.is_over)
            between = self._verdicts.is_between_rounds
            self._judging.end(EVERY_SECONDS if between else 0.0)
        if self._channel.wants_more and self._showing.begin():
            shown = snapshot(watched.timeline, self._verdicts, watched.unread_bytes)
            self._channel.show(EVENTS.to_json(shown))
            self._showing.end(EVERY_SECONDS)
        self._channel.pump()

    def end(self, watched: Sealer) -> None:
        """The relay has ended and all is sealed: the last verdicts, whatever time they take."""
        self._answer(watched)
        self._tell_who_is_missing(watched.timeline)
        for _ in range(2):  # the first may only end a round that had been begun
            self._tell_changes(watched.timeline, lambda: False)
        self._tell(self._counted(watched))
        self._channel.drain(DRAIN_SECONDS)

    def _tell_who_is_missing(self, timeline: Timeline) -> None:
        """Clients that did not get through, and those that may have gone another way."""
        for reason, one in timeline.refusals.by_reason.items():
            if reason not in self._refused:
                self._refused.add(reason)
                self._tell(NotLetIn(one.first_us, reason, one.client_addr, one.client_version))
        for looked in self._strays.late(timeline.now_us):
            who = looked.topic, looked.client_addr, looked.client_version
            self._tell(PassedBy(timeline.now_us, *who))

    def _tell(self, event: ObserverEvent) -> None:
        self._channel.tell(EVENTS.to_json(event))

    def _tell_changes(self, timeline: Timeline, is_over: Callable[[], bool]) -> None:
        for change in self._verdicts.judge(timeline, is_over):
            self._tell(Verdict(timeline.now_us, change.before, change.diagnosis))

    def _counted(self, watched: Sealer) -> Counted:
        return Counted(
            at_us=watched.timeline.now_us,
            rows=watched.timeline.next_seq,
            unread_bytes=watched.unread_bytes,
            parts_sealed=watched.sealed,
            expired_rows=watched.expired_rows,
        )

    def _answer(self, watched: Sealer) -> None:
        waiting: list[Seal | Keep | CountRows] = []
        for question in self._awaited:
            if isinstance(question, CountRows):
                self._tell(self._counted(watched))
            elif question.through > watched.sealed:
                waiting.append(question)
            elif isinstance(question, Seal):
                self._tell(Sealed(watched.timeline.now_us, question.through))
            else:
                self._tell(kept(watched, question))
        self._awaited = waiting


def kept(watched: Sealer, question: Keep) -> Kept:
    """Keeps what the ring holds; what became of it."""
    path = error = None
    try:
        path = watched.keep(question.reason, question.through)
    except OSError as refused:
        error = str(refused)
    return Kept(
        at_us=watched.timeline.now_us,
        through=question.through,
        reason=question.reason,
        path=None if path is None else str(path),
        error=error,
    )
