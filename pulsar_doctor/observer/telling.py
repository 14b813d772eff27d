"""What an observer does beside following the journal: it judges, tells its parent, and is asked.

Once a second it judges every subscription and shows all consumers, but spends no more than a fifth
of its time on that: with thousands of them the seconds become longer, so that the journal is always
followed. It begins once it has caught up with the journal, lest the past be told as news.

Lines from the parent, the first of them before all else:

    {"changes": [...], "ring_seconds": …, "compare": …}   how to work; all may be left out
    {"command": "SEAL", "through": N}      answered once the parts up to N are sealed
    {"command": "KEEP", "through": N, "reason": …}   likewise; then a snapshot of the ring is kept
    {"command": "COUNTERS"}                what it has read
    {"command": "COMPARE", "samples": […]} the broker's permits, see comparison.py; null: no more

Lines to the parent, one JSON object each with an `event`: snapshot, verdict, gap, sealed, kept,
trouble, counters, parted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from pulsar_doctor.columns import GAP, Row
from pulsar_doctor.comparison import Comparison, ConsumerSample, Parting
from pulsar_doctor.consumers import split_partition
from pulsar_doctor.diagnosis import limits_of
from pulsar_doctor.observer.channel import Channel
from pulsar_doctor.report.rows import iso
from pulsar_doctor.report.snapshot import change_json, gap_json, snapshot
from pulsar_doctor.rules import load
from pulsar_doctor.timeline import Timeline
from pulsar_doctor.verdicts import Verdicts

EVERY_SECONDS = 1.0
TURN_SECONDS = 0.05  # of judging, before the journal is looked at again
SHARE = 0.1  # of its time, at most, for judging, and as much for showing
ROWS_BETWEEN = 4096  # while it catches up: between two looks at the clock
DRAIN_SECONDS = 10.0


class Watched(Protocol):
    """The observer, as far as it is asked here."""

    @property
    def timeline(self) -> Timeline: ...
    @property
    def sealed(self) -> int: ...
    @property
    def expired_rows(self) -> int: ...
    @property
    def unread_bytes(self) -> int: ...
    @property
    def trouble(self) -> str | None: ...
    def keep(self, reason: str, through: int) -> Path | None: ...


class Allowance:
    """When there is time again for something that may take only a share of it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due = 0.0
        self._began = 0.0

    def begin(self) -> bool:
        """Whether it may be done now; `end` is to be called after it."""
        self._began = self._clock()
        return self._began >= self._due

    def is_over(self) -> bool:
        """Whether a turn has lasted long enough."""
        return self._clock() - self._began >= TURN_SECONDS

    def end(self, at_least_seconds: float = 0.0) -> None:
        """It is done. at_least_seconds: from its beginning to the next one."""
        now = self._clock()
        rest = (now - self._began) * (1 - SHARE) / SHARE
        self._due = max(now + rest, self._began + at_least_seconds)


