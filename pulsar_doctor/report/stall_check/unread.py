"""What could not be read, in a sentence for each reason."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.wording.printable import printable

SAID_MOST = 5


def sentences(checkup: Checkup) -> list[str]:
    """A sentence for each reason why something could not be read, of the first few."""
    return because(checkup.unreachable)


def because(unreachable: Iterable[tuple[str, str]]) -> list[str]:
    """The same, of topics and reasons."""
    those: dict[str, list[str]] = {}
    for topic, reason in unreachable:
        those.setdefault(reason, []).append(topic)
    said = [_because(topics, reason) for reason, topics in those.items()]
    if len(said) > SAID_MOST:
        said[SAID_MOST:] = [f"and {len(said) - SAID_MOST} more: see -o json"]
    return [printable(sentence) for sentence in said]


def _because(topics: list[str], reason: str) -> str:
    if len(topics) > 1:
        return f"{len(topics)} could not be read: {reason}"
    named = topics[0] in re.sub(r"\(.*\)", "", reason)  # in brackets stand the broker's words
    return reason if named else f"{topics[0]}: {reason}"
