"""Numbers of which the bounds are known: what they say, and two of them together."""

from __future__ import annotations

import pytest

from pulsar_doctor.evidence.values import Count, at_least, at_most, exactly, narrowed


@pytest.mark.parametrize(
    ("count", "exact", "text"),
    [
        (Count(12, 12), 12, "12"),
        (Count(0, 0), 0, "0"),
        (Count(-19, -19), -19, "-19"),
        (at_least(12), None, "at least 12"),
        (at_least(0), None, "at least 0"),
        (at_most(12), None, "at most 12"),
        (at_most(0), None, "at most 0"),
        (Count(12, 15), None, "12 to 15"),
        (Count(0, 1), None, "0 to 1"),
    ],
)
def test_a_count_says_what_is_known_of_it(count: Count, exact: int | None, text: str) -> None:
    assert count.exact == exact
    assert str(count) == text


def test_what_is_not_told_is_no_count() -> None:
    assert exactly(None) is None
    assert exactly(0) == Count(0, 0)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (exactly(5), exactly(5), exactly(5)),
        (exactly(5), exactly(6), None),
        (exactly(5), at_least(5), exactly(5)),
        (exactly(5), at_least(6), None),
        (exactly(5), at_most(5), exactly(5)),
        (exactly(5), at_most(4), None),
        (at_least(2), at_most(5), Count(2, 5)),
        (at_least(5), at_most(5), exactly(5)),
        (at_least(6), at_most(5), None),
        (at_least(2), at_least(5), at_least(5)),
        (at_most(2), at_most(5), at_most(2)),
        (Count(0, 10), Count(5, 20), Count(5, 10)),
        (Count(0, 1), Count(2, 3), None),
        (at_least(0), at_most(0), exactly(0)),
        (Count(-20, -10), at_least(-15), Count(-15, -10)),
    ],
)
def test_two_counts_of_one_thing_narrow_each_other(
    one: Count, other: Count, both: Count | None
) -> None:
    assert narrowed(one, other) == both
    assert narrowed(other, one) == both
