"""Looks at the physical plans of Spark, as text."""

from __future__ import annotations

import re

MOVES = ("Exchange", "BroadcastExchange", "Sort", "SortAggregate", "Window")
REDUCES = ("HashAggregate", "ObjectHashAggregate")
SCANS = ("FileScan", "Scan", "BatchScan")
LANDMARKS = "IN (CLOSE,GAP,UNPARSED)"


def nodes(plan: str) -> list[tuple[int, str, str]]:
    """Depth, first word and text of each node of a plan, the root first."""
    found = []
    for line in plan.splitlines():
        inside = re.match(r"([ :]*)([+:]- )?(?:\*\(\d+\) )?(.*)", line)
        assert inside
        depth, text = len(inside[1]) + len(inside[2] or ""), inside[3]
        word = re.match(r"\w+", text)
        if word:
            found.append((depth, word[0], text))
    return found


def moved_unreduced(plan: str) -> list[str]:
    """What sorts or moves the rows of a file before a group-by has made them few.

    Landmarks are few from the beginning: one or two a consumer. Rows are made few, too, by a join
    with what was broadcast, which is looked at by itself: such a join picks rows by their number.
    """
    wrong = []
    path: list[tuple[int, str, str]] = []  # from the root to where we are
    for node in nodes(plan):
        depth, word, _ = node
        while path and path[-1][0] >= depth:
            path.pop()
        path.append(node)
        if word in SCANS:
            wrong += _first_to_move(path)
    return wrong


def _first_to_move(path: list[tuple[int, str, str]]) -> list[str]:
    for _, word, text in reversed(path):
        if word in REDUCES or (word == "BroadcastHashJoin" and " Inner, " in text):
            return []
        if word == "Filter" and LANDMARKS in text:
            return []
        if word in MOVES:
            return [text]
    return []
