"""A verdict in a few words: the subscription, the status and the cause."""

from __future__ import annotations

from pulsar_doctor.diagnosis.answers import (
    HEALTHY,
    HIDING,
    NONE_OF_THESE,
    UNDECIDED,
    Finding,
    Rests,
    Severity,
    Suspect,
)
from pulsar_doctor.diagnosis.ranking import EVEN, POSSIBLE
from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.ledger.topics import PERSISTENT, UNNAMED_TOPIC
from pulsar_doctor.wording.printable import printable

VerdictKey = tuple[str, str]  # full name of the topic or partition, subscription
CauseKey = tuple[str, Severity | None]  # code; severity, None where it is suspected only


def key_of(diagnosis: Diagnosis) -> VerdictKey:
    """The key of a verdict."""
    return diagnosis.full_topic, diagnosis.subscription


def place(key: VerdictKey) -> str:
    """`billing on public/default/orders`."""
    topic, subscription = key
    return printable(f"{subscription} on {topic_words(topic).removeprefix(PERSISTENT)}")


def topic_words(topic: str) -> str:
    """The name of a topic, or that the file which was read does not name it."""
    return "the file's topic" if topic == UNNAMED_TOPIC else topic


def first_cause(diagnosis: Diagnosis) -> CauseKey | None:
    """Code and severity of the first cause; of an undecided one the likeliest cause's code."""
    if diagnosis.status in ("stalled", "warning"):
        return diagnosis.findings[0].code, diagnosis.findings[0].severity
    suspect = likeliest(diagnosis) if diagnosis.status == "unknown" else None
    return (suspect.code, None) if suspect else None


def in_short(diagnosis: Diagnosis) -> str:
    """`stalled permits-exhausted of worker-1`."""
    if not diagnosis.findings or diagnosis.status in ("healthy", "unknown"):
        return diagnosis.status
    return f"{diagnosis.status} {culprit(diagnosis.findings[0])}"


def culprit(found: Finding | Suspect) -> str:
    """`permits-exhausted of worker-3`; `paused or permit-leak of worker-3`."""
    code = found.causes if isinstance(found, Suspect) else found.code
    return f"{code} of {printable(found.consumer)}" if found.consumer else code


def suspected(diagnosis: Diagnosis) -> str:
    """`; most likely not-acknowledging of worker-1 (70%)`; nothing where nothing is suspected."""
    if not diagnosis.suspects:
        return ""
    first = likeliest(diagnosis) or diagnosis.suspects[0]
    return f"; most likely {culprit(first)} ({first.probability:.0%})"


def likeliest(diagnosis: Diagnosis) -> Suspect | None:
    """The likeliest cause: that nothing is wrong is none."""
    no_cause = (HEALTHY, NONE_OF_THESE)
    return next((each for each in diagnosis.suspects if each.code not in no_cause), None)


def suspected_cause(diagnosis: Diagnosis) -> Suspect | None:
    """The likeliest cause, if it is at least possible and anything that was seen speaks for it.

    That its check is undecided does not. What rests for too long says more than a cause that is
    less likely than that nothing is wrong; that nothing moves, or that what was read contradicts
    itself, more than any that is less likely than all others together.
    """
    first = likeliest(diagnosis)
    hiding = any(isinstance(each, HIDING) for each in diagnosis.unknown)
    if first is None or first.probability < (EVEN if hiding else POSSIBLE):
        return None
    if first != diagnosis.suspects[0] and any(isinstance(e, Rests) for e in diagnosis.unknown):
        return None
    return first if any(clue.name != UNDECIDED for clue in first.speaks_for) else None
