"""The plan of a sampling window, who is informed of progress, and the result."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pulsar_doctor.broker.samples import StatsAnswer
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.errors import InputError


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """How long and how often. Raises InputError where that cannot be meant."""

    window_seconds: float = 10.0  # 0: one sample
    interval_seconds: float = 1.0
    # read the limits of the cluster too, and open transactions at the end
    limits: bool = True
    # each name is one topic or one partition, no request is needed to know which; a partitioned
    # topic itself cannot be read this way
    as_named: bool = False
    internal: bool | None = None  # read ledgers and cursors too; None: if something seems to wait

    def __post_init__(self) -> None:
        if not 0 <= self.window_seconds < math.inf:
            raise InputError(f"a window of {self.window_seconds}s cannot be; see --window")
        if not 0 < self.interval_seconds < math.inf:
            raise InputError(f"an interval of {self.interval_seconds}s cannot be; see --interval")

    @property
    def samples(self) -> int:
        """How many samples a broker that is quick enough gives: at both ends, and in between."""
        return 1 + math.ceil(round(self.window_seconds / self.interval_seconds, 6))


@dataclass(frozen=True, slots=True)
class Watch:
    """What is called while the window runs."""

    keep: Callable[[StatsAnswer], None] | None = None  # with each reading that became a sample
    # with the windows of each topic, from its third sample on; true for all: the window ends
    decisive: Callable[[list[TopicWindow]], bool] | None = None
    progress: Callable[[int, int], None] | None = None  # samples taken, samples planned
    enough: asyncio.Event | None = None  # ends the window once it is set
    # with the windows of one sample each that a topic begins with, where more will follow
    first: Callable[[list[TopicWindow]], None] | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A topic or partition (full name), namespace or tenant that could not be read, and why."""

    topic: str
    reason: str
    gone: bool = False  # the broker does not have it, or not any more


@dataclass(frozen=True, slots=True)
class Sampled:
    """What came of a window. Each requested topic or partition is in one of the first three."""

    windows: tuple[TopicWindow, ...] = ()
    unread: tuple[Unread, ...] = ()
    not_loaded: tuple[str, ...] = ()  # partitions (full names) in the metadata, never used so far
    notes: tuple[str, ...] = ()  # what was read in part only, one sentence each
    # full name of a requested topic -> how many it has; None: it has none
    partitions: Mapping[str, int | None] = field(default_factory=dict)
