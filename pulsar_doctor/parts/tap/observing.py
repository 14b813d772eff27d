"""Keeps an observer process running beside a tap, and passes on its messages.

It may die, and the traffic does not notice: it is started again, each time after a longer pause. A
new one reads again what is not sealed and then reports the past as if it were news, so what was
reported before is not passed on twice; a request without an answer is sent again.

One that hangs, or was stopped, is reported: when it has sent nothing for a while it is requested to
send its counts, and it answers that whatever else it does. The relay records meanwhile: nothing is
lost.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.parts.tap.events import Answering, now_us
from pulsar_doctor.parts.tap.hearing import started
from pulsar_doctor.parts.tap.observer.events import (
    ASKS,
    EVENTS,
    Ask,
    Begin,
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
    Verdict,
)
from pulsar_doctor.parts.tap.relay.lines import Strange
from pulsar_doctor.wording.gate import Once

PAUSE_SECONDS = 1.0  # before it is started again; twice as long each time
PAUSE_SECONDS_MOST = 60.0
SOUND_SECONDS = 60.0  # one that worked so long begins with the first pause again
EVENTS_MOST = 100  # that nobody has taken; behind them the observer keeps its own
LINES_MOST = 16  # to an observer that does not read
KNOWN_MOST = 100_000  # subscriptions: readers have one each, with a name of its own
FINISH_SECONDS = 300.0  # to seal what a relay that has ended left
SILENT_SECONDS = 5.0  # without any answer: it is reported
START_SECONDS = 15.0  # until the first one
GIVEN_UP_SECONDS = 60.0  # without any answer, at the end: the trace is then sealed without it
STRANGE_MOST = 16  # sentences about what cannot be read
ANSWERS = {Seal: Sealed, Keep: Kept}


class Observing:
    """The observer of one trace. begin: how it works. say: for what a person has to know; called
    from any thread. silent_seconds: without an answer, until that is reported.
    """

    def __init__(
        self,
        trace_dir: Path,
        begin: Begin,
        say: Callable[[str], object],
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self._trace_dir = trace_dir
        self._begin = begin
        self._say = say
        self._events: queue.Queue[ObserverEvent | Strange] = queue.Queue(EVENTS_MOST)
        self._known = _Known()
        self._pass_over = Once(say, STRANGE_MOST)
        self._awaited: dict[tuple[type[ObserverEvent], int], Seal | Keep] = {}
        self._silent_seconds = silent_seconds
        self._silent_since: float | None = None  # where that was reported
        self._counts_owed = 0  # answers that nobody but us has requested
        self._pause = PAUSE_SECONDS
        self._start_at = 0.0
        self._process: _Process | None = None
        self._start()

    @property
    def pid(self) -> int | None:
        """The pid of the process that works now; None between two."""
        return None if self._process is None else self._process.pid

    def next(self, seconds: float) -> ObserverEvent | Answering | None:
        """The next event; None where nothing new came within so many seconds."""
        self._look_after()
        if (answering := self._answering()) is not None:
            return answering
        with contextlib.suppress(queue.Empty):
            event = self._taken(seconds)
            if isinstance(event, Sealed | Kept):
                self._awaited.pop((type(event), event.through), None)
            return event
        return None

    def _taken(self, seconds: float) -> ObserverEvent | None:
        """The next event; None: passed on before, or unreadable. Raises queue.Empty."""
        event = self._events.get(timeout=seconds)
        if isinstance(event, Strange):
            self._pass_over(
                f"what the observer tells is passed over: {event}; it is of another version than "
                "this tap, so begin the tap anew when its clients can be without it"
            )
            return None
        if isinstance(event, Counted) and self._counts_owed:
            self._counts_owed -= 1
            return None
        return self._known.news(event)

    def ask(self, question: Ask) -> None:
        """Asks the observer that works now, if there is one."""
        if self._process is not None:
            self._process.write(question)

    def ask_surely(self, question: Seal | Keep) -> None:
        """Answered by Sealed or Kept, even if the observer dies meanwhile."""
        self._awaited[ANSWERS[type(question)], question.through] = question
        self.ask(question)

    def finish(self) -> list[ObserverEvent]:
        """Waits until it has sealed what the relay left; returns its last events.

        It is not waited for where it does not answer: whoever opens the trace seals the rest.
        """
        events: list[ObserverEvent] = []
        silent = self._silent_since is not None
        until = time.monotonic() + (self._silent_seconds if silent else FINISH_SECONDS)
        while (self._process is not None and not self._process.over) or not self._events.empty():
            if time.monotonic() > until or self._silence() > GIVEN_UP_SECONDS:
                break
            with contextlib.suppress(queue.Empty):
                event = self._taken(0.05)
                if event is not None:
                    events.append(event)
        if self._process is not None:
            self._process.end()
        return events

    def _silence(self) -> float:
        """For how many seconds it has sent nothing; 0 where something it sent is not taken yet."""
        if self._process is None or not self._events.empty():
            return 0.0
        return time.monotonic() - self._process.heard_at

    def _answering(self) -> Answering | None:
        """That it does not answer any more, or does again; None where that is as it was."""
        process, silent = self._process, self._silence()
        if process is None:
            return None
        if silent > self._silent_seconds / 2 and not process.is_pinged:
            process.is_pinged = True
            self._counts_owed += 1
            process.write(CountRows())
        if self._silent_since is not None:
            if process.heard_at == self._silent_since or not process.has_answered:
                return None
            silent, self._silent_since = process.heard_at - self._silent_since, None
            self._say(f"the observer answers again, after {silent:.0f} s")
            return Answering(now_us(), True, round(silent, 1))
        if silent <= (self._silent_seconds if process.has_answered else START_SECONDS):
            return None
        self._silent_since = process.heard_at
        self._say(
            f"the observer (process {process.pid}) has not answered for {silent:.0f} s: nothing is "
            "judged until it does (the traffic goes on, and what it does is recorded)"
        )
        return Answering(now_us(), False, round(silent, 1))

    def _start(self) -> None:
        self._began = time.monotonic()
        self._counts_owed = 0
        self._process = _Process(self._trace_dir, self._events, self._say)
        self._process.write(self._begin)
        for question in self._awaited.values():
            self._process.write(question)

    def _look_after(self) -> None:
        """Starts it again where it has died."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._start_at:
                self._start()
            return
        if not self._process.over:
            return
        if now - self._began > SOUND_SECONDS:
            self._pause = PAUSE_SECONDS
        code, self._process = self._process.end(), None
        self._say(
            f"the observer ended with {code}; starting it again in {self._pause:g} s "
            "(the traffic goes on, and what it does is recorded)"
        )
        self._start_at = now + self._pause
        self._pause = min(2 * self._pause, PAUSE_SECONDS_MOST)


