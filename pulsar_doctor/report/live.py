"""What happens on the wire, a line for each thing, as it happens."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import groupby

from pulsar_doctor.columns import TAKEN, Row
from pulsar_doctor.diagnosis import next_flow
from pulsar_doctor.timeline import Timeline

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

    draw: takes one line of text.
    """

    def __init__(self, draw: Callable[[str], None]) -> None:
        self._draw = draw
        self._rows: list[Row] = []

    def add(self, row: Row) -> None:
        """Keeps a row for the next flush."""
        if row.incarnation is not None and row.command in SHOWN:
            self._rows.append(row)

    def flush(self, timeline: Timeline) -> None:
        """Draws what was kept."""
        rows, self._rows = self._rows, []
        ledgers = {consumer.incarnation: consumer.ledger for consumer in timeline.living}
        for key, run in groupby(rows, key=_same):
            alike = list(run)
            line = _line(alike)
            ledger = ledgers.get(key[0] or 0)
            forecast = ledger.forecast() if ledger and alike[-1].command in FORECASTS else None
            if forecast is not None and ledger is not None and not ledger.zero_queue:
                line += f"  {next_flow(forecast)}"
            self._draw(line)


def _same(row: Row) -> tuple[int | None, str, int | None]:
    return row.incarnation, row.command, row.seq if row.command == "FLOW" else None


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
