"""Where a consumer is, in a few words."""

from __future__ import annotations

import pytest

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.evidence.whereabouts import Whereabouts
from pulsar_doctor.report.words import whereabouts

SINCE = "2026-05-01T10:00:00.123456789Z"
pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("since", "age", "says"),
    [
        (SINCE, Age(7_200_000, exact=True), "connected 2 h"),
        (SINCE, Age(7_200_000, exact=False), "connected since 2026-05-01T10:00:00Z"),
        (SINCE, Age(0, exact=False), "connected since 2026-05-01T10:00:00Z"),
        (SINCE, None, "connected since 2026-05-01T10:00:00Z"),
        (None, Age(7_200_000, exact=False), "connected at least 2 h"),
        (None, Age(0, exact=False), ""),
        (None, None, ""),
    ],
)
def test_for_how_long_it_is_connected_or_since_when(
    since: str | None, age: Age | None, says: str
) -> None:
    assert whereabouts(Whereabouts(connected_since=since, connected=age)) == says
