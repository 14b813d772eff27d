"""Sentences about the threads of a consumer's process, from a thread dump."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pulsar_doctor.evidence.inside import Inside
from pulsar_doctor.evidence.process_report import Sitting
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import joined, say

NAMED_MOST = 3  # threads in one sentence


def has_sat(thread: Sitting) -> str:
    """`x has sat in … under … for 41 s`; `x is in …` where it ran just now, or nobody tells."""
    if thread.seconds is None:
        return say("{} is in {}", thread.thread, thread.where)
    return say("{} has been in {} for {}", thread.thread, thread.where, duration(thread.seconds))


def all_have_sat(places: Sequence[Sitting], what: str) -> str:
    """`its thread x has sat in …`; of several, which nobody tells apart, the first few.

    Then who holds what they wait for, each of these threads once. Of threads that are all in one
    place: `each of its 4 threads has been in …`.
    """
    if len(places) > 1 and len({(each.where, each.waits, each.chain) for each in places}) == 1:
        least = min(places, key=lambda each: each.seconds or 0.0)
        return sentence([replace(least, thread=f"each of its {len(places)} {what}s")])
    who = f"its {what}" if len(places) == 1 else f"of its {len(places)} {what}s"
    return say("{} {}", who, sentence(places[:NAMED_MOST]))


def in_pool(own: Inside) -> str | None:
    """`its messages wait in a pool of 4 threads, …; x has sat in …`; None where none do."""
    if not own.pools:
        return None
    pool = own.pools[0]
    where = "its messages wait in a pool" if pool.holding else "its process has a pool"
    waits = say("{} of {}", where, pool.text(own.moment_ms))
    return joined("; ", (waits, sentence(own.pool_places[:NAMED_MOST])))


def sentence(named: Sequence[Sitting]) -> str:
    """`x has sat in … for 41 s, y is in …; z, which holds what x waits for, has sat in …`."""
    owners = {each.thread: each for one in named for each in one.chain}
    for each in named:
        owners.pop(each.thread, None)
    first = joined(", ", map(_sits_and_waits, named))
    return joined("; ", [first, *map(_sits_and_waits, owners.values())])


def _sits_and_waits(thread: Sitting) -> str:
    where, longer = has_sat(thread), "" if thread.seconds is None else " or longer"
    if thread.of_client:
        where = say("{} (it is {})", where, thread.of_client)
    if thread.waits is None:
        return where
    return say("{}{}, where it waits for {}", where, longer, thread.waits.text)
