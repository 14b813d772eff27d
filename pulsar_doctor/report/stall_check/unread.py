"""Sentences about topics that could not be read."""

from __future__ import annotations

from collections.abc import Iterable

from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.wording.printable import listed, many, printable

SENTENCES_MOST = 5
NAMED_MOST = 2  # topics in a sentence


def summary(checkup: Checkup) -> str:
    """`2 topics unreachable`, then why anything else was not read; empty where all was read."""
    topics = sum(is_topic(name) for name, _ in checkup.unreachable)
    parts = [f"{many(topics, 'topic')} unreachable"] if topics else []
    parts += [printable(why) for name, why in checkup.unreachable if not is_topic(name)]
    return "; ".join(parts)


def is_topic(name: str) -> bool:
    """Whether it is one, and not `(the rest)` or `(the broker)`."""
    return not name.startswith("(")


def sentences(unreachable: Iterable[tuple[str, str]]) -> list[str]:
    """A sentence for each of the first few reasons. unreachable: topics and reasons."""
    those: dict[str, list[str]] = {}
    for topic, reason in unreachable:
        those.setdefault(reason, []).append(topic)
    lines = [_because(topics, reason) for reason, topics in those.items()]
    if len(lines) > SENTENCES_MOST:
        lines[SENTENCES_MOST:] = [f"and {len(lines) - SENTENCES_MOST} more: see -o json"]
    return [printable(sentence) for sentence in lines]


def _because(topics: list[str], reason: str) -> str:
    if len(topics) > 1:
        return f"{listed(topics, NAMED_MOST)} could not be read: {reason}"
    if not is_topic(topics[0]):
        return reason
    named = topics[0] in reason.partition(" (")[0]  # the broker's words are in brackets
    return reason if named else f"{topics[0]}: {reason}"
