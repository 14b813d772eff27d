"""When a subscription reaches a limit at its pace, and what happens then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsar_doctor.evidence.balance import balance_of
from pulsar_doctor.evidence.by_stats import subscription_view
from pulsar_doctor.evidence.deadlines import Deadline, deadlines_of
from pulsar_doctor.evidence.hole import AckedRanges
from pulsar_doctor.evidence.policies import Policies
from pulsar_doctor.evidence.subscription import SubscriptionView
from tests.causes.stats_script import observed
from tests.evidence.test_balance import SLOW

HOUR = 3600


def of(policies: Policies, **changes: object) -> tuple[Deadline, ...]:
    view = replace(SLOW, policies=policies, **changes)  # type: ignore[arg-type]
    return deadlines_of(view, balance_of(view))


@pytest.mark.parametrize(
    ("policies", "limit", "seconds", "effect"),
    [
        # 80 messages of 100 bytes more each second, of 28.8 MB that are left.
        (
            Policies(
                quota_bytes=92_800_000,
                quota_effect="producer_request_hold",
                used_bytes=64_000_000,
                message_bytes=100,
            ),
            "backlog-quota-size", HOUR, "holds producers",
        ),
        # The oldest grows older by two seconds in three.
        (
            Policies(ttl_seconds=4 * HOUR, oldest_seconds=2 * HOUR),
            "message-ttl", 3 * HOUR, "expire",
        ),
        (Policies(quota_seconds=HOUR, oldest_seconds=2 * HOUR), "backlog-quota-age", 0, "refuses"),
        # 639,000 that came in at 120 a second: the first of them 89 minutes ago.
        (Policies(ttl_seconds=3 * HOUR), "message-ttl", 1.5 * (3 * HOUR - 640_000 / 120), "expire"),
    ],
)  # fmt: skip
def test_a_limit_is_reached_at_the_present_pace(
    policies: Policies, limit: str, seconds: float, effect: str
) -> None:
    (found,) = of(policies)
    assert found.limit == limit
    assert found.seconds == pytest.approx(seconds)
    assert effect in found.effect


def test_the_soonest_is_the_first() -> None:
    found = of(Policies(quota_seconds=9 * HOUR, ttl_seconds=8 * HOUR))
    assert [each.limit for each in found] == ["message-ttl", "backlog-quota-age"]


RANGES = AckedRanges(4001, 10_000, None, grew=60)
STILL = replace(SLOW, msg_rate_out=120.0, watched_seconds=10.0, ranges=RANGES)


def test_acknowledged_ranges_reach_their_limit_at_any_pace() -> None:
    for view in (STILL, replace(STILL, msg_rate_out=40.0)):
        (found,) = deadlines_of(view, balance_of(view))
        assert (found.limit, found.seconds) == ("acknowledged-ranges", pytest.approx(1000))


@pytest.mark.parametrize(
    ("ranges", "moved", "grew"),
    [([10, 40, 70], "1h ago", 60), ([10, 40, 70], "5s ago", None), ([70, 10, 40], "1h ago", None)],
)
def test_ranges_become_more_only_while_mark_delete_stands(
    ranges: list[int], moved: str, grew: int | None
) -> None:
    subscription = {
        "lastMarkDeleteAdvancedTimestamp": moved,
        "nonContiguousDeletedMessagesRanges": ranges,
    }
    view = subscription_view(observed({"subscription": subscription}))
    assert view.ranges is not None
    assert view.ranges.grew == grew


def test_the_limit_of_ranges_is_that_of_the_version() -> None:
    view = replace(STILL, ranges=replace(RANGES, limit=None, by_default=200_000))
    assert deadlines_of(view, balance_of(view))[0].seconds == pytest.approx(196_000 / 6)


@pytest.mark.parametrize(
    "view",
    [
        replace(STILL, ranges=replace(RANGES, grew=None)),
        replace(STILL, ranges=replace(RANGES, grew=5)),  # that may be chance
        replace(STILL, ranges=replace(RANGES, count=10_002)),  # a finding of its own
        replace(STILL, durable=False),
    ],
)
def test_what_does_not_grow_or_is_not_kept_reaches_no_limit(view: SubscriptionView) -> None:
    assert deadlines_of(view, balance_of(view)) == ()


def test_what_catches_up_reaches_none() -> None:
    assert of(Policies(ttl_seconds=1), msg_rate_out=500.0) == ()


def test_no_limit_is_no_deadline() -> None:
    assert of(Policies(used_bytes=1, message_bytes=1)) == ()
