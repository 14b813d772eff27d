"""How long an application worked on each message, estimated from a trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median

Position = tuple[int, int]
Step = tuple[Position, int]  # an entry's position, and when something happened to it


@dataclass(slots=True)
class TimedConsumer:
    """One consumer of a trace. Times in nanoseconds on the trace's clock, positions in order."""

    name: str
    attached_ns: int
    receiver_queue_size: int | None = None
    given_seconds: float | None = None
    client_version: str | None = None
    # entries: when they came, with how many messages
    delivered: dict[Position, tuple[int, int]] = field(default_factory=dict)
    # each message that its application took, where known
    taken: list[Step] = field(default_factory=list)
    # whole entries; those of one ACK have the same time
    acked: dict[Position, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Times:
    """Nanoseconds of work by (position, index in its entry)."""

    known: Mapping[tuple[Position, int], int]
    at_least: Mapping[tuple[Position, int], int]  # of what was in hand at the end
    grouped: int  # entries of which only a common time is known: one ACK for several
    by_takes: bool  # takes were reported; acks come later and in groups


def times_of(worker: TimedConsumer, end_ns: int) -> Times:
    """What its takes show, otherwise its acks. The application works on one message at a time."""
    return _by_takes(worker, end_ns) if worker.taken else _by_acks(worker)


def usual_ns(worker: TimedConsumer, times: Times) -> int | None:
    """What a message takes of which nothing is known: as given, or the median; None if unknown."""
    if worker.given_seconds is not None:
        return round(worker.given_seconds * 1e9)
    return round(median(times.known.values())) if times.known else None


def _by_takes(worker: TimedConsumer, end_ns: int) -> Times:
    """From a take to the next one, or to the ack where that comes first."""
    known: dict[tuple[Position, int], int] = {}
    at_least: dict[tuple[Position, int], int] = {}
    for message, began_ns, next_ns in _steps(worker.taken):
        ends = [next_ns, worker.acked.get(message[0])]
        later = [end for end in ends if end is not None and end >= began_ns]
        if later:
            known[message] = min(later) - began_ns
        else:
            at_least[message] = max(0, end_ns - began_ns)
    return Times(known, at_least, 0, True)


def _steps(
    taken: Iterable[Step],
) -> Iterator[tuple[tuple[Position, int], int, int | None]]:
    """(position, index), when it was taken, and when the next one was."""
    index: dict[Position, int] = {}
    before: tuple[tuple[Position, int], int] | None = None
    for position, at_ns in taken:
        if before is not None:
            yield *before, at_ns
        number = index.get(position, 0)
        index[position] = number + 1
        before = (position, number), at_ns
    if before is not None:
        yield *before, None


def _by_acks(worker: TimedConsumer) -> Times:
    """From the ack before it, or its delivery, to its ack; what one ACK ends shares evenly."""
    known: dict[tuple[Position, int], int] = {}
    grouped = 0
    together: dict[int, list[Position]] = {}
    for position, at_ns in worker.acked.items():
        if position in worker.delivered:
            together.setdefault(at_ns, []).append(position)
    free_ns = 0
    for at_ns in sorted(together):
        positions = together[at_ns]
        delivered = [worker.delivered[position] for position in positions]
        began_ns = max(free_ns, min(delivered)[0])
        each_ns = (at_ns - began_ns) // sum(messages for _, messages in delivered)
        for position, (_, messages) in zip(positions, delivered, strict=True):
            for number in range(messages):
                known[position, number] = max(0, each_ns)
        grouped += len(positions) if len(positions) > 1 else 0
        free_ns = at_ns
    return Times(known, {}, grouped, False)
