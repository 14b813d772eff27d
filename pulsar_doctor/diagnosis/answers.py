"""The possible answers of a cause's check: found, not decided, or not reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.evidence.whereabouts import Whereabouts

Severity = Literal["stalled", "warning", "info"]
Urgency = Literal["now", "today", "later"]
WHENS: tuple[Urgency, ...] = ("now", "today", "later")
SEVERITIES: tuple[Severity, ...] = ("stalled", "warning", "info")

HEALTHY, NONE_OF_THESE = "healthy", "none-of-these"  # codes of suspects that are not causes
UNDECIDED = "undecided"  # the name of a clue: that the check of a cause could not decide
LIKELY = 0.6  # from this share on a suspect is called likely
POSSIBLE = 0.15  # from this share on a suspect is called possible, and shown beside healthy


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do about a finding."""

    # "now": frees it in a second or shows the cause; "today": a setting; "later": design
    when: Urgency
    text: str
    command: str | None = None  # a whole line for a shell
    side_effect: str | None = None  # None: there is none
    undo: str | None = None  # None: there is none
    # a whole line that shows whether it worked; what it prints then follows a #
    check: str | None = None
    brief: str | None = None  # the text with its risk in one line; None: `text` is short enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One root cause, with its numbers and what to do.

    The view sets `where`, `since` and `impact`, not a cause; None: not known.
    """

    code: str = ""  # of the cause that found it, which sets it
    severity: Severity
    confidence: float  # from 0 to 1
    consumer: str | None = None  # its label; None: the subscription
    summary: str
    evidence: tuple[Measure, ...]
    remedy: str = ""  # the cause's REMEDY unless it says another
    actions: tuple[Action, ...] = ()
    since: str | None = None  # at the latest, RFC 3339
    where: Whereabouts | None = None
    impact: str | None = None

    @property
    def explain(self) -> str:
        """The command that prints more about it."""
        return f"pulsar-doctor explain {self.code}"


@dataclass(frozen=True, slots=True)
class Clue:
    """One observation that speaks for a suspect or against it."""

    name: str  # of the evidence
    text: str


@dataclass(frozen=True, slots=True)
class Probe:
    """The cheapest observation that tells a suspect from the others, and what each answer means."""

    text: str
    command: str | None = None  # a whole line for a shell; None: only a person can look
    seconds: float | None = None  # how long it takes; None: not known
    harmless: bool = True  # it only reads what the broker reports


@dataclass(frozen=True, slots=True)
class Suspect:
    """What it may be, where nothing is decided. All suspects of one subscription sum to 1."""

    code: str  # of a cause; HEALTHY: nothing is wrong; NONE_OF_THESE
    consumer: str | None
    probability: float  # a measured share, from 0 to 1
    summary: str
    speaks_for: tuple[Clue, ...] = ()
    against: tuple[Clue, ...] = ()
    missing: tuple[str, ...] = ()  # names of what is not reported
    decide: Probe | None = None
    where: Whereabouts | None = None
    remedy: str | None = None  # what to do once it turns out to be this
    stalls: bool = False  # it can be a stall
    alike: str | None = None  # a cause that is the same from outside, as probable as this one

    @property
    def explain(self) -> str:
        """The command that prints more about it."""
        return f"pulsar-doctor explain {self.code}"

    @property
    def causes(self) -> str:
        """`paused or permit-leak`: what its probability is of."""
        return f"{self.alike} or {self.code}" if self.alike else self.code

    @property
    def likelihood(self) -> Literal["likely", "possible", "unlikely"]:
        """In a word."""
        if self.probability >= LIKELY:
            return "likely"
        return "possible" if self.probability >= POSSIBLE else "unlikely"

    @property
    def share(self) -> str:
        """The probability in per cent; never quite all, nor quite nothing."""
        return f"{min(max(self.probability, 0.01), 0.99):.0%}"


@dataclass(frozen=True, slots=True)
class RuledOut:
    """What it cannot be, and the number that excludes it."""

    code: str
    because: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The evidence does not decide, and why."""

    reason: str
    consumer: str | None = None  # its label; None: the subscription


@dataclass(frozen=True, slots=True)
class Rests(Unknown):
    """Messages have rested for longer than their place allows: nobody may call it healthy."""


@dataclass(frozen=True, slots=True)
class SilentHolder(Rests):
    """A consumer has been silent for longer than usual and less than certain."""


@dataclass(frozen=True, slots=True)
class ReaderRests(Rests):
    """A reader rests. Whether it hangs, or its application reads when it likes, is open."""

    decide: Probe | None = None


@dataclass(frozen=True, slots=True)
class NothingMoves(Unknown):
    """Nothing is sent though it could be, and why is not known: a warning about less is not all."""


@dataclass(frozen=True, slots=True)
class Unreliable(Unknown):
    """What was read contradicts itself or is incomplete: a warning may not be all."""


HIDING = (
    NothingMoves,
    SilentHolder,
    Unreliable,
)  # behind a warning beside these there may be a stall


@dataclass(frozen=True, slots=True)
class TooProbable(Unknown):
    """Nothing contradicts healthy but the probability of a problem."""


@dataclass(frozen=True, slots=True)
class NotReported:
    """This source can never tell, and why; makes nothing unknown."""

    reason: str


CauseAnswer = Finding | Unknown | NotReported
Answers = Iterator[CauseAnswer]  # of one check; none: the cause is not there


@dataclass(frozen=True, slots=True)
class DecideStep:
    """One step of `--decide`."""

    step: str  # what was sampled
    seconds: float  # how long it took
    before: str  # status of the verdict
    after: str  # status of the verdict
