"""Consumers that were there before the trace: the broker's own words open their ledger."""

from __future__ import annotations

import json
from typing import Any

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.evidence.by_wire import consumer_view
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.report.trace.consumers import summary_lines
from pulsar_doctor.wire.columns import JOINED, NAMES, STATS, UNPARSED, Row
from tests.ledger.rows import TOPIC, ack, closed, flow, message, opened, row


def stats(number: int | None = 7, permits: int | None = 0, **columns: Any) -> Row:
    names = {"topic": TOPIC, "subscription": "s", "subscription_type": "Shared"}
    told = {**names, "consumer_name": "worker", "client_version": "Pulsar-CPP-v3.8.0"}
    told["known_by"] = "address"
    return row(STATS, consumer_id=number, permits=permits, **told | columns)


def summary(*rows: Row) -> list[str]:
    timeline = Timeline("t", from_start=False)
    for each in (opened(), *rows):
        timeline.apply(each)
    return list(summary_lines(timeline, {}))


def test_what_came_before_the_capture_is_a_bound_or_a_dash_for_a_person() -> None:
    told = summary(stats(7, 3, messages=6), message(1, consumer=7), flow(5, 7))
    assert told[:5] == [
        "worker #1 attached  public/default/orders, s (Shared)  -",
        "  queue ?, 1 FLOW of 5",
        "  permits ≥8 granted, ≥1 spent, ≤7 available",
        "  messages ≥1, 7 unacked, ack delay at most -",
        "  acknowledged -",
    ]
    lost = summary(stats(7, 3, messages=6), row(UNPARSED))
    assert lost[1:5] == [
        "  queue ?, no FLOW seen",
        "  permits ≥3 granted, - spent, - available",
        "  messages -, - unacked, ack delay at most -",
        "  acknowledged -",
    ]


def test_what_is_not_known_of_a_consumer_is_no_number_of_its_view() -> None:
    timeline = Timeline("t", from_start=False)
    for each in (opened(), stats(7, 3, messages=6), row(UNPARSED)):
        timeline.apply(each)
    view = consumer_view(*timeline.living, timeline.now_ns)
    assert (
        view.available_permits,
        view.unacked_messages,
        view.unacked_entries,
        view.permits_granted,
    ) == (None, None, None, None)
    assert (view.never_acked, view.flows) == (None, None)


def numbers(rows: list[Row]) -> list[tuple[object, ...]]:
    timeline = Timeline("t", from_start=False)
    applied = [timeline.apply(each) for each in rows]
    return [(r.command, r.available_permits, r.unacked_messages) for r in applied]


def test_its_balance_is_known_from_where_the_broker_tells_it() -> None:
    said = [opened(), flow(5, 7), stats(7, 3, messages=6), message(1, consumer=7)]
    assert numbers([*said, flow(5, 7), ack(1, consumer=7)])[1:] == [
        ("FLOW", None, None),
        ("STATS", 3, 6),
        ("MESSAGE", 2, 7),
        ("FLOW", 7, 7),
        ("ACK", 7, 6),
    ]  # fmt: skip


def test_what_it_held_before_is_acknowledged_one_by_one() -> None:
    told = numbers([opened(), stats(7, 0, messages=2), *(ack(n, consumer=7) for n in range(3))])
    assert [unacked for _, _, unacked in told[1:]] == [2, 1, 0, 0]


def test_a_name_alone_opens_no_ledger_and_unparsed_closes_it() -> None:
    said = [
        opened(),
        stats(7, None),
        flow(5, 7),
        stats(7, 4),
        row(UNPARSED),
        flow(5, 7),
        stats(7, 1),
    ]
    assert [available for _, available, _ in numbers(said)] == [
        None, None, None, 4, None, None, 1,
    ]  # fmt: skip


def test_its_flows_are_refills_and_bound_the_next_one() -> None:
    timeline = Timeline("t", from_start=False)
    for each in (opened(), stats(7, 0, messages=10)):
        timeline.apply(each)
    (consumer,) = timeline.living
    assert str(consumer.ledger.forecast()).startswith("next FLOW after at most 5 more messages")
    timeline.apply(flow(3, 7))
    assert consumer.ledger.first_flow is None
    assert str(consumer.ledger.forecast()).startswith("next FLOW after at most 3 more messages")


def test_a_client_with_another_share_of_its_queue_is_not_forecast() -> None:
    timeline = Timeline("t", from_start=False)
    for each in (opened(), stats(7, 0, messages=10, client_version="2.0.1-incubating")):
        timeline.apply(each)
    (consumer,) = timeline.living
    assert consumer.ledger.forecast() is None


def test_one_without_a_number_gets_it_and_is_unknown_while_it_may_have_spoken() -> None:
    timeline = Timeline("t", from_start=False)
    said = [opened(), stats(None, 0), message(1, consumer=7), stats(7, 2), message(2, consumer=7)]
    rows = [timeline.apply(each) for each in said]
    (consumer,) = timeline.living
    assert consumer.consumer_id == 7
    assert [each.incarnation for each in rows] == [None, 1, None, 1, 1]
    assert [each.available_permits for each in rows] == [None, 0, None, 2, 1]
    assert rows[1].consumer_id is None
    other = Timeline("t", from_start=False)
    for each in (opened(), stats(None, 0), message(1, consumer=7)):
        other.apply(each)
    assert [each.ledger.uncertain for each in other.living] == [True]


