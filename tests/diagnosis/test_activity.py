"""Of each consumer it is said whether it hangs, is slow or keeps all, by which number, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.diagnosis.actions.activity import activity_of, state, verdict
from pulsar_doctor.diagnosis.actions.consumers import freeing, treatment
from pulsar_doctor.diagnosis.actions.sentence import remedy
from pulsar_doctor.diagnosis.answers import Action
from pulsar_doctor.diagnosis.key_waits import waiting_for, waiting_for_silent
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.inside import Inside
from pulsar_doctor.evidence.process_report import Sitting
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import Count, at_most, exactly
from pulsar_doctor.ledger.balance import Pace
from tests.diagnosis.test_commands import view

Advised = Callable[[SubscriptionView, ConsumerView], tuple[Action, ...]]

ONE = ConsumerView(
    label="worker-1",
    address="/10.0.3.7:51494",
    client_version="Pulsar-Java-v4.0.8",
    available_permits=exactly(0),
    unacked_messages=exactly(10),
    msg_out_counter=exactly(10),
    quiet_for=Age(420_000, exact=True),
    never_acked=True,
    works=False,
)
TAKER = replace(
    ONE,
    available_permits=exactly(567),
    unacked_messages=exactly(18_567),
    msg_out_counter=exactly(18_567),
    quiet_for=Age(100, exact=True),
    connected_for=Age(120_000, exact=True),
    since_last_flow=Age(1_000, exact=True),
)
SENT_MORE = replace(  # three acknowledged in its first eight seconds, none since
    ONE,
    unacked_messages=exactly(15),
    msg_out_counter=exactly(18),
    connected_for=Age(58_000, exact=True),
    since_last_ack=Age(50_000, exact=True),
    quiet_for=Age(1_000, exact=True),
    never_acked=False,
    works=True,
)


@pytest.mark.parametrize(
    ("consumer", "how"),
    [
        (replace(ONE, works=True), "slow"),
        (SENT_MORE, "unclear"),
        (replace(SENT_MORE, since_last_ack=Age(20_000, exact=True)), "slow"),
        (replace(ONE, never_acked=False, acked=True), "hangs"),  # earlier in the window
        (replace(ONE, quiet_for=Age(12_000, exact=True), pace=Pace(30.0, "measured")), "slow"),
        (ONE, "hangs"),
        (replace(ONE, quiet_for=Age(20_000, exact=True)), "unclear"),
        (TAKER, "keeps"),
        (replace(TAKER, works=True), "keeps"),
        (replace(TAKER, since_last_flow=None, sent_flow=True), "keeps"),
        (
            replace(TAKER, available_permits=exactly(-3), blocked_consumer_on_unacked_msgs=True),
            "keeps",
        ),
        (replace(TAKER, since_last_flow=None, permits_refilled=exactly(500)), "keeps"),
    ],
)
def test_each_is_told_from_the_others(consumer: ConsumerView, how: str) -> None:
    assert activity_of(consumer) == how


def test_one_that_may_be_stuck_is_held_against_its_own_pace() -> None:
    text = verdict(SENT_MORE)
    assert text.startswith(
        "it is stuck, or one message takes longer than before (one each 2.67 s);"
    )
    two = replace(SENT_MORE, msg_out_counter=exactly(17), connected_for=Age(54_000, exact=True))
    assert activity_of(two) == "unclear"
    assert "than before" not in verdict(two), "two messages are no pace"


@pytest.mark.parametrize(
    ("quiet_ms", "says"), [(900, ", in about 2 s at 100 ms each"), (18_000, "")]
)
def test_a_forecast_that_is_overdue_is_left_out(quiet_ms: int, says: str) -> None:
    quiet = Age(quiet_ms, exact=True)
    asks = replace(ONE, next_flow_after=at_most(20), pace=Pace(0.1, "measured"), quiet_for=quiet)
    assert asks.outlook == f"next FLOW after at most 20 more messages{says}"


@pytest.mark.parametrize(
    "no_taker",
    [
        replace(TAKER, unacked_messages=exactly(12)),  # it may work on so many
        replace(TAKER, never_acked=False),
        replace(TAKER, since_last_flow=Age(119_900, exact=True)),  # the first one
        replace(TAKER, available_permits=exactly(0)),  # its queue is full: it takes no more
        replace(TAKER, available_permits=exactly(40_000)),  # half of its queue was never sent to it
    ],
)
def test_one_that_may_have_taken_none_is_not_said_to_keep_them(no_taker: ConsumerView) -> None:
    assert activity_of(no_taker) != "keeps"


@pytest.mark.parametrize(
    ("consumer", "said"),
    [
        (
            ONE,
            "has acknowledged none of its 10 messages for 7 min and asks for no more: "
            "it hangs, is paused, or its client cannot decrypt or decode them: see its log",
        ),
        (
            replace(ONE, inside=Inside(waiting=0, unsent=0, taken=0, asked=True, queue_size=10)),
            "has acknowledged none of its 10 messages for 7 min and asks for no more: "
            "its client cannot decrypt or decode them: see its log",
        ),
        (
            replace(ONE, inside=Inside(waiting=10, unsent=0, taken=0, asked=True, queue_size=10)),
            "has acknowledged none of its 10 messages for 7 min and asks for no more: "
            "it hangs, is paused, or its client cannot decrypt or decode them: see its log",
        ),
        (
            replace(ONE, quiet_for=Age(20_000, exact=False)),
            "has acknowledged none of its 10 messages for at least 20 s: it is stuck, or one "
            "message takes longer; the next ack will show",
        ),
        (replace(ONE, works=True, since_last_ack=Age(12_000, exact=True)),
         "works on its 10 messages slowly (last ack 12 s ago)"),
        (replace(ONE, unacked_messages=Count(3, None), quiet_for=None),
         "has acknowledged none of at least 3 messages: it is stuck, or one message takes longer; "
         "the next ack will show"),
        (TAKER,
         "takes messages and has acknowledged none of its 18567 messages: it forgets to "
         "acknowledge, or its acks fail"),
    ],
)  # fmt: skip
def test_it_is_said_by_which_number(consumer: ConsumerView, said: str) -> None:
    assert state(consumer) == said


@pytest.mark.parametrize("advised", [treatment, freeing])
def test_what_a_client_cannot_decrypt_is_freed_by_no_restart_alone(advised: Advised) -> None:
    kept = Inside(waiting=0, unsent=0, taken=0, asked=True, queue_size=10)
    (restart,) = advised(view(), replace(ONE, inside=kept))
    assert ", with the key or the schema that its log names" in restart.text


@pytest.mark.parametrize("advised", [treatment, freeing])
def test_one_that_keeps_all_is_first_looked_at_in_the_application(advised: Advised) -> None:
    first, second, *_ = advised(view(), TAKER)
    assert first.when == "now"
    assert first.text == (
        "Check that the application at 10.0.3.7:51494 acknowledges each message when its work is "
        "done, and check its log for failed acks: none has arrived."
    )
    assert second.text.startswith("Restart the process at 10.0.3.7:51494")


def test_only_one_with_room_in_its_queue_may_have_taken_all_and_forgotten_to_acknowledge() -> None:
    assert "forgets" not in verdict(ONE)
    assert "forgets to acknowledge" in verdict(replace(ONE, available_permits=exactly(5)))
    young = replace(ONE, quiet_for=Age(20_000, exact=True))
    assert "forgets" not in verdict(young)
    assert "forgets to acknowledge" in verdict(replace(young, available_permits=exactly(5)))
    assert "forgets" not in verdict(replace(ONE, available_permits=exactly(5), never_acked=False))


def test_one_sentence_has_the_address_and_what_helps_and_nothing_else() -> None:
    hangs = remedy(view(), ONE)
    assert "at 10.0.3.7:51494" in hangs
    assert "restart" in hangs
    assert "receiver queue does not help" in hangs
    slow = remedy(view(), replace(ONE, works=True))
    assert slow.startswith("Give it a receiver queue of 1 (.receiverQueueSize(1) (Java))")
    assert "restart" not in slow
    unclear = remedy(view(), replace(ONE, quiet_for=Age(20_000, exact=True)))
    assert "if it hangs, restart it" in unclear
    assert "if it is only slow, give it a receiver queue of 1" in unclear
    assert "acknowledges each message" in remedy(view(), TAKER)
    may_have_taken_all = remedy(view(), replace(ONE, available_permits=exactly(5)))
    assert "takes nothing" not in may_have_taken_all
    assert "acknowledges: none has arrived" in may_have_taken_all
    assert "receiver queue" not in remedy(view(), replace(ONE, works=True, one_by_one=True))


def test_where_nobody_else_is_there_nobody_takes_over() -> None:
    for kind in ("Shared", "Failover", "Key_Shared"):
        alone = replace(view(), type=kind, consumers=(ONE,))
        assert "restart it: its messages are delivered again when it reconnects" in remedy(
            alone, ONE
        )
        both = replace(alone, consumers=(ONE, OTHER))
        assert "come again" not in remedy(both, ONE)


OTHER = ConsumerView(
    label="ks-ok", available_permits=exactly(10), unacked_messages=exactly(0), works=True
)


def keyed(*consumers: ConsumerView, replay: int | None, left: int = 0) -> SubscriptionView:
    return replace(
        view(),
        type="Key_Shared",
        consumers=consumers,
        replay=exactly(replay),
        left=Count(left, None),
    )


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (keyed(ONE, OTHER, replay=615), "615 entries of its keys wait, while ks-ok goes on"),
        (keyed(ONE, OTHER, replay=1), "1 entry of its keys waits, while ks-ok goes on"),
        (
            keyed(ONE, OTHER, replay=615, left=900),
            "at least 615 entries of its keys wait, while ks-ok goes on",
        ),
        (keyed(ONE, replay=615), "615 entries of its keys wait"),
        (
            keyed(ONE, replace(ONE, label="b"), OTHER, replay=7),
            "7 entries of its keys and those of others that cannot receive wait, while ks-ok goes "
            "on",
        ),
        (
            keyed(ONE, replace(OTHER, available_permits=exactly(0)), replay=615, left=900),
            "up to 615 entries of its keys wait, while ks-ok goes on",
        ),
        (
            keyed(ONE, OTHER, replace(OTHER, label="c"), replay=None),
            "new messages for its keys wait for it, while ks-ok and c go on",
        ),
        (replace(view(), consumers=(ONE, OTHER), replay=exactly(5)), ""),
    ],
)
def test_who_waits_for_a_key_and_who_goes_on(told: SubscriptionView, said: str) -> None:
    assert waiting_for(told, ONE) == said


def test_whoever_waits_for_the_next_message_keeps_those_before() -> None:
    """No FLOW after the first is needed to see that: its process shows it."""
    taker = replace(ONE, available_permits=exactly(500), unacked_messages=exactly(500))
    sat = Sitting("t", "application", "", "f (a.py:1)", "f (a.py:1)", seconds=9.0)
    receives, works = Inside(asked=True), Inside(asked=True, sits=(sat,))
    assert activity_of(taker) == "hangs"
    assert activity_of(replace(taker, inside=receives)) == "keeps"
    assert activity_of(replace(taker, inside=works)) == "hangs"
    assert activity_of(replace(taker, inside=Inside(asked=False))) == "hangs"
    assert activity_of(replace(taker, inside=receives, never_acked=False)) == "hangs"
    assert activity_of(replace(ONE, inside=receives)) == "hangs"  # with a full queue
    [first, *_] = treatment(view(), replace(taker, inside=receives))
    assert "acknowledges each message when its work is done" in first.text


def test_the_keys_of_a_silent_holder_wait_and_those_of_the_others_do_not() -> None:
    other = ConsumerView(label="worker-2", works=True)
    keyed = replace(view(), type="Key_Shared", consumers=(ONE, other))
    waits = "new messages for its keys wait for it, while worker-2 goes on"
    assert waiting_for_silent(keyed, ONE) == waits
    assert waiting_for_silent(keyed, replace(ONE, works=True)) == ""
    assert waiting_for_silent(keyed, TAKER) == ""
    assert waiting_for_silent(replace(keyed, type="Shared"), ONE) == ""
