"""What a machine lacks for some tests: said once, in one line at the end of a run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

WANT = "for want of "
MODULE = re.compile(r"could not import '([^'.]+)")


def wanting(thing: str) -> str:
    """Why a test is skipped, in the words that `untested` counts."""
    return WANT + thing


def untested(skipped: Iterable[tuple[str, str]]) -> str:
    """The line; "" where nothing was skipped. skipped: what, "" for one test, and why."""
    counted = Counter(skipped)
    parts = [f"{what or number} {_since(why)}" for (what, why), number in sorted(counted.items())]
    return f"not tested here: {', '.join(parts)}" if parts else ""


def skipped(reports: Sequence[pytest.TestReport | pytest.CollectReport]) -> list[tuple[str, str]]:
    """Of each report: the file, where all of it was skipped, and why."""
    found = []
    for report in reports:
        whole = f"all of {report.nodeid}" if isinstance(report, pytest.CollectReport) else ""
        told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        found.append((whole, told.removeprefix("Skipped: ")))
    return found


def _since(why: str) -> str:
    if module := MODULE.match(why):
        return WANT + module[1]
    return why if why.startswith(WANT) else f"since {why}"
