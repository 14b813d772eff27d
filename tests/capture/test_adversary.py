"""Payloads of whole Pulsar frames, torn where it hurts: what is told is what was said."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.capture.connections import TO_BROKER, TO_CLIENT
from pulsar_doctor.capture.packets import segment_of
from tests.capture.torn import PAUSES, Torn, check, marked, true


@pytest.mark.parametrize("way", [TO_BROKER, TO_CLIENT])
@pytest.mark.parametrize("pause", PAUSES)
def test_a_pause_within_a_payload_that_is_no_silence_proves_nothing(way, pause):
    torn = Torn()
    fakes = [marked(way, n) for n in range(9)]
    whole = true(way, 1, b"".join(fakes))
    at = len(whole) - len(b"".join(fakes))
    torn.say(way, whole[:at])
    for each in fakes:
        torn.say(way, each, pause, PAUSES[pause])
    torn.say(way, true(way, 2, None))
    assert check(torn, torn.talk.packets[torn.begins + 2 :])[way] == 0


@pytest.mark.parametrize("way", [TO_BROKER, TO_CLIENT])
def test_a_stall_within_a_payload_and_a_silence_behind_it_invent_nothing(way):
    torn = Torn()
    fakes = [marked(way, n) for n in range(9)]
    whole = true(way, 1, b"".join(fakes))
    at = len(whole) - len(b"".join(fakes[4:]))
    torn.say(way, whole[:40]).say(way, whole[40:at], "honest", 4.0)
    torn.say(way, whole[at:], "honest", 4.0)
    for n in range(3):
        torn.say(way, true(way, n + 2, None))
    assert check(torn, torn.talk.packets[torn.begins + 2 :])[way] == 3


def test_one_silence_alone_is_not_believed():
    torn = Torn()
    fakes = b"".join(marked(TO_CLIENT, n) for n in range(9))
    whole = true(TO_CLIENT, 1, fakes)
    at = len(whole) - len(fakes)
    torn.say(TO_CLIENT, whole[:at], "honest", 4.0)
    torn.say(TO_CLIENT, whole[at:])
    torn.say(TO_CLIENT, true(TO_CLIENT, 2, b""))
    assert check(torn, torn.talk.packets[torn.begins + 1 :])[TO_CLIENT] == 0


@st.composite
def torn_talks(draw: st.DrawFn) -> Torn:
    """Both directions, with every pause that is allowed where a frame of a payload ends."""
    torn = Torn(draw(st.integers(30, 400)))
    stalls = [draw(st.booleans()), draw(st.booleans())]
    for number in range(draw(st.integers(1, 10))):
        way = draw(st.sampled_from([TO_BROKER, TO_CLIENT]))
        held = [marked(way, n) for n in draw(st.lists(st.integers(0, 9), max_size=6))]
        payload = None if draw(st.booleans()) else b"".join(held)
        whole = true(way, number, payload)
        parts = [whole[: len(whole) - len(payload or b"")], *(held if payload is not None else [])]
        for part in parts[:-1]:
            pause = draw(st.sampled_from(["none", "none", *PAUSES, "honest"]))
            if pause == "honest" and not stalls[way]:
                pause = "none"
            stalls[way] = stalls[way] and pause != "honest"
            torn.say(way, part, pause, PAUSES.get(pause, 2.0))
        torn.say(way, parts[-1], draw(st.sampled_from(["none", "honest"])), 2.0)
    torn.talk.close()
    return torn


SMALL = 5 << 20, 400, 120


@settings(max_examples=400, deadline=None)
@given(torn_talks(), st.floats(0, 1), st.sampled_from(SMALL))
def test_joined_anywhere_between_all_pauses_nothing_is_invented(torn, share, most):
    check(torn, torn.talk.packets[int(share * len(torn.talk.packets)) :], most)


@settings(max_examples=400, deadline=None)
@given(torn_talks(), st.integers(1, 40), st.randoms(use_true_random=False))
def test_with_data_lost_anywhere_nothing_is_invented_and_nothing_is_forgotten_in_silence(
    torn, percent, chance
):
    """What an end says without data is not lost: it tells an honest pause from the others."""
    packets = []
    for packet in torn.talk.packets:
        segment = segment_of(packet.link, packet.data, packet.wire_bytes)
        if not segment.data or chance.random() * 100 >= percent:
            packets.append(packet)
    check(torn, packets)


@pytest.mark.parametrize("tail", [1, 1448, 2896])
def test_a_hole_that_ends_with_the_payload_is_not_passed_over(tail):
    torn = Torn()
    whole = true(TO_CLIENT, 1, bytes(5 * 1448))
    torn.say(TO_CLIENT, whole[:-tail]).say(TO_CLIENT, whole[-tail:])
    lost = len(torn.talk.packets)
    torn.say(TO_CLIENT, true(TO_CLIENT, 2, None), "honest", 3.0)
    torn.say(TO_CLIENT, true(TO_CLIENT, 3, None), "honest", 3.0)
    torn.say(TO_CLIENT, true(TO_CLIENT, 4, None))
    packets = [*torn.talk.packets[: lost - 2 * -(-tail // 1448)], *torn.talk.packets[lost:]]
    assert check(torn, packets)[TO_CLIENT] >= 3
