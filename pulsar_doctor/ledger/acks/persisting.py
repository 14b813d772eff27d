"""Which acknowledged ranges a broker persists when it unloads a topic, and their size.

At an orderly unload a cursor is written once more. Where it has a ledger of its own that was
written since the topic was loaded (state Open), and more ranges than
managedLedgerMaxUnackedRangesToPersistInMetadataStore (1000), it is written there; else to the
metadata store. That number chooses the place only: both hold as many ranges.

- Ranges: the oldest managedLedgerMaxUnackedRangesToPersist of them, and one more (seen on 4.0.8:
  10,001 of 10,000). In master it is that many, so of later versions either is possible.
- Bit arrays (managedLedgerPersistIndividualAckAsLongArray, the default since 4.1, available since
  4.0.3; in the cursor's own ledger only): whole ledgers, oldest first, and the limit counts the
  acknowledged entries in them. Up to 4.1.1 a ledger is kept while those before it hold no more than
  the limit (seen on 4.0.8); in master while it itself is within. Where nothing would be kept,
  ranges are written instead. A bit array is as long as its ledger up to the last acknowledged
  entry, however few the holes are.

The rest is forgotten and delivered again. So is what was acknowledged of a batch in part, where the
cursor went to the metadata store: brokers without #26474 write that and do not read it (seen on
4.0.8: 20 messages in two batches, 5 acknowledged, all 20 came again). Nobody tells how many these
are, so the forecast is of whole entries only.

A record larger than a bookie takes is not written at all; what becomes of it then is not foretold.
After a crash, acknowledgements that were not yet flushed are lost too.

Source: ManagedCursorImpl.persistPositionWhenClosing, buildIndividualDeletedMessageRanges,
buildLongPropertiesMap and OpenLongPairRangeSet.toRanges of 4.0.8 (4.1.1 and master where named);
MessageRange, LongListMap in MLDataFormats.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pulsar_doctor.ledger.acks.ranges import Range
from pulsar_doctor.ledger.acks.written import Written
from pulsar_doctor.ledger.defaults import (
    RANGES,
    RANGES_IN_METADATA_STORE,
    by_default,
    version_of,
)

RECORD_BYTES_MOST = 5 * 1024 * 1024  # an entry of a bookie (nettyMaxFrameSizeBytes less padding)
ONE_MORE_UP_TO = (4, 0, 8)  # versions that surely keep one range more than the limit
LEDGERS_BEFORE_UP_TO = (4, 1, 1)  # and in bit arrays, that count only the ledgers before
BIT_ARRAYS_SINCE = (3, 0)  # patch releases of 3.0, 3.3 and 4.0 have them
WITHOUT_LIMIT_SINCE = (5, 0)
WORD = 64  # bits
SETTINGS = (  # of a broker, as its configuration names them: `storing_of` knows no others
    "acknowledgmentAtBatchIndexLevelEnabled",
    RANGES,
    RANGES_IN_METADATA_STORE,
    "managedLedgerMaxUnackedRangesToPersistInZooKeeper",
    "managedLedgerPersistIndividualAckAsLongArray",
    "managedLedgerUnackedRangesOpenCacheSetEnabled",
    "persistentUnackedRangesWithMultipleEntriesEnabled",
    "replicatorPrefix",
)


@dataclass(frozen=True, slots=True)
class Storing:
    """How the broker stores ranges, by its version and configuration; None: not reported."""

    version: tuple[int, ...] | None = None
    max_ranges: int | None = None
    max_ranges_in_metadata_store: int | None = None
    bit_arrays: bool | None = None
    several_entries: bool | None = None
    batch_index_acks: bool | None = None  # keeps acknowledgements of single messages of a batch
    replicator_prefix: str | None = None  # of the names of replicators' cursors

    @property
    def limit(self) -> int:
        """Ranges that are persisted, as configured or by the version's default."""
        return by_default(RANGES, self.version) if self.max_ranges is None else self.max_ranges

    @property
    def few(self) -> int:
        """How many ranges at most bring a closed cursor to the metadata store."""
        limit = self.max_ranges_in_metadata_store
        return by_default(RANGES_IN_METADATA_STORE, self.version) if limit is None else limit

    def in_bits(self) -> set[bool]:
        """Whether a cursor's own ledger gets bit arrays; both where that is not known."""
        if self.bit_arrays is not None:
            return {self.bit_arrays}
        old = self.version is not None and self.version < BIT_ARRAYS_SINCE
        return {False} if old else {False, True}

    def itself(self, *, bits: bool) -> set[bool]:
        """Whether what would reach the limit counts for it itself; both where that is not known."""
        known = LEDGERS_BEFORE_UP_TO if bits else ONE_MORE_UP_TO
        old = self.version is not None and self.version <= known
        return {False} if old else {False, True}


