"""The entries of one ledger: whether, when and by what each was acknowledged.

Entries are kept in pages: a byte says what acknowledged an entry, and a few arrays when and to whom
it was delivered. That is 41 bytes an entry, and nothing for pages that nobody has spoken of.

Changed in place: it is filled from every row of a trace.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

PAGE = 256  # entries

# What acknowledged an entry: a byte of a page is an index of this table, 0 while nothing has.
(
    OPEN,
    INDIVIDUAL,
    CUMULATIVE,
    BATCH_INDEX,
    VALIDATION_ERROR,
    UNSEEN,  # the broker has passed it over, and no ack of it is in the trace
    SEEK,
) = range(7)
HOW = (
    None, "individual", "cumulative", "batch index", "validation error", "unseen", "seek",
)  # fmt: skip

_CLOSED = bytes([0]) + bytes([1]) * 255  # for translate: 1 for whatever acknowledged it


class Page:
    """A run of entries. Consumers are incarnations, moments µs since 1970; 0: none."""

    __slots__ = (
        "acked_us", "deliveries", "first_by", "first_us", "how", "last_by", "last_us", "messages",
    )  # fmt: skip

    def __init__(self) -> None:
        self.how = bytearray(PAGE)  # see HOW
        self.first_us = array("q", bytes(8 * PAGE))
        self.last_us = array("q", bytes(8 * PAGE))
        self.acked_us = array("q", bytes(8 * PAGE))
        self.first_by = array("i", bytes(4 * PAGE))
        self.last_by = array("i", bytes(4 * PAGE))
        self.deliveries = array("i", bytes(4 * PAGE))
        self.messages = array("i", bytes(4 * PAGE))  # of the batch, at its last delivery; 0: none


class Entries:
    """The entries of one ledger."""

    __slots__ = ("floor", "highest", "pages")

    def __init__(self) -> None:
        self.pages: dict[int, Page] = {}  # without one: acknowledged up to `floor`, then open
        self.highest = -1  # entry that is known to exist; -1: none
        self.floor = -1  # up to here pages may have been dropped

    def page(self, number: int) -> Page:
        """This page, made where it is missing."""
        page = self.pages.get(number)
        if page is None:
            page = self.pages[number] = Page()
            dropped = min(PAGE, self.floor + 1 - number * PAGE)
            if dropped > 0:
                page.how[:dropped] = bytes([UNSEEN]) * dropped
        return page

    def drop(self, number: int) -> None:
        """Forgets a page of which every entry is acknowledged, as all before it are."""
        if self.pages.pop(number, None) is not None:
            self.floor = max(self.floor, (number + 1) * PAGE - 1)

    def how(self, entry: int) -> int:
        """What acknowledged it: an index of HOW."""
        page = self.pages.get(entry // PAGE)
        if page is None:
            return UNSEEN if entry <= self.floor else OPEN
        return page.how[entry % PAGE]

    def next_open(self, entry: int) -> int:
        """The first entry from this one on that is not acknowledged; it may not exist yet."""
        while True:
            number = entry // PAGE
            page = self.pages.get(number)
            if page is not None:
                found = page.how.find(OPEN, entry % PAGE)
                if found >= 0:
                    return number * PAGE + found
                entry = (number + 1) * PAGE
            elif entry <= self.floor:
                following = min((each for each in self.pages if each > number), default=None)
                entry = self.floor + 1
                if following is not None:
                    entry = min(entry, following * PAGE)
            else:
                return entry

    def acknowledged(self, after: int) -> Iterator[tuple[int, int]]:
        """Runs of acknowledged entries behind `after`: (first, last), in order."""
        begun = until = after + 1
        for first, end in self._runs(after + 1):
            if first != until:
                if until > begun:
                    yield begun, until - 1
                begun = first
            until = end
        if until > begun:
            yield begun, until - 1

    def _runs(self, since: int) -> Iterator[tuple[int, int]]:
        """The same page by page, each with the entry behind its last; they may touch."""
        for number in sorted(number for number in self.pages if number >= since // PAGE):
            first = number * PAGE
            if since < min(first, self.floor + 1):
                yield since, min(first, self.floor + 1)
            closed = self.pages[number].how.translate(_CLOSED)
            at = closed.find(1, max(0, since - first))
            while at >= 0:
                end = closed.find(0, at)
                end = PAGE if end < 0 else end
                yield first + at, first + end
                at = closed.find(1, end)
            since = first + PAGE
        if since <= self.floor:
            yield since, self.floor + 1

    def open_up_to(self, last: int, after: int) -> Iterator[tuple[Page, int, int]]:
        """What was spoken of and is open, in (after, last]: page, index in it, entry."""
        for number in self.numbers(after + 1, last):
            page = self.pages[number]
            first = number * PAGE
            at = page.how.find(OPEN, max(0, after + 1 - first))
            while 0 <= at <= last - first:
                yield page, at, first + at
                at = page.how.find(OPEN, at + 1)

    def numbers(self, first: int, last: int) -> list[int]:
        """Pages that there are of these entries, in order."""
        numbers = range(first // PAGE, last // PAGE + 1)
        if len(numbers) > len(self.pages):
            return sorted(number for number in self.pages if number in numbers)
        return [number for number in numbers if number in self.pages]

    def delivered(self) -> Iterator[tuple[Page, int, int]]:
        """Every entry that was delivered and is still remembered: page, index in it, entry."""
        for number in sorted(self.pages):
            page = self.pages[number]
            for at, deliveries in enumerate(page.deliveries):
                if deliveries:
                    yield page, at, number * PAGE + at

    def reopen_after(self, entry: int) -> None:
        """Everything behind it is to be delivered again, as after a seek."""
        self.floor = min(self.floor, entry)
        for number, page in self.pages.items():
            kept = min(PAGE, max(0, entry + 1 - number * PAGE))
            page.how[kept:] = bytes(PAGE - kept)
