"""Many incidents at once, in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from multiprocessing import get_context

from tests.incidents.counting import Count, count, count_rhythms, none

CHUNK, FEW = 50, 5  # seeds at a time


def all_of(seeds: range, rhythms: range, processes: int) -> Count:
    """What all of these incidents and rhythms break."""
    chunks = [(count, seeds[at : at + CHUNK]) for at in range(0, len(seeds), CHUNK)]
    chunks += [(count_rhythms, rhythms[at : at + FEW]) for at in range(0, len(rhythms), FEW)]
    if processes < 2:
        return summed(map(_count, chunks))
    with get_context("spawn").Pool(processes) as pool:  # whoever asks may have threads
        return summed(pool.imap(_count, chunks))


def _count(chunk: tuple[Callable[[range], Count], range]) -> Count:
    counts, seeds = chunk
    return counts(seeds)


def summed(counts: Iterable[Count]) -> Count:
    """Counts of several runs as one."""
    total = none()
    for each in counts:
        total.add(each)
    return total
