"""Two views of one subscription, and what is known by both together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.backlog import Backlog
from pulsar_doctor.evidence.ack_wait import Acks
from pulsar_doctor.evidence.circulation import Circulation, Recent, Rounds
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.hole import AckHole
from pulsar_doctor.evidence.merge import BY_FLOWS, merged
from pulsar_doctor.evidence.subscription import Disagreement, SubscriptionView
from pulsar_doctor.evidence.values import Count, at_least, at_most, exactly
from pulsar_doctor.ledger.balance import Pace

NOW_MS = 1_760_000_600_000
WIRE, STATS = frozenset({"wire"}), frozenset({"stats"})
LONG, JUST_NOW = Age(600_000, True), Age(500, True)
BACKLOG = Backlog(counter=60)
PACE = Pace(2.0, "measured")


def seconds(number: float, *, exact: bool = True) -> Age:
    return Age(round(number * 1000), exact)


def consumer(name: str | None = "w", **told: Any) -> ConsumerView:
    return ConsumerView(**{"label": name or "?", "name": name, "quiet_for": LONG} | told)


def of_wire(*consumers: ConsumerView, ago: float = 0, **told: Any) -> SubscriptionView:
    return view(WIRE, consumers, ago, **told)


def of_stats(*consumers: ConsumerView, ago: float = 0, **told: Any) -> SubscriptionView:
    return view(STATS, consumers, ago, **{"backlog": BACKLOG} | told)


def view(
    sources: frozenset[str], consumers: tuple[ConsumerView, ...], ago: float, **told: Any
) -> SubscriptionView:
    known = {"type": "Shared", "consumers": consumers, "moment_ms": NOW_MS - round(ago * 1000)}
    return SubscriptionView(
        topic="t", partition=None, subscription="s", sources=sources, **known | told
    )


def one_of(both: SubscriptionView) -> ConsumerView:
    assert both.consumers is not None
    [found] = both.consumers
    return found


# Numbers of a consumer: the newer view is the stats', the other is a minute older.


@pytest.mark.parametrize(
    "name",
    [
        "available_permits",
        "unacked_messages",
        "unacked_entries",
        "msg_out_counter",
        "permits_granted",
        "parked_permits",
    ],
)
@pytest.mark.parametrize(
    ("newer", "older", "quiet", "both"),
    [
        (at_most(5), exactly(3), LONG, exactly(3)),  # exact beats a bound
        (exactly(3), at_most(5), LONG, exactly(3)),
        (at_least(2), at_most(5), LONG, Count(2, 5)),
        (None, exactly(3), LONG, exactly(3)),  # told beats not told
        (exactly(3), None, LONG, exactly(3)),
        (exactly(3), exactly(4), LONG, exactly(3)),  # newer beats older
        (at_most(5), exactly(3), seconds(62), exactly(3)),  # nothing moved since
        (at_most(5), exactly(3), seconds(61), at_most(5)),  # perhaps it has
        (None, exactly(3), JUST_NOW, None),
        (None, exactly(3), None, None),
    ],
)
def test_an_older_count_holds_if_nothing_moved_since(
    name: str, newer: Count | None, older: Count | None, quiet: Age | None, both: Count | None
) -> None:
    stats = of_stats(consumer(quiet_for=quiet, **{name: newer}))
    wire = of_wire(consumer(**{name: older}), ago=60)
    assert getattr(one_of(merged(stats, wire)), name) == both
    assert getattr(one_of(merged(wire, stats)), name) == both


@pytest.mark.parametrize(
    ("newer", "older", "both"),
    [
        (seconds(30), None, seconds(30)),
        (None, seconds(30), seconds(90)),  # it has got older
        (seconds(30), seconds(10), seconds(30)),
        (seconds(90), seconds(10), seconds(70)),  # the later sign
        (seconds(20, exact=False), seconds(30), seconds(90)),  # exact beats a bound
        (seconds(90), seconds(10, exact=False), seconds(90)),
        (seconds(90, exact=False), seconds(10, exact=False), seconds(70, exact=False)),
    ],
)
def test_of_two_signs_the_later_one_counts(
    newer: Age | None, older: Age | None, both: Age | None
) -> None:
    stats = of_stats(consumer(since_last_flow=newer))
    assert (
        one_of(merged(stats, of_wire(consumer(since_last_flow=older), ago=60))).since_last_flow
        == both
    )


def test_without_a_clock_an_older_sign_is_of_no_use() -> None:
    stats = of_stats(consumer(since_last_flow=seconds(30)))
    wire = replace(of_wire(consumer(since_last_flow=seconds(1))), moment_ms=None)
    assert one_of(merged(stats, wire)).since_last_flow == seconds(30)


@pytest.mark.parametrize(
    ("name", "newer", "older", "both"),
    [
        ("blocked_consumer_on_unacked_msgs", False, None, False),  # False is told
        ("blocked_consumer_on_unacked_msgs", None, True, True),
        ("blocked_consumer_on_unacked_msgs", False, True, False),
        ("acked", False, None, False),
        ("active", None, False, False),
        ("sent_flow", False, True, True),  # nobody tells that it did not
        ("sent_flow", True, False, True),
        ("flow_reported", True, False, True),
        ("address", None, "10.0.0.7:1", "10.0.0.7:1"),
        ("address", "10.0.0.8:1", "10.0.0.7:1", "10.0.0.8:1"),
        ("max_unacked_messages_per_consumer", None, 20, 20),
        ("watched", False, True, True),
        ("watched", False, False, False),
    ],
)
def test_told_beats_not_told(name: str, newer: Any, older: Any, both: Any) -> None:
    stats, wire = of_stats(consumer(**{name: newer})), of_wire(consumer(**{name: older}), ago=60)
    found = getattr(one_of(merged(stats, wire)), name)
    assert found == both
    assert type(found) is type(both)


def test_how_a_blocked_one_acknowledges_is_told_by_who_says_that_it_is() -> None:
    first, second = Acks(1, None, None, None), Acks(2, None, None, None)
    stats = of_stats(consumer(blocked_consumer_on_unacked_msgs=None, acks=first))
    wire = of_wire(consumer(blocked_consumer_on_unacked_msgs=True, acks=second), ago=60)
    assert one_of(merged(stats, wire)).acks == second
    blocked = of_stats(consumer(blocked_consumer_on_unacked_msgs=True, acks=first))
    assert one_of(merged(blocked, wire)).acks == first


def test_a_newer_trace_beats_what_the_broker_said_before() -> None:
    wire = of_wire(consumer(available_permits=exactly(1), quiet_for=JUST_NOW))
    stats = of_stats(consumer(available_permits=exactly(5)), ago=60)
    assert one_of(merged(stats, wire)).available_permits == exactly(1)


# How it asks: whoever saw each FLOW knows.

SEEN = {
    "flows": 3, "receiver_queue_size": exactly(10), "refill_threshold": 5, "largest_batch": 1,
    "queued": at_least(6), "next_flow_after": exactly(2), "pace": PACE, "works": True,
}  # fmt: skip
GUESSED = {"receiver_queue_size": None, "next_flow_after": at_most(5), "queued": at_least(1)}
LASTS = {"receiver_queue_size": exactly(10), "refill_threshold": 5, "largest_batch": 1}


def asking(found: ConsumerView) -> dict[str, Any]:
    assert set(SEEN) <= set(BY_FLOWS)
    return {name: getattr(found, name) for name in SEEN}


@pytest.mark.parametrize(
    ("quiet", "ago"),
    [
        pytest.param(LONG, 60, id="a minute ago, and nothing moved since"),
        pytest.param(JUST_NOW, 0, id="at the same moment, and it works"),
        pytest.param(JUST_NOW, 2, id="two seconds ago, and it works"),
        pytest.param(None, 0, id="at the same moment, and nothing tells whether it works"),
    ],
)
def test_what_the_flows_show_beats_what_the_counters_do(quiet: Age | None, ago: float) -> None:
    stats = of_stats(consumer(quiet_for=quiet, **GUESSED))
    assert asking(one_of(merged(stats, of_wire(consumer(**SEEN), ago=ago)))) == SEEN


def test_what_the_flows_showed_is_over_when_it_has_moved_since() -> None:
    stats = of_stats(consumer(quiet_for=JUST_NOW, **GUESSED))
    found = asking(one_of(merged(stats, of_wire(consumer(**SEEN), ago=3))))
    untold = {"flows": None, "pace": None, "works": None}
    assert found == GUESSED | untold | LASTS


def test_without_a_clock_so_it_is() -> None:
    stats = of_stats(consumer(**GUESSED))
    wire = replace(of_wire(consumer(**SEEN)), moment_ms=None)
    assert asking(one_of(merged(stats, wire)))["next_flow_after"] == at_most(5)


def test_newer_flows_beat_older_counters() -> None:
    wire = of_wire(consumer(quiet_for=JUST_NOW, **SEEN))
    assert asking(one_of(merged(wire, of_stats(consumer(**GUESSED), ago=60)))) == SEEN


def test_where_nobody_saw_a_flow_the_newer_one_counts() -> None:
    stats = of_stats(consumer(receiver_queue_size=exactly(10), next_flow_after=at_most(5)))
    other = of_wire(consumer(receiver_queue_size=exactly(20), next_flow_after=at_most(9)), ago=60)
    found = one_of(merged(stats, other))
    assert (found.receiver_queue_size, found.next_flow_after) == (exactly(10), at_most(5))


def test_where_nobody_saw_each_flow_the_bounds_of_both_hold_while_it_stands_still() -> None:
    stats = consumer(
        quiet_for=seconds(62), receiver_queue_size=at_most(30), next_flow_after=at_most(5)
    )
    capture = of_wire(consumer(next_flow_after=Count(2, 8), queued=at_least(6)), ago=60)
    found = one_of(merged(of_stats(stats), capture))
    assert (found.receiver_queue_size, found.next_flow_after) == (at_most(30), Count(2, 5))
    assert found.queued == at_least(6)
    moved = of_stats(replace(stats, quiet_for=seconds(61), receiver_queue_size=None))
    capture = of_wire(
        consumer(receiver_queue_size=at_most(30), next_flow_after=Count(2, 8)), ago=60
    )
    found = one_of(merged(moved, capture))
    assert (found.receiver_queue_size, found.next_flow_after) == (at_most(30), at_most(5))
    assert found.queued == Count(0, None)


# The same consumer.


def is_same(stats: ConsumerView, wire: ConsumerView, ago: float = 0) -> bool:
    """Whether what the wire alone tells is told of the broker's consumer."""
    both = merged(of_stats(stats), of_wire(replace(wire, flows=3), ago=ago))
    return one_of(both).flows == 3