class _Known:
    """What was passed on before, by whichever observer."""

    def __init__(self) -> None:
        self._statuses: dict[tuple[str, int | None, str], Status] = {}
        self._gap_seq = -1
        self._once: set[tuple[type, str]] = set()

    def news(self, event: ObserverEvent) -> ObserverEvent | None:
        """What to pass on of it. Corrects what a verdict was before, as a new one cannot know."""
        match event:
            case Verdict():
                return self._changed(event)
            case Gap():
                before, self._gap_seq = self._gap_seq, max(self._gap_seq, event.seq)
                return event if event.seq > before else None
            case NotLetIn(reason=what) | PassedBy(topic=what):
                is_known = (type(event), what) in self._once
                self._once.add((type(event), what))
                return None if is_known else event
        return event

    def _changed(self, event: Verdict) -> Verdict | None:
        diagnosis = event.diagnosis
        key = diagnosis.topic, diagnosis.partition, diagnosis.subscription
        before = self._statuses.pop(key, None)
        self._statuses[key] = diagnosis.status
        if len(self._statuses) > KNOWN_MOST:
            del self._statuses[next(iter(self._statuses))]
        return None if before == diagnosis.status else replace(event, before=before)


class _Process:
    """One observer, and threads that read and write its pipes: nobody else ever waits."""

    def __init__(
        self,
        trace_dir: Path,
        events: queue.Queue[ObserverEvent | Strange],
        say: Callable[[str], object],
    ) -> None:
        module, arguments = "pulsar_doctor.parts.tap.observer", (str(trace_dir), "--tell")
        self._process, self._hearing = started(module, *arguments, say=say)
        self.pid = self._process.pid
        self.heard_at = time.monotonic()  # when it sent something; at first, when it began
        self.has_answered = False
        self.is_pinged = False  # by us, since it last sent something
        self._events = events
        self._lines: queue.Queue[bytes | None] = queue.Queue(LINES_MOST)
        self._reader = threading.Thread(target=self._read, daemon=True, name="observer-out")
        self._writer = threading.Thread(target=self._write, daemon=True, name="observer-in")
        self._reader.start()
        self._writer.start()

    @property
    def over(self) -> bool:
        """Whether it has ended and its last event has been taken."""
        return not self._reader.is_alive() and self._process.poll() is not None

    def write(self, question: Ask) -> None:
        """One line. Left out where the observer does not read."""
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(json.dumps(ASKS.to_json(question)).encode() + b"\n")

    def end(self) -> int:
        """Takes leave of it; its exit code."""
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
        if self._process.poll() is None:
            self._process.kill()
        code = self._process.wait()
        if self._hearing is not None:
            self._hearing.finish()
        return code

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.heard_at, self.has_answered, self.is_pinged = time.monotonic(), True, False
                if line.endswith(b"\n"):  # it was not killed in the midst of it
                    self._events.put(EVENTS.of_line(line))

    def _write(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError), self._process.stdin as pipe:
            while (line := self._lines.get()) is not None:
                pipe.write(line)
                pipe.flush()
