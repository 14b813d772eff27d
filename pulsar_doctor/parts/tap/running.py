"""Runs a tap: relay, observer, an optional command, and signals.

What the observer reports is shown on the screen. What the screen, the observer or the broker's REST
API do is of no concern to the relay: none of them ends the tap.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.ledger.refusals import RIGHTS
from pulsar_doctor.parts.tap.broker_reports import BrokerReports
from pulsar_doctor.parts.tap.broker_side import BrokerSide
from pulsar_doctor.parts.tap.ending import (
    COMMAND_SECONDS,
    CommandEnd,
    Ending,
    EndPlan,
    LastLine,
    named,
)
from pulsar_doctor.parts.tap.events import (
    Answering,
    Counters,
    Event,
    Listening,
    Screen,
    not_recorded,
    now_us,
)
from pulsar_doctor.parts.tap.observer.events import (
    Begin,
    Compare,
    Counted,
    CountRows,
    Gap,
    Keep,
    NotLetIn,
    ObserverEvent,
    Seal,
    Snapshot,
    Trouble,
    Verdict,
)
from pulsar_doctor.parts.tap.observing import Observing
from pulsar_doctor.parts.tap.relaying import Relay
from pulsar_doctor.parts.tap.stalls import Stalls
from pulsar_doctor.trace.index import Index, read_index

LOOK_SECONDS = 0.2
ANSWER_SECONDS = 2.0
REVIVE_SECONDS, REVIVE_SECONDS_MOST = 1.0, 60.0  # between two deaths of the relay: pauses
TROUBLES = {  # counters of the relay
    "unreachable": "a broker could not be reached",
    "tls_failed": "TLS failed",
    "client_tls_failed": "TLS with a client failed",
    "targets_refused": "a broker that no lookup had named was asked for",
    "connections_refused": "clients were refused",
    "redirects_failed": "a client could not be redirected",
    "unparsed": "a connection that could not be understood",
    "frames_too_long": "a command that was too long to be looked at",
}

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class TapPlan:
    """What a tap does beside relaying."""

    folder: Path
    changes: Sequence[str] = ()  # of thresholds
    ring: bool = False  # keep it when a consumer stalls
    compare: Settings | None = None
    command: Sequence[str] = ()  # its arguments
    apart: bool = False  # send its stdout to stderr: our stdout is one document
    end: EndPlan = field(default_factory=EndPlan)  # when it ends by itself
    checks: bool = False  # whether something is expected: then its last line is kept


@dataclass(slots=True)
class TapOutcome:
    """How a tap ended."""

    code: int = 0  # of the command
    command: CommandEnd | None = None  # None: there was none, or a signal ended the tap
    dropped: int = 0  # commands that are missing in the trace
    written: int | None = None  # commands that the relays wrote; None: not known
    sealed: int | None = None  # commands that are in the trace; None: not known
    missing: int = 0  # `written` that are not sealed
    deaths: int = 0  # of relays
    hidden: bool = False  # some are missing and nobody knows how many
    seen: list[str] = field(default_factory=list)  # what was not healthy, each once, in words
    broker: BrokerReports = field(
        default_factory=BrokerReports
    )  # what it reported, where it was read

    def note(self, what: str) -> None:
        """Something that is not healthy."""
        if what not in self.seen:
            self.seen.append(what)


def run(
    relay: Relay, plan: TapPlan, screen: Screen, *, listening: Listening, begins: Sequence[str]
) -> TapOutcome:
    """Until the command ends, a signal comes, or the relay is gone, which raises DoctorError.

    listening, begins: the event and the sentences that are shown once a signal would be obeyed.
    """
    observing = Observing(plan.folder, Begin(tuple(plan.changes)), screen.warn)
    tapping = Tapping(relay, observing, plan, screen)
    try:
        with tapping.signals():
            tapping.until_over(listening, begins)
    finally:
        tapping.end()
    return tapping.outcome


@dataclass(slots=True)
class Tapping:
    """A tap that runs."""

    relay: Relay
    observing: Observing
    plan: TapPlan
    screen: Screen
    outcome: TapOutcome = field(default_factory=TapOutcome)
    _over: bool = False
    _writing: bool = False
    _signals: list[int] = field(default_factory=list)
    _gaps: int = 0  # commands that the gaps it was informed of are missing
    _topics: frozenset[str] = frozenset()
    _counters: Counters | None = None  # of the relay, until the observer's are there too
    _counters_until: float = 0.0
    _revive_at: float = 0.0
    _revive_pause: float = REVIVE_SECONDS
    _stalls: Stalls = field(init=False)
    _ending: Ending = field(init=False)
    _last_line: LastLine | None = None  # of the command, where its stderr is read

    def __post_init__(self) -> None:
        self._ending = Ending(self.plan.end)
        self._stalls = Stalls(self._flush)

    def until_over(self, listening: Listening, begins: Sequence[str]) -> None:
        """Says where clients may come, and shows what the observer tells until the end."""
        self._show(listening)
        for sentence in begins:
            self.screen.say(sentence)
        with self._comparing(), self._command() as child:
            while not self._over and (child is None or child.poll() is None):
                event = self.observing.next(LOOK_SECONDS)
                if event is not None:
                    self.hear(event)
                self.screen.look()
                self._obey_signals()
                if self.plan.ring:
                    self._stalls.look()
                if self._counters and time.monotonic() > self._counters_until:
                    self._show_counters(None)
                self._look_after_relay()
                self._look_at_time(child)
            if child is not None and not self._over:
                self.outcome.command = ended = self._ending.of_command(child, self._last_line)
                self.outcome.code = ended.code
                if ended.code:
                    self.outcome.note(f"the command ended with {named(ended.code)}")
                    self.screen.warn(f"the command ended with {named(ended.code)}")

    def _look_at_time(self, child: subprocess.Popen[bytes] | None) -> None:
        if not self._ending.requested and not self._ending.is_due():
            return
        if child is None:
            self._over = True
        else:
            self._ending.end(child)

    def _look_after_relay(self) -> None:
        """Starts it again where it was killed. Raises DoctorError where it has ended by itself."""
        code, now_seconds = self.relay.exit_code, time.monotonic()
        if code is None or now_seconds < self._revive_at:
            return
        if code == 0:  # somebody has requested it
            self.relay.check()
        if now_seconds - self._revive_at > REVIVE_SECONDS_MOST:  # it has worked for so long
            self._revive_pause = REVIVE_SECONDS
        self.outcome.note("the relay had to be started again")
        self.screen.warn(
            f"the relay ended with {code}, and with it all connections; it is started again at "
            "the same address"
        )
        try:
            self.relay.revive()
        except DoctorError as error:
            self.screen.warn(str(error))
        self._revive_at = time.monotonic() + self._revive_pause
        self._revive_pause = min(2 * self._revive_pause, REVIVE_SECONDS_MOST)

    def hear(self, event: ObserverEvent | Answering) -> None:
        """Takes one event of the observer, or that none came."""
        match event:
            case Answering() if not event.answers:
                self.outcome.note("the observer did not answer for a time")
            case Counted():
                self._show_counters(event)
                return
            case Snapshot():
                self._topics = frozenset(c.full_topic for c in event.consumers)
            case Verdict() if event.diagnosis.status != "healthy":
                self._note_verdict(event.diagnosis)
            case Trouble() if event.reason:
                self.outcome.note("the trace could not be sealed for a time")
            case NotLetIn() if event.reason.partition(":")[0] in RIGHTS:
                self.outcome.note("a client was refused")
            case Gap():
                self.outcome.hidden |= event.dropped is None
                self._gaps += event.dropped or 0
                self.outcome.dropped = max(self.outcome.dropped, self._gaps)
        self._show(event)

    def _note_verdict(self, diagnosis: Diagnosis) -> None:
        if diagnosis.status != "unknown":  # that may pass; the last verdict tells
            self.outcome.note(diagnosis.status)
        self._stalls.hear(diagnosis)

    def end(self) -> None:
        """Ends the relay, lets the observer seal the rest, and hears it out."""
        self.screen.hurry()
        with contextlib.suppress(DoctorError):  # it is gone, or hangs: then nobody knows
            counted = self.relay.counters()
            self.outcome.dropped = max(self.outcome.dropped, counted.get("records_dropped", 0))
            if cut_off := counted.get("connections_open", 0):
                many = "connections of clients are" if cut_off > 1 else "connection of a client is"
                self.screen.say(f"the tap ends; {cut_off} {many} cut off")
            for name, what in TROUBLES.items():
                if counted.get(name):
                    self.outcome.note(what)
        self.relay.stop()
        self.outcome.written, self.outcome.deaths = self.relay.written, self.relay.deaths
        self.outcome.dropped = max(self.outcome.dropped, self.relay.dropped or 0)
        for event in self.observing.finish():
            if not isinstance(event, Snapshot | Counted):
                self.hear(event)
        self.screen.close()
        if self.outcome.dropped or self.outcome.hidden:
            lost = not_recorded(self.outcome.dropped or None)
            self.outcome.note(lost)
            self.screen.say(lost)

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM end it, SIGUSR1 and SIGUSR2 are obeyed."""

        def remember(number: int, frame: object) -> None:
            if number in (signal.SIGUSR1, signal.SIGUSR2):
                self._signals.append(number)
                return
            if self._over or self._writing:  # the reader of our stdout may have stopped
                raise KeyboardInterrupt
            self._over = True

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
        before = {number: signal.signal(number, remember) for number in numbers}
        try:
            yield
        except KeyboardInterrupt:
            self._over = True
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _show(self, event: Event) -> None:
        self._writing = True
        try:
            self.screen.show(event)
        finally:
            self._writing = False

    def _obey_signals(self) -> None:
        while self._signals:
            number = self._signals.pop(0)
            if number == signal.SIGUSR1:
                self._count()
            else:
                self._flush("a signal")

    def _count(self) -> None:
        self._counters = Counters(now_us(), self._of_relay(Relay.counters), None)
        self._counters_until = time.monotonic() + ANSWER_SECONDS
        self.observing.ask(CountRows())

    def _show_counters(self, of_observer: Counted | None) -> None:
        counters, self._counters = self._counters, None
        if counters is not None:
            self._show(replace(counters, observer=of_observer))

    def _flush(self, reason: str) -> None:
        through = self._of_relay(Relay.rotate) or 0
        if self.plan.ring:
            self.observing.ask_surely(Keep(through, reason))
        else:
            self.observing.ask_surely(Seal(through))

    def _of_relay(self, ask: Callable[[Relay], Reply]) -> Reply | None:
        """What the relay answers; None where it does not, which is reported and ends nothing."""
        try:
            return ask(self.relay)
        except DoctorError as error:
            self.screen.say(str(error))
            return None

    def _comparing(self) -> contextlib.AbstractContextManager[object]:
        if self.plan.compare is None:
            return contextlib.nullcontext()
        broker = BrokerSide(
            self.plan.compare,
            topics=lambda: self._topics,
            settled=self.relay.flush,
            tell=self._pass_on,
            say=self.screen.say,
        )
        return contextlib.closing(broker)

    def _pass_on(self, question: Compare) -> None:
        """Called from the thread that asks the broker."""
        self.outcome.broker.hear(question.answers)
        self.observing.ask(question)

    @contextlib.contextmanager
    def _command(self) -> Iterator[subprocess.Popen[bytes] | None]:
        """The command, where there is one; ended if it still runs."""
        if not self.plan.command:
            yield None
            return
        url = self.relay.service_url
        arguments = [part.replace("{service_url}", url) for part in self.plan.command]
        environ = {**os.environ, "PULSAR_SERVICE_URL": url}
        try:
            child = subprocess.Popen(
                arguments,
                env=environ,
                stdout=sys.stderr if self.plan.apart else None,
                stderr=subprocess.PIPE if self.plan.checks else None,
            )
        except OSError as error:
            raise InputError(f"cannot run {arguments[0]}: {error.strerror}") from error
        self._last_line = LastLine(child.stderr) if child.stderr else None
        try:
            yield child
        finally:
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(COMMAND_SECONDS)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
            if self._last_line is not None:
                self._last_line.finish()


def reconcile(outcome: TapOutcome, folder: Path, say: Callable[[str], object]) -> None:
    """Compares what the relay wrote with what the trace has, once all of it is sealed.

    A journal that somebody deleted before it was sealed is missing here and reported nowhere else.
    What a relay that died had in hand, and had not written, nobody has counted.
    """
    outcome.sealed = commands_in(read_index(folder))
    if outcome.written is None:
        return
    if outcome.deaths:
        relays = "relay that died" if outcome.deaths == 1 else f"{outcome.deaths} relays that died"
        say(
            f"the {relays} and the last one wrote {outcome.written} commands, {outcome.sealed} are "
            "in the trace; what is lost beside is what had not been written at a death"
        )
    outcome.missing = max(0, outcome.written - outcome.sealed)
    if outcome.missing:
        what = "some of what was written is not in the trace"
        outcome.note(what)
        say(f"{what}: {outcome.missing} commands; was a journal deleted?")


def commands_in(index: Index) -> int:
    """What the sealed parts of a trace hold, and what a ring has dropped of it."""
    parts = sum(part.rows - (part.gaps or 0) for part in index.parts)
    return index.expired.rows - index.expired.gaps + parts