@pytest.mark.parametrize(
    ("stats", "wire", "ago", "same"),
    [
        (consumer("w"), consumer("w"), 0, True),
        (consumer("w"), consumer("x"), 0, False),
        (consumer(None), consumer(None), 0, False),
        (consumer(connected_for=seconds(600)), consumer(connected_for=seconds(605)), 0, True),
        (consumer(connected_for=seconds(600)), consumer(connected_for=seconds(606)), 0, False),
        (consumer(connected_for=seconds(600)), consumer(connected_for=seconds(594)), 0, False),
        (consumer(connected_for=seconds(600)), consumer(connected_for=seconds(540)), 60, True),
        (consumer(connected_for=seconds(600)), consumer(connected_for=seconds(600)), 60, False),
        (consumer(connected_for=seconds(600)), consumer(connected_for=None), 0, True),
        (consumer(connected_for=None), consumer(connected_for=seconds(10)), 0, True),
        (
            consumer(connected_for=seconds(9, exact=False)),
            consumer(connected_for=seconds(600)),
            0,
            True,
        ),
        (
            consumer(connected_for=seconds(600)),
            consumer(connected_for=seconds(9, exact=False)),
            0,
            True,
        ),
    ],
)
def test_the_same_has_the_same_name_and_came_at_the_same_moment(
    stats: ConsumerView, wire: ConsumerView, ago: float, same: bool
) -> None:
    assert is_same(stats, wire, ago) is same


