"""The tests that took longest, in one line at the end of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from heapq import nlargest

import pytest

MOST = 10


def slowest(reports: Iterable[object]) -> str:
    """The slowest tests with their seconds of wall time, fixtures included; "" after no test."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for each in reports:
        if isinstance(each, pytest.TestReport):
            seconds[each.nodeid] += each.duration
    longest = nlargest(MOST, seconds, key=seconds.__getitem__)
    parts = [f"{each.removeprefix('tests/')} {seconds[each]:.1f} s" for each in longest]
    return f"slowest tests: {', '.join(parts)}" if parts else ""
