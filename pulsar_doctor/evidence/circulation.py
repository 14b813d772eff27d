"""The share of a subscription's deliveries that were redeliveries."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pulsar_doctor.broker.stats.age import Age

STEP = 10.0  # seconds that a Recent counts together
ROUNDS = 3  # times: a restart or two are ordinary


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent in a stretch of time, in messages."""

    messages: int
    acknowledged: int  # at most
    again: int  # sent or given back a second time, at least
    in_circles: bool  # whether some of it was certainly sent three times or more
    # Of those that came again, what a dead-letter policy has put away since, at most.
    ended: int = 0
    given_back: int = 0  # at least: to be sent again, now or later

    @property
    def still_circling(self) -> int:
        """Messages that came again and that no policy has put away."""
        return max(0, self.again - self.ended)


@dataclass(frozen=True, slots=True)
class Recent:
    """Messages of STEP seconds that began so long ago: delivered, again, acknowledged, put away."""

    seconds_ago: float
    messages: int
    again: int
    acknowledged: int
    dead_letters: int = 0
    age: float | None = None  # of new ones, the least: seconds since it was published or due


@dataclass(frozen=True, slots=True)
class Delay:
    """How long after they were published new messages were sent, seconds: before, and now."""

    before: float
    now: float
    apart: float  # seconds between the two


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often all that can be sent went to consumers that have left, and was not acknowledged."""

    times: int  # at least
    sent: int  # messages, to those that have left
    # Whether nothing was acknowledged since the topic was loaded. Otherwise they may have been sent
    # other messages, which were published before that and are acknowledged.
    sure: bool


@dataclass(frozen=True, slots=True)
class Circulation:
    """What was sent, by whatever reports it; None and nothing where it is not reported."""

    recent: tuple[Recent, ...] | None = None  # message by message
    count_most: int | None = None  # the most often that one came again; None: not counted
    out: int = 0  # messages that are not acknowledged now
    window: Sent | None = None  # by counters, in the samples' window
    before: Sent | None = None  # by the broker's rates, in the full minute before the window
    # By counters, since the consumers connected, where nothing was acknowledged since.
    life: Sent | None = None
    rounds: Rounds | None = None  # None: none that the counters show
    # Whether the oldest message was sent to others before those who are there connected (or, where
    # nobody is, before messages were last requested), and is not acknowledged since.
    starts_over: bool = False
    # Whether all that waits came at the end of the window: what is sent again is acknowledged soon.
    passes: bool = False
    at_most_twice: bool = False  # whether nothing need have come three times
    ever_sent: int | None = None  # messages, also to those that have left; 0 where nobody is there
    ever_known: bool = True  # otherwise it counts what was sent to the present consumers alone
    last_delivery: Age | None = None
    begun: Age | None = None  # since the oldest connected
    span_seconds: float | None = None
    rate_redeliver: float | None = None
    rate_out: float | None = None

    def lately(self, seconds: float) -> Sent | None:
        """The last seconds, message by message; None where nothing tells so closely."""
        if self.recent is None:
            return None
        those = [each for each in self.recent if each.seconds_ago < seconds + STEP]
        again = sum(each.again for each in those)
        circles = again >= 2 * self.out if self.count_most is None else self.count_most >= 2
        messages, acknowledged = (
            sum(each.messages for each in those),
            sum(each.acknowledged for each in those),
        )
        ended = sum(each.dead_letters for each in those) * (self.count_most or 0)
        return Sent(messages, acknowledged, again, circles, ended)

    def later_and_later(self, seconds: float) -> Delay | None:
        """The delay of new messages, if it grew all the time for so long; None: it did not.

        By the shortest one in each quarter of that time, which no slow clock of a producer makes
        longer.
        """
        known = [each for each in self.recent or () if each.age is not None]
        oldest = max((each.seconds_ago for each in known), default=0.0)
        if oldest < seconds:
            return None
        quarters: list[list[float]] = [[], [], [], []]
        for each in known:
            quarters[min(3, int(4 * (1 - each.seconds_ago / oldest)))].append(each.age or 0.0)
        if not all(quarters):
            return None
        least = [min(quarter) for quarter in quarters]
        grows = all(one < other for one, other in pairwise(least))
        return Delay(least[0], least[3], oldest * 3 / 4) if grows else None
