"""Ranges as the broker writes them, the holes between them, and what a reload forgets of them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pulsar_doctor.errors import InputError
from pulsar_doctor.ledger.acks.persisting import (
    SETTINGS,
    RedeliveryForecast,
    Storing,
    forecast,
    record_bytes,
    storing_of,
)
from pulsar_doctor.ledger.acks.ranges import (
    Axis,
    Range,
    gaps,
    ranges_of,
    written,
)
from pulsar_doctor.ledger.acks.written import Written, parse_written

V40 = Storing(version=(4, 0), max_ranges=10, max_ranges_in_metadata_store=2, bit_arrays=False)
BITS40 = Storing(version=(4, 0), max_ranges=10, max_ranges_in_metadata_store=2, bit_arrays=True)


def parse_ranges(text: str, entries: dict[int, int] | None = None) -> list[Range]:
    return ranges_of(parse_written(text), entries)


def every_second(count: int, ledger: int = 5) -> list[Written]:
    """Ranges of one entry each: 1, 3, 5…"""
    return [(ledger, 2 * n, ledger, 2 * n + 1) for n in range(count)]


def test_a_range_is_open_on_the_left_and_closed_on_the_right() -> None:
    assert parse_ranges("[(3:4..3:9],(3:11..3:12]]") == [Range(3, 5, 9), Range(3, 12, 12)]
    assert parse_ranges("[(3:-1..3:0]]") == [Range(3, 0, 0)]
    assert parse_ranges("[]") == []


def test_older_brokers_put_a_space_between_and_one_sign_for_the_dots() -> None:
    assert parse_ranges("[(3:4‥3:9], (4:1‥4:2]]") == [Range(3, 5, 9), Range(4, 2, 2)]


def test_a_range_over_ledgers_holds_the_rest_of_the_first_and_all_between() -> None:
    text = "[(3:11..6:0]]"
    assert parse_ranges(text) == [Range(6, 0, 0)]
    told = {3: 14, 4: 2, 6: 9, 9: 5}
    assert parse_ranges(text, told) == [Range(3, 12, 13), Range(4, 0, 1), Range(6, 0, 0)]
    assert parse_ranges("[(3:13..6:0]]", told) == [Range(4, 0, 1), Range(6, 0, 0)]
    assert parse_ranges("[(3:11..6:-1]]", told) == [Range(3, 12, 13), Range(4, 0, 1)]


@pytest.mark.parametrize(
    "text",
    ["", "x", "[(3:4..3:9]", "[(3:4..3:9)]", "[(3:4..3]]", "[(a:4..3:9]]", "[(3:4.3:9]]", "[[]]",
     "[(3:4..3:9](3:11..3:12]]", "[(3.5:4..3:9]]", '[("3":4..3:9]]', "[(3:4..3:9],]", "[(]]",
     "[(3:4:3..9]]", "[(3..4:3:9]]", "[(03:4..3:9]]"],
)  # fmt: skip
def test_what_is_no_list_of_ranges_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no acknowledged ranges"):
        parse_ranges(text)


def test_an_error_shows_no_more_than_the_beginning() -> None:
    with pytest.raises(InputError) as error:
        parse_ranges("[(3:4..3:9]" * 10_000)
    assert len(str(error.value)) < 100


def test_what_is_written_reads_as_it_was() -> None:
    rng = random.Random(7)
    for _ in range(50):
        ranges, at = [], 0
        for ledger in range(rng.randint(1, 4)):
            at = 0
            for _ in range(rng.randint(0, 30)):
                first = at + rng.randint(1, 5)
                at = first + rng.randint(1, 4)
                ranges.append(Range(ledger, first, at - 1))
        assert parse_ranges(written(ranges)) == ranges


def test_holes_end_before_an_acknowledged_entry_and_cross_ledgers() -> None:
    axis = Axis((3, 4), {3: 10, 4: 5, 5: 3})
    assert axis.length == 5 + 5 + 3
    spans = axis.spans([Range(3, 6, 7), Range(3, 9, 9), Range(4, 0, 1), Range(5, 0, 0)])
    assert spans == [(1, 3), (4, 7), (10, 11)]  # 3:9 and 4:0 are neighbours
    assert gaps(spans) == [(0, 1), (3, 4), (7, 10)]
    assert [axis.position(at) for at in (0, 4, 5, 12, 13)] == [(3, 5), (3, 9), (4, 0), (5, 2), None]


def test_a_mark_delete_in_a_ledger_that_is_gone_counts_from_the_next() -> None:
    axis = Axis((3, 9), {4: 5})
    assert (axis.length, axis.position(0), axis.distance(4, 2)) == (5, (4, 0), 2)
    assert axis.spans([Range(9, 0, 0)]) is None


def test_no_ranges_are_no_holes() -> None:
    assert gaps([]) == []


@pytest.mark.parametrize(("ranges", "again"), [(2, 0), (10, 0), (11, 0), (12, 1), (30, 19)])
def test_ranges_beyond_the_limit_and_one_are_forgotten(ranges: int, again: int) -> None:
    told = every_second(ranges)
    assert forecast(told, ranges_of(told), V40, is_open=True) == RedeliveryForecast(again, again)
    # The metadata store holds as many: the smaller number only chooses the place.
    assert forecast(told, ranges_of(told), V40, is_open=False) == RedeliveryForecast(again, again)


def test_what_is_forgotten_is_counted_in_entries() -> None:
    told = [(5, 10 * n, 5, 10 * n + 7) for n in range(13)]
    assert forecast(told, ranges_of(told), V40, is_open=True) == RedeliveryForecast(14, 14)


def test_a_range_over_ledgers_is_one_to_the_broker() -> None:
    told = [*every_second(11), (5, 30, 6, 1)]
    ranges = ranges_of(told, {5: 40, 6: 10})
    assert len(ranges) == 13
    assert forecast(told, ranges, V40, is_open=True) == RedeliveryForecast(9 + 2, 9 + 2)
    told = [*every_second(10), (5, 30, 6, 1)]
    assert forecast(told, ranges_of(told, {5: 40, 6: 10}), V40, is_open=True) == RedeliveryForecast(
        0, 0
    )


def test_newer_brokers_keep_the_limit_or_one_more_and_it_is_not_known_which() -> None:
    told = every_second(12)
    for version in ((4, 0, 9), (4, 1, 0), (5, 0, 0)):
        later = Storing(version, 10, 2, bit_arrays=False)
        assert forecast(told, ranges_of(told), later, is_open=True) == RedeliveryForecast(1, 2)
        assert forecast(told, ranges_of(told), later, is_open=True).entries is None


def test_bit_arrays_keep_whole_ledgers_by_the_entries_before_them() -> None:
    told = [(led, 2 * n, led, 2 * n + 1) for led in (5, 6, 7) for n in range(6)]
    ranges = ranges_of(told)  # 6 entries in each: 0, 6 and 12 before
    assert forecast(told, ranges, BITS40, is_open=True) == RedeliveryForecast(6, 6)
    later = Storing((4, 2, 0), 10, 2, bit_arrays=True)  # 6, 12 and 18 with itself
    assert forecast(told, ranges, later, is_open=True) == RedeliveryForecast(6, 12)
    # The first ledger is kept however much it holds.
    one = every_second(500)
    assert forecast(one, ranges_of(one), BITS40, is_open=True) == RedeliveryForecast(0, 0)
    # Few ranges, or a cursor without a ledger of its own, go as ranges to the metadata store.
    assert forecast(one, ranges_of(one), BITS40, is_open=False) == RedeliveryForecast(489, 489)
    few = [(5, 0, 5, 100), (6, 0, 6, 100)]
    assert forecast(few, ranges_of(few), BITS40, is_open=True) == RedeliveryForecast(0, 0)


def test_what_is_not_told_widens_the_forecast() -> None:
    told = every_second(500)
    unknown = Storing(version=(4, 0), max_ranges=10)
    assert forecast(told, ranges_of(told), unknown, is_open=True) == RedeliveryForecast(
        489, 489
    )  # 500 < 1000
    many = every_second(2000)
    assert forecast(many, ranges_of(many), unknown, is_open=True) == RedeliveryForecast(0, 1989)
    assert forecast(many, ranges_of(many), Storing((2, 8), 10), is_open=True).entries == 1989
    assert forecast(many, ranges_of(many), Storing(), is_open=None) == RedeliveryForecast(0, 0)


def test_a_record_that_no_bookie_takes_foretells_nothing() -> None:
    told = every_second(500_000)
    huge = Storing((4, 0), 1_000_000, 1000, bit_arrays=False)
    assert forecast(told, ranges_of(told), huge, is_open=True) == RedeliveryForecast(0, 500_000)


def test_the_size_of_ranges_is_that_of_their_protobuf() -> None:
    # Seen on 4.0.8: 199 ranges 5:1..5:2, 5:3..5:4, … are 2659 bytes, 200 are 2673.
    told = [(5, 2 * n + 1, 5, 2 * n + 2) for n in range(200)]
    wide = Storing((4, 0), 10_000, bit_arrays=False)
    assert record_bytes(told[:199], ranges_of(told[:199]), wide) == 2659
    assert record_bytes(told, ranges_of(told), wide) == 2673
    assert record_bytes(told, ranges_of(told), Storing((4, 1))) is None


def test_the_entry_before_a_ledgers_first_takes_ten_bytes() -> None:
    told = [(5, -1, 5, 0)]
    assert record_bytes(told, ranges_of(told), V40) == 8 + 1 + 10 + 1 + 1


def test_only_what_is_kept_is_in_the_record() -> None:
    told = every_second(100)
    assert record_bytes(told, ranges_of(told), V40) == record_bytes(
        told[:11], ranges_of(told[:11]), V40
    )


def test_bit_arrays_grow_with_the_span_and_not_with_the_holes() -> None:
    narrow, wide = [(5, 0, 5, 1)], [(5, 100_000, 5, 100_001)]
    assert record_bytes(narrow, ranges_of(narrow), BITS40) == 2 + 2
    # 1562 words of zeros, two bytes each, and the word of 100,001: bit 33, five bytes and a tag.
    assert record_bytes(wide, ranges_of(wide), BITS40) == 2 + 2 * 1562 + 6
    full = [(5, -1, 5, 127)]
    assert record_bytes(full, ranges_of(full), BITS40) == 2 + 2 * 11


def test_the_broker_tells_how_it_stores() -> None:
    conf = {
        "managedLedgerMaxUnackedRangesToPersist": "10000",
        "managedLedgerMaxUnackedRangesToPersistInMetadataStore": "1000",
        "managedLedgerMaxUnackedRangesToPersistInZooKeeper": "-1",
        "managedLedgerPersistIndividualAckAsLongArray": "true",
        "managedLedgerUnackedRangesOpenCacheSetEnabled": "true",
    }
    assert storing_of(conf, "4.0.8") == Storing((4, 0, 8), 10_000, 1000, bit_arrays=True)
    guava = conf | {"managedLedgerUnackedRangesOpenCacheSetEnabled": "false"}
    assert storing_of(guava, "4.0.8").bit_arrays is False
    old = {"managedLedgerMaxUnackedRangesToPersistInZooKeeper": "500"}
    assert storing_of(old, "2.8.1-SNAPSHOT").max_ranges_in_metadata_store == 500
    assert storing_of({}, None) == Storing()
    assert storing_of({}, None).limit == 10_000


def test_the_settings_that_a_trace_records_are_those_that_are_read() -> None:
    asked: list[str] = []

    class Configuration(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            asked.append(name)
            return default

    storing_of(Configuration(), "4.0.8")
    assert set(asked) == set(SETTINGS)


@pytest.mark.parametrize(("written", "told"), [("true", True), ("false", False), ("", None)])
def test_whether_acks_of_parts_of_batches_are_kept(written: str, told: bool | None) -> None:
    name = "acknowledgmentAtBatchIndexLevelEnabled"
    assert storing_of({name: written}, None) == Storing(batch_index_acks=told)
