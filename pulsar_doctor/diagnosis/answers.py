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


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do about a finding.

    when: "now" frees it in a second, or shows what it is; "today" is a setting; "later" is design.
    command: a whole line for a shell. side_effect, undo: None where there is none. check: a whole
    line that shows whether it worked, and behind a # what it prints then. brief: the text with its
    risk, for one line of a screen; None: the text is short enough.
    """

    when: Urgency
    text: str
    command: str | None = None
    side_effect: str | None = None
    undo: str | None = None
    check: str | None = None
    brief: str | None = None

    def document(self) -> dict[str, str | None]:
        """As every JSON has it."""
        return {
            "when": self.when,
            "text": self.text,
            "command": self.command,
            "side_effect": self.side_effect,
            "undo": self.undo,
            "check": self.check,
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """One root cause, with its numbers and what to do. confidence: from 0 to 1.

    since: at the latest, RFC 3339. where, since, impact: told by the view, not by a cause; None:
    not told.
    """

    code: str
    severity: Severity
    confidence: float
    consumer: str | None
    summary: str
    evidence: tuple[Measure, ...]
    remedy: str
    actions: tuple[Action, ...] = ()
    since: str | None = None
    where: Whereabouts | None = None
    impact: str | None = None

    @property
    def explain(self) -> str:
        """The command that prints more about it."""
        return f"pulsar-doctor explain {self.code}"


@dataclass(frozen=True, slots=True)
class Clue:
    """One observation that speaks for a suspect or against it. name: of the evidence."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Probe:
    """The cheapest observation that tells a suspect from the others, and what each answer means.

    command: a whole line for a shell; None where only a person can look. seconds: how long it
    takes; None: not told. harmless: whether it only reads what the broker tells.
    """

    text: str
    command: str | None = None
    seconds: float | None = None
    harmless: bool = True

    def document(self) -> dict[str, str | float | bool | None]:
        """As every JSON has it."""
        return {
            "text": self.text,
            "command": self.command,
            "seconds": self.seconds,
            "harmless": self.harmless,
        }


@dataclass(frozen=True, slots=True)
class Suspect:
    """What it may be, where nothing is decided. probability: a measured share, from 0 to 1.

    code: of a cause; HEALTHY: nothing is wrong; NONE_OF_THESE. missing: names of what nobody told.
    remedy: what to do once it turns out to be this. stalls: whether it can be a stall.
    All suspects of one subscription sum to 1.
    """

    code: str
    consumer: str | None
    probability: float
    summary: str
    speaks_for: tuple[Clue, ...] = ()
    against: tuple[Clue, ...] = ()
    missing: tuple[str, ...] = ()
    decide: Probe | None = None
    where: Whereabouts | None = None
    remedy: str | None = None
    stalls: bool = False

    def document(self) -> dict[str, object]:
        """As every JSON has it."""
        return {
            "code": self.code,
            "consumer": self.consumer,
            "probability": self.probability,
            "summary": self.summary,
            "for": [clue.name for clue in self.speaks_for],
            "against": [clue.name for clue in self.against],
            "missing": list(self.missing),
            "decide": self.decide and self.decide.document(),
            "where": self.where and self.where.document(),
            "remedy": self.remedy,
        }


@dataclass(frozen=True, slots=True)
class RuledOut:
    """What it cannot be, and the number that excludes it."""

    code: str
    because: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The evidence does not decide, and why. consumer: its label, None for the subscription."""

    reason: str
    consumer: str | None = None


@dataclass(frozen=True, slots=True)
class Forbids(Unknown):
    """A fact with which nobody may call the subscription healthy."""


@dataclass(frozen=True, slots=True)
class TooProbable(Unknown):
    """Nothing forbids to call it healthy but the probability of a problem."""


@dataclass(frozen=True, slots=True)
class NotReported:
    """This source can never tell, and why; makes nothing unknown."""

    reason: str


CauseAnswer = Finding | Unknown | NotReported
Answers = Iterator[CauseAnswer]  # of one check; none: the cause is not there
