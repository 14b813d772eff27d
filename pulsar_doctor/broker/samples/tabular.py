"""Reads stats that were copied from the JSON view of a browser.

Firefox copies its tree as a table. The depth of a row is lost, so what is within what follows
from the names: a row without a value opens an object or a list, an object ends where one of its
names comes again or one that only its surroundings have, and a list counts its elements from 0. A
row that was collapsed (`{…}`) and a text that was shortened count as not reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from pulsar_doctor.broker.samples.mending import CONSUMERS, NOT_ALL, NOTHING, PLAIN, UNTOLD
from pulsar_doctor.broker.samples.reading import USERS_OWN
from pulsar_doctor.broker.stats.internal import CursorStats
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats

TABULAR = "it is read as the table of a browser"
FEWEST = 3  # rows with a value; fewer are no table
BY_NAME = frozenset({"subscriptions", "cursors", "replication"})
LISTS = frozenset({CONSUMERS, "publishers", "ledgers", "drainingHashes", "keyHashRanges"})
# Objects in which anybody may write what he likes.
FREE = USERS_OWN | {"consumersAfterMarkDeletePosition", "bucketDelayedIndexStats"}
BEGINS = frozenset({"msgRateIn", "msgRateOut", "msgBacklog", "entriesAddedCounter", *BY_NAME})
# What is behind objects by name, and behind the elements of a list.
AFTER_NAMED = frozenset(
    {"replication", "deduplicationStatus", "ownerBroker", "compaction", "topicCreationTimeStamp"}
    | {"ledgers", "schemaLedgers", "compactedLedger"}
)
AFTER_LISTED = AFTER_NAMED | BY_NAME | {"waitingPublishers", "isDurable", "isReplicated"}
WHOLE = re.compile(r'\[\]|\{\}|"(?:[^"\\]|\\.)*"')
OPENS: Any = object()  # in place of a value: rows within it follow


@dataclass(slots=True)
class TreeRows:
    """The rows of a table, and where it is in them. It moves on with each row that is read."""

    rows: list[tuple[str, Any]]
    at: int = 0
    collapsed: bool = False

    @property
    def label(self) -> str | None:
        """The label of this row; None behind the last one."""
        return self.rows[self.at][0] if self.at < len(self.rows) else None

    @property
    def opens(self) -> bool:
        """Whether this row has no value, but rows within it."""
        return self.at < len(self.rows) and self.rows[self.at][1] is OPENS

    def next(self) -> Any:
        """The value of this row, which is passed."""
        self.at += 1
        return self.rows[self.at - 1][1]

    def fields(self, ends: frozenset[str] = frozenset()) -> dict[str, Any]:
        """An object: up to a name that it has already, or that is not its own. ends: of these."""
        made: dict[str, Any] = {}
        while (label := self.label) is not None and label not in made and label not in ends:
            if self.opens and label not in BY_NAME | LISTS | FREE:
                break  # the name of its next neighbour
            value = self.next()
            if value is OPENS:
                value = INNER[label](self) if label in INNER else self.free()
            made[label] = value
        return {name: value for name, value in made.items() if value is not NOTHING}

    def by_name(self) -> dict[str, Any]:
        """Objects by their names, such as subscriptions."""
        made: dict[str, Any] = {}
        while self.opens and (name := self.label) is not None and name not in made:
            if name in AFTER_NAMED:
                break
            self.next()
            made[name] = self.fields(AFTER_NAMED)
        return made

    def elements(self, name: str) -> list[Any]:
        """A list; one of whom nothing is known represents consumers that were collapsed."""
        found: list[Any] = []
        missing, number = False, 0
        while self.label == str(number):
            value = self.next()
            value = self.fields(AFTER_LISTED | {str(number + 1)}) if value is OPENS else value
            missing |= value is NOTHING
            found += [] if value is NOTHING else [value]
            number += 1
        if name == CONSUMERS and missing:
            self.collapsed = True
            return [*found, UNTOLD]
        return found

    def free(self) -> dict[str, Any]:
        """An object of other people: up to a name that a broker writes."""
        made: dict[str, Any] = {}
        while (label := self.label) is not None and not self.opens and label not in KNOWN:
            made[label] = self.next()
        return {name: value for name, value in made.items() if value is not NOTHING}


KNOWN = frozenset(
    re.sub("_([a-z])", lambda letter: letter[1].upper(), field.name.removesuffix("_ms"))
    for kind in (ConsumerStats, SubscriptionStats, CursorStats)
    for field in fields(kind)
)
INNER: Mapping[str, Callable[[TreeRows], Any]] = {
    **dict.fromkeys(BY_NAME, TreeRows.by_name),
    **{name: partial(TreeRows.elements, name=name) for name in LISTS},
}


def tabular(text: str) -> tuple[Any, set[str]] | None:
    """The object that is written so, and what was done; None where there is none."""
    rows: list[tuple[str, Any]] = []
    for line in text.splitlines():
        label, _, value = line.strip().partition("\t")
        if rows or label in BEGINS:
            if not label or (" " in label and "\t" not in line):
                break  # a sentence behind it
            rows.append((label.strip(), _value(value.strip())))
    if sum(value is not OPENS for _, value in rows) < FEWEST or "\t" not in text:
        return None
    table = TreeRows(rows)
    try:
        found = table.fields()
    except RecursionError:
        return None
    done = {TABULAR} | ({NOT_ALL} if table.collapsed else set())
    return (found, done) if found else None


def _value(written: str) -> Any:
    """A value; OPENS where there is none; NOTHING where it is not whole."""
    if not written:
        return OPENS
    if "…" in written or not (PLAIN.fullmatch(written) or WHOLE.fullmatch(written)):
        return NOTHING
    try:
        return json.loads(written)
    except ValueError:
        return NOTHING
