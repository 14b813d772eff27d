"""The error for a name that a trace does not have, with the names that it has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pulsar_doctor.errors import InputError
from pulsar_doctor.wire.columns import OUR_COMMANDS, Row
from pulsar_doctor.wire.commands import COMMANDS
from pulsar_doctor.wording.printable import printable
from pulsar_doctor.wording.spelling import near

COMMAND_NAMES = frozenset(known.name for known in COMMANDS.values()) | OUR_COMMANDS
NAMED_MOST = 50
OF_LATER = re.compile(r"COMMAND_[0-9]+")  # of a protocol that is newer than we are


def is_command(name: str) -> bool:
    """Whether a trace may have a command of this name, written in capitals."""
    return name in COMMAND_NAMES or OF_LATER.fullmatch(name) is not None


def is_topic(topic: str | None, name: str) -> bool:
    """Whether somebody who says this name means that topic: all of it, or its last part."""
    return topic is not None and (topic == name or topic.endswith(f"/{name}"))


def require_named(
    rows: Iterable[Row],
    *,
    consumer: str | None = None,
    commands: Sequence[str] = (),
    topic: str | None = None,
    subscription: str | None = None,
) -> None:
    """Reads all rows; InputError for a name that none of them has, with those that there are."""
    there: dict[str, set[str]] = {"consumer": set(), "command": set()}
    there |= {"topic": set(), "subscription": set()}
    incarnations: set[str] = set()
    for row in rows:
        there["command"].add(row.command)
        if row.incarnation is not None:
            incarnations.add(str(row.incarnation))
            there["consumer"].add(row.consumer_name or str(row.incarnation))
        there["topic"] |= {row.topic} if row.topic else set()
        there["subscription"] |= {row.subscription} if row.subscription else set()
    if consumer not in incarnations:
        _require("consumer", consumer, there)
    for command in commands:
        if not is_command(command):
            _require("command", command, there)
    if topic is not None and not any(is_topic(known, topic) for known in there["topic"]):
        if "/" not in topic:
            there["topic"] = {known.rpartition("/")[2] for known in there["topic"]}
        _require("topic", topic, there)
    _require("subscription", subscription, there)


def _require(what: str, name: str | None, there: dict[str, set[str]]) -> None:
    known = {printable(label) for label in there[what]}
    if name is None or name in there[what]:
        return
    instead = near(name, known, most=NAMED_MOST) or "it has none"
    raise InputError(f"there is no {what} {name!r} in this trace; {instead}")