class Teller:
    """Beside one observer, for its life. config: the first line of the parent."""

    def __init__(self, channel: Channel, config: Mapping[str, Any]) -> None:
        rules = load()
        self._channel = channel
        self._verdicts = Verdicts(rules, limits_of(rules, config.get("changes", ())))
        self._comparison = Comparison() if config.get("compare") else None
        self._judging, self._showing = Allowance(), Allowance()
        self._awaited: list[Mapping[str, Any]] = []  # SEAL and KEEP
        self._samples: list[ConsumerSample] | None = None
        self._trouble: str | None = None
        self._rows = 0
        self._watched: Watched | None = None  # from when it has caught up on
        self.wait = channel.wait

    def row(self, row: Row) -> None:
        """Each row once, in order."""
        self._rows += 1
        if row.command == GAP:
            self._channel.tell(gap_json(row))
        if self._comparison is not None:
            self._comparison.add(row)
        if not self._rows % ROWS_BETWEEN and self._watched is not None:
            self._work(self._watched)

    def hear(self) -> None:
        """What the parent wants. What it speaks of is in the journal by now, so poll after it."""
        for asked in self._channel.asked():
            command = asked.get("command")
            if command in ("SEAL", "KEEP", "COUNTERS"):
                self._awaited.append(asked)
            elif command == "COMPARE":
                self._hear_samples(asked.get("samples"))

    def _hear_samples(self, samples: list[Mapping[str, Any]] | None) -> None:
        if samples is None:
            self._comparison = None
        else:
            self._samples = [ConsumerSample(**sample) for sample in samples]

    def caught_up(self, watched: Watched) -> None:
        """The journal has been read to its end."""
        self._watched = watched
        self._answer(watched)
        if watched.trouble != self._trouble:
            self._trouble = watched.trouble
            at = iso(watched.timeline.now_us)
            self._channel.tell({"event": "trouble", "at": at, "reason": self._trouble})
        self._compare(watched.timeline)
        self._work(watched)

    def _work(self, watched: Watched) -> None:
        """Judges and shows, where it is time."""
        if self._judging.begin():
            self._tell_changes(watched.timeline, self._judging.is_over)
            between = self._verdicts.is_between_rounds
            self._judging.end(EVERY_SECONDS if between else 0.0)
        if self._channel.wants_more and self._showing.begin():
            self._channel.show(self._snapshot(watched))
            self._showing.end(EVERY_SECONDS)
        self._channel.pump()

    def end(self, watched: Watched) -> None:
        """The relay has ended and all is sealed: the last verdicts, whatever time they take."""
        self._answer(watched)
        for _ in range(2):  # the first may only end a round that had been begun
            self._tell_changes(watched.timeline, lambda: False)
        self._channel.tell(self._counters(watched))
        self._channel.drain(DRAIN_SECONDS)

    def _tell_changes(self, timeline: Timeline, is_over: Callable[[], bool]) -> None:
        for change in self._verdicts.judge(timeline, is_over):
            self._channel.tell(change_json(change, timeline.now_us))

    def _snapshot(self, watched: Watched) -> dict[str, Any]:
        shown = snapshot(watched.timeline, self._verdicts)
        return {**shown, "unread_bytes": watched.unread_bytes}

    def _counters(self, watched: Watched) -> dict[str, Any]:
        compared = {} if self._comparison is None else {"compared": len(self._comparison.compared)}
        return {
            "event": "counters",
            "at": iso(watched.timeline.now_us),
            "rows": watched.timeline.next_seq,
            "unread_bytes": watched.unread_bytes,
            "parts_sealed": watched.sealed,
            "expired_rows": watched.expired_rows,
            **compared,
        }

    def _answer(self, watched: Watched) -> None:
        waiting = []
        for asked in self._awaited:
            if asked["command"] == "COUNTERS":
                self._channel.tell(self._counters(watched))
            elif asked["through"] > watched.sealed:
                waiting.append(asked)
            elif asked["command"] == "SEAL":
                self._channel.tell(_answered("sealed", watched.timeline, asked))
            else:
                self._keep(watched, asked)
        self._awaited = waiting

    def _keep(self, watched: Watched, asked: Mapping[str, Any]) -> None:
        path = error = None
        try:
            path = watched.keep(asked["reason"], asked["through"])
        except OSError as refused:
            error = str(refused)
        answer = _answered("kept", watched.timeline, asked)
        self._channel.tell({**answer, "path": path and str(path), "error": error})

    def _compare(self, timeline: Timeline) -> None:
        samples, self._samples = self._samples, None
        if self._comparison is None or samples is None:
            return
        for parting in self._comparison.compare(timeline, samples):
            self._channel.tell({"event": "parted", "at": iso(timeline.now_us), **parted(parting)})


def _answered(event: str, timeline: Timeline, asked: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in asked.items() if name != "command"}
    return {"event": event, "at": iso(timeline.now_us), **rest}


def parted(parting: Parting) -> dict[str, Any]:
    """A parting as JSON values."""
    consumer = parting.consumer
    topic, partition = split_partition(consumer.topic)
    return {
        "incarnation": consumer.incarnation,
        "consumer_name": consumer.consumer_name,
        "topic": topic,
        "partition": partition,
        "subscription": consumer.subscription,
        "tap_available_permits": parting.tap_permits,
        "broker_available_permits": parting.broker_permits,
        "difference": parting.difference,
        "agreed_seq": parting.agreed_seq,
        "parted_seq": parting.parted_seq,
        "first_command": parting.first and asdict(parting.first),
        "same_size_command": parting.alone and asdict(parting.alone),
    }
