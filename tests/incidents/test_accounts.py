"""Accounts of one moment by every source: none is beside the truth, and no two contradict."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest

from pulsar_doctor.evidence.account import Account, account_of
from pulsar_doctor.evidence.values import Count
from tests.incidents.moments import Moment, incident
from tests.incidents.questions import Asked, answers

Key = tuple[str, str | None]
FEW, MANY = range(12), range(12, 120)


def places(account: Account) -> dict[Key, Count]:
    """How many entries are in each, as far as that is reported."""
    known = {(each.name, each.consumer): each.entries for each in account.places}
    return {key: count for key, count in known.items() if count is not None}


def apart(one: Count, other: Count) -> bool:
    """Whether no number is within the bounds of both."""
    least = max(one.least or 0, other.least or 0)
    return any(each.most is not None and each.most < least for each in (one, other))


def wrong(moment: Moment, said: list[Asked]) -> Iterator[str]:
    """What cannot be, in sentences."""
    accounts = [(each, account_of(each.seen)) for each in said if each.seen.gap is None]
    for each, account in accounts:
        for place in account.places:
            truth = moment.truth.consumers.get(place.consumer or "")
            if place.name != "held" or truth is None or place.messages is None:
                continue
            exact = Count(truth.unacked, truth.unacked)
            if apart(place.messages, exact):
                yield f"{each.who}: {place.consumer} holds {exact}, not {place.messages}"
    for (one, first), (other, second) in combinations(accounts, 2):
        mine, theirs = places(first), places(second)
        for key in mine.keys() & theirs.keys():
            if apart(mine[key], theirs[key]):
                yield f"{key}: {one.who} {mine[key]}, {other.who} {theirs[key]}"


def seed_is_right(seed: int) -> None:
    for moment in incident(seed).moments:
        assert list(wrong(moment, answers(moment))) == []


@pytest.mark.parametrize("seed", FEW)
def test_no_account_is_beside_the_truth_or_another_one(seed: int) -> None:
    seed_is_right(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_the_same_of_many(seed: int) -> None:
    seed_is_right(seed)
