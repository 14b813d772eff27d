"""Which entries are acknowledged, by what, and where mark-delete stands: transcripts of a wire."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from pulsar_doctor.checkup.holes.bounds import Bounds, certain_of
from pulsar_doctor.checkup.holes.shape import shape_of
from pulsar_doctor.ledger.acks import subscription as acknowledgements
from pulsar_doctor.ledger.acks.biographies import Biography
from pulsar_doctor.ledger.acks.doubts import (
    IN_TRANSACTIONS,
    INDEX_ACKS,
    LEDGER_ENDS,
    MISSING,
    NOTHING_SENT,
    OLDER,
)
from pulsar_doctor.ledger.acks.entries import PAGE
from pulsar_doctor.ledger.acks.ranges import Axis, Range
from pulsar_doctor.ledger.acks.subscription import Acknowledgements
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.wire.columns import TO_BROKER, TO_CLIENT, Row
from pulsar_doctor.wire.commands import rows_of
from pulsar_doctor.wire.journal import FILE_HEADER, read_blocks
from tests.made.wire import EXCLUSIVE, FAILOVER, SHARED, START_US, Wire, message_id, record


def rows(said: Wire) -> Iterator[Row]:
    timeline = Timeline()
    for block, _ in read_blocks(said.journal, len(FILE_HEADER)):
        for row in rows_of(block):
            yield timeline.apply(row)


def after(said: Wire, **how: Any) -> Acknowledgements:
    (found,) = acknowledgements.of_rows(rows(said), **how).values()
    return found


def stands(said: Wire, **how: Any) -> tuple[tuple[int, int] | None, list[tuple[int, int]]]:
    """Mark-delete and the ranges behind it, those of ledger 7 without its number."""
    found = after(said, **how)
    return found.mark_delete, [
        (r.first, r.last) if r.ledger_id == 7 else tuple(r) for r in found.ranges()
    ]


def life(found: Acknowledgements, entry: int, ledger_id: int = 7) -> Biography:
    (one,) = (
        each
        for each in found.biographies()
        if (each.ledger_id, each.entry_id) == (ledger_id, entry)
    )
    return one


def shared(count: int = 10, **settings: Any) -> Wire:
    """`count` entries of ledger 7, delivered one by one to a consumer on Shared."""
    said = Wire().open().attached(sub_type=SHARED, **settings)
    return said.flow(100).pushed(range(count))


def exclusive(count: int = 10) -> Wire:
    said = Wire().open().attached(sub_type=EXCLUSIVE)
    return said.flow(100).pushed(range(count))


def with_receipt(said: Wire, ids: list[int], request_id: int, error: int | None = None) -> Wire:
    """An ack whose receipt is asked for, and the receipt."""
    said.acked(ids, request_id=request_id)
    failed: dict[str, Any] = {} if error is None else {"error": error}
    answer = record("ACK_RESPONSE", consumer_id=1, request_id=request_id, **failed)
    said.say(TO_CLIENT, answer)
    return said


# -- individual acks


def test_mark_delete_goes_on_as_long_as_the_next_entry_is_acknowledged():
    assert stands(shared()) == ((7, -1), [])
    assert stands(shared().acked([2])) == ((7, -1), [(2, 2)])
    assert stands(shared().acked([2, 0])) == ((7, 0), [(2, 2)])
    assert stands(shared().acked([2, 0]).acked([1])) == ((7, 2), [])
    assert stands(shared().acked([9, 5, 4, 7, 0])) == ((7, 0), [(4, 5), (7, 7), (9, 9)])


def test_ranges_run_on_from_page_to_page():
    said = shared(3 * PAGE + 10)
    said.acked([*range(5, 2 * PAGE), *range(2 * PAGE + 1, 3 * PAGE + 3)])
    assert stands(said) == (
        (7, -1),
        [(5, 2 * PAGE - 1), (2 * PAGE + 1, 3 * PAGE + 2)],
    )
    assert stands(said.acked(range(5))) == (
        (7, 2 * PAGE - 1),
        [(2 * PAGE + 1, 3 * PAGE + 2)],
    )


def test_an_entry_that_does_not_exist_yet_drops_what_stands_behind_it():
    said = shared(3).acked([0, 7, 1])
    assert stands(said) == ((7, 0), [])
    assert after(said).dropped == 2
    assert stands(said.pushed(range(3, 9)).acked([7])) == ((7, 0), [(7, 7)])


def test_what_discards_a_message_is_told_apart():
    found = after(shared().acked([0, 1]).acked([2], corrupt=True))
    assert found.mark_delete == (7, 2)
    assert life(found, 2).acknowledged_by == "validation error"
    assert found.acknowledged == {"individual": 2, "validation error": 1}


def test_an_ack_counts_once():
    found = after(shared().acked([3]).acked([3]))
    assert found.acknowledged == {"individual": 1}
    assert life(found, 3).acknowledged_us == START_US + 6000


# -- cumulative acks


def test_a_cumulative_ack_goes_forward_only():
    said = exclusive().acked([5], cumulative=True)
    assert stands(said) == ((7, 5), [])
    assert stands(said.acked([3], cumulative=True)) == ((7, 5), [])
    assert stands(said.acked([8], cumulative=True)) == ((7, 8), [])
    assert life(after(said), 0).acknowledged_by == "cumulative"
    assert life(after(said), 7).acknowledged_us == START_US + 8000


def test_a_cumulative_ack_of_what_lies_before_the_beginning_moves_nothing():
    said = Wire().open().attached(sub_type=EXCLUSIVE).flow(10).pushed([5, 6])
    assert stands(said.acked([6], cumulative=True).acked([3], cumulative=True)) == ((7, 6), [])


def test_a_cumulative_ack_meets_what_was_acknowledged_one_by_one():
    said = exclusive().acked([2, 6, 7]).acked([5], cumulative=True)
    assert stands(said) == ((7, 7), [])
    found = after(said)
    assert life(found, 2).acknowledged_by == "individual"
    assert found.acknowledged == {"individual": 3, "cumulative": 5}


def test_a_cumulative_ack_is_dropped_on_shared_and_with_two_ids_and_beyond_the_end():
    assert stands(shared().acked([5], cumulative=True)) == ((7, -1), [])
    assert stands(exclusive().acked([2, 5], cumulative=True)) == ((7, -1), [])
    assert stands(exclusive().acked([10], cumulative=True)) == ((7, -1), [])
    assert after(exclusive().acked([10], cumulative=True)).dropped == 1


def test_a_cumulative_ack_of_a_part_of_a_batch_ends_before_it():
    said = Wire().open().attached(sub_type=EXCLUSIVE).flow(100).pushed(range(4), batch=4)
    part = said.acked([2], cumulative=True, open_bits=0b1100)
    for told in (None, True, False):
        assert stands(part, batch_index_acks=told) == ((7, 1), [])
    assert life(after(part), 2).open_messages == 2
    assert life(after(part, batch_index_acks=False), 2).open_messages == 4
    less = part.acked([2], cumulative=True, open_bits=0b1110)
    assert life(after(less), 2).open_messages == 2
    whole = less.acked([2], open_bits=0b0011)
    assert stands(whole) == ((7, 2), [])
    assert stands(whole, batch_index_acks=False) == ((7, 1), [])


def test_a_cumulative_ack_of_a_part_of_the_first_batch_of_a_ledger_ends_in_the_one_before():
    said = exclusive(3).pushed([(8, 0)], batch=4)
    assert stands(said.acked([(8, 0)], cumulative=True, open_bits=0b1000)) == ((8, -1), [])


# -- batches


def batches() -> Wire:
    return Wire().open().attached(sub_type=SHARED).flow(100).pushed(range(3), batch=3)


def test_a_batch_is_acknowledged_when_none_of_its_indexes_is_open():
    said = batches().acked([0], open_bits=0b101).acked([0], open_bits=0b110)
    assert stands(said) == ((7, -1), [])
    assert life(after(said), 0).open_messages == 1
    assert life(after(said), 0).acknowledged_us is None
    said.acked([0], open_bits=0b011)
    assert stands(said) == ((7, 0), [])
    assert life(after(said), 0).acknowledged_by == "batch index"
    assert life(after(said), 0).open_messages == 0


def test_a_broker_without_batch_index_acks_waits_for_the_whole_batch():
    said = batches().acked([0], open_bits=0b100).acked([0], open_bits=0b011)
    assert stands(said, batch_index_acks=True) == ((7, 0), [])
    assert stands(said, batch_index_acks=False) == ((7, -1), [])
    assert stands(said.acked([0]), batch_index_acks=False) == ((7, 0), [])


def either(said: Wire) -> tuple[Any, Any]:
    """Where mark-delete stands with and without acks of parts of batches, as nothing is told."""
    found = after(said)
    assert found.otherwise is not None
    return found.mark_delete, found.otherwise.mark_delete


def test_where_the_setting_is_not_told_both_are_followed_and_that_is_a_doubt():
    said = batches().acked([0], open_bits=0b100).acked([0], open_bits=0b011)
    assert either(said) == ((7, 0), (7, -1))
    assert after(said).doubts == (INDEX_ACKS,)
    for told in (True, False):
        found = after(said, batch_index_acks=told)
        assert (found.otherwise, found.doubts) == (None, ())


def test_a_part_of_a_batch_that_is_open_in_a_hole_is_a_doubt_and_elsewhere_it_is_none():
    said = batches().acked([0], open_bits=0b100)
    assert either(said) == ((7, -1), (7, -1))
    assert after(said).doubts == ()
    assert after(said.acked([1])).doubts == (INDEX_ACKS,)
    assert after(said.acked([0])).doubts == ()
    assert after(batches().acked([0, 1])).otherwise is None


def test_both_go_on_from_where_they_stand():
    said = batches().acked([0]).acked([1], open_bits=0).acked([2])
    assert either(said) == ((7, 2), (7, 0))
    assert after(said).otherwise.ranges() == [Range(7, 2, 2)]
    assert either(said.acked([1])) == ((7, 2), (7, 2))
    assert after(said).doubts == ()


def test_a_batch_that_comes_back_whole_may_have_lost_its_ack():
    said = batches().acked([0], open_bits=0b100).given_back([0])
    whole = said.pushed([0], batch=3, again=1)
    assert life(after(whole), 0).open_messages == 3
    assert either(whole.acked([0], open_bits=0b011).acked([1], open_bits=0)) == ((7, -1), (7, -1))
    assert after(whole).doubts == (INDEX_ACKS,)


def test_a_batch_that_comes_back_in_part_shows_what_the_broker_keeps():
    said = batches().acked([0], open_bits=0b100).given_back([0])
    part = said.pushed([0], batch=3, again=1, open_bits=0b100)
    assert life(after(part), 0).open_messages == 1
    assert (after(part).otherwise, after(part).doubts) == (None, ())
    assert stands(part.acked([0], open_bits=0b011)) == ((7, 0), [])


def test_a_broker_that_has_shown_that_it_keeps_index_acks_does():
    said = batches().acked([0], open_bits=0b100).given_back([0])
    said.pushed([0], batch=3, again=1, open_bits=0b100)
    said.acked([1], open_bits=0b100).given_back([1]).pushed([1], batch=3, again=1)
    said.acked([2], open_bits=0b100).acked([2], open_bits=0b011)
    assert stands(said) == ((7, -1), [(2, 2)])


def test_an_index_ack_that_crosses_with_a_redelivery_holds():
    said = batches().acked([0], open_bits=0b110).given_back([0]).acked([0], open_bits=0b101)
    crossed = said.pushed([0], batch=3, again=1, open_bits=0b110)
    assert life(after(crossed), 0).open_messages == 1
    assert stands(crossed.acked([0], open_bits=0b011)) == ((7, 0), [])


def test_an_unload_forgets_the_acknowledged_part_of_a_batch_unless_the_broker_says_otherwise():
    said = batches().acked([0], open_bits=0b110).unloaded().attached(2, sub_type=SHARED)
    assert life(after(said), 0).open_messages == 3
    assert stands(said.acked([0], 2, open_bits=0b001)) == ((7, -1), [])
    kept = batches().acked([0], open_bits=0b110).unloaded().attached(2, sub_type=SHARED)
    kept.pushed([0], 2, batch=3, open_bits=0b110)
    assert stands(kept.acked([0], 2, open_bits=0b001)) == ((7, 0), [])


# -- several ledgers


def test_mark_delete_goes_from_one_ledger_to_the_next():
    said = shared(3).pushed([(9, 0), (9, 1), (9, 2)])
    assert stands(said.acked([0, 1, 2])) == ((7, 2), [])
    assert after(said).doubts == ()
    assert stands(said.acked([(9, 1)])) == ((7, 2), [(9, 1, 1)])
    assert stands(said.acked([(9, 0)])) == ((9, 1), [])
    assert after(said).doubts == (LEDGER_ENDS,)
    assert after(said).passed() == [(7, 2), (9, 1)]


def test_ranges_of_several_ledgers_are_apart():
    said = shared(3).pushed([(9, 0), (9, 1), (9, 2)]).acked([2, (9, 0), (9, 2)])
    assert after(said).ranges() == [Range(7, 2, 2), Range(9, 0, 0), Range(9, 2, 2)]


def test_a_cumulative_ack_closes_earlier_ledgers_too():
    said = exclusive(3).pushed([(9, 0), (9, 1), (9, 2)]).acked([(9, 1)], cumulative=True)
    assert stands(said) == ((9, 1), [])
    assert after(said).acknowledged == {"cumulative": 5}
    assert after(said).doubts == ()


def test_a_ledger_that_goes_on_later_is_no_longer_left():
    said = shared(3).pushed([(9, 0)]).acked([0, 1, 2, (9, 0)])
    assert stands(said) == ((9, 0), [])
    assert stands(said.pushed([3])) == ((7, 2), [(9, 0, 0)])
    assert after(said).passed() == [(7, 2)]
    assert after(said).doubts == (LEDGER_ENDS,)  # and the hole may be longer
    assert stands(said.acked([3])) == ((9, 0), [])
    assert after(said).doubts == (LEDGER_ENDS,)


# -- what was not delivered


def test_shared_does_not_pass_over_what_was_not_delivered():
    said = Wire().open().attached(sub_type=SHARED).flow(100).pushed([0, 1, 4]).acked([0, 1, 4])
    assert stands(said) == ((7, 1), [(4, 4)])


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER])
def test_delivered_in_order_what_is_passed_over_is_acknowledged(sub_type):
    said = Wire().open().attached(sub_type=sub_type).flow(100)
    if sub_type == FAILOVER:  # as the broker always says before it sends
        said.say(TO_CLIENT, record("ACTIVE_CONSUMER_CHANGE", consumer_id=1, is_active=True))
    said.pushed([0, 1, 4, 5, 8])
    assert stands(said) == ((7, -1), [(2, 3), (6, 7)])
    assert stands(said.acked([0, 1])) == ((7, 3), [(6, 7)])
    assert stands(said.acked([5], cumulative=True)) == ((7, 7), [])


def test_once_redelivery_was_asked_for_nothing_is_passed_over():
    said = exclusive(3).given_back().pushed([0, 1, 2, 5])
    assert stands(said) == ((7, -1), [])


def test_what_comes_after_all_had_not_been_acknowledged():
    said = Wire().open().attached(sub_type=EXCLUSIVE).flow(100).pushed([0, 1, 4, 2])
    assert stands(said) == ((7, -1), [(3, 3)])


def test_what_is_passed_over_may_begin_a_ledger():
    said = exclusive(3).pushed([(9, 3)])
    assert stands(said) == ((7, -1), [(9, 0, 2)])


def test_acks_of_what_was_delivered_before_the_rows_begin_count():
    later = list(rows(shared(8).acked([0, 1, 6]).pushed([8, 9]).acked([8])))[-4:]
    assert [row.command for row in later] == ["ACK", "MESSAGE", "MESSAGE", "ACK"]
    (found,) = acknowledgements.of_rows(later).values()
    assert (found.mark_delete, found.ranges()) == ((7, 8), [])
    assert found.acknowledged == {"individual": 4}


def test_a_later_start_is_exact_where_delivery_is_in_order_and_a_bound_otherwise():
    said = Wire().open().attached(sub_type=EXCLUSIVE).flow(10).pushed([5, 6])
    assert stands(said) == ((7, 4), [])
    assert after(said).doubts == ()
    said = Wire().open().attached(sub_type=SHARED).flow(10).pushed([5, 6]).acked([5, 6])
    assert stands(said) == ((7, 6), [])
    assert after(said).doubts == (OLDER,)
    assert stands(said.pushed([3])) == ((7, 2), [(5, 6)])


def test_before_any_delivery_nothing_is_known():
    assert stands(Wire().open().attached(sub_type=SHARED).flow(10)) == (None, [])


def test_the_next_in_order_shows_what_was_acknowledged_out_of_sight():
    said = exclusive().unloaded().attached(2, sub_type=EXCLUSIVE).pushed([4], 2)
    assert stands(said) == ((7, 3), [])
    assert life(after(said), 3).acknowledged_by == "unseen"


# -- consumers come and go


def test_acks_before_the_subscription_and_after_its_close_are_dropped():
    said = shared(4).asked(2, "other", sub_type=SHARED).acked([0], 2)
    assert after(said).dropped == 1
    assert stands(said.granted(2).acked([0], 2)) == ((7, 0), [])
    said.closing(1).acked([1]).granted(501)
    assert stands(said) == ((7, 0), [])
    assert stands(said.acked([1], 1).acked([2], 2)) == ((7, 0), [(2, 2)])


def test_a_close_that_fails_leaves_the_consumer():
    said = shared(4).closing(1).refused(501).acked([0])
    assert stands(said) == ((7, 0), [])


def test_any_consumer_may_acknowledge():
    said = shared(4).attached(2, "other", sub_type=SHARED).acked([0, 2], 2)
    assert stands(said) == ((7, 0), [(2, 2)])


def test_an_ack_was_lost_if_the_entry_comes_to_a_consumer_that_came_after_it():
    said = shared(4).acked([0, 1, 3]).unloaded().attached(2, sub_type=SHARED)
    said.pushed([1], 2, again=1).pushed([2], 2, again=1)
    assert stands(said) == ((7, 0), [(3, 3)])
    found = after(said)
    assert found.lost == 1
    assert found.acknowledged == {"individual": 2}
    assert (life(found, 1).deliveries, life(found, 1).acknowledged_us) == (2, None)
    assert stands(said.acked([1], 2)) == ((7, 1), [(3, 3)])


def test_an_ack_was_lost_if_its_connection_went_before_the_entry_came_again():
    said = Wire().open(0).open(1).attached(1, "a", sub_type=SHARED)
    said.attached(2, "b", sub_type=SHARED, conn_id=1).pushed(range(3)).acked([0]).close(0)
    assert stands(said) == ((7, 0), [])
    assert stands(said.pushed([0], 2, again=1, conn_id=1)) == ((7, -1), [])


def test_an_ack_was_lost_if_the_broker_closed_a_consumer_before_the_entry_came_again():
    said = shared(3).attached(2, "other", sub_type=SHARED).acked([0]).unloaded()
    assert stands(said.pushed([0], 2, again=1)) == ((7, -1), [])


def test_an_ack_was_lost_if_the_entry_comes_to_a_consumer_that_became_active_after_it():
    said = Wire().open().attached(1, "a", sub_type=FAILOVER).attached(2, "b", sub_type=FAILOVER)
    said.pushed(range(3)).acked([1], cumulative=True)
    now = record("ACTIVE_CONSUMER_CHANGE", consumer_id=2, is_active=True)
    said.say(TO_CLIENT, now)
    assert stands(said.pushed([1], 2)) == ((7, 0), [])


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER, SHARED])
def test_in_mid_stream_entries_from_before_it_may_be_open(sub_type):
    said = Wire().open().attached(sub_type=sub_type).pushed(range(10)).acked([5, 6])
    later = [row for row in rows(said) if (row.entry_id or 0) >= 5 or row.message_ids]
    assert {row.command for row in later} == {"MESSAGE", "ACK"}
    (found,) = acknowledgements.of_rows(later).values()
    assert (found.mark_delete, found.doubts) == ((7, 6), (OLDER,))


def test_what_a_new_active_consumer_gets_before_the_rewind_was_read_for_the_one_before_it():
    said = Wire().open().attached(1, "a", sub_type=FAILOVER).attached(2, "b", sub_type=FAILOVER)
    active = record("ACTIVE_CONSUMER_CHANGE", consumer_id=1, is_active=True)
    said.say(TO_CLIENT, active).pushed(range(4)).acked([2]).closed(1)
    assert stands(said.pushed([5], 2)) == ((7, -1), [(2, 2)])  # 0 to 4 come again
    now = record("ACTIVE_CONSUMER_CHANGE", consumer_id=2, is_active=True)
    said.say(TO_CLIENT, now).pushed([0, 1, 3, 4, 5], 2)
    assert stands(said) == ((7, -1), [(2, 2)])
    assert stands(said.acked([0, 1], 2)) == ((7, 2), [])


def test_an_ack_that_crosses_with_a_redelivery_holds():
    said = shared(4).given_back([0]).acked([0]).pushed([0], again=1)
    assert stands(said) == ((7, 0), [])
    found = after(said)
    assert found.lost == 0
    assert life(found, 0).deliveries == 2


def test_given_back_is_not_acknowledged():
    assert stands(shared(4).acked([0]).given_back([1, 2])) == ((7, 0), [])
    assert stands(exclusive(4).acked([1], cumulative=True).given_back()) == ((7, 1), [])


def test_a_seek_back_clears_the_ranges_behind_it():
    said = exclusive().acked([2], cumulative=True).acked([5, 8]).seek(1)
    assert stands(said) == ((7, 0), [])
    said.attached(2, sub_type=EXCLUSIVE).pushed(range(1, 10), 2).acked([3, 5], 2)
    assert stands(said) == ((7, 0), [(3, 3), (5, 5)])


def test_a_seek_forward_consumes_what_lies_before():
    said = exclusive().acked([1], cumulative=True).acked([8]).seek(6)
    assert stands(said) == ((7, 5), [])
    assert life(after(said), 4).acknowledged_by == "seek"


def test_a_seek_to_a_moment_is_known_by_what_comes_next():
    back = record("SEEK", consumer_id=1, request_id=900, message_publish_time=1)
    said = exclusive().acked([4], cumulative=True)
    said.say(TO_BROKER, back)
    said.granted(900).unloaded()
    assert stands(said) == (None, [])
    assert stands(said.attached(2, sub_type=EXCLUSIVE).pushed([2], 2)) == ((7, 1), [])
    assert [each.entry_id for each in after(said).biographies()] == [*range(2, 10), 0, 1]


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED])
def test_what_begins_a_ledger_does_not_tell_where_the_one_before_ended(sub_type):
    said = Wire().open().attached(sub_type=sub_type).flow(3).pushed(range(3))  # and there are more
    said.say(TO_BROKER, record("SEEK", consumer_id=1, request_id=900, message_publish_time=1))
    said.granted(900).unloaded().attached(2, sub_type=sub_type).pushed([(9, 0)], 2)
    assert stands(said) == ((9, -1), [])
    assert after(said).doubts == ((OLDER,) if sub_type == SHARED else ())


def test_a_seek_that_fails_moves_nothing():
    back = record("SEEK", consumer_id=1, request_id=900, message_id=message_id(0))
    said = exclusive().acked([4], cumulative=True)
    said.say(TO_BROKER, back)
    assert stands(said.refused(900)) == ((7, 4), [])


def test_a_subscription_that_cannot_be_given_up_stays():
    said = shared(4).acked([0]).closing(command="UNSUBSCRIBE").refused(501)
    assert stands(said) == ((7, 0), [])


def test_a_subscription_that_is_given_up_begins_anew():
    said = shared(4).acked([0, 2]).closed(command="UNSUBSCRIBE")
    assert stands(said) == (None, [])
    assert stands(said.attached(2, sub_type=SHARED).pushed([3], 2)) == ((7, 2), [])


# -- receipts, transactions, gaps


def test_an_ack_that_the_broker_refuses_moves_nothing():
    said = shared(4).acked([0])
    assert stands(with_receipt(said, [1, 3], 40)) == ((7, 1), [(3, 3)])
    assert stands(with_receipt(said, [2], 41, error=2)) == ((7, 1), [(3, 3)])
    assert life(after(said), 2).acknowledged_us is None


def test_an_ack_in_a_transaction_is_pending():
    said = shared(4).acked([0]).acked([1, 2], transaction=5)
    found = after(said)
    assert found.mark_delete == (7, 0)
    assert found.doubts == (IN_TRANSACTIONS,)
    assert (life(found, 1).acknowledged_by, life(found, 1).acknowledged_us) == ("transaction", None)
    assert life(after(said.pushed([1], again=1)), 1).acknowledged_by is None


def test_missing_commands_are_told():
    assert after(shared(4)).doubts == ()
    assert after(shared(4).lost()).doubts == (MISSING,)
    assert after(shared(4).unparsed()).doubts == (MISSING,)
    assert after(shared(4).open(3).unparsed(3)).doubts == ()


# -- biographies, and moments


def test_a_biography_tells_to_whom_and_how_often():
    said = shared(3).acked([0, 2]).given_back([1]).attached(2, "other", sub_type=SHARED)
    said.pushed([1], 2, again=1)
    assert after(said).biographies()[0] == Biography(
        ledger_id=7,
        entry_id=1,
        first_delivered_us=START_US + 5000,
        first_consumer="slow",
        deliveries=2,
        last_delivered_us=START_US + 10_000,
        last_consumer="other",
        acknowledged_us=None,
        acknowledged_by=None,
        open_messages=1,
    )


def test_entries_in_holes_come_first():
    found = after(shared(5).acked([0, 2]))
    assert [each.entry_id for each in found.biographies()] == [1, 3, 4, 0, 2]
    assert found.delivered == 5


def test_any_moment_of_the_trace_can_be_told():
    said = shared(5).acked([1]).acked([0])
    assert stands(said, until_us=START_US + 5000) == ((7, -1), [])
    assert stands(said, until_us=START_US + 6000) == ((7, -1), [(1, 1)])
    assert stands(said, until_us=START_US + 7000) == ((7, 1), [])


def test_subscriptions_are_apart():
    said = shared(3).attached(2, "b", sub_type=SHARED, subscription="audit").pushed(range(3), 2)
    found = acknowledgements.of_rows(rows(said.acked([0]).acked([1], 2)))
    marks = {subscription: each.mark_delete for (_, subscription), each in found.items()}
    assert marks == {"billing": (7, 0), "audit": (7, -1)}


@pytest.fixture
def short_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsar_doctor.ledger.acks.cursor.FINISHED_KEPT", 2 * PAGE)


def many_acked(pages: int = 5) -> Wire:
    return shared(pages * PAGE).acked(range(pages * PAGE - 1))


@pytest.mark.usefixtures("short_memory")
def test_what_is_far_before_mark_delete_is_forgotten():
    found = after(many_acked())
    assert found.mark_delete == (7, 5 * PAGE - 2)
    assert len(found.biographies()) == 3 * PAGE


@pytest.mark.usefixtures("short_memory")
def test_what_was_forgotten_may_come_again():
    said = many_acked().unloaded().attached(2, sub_type=SHARED).pushed([10], 2, again=1)
    assert stands(said) == ((7, 9), [(11, 5 * PAGE - 2)])
    said.pushed([2 * PAGE + 7], 2, again=1).acked([10], 2)
    assert stands(said) == ((7, 2 * PAGE + 6), [(2 * PAGE + 8, 5 * PAGE - 2)])


@pytest.mark.usefixtures("short_memory")
def test_of_what_was_forgotten_only_what_comes_again_is_open():
    said = many_acked(8).unloaded().attached(2, sub_type=SHARED)
    said.pushed([10], 2, again=1).pushed([2 * PAGE + 7], 2, again=1).acked([10], 2)
    assert stands(said) == ((7, 2 * PAGE + 6), [(2 * PAGE + 8, 8 * PAGE - 2)])


@pytest.mark.usefixtures("short_memory")
def test_a_ledger_may_have_been_forgotten_to_its_end():
    said = shared(2 * PAGE).pushed([(9, entry) for entry in range(5 * PAGE)])
    said.acked(range(2 * PAGE)).acked([(9, entry) for entry in range(5 * PAGE)])
    said.unloaded().attached(2, sub_type=SHARED).pushed([10], 2, again=1)
    assert stands(said) == ((7, 9), [(11, 2 * PAGE - 1), (9, 0, 5 * PAGE - 1)])


@pytest.mark.usefixtures("short_memory")
def test_a_seek_goes_back_to_what_was_forgotten():
    assert stands(many_acked().seek(10)) == ((7, 9), [])


@pytest.mark.usefixtures("short_memory")
def test_a_ledger_behind_may_have_been_forgotten():
    said = shared(3).pushed([(9, entry) for entry in range(5 * PAGE)])
    said.acked([0, 1, 2]).acked([(9, entry) for entry in range(5 * PAGE - 1)])
    said.unloaded().attached(2, sub_type=SHARED).pushed([1], 2, again=1)
    assert stands(said)[0] == (7, 0)
    assert stands(said.acked([1], 2)) == ((9, 5 * PAGE - 2), [])


def test_a_far_jump_costs_nothing():
    far = 1 << 60
    said = Wire().open().attached(sub_type=EXCLUSIVE).flow(100).pushed([3, far]).acked([3])
    said.unloaded().attached(2, sub_type=EXCLUSIVE).pushed([far], 2).acked([far], 2)
    assert stands(said) == ((7, far), [])


# -- a law


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_acks_ends_in_the_same_ranges(seed):
    chance = random.Random(seed)
    acked = chance.sample(range(600), chance.randint(1, 600))
    said = shared(600)
    for at in range(0, len(acked), 50):
        said.acked(acked[at : at + 50])
    expected, closed = [], sorted(set(acked))
    for entry in closed:
        if expected and expected[-1][1] == entry - 1:
            expected[-1] = (expected[-1][0], entry)
        else:
            expected.append((entry, entry))
    mark = -1
    if expected[0][0] == 0:
        mark = expected.pop(0)[1]
    assert stands(said) == ((7, mark), expected)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_followed_without_the_setting_is_what_each_setting_gives(seed):
    chance = random.Random(seed)
    kind = chance.choice([EXCLUSIVE, SHARED])
    said = Wire().open().attached(sub_type=kind).flow(100).pushed(range(5), batch=3)
    for consumer in range(1, 40):
        entry, event = chance.randrange(5), chance.random()
        if event < 0.5:
            said.acked([entry], open_bits=0b111 & ~(1 << chance.randrange(3)))
        elif event < 0.6:
            said.acked([entry])
        elif event < 0.75:
            said.acked([entry], cumulative=True, open_bits=chance.choice([None, 0b110, 0b100]))
        elif event < 0.95:
            said.given_back([entry]).pushed([entry], batch=3, again=1)
        else:
            said.unloaded().attached(1 + consumer % 2, sub_type=kind)
            said.pushed([entry], 1 + consumer % 2, batch=3, again=1)
    both, keeps, drops = (after(said, batch_index_acks=told) for told in (None, True, False))
    for found, one in ((both, keeps), (both.otherwise or both, drops)):
        assert (found.mark_delete, found.ranges()) == (one.mark_delete, one.ranges())
        assert found.biographies() == one.biographies()
        assert found.acknowledged == one.acknowledged
    same = (keeps.mark_delete, keeps.ranges()) == (drops.mark_delete, drops.ranges())
    assert same or INDEX_ACKS in both.doubts


# -- what is certain


def certain(said: Wire, **how: Any) -> Bounds:
    found = after(said, **how)
    ends: dict[int, int] = {}
    for at in [*found.biographies(), *found.ranges()]:
        last = at.last if isinstance(at, Range) else at.entry_id
        ends[at.ledger_id] = max(ends.get(at.ledger_id, 0), last + 1)
    axis = Axis(found.mark_delete or (-1, -1), ends)
    return certain_of(found, shape_of(axis, found.ranges(), axis.length))


def test_what_has_no_doubt_is_certain():
    said = shared().acked([0, 2, 3, 6])
    assert certain(said) == Bounds(((7, 0),) * 2, (2, 2), (3, 3), (2, 2), (3, 3), ((7, 1),) * 2)


def test_of_a_trace_that_begins_later_only_one_side_is_certain():
    said = Wire().open().attached(sub_type=SHARED).flow(10).pushed(range(5, 10)).acked([5, 7])
    assert certain(said) == Bounds(
        (None, (7, 5)), (1, None), (1, None), (1, None), (1, None), (None, (7, 6))
    )


def test_a_ledger_may_go_on_where_it_is_taken_to_end():
    said = shared(3).pushed([(9, 0), (9, 1), (9, 2), (9, 3)]).acked([0, 1, 2, (9, 0), (9, 2)])
    assert after(said).doubts == (LEDGER_ENDS,)
    assert certain(said) == Bounds(
        ((7, 2), (9, 0)), (1, 2), (1, 2), (1, 2), (1, None), ((7, 3), (9, 1))
    )


def test_a_ledger_may_go_on_where_a_range_begins_the_next_one():
    said = shared(3).pushed([(9, 0), (9, 1)]).acked([0, 2, (9, 0)])
    assert after(said).doubts == (LEDGER_ENDS,)
    assert certain(said) == Bounds(((7, 0),) * 2, (2, 2), (2, 2), (1, 2), (1, None), ((7, 1),) * 2)


def test_where_commands_are_missing_or_nothing_was_sent_nothing_is_certain():
    assert certain(shared().acked([0, 2]).lost()) == Bounds()
    nothing = Wire().open().attached(sub_type=SHARED).flow(10)
    assert certain(nothing) == Bounds()
    assert after(nothing).doubts == (NOTHING_SENT,)


def test_before_the_first_is_sent_a_topic_may_have_been_unloaded():
    said = Wire().open().attached(sub_type=SHARED).flow(10).unloaded()
    said.attached(2, sub_type=SHARED).pushed([(9, 0), (9, 1)], 2).acked([(9, 0)], 2)
    assert after(said).doubts == (OLDER,)
    assert certain(said).mark_delete == (None, (9, 0))


def test_a_seek_to_an_entry_is_a_beginning():
    said = Wire().open().attached(sub_type=SHARED).flow(10).pushed([5, 6]).acked([5])
    assert after(said).doubts == (OLDER,)
    assert after(said.seek(5)).doubts == ()


def test_what_lies_ahead_again_is_not_taken_to_have_ended():
    said = shared(3).pushed([(9, 0)]).pushed([(11, 0)]).acked([0, 1, 2, (9, 0), (11, 0)])
    assert (after(said).mark_delete, after(said).ends()) == ((11, 0), 2)
    assert (after(said.pushed([3])).mark_delete, after(said).ends()) == ((7, 2), 2)
    assert (after(said.acked([3])).mark_delete, after(said).ends()) == ((11, 0), 2)
    assert after(said.seek((9, 0))).doubts == ()
