"""What each sample says of a balance while frames pass: bounds that hold the truth, and narrow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pulsar_doctor.evidence.values import Count
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.parts.capture.bounds import (
    BUCKET_NS,
    BUCKETS_MOST,
    FramesMoved,
    PermitBalance,
    RecentFrames,
)
from tests.ledger.rows import ack, flow, message, opened
from tests.ledger.test_before import stats
from tests.parts.capture.test_naming import Named, flow_of
from tests.parts.tap.tapped import message as message_frame


def test_each_frame_within_the_uncertainty_widens_the_bounds_by_its_own_permits():
    named = Named()
    named.talk.wait(3)
    named.say((0, flow_of(7, 10)))
    named.sample(("a", 10, 0), quiet=0)
    (first,) = named.stats
    assert (first["permits_min"], first["permits_max"]) == (10, 20)
    named.say((1, message_frame(7, b"", 1)), (1, message_frame(7, b"", 2)))
    named.sample(("a", 8, 2), quiet=0)
    last = named.stats[-1]
    assert (last["permits_min"], last["permits_max"]) == (8, 8)  # 6 to 8, and 10 to 20 less 2


@st.composite
def busy_consumer(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """What passes: a FLOW or MESSAGEs, and samples, which are so many frames late or early."""
    steps = st.tuples(
        st.sampled_from(["flow", "message", "sample"]), st.integers(1, 9), st.integers(0, 4)
    )
    return draw(st.lists(steps, min_size=1, max_size=60))


@given(st.integers(-20, 50), busy_consumer())
def test_the_bounds_hold_the_truth_and_never_widen(begins, steps):
    balance, granted, spent, truths, width = PermitBalance(), 0, 0, [begins], None
    moves: list[tuple[int, int]] = []
    for kind, many, off in steps:
        if kind == "sample":
            late = moves[len(moves) - off :] if off else []
            told = truths[-1 - len(late)]
            now = Count(told - sum(s for _, s in late), told + sum(g for g, _ in late))
            found = balance.sampled(now, granted, spent, sets_aside=False)
            assert found is not None
            assert found.least <= truths[-1] <= found.most
            assert width is None or found.most - found.least <= width
            width = found.most - found.least
        else:
            move = (many, 0) if kind == "flow" else (0, many)
            moves.append(move)
            granted, spent = granted + move[0], spent + move[1]
            truths.append(truths[-1] + move[0] - move[1])


def test_a_sample_that_cannot_be_contradicts_those_before():
    balance = PermitBalance()
    assert balance.sampled(Count(10, 12), 0, 0, sets_aside=False) == Count(10, 12)
    assert balance.sampled(Count(30, 31), 5, 0, sets_aside=False) is None
    assert not balance.agreed
    assert balance.sampled(Count(31, 33), 6, 0, sets_aside=False) == Count(31, 32)
    assert balance.agreed


def test_what_passed_longer_ago_than_is_kept_is_not_known():
    recent = RecentFrames()
    for bucket in range(BUCKETS_MOST + 1):
        recent.add(bucket * BUCKET_NS, FramesMoved(1, 0, 0))
    assert recent.since(0) is None
    assert recent.since(BUCKET_NS) == FramesMoved(BUCKETS_MOST, 0, 0)
    assert recent.since((BUCKETS_MOST - 1) * BUCKET_NS) == FramesMoved(2, 0, 0)


def test_a_ledger_between_bounds_is_moved_by_commands_and_narrowed_by_samples():
    timeline = Timeline("t", from_start=False)
    said = [
        opened(),
        stats(7, 10, messages=4, permits_min=8, permits_max=15, messages_min=2, messages_max=6),
        message(1, consumer=7),
        flow(5, 7),
        stats(7, 17, messages=4, permits_min=14, permits_max=17, messages_min=1, messages_max=5),
        ack(1, consumer=7),
    ]
    rows = [timeline.apply(each) for each in said]
    assert [(row.available_permits_min, row.available_permits) for row in rows[1:]] == [
        (8, 15), (7, 14), (12, 19), (14, 17), (14, 17),
    ]  # fmt: skip
    assert [(row.unacked_messages_min, row.unacked_messages) for row in rows[1:]] == [
        (2, 6), (3, 7), (3, 7), (1, 5), (0, 4),
    ]  # fmt: skip
    assert {row.parked_permits for row in rows} == {None}


def test_a_likely_number_is_certain_once_two_samples_agree_with_its_frames():
    timeline = Timeline("t", from_start=False)
    for each in (opened(), stats(7, 10, grade="likely"), stats(7, 10)):
        timeline.apply(each)
        (*_, consumer) = timeline.consumers or [None]
        assert consumer is None or consumer.ledger.likely == (each.grade is not None)