def test_an_older_view_of_the_broker_counts_the_time_in_between_the_other_way() -> None:
    wire = of_wire(consumer(connected_for=seconds(600), flows=3))
    for connected, flows in ((540, 3), (600, None)):
        stats = of_stats(consumer(connected_for=seconds(connected)), ago=60)
        assert one_of(merged(wire, stats)).flows == flows


def test_two_of_one_name_are_nobodys_twins() -> None:
    pair = consumer(number=0, label="w"), consumer(number=1, label="w (2)")
    seen = consumer(flows=3)
    for stats, wire in ((pair, (seen,)), (pair, (seen, seen)), ((consumer(),), (seen, seen))):
        both = merged(of_stats(*stats), of_wire(*wire)).consumers or ()
        assert [each.flows for each in both] == [None] * len(stats)


def test_it_keeps_the_place_and_the_label_that_it_has_for_the_broker() -> None:
    stats = of_stats(consumer("a", number=0), consumer("b", number=1, label="the second"), ago=5)
    wire = of_wire(consumer("b", number=0, label="b on the wire", flows=3))
    both = merged(stats, wire).consumers or ()
    assert [(each.number, each.label, each.flows) for each in both] == [
        (0, "a", None),
        (1, "the second", 3),
    ]


@pytest.mark.parametrize("ago", [0, 60])
def test_who_goes_another_way_is_kept_and_who_is_gone_for_the_broker_is_not(ago: float) -> None:
    stats = of_stats(consumer("a"), consumer("elsewhere"))
    wire = of_wire(consumer("a"), consumer("closed"), ago=ago)
    for both in (merged(stats, wire), merged(wire, stats)):
        assert [each.name for each in both.consumers or ()] == ["a", "elsewhere"]
    newer = replace(wire, moment_ms=NOW_MS + 60_000)
    assert [each.name for each in merged(stats, newer).consumers or ()] == ["a", "elsewhere"]


