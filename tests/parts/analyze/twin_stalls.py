"""Every episode of starvation in a trace, in plain Python: a part of twin.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pulsar_doctor.wire.columns import CLOSE, GAP, UNPARSED

Values = dict[str, Any]

IDENTITY = ("trace_id", "incarnation", "topic", "subscription", "consumer_name")
REDELIVER = "REDELIVER_UNACKNOWLEDGED_MESSAGES"


def known(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def grouped(rows: Iterable[Values], key: Callable[[Values], Any]) -> dict[Any, list[Values]]:
    groups: dict[Any, list[Values]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def incarnation_of(row: Values) -> tuple[str, int]:
    return row["trace_id"], row["incarnation"]


def named(row: Values, command: str) -> bool:
    return bool(row["command"] == command)


def acknowledged_by(acks: Sequence[Values]) -> int | None:
    """Messages; None where one of these ACKs does not tell how many: a part is not the sum."""
    told = [ack.get("acknowledged_messages") for ack in acks]
    return None if None in told else acknowledged_least(acks)


def acknowledged_least(acks: Sequence[Values]) -> int:
    return sum(known(ack.get("acknowledged_messages") for ack in acks))


@dataclass
class Episode:
    """A time without permits that goes on, as far as rows have shown it."""

    consumer: Values  # the values of IDENTITY
    conn_id: int | None
    consumer_id: int | None
    start: int
    last_ts: int
    unacked_at_start: int | None
    lowest: int | None
    acks: list[Values]
    doubtful: bool = False  # rows are missing since it was last seen

    def goes_on(self, row: Values) -> None:
        self.last_ts = row["ts"]
        self.doubtful = False
        if row["available_permits"] is not None:
            known_ones = known([self.lowest, row["available_permits"]])
            self.lowest = min(known_ones)
        if named(row, "ACK"):
            self.acks.append(row)

    def ended(self, end: int, duration_us: int, ended_by: str) -> Values:
        return {
            **self.consumer,
            "start": self.start,
            "end": end,
            "duration_us": duration_us,
            "ended_by": ended_by,
            "unacked_at_start": self.unacked_at_start,
            "available_lowest": self.lowest,
            "acknowledged": acknowledged_by(self.acks),
            "acknowledged_least": acknowledged_least(self.acks),
        }


def stalls(rows: list[Values]) -> list[Values]:
    """Every episode of available_permits <= 0 of a consumer that has subscribed."""
    found = []
    for of_trace in grouped(rows, lambda row: row["trace_id"]).values():
        found += Stalls(of_trace).found
    opened = {key: min(row["ts"] for row in own) for key, own in grouped(rows, _who).items()}
    for stall in found:
        if stall["start"] < opened[_who(stall)]:
            stall["acknowledged"] = None  # of a part of it alone
    return found


def _who(row: Values) -> tuple[Any, Any]:
    return row["trace_id"], row["incarnation"]


class Stalls:
    """Goes through one trace. An episode ends where the rows stop showing it, one way or another:

    - its consumer gets permits: a row of it with starved_us and available_permits above 0. A FLOW
      does it, and what releases parked FLOWs: an ACK, its own or of another consumer of the
      subscription (then the next row that it has, of any kind, is the first to show it), or a
      REDELIVER;
    - its incarnation ends: a row of it with starved_us and no permits, CLOSE_CONSUMER of the broker
      or SUCCESS for the client's own; a SUBSCRIBE with its consumer_id on its connection, which
      bears the starved_us of the old incarnation and the number of the new one; CLOSE of its
      connection, which bears no incarnation, since it ends several;
    - nobody knows: a GAP, UNPARSED on its connection, rows of it without a ledger, rows missing;
    - the trace ends.
    """

    def __init__(self, rows: list[Values]) -> None:
        self.rows = sorted(rows, key=lambda row: row["seq"])
        self.open: dict[int, Episode] = {}
        self.found: list[Values] = []
        self.subscribed: dict[Any, int] = {}  # topic, subscription, name -> seq of the last time
        for row in self.rows:
            if named(row, "SUBSCRIBE"):
                self.subscribed[self._who(row)] = row["seq"]
        before = self.rows[0]["seq"] - 1 if self.rows else 0
        for row in self.rows:
            if row["seq"] != before + 1:
                for episode in self.open.values():
                    episode.doubtful = True
            before = row["seq"]
            self._see(row)
        for incarnation, episode in list(self.open.items()):
            if episode.doubtful:
                self._lose(incarnation)
            else:
                end = max(row["ts"] for row in self.rows)
                self._end(incarnation, end, end - episode.start, "end_of_trace")

    @staticmethod
    def _who(row: Values) -> tuple[str, str, str]:
        return row["topic"], row["subscription"], row["consumer_name"]

    def _see(self, row: Values) -> None:
        command, incarnation = row["command"], row["incarnation"]
        for other, episode in list(self.open.items()):
            here = row["conn_id"] is not None and episode.conn_id == row["conn_id"]
            unseen = command == UNPARSED or (command == CLOSE and episode.doubtful)
            if command == GAP or (here and unseen):
                self._lose(other)
            elif command == CLOSE and here:
                self._close(other, row, None)
            elif command == "SUBSCRIBE" and here and episode.consumer_id == row["consumer_id"]:
                self._close(other, row, row["starved_us"])
        if incarnation is None or command == "SUBSCRIBE":
            return
        if row["starved_us"] is not None:
            self._last_row(incarnation, row)
        elif row["starved_since"] is not None:
            self._starved_row(incarnation, row)
        elif incarnation in self.open and command != "ERROR":  # the answer to a close bears nothing
            self._lose(incarnation)

    def _starved_row(self, incarnation: int, row: Values) -> None:
        episode = self.open.get(incarnation)
        if episode is not None and episode.start != row["starved_since"]:
            self._lose(incarnation)
            episode = None
        if episode is None:
            episode = self._begin(incarnation, row, row["starved_since"])
            if row["starved_since"] == row["ts"]:
                episode.unacked_at_start = row["unacked_messages"]
        episode.goes_on(row)

    def _last_row(self, incarnation: int, row: Values) -> None:
        start = row.get("starved_from")
        episode = self.open.get(incarnation)
        if episode is not None and start not in (None, episode.start):
            self._lose(incarnation)
            episode = None
        if episode is None:
            start = row["ts"] - row["starved_us"] if start is None else start
            episode = self._begin(incarnation, row, start)
        if named(row, "ACK"):
            episode.acks.append(row)
        if row["available_permits"] is not None and row["available_permits"] > 0:
            how = {"FLOW": "flow", REDELIVER: "redelivery"}.get(row["command"], "ack")
            self._end(incarnation, row["ts"], row["starved_us"], how)
        else:
            self._close(incarnation, row, row["starved_us"])

    def _begin(self, incarnation: int, row: Values, start: int) -> Episode:
        self.open[incarnation] = Episode(
            consumer={name: row[name] for name in IDENTITY},
            conn_id=row["conn_id"],
            consumer_id=row["consumer_id"],
            start=start,
            last_ts=row["ts"],
            unacked_at_start=None,
            lowest=None,
            acks=[],
        )
        return self.open[incarnation]

    def _end(self, incarnation: int, end: int, duration_us: int, ended_by: str) -> None:
        self.found.append(self.open.pop(incarnation).ended(end, duration_us, ended_by))

    def _lose(self, incarnation: int) -> None:
        episode = self.open[incarnation]
        end = max(episode.last_ts, episode.start)
        self._end(incarnation, end, end - episode.start, "not_known")

    def _close(self, incarnation: int, row: Values, duration_us: int | None) -> None:
        """The incarnation ends with this row. Nobody without a name is known to come again."""
        episode = self.open[incarnation]
        who = self._who(episode.consumer)
        again = who[2] is not None and self.subscribed.get(who, -1) >= row["seq"]
        if duration_us is None:
            duration_us = max(0, row["ts"] - episode.start)
        self._end(incarnation, row["ts"], duration_us, "reconnect" if again else "close")