def test_one_that_has_the_number_0_keeps_it_beside_another_of_its_names() -> None:
    timeline = Timeline("t", from_start=False)
    for each in (opened(), stats(0, 3), stats(7, 4)):
        timeline.apply(each)
    assert [each.consumer_id for each in timeline.living] == [0, 7]


def test_two_without_a_number_are_two() -> None:
    timeline = Timeline("t", from_start=False)
    for name in ("a", "b", "a"):
        timeline.apply(stats(None, 0, consumer_name=name))
    assert [each.consumer_name for each in timeline.living] == ["a", "b"]
    timeline.apply(closed())
    assert len(timeline.consumers) == 2


def test_each_command_says_how_it_is_known() -> None:
    timeline = Timeline("t", from_start=False)
    said = [
        opened(known_by="beginning"),
        flow(5, 7),
        row(JOINED, direction="to_broker", known_by="silence"),
        flow(5, 7),
        message(1, consumer=7),
    ]
    known = [timeline.apply(each).known_by for each in said]
    assert known == ["beginning", "beginning", "silence", "silence", "beginning"]


def test_what_was_there_before_was_not_refused() -> None:
    for first in (row(JOINED, direction="to_client", known_by="silence"), stats(None, 0)):
        timeline = Timeline("t", from_start=False)
        for each in (opened(), first, closed(error_message="the capture ends")):
            timeline.apply(each)
        assert timeline.refusals == Timeline("t").refusals


def test_saved_in_the_middle_it_goes_on_alike() -> None:
    def values(each: Row) -> list[object]:
        return [getattr(each, name) for name in NAMES]

    def said() -> list[Row]:
        return [
            opened(known_by="beginning"), row(JOINED, direction="to_client", known_by="length"),
            stats(None, 0, messages=4), stats(None, 0, consumer_name="b"), flow(5, 7),
            stats(7, 5, messages=4), message(1, consumer=7), ack(1, consumer=7), flow(5, 7),
        ]  # fmt: skip

    whole = Timeline("t", from_start=False)
    expected = [values(whole.apply(each)) for each in said()]
    for cut in range(len(expected)):
        timeline, got = Timeline("t", from_start=False), []
        for at, each in enumerate(said()):
            if at == cut:
                timeline = Timeline.restore(json.loads(json.dumps(timeline.state())), "t")
            got.append(values(timeline.apply(each)))
        assert got == expected


def test_what_was_mistaken_is_taken_back_and_its_number_is_nobodys() -> None:
    timeline = Timeline("t", from_start=False)
    said = [opened(), stats(7, 3), message(1, consumer=7), stats(7, None, known_by="mistaken"),
            flow(5, 7), stats(7, 4, consumer_name="other"), flow(5, 7)]  # fmt: skip
    rows = [timeline.apply(each) for each in said]
    assert [(row.command, row.incarnation, row.consumer_name) for row in rows[1:]] == [
        ("STATS", 1, "worker"),
        ("MESSAGE", 1, "worker"),
        ("STATS", 1, "worker"),
        ("FLOW", None, None),
        ("STATS", 2, "other"),
        ("FLOW", 2, "other"),
    ]
    mistaken, other = timeline.consumers
    assert mistaken.closed_us is not None
    assert mistaken.ledger.uncertain
    assert [each.available_permits for each in rows[-2:]] == [4, 9]
    (subscription,) = timeline.subscriptions()
    assert subscription.consumers == (other,)


def test_who_takes_each_message_as_it_comes_is_not_forecast_by_a_pace_of_nothing() -> None:
    timeline = Timeline("t", from_start=False)
    said = [message(number, consumer=7, at=number) for number in range(4)]
    acked = [ack(number, consumer=7, at=number) for number in range(4)]
    both = [each for pair in zip(said, acked, strict=True) for each in pair]
    for each in (opened(), stats(7, 500, messages=492), flow(500, 7), *both):
        timeline.apply(each)
    (consumer,) = timeline.living
    forecast = consumer.ledger.forecast()
    assert forecast is not None
    assert (forecast.pace and forecast.pace.seconds, forecast.seconds) == (0.0, None)
    told = "as soon as they come: it takes each at once"
    assert str(forecast) == f"next FLOW after at most 496 more messages, {told}"
    assert "0 ms" not in consumer_view(consumer, timeline.now_ns).outlook


def test_a_message_that_came_again_just_now_ends_the_silence_since_the_last_ack() -> None:
    timeline = Timeline("t", from_start=False)
    minute, now_ns = 60_000_000, 10**9 * 3600
    signs = {"last_sign": now_ns // 1000 - 15 * minute, "last_sent": now_ns // 1000 - minute // 3}
    told = stats(7, 890, messages=1, **signs)
    told.mono_ns = now_ns
    for each in (opened(), told):
        timeline.apply(each)
    view = consumer_view(*timeline.living, now_ns)
    assert view.quiet_for == view.since_last_delivery == Age(20_000, exact=True)
    assert view.since_work == Age(15 * 60_000, exact=True)
