"""What the broker can have had, where FLOWs reach it later and messages have left it earlier."""

from __future__ import annotations

from random import Random

import pytest

from pulsar_doctor.wire.columns import Row
from tests.parts.tap.passing import MARGIN_NS, STEPS_MOST, Passing

MS = 1_000_000
START = 10**12  # the relay's clock


def passing(moves: list[tuple[int, int]], permits: int | None = 0) -> Passing:
    """moves: (milliseconds at the tap, permits more or fewer)."""
    made, available = Passing(permits), permits or 0
    for seq, (at_ms, change) in enumerate(sorted(moves)):
        available += change
        row = Row()
        row.seq, row.mono_ns, row.available_permits = seq, START + at_ms * MS, available
        made.add(row, moves=True)
    return made


def bounds(made: Passing, from_ms: int, until_ms: int) -> tuple[int, int] | None:
    told = made.between(START + from_ms * MS, START + until_ms * MS)
    return None if told is None else (told.low, told.high)


def test_a_flow_may_not_be_there_yet_and_a_message_may_have_been_spent_before():
    made = passing([(0, 10), (1000, 5), (1400, -3)])
    assert bounds(made, 500, 510) == (10, 10)
    assert bounds(made, 1000, 1010) == (10, 15)
    assert bounds(made, 1230, 1240) == (12, 15)  # the FLOW is there, the message about to leave
    assert bounds(made, 1400, 1410) == (12, 15)
    assert bounds(made, 1700, 1710) == (12, 12)


def test_what_only_one_side_of_the_way_allows_is_outside():
    made = passing([(1000, 5), (1005, -5)])
    assert bounds(made, 1000, 1001) == (-5, 5)
    assert bounds(made, 1300, 1301) == (0, 0)


@pytest.mark.parametrize("seed", range(200))
def test_a_broker_at_any_distance_up_to_the_margin_is_inside(seed):
    chance = Random(seed)
    margin = MARGIN_NS // MS
    at_tap, at_broker = [(0, 100)], [(0, 100)]
    for at_ms in sorted(chance.sample(range(300, 4000), chance.choice((3, 30, 600)))):
        late = chance.randint(0, margin)
        if chance.random() < 0.2:  # a FLOW passes the tap first
            change = chance.randint(1, 20)
            at_tap.append((at_ms, change))
            at_broker.append((at_ms + late, change))
        else:
            at_tap.append((at_ms + late, -1))
            at_broker.append((at_ms, -1))
    made = passing(at_tap)
    for _ in range(50):
        from_ms = chance.randint(300, 4000)
        until_ms = from_ms + chance.randint(1, 100)
        answered = chance.randint(from_ms, until_ms)
        permits = sum(change for at_ms, change in at_broker if at_ms <= answered)
        told = bounds(made, from_ms, until_ms)
        assert told is not None
        assert told[0] <= permits <= told[1]


def test_what_was_before_its_first_row_or_is_forgotten_is_not_known():
    met = passing([(1000, 5), (2000, 1)], permits=None)
    assert bounds(met, 1000, 1001) is None
    assert bounds(met, 1500, 1501) is not None
    long = passing([(20 * n, 1) for n in range(STEPS_MOST + 100)])
    assert bounds(long, 1000, 1001) is None
    assert bounds(long, 9000, 9001) is not None
    assert len(long._steps) == STEPS_MOST
