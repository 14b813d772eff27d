"""The events of a tap: where it listens, verdicts, counters, the end.

It is shown on a Screen, which whoever starts the tap brings along.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pulsar_doctor.checkup.expected import Expectation
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.parts.tap.observer.events import Counted, ObserverEvent


@dataclass(frozen=True, slots=True)
class Listening:
    """Clients may come."""

    at_us: int
    service_url: str
    upstream: str
    trace_dir: str | None  # None: the trace is temporary


@dataclass(frozen=True, slots=True)
class Counters:
    """What the relay and the observer have counted; None of one that does not answer."""

    at_us: int
    relay: dict[str, int] | None
    observer: Counted | None


@dataclass(frozen=True, slots=True)
class Answering:
    """Whether the observer answers."""

    at_us: int
    answers: bool
    seconds: float  # for how long it has not answered, or had not


@dataclass(frozen=True, slots=True)
class End:
    """The last one."""

    at_us: int
    exit_code: int
    dropped: int
    seen: tuple[str, ...]  # what was not healthy, in words
    trace_dir: str | None  # None: it is removed
    subscriptions: tuple[Diagnosis, ...]
    written: int | None = None  # commands that the relays wrote; None: not known
    sealed: int | None = None  # of these, in the trace
    expectations: tuple[Expectation, ...] = ()


SayText = Callable[[str], object]
Event = Listening | ObserverEvent | Counters | Answering | End


class Screen:
    """What a tap is shown on. Both ways to speak are for any thread.

    say: talk; nothing under --quiet. warn: what a person has to know, also under --quiet.
    """

    def __init__(self, say: SayText, warn: SayText) -> None:
        self.say, self.warn = say, warn

    def show(self, event: Event) -> None:
        """Something that happened, or how all consumers stand."""

    def look(self) -> None:
        """Called again and again: whoever reads may have another window now."""

    def hurry(self) -> None:
        """The tap ends: whoever does not read now is not waited for."""

    def close(self) -> None:
        """Nothing more is shown; safe to be called twice."""


def now_us() -> int:
    """This moment, as all events have it: microseconds since 1970."""
    return time.time_ns() // 1000


def not_recorded(dropped: int | None) -> str:
    """A gap, in a sentence. dropped: None where nobody knows how many."""
    if dropped is None:
        return "some commands were not recorded; nobody knows how many"
    return f"{dropped} command{' was' if dropped == 1 else 's were'} not recorded"
