"""A verdict in a few words: the subscription, the status and the cause."""

from __future__ import annotations

from pulsar_doctor.diagnosis.answers import Finding, Suspect
from pulsar_doctor.diagnosis.verdict import Diagnosis, VerdictKey
from pulsar_doctor.ledger.topics import PERSISTENT, UNNAMED_TOPIC
from pulsar_doctor.wording.printable import printable


def place(key: VerdictKey) -> str:
    """`billing on public/default/orders`."""
    topic, subscription = key
    return printable(f"{subscription} on {topic_words(topic).removeprefix(PERSISTENT)}")


def topic_words(topic: str) -> str:
    """The name of a topic, or that the file which was read does not name it."""
    return "the file's topic" if topic == UNNAMED_TOPIC else topic


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
    first = diagnosis.likeliest or diagnosis.suspects[0]
    return f"; most likely {culprit(first)} ({first.probability:.0%})"
