"""The receiver queue size by the stats: known where the first FLOW is the last, else a bound."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_doctor.evidence import by_stats
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.values import Count, at_most, exactly
from tests.causes.stats_script import observed

HOLDS = {"availablePermits": 2, "unackedMessages": 46, "msgOutCounter": 46}


def by(consumer: dict[str, Any], subscription: dict[str, Any] | None = None) -> ConsumerView:
    told = {
        "samples": ["0s"],
        "subscription": subscription or {},
        "consumers": {"w": HOLDS | {"connectedSince": "1h ago"} | consumer},
    }
    view = by_stats.subscription_view(observed(told))
    assert view.consumers is not None
    return view.consumers[0]


@pytest.mark.parametrize(
    ("flow", "size"),
    [
        ("3600s ago", exactly(48)),
        ("3590s ago", at_most(48)),  # 8, and ten refills of 4
        ("never", at_most(48)),
        (None, at_most(48)),
    ],
)
def test_all_that_was_granted_is_the_queue_where_the_first_flow_is_the_last(
    flow: str | None, size: Count
) -> None:
    assert by({"lastConsumedFlowTimestamp": flow}).receiver_queue_size == size


def test_two_permits_may_be_two_flows_of_a_queue_of_0_or_1() -> None:
    batch = {"availablePermits": -98, "unackedMessages": 100, "msgOutCounter": 100}
    assert by(batch | {"lastConsumedFlowTimestamp": "3600s ago"}).receiver_queue_size == at_most(2)


def test_the_first_flow_may_be_told_itself() -> None:
    late = {"lastConsumedFlowTimestamp": "3595s ago"}
    assert by(late | {"firstConsumedFlowTimestamp": "3595s ago"}).receiver_queue_size == exactly(48)
    assert by(late | {"firstConsumedFlowTimestamp": "3596s ago"}).receiver_queue_size == at_most(48)


def test_of_one_that_is_alone_the_subscription_tells() -> None:
    alone = by({"lastConsumedFlowTimestamp": None}, {"lastConsumedFlowTimestamp": "3600s ago"})
    assert alone.receiver_queue_size == exactly(48)


def test_what_was_granted_in_a_long_life_says_nothing() -> None:
    assert (
        by({"msgOutCounter": 90000, "lastConsumedFlowTimestamp": "1s ago"}).receiver_queue_size
        is None
    )


def test_of_one_that_never_asked_it_is_not_known() -> None:
    none = dict.fromkeys(("availablePermits", "unackedMessages", "msgOutCounter"), 0)
    never = by(none | {"lastConsumedFlowTimestamp": "never"})
    assert never.never_sent_flow
    assert never.receiver_queue_size is None
