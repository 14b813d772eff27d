"""Which rows of a capture count: not those that were taken back.

Where only proven commands are wanted, a JOINED that is likely becomes the UNPARSED that a capture
would have written instead, and a STATS of its connection tells no more than who is there: which
number that consumer has, and what moved beside its numbers, rest on likely commands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.wire.columns import JOINED, LIKELY_BY, RETRACTED, STATS, UNPARSED, Row

COLUMNS = ("command", "direction", "conn_id", "known_by", "grade", "join")
ONLY_LIKELY = "what follows is only likely, and left out"


def taken_back(rows: Iterable[Row]) -> Counter[int]:
    """The joins that were taken back, each with how many rows it has."""
    counted, retracted = Counter[int](), set[int]()
    for row in rows:
        if row.join is not None:
            counted[row.join] += row.command not in (JOINED, RETRACTED)
            if row.command == RETRACTED:
                retracted.add(row.join)
    return Counter({join: counted[join] for join in retracted})


def taken_back_note(joins: int, rows: int) -> str:
    """The note where some were."""
    many = "1 row was" if rows == 1 else f"{rows:,} rows were"
    of = "a likely join" if joins == 1 else f"{joins:,} likely joins"
    return f"{many} no commands and taken back, of {of}: they are left out"


def include_too_much(ledgers: Timeline, *, proven_only: bool) -> bool:
    """Whether rows of a capture have moved its ledgers that do not count."""
    return proven_only or ledgers.retracted > 0


class Graded:
    """Changed in place, row by row in order. retracted: the joins that were taken back."""

    def __init__(self, retracted: Iterable[int], *, proven_only: bool) -> None:
        self._retracted = frozenset(retracted)
        self._proven_only = proven_only
        self._likely: set[tuple[int | None, str | None]] = set()

    def keeps(self, row: Row) -> bool:
        """Whether it counts; what it says is made less where only a part of it does."""
        if row.join in self._retracted and row.command != RETRACTED and row.join is not None:
            return False
        return not self._proven_only or self._is_proven(row)

    def _is_proven(self, row: Row) -> bool:
        direction = row.conn_id, row.direction
        if row.command == JOINED and row.known_by not in LIKELY_BY:
            self._likely.discard(direction)
        elif row.command == JOINED:
            self._likely.add(direction)
            row.command, row.error_message = UNPARSED, ONLY_LIKELY
            row.known_by = row.join = row.grade = None
        elif row.command == STATS and any(conn_id == row.conn_id for conn_id, _ in self._likely):
            row.consumer_id = row.permits = row.messages = row.grade = None
            row.permits_min = row.permits_max = row.messages_min = row.messages_max = None
        return row.grade is None and row.command != RETRACTED
