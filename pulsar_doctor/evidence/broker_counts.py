"""What the broker counts beside deliveries: throttled reads, entry filters, cursors of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.wording.typed_json import written_as

SEVERAL = 2  # times: each message that waits was put back so often, on average


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Reads that a limit held back, or made smaller, within the window."""

    # Subscription, topic or broker.
    limit_of: str = field(metadata=written_as("whose"))
    counter: str  # as the broker calls it
    reads: int


@dataclass(frozen=True, slots=True)
class Throttling:
    """What the broker counts of throttled reads."""

    reads: int  # since the topic was loaded
    lately: tuple[HeldBack, ...]  # those of the window
    # Share of the samples in which a consumer could receive; 0: none was held back lately.
    ready: float


@dataclass(frozen=True, slots=True)
class Filtering:
    """Counts since the topic was loaded. A message counts each time that the broker reads it."""

    processed: int
    accepted: int
    put_back: int  # to be read again after a delay
    lately: int | None  # of these, in the window; None: not reported

    def keeps(self, waiting: int) -> bool:
        """Whether the filter puts this many waiting messages back again and again."""
        again = waiting > 0 and self.put_back >= SEVERAL * waiting
        return again and self.put_back > self.accepted and self.lately != 0

    def measures(self) -> tuple[Measure, ...]:
        """Returns these counts as what a finding rests on."""
        counts = {
            "filter_processed_msg_count": self.processed,
            "filter_rescheduled_msg_count": self.put_back,
            "put_back_in_the_window": self.lately,
        }
        return tuple(Measure(name, count, "messages") for name, count in counts.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCursor:
    """The progress of a cursor of the broker itself: a replicator's, or compaction's.

    None is not reported everywhere.
    """

    kind: str  # as in `CursorOwner`, like `of`
    of: str | None
    position: str | None = None
    waiting: int | None = None  # entries that it has to do yet
    waits_throughout: bool = False  # whether some waited in every sample
    moved: bool | None = None  # whether it did any within the window
    watched_seconds: float | None = None
    connected: bool | None = None  # of a replicator, now
    apart_throughout: bool = False  # whether a replicator was not connected in any sample
    msg_rate_out: float | None = None  # messages a second in the broker's last full minute
    succeeded: Age | None = None  # since the last compaction that succeeded
    failed: Age | None = None  # since the last one that failed