def test_whose_consumers_are_not_told_takes_those_of_the_other() -> None:
    stats, wire = replace(of_stats(), consumers=None), of_wire(consumer("a"))
    for both in (merged(stats, wire), merged(wire, stats)):
        assert [each.name for each in both.consumers or ()] == ["a"]


# Contradictions.


@pytest.mark.parametrize(
    ("newer", "older", "quiet", "earlier_quiet", "told"),
    [
        pytest.param(exactly(0), exactly(5), LONG, LONG, ("0", "5"), id="they differ"),
        pytest.param(exactly(0), at_least(5), LONG, LONG, ("0", "at least 5"), id="by a bound"),
        pytest.param(exactly(5), exactly(5), LONG, LONG, None, id="they agree"),
        pytest.param(exactly(5), at_least(0), LONG, LONG, None, id="a bound that holds"),
        pytest.param(exactly(0), exactly(5), JUST_NOW, LONG, None, id="it moves"),
        pytest.param(exactly(0), exactly(5), LONG, JUST_NOW, None, id="it moved then"),
        pytest.param(exactly(0), None, LONG, LONG, None, id="one is not told"),
    ],
)
def test_permits_that_differ_while_nothing_moves_are_kept(
    newer: Count, older: Count | None, quiet: Age, earlier_quiet: Age, told: Any
) -> None:
    stats = of_stats(consumer(available_permits=newer, quiet_for=quiet))
    wire = of_wire(consumer(available_permits=older, quiet_for=earlier_quiet), ago=60)
    both = merged(stats, wire)
    assert both.disagreements == (() if told is None else (Disagreement("w", *told),))
    assert one_of(both).available_permits == newer


def test_other_counts_that_differ_are_no_disagreement() -> None:
    both = merged(
        of_stats(consumer(unacked_messages=exactly(1))),
        of_wire(consumer(unacked_messages=exactly(2))),
    )
    assert both.disagreements == ()


# The subscription.


