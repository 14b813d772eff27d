"""A made fleet with planted events, written as a watch with --keep would write it.

Times are seconds since its begin. What is planted is drawn by a seed and known exactly.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from math import sin, tau
from pathlib import Path
from typing import Any, Literal

from pulsar_doctor.parts.fleet.journal import hour_file, write_hour
from pulsar_doctor.parts.fleet.record import SCHEMA_VERSION, RecordRow

BEGIN = datetime(2026, 10, 1, tzinfo=UTC)
BEGIN_US = int(BEGIN.timestamp()) * 1_000_000
HOUR, DAY, QUARTER, EVERY = 3600, 86400, 900, 60
NEVER = float("inf")
RANGES_MOST, QUOTA_BYTES = 10_000, 10 << 30
QUEUE = 1000
OLD, NEW, BAD = "Pulsar-Java-v4.0.8", "Pulsar-Java-v4.0.9", "Pulsar-Java-v4.1.0"
CAUSES = ("permits-exhausted", "paused", "not-acknowledging", "broker-read-stuck")
ENDS = ("restart", "reconnect", "new version", "unload", "nothing seen")

Kind = Literal[
    "stall", "shared", "leak", "ranges", "behind", "quiet nights", "redeployment", "bad version"
]
SHARES: dict[Kind, int] = {  # of 200 events
    "stall": 70, "shared": 10, "leak": 25, "ranges": 20, "behind": 20,
    "quiet nights": 25, "redeployment": 20, "bad version": 10,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stall:
    begin: int
    end: int
    cause: str
    ended_by: str = "nothing seen"


@dataclass(frozen=True, slots=True)
class Planted:
    kind: Kind
    number: int  # of the subscription
    begin: int
    stall: Stall | None = None
    crosses: float = NEVER  # seconds: when a limit is reached


@dataclass(frozen=True, slots=True)
class Life:
    """From when consumers are connected, how: renamed under new names; alone: the first only."""

    since: int
    version: str
    renamed: bool = False
    alone: bool = False


@dataclass
class Subscription:
    """What happens to one subscription: everything follows from this and the time."""

    number: int
    rate: float
    stalls: list[Stall] = field(default_factory=list)
    lives: list[Life] = field(default_factory=lambda: [Life(-DAY, OLD)])
    leaks_from: float = NEVER
    ranges: tuple[float, float] = (NEVER, 0.0)  # since, a second
    behind: tuple[float, float] = (NEVER, 0.0)  # since, bytes a second
    quiet_nights: bool = False

    @cached_property
    def topic(self) -> str:
        return f"persistent://shop/team-{self.number % 20}/orders-{self.number:05d}"

    def stall_at(self, at: float) -> Stall | None:
        return next((each for each in self.stalls if each.begin <= at < each.end), None)

    def rate_at(self, at: float) -> float:
        hour = at % DAY / HOUR
        if self.quiet_nights and (hour < 6 or hour >= 22):
            return 0.0
        return self.rate * (1 + 0.5 * sin(tau * (hour - 6) / 24))

    def moments(self, until: int) -> list[int]:
        """When a change is seen: at the first round after it, and the round after that."""
        edges = {edge for each in self.stalls for edge in (each.begin, each.end)}
        rounds = {-(-edge // EVERY) * EVERY for edge in edges}
        return sorted(at for each in rounds for at in (each, each + EVERY) if at < until)

    def row(self, at: int, consumers: int, jitter: random.Random) -> RecordRow:
        stall, rate = self.stall_at(at), self.rate_at(at) * jitter.uniform(0.95, 1.05)
        since, growth = self.behind
        waits_bytes = max(0.0, (at - since) * growth) * jitter.uniform(0.98, 1.02)
        backlog = int(waits_bytes / 1024) + int((at - stall.begin) * rate if stall else rate / 10)
        since, growth = self.ranges
        ranges = int(max(0.0, at - since) * growth * jitter.uniform(0.99, 1.01))
        moving = 0.0 if stall else rate * jitter.uniform(0.99, 1.01)
        limits = [
            {"name": name, "level": float(level), "most": float(most), "seconds": None}
            for name, level, most in (
                ("acknowledged-ranges", ranges, RANGES_MOST),
                ("backlog-quota-size", int(waits_bytes), QUOTA_BYTES),
            )
            if level > 0
        ]
        return {
            "schema_version": SCHEMA_VERSION,
            "seen_at": BEGIN_US + at * 1_000_000,
            "kind": "seen",
            "topic": self.topic,
            "subscription": "billing",
            "type": "Shared",
            "status": "stalled" if stall else "healthy",
            "cause": stall.cause if stall else None,
            "certainty": 0.9 if stall else None,
            "consumer": "worker-0" if stall else None,
            "broker_version": "4.0.8",
            "backlog": backlog,
            "oldest_seconds": (at - stall.begin) if stall else None,
            "pace": "falls-behind" if growth and at > since else "keeps-up",
            "comes_in": float(f"{rate:.2g}"),
            "sent_out": float(f"{moving:.2g}"),
            "acknowledged": float(f"{moving:.2g}"),
            "redelivered": 0.0,
            "growth": float(f"{rate - moving:.2g}"),
            "account": [{"place": "held", "least": backlog, "most": backlog}] if backlog else [],
            "limits": limits,
            "consumers": [
                self._consumer(at, n, moving / consumers, stall, jitter) for n in range(consumers)
            ],
        }

    def _consumer(
        self, at: int, number: int, rate: float, stall: Stall | None, jitter: random.Random
    ) -> RecordRow:
        life = self._life(at, number) if len(self.lives) > 1 else self.lives[0]
        began = life.since
        drawn = self.number * 40_503 + number * 2_654_435_761 + life.renamed * began * 97
        leaking = at - max(self.leaks_from, began) if life.version == BAD else 0.0
        leaked = int(max(0.0, leaking) / DAY * 0.5 * QUEUE)
        busy = jitter.randrange(QUEUE // 2)
        unacked = QUEUE - leaked if stall else min(busy, QUEUE - leaked)
        return {
            "name": f"{drawn % (1 << 20):05x}",
            "version": life.version,
            "host": f"{(self.number * 31 + number * 7) % 200:08x}",
            "connected": BEGIN_US + began * 1_000_000,
            "permits": max(0, QUEUE - leaked - unacked),
            "unacked": max(0, unacked),
            "rate": float(f"{rate:.2g}"),
            "queue_size": None,
        }

    def _life(self, at: int, number: int) -> Life:
        lived = (each for each in self.lives if each.since <= at and not (each.alone and number))
        return max(lived, key=lambda each: each.since)


@dataclass
class MadeFleet:
    subscriptions: int
    days: int
    consumers: int = 3
    events: int = 200
    seed: int = 1

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.all = [
            Subscription(n, 10 ** self.chance.uniform(0, 2.5)) for n in range(self.subscriptions)
        ]
        self.planted = list(self._plant())

    def _plant(self) -> Iterator[Planted]:
        wanted = [kind for kind, share in SHARES.items() for _ in range(share * self.events // 200)]
        numbers = self.chance.sample(range(self.subscriptions), len(wanted))
        for kind, number in zip(wanted, numbers, strict=True):
            yield self._event(kind, self.all[number])

    def _event(self, kind: Kind, of: Subscription) -> Planted:
        begin = int(self.chance.uniform(0.1, 0.45) * self.days * DAY)
        match kind:
            case "stall":
                begin = int(self.chance.uniform(0.05, 0.85) * self.days * DAY)
                end = begin + int(self.chance.uniform(20 * 60, 6 * HOUR))
                stall = Stall(begin, end, self.chance.choice(CAUSES), self.chance.choice(ENDS))
                self._end(of, stall)
                of.stalls.append(stall)
                return Planted(kind, of.number, begin, stall)
            case "shared":
                begin = (10 + of.number % 2) * self.days * DAY // 20
                stall = Stall(begin, begin + 2 * HOUR, "broker-read-stuck", "unload")
                self._end(of, stall)
                of.stalls.append(stall)
                return Planted(kind, of.number, begin, stall)
            case "leak":
                of.lives.append(Life(begin, BAD, renamed=True))
                of.leaks_from = begin
                stall = Stall(
                    begin + 2 * DAY, begin + 2 * DAY + 3 * HOUR, "permit-leak", "new version"
                )
                of.lives.append(Life(stall.end, OLD, renamed=True))
                of.stalls.append(stall)
                return Planted(kind, of.number, begin, stall)
            case "ranges" | "behind":
                lasts = self.chance.uniform(0.3, 0.5) * self.days * DAY
                most = RANGES_MOST if kind == "ranges" else QUOTA_BYTES
                setattr(of, kind, (begin, most / lasts))
                return Planted(kind, of.number, begin, crosses=begin + lasts)
            case "quiet nights":
                of.quiet_nights = True
            case "redeployment":
                of.lives.append(Life(begin, NEW, renamed=True))
            case "bad version":
                of.lives.append(Life(begin, BAD, renamed=True))
                of.lives.append(Life(begin + 2 * DAY, OLD, renamed=True))
                for n in range(6):
                    at = begin + HOUR + n * 7 * HOUR
                    of.stalls.append(Stall(at, at + 40 * 60, "permits-exhausted"))
        return Planted(kind, of.number, begin)

    def _end(self, of: Subscription, stall: Stall) -> None:
        version = of.lives[-1].version
        match stall.ended_by:
            case "restart":
                of.lives.append(Life(stall.end, version, renamed=True))
            case "reconnect":
                of.lives.append(Life(stall.end, version, alone=True))
            case "unload":
                of.lives.append(Life(stall.end, version))
            case "new version":
                of.lives.append(Life(stall.end, NEW, renamed=True))

    def write(self, folder: Path, days: Sequence[int] | None = None) -> int:
        """Writes these days, or all; how many rounds of a subscription they stand for."""
        rows = 0
        for hour in range(self.days * 24):
            if days is None or hour // 24 in days:
                rows += self._write_hour(folder, hour)
        return rows

    def _write_hour(self, folder: Path, hour: int) -> int:
        begin, jitter = hour * HOUR, random.Random(hour)
        rows = [self._round(begin + at) for at in range(0, HOUR, EVERY)]
        for each in self.all:
            changes = self._changes.get(each.number, {}).get(hour, ())
            for at in sorted({*range(begin, begin + HOUR, QUARTER), *changes}):
                rows.append(each.row(at, self.consumers, jitter))
        moment = datetime.fromtimestamp(BEGIN.timestamp() + begin, UTC)
        file = hour_file(folder / "cluster=made", f"{moment:%Y%m%dT%H%M%S}000000")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_hour(file, rows)
        return HOUR // EVERY * len(self.all)

    @cached_property
    def _changes(self) -> dict[int, dict[int, list[int]]]:
        found: dict[int, dict[int, list[int]]] = {}
        for each in self.all:
            for at in each.moments(self.days * DAY):
                hours = found.setdefault(each.number, defaultdict(list))
                hours[at // HOUR].append(at)
        return found

    def _round(self, at: int) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "seen_at": BEGIN_US + at * 1_000_000,
            "kind": "round",
            "broker_version": "4.0.8",
            "subscriptions": len(self.all),
            "unread": 0,
            "every_seconds": float(EVERY),
        }
