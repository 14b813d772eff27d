"""What sets the pace of a subscription, by each limit, and what is not taken for one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.diagnosis.actions.consumers import slow
from pulsar_doctor.diagnosis.pace import SubscriptionPace, pace_of
from pulsar_doctor.evidence.balance import balance_of
from pulsar_doctor.evidence.broker_counts import HeldBack, Throttling
from pulsar_doctor.evidence.circulation import Circulation, Sent
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.hole import AckedRanges
from pulsar_doctor.evidence.in_hand import InHand
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import Count, exactly
from pulsar_doctor.ledger.balance import Pace

BUSY = ConsumerView(
    label="c1", available_permits=exactly(0), unacked_messages=exactly(100), full_share=1.0,
    works=True, pace=Pace(0.05, "measured"), delivered=200, done=200, entry_messages_most=1,
)  # fmt: skip
RESTS = replace(
    BUSY, label="c2", available_permits=exactly(90), unacked_messages=exactly(0), full_share=0.0,
    delivered=20, done=20,
)  # fmt: skip
VIEW = SubscriptionView(
    topic="persistent://public/default/orders", partition=None, subscription="etl", type="Shared",
    sources=frozenset({STATS}), consumers=(BUSY,), left=exactly(6000), delayed=exactly(0),
    unacked=exactly(100), watched=True, watched_seconds=10.0, published=600, delivered=200,
)  # fmt: skip


def perhaps(**changes: Any) -> SubscriptionPace | None:
    view = replace(VIEW, **changes)
    return pace_of(view, balance_of(view))


def of(*consumers: ConsumerView, **changes: Any) -> SubscriptionPace:
    found = perhaps(consumers=consumers or (BUSY,), **changes)
    assert found is not None
    return found


def test_a_smaller_queue_is_advised_first_only_where_another_consumer_could_take_the_rest() -> None:
    alone, beside = (
        [action.text for action in slow(replace(VIEW, consumers=consumers), BUSY)]
        for consumers in ((BUSY,), (BUSY, RESTS))
    )
    assert alone[0].startswith("Make the work on one message faster")
    assert alone[1].startswith("Before others join: give this consumer a receiver queue of 1")
    assert beside[0].startswith("Give this consumer a receiver queue of 1")


def test_a_full_queue_is_the_application_and_it_says_how_many_consumers_keep_up() -> None:
    found = of()
    assert (found.set_by, found.who, found.rate, found.arrivals) == ("application", ("c1",), 20, 60)
    assert [(each.lever, each.value, each.rate) for each in found.levers[:2]] == [
        ("consumers", 2, 40), ("consumers", 3, 60),
    ]  # fmt: skip
    nothing = found.levers[-1]
    assert (nothing.lever, nothing.why) == (
        "receiver queue", "the application sets the pace: 50 ms for each message"
    )  # fmt: skip


def test_without_a_round_trip_it_says_from_which_on_the_queue_sets_the_pace() -> None:
    fast = replace(BUSY, unacked_messages=exactly(10), delivered=1000, done=1000)
    found = of(fast, delivered=1000)
    assert found.set_by == "application"
    assert "a round trip takes less than 50 ms; otherwise the receiver queue" in str(
        found.assumptions
    )


def test_a_round_trip_that_is_longer_than_half_a_queue_lasts_is_the_queue() -> None:
    far = replace(
        BUSY, receiver_queue_size=exactly(10), round_trip_seconds=0.1, delivered=1000, done=1000
    )
    found = of(far, delivered=1000)
    assert found.set_by == "queue"
    assert (found.levers[0].lever, found.levers[0].value, found.levers[0].gain) == (
        "receiver queue", 20, 2,
    )  # fmt: skip
    assert of(replace(far, round_trip_seconds=0.01), delivered=1000).set_by == "application"
    on_its_way = replace(far, full_share=0.0, available_permits=exactly(10), done=990)
    assert of(on_its_way, delivered=1000, left=None).set_by == "queue", "by a trace at the client"


def test_a_consumer_at_its_limit_waits_for_its_acknowledgements() -> None:
    limited = replace(
        BUSY, blocked_share=0.9, full_share=0.0, max_unacked_messages_per_consumer=20,
        unacked_messages=exactly(20), done=400, delivered=400,
    )  # fmt: skip
    found = of(limited, delivered=400)
    assert found.set_by == "acknowledgements"
    assert found.summary == (
        "40/s: at most 20 messages may be unacknowledged, and each is for 500 ms (c1)"
    )
    assert (found.levers[0].lever, found.levers[0].value) == ("unacked limit", 40)


def test_a_full_consumer_of_key_shared_beside_one_that_rests_has_the_busy_key() -> None:
    found = of(BUSY, RESTS, type="Key_Shared", replay=exactly(6000), delivered=220)
    assert (found.set_by, found.who) == ("key", ("c1",))
    assert "one key has 93% of the messages" in found.summary
    more = next(each for each in found.levers if each.lever == "consumers")
    assert more.gain < 1.05
    assert more.why == "one key has 93% of the messages"


def test_a_rate_limit_that_holds_back_reads_of_consumers_with_permits() -> None:
    held = Throttling(50, (HeldBack("topic", "counter", 9),), ready=1.0)
    found = of(replace(RESTS, delivered=200, done=200), throttling=held)
    assert (found.set_by, found.levers[0].lever, found.levers[0].value) == (
        "dispatch", "dispatch rate", 40,
    )  # fmt: skip


def test_what_is_given_back_is_work_done_twice() -> None:
    again = Circulation(window=Sent(200, 100, 0, False, given_back=100))
    found = of(circulation=again)
    assert (found.set_by, found.rate, found.levers[0].gain) == ("redeliveries", 10, 2)
    worse = Circulation(window=Sent(200, 20, 0, False, given_back=100))
    assert of(circulation=worse).levers[0].gain == pytest.approx(10)


def test_where_others_idle_beside_a_full_queue_a_smaller_one_helps() -> None:
    idle = replace(RESTS, delivered=0, done=0)
    found = of(BUSY, idle, left=exactly(0), published=0)
    queue = next(each for each in found.levers if each.lever == "receiver queue")
    assert (queue.value, queue.gain) == (1, 2)


def test_what_others_finish_is_not_the_pace_of_a_full_queue_beside_them() -> None:
    works = replace(RESTS, delivered=20, done=20)
    assert perhaps(consumers=(BUSY, works), left=exactly(0), published=40) is None
    advice = [
        action.text
        for action in slow(replace(VIEW, consumers=(BUSY, works), left=exactly(0)), BUSY)
    ]
    assert "Make the work on one message faster." in advice


def test_where_nothing_waits_there_is_no_pace_and_what_came_just_now_is_no_backlog() -> None:
    fast = replace(RESTS, delivered=200, done=200)
    assert perhaps(consumers=(fast,), left=exactly(0)) is None
    assert of(fast, left=exactly(3)).set_by == "arrivals"


def test_who_hangs_sets_no_pace() -> None:
    hung = replace(BUSY, works=False, moved=False, delivered=0, done=0, pace=None)
    found = of(hung, replace(RESTS, done=200), type="Key_Shared", replay=Count(10, None))
    assert found.set_by == "not-known"
    assert of(RESTS).set_by == "broker"
    assert perhaps(consumers=(hung,), delivered=0) is None


def test_nobody_and_sums_have_no_pace() -> None:
    assert perhaps(consumers=()) is None
    assert perhaps(hides_partitions=True) is None
    assert perhaps(gap="commands are missing") is None


HOLDS = replace(
    RESTS, unacked_messages=exactly(200), delivered=50, done=45, drain_seconds=40.0, pace=None,
)  # fmt: skip


def test_what_is_only_held_sets_no_pace_while_as_much_is_finished_as_comes_in() -> None:
    even: dict[str, Any] = {"left": exactly(0), "published": 50, "delivered": 50}
    assert perhaps(consumers=(HOLDS,), finished=45, **even) is None
    slower = replace(HOLDS, done=20)
    assert of(slower, finished=20, **even).set_by == "application"


def test_what_a_sole_consumer_forgot_between_acknowledged_ranges_waits_for_no_work() -> None:
    forgets: dict[str, Any] = {"left": exactly(0), "published": 50, "delivered": 50, "finished": 30}
    third, all_of_it = replace(HOLDS, done=30), AckedRanges(199, None, None)
    assert perhaps(consumers=(third,), ranges=all_of_it, **forgets) is None
    assert of(third, ranges=AckedRanges(3, None, None), **forgets).set_by == "application"


def test_what_its_client_only_holds_until_it_is_sent_again_is_not_worked_on() -> None:
    own = InHand(730, 760, Age(60_000, False), 700, one_by_one=True, pace=2.4, growth=0.1)
    consumer = replace(
        BUSY, available_permits=exactly(500), unacked_messages=exactly(760), full_share=0.0,
        drain_seconds=1740.0, pace=Pace(2.4, "measured"), done=25, delivered=26, in_hand=own,
    )  # fmt: skip
    found = perhaps(consumers=(consumer,), left=exactly(0), unacked=exactly(760))
    assert found is None or "at once" not in found.summary
    worked_on = replace(own, messages=40)
    pool = of(replace(consumer, in_hand=worked_on), left=exactly(0), unacked=exactly(760))
    assert "40 at once" in pool.summary


def test_what_piles_up_in_an_application_is_not_worked_on_at_once() -> None:
    own = InHand(800, 1600, Age(90_000, False), 400, True, pace=0.05, growth=0.0)
    grows = replace(own, messages=300, growth=40.0)
    busy = replace(own, messages=300)
    for taken, at_once in ((own, 1), (grows, 1), (busy, 300)):
        work = of(replace(BUSY, in_hand=taken)).work
        assert work is not None
        assert work.at_once == at_once
