"""A pace by a trace: of all its life, until something nearer says else."""

from __future__ import annotations

import pytest

from pulsar_doctor.evidence.wire_pace import Outlook
from pulsar_doctor.ledger.balance import Ledger
from tests.ledger.rows import ack, flow, message
from tests.ledger.test_permits import play, ready

HOUR = 3600.0


def worked(*acked: tuple[float, float], first: float = 0.0, sent: int = 1000) -> Ledger:
    """One that is sent so many at once. acked: seconds for each message, and until when."""
    rows = [flow(sent), *(message(number, at=first) for number in range(sent))]
    at, number = first, 0
    for seconds, until in acked:
        while at + seconds <= until:
            at += seconds
            rows.append(ack(number, at=at))
            number += 1
    return play(ready(), *rows)


def seconds(ledger: Ledger, now: float) -> float:
    found = Outlook.of(ledger, round(now * 1e9)).pace
    assert found is not None
    return found.seconds


@pytest.mark.parametrize("each", [40.0, 71.0, 310.0])
@pytest.mark.parametrize("phase", [0.01, 0.3, 0.6, 0.99])
def test_slow_work_has_one_pace_at_every_phase_however_long_it_lasts(
    each: float, phase: float
) -> None:
    ledger = worked((each, 500 * each))
    assert seconds(ledger, (500 + phase) * each) == pytest.approx(each)


def test_a_fast_one_that_became_slow_is_judged_by_what_is_nearer() -> None:
    ledger = worked((0.1, 50.0), (25.0, 400.0))
    assert seconds(ledger, 401.0) == pytest.approx(25.0, rel=0.25)


def test_a_slow_one_that_has_recovered_is_judged_by_the_last_minute() -> None:
    ledger = worked((100.0, HOUR), (0.5, HOUR + 120.0))
    assert seconds(ledger, HOUR + 120.0) == pytest.approx(0.5, rel=0.1)


def test_acks_of_many_at_once_contradict_nothing() -> None:
    """One ack of 50 messages every 50 s: in a minute there are 50, or 100."""
    rows = [flow(1000), *(message(number, at=0.0) for number in range(1000))]
    for turn in range(1, 11):
        rows.append(ack(50 * turn - 1, at=50.0 * turn, type="cumulative"))
    ledger = play(ready(individual=False), *rows)
    for now in (501.0, 525.0, 549.0):
        assert seconds(ledger, now) == pytest.approx(1.0)


def test_what_a_client_takes_ahead_is_not_done() -> None:
    """Go asks again for what waits in its channel: 10 messages that nobody has worked on."""
    rows = [flow(5), *(message(number, at=0.0) for number in range(5))]
    rows += [flow(2, at=0.0) for _ in range(5)]
    rows += [message(number, at=0.0) for number in range(5, 15)]
    for turn in range(6):
        rows.append(ack(turn, at=60.0 * (turn + 1)))
        if turn % 2:
            rows += [flow(2, at=60.0 * (turn + 1)), message(15 + turn, at=60.0 * (turn + 1))]
    assert seconds(play(ready(), *rows), 365.0) == pytest.approx(60.0)