NOTHING_REPORTED = Storing()


@dataclass(frozen=True, slots=True)
class RedeliveryForecast:
    """Acknowledged entries that an orderly unload would forget; equal where that is known."""

    least: int
    most: int

    @property
    def entries(self) -> int | None:
        """How many, where known."""
        return self.least if self.least == self.most else None


def storing_of(configuration: Mapping[str, Any], version: str | None) -> Storing:
    """From a broker's own configuration and version, as it tells them; empty where refused."""
    open_set = _flag(configuration.get("managedLedgerUnackedRangesOpenCacheSetEnabled"))
    bits = _flag(configuration.get("managedLedgerPersistIndividualAckAsLongArray"))
    return Storing(
        version=version_of(version),
        max_ranges=number_of(configuration.get(RANGES)),
        max_ranges_in_metadata_store=_in_metadata_store(configuration),
        bit_arrays=False if open_set is False else bits,
        several_entries=_flag(
            configuration.get("persistentUnackedRangesWithMultipleEntriesEnabled")
        ),
        batch_index_acks=_flag(configuration.get("acknowledgmentAtBatchIndexLevelEnabled")),
        replicator_prefix=_text(configuration.get("replicatorPrefix")),
    )


def _in_metadata_store(configuration: Mapping[str, Any]) -> int | None:
    old = number_of(configuration.get("managedLedgerMaxUnackedRangesToPersistInZooKeeper"))
    if old is not None and old > 0:  # -1 where the newer name holds
        return old
    return number_of(configuration.get(RANGES_IN_METADATA_STORE))


