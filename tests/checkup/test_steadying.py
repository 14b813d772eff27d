"""A watch: worse at once, better after two rounds in a row, and each change told with its time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_doctor.checkup.steadying import Steadying
from pulsar_doctor.diagnosis.status import Status
from tests.report.checkups import AT, STATUSES, checkup, verdict

LETTERS: dict[str, Status] = {each[0]: each for each in STATUSES}


def shown(rounds: str, *, alone: bool = False) -> tuple[str, list[str]]:
    """What is shown of s after each round, by its first letter, and the changes that are told."""
    steadying, letters, told = Steadying(), "", []
    for number, letter in enumerate(rounds):
        run = checkup([verdict(LETTERS[letter], "s")], checked_at=AT + timedelta(seconds=number))
        [one] = steadying.through(run, alone=alone).examined()
        assert one.steady is not None
        assert one.steady.alone == LETTERS[letter]
        assert one.status == (LETTERS[letter] if alone else one.steady.status)
        assert run.tally.counts[one.steady.status] == 1
        letters += one.steady.status[0]
        told += [str(change) for change in steadying.changes]
    return letters, told


@pytest.mark.parametrize(
    ("rounds", "steady"),
    [
        ("hshshshs", "hsssssss"),  # it does not flip
        ("hsh", "hss"),  # one round takes nothing back
        ("hshh", "hssh"),
        ("swwh", "sswww"[:4]),
        ("swh", "ssw"),
        ("suuu", "ssuu"),  # what is unknown takes nothing back at once
        ("wuhh", "wwuh"),
        ("huhh", "huuh"),
        ("uhh", "uuh"),
        ("hws", "hws"),
    ],
)
def test_worse_at_once_better_after_two_rounds(rounds: str, steady: str) -> None:
    assert shown(rounds)[0] == shown(rounds, alone=True)[0] == steady


@given(st.text("swuh", min_size=1, max_size=12))
def test_nothing_is_better_than_the_round_and_two_alike_are_what_is_shown(rounds: str) -> None:
    steady, _ = shown(rounds)
    for at, (alone, now) in enumerate(zip(rounds, steady, strict=True)):
        assert "swuh".index(now) <= "swuh".index(alone)
        if at and rounds[at - 1] == alone:
            assert now == alone


def test_each_change_is_told_with_its_time() -> None:
    place = "s on public/default/orders"
    assert shown("hhsshh")[1] == [
        f"12:00:02 {place}: healthy -> stalled permits-exhausted of worker-3",
        f"12:00:05 {place}: stalled -> healthy",
    ]
    assert shown("ssss")[1] == []


def test_what_is_shown_has_the_findings_of_then_and_the_backlog_of_now() -> None:
    steadying = Steadying()
    list(steadying.through(checkup([verdict("stalled", "s", backlog=498)]), alone=False).examined())
    run = steadying.through(checkup([verdict("healthy", "s", backlog=7)]), alone=False)
    [one] = run.examined()
    assert (one.status, one.findings[0].code, one.backlog) == ("stalled", "permits-exhausted", 7)


def test_what_comes_goes_or_could_not_be_read() -> None:
    steadying = Steadying()

    def after(*names: str, unreachable: tuple[tuple[str, str], ...] = ()) -> list[str]:
        told = [verdict("stalled" if name == "bad" else "healthy", name) for name in names]
        run = steadying.through(checkup(told, unreachable=unreachable), alone=False)
        list(run.examined())
        return [str(change).partition(" ")[2] for change in steadying.changes]

    assert after("bad") == []
    assert after("bad", "well") == []
    assert after(unreachable=(("persistent://public/default/orders", "no answer"),)) == []
    assert after("bad", "well") == []
    assert after("well") == []
    place = "bad on public/default/orders"
    assert after("bad", "well") == [f"{place}: new -> stalled permits-exhausted of worker-3"]


def test_a_round_that_could_not_read_takes_nothing_back() -> None:
    steadying = Steadying()
    list(steadying.through(checkup([verdict("stalled", "s")]), alone=False).examined())
    no_answer = (("persistent://public/default/orders", "no answer"),)
    list(steadying.through(checkup([], unreachable=no_answer), alone=False).examined())
    for status in ("stalled", "healthy"):  # the first that is well, and the second
        run = steadying.through(checkup([verdict("healthy", "s")]), alone=False)
        assert [each.status for each in run.examined()] == [status]


def test_partitions_are_apart() -> None:
    steadying, one = Steadying(), verdict("stalled", "s", partition=0)
    two = replace(verdict("healthy", "s"), partition=1)
    list(steadying.through(checkup([one, two]), alone=False).examined())
    now = [verdict("healthy", "s", partition=number) for number in (0, 1)]
    found = list(steadying.through(checkup(now), alone=False).examined())
    assert [each.status for each in found] == ["stalled", "healthy"]
