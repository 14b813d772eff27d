"""Puts files of pulsar-admin output in order of time, and joins them to one window a topic.

The files do not tell when they were taken. Either the time of the last one is given, or how far
apart they are, or both; otherwise only what they hold tells in which order they are, and what came
between them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cmp_to_key
from itertools import pairwise, takewhile

from pulsar_doctor.broker.samples.files import BROKER, METRICS, TOPIC, TOTALS, called
from pulsar_doctor.broker.samples.plain import UNKNOWN, UNNAMED, Plain
from pulsar_doctor.broker.samples.reading import check_found, is_called
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import ConsumerStats
from pulsar_doctor.broker.stats.window import (
    Window,
    by_connection,
    consumers_of,
    fell,
    strangers,
)
from pulsar_doctor.errors import InputError
from pulsar_doctor.ledger.topics import split_partition

OF_CONSUMERS = (
    "last_acked_timestamp_ms",
    "last_consumed_timestamp_ms",
    "last_consumed_flow_timestamp_ms",
)


def timed(files: Sequence[Plain], at_ms: int, interval_ms: int | None) -> list[Plain]:
    """The files with their times. at_ms: of the last; the others lie `interval_ms` apart.

    None: the distance is not known; then the others have none.
    """
    if interval_ms is None:
        return [*files[:-1], files[-1].at(at_ms)]
    last = len(files) - 1
    return [plain.at(at_ms - (last - at) * interval_ms) for at, plain in enumerate(files)]


def in_time(files: Sequence[Plain]) -> list[Plain]:
    """The files in the order in which they were taken, as far as they tell; else as they came."""
    return sorted(files, key=cmp_to_key(_order))


def _order(one: Plain, other: Plain) -> int:
    one_later, other_later = _is_later(one, other), _is_later(other, one)
    return 0 if one_later == other_later else 1 if one_later else -1


def _is_later(one: Plain, other: Plain) -> bool:
    """Whether anybody who stayed connected has been sent more, or has a later moment."""
    return any(
        fell(one.samples[topic].taken_ms, other.samples[topic].taken_ms)
        or consumer_fell(one.samples[topic], other.samples[topic])
        or moment_fell(one.samples[topic], other.samples[topic])
        for topic in one.samples.keys() & other.samples.keys()
    )


def once(files: Sequence[Plain]) -> list[Plain]:
    """Without those that hold the same numbers as the one before them: copies show no movement."""
    return [
        each for at, each in enumerate(files) if not at or each.samples != files[at - 1].samples
    ]


def plain_windows(
    files: Sequence[Plain], topics: Sequence[str], interval_ms: int | None
) -> list[TopicWindow]:
    """The one topic of the files, or each partition, or each topic of one file. files: in order.

    Raises InputError where they are not samples of one topic in order, DoctorError where the
    topic requested is not there.
    """
    check_alike(files)
    if not topics:
        _check_connected(files)
    last = files[-1]
    if UNNAMED in last.samples:
        topic, partition = split_partition(topics[0] if topics else UNKNOWN)
        whole = last.kind == TOTALS
        number = None if whole else partition
        window = _topic_window(topic, number, _window(files, UNNAMED, interval_ms), last)
        return [replace(window, summed=whole)]
    check_found(topics, last.samples, called(last.name))
    wanted = [name for name in last.samples if not topics or is_called(name, topics[0])]
    windows = [
        _topic_window(*split_partition(name), _window(files, name, interval_ms), last)
        for name in wanted
    ]
    return sorted(windows, key=lambda each: each.partition or 0)


def _topic_window(topic: str, partition: int | None, window: Window, last: Plain) -> TopicWindow:
    """With the last file's own time, unless that cannot be or a better one is known."""
    sample = window.last
    earlier = last.guess_ms is not None and last.guess_ms < (sample.now_ms or 0)
    guess_ms = None if earlier or sample.taken_ms is not None else last.guess_ms
    return TopicWindow(topic, partition, window, guess_ms=guess_ms)


def _window(files: Sequence[Plain], topic: str, interval_ms: int | None) -> Window:
    """A window of the files that have it, back to the first gap, which has no known length."""
    have = list(takewhile(lambda plain: topic in plain.samples, reversed(files)))[::-1]
    for before, after in pairwise(have):
        pair = before.samples[topic], after.samples[topic]
        names = f"{called(before.name)} and {called(after.name)}"
        if consumer_fell(*pair):
            raise InputError(f"{names} are not in order of time; give the oldest first")
        if moment_fell(*pair):
            raise InputError(f"{names} are not of one topic; give each topic by itself")
    samples = tuple(plain.samples[topic] for plain in have)
    return Window(samples, interval_ms=interval_ms if len(samples) > 1 else None)


def consumer_fell(before: Sample, after: Sample) -> bool:
    """Whether a consumer that stayed connected was sent less later on, which cannot be."""
    pairs = stayed(before, after)
    return any(fell(one.msg_out_counter, same.msg_out_counter) for one, same in pairs)


def moment_fell(before: Sample, after: Sample) -> bool:
    """Whether a moment of a consumer that stayed connected is earlier later on, or never came."""
    return any(
        any(getattr(one, moment) is not None for moment in same.never)
        or any(fell(getattr(one, moment), getattr(same, moment)) for moment in OF_CONSUMERS)
        for one, same in stayed(before, after)
    )


def stayed(before: Sample, after: Sample) -> Iterator[tuple[ConsumerStats, ConsumerStats]]:
    """The consumers that stayed connected, as each was and as it is."""
    for name in before.topic.subscriptions or {}:
        earlier = by_connection(consumers_of(before, name) or ())
        later = by_connection(consumers_of(after, name) or ())
        yield from ((earlier[key], later[key]) for key in earlier.keys() & later.keys())


def check_alike(files: Sequence[Plain]) -> None:
    """Raises InputError where files are of different commands or topics."""
    first = files[0]
    for plain in files[1:]:
        if plain.kind != first.kind:
            raise InputError(
                f"{called(first.name)} is the output of {first.kind} and {called(plain.name)} that "
                f"of {plain.kind}; give samples of one kind"
            )
    if first.kind in (BROKER, METRICS):
        return  # which name each topic
    names = sorted({split_partition(name)[0] for plain in files for name in plain.samples})
    if len(names) > 1 and len(files) > 1:
        raise InputError(f"the files are of several topics, {names[0]} and {names[1]}; give one")


def _check_connected(files: Sequence[Plain]) -> None:
    """Raises InputError where two files that do not name their topic share no connection."""
    unnamed = files if files[0].kind in (TOPIC, TOTALS) else ()
    for pair in pairwise(unnamed):
        one, other = (topic for plain in pair for topic in plain.samples.values())
        if strangers(one.topic, other.topic):
            raise InputError(
                f"nothing shows that {called(pair[0].name)} and {called(pair[1].name)} are of one "
                "topic: no consumer or producer is in both; give TOPIC on the command line if they "
                "are, or judge each by itself"
            )


def left_out(files: Sequence[Plain]) -> Collection[str]:
    """Partitions of earlier files that are not in the last one, in order."""
    return sorted({name for plain in files for name in plain.samples} - files[-1].samples.keys())
