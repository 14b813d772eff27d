"""Timelines of consumers from the rows of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pulsar_doctor.checkup.timelines.timeline import (
    DRAWN_MOST,
    ConsumerTimeline,
    Moved,
    Recording,
    Timelines,
    drawn,
)
from pulsar_doctor.wire.columns import CLOSE, GAP, UNPARSED, Row
from pulsar_doctor.wording.durations import duration

COLUMNS = (
    "ts", "conn_id", "incarnation", "command", "client_addr", "topic", "subscription",
    "consumer_name", "consumer_id", "messages", "permits", "available_permits", "parked_permits",
    "unsent_permits_min", "unacked_messages", "acknowledged_messages", "starved_since",
    "starved_from",
)  # fmt: skip
LOST = frozenset({CLOSE, GAP, UNPARSED})
SET_BACK_US = 1_000_000  # of the clock: what is worth a note
SET_BACK = "the clock was set back in this time; moments after that are drawn up to {} later"


class RowTimelines:
    """Rows in, timelines out. Changes in place: every row of a trace comes by here."""

    def __init__(self, ends_us: Mapping[int, int]) -> None:
        self.ends_us = ends_us  # by incarnation to be drawn, in order: its end or the recording's
        self._lined = frozenset([*ends_us][:DRAWN_MOST])
        self._recordings: dict[int, Recording] = {}
        self._now_us = self._ahead_us = 0

    def add(self, row: Row) -> Row:
        """The row, which counts from now on; in the order of the trace."""
        us, number = self._moment(row.ts), row.incarnation
        if number is None or number not in self.ends_us:
            if row.command in LOST:
                self._lost(row, us)
            return row
        recording = self._recordings.get(number) or self._begin(row, number, us)
        recording.seen_us = us
        if row.starved_from is not None:
            recording.end_starvation(us)
        if row.starved_since is not None:
            recording.without_permits(us)
        if row.available_permits is None:
            recording.lose_track(us)
        else:
            permits, held = row.available_permits, row.unacked_messages
            recording.is_at(us, permits, held, row.unsent_permits_min)
            recording.permits_at_most |= row.parked_permits is None
        _move(recording, row, us)
        return row

    def finished(self, end_us: int) -> Timelines:
        """end_us: when the recording ended."""
        end_us = self._moment(end_us)
        for number, recording in self._recordings.items():
            recording.finish(min(max(self.ends_us[number], recording.seen_us), end_us))
        found = drawn([self._recordings[each] for each in self.ends_us if each in self._recordings])
        if self._ahead_us < SET_BACK_US:
            return found
        return replace(found, notes=(SET_BACK.format(duration(self._ahead_us / 1e6)),))

    def _moment(self, us: int) -> int:
        """The wall clock; where it was set back, as if it had gone on."""
        if us + self._ahead_us < self._now_us:
            self._ahead_us = self._now_us - us
        self._now_us = us + self._ahead_us
        return self._now_us

    def _begin(self, row: Row, number: int, us: int) -> Recording:
        name, address = row.consumer_name or f"consumer {row.consumer_id}", row.client_addr or ""
        of = ConsumerTimeline(row.topic or "", row.subscription or "", name, address, us)
        new = Recording(of, row.conn_id, number in self._lined)
        self._recordings[number] = new
        return new

    def _lost(self, row: Row, us: int) -> None:
        """Commands are missing, or a connection ends with its consumers."""
        for number, recording in self._recordings.items():
            gone = self.ends_us[number] < row.ts
            if gone or (row.command != GAP and recording.connection != row.conn_id):
                continue
            if row.command == CLOSE:
                recording.end_starvation(us)
            else:
                recording.lose_track(us)


def _move(recording: Recording, row: Row, us: int) -> None:
    """Counts what this command delivered, acknowledged or granted."""
    if row.command == "MESSAGE":
        moved = Moved(us, us, delivered=row.messages or 1)
        recording.delivered = (recording.delivered or 0) + moved.delivered
    elif row.command == "FLOW":
        moved = Moved(us, us, flows=1, permits=row.permits or 0)
    elif row.command == "ACK":
        acked = row.acknowledged_messages
        known = acked is not None and recording.acknowledged is not None
        recording.acknowledged = (recording.acknowledged or 0) + (acked or 0) if known else None
        moved = Moved(us, us, acknowledged=acked or 0)
    else:
        return
    if recording.lines:
        recording.moved.add(moved)
