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
    """How long and how often. Raises InputError where that cannot be meant.

    window_seconds: 0 is one sample. limits: whether the cluster's limits are read too.
    as_named: each name is one topic or one partition, and nobody needs to be asked which; a
    partitioned topic itself cannot be read this way. internal: whether ledgers and cursors are read
    too; None: where something seems to wait.
    """

    window_seconds: float = 10.0
    interval_seconds: float = 1.0
    limits: bool = True
    as_named: bool = False
    internal: bool | None = None

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
    """Who is told while the window runs.

    keep: each reading that became a sample, as it was read. decisive: asked for the windows of
    each topic from its third sample on; once it says so of all topics, the window ends.
    progress: samples taken, samples planned. enough: ends the window once it is set. first: the
    windows of one sample each that a topic begins with, where more are to come.
    """

    keep: Callable[[StatsAnswer], None] | None = None
    decisive: Callable[[list[TopicWindow]], bool] | None = None
    progress: Callable[[int, int], None] | None = None
    enough: asyncio.Event | None = None
    first: Callable[[list[TopicWindow]], None] | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A topic, a partition (full names), a namespace or a tenant that could not be read, and why.

    gone: the broker does not have it, or not any more.
    """

    topic: str
    reason: str
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Sampled:
    """What came of a window. Every topic and partition asked for is in one of the first three.

    not_loaded: partitions (full names) that exist by the topic's metadata, and that nobody has
    used so far. notes: what was read in part only, one sentence each. partitions: how many each
    topic asked for has, by its full name; None where it has none.
    """

    windows: tuple[TopicWindow, ...] = ()
    unread: tuple[Unread, ...] = ()
    not_loaded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    partitions: Mapping[str, int | None] = field(default_factory=dict)
