"""Small charts of what happened over time, one row for each number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple

from rich.text import Text

from pulsar_doctor.report.charts import (
    CHART_WIDTH_MOST,
    NOTHING,
    UNKNOWN,
    Cell,
    blocks,
    highest,
)
from pulsar_doctor.report.tables import INDENT, NOT_REPORTED, TableRow, View, count

LABEL_WIDTH = 14
NUMBER_WIDTH = 14  # behind a row of blocks
STEPS_LEAST = 8


@dataclass(frozen=True, slots=True)
class Steps:
    """A timeline in as many steps of equal length as there is room for."""

    start: datetime
    step: timedelta
    buckets: int  # in each step
    rows: Sequence[Sequence[TableRow]]

    @property
    def end(self) -> datetime:
        """Where the last step ends."""
        return self.start + len(self.rows) * self.step

    def numbers(self, column: str, join: Callable[[list[Any]], int]) -> list[Cell]:
        """One number for each step; join: makes one of those of its buckets."""
        return [_joined([row[column] for row in rows], join) for rows in self.rows]


def _joined(values: list[Any], join: Callable[[list[Any]], int]) -> Cell:
    if not values:
        return NOTHING
    return UNKNOWN if None in values else join(values)


def steps(timeline: Sequence[TableRow], bucket_seconds: float, width: int) -> Steps:
    """Puts buckets that follow each other together, until at most `width` steps are left.

    timeline: at least one row; `start` is the moment at which its bucket begins.
    """
    bucket = timedelta(seconds=bucket_seconds)
    start = min(row["start"] for row in timeline)
    last = max(row["start"] for row in timeline)
    buckets = ceil(((last - start) // bucket + 1) / max(width, 1))
    step = buckets * bucket
    rows: list[list[TableRow]] = [[] for _ in range((last - start) // step + 1)]
    for row in timeline:
        rows[(row["start"] - start) // step].append(row)
    return Steps(start, step, buckets, rows)


class Kind(NamedTuple):
    """A row of blocks."""

    label: str
    column: str
    join: Callable[[list[int]], int]  # combines the buckets of a step
    style: str


KINDS = (
    Kind("delivered", "delivered", sum, "green"),
    Kind("acknowledged", "acknowledged", sum, "cyan"),
    Kind("FLOWs", "flows", sum, ""),
    Kind("starved", "starved_consumers", max, "red"),  # in two buckets it may be the same one
)


def rows_of_blocks(
    timeline: Sequence[TableRow], bucket_seconds: float, view: View
) -> Iterator[Text]:
    """A row for each kind, when it began and ended, a sign's length. timeline: one row or more."""
    width = min(view.width, CHART_WIDTH_MOST)
    room = max(STEPS_LEAST, width - INDENT - LABEL_WIDTH - NUMBER_WIDTH)
    found = steps(timeline, bucket_seconds, room)
    for kind in KINDS:
        cells = found.numbers(kind.column, kind.join)
        highest = _highest(cells, view, is_bound=kind.join is max and found.buckets > 1)
        drawing = (blocks(cells, view.signs), kind.style)
        yield Text.assemble(f"{kind.label:<{LABEL_WIDTH}}", drawing, f"  {highest}")
    yield from _axis(found, view)
    step = view.lasting(found.step // timedelta(microseconds=1))
    yield Text(f"each sign is {step}; on the right, the highest number of a sign")
    yield _lowest(timeline, view.lasting(round(bucket_seconds * 1e6)), view)


def _highest(cells: Sequence[Cell], view: View, *, is_bound: bool) -> str:
    most = highest(cells)
    if most is None:
        return NOT_REPORTED
    is_bound = UNKNOWN in cells or (is_bound and most > 0)
    return f"{view.signs.at_least if is_bound else ''}{count(most)}"


def _axis(found: Steps, view: View) -> Iterator[Text]:
    begins, ends = view.clock(found.start), view.clock(found.end)
    between = len(found.rows) - len(begins) - len(ends)
    if between > 0:
        yield Text(f"{' ' * LABEL_WIDTH}{begins}{' ' * between}{ends}", style="dim")


def _lowest(timeline: Sequence[TableRow], bucket: str, view: View) -> Text:
    what = "lowest available permits of a consumer"
    known = [row for row in timeline if row["lowest_available"] is not None]
    if not known:
        return Text(f"{what}: not reported")
    lowest = min(known, key=lambda row: (row["lowest_available"], row["start"]))
    permits, since = lowest["lowest_available"], view.clock(lowest["start"])
    return Text(f"{what}: {permits:,}, first in the {bucket} from {since}")
