"""One file of fixtures/: a state that an issue fits, and the same with one thing changed.

    issue, broker        its id, and the version of the broker
    grade                of the state: matches, possible or none
    recorded             a file of recorded/ (see stall-check --save), or
    stats, internal      what the broker answers, the same in two samples `seconds` apart (30)
    later                changes of the second sample
    limits               of unacknowledged messages and ranges, as a samples file has them
    twins                ids of others that match it too, and why is in a comment
    beside               false: the verdict on it is healthy, so that only `match` names it
    green                `broker` or changes with which it is well; near: lists of changes, each of
                         which flips one condition

A change is `stats.subscriptions.s.msgBacklog: 0`: where in the documents, and the new value.
"""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulsar_doctor.broker.samples.reading import StatsAnswer
from pulsar_doctor.broker.stats.observed import ClusterLimits, Observed
from pulsar_doctor.broker.stats.window import Window
from tests.support import yaml_files

FOLDER = Path(__file__).parent / "fixtures"
RECORDED = Path(__file__).parent / "recorded"
TOPIC, NOW_MS = "persistent://public/default/orders", 1_790_000_000_000
Changes = Mapping[str, Any]


@dataclass(frozen=True)
class Fixture:
    issue: str
    broker: str
    grade: str
    recorded: str | None = None
    stats: dict[str, Any] = field(default_factory=dict)
    internal: dict[str, Any] | None = None
    seconds: int = 30
    later: Changes = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    topic: str = TOPIC
    partition: int | None = None
    beside: bool = True
    twins: tuple[str, ...] = ()
    green: tuple[Changes, ...] = ()
    near: tuple[Changes, ...] = ()

    def observed(self, changes: Changes | None = None) -> Observed:
        """The state, with something changed in both samples. `broker` is not a change of these."""
        changes = {key: value for key, value in (changes or {}).items() if key != "broker"}
        if self.recorded is not None:
            return self._of_file(changes)
        answers = [
            StatsAnswer(
                TOPIC,
                NOW_MS + (self.seconds * 1000 if later else 0),
                **changed(
                    {"stats": self.stats, "internal": self.internal},
                    {**(self.later if later else {}), **changes},
                ),
            )
            for later in (False, True)
        ]
        return self._of(answers, self.topic, ClusterLimits(**self.limits))

    def _of_file(self, changes: Changes) -> Observed:
        with gzip.open(RECORDED / str(self.recorded), "rt") as file:
            lines = [json.JSONDecoder().decode(line) for line in file]
        answers = [
            StatsAnswer(
                line["topic"],
                line["taken_ms"],
                **changed({key: line[key] for key in ("stats", "internal")}, changes),
            )
            for line in lines
            if "stats" in line
        ]
        limits: dict[str, Any] = next((line["limits"] for line in lines if "limits" in line), {})
        return self._of(answers, answers[0].topic, ClusterLimits(**limits))

    def _of(self, answers: list[StatsAnswer], topic: str, limits: ClusterLimits) -> Observed:
        window = Window(tuple(answer.sample() for answer in answers))
        [name] = window.last.topic.subscriptions or {}
        return Observed(topic, self.partition, name, window, limits)


def changed(documents: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """The documents with other values in some places."""
    found = copy.deepcopy(documents)
    for where, value in changes.items():
        *path, last = where.split(".")
        target: Any = found
        for part in path:
            target = target[int(part) if isinstance(target, list) else part]
        target[last] = value
    return found


def load() -> dict[str, Fixture]:
    """Each fixture by the name of its file."""
    return {path.stem: of(yaml_files.read(path)) for path in sorted(FOLDER.glob("*"))}


def of(told: dict[str, Any]) -> Fixture:
    lists: dict[str, Any] = {key: tuple(told.pop(key, ())) for key in ("green", "near", "twins")}
    return Fixture(**told, **lists)
