"""Reassembles one direction of a TCP connection from segments in any order.

What comes out are pieces in order, each byte once: bytes that are there, and holes that will not be
filled any more. Of bytes that came twice the first are taken; where the second differ, they are
counted. Positions are sequence numbers that do not wrap, relative to the first segment seen.

A hole is waited for, since the segment may only be late: it is lost when the receiver has
acknowledged it and WAIT_NS have passed since then on the packets' clock, when too much waits behind
it, and at the end. A stream without its SYN begins with the first byte that is
there when it has been waited for.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

WAIT_NS = 1_000_000_000
WAITING_BYTES_MOST = 8 << 20
WAITING_PIECES_MOST = 20_000
WRAP = 1 << 32
MISSING, SNAPPED = "missing", "snapped"  # why bytes are not there: no packet, or it was cut


class Hole(NamedTuple):
    """Bytes that are not in the capture."""

    size: int
    kind: str  # MISSING or SNAPPED


Piece = bytes | Hole


class Stream:
    """One direction. Changed in place."""

    __slots__ = (
        "_pieces",
        "_reference",
        "acked",
        "begin",
        "differing",
        "end",
        "from_syn",
        "next",
        "repeated",
        "waiting_bytes",
        "waits_since_ns",
    )

    def __init__(self) -> None:
        self.begin: int | None = None  # position of the first byte; None: not known yet
        self.from_syn = False  # a SYN gave it
        self.next = 0  # position of the first byte that has not come out
        self.acked: int | None = None  # up to where the other end has it, as far as is seen
        self.end: int | None = None  # position of the FIN
        self.repeated = self.differing = 0  # bytes that came again; those of them that were others
        self._reference: int | None = None  # a sequence number and its position, near `next`
        self._pieces: list[tuple[int, Piece]] = []  # by position, none over another
        self.waiting_bytes = 0  # held until what comes before it is there
        self.waits_since_ns: int | None = None  # for its beginning, or for what is missing

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def waits_until_ns(self) -> int | None:
        """When what is missing is given up; None where nothing is, or it may be sent again."""
        missing = self._pieces or self.gap
        return (
            self.waits_since_ns + WAIT_NS if missing and self.waits_since_ns is not None else None
        )

    @property
    def at_rest(self) -> bool:
        """Whether it has begun, and nothing of it waits, is missing or is at its end."""
        return self.begin is not None and self.end is None and not self._pieces and not self.gap

    def pass_on(self, size: int) -> None:
        """So many bytes at `next` have come out, while it was at rest."""
        self.next += size
        self._reference = self.next
        self.waits_since_ns = None

    @property
    def ended(self) -> bool:
        """Whether everything up to the FIN has come out."""
        return self.end is not None and self.begin is not None and self.next >= self.end

    def opened(self, seq: int) -> None:
        """A SYN with this sequence number: the stream begins right behind it."""
        at = self.position((seq + 1) % WRAP)
        if self.begin is None:
            self.begin = self.next = at
            self.from_syn = True
            self._cut_before(at)

    def finished(self, seq: int) -> None:
        """The position of a FIN; None without one."""
        self.end = self.position(seq)

    def acknowledged(self, ack: int) -> None:
        """The other end has everything before this sequence number."""
        at = self.position(ack)
        self.acked = at if self.acked is None else max(self.acked, at)

    def put(self, seq: int, data: bytes, size: int) -> None:
        """A segment. size: of its data before it was cut."""
        at = self.position(seq)
        if data:
            self._insert(at, data)
        if size > len(data):
            self._insert(at + len(data), Hole(size - len(data), SNAPPED))

    def take(
        self, now_ns: int, *, at_end: bool = False, held_from: int | None = None
    ) -> list[Piece]:
        """The pieces that are due, in order. held_from: where more begins that is to be put."""
        out: list[Piece] = []
        if self.begin is None:
            overdue = held_from is None and (at_end or self._is_overdue(now_ns))
            if not self._pieces or not overdue:
                return out
            self.begin = self.next = self._pieces[0][0]
        while True:
            self._take_ready(out)
            gap = self.gap
            if not gap:
                self.waits_since_ns = None
                return out
            if held_from is not None:
                gap = min(gap, held_from - self.next)
            if gap <= 0 or not (at_end or self._is_overdue(now_ns)):
                return out
            out.append(Hole(gap, MISSING))
            self.next += gap
            self.waits_since_ns = None

    def _take_ready(self, out: list[Piece]) -> None:
        count = 0
        for at, piece in self._pieces:
            if at != self.next:
                break
            size = _size(piece)
            self.next += size
            self.waiting_bytes -= len(piece) if isinstance(piece, bytes) else 0
            out.append(piece)
            count += 1
        if count:
            del self._pieces[:count]
            self._reference = self.next

    @property
    def gap(self) -> int:
        """Bytes of the hole at `next`; 0 where nothing says that there are any."""
        if self._pieces:
            return self._pieces[0][0] - self.next
        known = max(self.acked or 0, self.end or 0)
        if self.end is not None:
            known = min(known, self.end)  # a FIN is acknowledged as one byte more
        gap = known - self.next
        return gap if 0 < gap < WRAP // 4 else 0

    def _is_overdue(self, now_ns: int) -> bool:
        if self.waiting_bytes > WAITING_BYTES_MOST or len(self._pieces) > WAITING_PIECES_MOST:
            return True
        behind = self.begin is not None and (self.acked is None or self.acked <= self.next)
        if behind:  # it may still be sent again
            self.waits_since_ns = None
            return False
        if self.waits_since_ns is None:
            self.waits_since_ns = now_ns
        return now_ns - self.waits_since_ns >= WAIT_NS

    def position(self, seq: int) -> int:
        """The position of this sequence number."""
        if self._reference is None:
            self._reference = WRAP + seq  # so that nothing before it is negative
            return self._reference
        away = (seq - self._reference) % WRAP
        return self._reference + (away if away < WRAP // 2 else away - WRAP)

    def _cut_before(self, at: int) -> None:
        pieces, self._pieces, self.waiting_bytes = self._pieces, [], 0
        for start, piece in pieces:
            if start + _size(piece) > at:
                self._insert(start, piece)

    def _insert(self, at: int, piece: Piece) -> None:
        """Puts a piece where nothing is yet; what is there already stays."""
        if self.begin is not None and at < self.next:
            before = min(self.next - at, _size(piece))
            self.repeated += before if isinstance(piece, bytes) else 0
            piece, at = _part(piece, before, _size(piece)), at + before
        pieces = self._pieces
        if not pieces or at >= pieces[-1][0] + _size(pieces[-1][1]):
            self._add(len(pieces), at, piece)
            return
        index = max(bisect_right(pieces, at, key=lambda each: each[0]) - 1, 0)
        end = at + _size(piece)
        whole, began = piece, at
        while at < end:
            if index == len(pieces) or end <= pieces[index][0]:
                self._add(index, at, _part(whole, at - began, end - began))
                return
            start, there = pieces[index]
            if at < start:
                self._add(index, at, _part(whole, at - began, start - began))
                index += 1
            behind = start + _size(there)
            if isinstance(there, Hole) and isinstance(whole, bytes) and behind > at:
                index = self._fill(index, whole, began)
            elif isinstance(there, bytes) and isinstance(whole, bytes) and behind > at:
                over = max(at, start), min(end, behind)
                self.repeated += over[1] - over[0]
                first = there[over[0] - start : over[1] - start]
                if first != whole[over[0] - began : over[1] - began]:
                    self.differing += over[1] - over[0]
            at = max(at, behind)
            index += 1

    def _fill(self, index: int, whole: bytes, began: int) -> int:
        """Bytes for what a snap length had cut from another packet; index of the last part."""
        start, hole = self._pieces.pop(index)
        behind, end = start + _size(hole), began + len(whole)
        parts: list[tuple[int, Piece]] = []
        over = max(start, began), min(behind, end)
        if start < over[0]:
            parts.append((start, _part(hole, 0, over[0] - start)))
        parts.append((over[0], whole[over[0] - began : over[1] - began]))
        if over[1] < behind:
            parts.append((over[1], _part(hole, over[1] - start, behind - start)))
        self._pieces[index:index] = parts
        self.waiting_bytes += over[1] - over[0]
        return index + len(parts) - 1

    def _add(self, index: int, at: int, piece: Piece) -> None:
        if _size(piece):
            self._pieces.insert(index, (at, piece))
            self.waiting_bytes += len(piece) if isinstance(piece, bytes) else 0


def _size(piece: Piece) -> int:
    return piece.size if isinstance(piece, Hole) else len(piece)


def _part(piece: Piece, start: int, end: int) -> Piece:
    if isinstance(piece, Hole):
        return Hole(end - start, piece.kind)
    return piece[start:end]
