"""How fast a subscription can be worked off, what limits it, and what each remedy would bring.

Each limit alone allows so many messages a second, its *ceiling*. The lowest one sets the pace:

- *application*: its workers, each on one message at a time;
- *key* (Key_Shared): the consumer of the busiest hashes has so large a share of the messages;
- *queue*: what a queue lets through in each round, which is the round trip and the work on the
  messages that the client takes before it asks again (see `rounds`);
- *acknowledgements*: the limit of unacknowledged messages, in the time from delivery to ack;
- *dispatch*: a rate limit of the broker.

What is delivered twice is done for nothing. `model.running` comes to the same rates, event by
event. Assumed: messages alike, consumers alike, workers that do not wait for each other, and keys
and partitions that spread evenly, but for the busiest key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any, Literal

from pulsar_doctor.model.consumer import refill_threshold
from pulsar_doctor.wording.durations import duration, per_second
from pulsar_doctor.wording.printable import many

LimitName = Literal["application", "key", "queue", "acknowledgements", "dispatch"]
LeverName = Literal[
    "consumers", "receiver queue", "at once", "unacked limit", "partitions", "dispatch rate",
    "redeliveries",
]  # fmt: skip
QUEUES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)  # to choose from
CONSUMERS_MOST = 100_000
FURTHER = 2  # times a queue that is tried, where nothing tells how large it may be
NOTHING = 1.05  # times: a gain below that is none
SINGLE_ACTIVE = ("exclusive", "failover")
OWN_LEVER: dict[str, LeverName] = {
    "application": "consumers", "key": "at once", "queue": "receiver queue",
    "acknowledgements": "unacked limit", "dispatch": "dispatch rate",
}  # fmt: skip
# What each lever changes of a workload, and how it is called.
FIELDS: dict[LeverName, tuple[str, str]] = {
    "consumers": ("consumers", "{} consumers"),
    "receiver queue": ("receiver_queue_size", "a receiver queue of {}"),
    "at once": ("at_once", "{} messages at once in each consumer"),
    "unacked limit": ("unacked_limit", "a limit of {} unacknowledged messages"),
    "partitions": ("partitions", "{} partitions"),
    "dispatch rate": ("dispatch_rate", "a dispatch rate of {:.3g}/s"),
    "redeliveries": ("again_share", "no redeliveries"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What decides how fast a subscription is worked off. 0 and None: no such limit is known."""

    type: str = "shared"  # shared, key_shared, exclusive or failover
    consumers: int = 1  # that are sent messages; of Exclusive and Failover one for each partition
    at_once: int = 1  # messages that one consumer works on at a time
    process_seconds: float = 0.0  # for one message
    receiver_queue_size: int | None = None
    round_trip_seconds: float = 0.0  # from a FLOW to its first message
    unacked_limit: int | None = None  # of each consumer
    held_seconds: float = 0.0  # from the delivery of a message to its ack
    key_share: float = 0.0  # of all messages, that the busiest key has
    dispatch_rate: float | None = None  # messages a second that the broker may send
    again_share: float = 0.0  # of the deliveries, that are redeliveries
    partitions: int = 1
    idle: int = 0  # more consumers, with nothing to do: all that there is waits in the queues
    arrivals: float | None = None  # messages a second
    backlog: int | None = None

    @property
    def workers(self) -> int:
        """Consumers that are sent messages."""
        active = self.partitions if self.type in SINGLE_ACTIVE else self.consumers
        return min(self.consumers, active)

    @property
    def ceilings(self) -> dict[LimitName, float]:
        """Messages a second that each limit alone allows; one that is not known is left out."""
        each = self.at_once / self.process_seconds if self.process_seconds else inf
        rates: dict[LimitName, float] = {"application": self.workers * each}
        if self.type == "key_shared" and self.key_share:
            rates["key"] = each / (self.key_share + (1 - self.key_share) / self.workers)
        if self.receiver_queue_size is not None and self.round_trip_seconds:
            rates["queue"] = self.workers * self._by_queue(self.receiver_queue_size)
        if self.unacked_limit and self.held_seconds:
            rates["acknowledgements"] = self.workers * self.unacked_limit / self.held_seconds
        if self.dispatch_rate is not None:
            rates["dispatch"] = self.dispatch_rate
        return rates

    def _by_queue(self, size: int) -> float:
        """The work of one consumer. A queue of 0 asks when a worker is free."""
        messages, works = rounds(size)
        return messages / (self.round_trip_seconds + works * self.process_seconds / self.at_once)

    @property
    def rate(self) -> float:
        """Messages finished a second, as long as enough of them wait."""
        return min(self.ceilings.values()) * (1 - self.again_share)

    @property
    def set_by(self) -> LimitName:
        """The limit that sets the pace; the application where another is hardly lower."""
        rates = self.ceilings
        own = rates["application"] / NOTHING
        return min(rates, key=lambda name: own if name == "application" else rates[name])

    @property
    def keeps_up(self) -> bool:
        """Whether nothing waits, and what comes is no more than it can do."""
        return bool(self.arrivals) and not self.backlog and self.rate >= (self.arrivals or 0)

    @property
    def catch_up_seconds(self) -> float | None:
        """Until nothing waits; None where that is never, or not known."""
        if self.arrivals is None or self.backlog is None:
            return None
        gain = self.rate - self.arrivals
        return self.backlog / gain if 0 < gain < inf else None

    @property
    def consumers_needed(self) -> int | None:
        """To keep up with what arrives; None: no number of them suffices, or it is not known."""
        if not self.arrivals or self.type in SINGLE_ACTIVE or not self.rate:
            return None
        many_more = ceil(self.arrivals / self.rate * self.workers - 1e-9)
        most = replace(self, consumers=CONSUMERS_MOST).rate
        return many_more if most >= self.arrivals and "key" not in self.ceilings else None


