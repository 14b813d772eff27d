"""What excludes a cause is a number that was told: a missing one never does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.backlog import Backlog
from pulsar_doctor.diagnosis.ruling_out import ruled_out
from pulsar_doctor.evidence.broker_counts import Throttling
from pulsar_doctor.evidence.circulation import Circulation
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.hole import AckedRanges
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import exactly
from tests.incidents.asking import HYPOTHESES

A, B = ConsumerView(label="a"), ConsumerView(label="b")
BARE = SubscriptionView(
    topic="t", partition=None, subscription="s", type=None, sources=frozenset({STATS}),
    consumers=(A, B),
)  # fmt: skip


def out(view: SubscriptionView) -> set[str]:
    return {each.code for each in ruled_out(view, HYPOTHESES)}


def beside(one: dict[str, Any], other: dict[str, Any], **more: Any) -> SubscriptionView:
    return replace(BARE, consumers=(replace(A, **one), replace(B, **other)), **more)


@pytest.mark.parametrize("of", HYPOTHESES, ids=lambda of: of.code)
@pytest.mark.parametrize("consumers", [None, (A, B)], ids=["nobody told", "two of them"])
@pytest.mark.parametrize("kind", [None, "Exclusive", "Failover", "Shared", "Key_Shared"])
def test_with_nothing_told_nothing_is_excluded_but_by_the_type(
    of: Any, consumers: Any, kind: str | None
) -> None:
    of_types = {
        "prefetch-hogging": {"Shared"},
        "inactive-failover": {"Failover"},
        "key-shared-blocked": {"Key_Shared"},
        "blocked-on-unacked-subscription": {"Shared", "Key_Shared"},
    }
    may_be = kind is None or kind in of_types.get(of.code, {kind})
    assert (of.code in out(replace(BARE, consumers=consumers, type=kind))) == (not may_be)


NONE, SOME, MANY = exactly(0), exactly(5), exactly(90)
NAMED = {"name": "w"}, {"name": "v"}

EXCLUDED = {
    "permits-exhausted, asked and holds nothing": (
        "permits-exhausted",
        beside(*[{"unacked_messages": NONE, "permits_granted": SOME}] * 2),
        {"permits_granted", "unacked_messages"},
    ),
    "permits-exhausted, permits": (
        "permits-exhausted",
        beside(*[{"available_permits": SOME}] * 2),
        {"available_permits"},
    ),
    "slow": (
        "slow-but-progressing",
        beside(*[{"unacked_messages": NONE}] * 2),
        {"unacked_messages"},
    ),
    "below zero": (
        "negative-permits",
        beside(*[{"available_permits": SOME}] * 2),
        {"available_permits"},
    ),
    "leak": (
        "permit-leak",
        beside(*[{"permits_owed": SOME, "refill_threshold": 9}] * 2),
        {"permits_owed"},
    ),
    "zero queue": (
        "zero-queue-unsupported",
        beside(
            *[{"permits_granted": SOME, "unacked_messages": SOME, "available_permits": NONE}] * 2
        ),
        {"permits_granted", "unacked_messages"},
    ),
    "flag": (
        "blocked-on-unacked-consumer",
        beside(*[{"blocked_consumer_on_unacked_msgs": False}] * 2),
        {"blocked_consumer_on_unacked_msgs"},
    ),
    "acks": ("not-acknowledging", beside(*[{"acked": True}] * 2), {"acked"}),
    "hogging, nobody could receive": (
        "prefetch-hogging",
        beside(*[{"available_permits": NONE, "unacked_messages": SOME}] * 2),
        {"available_permits"},
    ),
    "keys": ("key-shared-blocked", beside(*[{"unacked_messages": NONE}] * 2), {"unacked_messages"}),
    "standby": (
        "inactive-failover",
        beside(*[{"available_permits": SOME}] * 2),
        {"available_permits"},
    ),
    "names": ("exclusive-zombie", beside(*NAMED), {"name"}),
}
OF_ALL = {
    "broker-read-stuck": {"delivered": 7},
    "no-consumer": {"attended": True},
    "ack-hole": {"ranges": AckedRanges(0, 10_000, None)},
    "holes-over-limit": {"ranges": AckedRanges(20, 10_000, None)},
    "dispatch-throttled": {"throttling": Throttling(0, (), 0.0)},
    "redelivery-storm": {
        "circulation": Circulation(ever_sent=0),
        "consumers": tuple(replace(each, connected_for=Age(300_000, True)) for each in (A, B)),
    },
    "delayed-messages": {"delayed": NONE, "attended": True},
    "backlog-counter-wrong": {"backlog": Backlog(5, 5)},
}


@pytest.mark.parametrize("case", EXCLUDED)
def test_a_consumer_of_which_the_deciding_number_is_missing_may_be_it(case: str) -> None:
    code, view, fields = EXCLUDED[case]
    assert code in out(view)
    first, second = view.consumers or ()
    for field in fields:
        for consumers in (
            (replace(first, **{field: None}), second),
            (first, replace(second, **{field: None})),
        ):
            assert code not in out(replace(view, consumers=consumers)), field


@pytest.mark.parametrize("code", OF_ALL)
def test_a_subscription_of_which_the_deciding_number_is_missing_may_be_it(code: str) -> None:
    assert code in out(replace(BARE, **OF_ALL[code]))
    assert code not in out(replace(BARE, **dict.fromkeys(OF_ALL[code])))


def test_parts_of_a_number_may_be_missing() -> None:
    sent = replace(BARE, circulation=Circulation(ever_sent=None))
    assert "redelivery-storm" not in out(sent)
    half = replace(BARE, backlog=Backlog(5, None))
    assert "backlog-counter-wrong" not in out(half)
    many = replace(BARE, ranges=AckedRanges(4000, None, None))  # of a limit that nobody told
    assert "holes-over-limit" not in out(many)
