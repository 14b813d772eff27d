"""Prints a line for each event on the wire as it happens."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import groupby

from rich.cells import cell_len

from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.report.paper import PIPE_WIDTH
from pulsar_doctor.wire.columns import TAKEN, Row

SHOWN = {
    "SUBSCRIBE": "subscribes",
    "FLOW": "FLOW",
    "MESSAGE": "receives",
    TAKEN: "takes",
    "ACK": "acknowledges",
    "REDELIVER_UNACKNOWLEDGED_MESSAGES": "gives back",
    "CLOSE_CONSUMER": "closes",
}
FORECASTS = frozenset({"FLOW", TAKEN})


class LiveLines:
    """Collects rows and draws them: runs of the same thing become one line, a FLOW stays its own.

    draw: takes one line of text. width: what does not fit is left out, the forecast first.
    """

    def __init__(self, draw: Callable[[str], None], width: int = PIPE_WIDTH) -> None:
        self._draw = draw
        self._width = width
        self._rows: list[tuple[Row, str]] = []
        self.timeline: Timeline | None = None  # of the rows; a forecast is for its moment

    def add(self, row: Row) -> None:
        """Keeps a row for the next flush."""
        if row.incarnation is not None and row.command in SHOWN:
            self._rows.append((row, self._forecast(row)))

    def _forecast(self, row: Row) -> str:
        if row.command not in FORECASTS or self.timeline is None:
            return ""
        for consumer in self.timeline.living:
            if consumer.incarnation == row.incarnation:
                ahead = consumer.ledger.forecast()
                return str(ahead) if ahead and not consumer.ledger.zero_queue else ""
        return ""

    def flush(self) -> None:
        """Draws what was kept."""
        rows, self._rows = self._rows, []
        for _, run in groupby(rows, key=lambda kept: _same(kept[0])):
            alike = list(run)
            parts = [*_parts([row for row, _ in alike]), alike[-1][1]]
            self._draw(fitting(parts, self._width))


def _same(row: Row) -> tuple[int | None, str, int | None]:
    return row.incarnation, row.command, row.seq if row.command in FORECASTS else None


def _parts(rows: list[Row]) -> list[str]:
    """When, who, what, and the permits that the broker has then."""
    last = rows[-1]
    clock = datetime.fromtimestamp(last.ts / 1e6).strftime("%H:%M:%S.%f")[:-3]
    what = f"{SHOWN[last.command]} {_amount(rows)}".rstrip()
    permits = "" if last.available_permits is None else f"permits {last.available_permits}"
    return [clock, last.consumer_name or str(last.incarnation), what, permits]


def fitting(parts: list[str], width: int) -> str:
    """In columns; closer together, and then without the last parts, where that is too wide."""
    clock, who, what, permits, forecast = parts
    line = f"{clock}  {who:<12}  {what:<24} {permits:<13} {forecast}".rstrip()
    if cell_len(line) <= width:
        return line
    shown = ["  ".join(filter(None, parts[:most])) for most in (5, 4, 3)]
    return next((each for each in shown if cell_len(each) <= width), shown[-1])


def _amount(rows: list[Row]) -> str:
    last = rows[-1]
    if last.command == "FLOW":
        return f"+{last.permits}"
    if last.command in ("SUBSCRIBE", "CLOSE_CONSUMER"):
        return ""
    messages = sum(row.messages or 0 for row in rows)
    if len(rows) == 1 and last.entry_id is not None and messages <= 1:
        return f"{last.ledger_id}:{last.entry_id}"
    return f"{messages}"