@dataclass(frozen=True, slots=True)
class Lever:
    """One remedy, and what it would bring."""

    lever: LeverName
    value: float | None  # that is set; None: the setting is taken away
    rate: float  # messages a second, then; inf: nothing known limits it
    gain: float  # times the rate of now
    catch_up_seconds: float | None  # None: it does not catch up, or that is not known
    why: str | None  # why it brings nothing; None: it does

    @property
    def changes(self) -> str:
        """`4 consumers`, `a receiver queue of 1`."""
        return FIELDS[self.lever][1].format(self.value)


def rounds(size: int) -> tuple[int, int]:
    """Messages that a receiver queue lets through in each round, and how many are worked on in it.

    They come in groups, one for each FLOW, which asks for `refill` of them. Of the queue so many
    whole groups are under way at a time, and what is left of it is owed all along. A FLOW leaves
    with the message that completes `refill`. A queue of 0 asks for one when it has done one.
    """
    if size == 0:
        return 1, 1
    refill = refill_threshold(size)
    groups, owed = divmod(size, refill)
    return groups * refill, refill - 1 - owed


def smallest_queue(now: Workload, sizes: Sequence[int] = QUEUES) -> int:
    """The smallest receiver queue that costs nothing; never 0, which takes no batches."""
    able = sorted(size for size in sizes if size > 0) or [1]
    rates = {size: replace(now, receiver_queue_size=size).rate for size in able}
    enough = 0.99 * max(rates.values())
    if now.arrivals and not now.backlog:  # with room for a burst
        enough = min(enough, FURTHER * now.arrivals)
    return next(size for size in able if rates[size] >= enough)


def levers(now: Workload) -> tuple[Lever, ...]:
    """What each would bring: first that of the limit that sets the pace, and those that bring most.

    Those that bring nothing come last, with the reason.
    """
    tried = [_lever(now, name, value) for name, value in _tries(now)]
    own = "redeliveries" if now.again_share else OWN_LEVER[now.set_by]
    own = "receiver queue" if now.idle else own
    return tuple(sorted(tried, key=lambda each: (each.why is not None, each.lever != own)))


def _tries(now: Workload) -> Iterator[tuple[LeverName, float | None]]:
    there = now.consumers + now.idle
    for number in dict.fromkeys((2 * there, 3 * there, now.consumers_needed)):
        if number and number > there:
            yield "consumers", number
    yield "at once", 2 * now.at_once
    if now.receiver_queue_size is not None:
        yield "receiver queue", _other_queue(now, now.receiver_queue_size)
    if now.unacked_limit:
        yield "unacked limit", 2 * now.unacked_limit
    if now.partitions > 1 or now.type in SINGLE_ACTIVE:
        yield "partitions", 2 * now.partitions
    if now.dispatch_rate is not None:
        yield "dispatch rate", 2 * now.dispatch_rate
    if now.again_share:
        yield "redeliveries", None


def _other_queue(now: Workload, size: int) -> int:
    """The one that costs nothing; a larger one, where this one costs nothing already."""
    if now.idle:
        return 1
    best = smallest_queue(now)
    if now.process_seconds and best > size:
        return best
    return next((each for each in QUEUES if each >= FURTHER * size), FURTHER * size)


def _lever(now: Workload, name: LeverName, value: float | None) -> Lever:
    changed: dict[str, Any] = {FIELDS[name][0]: value or 0}
    if now.idle:  # who has nothing to do gets a share of smaller queues, and of nothing else
        queue = name == "receiver queue"
        changed = {**changed, "consumers": now.consumers + (now.idle if queue else 0)}
    if name == "partitions" and now.type in SINGLE_ACTIVE:  # each has its consumer
        changed["consumers"] = round(now.consumers * (value or 0) / now.partitions)
    then = replace(now, **changed)
    gain = then.rate / now.rate if 0 < now.rate < inf else 1.0
    why = _why_nothing(now, name) if gain < NOTHING or now.keeps_up else None
    return Lever(name, value, then.rate, gain, then.catch_up_seconds, why)


def _why_nothing(now: Workload, name: LeverName) -> str:
    """The limit that sets the pace all the same."""
    if now.keeps_up:
        return f"it keeps up with the {per_second(now.arrivals or 0)} that arrive"
    if name == "consumers" and now.type in SINGLE_ACTIVE:
        return f"{now.type.capitalize()} sends all of a partition to one consumer"
    if name == "consumers" and now.idle:
        return f"what waits is in queues already ({many(now.idle, 'consumer')} idle)"
    return sets_the_pace(now)


def sets_the_pace(now: Workload) -> str:
    """The limit that sets the pace, in words: `one key has 71 %`."""
    words = {
        "application": f"the application sets the pace: {_work(now)}",
        "key": f"one key has {now.key_share:.0%} of the messages",
        "queue": (
            f"the receiver queue of {now.receiver_queue_size} is empty for most of each round trip "
            f"of {duration(now.round_trip_seconds)}"
        ),
        "acknowledgements": (
            f"at most {now.unacked_limit} messages may be unacknowledged, and each is for "
            f"{duration(now.held_seconds)}"
        ),
        "dispatch": f"the broker sends no more than {per_second(now.dispatch_rate or 0)}",
    }
    return words[now.set_by]


def _work(now: Workload) -> str:
    at_once = f", {now.at_once} at once" if now.at_once > 1 else ""
    return f"{duration(now.process_seconds)} for each message{at_once}"
