"""A model of the broker's cursor: mark-delete, and the acknowledged entries after it.

Source: ManagedCursorImpl in the broker (asyncDelete, asyncMarkDelete, internalResetCursor).
Changed in place: it is filled from every row of a trace.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

from pulsar_doctor.ledger.acks.entries import (
    BATCH_INDEX,
    CUMULATIVE,
    OPEN,
    PAGE,
    SEEK,
    UNSEEN,
    Entries,
    Page,
)
from pulsar_doctor.ledger.acks.ranges import Range
from pulsar_doctor.wire.columns import MessageId

FINISHED_KEPT = 1 << 18  # entries before mark-delete of which all is kept
PASSED_OVER_MOST = 1 << 20  # entries: a wider gap is not believed

Position = tuple[int, int]
START: Position = (-1, -1)


class Cursor:
    """The position of one subscription of one topic."""

    def __init__(self, *, batch_index_acks: bool) -> None:
        self.mark_delete: Position | None = None  # everything up to it is consumed; None: not known
        self.batch_index_acks = batch_index_acks  # whether the broker keeps `partial`
        self.acknowledged: Counter[int] = Counter()  # entries, by an index of entries.HOW
        self.partial: dict[Position, int] = {}  # batches, with a bit for each open index
        self.presumed_ends: set[int] = set()  # mark-delete left them at the last known entry
        self._ledgers: dict[int, Entries] = {}
        self._order: list[int] = []
        self._finished: deque[Position] = deque()  # first entries of pages, oldest first

    def entries(self, ledger_id: int) -> Entries:
        """The entries of a ledger, which begins here where it was not known."""
        entries = self._ledgers.get(ledger_id)
        if entries is None:
            entries = self._ledgers[ledger_id] = Entries()
            self._order = sorted(self._ledgers)
        return entries

    def last_known(self, ledger_id: int) -> int:
        """The last entry of a ledger that is known to have been written, -1 for none."""
        entries = self._ledgers.get(ledger_id)
        return -1 if entries is None else entries.highest

    def exists(self, ledger_id: int, entry: int) -> bool:
        """Whether such an entry is known to have been written."""
        return entry <= self.last_known(ledger_id)

    def known(self, first: int, last: int) -> list[tuple[int, int]]:
        """Ledgers from first to last: each with its last entry that is known, -1 for none."""
        return [(n, self._ledgers[n].highest) for n in self._order if first <= n <= last]

    def delivered(self) -> Iterator[tuple[int, Page, int, int]]:
        """Delivered entries that are remembered: ledger, page, index in the page, entry; by id."""
        for ledger_id in self._order:
            for page, at, entry in self._ledgers[ledger_id].delivered():
                yield ledger_id, page, at, entry

    def ranges(self) -> Iterator[Range]:
        """Acknowledged ranges behind mark-delete, in order."""
        ledger_id, entry = self.mark_delete or START
        for each in self._order:
            if each >= ledger_id:
                after = entry if each == ledger_id else -1
                for first, last in self._ledgers[each].acknowledged(after):
                    yield Range(each, first, last)

    def open_bits(self, position: Position, messages: int) -> int:
        """Open indexes of an entry that is not acknowledged; messages: of its batch, 0: unknown."""
        known = self.partial.get(position)
        if known is not None:
            return known
        return (1 << messages) - 1 if messages else -1

    def close(self, message_id: MessageId, how: int, us: int) -> bool:
        """One id of an individual ack; whether it closed the entry. Mark-delete stays: advance."""
        ledger_id, entry, ack_set = message_id
        page, at = self.entries(ledger_id).page(entry // PAGE), entry % PAGE
        if page.how[at]:
            return False
        if ack_set is not None:
            if not self.batch_index_acks:
                return False
            position = (ledger_id, entry)
            left = self.open_bits(position, page.messages[at]) & bits_of(ack_set)
            if left:
                self.partial[position] = left
                page.acked_us[at] = us
                return False
            how = BATCH_INDEX
        page.how[at] = how
        page.acked_us[at] = us
        self.acknowledged[how] += 1
        if self.partial:
            self.partial.pop((ledger_id, entry), None)
        return True

    def mark(self, message_id: MessageId, us: int) -> None:
        """A cumulative ack. Of a part of a batch the broker keeps whichever is further."""
        ledger_id, entry, ack_set = message_id
        if ack_set is not None:
            self._mark_part((ledger_id, entry), bits_of(ack_set), us)
            entry -= 1
        self.pass_over((ledger_id, entry), CUMULATIVE, us)

    def _mark_part(self, position: Position, given: int, us: int) -> None:
        page = self.entries(position[0]).page(position[1] // PAGE)
        at, known = position[1] % PAGE, self.partial.get(position)
        if self.batch_index_acks and page.how[at] == OPEN:
            page.acked_us[at] = us
            if known is None or _lowest(given) > _lowest(known):
                self.partial[position] = given

    def pass_over(self, position: Position, how: int, us: int) -> None:
        """Everything up to here is consumed, and mark-delete moves there if that is forward."""
        if self.mark_delete is None or position <= self.mark_delete:
            return
        self.close_between(self.mark_delete, position, how, us)
        since, self.mark_delete = self.mark_delete, position
        self._finish(since)
        self.advance()

    def close_between(self, after: Position, until: Position, how: int, us: int) -> None:
        """Closes what is open in (after, until] and was ever spoken of."""
        for each in self._order:
            if after[0] <= each <= until[0]:
                entries = self._ledgers[each]
                last = until[1] if each == until[0] else entries.highest
                for page, at, entry in entries.open_up_to(
                    last, after[1] if each == after[0] else -1
                ):
                    page.how[at] = how
                    page.acked_us[at] = us
                    self.acknowledged[how] += 1
                    self.partial.pop((each, entry), None)

    def skip(self, after: Position, until: Position, us: int) -> None:
        """The broker has passed over what lies between these two, delivered or not."""
        if self.mark_delete is not None and after <= self.mark_delete:
            self.pass_over((until[0], until[1] - 1), UNSEEN, us)
            return
        self.close_between(after, (until[0], until[1] - 1), UNSEEN, us)
        first = after[1] + 1 if after[0] == until[0] else 0
        if until[1] - first <= PASSED_OVER_MOST:
            entries = self.entries(until[0])
            for entry in range(first, until[1]):
                page, at = entries.page(entry // PAGE), entry % PAGE
                if not page.how[at]:
                    page.how[at] = UNSEEN
                    page.acked_us[at] = us
        self.advance()

    def reopen(self, position: Position) -> None:
        """An entry is not acknowledged after all."""
        ledger_id, entry = position
        page, at = self.entries(ledger_id).page(entry // PAGE), entry % PAGE
        if page.how[at]:
            self.acknowledged[page.how[at]] -= 1
        page.how[at] = OPEN
        page.acked_us[at] = 0
        self.fall_back(position)

    def partly_acknowledged_before(self, position: Position) -> None:
        """Whether an entry's acks were partial before its next delivery."""
        ledger_id, entry = position
        if position in self.partial:
            self.entries(ledger_id).page(entry // PAGE).acked_us[entry % PAGE] = 0

    def fall_back(self, position: Position) -> None:
        """Mark-delete cannot be at this entry or behind it: it is not acknowledged."""
        if self.mark_delete is not None and position <= self.mark_delete:
            self.mark_delete = before(position)
            self.presumed_ends = {each for each in self.presumed_ends if each < position[0]}

    def reset(self, target: Position | None, us: int) -> None:
        """What is before the target is consumed, nothing from it on. None: the next one tells."""
        self.partial.clear()
        self.presumed_ends.clear()
        last = START if target is None else (target[0], target[1] - 1)
        if target is not None and self.mark_delete is not None:
            self.close_between(self.mark_delete, last, SEEK, us)
        for each in self._order:
            if each >= last[0]:
                self._ledgers[each].reopen_after(last[1] if each == last[0] else -1)
        self.mark_delete = None if target is None else before(target)

    def forget(self) -> None:
        """The subscription was given up."""
        self._ledgers.clear()
        self._order.clear()
        self._finished.clear()
        self.reset(None, 0)

    def advance(self) -> None:
        """Mark-delete moves on over what is acknowledged, also into the next ledger."""
        if self.mark_delete is None:
            return
        since = ledger_id, entry = self.mark_delete
        while True:
            entries = self.entries(ledger_id)
            entry = entries.next_open(entry + 1) - 1
            self.mark_delete = (ledger_id, entry)
            if entry < entries.highest:
                break
            following = next((each for each in self._order if each > ledger_id), None)
            if following is None or not self._ledgers[following].how(0):
                break
            self.presumed_ends.add(ledger_id)
            ledger_id, entry = following, -1
        if self.mark_delete != since:
            self._finish(since)

    def _finish(self, since: Position) -> None:
        """Mark-delete went on from there: the oldest pages before it go, where there are many."""
        ledger_id, entry = self.mark_delete or START
        for each in self._order:
            if since[0] <= each <= ledger_id:
                first = since[1] + 1 if each == since[0] else 0
                entries = self._ledgers[each]
                last = entry if each == ledger_id else entries.highest
                whole = (last + 1) // PAGE * PAGE - 1
                self._finished.extend((each, n * PAGE) for n in entries.numbers(first, whole))
        while len(self._finished) > FINISHED_KEPT // PAGE:
            self._drop(self._finished.popleft())

    def _drop(self, first: Position) -> None:
        ledger_id, entry = first
        entries = self._ledgers[ledger_id]
        page = entries.pages.get(entry // PAGE)
        if page is not None and (ledger_id, entry + PAGE - 1) <= (self.mark_delete or START):
            entries.drop(entry // PAGE)


def before(position: Position) -> Position:
    """The position before an entry; of a ledger's first one it is the end of an earlier ledger,
    wherever that is."""
    return position[0], position[1] - 1


def bits_of(ack_set: bytes) -> int:
    """An ack_set as one number: bits that are set are open."""
    return int.from_bytes(ack_set, "little")


def _lowest(bits: int) -> int:
    """The lowest bit that is set, -1 for none."""
    return (bits & -bits).bit_length() - 1
