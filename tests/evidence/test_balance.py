"""The balance of a subscription: what comes in, what goes out, and what they make of what waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.evidence.balance import Balance, balance_of
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import Count, exactly
from tests.causes.stats_script import observed

K1 = ConsumerView(label="k1", entry_messages_most=1, connected_for=Age(3_600_000, True))
SLOW = SubscriptionView(
    topic="persistent://public/default/orders",
    partition=None,
    subscription="etl",
    type="Shared",
    sources=frozenset({STATS}),
    consumers=(K1,),
    left=exactly(640_000),
    delayed=exactly(0),
    msg_rate_in=120.0,
    msg_rate_out=40.0,
    message_ack_rate=40.0,
    msg_rate_redeliver=0.0,
)


def of(**changes: object) -> Balance:
    return balance_of(replace(SLOW, **changes))  # type: ignore[arg-type]


def test_what_comes_in_faster_than_it_goes_out_falls_behind() -> None:
    found = of()
    assert found.pace == "falls-behind"
    assert found.growth is not None
    assert found.growth.about == 80
    assert found.gathered_seconds == pytest.approx(640_000 / 85, rel=0.03)


def test_a_burst_of_five_minutes_is_not_told_from_falling_behind() -> None:
    found = of(left=exactly(80 * 300))
    assert found.pace == "not-known"
    assert (found.seconds or 0) > 60


def test_nothing_grows_by_the_rates_of_consumers_that_connected_just_now() -> None:
    young = replace(K1, connected_for=Age(8_000, True))
    assert of(consumers=(young,), msg_rate_out=0.0, message_ack_rate=0.0).a_minute is None
    assert of().a_minute == 4800


def test_more_out_than_in_catches_up() -> None:
    found = of(msg_rate_in=40.0, msg_rate_out=120.0)
    assert (found.pace, found.seconds) == ("catches-up", 8000)


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        ("delayed messages are no growth", {"delayed": exactly(5)}),
        ("what a filter rejects is not sent", {"filtered": True}),
        ("nothing is reported of what comes in", {"msg_rate_in": None}),
        ("nothing is reported of what goes out", {"msg_rate_out": None}),
        ("three messages a minute tell little", {"msg_rate_in": 0.05, "msg_rate_out": 0.03}),
        ("the backlog fell", {"watched_seconds": 60.0, "backlog_change": -5}),
        ("the window shows no arrivals", {"watched_seconds": 10.0, "published": 0}),
        (
            "its consumer has just come, and the rates of the one before it went with it",
            {"consumers": (replace(K1, connected_for=Age(60_000, True)),)},
        ),
        ("its consumer may have just left", {"consumers": ()}),
        ("the window shows more sent", {"watched_seconds": 10.0, "delivered": 1500}),
    ],
)
def test_what_leaves_it_open_is_not_falling_behind(why: str, changes: dict[str, object]) -> None:
    assert of(**changes).pace == "not-known", why


@pytest.mark.parametrize(("batch", "pace"), [(1000, "falls-behind"), (1, "not-known")])
def test_in_ten_seconds_not_one_more_large_batch_need_have_come(batch: int, pace: str) -> None:
    one = replace(K1, entry_messages_most=batch)
    assert of(consumers=(one,), watched_seconds=10.0, backlog_change=0).pace == pace


def test_a_checkpoint_sink_keeps_up_though_it_acknowledges_nothing() -> None:
    assert of(msg_rate_out=120.0, message_ack_rate=0.0).pace == "keeps-up"


def test_nothing_to_send_keeps_up() -> None:
    assert of(left=exactly(0)).pace == "keeps-up"


def test_what_is_sent_again_makes_no_backlog_smaller() -> None:
    found = of(msg_rate_out=160.0, msg_rate_redeliver=120.0)
    assert found.pace == "falls-behind"


def test_a_long_window_replaces_the_rates_of_the_last_minute() -> None:
    window = {"watched_seconds": 600.0, "published": 72_000, "delivered": 24_000}
    assert of(left=exactly(100), msg_rate_in=0.0, **window).pace == "falls-behind"


@pytest.mark.parametrize("seconds", [50, 300])
def test_a_burst_at_the_end_of_a_long_window_is_none(seconds: int) -> None:
    """60 a second come in and 40 are sent for so long; before that nothing moved."""
    minute = min(seconds, 60) / 60
    found = of(
        left=exactly(20 * seconds), watched_seconds=900.0, published=60 * seconds,
        delivered=40 * seconds, msg_rate_in=60 * minute, msg_rate_out=40 * minute,
    )  # fmt: skip
    assert found.pace == "not-known"
    assert found.growth is not None
    assert found.growth.rises


def test_what_gathered_since_nothing_waited_is_no_more_than_a_burst() -> None:
    window = {"watched_seconds": 600.0, "published": 6000, "delivered": 4000, "msg_rate_in": 0.0}
    assert of(left=exactly(2000), **window).pace == "falls-behind"
    assert of(left=exactly(2000), since_empty=60.0, **window).pace == "not-known"
    assert of(left=exactly(2000), since_empty=600.0, **window).pace == "falls-behind"


@pytest.mark.parametrize(
    ("backlogs", "seconds"), [([0, 0, 9], 5.0), ([0, 3, 9], 10.0), ([1, 3, 9], None)]
)
def test_since_when_something_waits_is_seen_in_the_window(
    backlogs: list[int], seconds: float | None
) -> None:
    case = {"subscription": {"msgBacklog": backlogs}}
    assert by_stats.subscription_view(observed(case)).since_empty == seconds


def test_what_grows_all_through_a_long_window_falls_behind() -> None:
    window = {"watched_seconds": 600.0, "published": 36_000, "delivered": 24_000}
    assert of(left=exactly(12_000), msg_rate_in=60.0, **window).pace == "falls-behind"


def test_entries_of_batches_are_between_one_message_and_a_batch() -> None:
    each = replace(K1, entry_messages_most=1000)
    assert of(consumers=(each,)).waits_messages == Count(320_000_000, 640_000_000)


def test_an_ack_of_a_single_active_consumer_may_stand_for_many() -> None:
    acked = of(type="Failover").acknowledged
    assert acked is not None
    assert acked.most is None


HOLDS = {
    "left": exactly(0),
    "unacked": exactly(6000),
    "msg_rate_in": 10.0,
    "msg_rate_out": 10.0,
    "message_ack_rate": 1.0,
    "since_mark_delete": Age(900, True),
}


def test_consumers_that_hold_more_and_more_fall_behind_before_anything_waits() -> None:
    found = of(**HOLDS)
    assert found.pace == "falls-behind"
    assert found.growth is not None
    assert found.growth.about == 9


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        ("no ack in the last minute: between two checkpoints", {"message_ack_rate": 0.0}),
        ("a checkpoint in the last minute", {"message_ack_rate": 100.0}),
        ("single messages are left out", {"since_mark_delete": Age(10**6, True)}),
        ("its queue fills in a burst", {"unacked": exactly(900)}),
        ("one ack may stand for many", {"type": "Failover"}),
        ("a long window shows the checkpoint before", {"watched_seconds": 600.0, "published": 6000,
          "delivered": 6000, "consumers": (replace(K1, done=6000),)}),
    ],
)  # fmt: skip
def test_what_is_held_between_checkpoints_is_no_growth(
    why: str, changes: dict[str, object]
) -> None:
    assert of(**HOLDS | changes).pace == "keeps-up", why


def test_a_short_window_between_two_deliveries_of_half_a_queue_contradicts_nothing() -> None:
    holds = replace(K1, unacked_messages=exactly(1000), available_permits=exactly(0))
    window = {"consumers": (holds,), "watched_seconds": 10.0, "published": 1190}
    for delivered in (0, 500):
        assert of(**window, delivered=delivered).pace == "falls-behind"


@pytest.mark.parametrize(("acked", "a_minute"), [(40.0, -4800), (0.0, None), (None, None)])
def test_a_backlog_falls_by_acknowledgements_not_by_what_is_sent(
    acked: float | None, a_minute: int | None
) -> None:
    found = of(msg_rate_in=40.0, msg_rate_out=120.0, message_ack_rate=acked)
    assert found.a_minute == a_minute