def number_of(value: Any) -> int | None:
    """A setting as a broker writes it, which may be text; None where it is no number."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _flag(value: Any) -> bool | None:
    return {"true": True, "false": False}.get(str(value).lower())


def forecast(
    written: Sequence[Written], ranges: Sequence[Range], storing: Storing, *, is_open: bool | None
) -> RedeliveryForecast:
    """What an orderly unload now would forget.

    written: as the broker has them; ranges: the same, cut at the ends of ledgers. is_open: whether
    the cursor has a ledger that it writes to.
    """
    total = sum(each.entries for each in ranges)
    if _too_large(written, ranges, storing):
        return RedeliveryForecast(0, total)
    few = len(written) <= storing.few or storing.limit <= 0
    either = {False, True} if is_open is None else {is_open}
    places = {False} if few else either
    found = {
        each
        for to_ledger in places
        for bits in (storing.in_bits() if to_ledger else {False})
        for each in _forgotten(written, ranges, storing, bits=bits)
    }
    boundless = (storing.version or WITHOUT_LIMIT_SINCE) >= WITHOUT_LIMIT_SINCE
    if storing.several_entries and True in places and boundless:
        found.add(0)
    return RedeliveryForecast(min(found), max(found))


def _too_large(written: Sequence[Written], ranges: Sequence[Range], storing: Storing) -> bool:
    sizes = [
        _bits_bytes(ranges) if bits else _ranges_bytes(written[: storing.limit + 1])
        for bits in storing.in_bits()
    ]
    return max(sizes) > RECORD_BYTES_MOST


def _forgotten(
    written: Sequence[Written], ranges: Sequence[Range], storing: Storing, *, bits: bool
) -> Iterator[int]:
    """By each of the rules that this version may have."""
    for itself in storing.itself(bits=bits):
        if bits:
            kept = _ledgers_kept(ranges, storing.limit, itself=itself)
            if kept:
                yield sum(each.entries for each in ranges if each.ledger_id not in kept)
                continue
        yield _beyond(written, ranges, _kept(storing, itself=itself))


def _beyond(written: Sequence[Written], ranges: Sequence[Range], kept: int) -> int:
    """Entries of all ranges but the first so many as written."""
    if kept >= len(written):
        return 0
    begin = written[kept]
    first = (begin[0], begin[1] + 1)
    return sum(each.entries for each in ranges if (each.ledger_id, each.first) >= first)


def _ledgers_kept(ranges: Sequence[Range], limit: int, *, itself: bool) -> set[int]:
    """Ledgers with bits that are written. itself: what a ledger holds counts for it, too."""
    before, kept = 0, set()
    for ledger_id, held in _by_ledger(ranges):
        entries = sum(each.entries for each in held)
        if before + (entries if itself else 0) <= limit:
            kept.add(ledger_id)
        before += entries
    return kept


def _by_ledger(ranges: Iterable[Range]) -> Iterator[tuple[int, list[Range]]]:
    for ledger_id, held in groupby(ranges, lambda each: each.ledger_id):
        yield ledger_id, list(held)


def record_bytes(
    written: Sequence[Written], ranges: Sequence[Range], storing: Storing
) -> int | None:
    """What the broker would count for these ranges in its record; None where the way is not known.

    It is `nonContiguousDeletedMessagesRangesSerializedSize` after a cursor was written anew.
    """
    sizes = {
        _record(written, ranges, storing, bits=bits, itself=itself)
        for bits in storing.in_bits()
        for itself in storing.itself(bits=bits)
    }
    return sizes.pop() if len(sizes) == 1 else None


def _record(
    written: Sequence[Written],
    ranges: Sequence[Range],
    storing: Storing,
    *,
    bits: bool,
    itself: bool,
) -> int:
    kept = _ledgers_kept(ranges, storing.limit, itself=itself) if bits else set()
    if kept:
        return _bits_bytes([each for each in ranges if each.ledger_id in kept])
    return _ranges_bytes(written[: _kept(storing, itself=itself)])


def _kept(storing: Storing, *, itself: bool) -> int:
    """Ranges that are written, oldest first."""
    return max(storing.limit, 0) + (not itself)


def _ranges_bytes(written: Iterable[Written]) -> int:
    """MessageRange: two positions, each of two numbers; a byte of tag and one of length for all."""
    return sum(
        8 + _varint(begin) + _varint(after) + _varint(end) + _varint(last)
        for begin, after, end, last in written
    )


def _bits_bytes(ranges: Iterable[Range]) -> int:
    """LongListMap of each ledger: its id, and words of 64 entries up to the last acknowledged."""
    size = 0
    for ledger_id, held in _by_ledger(ranges):
        words = _words(held)
        zero_words = held[-1].last // WORD + 1 - len(words)
        size += 1 + _varint(ledger_id) + 2 * zero_words
        size += sum(1 + (10 if word >> (WORD - 1) else _varint(word)) for word in words.values())
    return size


def _words(ranges: Iterable[Range]) -> dict[int, int]:
    """The words that are not 0, by their index."""
    words: dict[int, int] = {}
    for _, first, last in ranges:
        for index in range(first // WORD, last // WORD + 1):
            low, high = max(first - WORD * index, 0), min(last - WORD * index, WORD - 1)
            words[index] = words.get(index, 0) | (2 << high) - (1 << low)
    return words


def _varint(number: int) -> int:
    """Bytes of a number on the wire: 7 bits each; 10 below 0."""
    return 10 if number < 0 else max(1, (number.bit_length() + 6) // 7)
