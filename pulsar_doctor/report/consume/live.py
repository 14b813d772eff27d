"""What happens on the wire, a line for each thing, as it happens."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import groupby

from pulsar_doctor.ledger.timeline import Timeline
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

    draw: takes one line of text. timeline: whose rows these are; a forecast is that of its moment.
    """

    def __init__(self, draw: Callable[[str], None]) -> None:
        self._draw = draw
        self._rows: list[tuple[Row, str]] = []
        self.timeline: Timeline | None = None

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
            self._draw(f"{_line([row for row, _ in alike])} {alike[-1][1]}".rstrip())


def _same(row: Row) -> tuple[int | None, str, int | None]:
    return row.incarnation, row.command, row.seq if row.command in FORECASTS else None


def _line(rows: list[Row]) -> str:
    last = rows[-1]
    clock = datetime.fromtimestamp(last.ts / 1e6).strftime("%H:%M:%S.%f")[:-3]
    what = f"{SHOWN[last.command]} {_amount(rows)}".rstrip()
    permits = "" if last.available_permits is None else f"permits {last.available_permits}"
    return f"{clock}  {last.consumer_name or last.incarnation!s:<12}  {what:<24} {permits:<13}"


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