def test_newer_beats_older_and_told_beats_not_told() -> None:
    newer = of_stats(delayed=exactly(3), replay=None, durable=False)
    older = of_wire(ago=60, delayed=exactly(4), replay=exactly(7), durable=True)
    for both in (merged(newer, older), merged(older, newer)):
        assert (both.delayed, both.replay, both.durable) == (exactly(3), exactly(7), False)
        assert both.moment_ms == NOW_MS
        assert both.sources == WIRE | STATS


def test_a_view_without_a_moment_is_as_new_as_can_be() -> None:
    live = replace(of_stats(delayed=exactly(3)), moment_ms=None)
    assert merged(live, of_wire(delayed=exactly(4))).delayed == exactly(3)


def test_the_incarnations_of_both_are_kept() -> None:
    one, other = of_stats(), of_wire(incarnations=frozenset({1, 2}))
    assert merged(one, other).incarnations == frozenset({1, 2})
    assert merged(other, one).incarnations == frozenset({1, 2})


@pytest.mark.parametrize(("one", "other"), [(False, None), (None, False)])
def test_nothing_needs_to_move_where_either_says_so(one: bool | None, other: bool | None) -> None:
    assert merged(of_stats(durable=one), of_wire(durable=other)).nothing_to_move
    assert not merged(of_stats(), of_wire()).nothing_to_move


@pytest.mark.parametrize("why", ["gap", "refused"])
def test_a_side_whose_numbers_are_not_known_says_nothing(why: str) -> None:
    stats = of_stats(consumer(available_permits=exactly(5)))
    wire = of_wire(
        consumer(available_permits=exactly(9), flows=3), delayed=exactly(4), **{why: "so it is"}
    )
    for both in (merged(stats, wire), merged(wire, stats), merged(wire, replace(stats))):
        assert both == replace(stats, sources=WIRE | STATS)


def test_where_neither_is_known_the_newer_reason_is_kept() -> None:
    both = merged(of_stats(refused="nobody"), of_wire(gap="missing", ago=60))
    assert (both.refused, both.gap) == ("nobody", None)
    both = merged(of_stats(gap="missing"), of_wire(refused="nobody", ago=60))
    assert (both.refused, both.gap) == (None, "missing")


@pytest.mark.parametrize("ago", [0, 60])
def test_unacknowledged_messages_are_those_of_who_knows_everybody(ago: float) -> None:
    stats, wire = of_stats(unacked=exactly(30), ago=ago), of_wire(unacked=exactly(10))
    assert merged(stats, wire).unacked == exactly(30)
    assert merged(wire, stats).unacked == exactly(30)
    assert merged(of_wire(unacked=exactly(1)), of_wire(unacked=exactly(2))).unacked is None


BY_MESSAGES = Circulation(recent=(Recent(1.0, 5, 0, 5),), count_most=2)
BY_COUNTERS = Circulation(ever_sent=50, rounds=Rounds(9, 50, sure=True))
BOTH = replace(BY_COUNTERS, recent=BY_MESSAGES.recent, count_most=2)


@pytest.mark.parametrize(
    ("there", "seen", "both"),
    [
        (("a",), ("a",), BOTH),
        (("a",), ("a", "closed"), BOTH),
        (("a", "elsewhere"), ("a",), BY_COUNTERS),
    ],
)
def test_messages_are_counted_one_by_one_where_all_are_seen(
    there: tuple[str, ...], seen: tuple[str, ...], both: Circulation
) -> None:
    stats = of_stats(*map(consumer, there), circulation=BY_COUNTERS)
    wire = of_wire(*map(consumer, seen), circulation=BY_MESSAGES)
    assert merged(stats, wire).circulation == both
    assert merged(wire, stats).circulation == both


def test_only_the_brokers_counters_know_of_consumers_that_left_before_a_trace() -> None:
    rounds = Rounds(197, 4345, sure=True)
    stats = of_stats(consumer(), circulation=replace(BY_COUNTERS, rounds=rounds))
    wire = of_wire(consumer(), circulation=BY_MESSAGES)
    known = replace(BY_MESSAGES, rounds=rounds, ever_sent=BY_COUNTERS.ever_sent)
    assert merged(stats, wire).circulation == known
    assert merged(wire, stats).circulation == known


