"""Holds the rows of a capture that was begun in mid-stream against those of a tap beside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pulsar_doctor.wire.columns import Row
from tests.parts.capture.beside import BEFORE, CHANGED, MARKS, SHARED

BY_ITSELF = [name for name in SHARED if name not in (*BEFORE, "consumer_id", "client_addr")]
Stream = tuple[str, str | None]  # client and direction
Said = tuple[object, ...]


def said(row: Row) -> Said:
    """What a command said by itself."""
    consumer = None if row.command in ("SUCCESS", "ERROR") else row.consumer_id
    values = (getattr(row, name) for name in BY_ITSELF)
    return (consumer, *(repr(each) if isinstance(each, list) else each for each in values))


def by_stream(rows: Sequence[Row]) -> dict[Stream, list[Row]]:
    """The commands of each direction of each connection."""
    found: dict[Stream, list[Row]] = defaultdict(list)
    for row in rows:
        if row.client_addr is not None and row.command not in (*CHANGED, *MARKS, "STATS"):
            found[row.client_addr, row.direction].append(row)
    return dict(found)


@dataclass(slots=True)
class Compared:
    """One capture against the tap. widths: of bounds; wrong: balances that are not the truth."""

    told: int = 0
    tapped: int = 0
    invented: int = 0
    strict: bool = True
    balances: int = 0
    wrong: int = 0
    widths: int = 0

    def __str__(self) -> str:
        width = self.widths / self.balances if self.balances else 0
        return (
            f"{self.told:,} of {self.tapped:,} ({self.told / max(1, self.tapped):.2%}), "
            f"{'strict' if self.strict else 'NOT STRICT'}, invented {self.invented}, "
            f"balances {self.balances:,} ({self.wrong} wrong, {width:.1f} wide)"
        )


def compared(
    rows: Sequence[Row], tapped: dict[Stream, list[Row]], from_us: int, clients: set[int]
) -> Compared:
    """Rows of a capture from there on, and the streams of a tap. clients: ports of the tap."""
    found = Compared()
    streams = by_stream(rows)
    ours = {key: streams[key] for key in streams if int(key[0].rpartition(":")[2]) in clients}
    said_by = {key: [said(row) for row in each] for key, each in tapped.items()}
    before: dict[Stream, list[Row]] = {}
    for key, stream in ours.items():
        told = [said(row) for row in stream]
        same = [other for other in tapped if other[1] == key[1]]
        other = max(same, key=lambda each: len(set(said_by[each]) & set(told)))
        found.told += len(told)
        found.tapped += sum(row.ts >= from_us for row in tapped[other])
        before[key] = tapped[other][: len(tapped[other]) - len(told)]
        if told != said_by[other][-len(told) :]:
            found.strict = False
            found.invented += len(told) - in_order(told, said_by[other])
    if found.strict:
        hold_balances(found, rows, before)
    return found


def in_order(ours: Sequence[Said], theirs: Sequence[Said]) -> int:
    """How many of ours come in theirs, in this order."""
    places: dict[Said, list[int]] = defaultdict(list)
    for number, each in enumerate(theirs):
        places[each].append(number)
    last, count = -1, 0
    for said_here in ours:
        at = next((place for place in places[said_here] if place > last), None)
        if at is not None:
            last, count = at, count + 1
    return count


def hold_balances(found: Compared, rows: Sequence[Row], before: dict[Stream, list[Row]]) -> None:
    """What each consumer had: all FLOWs and MESSAGEs of the tap until there."""
    permits: dict[tuple[str, int], int] = defaultdict(int)
    for (client, _), earlier in before.items():
        for row in earlier:
            permits[client, row.consumer_id or 0] += moved(row)
    clients = {client for client, _ in before}
    for row in rows:
        if row.client_addr not in clients or row.consumer_id is None:
            continue
        whose = row.client_addr, row.consumer_id
        permits[whose] += moved(row)
        most, least = row.available_permits, row.available_permits_min
        if row.command in ("FLOW", "MESSAGE") and most is not None:
            least = most if least is None else least
            found.balances += 1
            found.wrong += not least <= permits[whose] <= most
            found.widths += most - least


def moved(row: Row) -> int:
    """By how much a command changes the permits of its consumer."""
    if row.command == "FLOW":
        return row.permits or 0
    return -(row.messages or 1) if row.command == "MESSAGE" else 0
