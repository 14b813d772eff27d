"""When a sender has had nothing to say, though nothing kept it from it; what a stream waits for."""

from __future__ import annotations

import pytest

from pulsar_doctor.parts.capture.boundaries import Boundaries
from pulsar_doctor.parts.capture.connections import TO_BROKER
from pulsar_doctor.parts.capture.silences import SILENCE_NS, Quiet
from pulsar_doctor.parts.capture.streams import WAIT_NS, WRAP, Hole, Stream
from pulsar_doctor.wire.framing import DEFAULT_MAX_MESSAGE_BYTES
from tests.parts.tap.tapped import flow

WINDOW = 512


def quiet(acked: int, window: int) -> Quiet:
    """Its sender has said 100 bytes, of which so many are acknowledged."""
    sender = Quiet()
    sender.heard(0, WINDOW, 0)
    sender.sent(100, 0)
    sender.heard(acked, window, 0)
    return sender


def test_a_sender_is_silent_a_second_after_all_was_acknowledged_and_there_is_room():
    sender = quiet(100, WINDOW)
    assert sender.silent_at(SILENCE_NS - 1) is None
    assert sender.silent_at(SILENCE_NS) == 100


@pytest.mark.parametrize("acked", [0, 99])
def test_who_waits_for_an_acknowledgement_is_not_silent(acked):
    assert quiet(acked, WINDOW).silent_at(9 * SILENCE_NS) is None


@pytest.mark.parametrize(("window", "stands"), [(0, None), (WINDOW // 2 - 1, None), (256, 100)])
def test_whose_receiver_has_no_room_is_not_silent(window, stands):
    assert quiet(100, window).silent_at(9 * SILENCE_NS) == stands


def test_room_counts_from_when_it_opens():
    sender = quiet(100, 0)
    sender.heard(100, WINDOW, 5 * SILENCE_NS)
    assert sender.silent_at(6 * SILENCE_NS - 1) is None
    assert sender.silent_at(6 * SILENCE_NS) == 100


@pytest.mark.parametrize(("away", "lost"), [(WRAP // 4 - 1, WRAP // 4 - 1), (WRAP // 4, 0)])
def test_an_acknowledgement_far_ahead_of_the_stream_is_no_hole(away, lost):
    stream = Stream()
    stream.opened(6)
    stream.acknowledged(7 + away)
    assert stream.gap == lost
    assert stream.take(0) == []
    assert stream.take(WAIT_NS) == ([Hole(lost, "missing")] if lost else [])


@pytest.mark.parametrize(("proven_only", "joined"), [(False, True), (True, False)])
def test_two_silences_join_a_direction_unless_only_what_is_proven_counts(proven_only, joined):
    bounds = Boundaries(TO_BROKER, DEFAULT_MAX_MESSAGE_BYTES, proven_only=proven_only)
    bounds.join(0)
    for number in range(2):
        bounds.feed(flow(number + 1), 0)
        bounds.silence()
    assert (bounds.in_step, bounds.likely_joins) == (joined, int(joined))
    assert bool(bounds.feed(flow(3), 0)) is joined