@pytest.mark.parametrize(
    ("active", "told", "place"),
    [
        ((True, False), 0, 0),
        ((False, True), 1, 1),
        ((True, True), 0, None),  # they do not agree on one
        ((True, False), None, None),  # neither told
    ],
)
def test_the_active_one_is_one(
    active: tuple[bool, bool], told: int | None, place: int | None
) -> None:
    a, b = (consumer(n, number=i, active=active[i]) for i, n in enumerate("ab"))
    wire = of_wire(consumer("b"), consumer("a"), type="Failover")
    assert merged(of_stats(a, b, type="Failover", active=told), wire).active == place


@pytest.mark.parametrize(
    ("type_", "left", "held", "backlog", "both"),
    [
        ("Exclusive", Count(0, 60), exactly(50), BACKLOG, exactly(10)),
        ("Failover", Count(0, 60), exactly(60), BACKLOG, exactly(0)),
        ("Exclusive", Count(0, 60), exactly(70), BACKLOG, exactly(0)),
        ("Exclusive", exactly(3), exactly(50), BACKLOG, exactly(3)),  # the internal stats know
        ("Exclusive", None, exactly(50), BACKLOG, None),
        ("Exclusive", Count(0, 60), None, BACKLOG, Count(0, 60)),
        ("Exclusive", Count(0, 60), at_least(50), BACKLOG, Count(0, 60)),
        ("Shared", Count(0, 60), exactly(50), BACKLOG, Count(0, 60)),  # some may not be due
        ("Exclusive", Count(0, 60), exactly(50), Backlog(60, 55, shown_wrong=1), exactly(5)),
        ("Exclusive", Count(0, 60), exactly(50), Backlog(), Count(0, 60)),
    ],
)
def test_what_is_left_is_what_waits_less_what_is_held(
    type_: str, left: Count | None, held: Count | None, backlog: Backlog, both: Count | None
) -> None:
    stats = of_stats(consumer(unacked_entries=None), type=type_, left=left, backlog=backlog)
    wire = of_wire(consumer(unacked_entries=held), type=type_)
    assert merged(stats, wire).left == both


@pytest.mark.parametrize("names", ["", "ab"])
def test_what_is_left_is_not_told_where_somebody_elses_share_is_not(names: str) -> None:
    told = {"type": "Failover", "left": Count(0, 60)}
    stats = of_stats(*map(consumer, names), **told)
    wire = of_wire(consumer("a", unacked_entries=exactly(50)), type="Failover")
    assert merged(stats, wire).left == Count(0, 60)


@pytest.mark.parametrize(("ago", "ranges"), [(1, 1), (60, 0)])
def test_a_gap_that_the_broker_tells_of_the_same_moment_is_there(ago: float, ranges: int) -> None:
    """A trace does not see it where whoever passed it holds something of its own."""
    stats = of_stats(consumer(), ago=ago, hole=AckHole(1, LONG))
    both = merged(of_wire(consumer(), hole=AckHole(0, LONG)), stats)
    assert both.hole is not None
    assert both.hole.ranges == ranges


def test_a_gap_that_has_gone_is_gone() -> None:
    stats, wire = of_stats(hole=AckHole(0, LONG)), of_wire(ago=1, hole=AckHole(1, LONG))
    both = merged(stats, wire)
    assert both.hole == AckHole(0, LONG)


def test_an_address_stays_as_the_broker_writes_it_so_that_its_process_is_found() -> None:
    """Packets show none of the `/` that a broker writes, whichever of both is newer."""
    captured = consumer(address="10.0.0.7:5000")
    for ago in (0, 1):
        both = merged(of_wire(captured), of_stats(consumer(address="/10.0.0.7:5000"), ago=ago))
        assert one_of(both).address == "/10.0.0.7:5000"
    assert one_of(merged(of_wire(captured), of_stats(consumer()))).address == "10.0.0.7:5000"
